#!/usr/bin/env bash
# A Parse message alone takes the snapshot of a REPEATABLE READ transaction, long before anything is executed.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1), asyncpg 0.30.0.
# asyncpg prepares with Parse, Describe and Flush, without a Sync.
#
#   inside:  BEGIN; Parse "SELECT count(*) FROM t"; another client commits a row; Bind, Execute   -> 0 rows
#   outside: Parse "SELECT count(*) FROM t"; BEGIN ISOLATION LEVEL REPEATABLE READ                -> 25001
#
# Parse analysis needs a snapshot, and in this isolation level the first one is the transaction's. Outside a transaction the
# Flush leaves the implicit transaction open with its snapshot, so that the driver's own BEGIN is refused. Middleware that
# labels a transaction with a version at its first Execute labels it too late: the label must be read before Parse.
set -euo pipefail

version=15.18-0+deb12u1
work=$(mktemp -d)
chmod 755 "$work"
stop() {
    [ ! -e "$work/data/postmaster.pid" ] || as_server "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null
    rm -rf "$work"
}
trap stop EXIT
as_server() { if [ "$(id -u)" -eq 0 ]; then runuser -u nobody -- "$@"; else "$@"; fi; }

(cd "$work" && apt-get -q download "postgresql-15=$version" "postgresql-client-15=$version" >/dev/null 2>&1)
for package in "$work"/*.deb; do dpkg -x "$package" "$work/root"; done
bin=$work/root/usr/lib/postgresql/15/bin
mkdir "$work/data" "$work/socket"
[ "$(id -u)" -ne 0 ] || chown nobody "$work/data" "$work/socket"
as_server "$bin/initdb" -A trust -U postgres --no-sync -D "$work/data" >/dev/null
as_server "$bin/pg_ctl" -w -D "$work/data" -l "$work/data/log" -o "-k $work/socket -c listen_addresses= -c fsync=off" start >/dev/null
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps asyncpg==0.30.0 async-timeout==5.0.1

seen=$("$work/venv/bin/python" - "$work/socket" <<'PY'
import asyncio, sys
import asyncpg

COUNT = "SELECT count(*) FROM t"

async def main(socket):
    connect = lambda: asyncpg.connect(host=socket, user="postgres", database="postgres")
    reader, writer = await connect(), await connect()
    await writer.execute("CREATE TABLE t (v int)")
    async with reader.transaction(isolation="repeatable_read"):
        statement = await reader.prepare(COUNT)
        await writer.execute("INSERT INTO t VALUES (1)")
        inside = await statement.fetchval()
    await reader.prepare(COUNT + " ")
    try:
        async with reader.transaction(isolation="repeatable_read"):
            outside = "no error"
    except asyncpg.PostgresError as error:
        outside = error.sqlstate
    print(f"inside: {inside}, outside: {outside}")
    await reader.close()
    await writer.close()

asyncio.run(main(sys.argv[1]))
PY
)
echo "PostgreSQL $("$bin/psql" -X -A -t -h "$work/socket" -U postgres postgres -c 'SHOW server_version'): $seen"
[ "$seen" = "inside: 0, outside: 25001" ] || { echo "the behaviour has changed" >&2; exit 1; }
