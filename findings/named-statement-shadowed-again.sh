#!/usr/bin/env bash
# A prepared statement follows the first temporary table that shadows its table, and not the second one.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1).
# A fresh session prepares "SELECT v FROM t". The plan is looked up again when the effective search path changes. The first
# temporary object of a session changes it, by adding pg_temp. Later temporary objects do not. The statement is executed
# between DROP TABLE pg_temp.t and the second CREATE TEMP TABLE t, which makes a plan for the public table under that path.
#
#   first:  PREPARE, EXECUTE, CREATE TEMP TABLE t, EXECUTE                      -> public, temporary
#   second: .., DROP TABLE pg_temp.t, EXECUTE, CREATE TEMP TABLE t, EXECUTE     -> public, public
#   plain:  the same SELECT, not prepared, at the end                           -> temporary
#
# So the meaning of a name in a prepared statement depends on the history of the session, not on its state. A proxy that
# executes one of the executions elsewhere changes what the next one means.
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
sql() { "$bin/psql" -X -q -A -t -h "$work/socket" -U postgres postgres -v ON_ERROR_STOP=1; }

sql <<<"CREATE TABLE public.t (v text); INSERT INTO public.t VALUES ('public');"
seen=$(sql <<'SQL' | tr '\n' ' '
PREPARE s AS SELECT v FROM t;
EXECUTE s;
CREATE TEMP TABLE t (v text); INSERT INTO pg_temp.t VALUES ('temporary');
EXECUTE s;
DROP TABLE pg_temp.t;
EXECUTE s;
CREATE TEMP TABLE t (v text); INSERT INTO pg_temp.t VALUES ('temporary');
EXECUTE s;
SELECT v FROM t;
SQL
)
echo "PostgreSQL $(sql <<<'SHOW server_version'): $seen"
[ "$seen" = "public temporary public public temporary " ] || { echo "the behaviour has changed" >&2; exit 1; }
