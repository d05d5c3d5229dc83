#!/usr/bin/env bash
# Tests on other majors of PostgreSQL than 15: scripts/test_majors.sh [--all] [MAJOR..]
#
# Without --all these are a selection of some minutes: the analysis with its corpus and its oracle, attaching, own
# connections, a cluster of `consort up`, a role without superuser, a logical replica, and a history with faults. --all
# runs every test with PostgreSQL servers, but those of designs whose nodes are of one kind.
# The variable CONSORT_POSTGRES_BIN names the program folder of the servers for any test.
#
# Each major ends with lines of its own. The output of the tests follows only where one has failed.
set -euo pipefail
cd "$(dirname "$0")/.."

all=
if [ "${1:-}" = --all ]; then
    all=1
    shift
fi
wanted=" ${*:-16 17 18} "

programs=(--test it)
tests=(builtin:: corpus:: differs:: harmless:: oracle:: order:: attach:: own_connections::
    life::a_cluster no_superuser::role_without_superuser fed::a_replica_is_fed fed::all_types
    nothing_is_stale_and_histories)
if [ -n "$all" ]; then
    programs+=(--test node --test local_cluster --test replica_apply)
    tests=(--skip peers:: --skip tier:: --skip kv::)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The same packages as `make test` has built: others would have other features.
test_major() {
    local major=$1 folder=$2 begun=$SECONDS name failed=
    CONSORT_POSTGRES_BIN=$folder ${CARGO:-cargo} test --locked --workspace --exclude tidy --no-fail-fast "${programs[@]}" \
        -- "${tests[@]}" </dev/null >"$log" 2>&1 || failed=1
    if [ -z "$all" ]; then
        for name in "${tests[@]}"; do
            grep -q "^test .*$name.* ok$" "$log" || { echo "no test passed that is named $name" >>"$log"; failed=1; }
        done
    fi
    [ -z "$failed" ] || cat "$log"
    awk -v major="$major" -v seconds=$((SECONDS - begun)) '
        /^test result: / { passed += $4; failures += $6 }
        END { printf "tests on PostgreSQL %s took %d s\nPostgreSQL-%s: %d passed, %d failed\n", major, seconds, major, passed, failures }
    ' "$log"
    [ -z "$failed" ]
}

scripts/postgresql_majors.sh --list | while read -r major folder; do
    case $wanted in *" $major "*) test_major "$major" "$folder" ;; esac
done
