#!/usr/bin/env bash
# What `make bench` runs: a cluster in a temporary folder, the hunt for stale reads, list-append histories, and the cost
# beside PgBouncer and a direct connection. Tables to the terminal, CSV and JSON to bench-results/.
#
#   BENCH_ROUNDS   rounds of `bench stale` per gap   (1000)
#   BENCH_SECONDS  seconds of `bench histories`      (30)
set -euo pipefail
cd "$(dirname "$0")/.."
consort=${CONSORT:-target/release/consort}
home=$(mktemp -d "${TMPDIR:-/tmp}/consort-bench-XXXXXX")
chmod 755 "$home"
trap '"$consort" down --dir "$home" >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
mkdir -p bench-results

# The nodes take local log-ins, so that the direct connection and their own statistics can be asked.
url=$("$consort" up --dir "$home" --writers anywhere --listen "127.0.0.1:$((20000 + RANDOM % 10000))")
nodes=$("$consort" status --dir "$home" --json)
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
run histories histories --url "$url" --time "${BENCH_SECONDS:-30}s" "${servers[@]}"
run overhead overhead --direct "$direct" --url "$url" --proxy-pid "$(cat "$home/consort.pid")" --initialize 10 "${servers[@]:2}"
