#!/usr/bin/env bash
# Runs extension/ on a PostgreSQL server of its own, which loads the extension at its start and ends with the script. As root
# the server runs as the user postgres.
#
#   scripts/extension.sh         make installcheck
#   scripts/extension.sh cost    CPU time of a transaction that updates one row, by kind of capture: three rounds of
#                                TRANSACTIONS (20000), commits in memory
set -euo pipefail
cd "$(dirname "$0")/.."

bin=/usr/lib/postgresql/15/bin
folder=$(mktemp -d "${TMPDIR:-/tmp}/consort-extension-XXXXXX")
as_owner() { "$@"; }
if [ "$EUID" -eq 0 ]; then
    chown postgres "$folder"
    as_owner() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
fi

end() {
    as_owner "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap end EXIT

export PGHOST=$folder PGPORT=5432 PGUSER=postgres
as_owner "$bin/initdb" -D "$folder/data" -A trust -U postgres >/dev/null
as_owner "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w start \
    -o "-c listen_addresses= -c unix_socket_directories=$folder -c fsync=off -c synchronous_commit=off -c autovacuum=off -c shared_preload_libraries=consort" >/dev/null

check() {
    make -s -C extension installcheck PG_CONFIG="$bin/pg_config" && return
    cat target/extension/regression.diffs
    exit 1
}

# The text that Consort installs, without its event triggers.
capture() {
    local part
    for part in tables items row_triggers sequences commands applier notes "$@"; do
        cat "crates/certified/src/capture/$part.sql"
    done
    echo "INSERT INTO consort.secret VALUES ('told');"
}

# CPU time of backends that have ended, in ticks. The server counts a backend a little after its client has gone.
ticks() {
    while pgrep -P "$(head -n 1 "$folder/data/postmaster.pid")" -f '\[local\]' >/dev/null; do sleep 0.05; done
    awk '{ print $16 + $17 }' "/proc/$(head -n 1 "$folder/data/postmaster.pid")/stat"
}

# Microseconds of a transaction with these statements after its UPDATE.
measure() {
    local database=$1 script=$folder/script before
    shift
    {
        printf '%s\n' '\set id random(1, 1000)' 'BEGIN ISOLATION LEVEL REPEATABLE READ;' 'UPDATE t SET v = v + 1 WHERE id = :id;'
        printf '%s\n' "$@" 'COMMIT;'
    } >"$script"
    psql -q -X -d "$database" -c 'VACUUM consort.notes'
    before=$(ticks)
    pgbench -n -M prepared -t "$transactions" -f "$script" "$database" >/dev/null 2>&1
    awk -v ticks="$(($(ticks) - before))" -v hertz="$(getconf CLK_TCK)" -v count="$transactions" \
        'BEGIN { printf "%.1f", ticks / hertz / count * 1e6 }'
}

cost() {
    local transactions=${TRANSACTIONS:-20000} round
    local version="nextval('versions')"
    for database in none sql extension; do
        psql -q -X -d postgres -c "CREATE DATABASE $database"
        { [ $database = extension ] && capture extension || capture; } | psql -q -X -d $database -v ON_ERROR_STOP=1 >/dev/null 2>&1
        psql -q -X -d $database -c "CREATE SEQUENCE versions; CREATE TABLE t (id int PRIMARY KEY, v int, pad text) WITH (fillfactor = 50);
            INSERT INTO t SELECT n, 0, repeat('x', 50) FROM generate_series(1, 1000) n"
    done
    for database in sql extension; do psql -q -X -d $database -o /dev/null -c "SELECT consort.watch('t'::regclass)"; done
    echo "microseconds of CPU a transaction; load $(cut -d' ' -f1 /proc/loadavg)"
    for round in 1 2 3; do
        printf 'none %s\t' "$(measure none "INSERT INTO consort.version VALUES ($version);")"
        printf 'sql %s\t' "$(measure sql "SELECT consort.certifies('told');" 'SET CONSTRAINTS ALL IMMEDIATE;' \
            "SELECT consort.notes('told');" "SELECT consort.commit_at('told', $version::text);")"
        printf 'extension %s\n' "$(measure extension "SELECT consort.native_notes('told');" \
            "SELECT consort.native_commit_at('told', $version::text);")"
    done
}

"${1:-check}"
