"""asyncpg in ordinary use: every answer is printed, and must be what one plain server says. The address is the argument."""

import asyncio
import datetime
import decimal
import io
import sys

import asyncpg


def say(what, answer):
    print(f"{what}: {answer!r}")


async def refused(what, running):
    try:
        await running
        say(what, "NOT REFUSED")
    except asyncpg.PostgresError as error:
        say(what, (type(error).__name__, error.sqlstate, str(error), error.as_dict().get("constraint_name")))


async def main():
    one, two = await asyncpg.connect(sys.argv[1]), await asyncpg.connect(sys.argv[1])
    await one.execute("DROP TABLE IF EXISTS drv_async; CREATE TABLE drv_async (id int PRIMARY KEY, v text, n int DEFAULT 0)")
    # asyncpg speaks binary alone; each statement is a named one, which it keeps.
    noon = datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, datetime.timezone.utc)
    say("types", tuple(await one.fetchrow(
        "SELECT $1::numeric, $2::timestamptz, $3::jsonb, $4::int[], $5::text[], $6::bytea, $7::bool, $8::int8, $9::text, $10::interval",
        decimal.Decimal("12345678901234567890.0123456789"), noon, '{"a": [1, null]}', [1, None, 3], ["a,b", 'c"d', None],
        b"\0\1\xff\\", True, 2**63 - 1, None, datetime.timedelta(days=1, seconds=2))))
    await one.execute("CREATE TYPE drv_mood AS ENUM ('sad', 'ok')" if not await one.fetchval("SELECT to_regtype('drv_mood')") else "SELECT 1")
    say("own type", await one.fetchval("SELECT ARRAY[$1::drv_mood, 'sad']", "ok"))
    await one.executemany("INSERT INTO drv_async VALUES ($1, $2)", [(i, f"v{i}") for i in range(500)])
    behind = 0
    for i in range(150):
        await one.execute("UPDATE drv_async SET n = $1 WHERE id = 7", i)
        behind += await one.fetchval("SELECT n FROM drv_async WHERE id = $1", 7) != i
        behind += await two.fetchval("SELECT n FROM drv_async WHERE id = $1", 7) != i
    say("reads that missed a write", behind)
    prepared = await one.prepare("SELECT v FROM drv_async WHERE id = $1")
    say("prepared", (await prepared.fetchval(3), [p.name for p in prepared.get_parameters()], [a.name for a in prepared.get_attributes()]))
    # The kept statement behind a change of its table.
    await one.fetch("SELECT * FROM drv_async WHERE id = $1", 1)
    await two.execute("ALTER TABLE drv_async ADD COLUMN more int DEFAULT 5")
    await refused("a kept statement behind DDL", one.fetch("SELECT * FROM drv_async WHERE id = $1", 1))
    say("and once more", [tuple(row) for row in await one.fetch("SELECT * FROM drv_async WHERE id = $1", 1)])
    await two.execute("ALTER TABLE drv_async DROP COLUMN more")
    say("asyncpg prepares again", [tuple(row) for row in await one.fetch("SELECT * FROM drv_async WHERE id = $1", 1)])

    await refused("duplicate key", one.execute("INSERT INTO drv_async VALUES ($1)", 7))
    await refused("no such column", one.fetch("SELECT nothing FROM drv_async"))
    await refused("executemany is one transaction", one.executemany("INSERT INTO drv_async VALUES ($1)", [(9001,), (9002,), (7,)]))
    say("nothing of it", await one.fetchval("SELECT count(*) FROM drv_async WHERE id > 9000"))
    async with one.transaction():
        await one.execute("UPDATE drv_async SET v = 'own' WHERE id = 1")
        try:
            async with one.transaction():
                await one.fetchval("SELECT 1 / $1::int", 0)
        except asyncpg.DivisionByZeroError as error:
            say("in a savepoint", error.sqlstate)
        say("own write", await one.fetchval("SELECT v FROM drv_async WHERE id = 1"))
        say("not yet elsewhere", await two.fetchval("SELECT v FROM drv_async WHERE id = 1"))
    say("elsewhere", await two.fetchval("SELECT v FROM drv_async WHERE id = 1"))
    async with one.transaction(isolation="serializable", readonly=True, deferrable=True):
        say("level", await one.fetchval("SHOW transaction_isolation"))
        say("cursor", sum([1 async for _ in one.cursor("SELECT id FROM drv_async", prefetch=50)]))

    say("copied in", await one.copy_records_to_table("drv_async", records=((i, "copied", 1) for i in range(1000, 3000))))
    out = io.BytesIO()
    say("copied out", (await one.copy_from_query("SELECT id FROM drv_async WHERE id >= $1 ORDER BY id", 1000, output=out), len(out.getvalue())))
    await refused("bad COPY", one.copy_to_table("drv_async", source=io.BytesIO(b"x\ty\tz\n")))
    # A timeout of the client sends a cancel request and waits for the session to be usable again.
    try:
        await one.fetch("SELECT pg_sleep(30)", timeout=0.3)
        say("cancelled", "NOT CANCELLED")
    except asyncio.TimeoutError:
        say("cancelled", await one.fetchval("SELECT 1"))

    heard = asyncio.get_running_loop().create_future()
    await two.add_listener("drv", lambda _, pid, channel, payload: heard.done() or heard.set_result((channel, payload)))
    await one.execute("NOTIFY drv, 'hello'")
    say("notified", await asyncio.wait_for(heard, 10))
    await two.reset()
    await two.close()

    # A pool of eight, all busy; between two users asyncpg sends its reset query.
    async def transfer(worker):
        for _ in range(20):
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute("UPDATE drv_async SET n = n + $2 WHERE id = $1", 50 + worker, 1)
                await connection.execute("UPDATE drv_async SET n = n + $2 WHERE id = $1", 60 + worker, -1)
            total = await pool.fetchval("SELECT sum(n) FROM drv_async WHERE id BETWEEN 50 AND 69")
            if total:
                say("sum", total)

    async with asyncpg.create_pool(sys.argv[1], min_size=8, max_size=8) as pool:
        await asyncio.gather(*[transfer(worker) for worker in range(8)])
        say("transferred", await pool.fetchval("SELECT array_agg(n ORDER BY id) FROM drv_async WHERE id BETWEEN 50 AND 69"))
    await one.close()


asyncio.run(main())
