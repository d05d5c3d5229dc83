#!/usr/bin/env bash
# Applications over ORMs through Consort: suites/applications.sh [REQUESTS] (400). Each request is one transaction. The
# answers are those of a plain server. With offload_in_transactions = "on", nine in ten reads run at standbys.
#
# Packages come from their registry into the temporary folder, at the versions in suites/drivers/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh
bin=/usr/lib/postgresql/15/bin
requests=${1:-400}

psql() { command psql -X -h 127.0.0.1 -p "$port" -U postgres "$@"; }

# The application, with its answers in a file: NAME PORT [fill].
run() {
    "$work/venv/bin/python" suites/applications/sqlalchemy_requests.py "postgres://postgres@127.0.0.1:$2/shop" "$requests" "${@:3}" \
        >"$work/$1.answers" 2>"$work/$1.time" || { cat "$work/$1.time"; fail "$1 stopped half-way"; }
}

share() { share_of_reads | sed -nE 's/.*\(([0-9.]+) %\)/\1/p'; }

have python3 || fail "python3 is missing"
take_folder
program=$(consort_program)
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps -r suites/drivers/requirements.txt
plain_port=$(free_port)
start_plain "$plain_port"
command psql -X -q -h "$plain_host" -p "$plain_port" -U postgres -c 'CREATE DATABASE shop'
run plain "$plain_port" fill
echo "plain server: median $(cat "$work/plain.time")"
for offload in locked on; do
    sets "offload_in_transactions = \"$offload\""
    start_consort
    psql -q -d postgres -c 'CREATE DATABASE shop'
    run "$offload" "$port" fill
    diff "$work/plain.answers" "$work/$offload.answers" || fail "the answers differ with $offload"
    share=$(share)
    echo "$offload: the answers of one server, median $(cat "$work/$offload.time"), reads at standbys: $share %"
    stop_consort
    rm -rf "$work/cluster"
done
awk -v share="$share" 'BEGIN { exit !(share >= 80) }' || fail "too few reads at standbys"
