#!/usr/bin/env bash
# Two standbys that are promoted at one position make one history by all names, and a standby moves between them unseen.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1).
# b and c are standbys of a; d is a standby of c. b and c are promoted at the same position. Both write timeline 2, and their
# files 00000002.history are equal byte for byte. Each commits one row of the same length. d, which has replayed the row of c, is
# pointed at b by a reload, without a restart. Its WAL receiver streams from b, and d replays on: the log has no error, d
# shows the row of c, and everything that b commits from then on. Neither the timeline's number nor its history tells that
# d has another past than b.
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
start() { as_server "$bin/pg_ctl" -w -D "$work/$1" -l "$work/$1.log" -o "-k $work/socket -p $2 -c listen_addresses= -c fsync=off -c wal_keep_size=512MB -c autovacuum=off" start >/dev/null; }
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

sql 5401 <<<"CREATE TABLE t (v text)"
standby b 5402
standby c 5403
standby d 5404
follow() {
    sql "$1" <<<"ALTER SYSTEM SET primary_conninfo = 'host=$work/socket port=$2 user=postgres'"
    sql "$1" <<<"SELECT pg_reload_conf()" >/dev/null
}
follow 5404 5403
position=$(sql 5401 <<<'SELECT pg_current_wal_flush_lsn()')
for port in 5402 5403 5404; do until_true $port "pg_last_wal_replay_lsn() >= '$position'"; done
as_server "$bin/pg_ctl" -w -D "$work/a" -m immediate stop >/dev/null
for port in 5402 5403; do
    until_true $port "NOT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')"
    sql $port <<<"SELECT pg_promote()" >/dev/null
    sql $port <<<"CHECKPOINT"
done
equal=$(cmp -s "$work/b/pg_wal/00000002.history" "$work/c/pg_wal/00000002.history" && echo equal || echo different)
sql 5402 <<<"INSERT INTO t VALUES ('of b')"
sql 5403 <<<"INSERT INTO t VALUES ('of c')"
until_true 5404 "EXISTS (SELECT FROM t)"
follow 5404 5402
sql 5402 <<<"INSERT INTO t VALUES ('of b, later')"
until_true 5404 "EXISTS (SELECT FROM t WHERE v = 'of b, later')"
rows() { sql "$1" <<<"SELECT string_agg(v, '; ' ORDER BY ctid) FROM t"; }
errors=$(grep -c -E "ERROR|FATAL|PANIC|forked off|invalid" "$work/d.log" || true)
echo "PostgreSQL $(sql 5402 <<<'SHOW server_version'): histories $equal; primary: $(rows 5402); its standby: $(rows 5404)"
[ "$equal|$(rows 5402)|$(rows 5404)" = "equal|of b; of b, later|of c; of b, later" ] || { echo "the behaviour has changed ($errors lines in the log of d)" >&2; exit 1; }
