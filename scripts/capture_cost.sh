#!/usr/bin/env bash
# The processor time of a server that the capture of a write set adds to a transaction of one UPDATE, in microseconds: the
# transaction with the capture, less the same one without its trigger. No commit, no certifier and no other node counts.
#
#   CAPTURE_TRANSACTIONS   transactions of a run   (20000)
#   CAPTURE_ROUNDS         rounds                  (3)
set -euo pipefail
cd "$(dirname "$0")/.."
consort=$(readlink -f "${CONSORT:-target/dist/consort}")
home=$(mktemp -d "${TMPDIR:-/tmp}/consort-capture-XXXXXX")
chmod 755 "$home"
trap '"$consort" down --dir "$home/nodes" >/dev/null 2>&1 || true; rm -rf "$home"' EXIT

up() { "$consort" up --dir "$home/nodes" --design tashkent-mw --nodes 1 --listen "127.0.0.1:$((20000 + RANDOM % 10000))" >/dev/null; }
down() { "$consort" down --dir "$home/nodes" >/dev/null; }
file=$home/nodes/consort.toml
server() { sed -n "/^\[\[node\]\]/,\$s/^$1 = \"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$file" | head -1; }
# The time of backends that have ended, in clock ticks, as the postmaster knows it.
postmaster() { head -1 "$home/nodes/node1/data/postmaster.pid"; }
ended() { awk '{ print $16 + $17 }' "/proc/$(postmaster)/stat"; }
# transactions OPTIONS SCRIPT: microseconds of the server for each
transactions() {
    local before clients
    clients=$(pgrep -cP "$(postmaster)")
    echo "$2" >"$home/script"
    before=$(ended)
    PGOPTIONS=$1 pgbench -n -M prepared -c 1 -t "$count" -f "$home/script" postgres >"$home/log" 2>&1 || { cat "$home/log"; exit 1; }
    # The backend ends after its client.
    timeout 10 sh -c "while [ \"\$(pgrep -cP $(postmaster))\" -gt $clients ]; do :; done"
    echo $((($(ended) - before) * 1000000 / $(getconf CLK_TCK) / count))
}

count=${CAPTURE_TRANSACTIONS:-20000}
up
for capture in sql extension; do
    down
    sed -i '/^capture = /d' "$file"
    sed -i "1i capture = \"$capture\"" "$file"
    up
    export PGHOST PGPORT PGUSER=postgres
    PGHOST=$(server host) PGPORT=$(server port)
    listen=$(sed -n 's/^listen = \["\(.*\)"\]/\1/p' "$file")
    psql -qX "postgres://postgres@$listen/postgres" -c "DROP TABLE IF EXISTS t" -c "CREATE TABLE t (id int PRIMARY KEY, n int, filler char(40))" \
        -c "INSERT INTO t SELECT i, 0, '' FROM generate_series(1, 1000) i"
    secret=$(psql -AtX postgres -c "SELECT value FROM consort.secret")
    case $capture in
    sql) calls="SELECT consort.certifies('$secret'); SET CONSTRAINTS ALL IMMEDIATE; SELECT consort.notes('$secret');" ;;
    extension) calls="SELECT consort.native_notes('$secret');" ;;
    esac
    update="\\set id random(1, 1000)
BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE t SET n = n + 1 WHERE id = :id;"
    for _ in $(seq "${CAPTURE_ROUNDS:-3}"); do
        with=$(transactions "" "$update $calls ROLLBACK;")
        without=$(transactions "-c session_replication_role=replica" "$update ROLLBACK;")
        echo "$capture: $with us with the capture, $without without: $((with - without)) us"
    done
done
