#!/usr/bin/env bash
# pg_get_object_address() refuses what pg_identify_object_as_address() gives for a prefix operator.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1).
# The two functions are each other's inverse: the manual says that the names and arguments of the one can be given to the
# other. For a prefix operator the one gives a single argument, and the other wants exactly two. No spelling of the absent
# left argument is taken: "none", "-" and NULL are refused too. Tools that carry DDL to another server by such addresses
# cannot name prefix operators; to_regoperator('~~~(none,integer)') can.
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


sql <<<"CREATE OPERATOR ~~~ (FUNCTION = int4um, RIGHTARG = int)"
given=$(sql <<<"SELECT object_names, object_args FROM pg_operator o, pg_identify_object_as_address('pg_operator'::regclass, o.oid, 0) WHERE oprname = '~~~'")
refused=0
for arguments in "'{integer}'" "'{none,integer}'" "'{-,integer}'" "'{NULL,integer}'"; do
    sql <<<"SELECT pg_get_object_address('operator', '{public,~~~}', $arguments)" >/dev/null 2>&1 || refused=$((refused + 1))
done
found=$(sql <<<"SELECT to_regoperator('~~~(none,integer)') IS NOT NULL")
echo "PostgreSQL $(sql <<<'SHOW server_version'): given $given; spellings refused: $refused of 4; to_regoperator finds it: $found"
[ "$given $refused $found" = "{public,~~~}|{integer} 4 t" ] || { echo "the behaviour has changed" >&2; exit 1; }
