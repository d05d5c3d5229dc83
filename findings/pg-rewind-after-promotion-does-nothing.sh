#!/usr/bin/env bash
# pg_rewind right after a promotion ends with success and has rewound nothing.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1).
# A standby b is promoted while the old primary a has a commit more. pg_rewind reads the timeline of b from its control
# file, and that names the old timeline until the checkpoint after the promotion is complete. Until then pg_rewind of a says
# "source and target cluster are on the same timeline", "no rewind required", and exits with 0. Started as a standby of b,
# a refuses: "requested timeline 2 is not a child of this server's history". After a CHECKPOINT at b pg_rewind works.
# The checkpoint is spread over minutes where buffers are dirty.
set -euo pipefail

version=15.18-0+deb12u1
work=$(mktemp -d)
chmod 755 "$work"
stop() {
    for data in "$work"/*/postmaster.pid; do
        [ ! -e "$data" ] || as_server "$bin/pg_ctl" -D "$(dirname "$data")" -m immediate stop >/dev/null
    done
    rm -rf "$work"
}
trap stop EXIT
as_server() { if [ "$(id -u)" -eq 0 ]; then runuser -u nobody -- "$@"; else "$@"; fi; }

(cd "$work" && apt-get -q download "postgresql-15=$version" "postgresql-client-15=$version" >/dev/null 2>&1)
for package in "$work"/*.deb; do dpkg -x "$package" "$work/root"; done
bin=$work/root/usr/lib/postgresql/15/bin
mkdir "$work/socket"
[ "$(id -u)" -ne 0 ] || chown nobody "$work" "$work/socket"
sql() { "$bin/psql" -X -q -A -t -h "$work/socket" -p "$1" -U postgres postgres -v ON_ERROR_STOP=1; }
# A server of this name at this port (a name of its socket alone).
start() { as_server "$bin/pg_ctl" -w -D "$work/$1" -l "$work/$1.log" -o "-k $work/socket -p $2 -c listen_addresses= -c fsync=off -c wal_keep_size=512MB" start >/dev/null; }
# A standby of the server at port 5401.
standby() {
    as_server "$bin/pg_basebackup" -h "$work/socket" -p 5401 -U postgres -D "$work/$1" -R -X stream -c fast
    start "$1" "$2"
}
# Asks until it is so, for 30 s at most.
until_true() {
    local deadline=$((SECONDS + 30))
    until [ "$(sql "$1" <<<"SELECT $2")" = t ]; do [ $SECONDS -lt $deadline ] || { echo "not so within 30 s: $2" >&2; exit 1; }; done
}
as_server "$bin/initdb" -A trust -U postgres --no-sync -k -D "$work/a" >/dev/null
start a 5401

standby b 5402
# Dirty buffers at b: its checkpoint is spread over minutes, as on any server that works.
sql 5401 <<<"CREATE TABLE t (v text); INSERT INTO t VALUES ('kept'); CREATE TABLE much AS SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i;"
until_true 5402 "pg_last_wal_replay_lsn() >= '$(sql 5401 <<<'SELECT pg_current_wal_flush_lsn()')'"
sql 5402 <<<"ALTER SYSTEM SET primary_conninfo = ''" && sql 5402 <<<"SELECT pg_reload_conf()" >/dev/null
until_true 5402 "NOT EXISTS (SELECT FROM pg_stat_wal_receiver)"
sql 5401 <<<"INSERT INTO t VALUES ('lost')"
as_server "$bin/pg_ctl" -w -D "$work/a" -m fast stop >/dev/null
sql 5402 <<<"SELECT pg_promote()" >/dev/null
rewind() { as_server "$bin/pg_rewind" --no-sync -D "$work/a" --source-server="host=$work/socket port=5402 user=postgres dbname=postgres" 2>&1; }
first=$(rewind); code=$?
sql 5402 <<<"CHECKPOINT"
second=$(rewind)
says() { grep -q "no rewind required" <<<"$1" && echo nothing || echo rewound; }
echo "PostgreSQL $(sql 5402 <<<'SHOW server_version'): at once: exit $code, $(says "$first"); after CHECKPOINT: $(says "$second")"
[ "$code $(says "$first") $(says "$second")" = "0 nothing rewound" ] || { echo "the behaviour has changed" >&2; exit 1; }
