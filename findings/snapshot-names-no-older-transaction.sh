#!/usr/bin/env bash
# A snapshot that lists nobody is no proof that older transactions have ended.
#
# Version: PostgreSQL 15.18 (Debian 12, postgresql-15=15.18-0+deb12u1).
# To wait until all older transactions have ended, tools compare pg_snapshot_xmin(pg_current_snapshot()) with an id that was
# taken before. xmax is one past the newest *completed* id, though. Three transactions are open here:
#
#   reader: holds ROW EXCLUSIVE on t by LOCK TABLE, and has no id
#   trigger: CREATE TRIGGER on t, which waits for the reader's lock, and has no id either
#   writer: has an id, the newest of all
#
# pg_current_snapshot() of a fourth session names none of them: xmin = xmax, the list is empty. The event trigger that is
# made meanwhile never fires for CREATE TRIGGER, since that command began before. pg_locks names all three by their
# virtual transactions.
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


sql <<<"CREATE TABLE t (v int); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
# Each open session reads its commands from a pipe that this script keeps open.
session() {
    mkfifo "$work/$1"
    sql <"$work/$1" >/dev/null 2>&1 &
    exec {pipe}>"$work/$1"
    pipes+=("$pipe")
    echo "$2" >&"$pipe"
}
# Asks until it is so, for 30 s at most.
until_true() {
    local deadline=$((SECONDS + 30))
    until [ "$(sql <<<"SELECT $1")" = t ]; do [ $SECONDS -lt $deadline ] || { echo "not so within 30 s: $1" >&2; exit 1; }; done
}
pipes=()
session reader "BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE;"
until_true "EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND mode = 'RowExclusiveLock')"
session trigger "CREATE TRIGGER made BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();"
until_true "EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)"
sql <<<"CREATE TABLE seen (command text); CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql
    AS 'BEGIN INSERT INTO seen SELECT command_tag FROM pg_event_trigger_ddl_commands(); END';
    CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION note();"
session writer "BEGIN; SELECT pg_current_xact_id();"
until_true "EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid')"

snapshot=$(sql <<<"SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s), (SELECT count(*) FROM pg_snapshot_xip(s)) FROM pg_current_snapshot() s")
open=$(sql <<<"SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' AND pid <> pg_backend_pid()")
echo "COMMIT;" >&"${pipes[0]}"
until_true "EXISTS (SELECT FROM pg_trigger WHERE tgname = 'made')"
fired=$(sql <<<"SELECT count(*) FROM seen WHERE command = 'CREATE TRIGGER'")
for pipe in "${pipes[@]}"; do exec {pipe}>&-; done
wait

echo "PostgreSQL $(sql <<<'SHOW server_version'): xmin = xmax and listed: $snapshot; open by pg_locks: $open; event trigger fired: $fired"
[ "$snapshot $open $fired" = "t|0 3 0" ] || { echo "the behaviour has changed" >&2; exit 1; }
