#!/usr/bin/env bash
# A real column is compared with one constant as a double, and with several as a real.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1).
# The table has one row, whose real column was given the value 0.1.
#
#   r = 0.1               no row: both sides are double precision, and the real 0.1 is another number
#   r IN (0.1)            no row, as r = 0.1
#   r IN (0.1, 0.2)       the row: two or more constants become an array of the column's type
#   r NOT IN (0.1, 0.2)   no row
#   r IN (0.1, id)        no row: a column in the list leaves one constant, which stands alone
#
# So a second constant that matches nothing brings a row in, and DELETE .. WHERE r NOT IN (0.1) deletes what
# NOT IN (0.1, 0.2) keeps. A translation of IN to a chain of comparisons gives other answers.
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

sql <<<"CREATE TABLE m (id int PRIMARY KEY, r real); INSERT INTO m VALUES (1, 0.1);"
seen=
for condition in "r = 0.1" "r IN (0.1)" "r IN (0.1, 0.2)" "r NOT IN (0.1, 0.2)" "r IN (0.1, id)"; do
    seen+="$(sql <<<"SELECT count(*) FROM m WHERE $condition") "
done
echo "PostgreSQL $(sql <<<'SHOW server_version'): $seen"
[ "$seen" = "0 0 1 0 0 " ] || { echo "the behaviour has changed" >&2; exit 1; }
