#!/usr/bin/env bash
# pgbench through Consort: tpcb-like, simple-update and select-only, each in the simple, extended and prepared protocol.
#
#   suites/pgbench.sh [SECONDS [CLIENTS]]     (20 seconds each, 16 clients)
#
# Fails if pgbench reports an error, if a transaction failed, if the sums do not agree afterwards, at any node, or if
# less than nine in ten reads of a select-only run were served by standbys. Cluster and processes end with the script.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh
seconds=${1:-20}
clients=${2:-16}
bin=${CONSORT_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}

served() { "$program" status --dir "$work/cluster" --json | awk -v want="$1" '
    /"name":/ { gsub(/[",]/, ""); name = $2 }
    /"reads_served":/ { gsub(/,/, ""); if ((name == "primary") == (want == "primary")) sum += $2 }
    END { print sum + 0 }'; }

ask() { psql -X -At -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres -d postgres "$@"; }

run() {
    local script=$1 protocol=$2 at_primary at_standbys failed rate share
    at_primary=$(served primary) at_standbys=$(served standbys)
    "$bin/pgbench" -n -h 127.0.0.1 -p "$port" -U postgres -b "$script" -M "$protocol" -c "$clients" -j 2 -T "$seconds" \
        postgres >"$work/out" 2>&1 || { cat "$work/out"; fail "pgbench $script $protocol ended in an error"; }
    failed=$(sed -n 's/^number of failed transactions: \([0-9]*\).*/\1/p' "$work/out")
    grep -qiE 'error|abort|fatal' "$work/out" && { cat "$work/out"; fail "pgbench $script $protocol says an error"; }
    [ "$failed" = 0 ] || { cat "$work/out"; fail "pgbench $script $protocol: $failed transactions failed"; }
    rate=$(sed -n 's/^tps = \([0-9]*\).*/\1/p' "$work/out")
    at_primary=$(($(served primary) - at_primary)) at_standbys=$(($(served standbys) - at_standbys))
    share=$(awk -v s="$at_standbys" -v p="$at_primary" 'BEGIN { printf "%.1f", s + p ? 100 * s / (s + p) : 0 }')
    printf '%-14s %-9s %7s tps  0 failed  reads at standbys %5s %%\n' "$script" "$protocol" "$rate" "$share"
    [ "$script" != select-only ] || awk -v share="$share" 'BEGIN { exit share < 90 }' \
        || low="${low:-} $protocol:$share"
}

# The sums of these tables' columns are equal: through Consort, at the primary, and at each standby once it has replayed.
sums() {
    local what=$1 node sums expected
    expected=$(ask -c "SET consort.consistency = 'primary'" -c "$what" | tail -n 1)
    [ "$(ask -c "$what")" = "$expected" ] || fail "the sums through Consort differ from the primary's: $expected"
    for node in primary standby1 standby2; do
        for tries in $(seq 100); do
            sums=$("$program" psql --dir "$work/cluster" --node "$node" -- -X -At -c "$what" 2>"$work/err" || cat "$work/err")
            [ "$sums" = "$expected" ] && break
            sleep 0.1
        done
        [ "$sums" = "$expected" ] || fail "the sums at $node are $sums, through Consort $expected"
    done
    case $expected in *t) echo "sums agree at all nodes: $expected" ;; *) fail "the sums do not agree: $expected" ;; esac
}

low=
take_folder
program=$(consort_program)
start_consort
"$bin/pgbench" -q -i -s 5 -h 127.0.0.1 -p "$port" -U postgres postgres >"$work/out" 2>&1 || { cat "$work/out"; fail "pgbench -i"; }
for protocol in simple extended prepared; do run tpcb-like "$protocol"; done
sums "SELECT a, b, t, h, a = b AND b = t AND t = h FROM (SELECT sum(abalance) FROM pgbench_accounts) a(a),
    (SELECT sum(bbalance) FROM pgbench_branches) b(b), (SELECT sum(tbalance) FROM pgbench_tellers) t(t),
    (SELECT sum(delta) FROM pgbench_history) h(h)"
for protocol in simple extended prepared; do run simple-update "$protocol"; done
sums "SELECT a, h, a = h FROM (SELECT sum(abalance) FROM pgbench_accounts) a(a), (SELECT sum(delta) FROM pgbench_history) h(h)"
for protocol in simple extended prepared; do run select-only "$protocol"; done
share_of_reads
[ -z "$low" ] || fail "less than 90 % of select-only at standbys:$low"
