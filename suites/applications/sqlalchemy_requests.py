"""Requests of a web application over SQLAlchemy with its defaults: each one is a transaction (suites/applications.sh)."""

import sys

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

import requests_of

engine = sa.create_engine(sys.argv[1].replace("postgres:", "postgresql+psycopg:"))


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    visits: Mapped[int] = mapped_column(default=0)
    orders: Mapped[list["Order"]] = relationship(order_by="Order.id")


class Order(Base):
    __tablename__ = "purchase"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customer.id"), index=True)
    amount: Mapped[int]


def request(number):
    with Session(engine) as session:
        customer = session.get(Customer, requests_of.one(number))
        eager = session.scalars(
            sa.select(Customer).where(Customer.id.in_(requests_of.two(number))).order_by(Customer.id)
            .options(selectinload(Customer.orders))
        ).all()
        total = session.scalar(sa.select(sa.func.sum(Order.amount)).where(Order.customer_id == customer.id))
        answer = requests_of.answer(customer, customer.orders, [one.orders for one in eager], total)
        if number % 10 == 0:
            customer.visits += 1
            session.add(Order(id=10_000 + number, customer_id=customer.id, amount=number))
        session.commit()
    return answer


requests_of.run(request)
