#!/usr/bin/env bash
# Drivers in ordinary use through Consort: suites/drivers.sh [psql|pg_dump|psycopg|pgx ..]     (all of them)
#
# psycopg comes from PyPI into a virtual environment, pgx from the Go proxy, both in the temporary folder; a driver whose
# language is not installed is named and left out, unless it was asked for. psql is compared with what it says on a
# plain server, pg_dump by restoring what it writes.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh
asked=$*
bin=/usr/lib/postgresql/15/bin

left_out() { [ -z "$asked" ] || fail "$1"; echo "left out: $1"; }

psql() { command psql -X -h 127.0.0.1 -p "$port" -U postgres "$@"; }

try_psql() {
    start_plain
    command psql -X -q -h "$plain_host" -U postgres -c 'CREATE DATABASE drivers'
    command psql -X -h "$plain_host" -U postgres -d drivers -f suites/drivers/psql_ordinary.sql >"$work/psql.plain" 2>&1 || true
    psql -d drivers -f suites/drivers/psql_ordinary.sql >"$work/psql.consort" 2>&1 || true
    stop_plain
    for said in plain consort; do awk -f suites/footers.awk "$work/psql.$said" >"$work/psql.$said.filtered"; done
    diff "$work/psql.plain.filtered" "$work/psql.consort.filtered" || fail "psql answers otherwise than on plain PostgreSQL"
    [ "$(tail -n 1 "$work/psql.consort")" = 42703 ] || { cat "$work/psql.consort"; fail "psql stopped half-way"; }
    echo "psql: as on plain PostgreSQL, $(wc -l <"$work/psql.consort") lines"
}

try_pg_dump() {
    "$bin/pgbench" -q -i -s 1 -h 127.0.0.1 -p "$port" -U postgres drivers >/dev/null 2>&1
    local format digest="SELECT md5(string_agg(a::text, ',' ORDER BY aid)) FROM pgbench_accounts a"
    for format in plain custom; do
        psql -q -d postgres -c "DROP DATABASE IF EXISTS restored" -c "CREATE DATABASE restored"
        "$bin/pg_dump" -h 127.0.0.1 -p "$port" -U postgres -F "$format" -t 'pgbench_*' -f "$work/dump" drivers
        if [ "$format" = plain ]; then
            psql -q -d restored -v ON_ERROR_STOP=1 -f "$work/dump" >/dev/null
        else
            "$bin/pg_restore" -h 127.0.0.1 -p "$port" -U postgres -e -j 2 -d restored "$work/dump"
        fi
        [ "$(psql -At -d drivers -c "$digest")" = "$(psql -At -d restored -c "$digest")" ] || fail "pg_dump $format loses rows"
    done
    # All of it, without what Consort has made in the database: docs/compatibility.md.
    psql -q -d postgres -c "DROP DATABASE restored" -c "CREATE DATABASE restored"
    "$bin/pg_dump" -h 127.0.0.1 -p "$port" -U postgres -F custom -f "$work/dump" drivers
    "$bin/pg_restore" -l "$work/dump" | grep -v ' consort \| - consort_' >"$work/list"
    "$bin/pg_restore" -h 127.0.0.1 -p "$port" -U postgres -e -L "$work/list" -d restored "$work/dump"
    [ "$(psql -At -d drivers -c "$digest")" = "$(psql -At -d restored -c "$digest")" ] || fail "pg_dump of all loses rows"
    "$bin/pg_dump" -h 127.0.0.1 -p "$port" -U postgres -F directory -j 3 -f "$work/dump.d" drivers
    "$bin/pg_dumpall" -h 127.0.0.1 -p "$port" -U postgres --globals-only >"$work/globals"
    echo "pg_dump: plain, custom, whole and parallel directory; restored rows are the same"
}

try_psycopg() {
    have python3 && python3 -m venv "$work/venv" 2>/dev/null || { left_out "psycopg: python3 with venv"; return 0; }
    "$work/venv/bin/pip" install -q --disable-pip-version-check 'psycopg[binary]==3.2.*' 2>&1 | tail -n 3
    "$work/venv/bin/python" suites/drivers/psycopg_ordinary.py "postgres://postgres@127.0.0.1:$port/drivers" || fail psycopg
}

try_pgx() {
    have go || { left_out "pgx: Go"; return 0; }
    cp -r suites/drivers/pgx "$work/pgx"
    (cd "$work/pgx" && go build -o pgx . && ./pgx "postgres://postgres@127.0.0.1:$port/drivers") || fail pgx
}

take_folder
program=$(consort_program)
start_consort
psql -q -d postgres -c 'CREATE DATABASE drivers'
for driver in ${asked:-psql pg_dump psycopg pgx}; do
    case $driver in
        psql | pg_dump | psycopg | pgx) "try_$driver" ;;
        *) fail "no such driver: $driver" ;;
    esac
done
share_of_reads
