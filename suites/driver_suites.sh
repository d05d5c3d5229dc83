#!/usr/bin/env bash
# Drivers' own test suites, at a plain server and through Consort: suites/driver_suites.sh [--keep DIR] [pgx|tokio-postgres ..]
#
# Through Consort means `pool_mode = "transaction"`, two standbys and strong reads. The suites come from their languages'
# registries, pgx of the version below, tokio-postgres of the one in Cargo.lock, and are built in target/suites. Test by
# test the outcome must be the same (pass, fail, skip, or absent), except for the tests in
# suites/driver_suites/differences.tsv, which have a reason. --keep DIR copies outcomes and outputs there. A suite whose
# language is not installed is named and left out, unless it was requested.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh

bin=${CONSORT_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}
here=$root/suites/driver_suites
cache=$root/target/suites
pgx_version=v5.12.0
known=" pgx tokio-postgres "
keep= asked=
while [ $# -gt 0 ]; do
    case "$1" in
        --keep) mkdir -p "$2"; keep=$(realpath "$2"); shift 2 ;;
        *) [[ $known == *" $1 "* ]] || fail "no such suite: $1"; asked+=" $1"; shift ;;
    esac
done

# The standard for all: a server's address is HOST of its socket and its port at 127.0.0.1.
psql() { command psql -X -q -h 127.0.0.1 "$@"; }

needs() {
    local program
    for program in "${@:2}"; do
        have "$program" && continue
        [ -z "$asked" ] || fail "$1 needs $program"
        echo "left out: $1: $program is not installed"
        return 1
    done
}

# pgx: its module with its tests, by the ordinary client of Go's modules.

fetch_pgx() {
    local source
    source=$(cd "$work" && go mod download -json "github.com/jackc/pgx/v5@$pgx_version" | jq -r .Dir)
    rm -rf "$cache/pgx"
    mkdir -p "$cache/pgx"
    cp -r "$source/." "$cache/pgx/"
    chmod -R u+w "$cache/pgx"
    echo "pgx $pgx_version"
}

set_up_pgx() {
    psql -p "$1" -U postgres -d postgres -c 'CREATE DATABASE pgx_test'
    # The script ends with a role of the system user's name, which may exist.
    psql -p "$1" -U postgres -d pgx_test -f "$cache/pgx/testsetup/postgresql_setup.sql" >"$work/set-up.log" 2>&1
}

# HOST PORT OUTPUT
run_pgx() {
    local there="host=127.0.0.1 port=$2 database=pgx_test"
    local tls="host=localhost port=$2 database=pgx_test sslmode=verify-full sslrootcert=$work/certificates/ca.pem"
    (cd "$cache/pgx" && env \
        PGX_TEST_DATABASE="$there user=pgx_md5 password=secret" \
        PGX_TEST_TCP_CONN_STRING="$there user=pgx_md5 password=secret" \
        PGX_TEST_PGBOUNCER_CONN_STRING="$there user=pgx_md5 password=secret" \
        PGX_TEST_UNIX_SOCKET_CONN_STRING="host=$1 port=$2 database=pgx_test user=postgres" \
        PGX_TEST_MD5_PASSWORD_CONN_STRING="$there user=pgx_md5 password=secret" \
        PGX_TEST_SCRAM_PASSWORD_CONN_STRING="$there user=pgx_scram password=secret" \
        PGX_TEST_PLAIN_PASSWORD_CONN_STRING="$there user=pgx_pw password=secret" \
        PGX_TEST_SCRAM_PLUS_CONN_STRING="$tls user=pgx_ssl password=secret channel_binding=require" \
        PGX_TEST_TLS_CONN_STRING="$tls user=pgx_ssl password=secret channel_binding=disable" \
        PGX_TEST_TLS_CLIENT_CONN_STRING="$tls user=pgx_sslcert \
            sslcert=$work/certificates/pgx_sslcert.crt sslkey=$work/certificates/pgx_sslcert.key" \
        PGX_SSL_PASSWORD=certpw \
        go test -json -count=1 -p 2 -timeout 20m ./...) >"$3.json" 2>"$3.err" || true
    jq -r 'select(.Output) | .Output' <"$3.json" | tr -d '\r' >"$3.log"
    jq -r 'select(.Action | IN("pass", "fail", "skip")) | select(.Test or .Action == "fail")
        | [(.Package | sub("github.com/jackc/pgx/v5/?"; "")) + ":" + (.Test // ""), .Action] | @tsv' <"$3.json" \
        | awk -F '\t' -v OFS='\t' '
            # Names of subtests may have a folder of the run in them.
            { gsub(/\/[A-Za-z0-9._\/-]*\/Test[A-Za-z]+[0-9]+/, "/tmp/..", $1) }
            # A package counts as a whole if it fails without a failed test: a test was not built, or ended early.
            $1 ~ /:$/ { whole[$1] = $0; next }
            { print }
            $2 == "fail" { sub(/:.*/, ":", $1); blamed[$1] }
            END { for (package in whole) if (!(package in blamed)) print whole[package] }'
}

# The output of one test: OUTPUT TEST
said_by_pgx() {
    jq -r --arg test "$2" 'select((.Package | sub("github.com/jackc/pgx/v5/?"; "")) + ":" + (.Test // "") == $test) | .Output // empty' <"$1.json" \
        | grep -vE '^ *(=== |--- )' | head -n "${3:-12}" || true
}

# tokio-postgres: its package with its tests, by Cargo, which has it for this repository's own tests.

fetch_tokio-postgres() {
    local manifest
    manifest=$(cargo metadata --locked --format-version 1 | jq -r '.packages[] | select(.name == "tokio-postgres") | .manifest_path')
    rm -rf "$cache/tokio-postgres"
    mkdir -p "$cache/tokio-postgres"
    cp -rp "$(dirname "$manifest")/." "$cache/tokio-postgres/"
    mv "$cache/tokio-postgres/tests" "$cache/tokio-postgres/tests.given"
    # A workspace of its own, below this one's folder.
    printf '\n[workspace]\n' >>"$cache/tokio-postgres/Cargo.toml"
    echo "tokio-postgres $(basename "$(dirname "$manifest")" | sed 's/.*-//')"
}

set_up_tokio-postgres() { psql -p "$1" -U postgres -d postgres -v ON_ERROR_STOP=1 -f "$here/tokio-postgres.sql"; }

# The port stands in the tests: HOST PORT OUTPUT
run_tokio-postgres() {
    (cd "$cache/tokio-postgres" && rm -rf tests && cp -r tests.given tests \
        && find tests -name '*.rs' -exec sed -i "s/5433/$2/g" {} + \
        && RUST_BACKTRACE=0 CARGO_TARGET_DIR=$cache/tokio-postgres-target cargo test --locked --no-fail-fast --all-features \
            -- --test-threads 2) >"$3.log" 2>"$3.err" || true
    sed -nE 's/^test (.*) \.\.\. (ok|FAILED|ignored)(,.*)?$/\1\t\2/p' "$3.log" | sed 's/\tok$/\tpass/; s/\tFAILED$/\tfail/; s/\tignored$/\tskip/; s/ (line [0-9]*)//'
}

said_by_tokio-postgres() { grep -A "${3:-12}" -F -- "---- $2 stdout" "$1.log" || true; }

# Authentication rules of the servers of both kinds, and TLS for pgx's tests only.
entrance() {
    cp "$here/pg_hba.conf" "$work/pg_hba.conf"
    [[ $suites == *pgx* ]] || { sed -i '/^hostssl/d' "$work/pg_hba.conf"; return; }
    mkdir "$work/certificates"
    own "$work/certificates"
    (cd "$work/certificates" && go run "$cache/pgx/testsetup/generate_certs.go")
}

plain_server() {
    plain_port=$(free_port)
    start_plain "$plain_port"
    local data=$plain_host/data
    cp "$work/pg_hba.conf" "$data/pg_hba.conf"
    if [ -d "$work/certificates" ]; then
        cp "$work/certificates/ca.pem" "$data/root.crt"
        cp "$work/certificates/localhost.crt" "$data/server.crt"
        cp "$work/certificates/localhost.key" "$data/server.key"
        printf '%s\n' 'ssl = on' "ssl_ca_file = 'root.crt'" >>"$data/postgresql.conf"
        chmod 600 "$data/server.key"
        own "$data"/{root.crt,server.crt,server.key}
    fi
    command psql -X -q -h "$plain_host" -p "$plain_port" -U postgres -c 'SELECT pg_reload_conf()' >/dev/null
}

consort() {
    sets 'pool_mode = "transaction"' 'auth_type = "hba"' "auth_hba_file = \"$work/pg_hba.conf\"" "auth_file = \"$here/users.txt\""
    [ ! -d "$work/certificates" ] || sets "tls_certificate = \"$work/certificates/localhost.crt\"" \
        "tls_key = \"$work/certificates/localhost.key\"" "client_tls_ca = \"$work/certificates/ca.pem\""
    start_consort
    psql -At -p "$port" -U postgres -d consort -c 'SHOW CONFIG' | grep -q '^pool_mode|transaction|' || fail "pool_mode is not transaction"
}

# One suite at one server: SUITE NAME HOST PORT
outcomes() {
    local begun=$SECONDS output=$work/$1.$2
    "set_up_$1" "$4"
    "run_$1" "$3" "$4" "$output" | sort -u >"$output"
    [ -s "$output" ] || { tail -n 30 "$output.err" >&2; fail "$1 did not run"; }
    echo "$1, $2: $(cut -f 2 "$output" | sort | uniq -c | awk '{ printf "%s%d %s", (NR > 1 ? ", " : ""), $1, $2 }') of $(wc -l <"$output"), in $((SECONDS - begun)) s"
    [ -z "$keep" ] || cp "$output"* "$keep/"
}

# Test by test: SUITE
compare() {
    local test plain consort reason
    join -t $'\t' -a 1 -a 2 -e absent -o 0,1.2,2.2 "$work/$1.plain" "$work/$1.consort" | awk -F '\t' '$2 != $3' >"$work/$1.different"
    while IFS=$'\t' read -r test plain consort; do
        reason=$(awk -F '\t' -v suite="$1" -v test="$test" '$1 == suite && $2 == test { print $3 }' "$here/differences.tsv")
        if [ -n "$reason" ]; then echo "known: $test: $plain, through Consort $consort: $reason"; continue; fi
        echo "DIFFERENT: $test: $plain, through Consort $consort"
        "said_by_$1" "$work/$1.consort" "$test" | sed 's/^/    /'
        different+=" $test"
    done <"$work/$1.different"
    awk -F '\t' -v suite="$1" 'FNR == NR { found[$1]; next } $1 == suite && !($2 in found) { print "no longer different: " $2 }' \
        "$work/$1.different" "$here/differences.tsv"
}

export LC_ALL=C
different= suites=
take_folder
program=$(consort_program)
have jq || fail "jq is needed; run: apt-get install jq"
for suite in ${asked:-$known}; do
    case $suite in
        pgx) needs pgx go || continue ;;
        tokio-postgres) needs tokio-postgres cargo || continue ;;
    esac
    "fetch_$suite"
    suites+=" $suite"
done
entrance
plain_server
for suite in $suites; do outcomes "$suite" plain "$plain_host" "$plain_port"; done
stop_plain
consort
for suite in $suites; do outcomes "$suite" consort "$work/cluster/run" "$port"; done
share_of_reads
[ -z "$keep" ] || cp "$work/consort.log" "$keep/"
for suite in $suites; do compare "$suite"; done
[ -z "$different" ] || fail "otherwise than at a plain server:$different"
