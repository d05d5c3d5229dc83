#!/usr/bin/env bash
# A prepared statement begins to mean another table, because clients of another database create tables.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1), psycopg 3.2.9.
#
#   PREPARE reads AS SELECT v FROM t     -> "public", also after CREATE TEMP TABLE t: the plan is valid, no name is looked up
#   a statement of the session waits; in another database 1,200 tables are created and dropped
#   EXECUTE reads                        -> "temporary"
#
# The queue of invalidation messages is one for all databases and holds 4,096. A session that is busy takes none in; when it is
# behind by more than the queue holds, it forgets all its caches, plans too, and looks every name up again. The same happens to
# idle sessions on a loaded machine with many connections. So the meaning of a prepared statement whose name has been shadowed
# depends on the load of databases that the session has nothing to do with, and a comparison of two servers must keep other
# DDL away from both.
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
as_server "$bin/pg_ctl" -w -D "$work/data" -l "$work/data/log" \
    -o "-k $work/socket -c listen_addresses= -c fsync=off -c autovacuum=off" start >/dev/null
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "psycopg[binary]==3.2.9"

seen=$("$work/venv/bin/python" - "$work/socket" <<'PY'
import sys
import threading
import psycopg

def connect(database):
    return psycopg.connect(host=sys.argv[1], user="postgres", dbname=database, autocommit=True, prepare_threshold=None)

def meaning(tables):
    """What the statement reads before and after so many tables were made in the other database."""
    session, holder, other = connect("postgres"), connect("postgres"), connect("other")
    # The first temporary object changes the search path: let it be another one.
    session.execute("CREATE TEMP TABLE first (v int)")
    session.execute("PREPARE reads AS SELECT v FROM t")
    session.execute("EXECUTE reads")
    session.execute("CREATE TEMP TABLE t AS SELECT 'temporary'::text AS v")
    before = session.execute("EXECUTE reads").fetchone()[0]
    holder.execute("SELECT pg_advisory_lock(1)")
    waits = threading.Thread(target=lambda: session.execute("SELECT pg_advisory_lock(1)"))
    waits.start()
    pid = session.info.backend_pid
    while not holder.execute("SELECT cardinality(pg_blocking_pids(%s))", [pid]).fetchone()[0]:
        pass
    for _ in range(tables):
        other.execute("CREATE TABLE made (v int)")
        other.execute("DROP TABLE made")
    holder.execute("SELECT pg_advisory_unlock(1)")
    waits.join()
    after = session.execute("EXECUTE reads").fetchone()[0]
    for connection in (session, holder, other):
        connection.close()
    return f"{before} -> {after}"

admin = connect("postgres")
admin.execute("CREATE DATABASE other")
admin.execute("CREATE TABLE t AS SELECT 'public'::text AS v")
print(f"10 tables: {meaning(10)}, 1200 tables: {meaning(1200)}")
PY
)
echo "PostgreSQL $("$bin/psql" -X -A -t -h "$work/socket" -U postgres postgres -c 'SHOW server_version'): $seen"
[ "$seen" = "10 tables: public -> public, 1200 tables: public -> temporary" ] || { echo "the behaviour has changed" >&2; exit 1; }
