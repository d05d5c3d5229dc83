"""psycopg 3 in ordinary use: what an application does, with the answer it must get. The address is the argument."""

import sys
import threading

import psycopg

address = sys.argv[1]

with psycopg.connect(address, autocommit=True) as connection:
    connection.execute("DROP TABLE IF EXISTS drv_item")
    connection.execute("CREATE TABLE drv_item (id int PRIMARY KEY, name text, price numeric, tags text[], seen timestamptz)")

with psycopg.connect(address) as connection:
    cursor = connection.cursor()
    cursor.executemany(
        "INSERT INTO drv_item (id, name, price, tags) VALUES (%s, %s, %s, %s)",
        [(i, f"item {i}", i * 1.5, ["a", str(i)]) for i in range(100)],
    )
    connection.commit()
    # Its own writes, at once, again and again; from the sixth on the statement is a prepared one.
    for i in range(200):
        cursor.execute("UPDATE drv_item SET price = %s WHERE id = %s", (i, 7))
        connection.commit()
        assert cursor.execute("SELECT price FROM drv_item WHERE id = %s", (7,)).fetchone() == (i,)
        connection.commit()
    assert cursor.execute("SELECT count(*), sum(id) FROM drv_item").fetchone() == (100, 4950)
    assert cursor.execute("SELECT tags FROM drv_item WHERE id = 3").fetchone() == (["a", "3"],)
    # A commit token, prepared too.
    for prepare in (False, True):
        (token,) = cursor.execute("SHOW consort.last_commit", prepare=prepare).fetchone()
        cursor.execute(f"SET consort.not_before = '{token}'", prepare=prepare)
        assert cursor.execute("SHOW consort.not_before", prepare=prepare).fetchone() == (token,)
    connection.commit()
    # Binary results.
    with connection.cursor(binary=True) as binary:
        assert binary.execute("SELECT id, name FROM drv_item WHERE id = %s", (5,)).fetchone() == (5, "item 5")
    # An error, its state, and the session after it; savepoints.
    try:
        cursor.execute("INSERT INTO drv_item (id) VALUES (7)")
        raise AssertionError("a duplicate key went in")
    except psycopg.errors.UniqueViolation as error:
        assert error.diag.constraint_name == "drv_item_pkey"
    connection.rollback()
    with connection.transaction():
        try:
            with connection.transaction():
                cursor.execute("SELECT 1 / 0")
        except psycopg.errors.DivisionByZero:
            pass
        cursor.execute("DELETE FROM drv_item WHERE id = 99")
    # COPY in both directions, a server-side cursor.
    with cursor.copy("COPY drv_item (id, name) FROM STDIN") as copy:
        for i in range(1000, 3000):
            copy.write_row((i, "copied"))
    connection.commit()
    with cursor.copy("COPY (SELECT id FROM drv_item WHERE id >= 1000 ORDER BY id) TO STDOUT") as copy:
        assert [int(row[0]) for row in copy.rows()] == list(range(1000, 3000))
    connection.commit()
    with connection.cursor(name="walk") as walk:
        walk.itersize = 100
        walk.execute("SELECT id FROM drv_item WHERE id >= 1000 ORDER BY id")
        assert sum(1 for _ in walk) == 2000
    connection.commit()

# Pipelines.
with psycopg.connect(address, autocommit=True) as connection, connection.pipeline():
    cursors = [connection.execute("SELECT %s::int + id FROM drv_item WHERE id = %s", (n, 5)) for n in range(50)]
    assert [cursor.fetchone()[0] for cursor in cursors] == [n + 5 for n in range(50)]

# LISTEN and NOTIFY.
with psycopg.connect(address, autocommit=True) as listener, psycopg.connect(address, autocommit=True) as speaker:
    listener.execute("LISTEN drv")
    (process, _) = speaker.execute("SELECT pg_backend_pid(), pg_notify('drv', 'hello')").fetchone()
    heard = next(listener.notifies(timeout=10))
    assert heard.payload == "hello" and heard.pid == process
    # Where clients share connections, the number that a client is told is no process of the server's.
    assert (process == speaker.info.backend_pid) != ("shared" in sys.argv)

# Cancel: a sleep at the primary ends with its own error.
with psycopg.connect(address, autocommit=True) as connection:
    timer = threading.Timer(0.3, connection.cancel)
    timer.start()
    try:
        connection.execute("SELECT pg_sleep(30)")
        raise AssertionError("a cancelled statement went on")
    except psycopg.errors.QueryCanceled:
        pass
    timer.join()
    assert connection.execute("SELECT 1").fetchone() == (1,)

# Levels of isolation; a large result.
with psycopg.connect(address) as connection:
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    assert connection.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
    connection.rollback()
    connection.isolation_level = None
    rows = connection.execute("SELECT a.id, b.name FROM drv_item a, drv_item b WHERE b.id < 100").fetchall()
    assert len(rows) == (99 + 2000) * 99
print(f"psycopg {psycopg.__version__}: all as expected")
