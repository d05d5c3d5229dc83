#!/usr/bin/env bash
# What `make bench` runs: clusters in a temporary folder, the hunt for stale reads, list-append histories, and the cost
# beside PgBouncer and a direct connection, in both modes of `writers`. Tables to the terminal, CSV and JSON to bench-results/.
#
#   BENCH_ROUNDS   rounds of `bench stale` per gap   (1000)
#   BENCH_SECONDS  seconds of `bench histories`      (30)
set -euo pipefail
cd "$(dirname "$0")/.."
consort=${CONSORT:-target/release/consort}
home=$(mktemp -d "${TMPDIR:-/tmp}/consort-bench-XXXXXX")
chmod 755 "$home"
trap 'for mode in anywhere through; do "$consort" down --dir "$home/$mode" >/dev/null 2>&1 || true; done; rm -rf "$home"' EXIT
mkdir -p bench-results

# The nodes take local log-ins, so that the direct connection and their own statistics can be asked.
url=$("$consort" up --dir "$home/anywhere" --writers anywhere --listen "127.0.0.1:$((20000 + RANDOM % 10000))")
nodes=$("$consort" status --dir "$home/anywhere" --json)
port() { printf '%s' "$nodes" | tr -d ' \n' | grep -o "\"name\":\"$1\"[^}]*\"port\":[0-9]*" | grep -o '[0-9]*$'; }
direct="postgres://postgres@127.0.0.1:$(port primary)/postgres"
servers=()
for name in primary standby1 standby2; do
    servers+=(--server "$name=postgres://postgres@127.0.0.1:$(port "$name")/postgres")
done

run() {
    local name=$1
    shift
    echo "== $name"
    "$consort" bench "$@" --csv "bench-results/$name.csv" --json "bench-results/$name.json"
}
run stale stale --url "$url" --rounds "${BENCH_ROUNDS:-1000}" "${servers[@]}"
run histories histories --url "$url" --time "${BENCH_SECONDS:-30}s" --console "${url%/*}/consort"
pid() { cat "$home/$1/consort.pid"; }
run overhead-anywhere overhead --direct "$direct" --url "$url" --proxy-pid "$(pid anywhere)" --initialize 10 "${servers[@]:2}"

# Where nobody else can log in proofs are cheaper. A direct connection would be somebody else: it and PgBouncer stay with the
# first cluster, and the CPU time of these servers is not counted.
url=$("$consort" up --dir "$home/through" --writers through-consort --listen "127.0.0.1:$((20000 + RANDOM % 10000))")
pgbench --initialize --quiet --scale 10 "$url" >"$home/initialize.log" 2>&1 || { cat "$home/initialize.log"; exit 1; }
run overhead-through-consort overhead --direct "$direct" --url "$url" --proxy-pid "$(pid through)"
