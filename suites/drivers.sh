#!/usr/bin/env bash
# Drivers in ordinary use through Consort: suites/drivers.sh [psql|pg_dump|psycopg|pgx|node|sqlalchemy|asyncpg|jdbc|pq|ruby ..]
# (all of them), with session pooling, then with transaction pooling over four connections.
#
# Packages come from their languages' registries into the temporary folder, at the versions in the files next to the
# scripts; a driver whose language is not installed is named and left out, unless it was asked for. pg_dump is
# checked by restoring what it writes, psycopg and pgx by the answers in their scripts, and the output of the others is
# compared with their output on a plain server.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh
asked=$*
bin=${CONSORT_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}
# psql is of the servers' major, too.
PATH=$bin:$PATH

left_out() { [ -z "$asked" ] || fail "$1"; echo "left out: $1"; }

psql() { command psql -X -h 127.0.0.1 -p "$port" -U postgres "$@"; }

# Compares a program's output on the plain server and through Consort, without psql's footers: NAME PROGRAM ARGUMENT..,
# and the address last.
compare() {
    local name=$1 said
    shift
    for said in "plain $plain_port" "consort $port"; do
        "$@" "postgres://postgres@127.0.0.1:${said#* }/drivers" >"$work/$name.${said% *}" 2>&1 || echo "status $?" >>"$work/$name.${said% *}"
        awk -f suites/footers.awk "$work/$name.${said% *}" >"$work/$name.${said% *}.filtered"
    done
    diff "$work/$name.plain.filtered" "$work/$name.consort.filtered" || { different+=" $name"; return 0; }
    ! grep '^status ' "$work/$name.consort" || { cat "$work/$name.consort"; fail "$name stopped half-way"; }
    echo "$name: as on plain PostgreSQL, $(wc -l <"$work/$name.consort") lines"
}

psql_ordinary() { command psql -X -f suites/drivers/psql_ordinary.sql "$1" || [ $? -eq 3 ]; }

try_psql() {
    compare psql psql_ordinary
    [ "$(tail -n 1 "$work/psql.consort")" = 42703 ] || { cat "$work/psql.consort"; fail "psql stopped half-way"; }
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
    # The whole dump, without Consort's objects in the database: docs/compatibility.md.
    psql -q -d postgres -c "DROP DATABASE restored" -c "CREATE DATABASE restored"
    "$bin/pg_dump" -h 127.0.0.1 -p "$port" -U postgres -F custom -f "$work/dump" drivers
    "$bin/pg_restore" -l "$work/dump" | grep -v ' consort \| - consort_' >"$work/list"
    "$bin/pg_restore" -h 127.0.0.1 -p "$port" -U postgres -e -L "$work/list" -d restored "$work/dump"
    [ "$(psql -At -d drivers -c "$digest")" = "$(psql -At -d restored -c "$digest")" ] || fail "pg_dump of all loses rows"
    "$bin/pg_dump" -h 127.0.0.1 -p "$port" -U postgres -F directory -j 3 -f "$work/dump.d" drivers
    "$bin/pg_dumpall" -h 127.0.0.1 -p "$port" -U postgres --globals-only >"$work/globals"
    echo "pg_dump: plain, custom, whole and parallel directory; restored rows are the same"
}

# python3 with the packages of requirements.txt, once: DRIVER.
python() {
    [ -x "$work/venv/bin/python" ] && return
    have python3 && python3 -m venv "$work/venv" 2>/dev/null || { left_out "$1: python3 with venv"; return 1; }
    "$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps -r suites/drivers/requirements.txt
}

try_psycopg() {
    python psycopg || return 0
    "$work/venv/bin/python" suites/drivers/psycopg_ordinary.py "postgres://postgres@127.0.0.1:$port/drivers" $shared || fail psycopg
}

try_sqlalchemy() {
    python SQLAlchemy || return 0
    compare sqlalchemy "$work/venv/bin/python" suites/drivers/sqlalchemy_ordinary.py
}

try_asyncpg() {
    python asyncpg || return 0
    compare asyncpg "$work/venv/bin/python" suites/drivers/asyncpg_ordinary.py
}

# A script in Go, built once: FOLDER.
go_program() {
    have go || { left_out "$1: Go"; return 1; }
    [ -x "$work/$1/$1" ] && return
    cp -r "suites/drivers/$1" "$work/"
    (cd "$work/$1" && go build -o "$1" .) || fail "$1 cannot be built"
}

try_pgx() {
    go_program pgx || return 0
    "$work/pgx/pgx" "postgres://postgres@127.0.0.1:$port/drivers" || fail pgx
}

try_pq() {
    go_program pq || return 0
    compare pq "$work/pq/pq"
}

try_node() {
    have node && have npm || { left_out "node-postgres: node with npm"; return 0; }
    if [ ! -d "$work/node" ]; then
        cp -r suites/drivers/node "$work/"
        (cd "$work/node" && npm ci --silent --no-audit --no-fund --ignore-scripts) || fail "node-postgres cannot be had"
    fi
    compare node node --no-deprecation "$work/node/ordinary.mjs"
}

# The jar by Maven, which runs nothing else; Java compiles the script itself.
try_jdbc() {
    have javac && have mvn || { left_out "JDBC: a JDK with Maven"; return 0; }
    if [ ! -d "$work/jdbc" ]; then
        cp -r suites/drivers/jdbc "$work/"
        (cd "$work/jdbc" && mvn -q -B -ntp -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory=. \
            && sha256sum --quiet -c sha256) || fail "pgjdbc cannot be had"
    fi
    compare jdbc java -cp "$work/jdbc/*" "$work/jdbc/Ordinary.java"
}

# Ruby and the driver as the distribution has them.
try_ruby() {
    have ruby && ruby -rpg -e '' 2>/dev/null || { left_out "ruby-pg: ruby with ruby-pg"; return 0; }
    compare ruby ruby suites/drivers/ruby_ordinary.rb
}

try_all() {
    start_consort
    psql -q -d postgres -c 'CREATE DATABASE drivers'
    command psql -X -q -h "$plain_host" -p "$plain_port" -U postgres -c 'CREATE DATABASE drivers'
    for driver in $drivers; do "try_$driver"; done
    share_of_reads
    stop_consort
    command psql -X -q -h "$plain_host" -p "$plain_port" -U postgres -c 'DROP DATABASE drivers'
    rm -rf "$work/cluster" "$work"/dump*
}

known=" psql pg_dump psycopg pgx node sqlalchemy asyncpg jdbc pq ruby "
drivers=${asked:-$known}
for driver in $drivers; do
    case $known in
        *" $driver "*) ;;
        *) fail "no such driver: $driver" ;;
    esac
done
different= shared=
take_folder
program=$(consort_program)
plain_port=$(free_port)
start_plain "$plain_port"
echo "each client has its own connection"
mkdir "$work/cluster"
echo 'pool_mode = "session"' >"$work/cluster/consort.toml"
try_all
# pg_dump -j 3 holds four at one time.
echo "clients share four connections"
shared=shared
mkdir "$work/cluster"
echo 'default_pool_size = 4' >"$work/cluster/consort.toml"
try_all
[ -z "$different" ] || fail "otherwise than on plain PostgreSQL:$different"
