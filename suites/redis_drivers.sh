#!/usr/bin/env bash
# Drivers of Redis in ordinary use at key-value transactions: suites/redis_drivers.sh [go|node ..] (all of them).
#
# Packages come from their languages' registries into the temporary folder, at the versions in the files next to the scripts; a
# driver whose language is not installed is named and left out, unless it was asked for. Each script checks the replies itself.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh
asked=$*

left_out() { [ -z "$asked" ] || fail "$1"; echo "left out: $1"; }

try_go() {
    have go || { left_out "go-redis: Go"; return 0; }
    cp -r suites/redis_drivers/go "$work/"
    (cd "$work/go" && go build -o ordinary .) || fail "go-redis cannot be built"
    "$work/go/ordinary" "127.0.0.1:$port" || fail go-redis
}

try_node() {
    have node && have npm || { left_out "ioredis: node with npm"; return 0; }
    cp -r suites/redis_drivers/node "$work/"
    (cd "$work/node" && npm ci --silent --no-audit --no-fund --ignore-scripts) || fail "ioredis cannot be had"
    node "$work/node/ordinary.mjs" "$port" || fail ioredis
}

known=" go node "
drivers=${asked:-$known}
for driver in $drivers; do
    case $known in
        *" $driver "*) ;;
        *) fail "no such driver: $driver" ;;
    esac
done
take_folder
program=$(consort_program)
port=$(free_port)
stop() { "$program" down --dir "$work/kv" >/dev/null 2>&1 || true; }
trap 'stop; clean_up' EXIT
"$program" up --dir "$work/kv" --design ph1 --listen "127.0.0.1:$port" >/dev/null
for driver in $drivers; do "try_$driver"; done
