#!/usr/bin/env bash
# Tests at servers of other majors of PostgreSQL than the oldest one: scripts/test_majors.sh [--all] [MAJOR..]
#
# Without --all those that `make test` runs on each major: the analysis with its corpus and its oracle, attaching and
# decoding, one Consort that serves, a logical replica that is fed, one history. With --all every test of these crates.
# The variable CONSORT_POSTGRES_BIN names the program folder of the servers for any test.
set -euo pipefail
cd "$(dirname "$0")/.."

all=
if [ "${1:-}" = --all ]; then
    all=1
    shift
fi
wanted=" ${*:-16 17 18} "
cargo=${CARGO:-cargo}

# A crate, its test program, and the tests to run.
some() {
    cat <<'END'
statement-analysis it
postgres it attach:: decoder::a analysis:: own_connections::
consort it serving::attach fed::a_replica_is_fed fed::all_types life::a_cluster
experiments it nothing_is_stale
END
}

every() {
    cat <<'END'
statement-analysis it
postgres it
local-cluster local_cluster
replica-apply replica_apply
node node
consort it
workloads it
END
}

scripts/postgresql_majors.sh --list | while read -r major folder; do
    case $wanted in *" $major "*) ;; *) continue ;; esac
    if [ -n "$all" ]; then every; else some; fi | while read -r crate program tests; do
        echo "PostgreSQL $major: $crate $tests"
        # shellcheck disable=SC2086 # The names are words.
        CONSORT_POSTGRES_BIN=$folder $cargo test -q --locked -p "$crate" --test "$program" -- $tests </dev/null
    done
done
