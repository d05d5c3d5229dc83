"""Requests of a web application over SQLAlchemy with its defaults: each one is a transaction of reads, and some write at its
end. Every answer goes to standard output, the median time of a request to standard error. Arguments: address, number of
requests, and `fill` to make the data first."""

import statistics
import sys
import time

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

CUSTOMERS = 200
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


def fill():
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(Customer(id=n, name=f"customer {n}") for n in range(CUSTOMERS))
        session.flush()
        session.add_all(Order(id=n, customer_id=n * 7 % CUSTOMERS, amount=n) for n in range(5 * CUSTOMERS))
        session.commit()


def request(number):
    with Session(engine) as session:
        customer = session.get(Customer, number % CUSTOMERS)
        eager = session.scalars(
            sa.select(Customer).where(Customer.id.in_([number % 50, number % 60 + 100])).order_by(Customer.id)
            .options(selectinload(Customer.orders))
        ).all()
        total = session.scalar(sa.select(sa.func.sum(Order.amount)).where(Order.customer_id == customer.id))
        answer = (customer.name, customer.visits, [o.amount for o in customer.orders], len(eager), total)
        if number % 10 == 0:
            customer.visits += 1
            session.add(Order(id=10_000 + number, customer_id=customer.id, amount=number))
        session.commit()
    return answer


if "fill" in sys.argv:
    fill()
times = []
for number in range(int(sys.argv[2])):
    begun = time.perf_counter()
    print(number, request(number))
    times.append(time.perf_counter() - begun)
print(f"{1000 * statistics.median(times):.2f} ms", file=sys.stderr)
