"""SQLAlchemy over psycopg, Core and ORM: every answer is printed, and must be what one plain server says. The address is the argument."""

import datetime
import decimal
import sys
import threading

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

engine = sa.create_engine(sys.argv[1].replace("postgres:", "postgresql+psycopg:"), pool_size=4)


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "drv_author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    version: Mapped[int] = mapped_column()
    born: Mapped[datetime.datetime | None] = mapped_column(sa.DateTime(timezone=True))
    worth: Mapped[decimal.Decimal | None] = mapped_column(sa.Numeric(30, 10))
    tags: Mapped[list[str] | None] = mapped_column(pg.ARRAY(sa.Text))
    extra: Mapped[dict | None] = mapped_column(pg.JSONB)
    picture: Mapped[bytes | None]
    books: Mapped[list["Book"]] = relationship(back_populates="author", order_by="Book.title", cascade="all, delete-orphan")
    __mapper_args__ = {"version_id_col": version}


class Book(Base):
    __tablename__ = "drv_book"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("drv_author.id"))
    author: Mapped[Author] = relationship(back_populates="books")


def say(what, answer):
    print(f"{what}: {answer!r}")


def refused(what, run):
    try:
        run()
        say(what, "NOT REFUSED")
    except sa.exc.DBAPIError as error:
        say(what, (type(error).__name__, error.orig.sqlstate, error.orig.diag.message_primary, error.orig.diag.constraint_name))


Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
inspector = sa.inspect(engine)
say("reflected", [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns("drv_author")])
say("keys", (inspector.get_pk_constraint("drv_author"), inspector.get_foreign_keys("drv_book"), inspector.get_unique_constraints("drv_author")))

# The ORM: a unit of work, its identity map, what another session sees at once, the version that it checks.
noon = datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, datetime.timezone.utc)
with Session(engine) as session:
    session.add(Author(name="Ada", born=noon, worth=decimal.Decimal("12345678901234567890.0123456789"), tags=["a,b", 'c"d', "NULL"],
                       extra={"a": [1, None, "ä"]}, picture=bytes(range(256)), books=[Book(title="Notes"), Book(title="Letters")]))
    session.add_all([Author(name=f"author {i}", books=[Book(title=f"book {i}.{j}") for j in range(3)]) for i in range(50)])
    session.commit()
with Session(engine) as session:
    ada = session.scalars(sa.select(Author).where(Author.name == "Ada").options(selectinload(Author.books))).one()
    say("types", (ada.born.astimezone(datetime.timezone.utc), ada.worth, ada.tags, ada.extra, ada.picture == bytes(range(256))))
    say("books", [book.title for book in ada.books])
    behind = 0
    for i in range(100):
        ada.worth = decimal.Decimal(i)
        session.commit()
        with Session(engine) as other:
            behind += other.scalars(sa.select(Author.worth).where(Author.name == "Ada")).one() != i
        behind += ada.worth != i
    say("reads that missed a write", behind)
    session.add(Author(name="Ada"))
    refused("duplicate key", session.commit)
    session.rollback()
    with session.begin_nested():
        ada.extra = {"b": 1}
    nested = session.begin_nested()
    refused("in a savepoint", lambda: session.execute(sa.text("SELECT 1 / 0")))
    nested.rollback()
    ada.books.pop()
    session.commit()
    say("behind the savepoint", (ada.extra, [book.title for book in ada.books]))
    with Session(engine) as other:
        other.scalars(sa.select(Author).where(Author.name == "Ada")).one().tags = ["other"]
        other.commit()
    session.get(Author, ada.id, populate_existing=False)
    say("version", (ada.version, ada.tags))
    try:
        with Session(engine) as stale:
            mine = stale.get(Author, ada.id)
            with Session(engine) as other:
                other.get(Author, ada.id).tags = ["first"]
                other.commit()
            mine.tags = ["second"]
            stale.commit()
        say("stale", "NOT REFUSED")
    except sa.orm.exc.StaleDataError:
        say("stale", "refused")

# Core: many rows in one statement, RETURNING, upsert, a streamed result, FOR UPDATE, EXPLAIN's kind of text.
with engine.begin() as connection:
    ids = connection.execute(sa.insert(Book).returning(Book.id, sort_by_parameter_order=True),
                             [{"title": f"many {i}", "author_id": 1} for i in range(2000)]).scalars().all()
    say("inserted in order", (len(ids), ids == sorted(ids)))
    upsert = pg.insert(Author).values(name="Ada", version=1)
    say("upsert", connection.execute(upsert.on_conflict_do_update(index_elements=["name"], set_={"tags": ["upserted"]}).returning(Author.tags)).all())
with engine.connect().execution_options(yield_per=100) as connection:
    say("streamed", sum(1 for _ in connection.execute(sa.select(Book.id))))
    say("grouped", connection.execute(sa.select(Author.id, sa.func.count()).join(Author.books).group_by(Author.id).order_by(Author.id).limit(3)).all())
    say("locked", connection.execute(sa.select(Author.name).where(Author.id == 2).with_for_update(skip_locked=True)).all())
    raw = connection.connection.cursor()
    with raw.copy("COPY drv_book (title, author_id) FROM STDIN") as copy:
        for i in range(100):
            copy.write_row((f"copied {i}", 2))
    connection.connection.commit()
    with raw.copy("COPY (SELECT title FROM drv_book WHERE title LIKE 'copied%' ORDER BY id) TO STDOUT") as copy:
        say("copied", sum(1 for _ in copy.rows()))

# Outside blocks; cancel; levels of isolation, by the engine and by the connection.
with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
    refused("no such table", lambda: connection.execute(sa.text("SELECT * FROM drv_nothing")))
    say("at once", connection.execute(sa.text("SELECT count(*) FROM drv_book")).scalar())
    timer = threading.Timer(0.3, connection.connection.driver_connection.cancel)
    timer.start()
    refused("cancelled", lambda: connection.execute(sa.text("SELECT pg_sleep(30)")))
    timer.join()
    say("behind the cancel", connection.execute(sa.text("SELECT :a ::int"), {"a": 1}).scalar())
for level in "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE":
    with engine.connect().execution_options(isolation_level=level) as connection:
        say(level, connection.execute(sa.text("SHOW transaction_isolation")).scalar())
with engine.connect().execution_options(postgresql_readonly=True) as connection:
    refused("read only", lambda: connection.execute(sa.update(Author).values(tags=[])))


# Eight threads, four connections: counters that must not lose an update.
def count():
    for _ in range(20):
        with Session(engine) as session, session.begin():
            session.execute(sa.update(Author).where(Author.id == 3).values(worth=sa.func.coalesce(Author.worth, 0) + 1))


threads = [threading.Thread(target=count) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with Session(engine) as session:
    say("counted", session.get(Author, 3).worth)
engine.dispose()
