#!/usr/bin/env bash
# Tests on other majors of PostgreSQL than 15: scripts/test_majors.sh [--all] [MAJOR..]
#
# Without --all these are a selection of some minutes: the analysis with its corpus and its oracle,
# attaching, own connections, one cluster of `consort up`, a logical replica, and histories with faults. --all runs every
# test with PostgreSQL servers, but those of designs whose nodes are of one kind.
# The variable CONSORT_POSTGRES_BIN names the program folder of the servers for any test.
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
    life::a_cluster fed::a_replica_is_fed fed::all_types nothing_is_stale_and_histories)
if [ -n "$all" ]; then
    programs+=(--test node --test local_cluster --test replica_apply)
    tests=(--skip peers:: --skip tier:: --skip kv::)
fi

# One build for all crates: a crate alone would have other features.
scripts/postgresql_majors.sh --list | while read -r major folder; do
    case $wanted in *" $major "*) ;; *) continue ;; esac
    echo "tests on PostgreSQL $major"
    CONSORT_POSTGRES_BIN=$folder ${CARGO:-cargo} test -q --locked --workspace "${programs[@]}" -- "${tests[@]}" </dev/null
done
