#!/usr/bin/env bash
# Measures the time of a logical replica to catch up with TPC-C (write-heavy) after a pause, with its rows applied on
# one connection and on several, in turns. Prints a line per run, and medians at the end.
#
#   scripts/catch-up.sh [CONNECTIONS...]    (1 2 3 4)
#   CATCH_UP_ROUNDS        rounds, each with every number of connections   (5)
#   CATCH_UP_SCALE         warehouses                                      (4)
#   CATCH_UP_TRANSACTIONS  during the pause                                (20000)
set -euo pipefail
cd "$(dirname "$0")/.."
consort=${CONSORT:-target/release/consort}
home=$(mktemp -d "${TMPDIR:-/tmp}/consort-catch-up-XXXXXX")
chmod 755 "$home"
trap '"$consort" down --dir "$home/c" >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
connections=("$@")
[ $# -gt 0 ] || connections=(1 2 3 4)
listen=127.0.0.1:$((20000 + RANDOM % 10000))

up() { "$consort" up --dir "$home/c" "$@" >"$home/up.log" 2>&1 || { cat "$home/up.log" >&2; exit 1; }; }
console() { psql -X -A -t -d "postgres://postgres@$listen/consort" -c "$1"; }
column() { psql -X -A -d "postgres://postgres@$listen/consort" -c "SHOW REPLICATION" | awk -F '|' -v name="$1" -v database=postgres \
    'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } $at["database"] == database { print $at[name] }'; }
fed() { # until the replica shows the newest version; each look takes a process, so there are few
    until psql -X -A -t -d "postgres://postgres@$listen/consort" -c "SHOW REPLICATION" |
        awk -F '|' '$4 == "postgres" && $5 == "serving" && $10 == 0 { found = 1 } END { exit !found }'; do sleep 0.05; done
}
tpcc() {
    "$consort" bench tpcc --url "postgres://postgres@$listen/postgres" --mix write-heavy --clients 8 \
        --scale "${CATCH_UP_SCALE:-4}" "$@" >"$home/tpcc.log" 2>&1 || { cat "$home/tpcc.log" >&2; exit 1; }
}
used() { # processor time so far, in ticks of 10 ms: Consort's, the replica's
    ps -eo pid=,ppid=,args= | awk -v home="$home" '
        index($0, home "/c/consort.toml") { print "consort", $1 }
        index($0, home "/c/") && /replica1/ && / -D / { server = $1 }
        { parent[$1] = $2 }
        END { for (pid in parent) if (pid == server || parent[pid] == server) print "replica", pid }' |
        while read -r who pid; do echo "$who $(awk '{ print $14 + $15 }' "/proc/$pid/stat" 2>/dev/null)"; done |
        awk '{ used[$1] += $2 } END { print used["consort"] + 0, used["replica"] + 0 }'
}
settings() { # the configuration before its first table
    local file=$home/c/consort.toml
    sed -i '/^apply_connections\|^replication_buffer_size/d' "$file"
    sed -i "1i apply_connections = $1\nreplication_buffer_size = \"4GB\"" "$file"
}

up --listen "$listen" --standbys 0 --replicas 1
tpcc --transactions 1000
fed
echo "connections,commits,MB,seconds,commits/s,steps,beside,again,consort s,replica s"
for _ in $(seq "${CATCH_UP_ROUNDS:-5}"); do
    for n in "${connections[@]}"; do
        "$consort" down --dir "$home/c" >/dev/null
        settings "$n"
        up
        psql -X -q -d "postgres://postgres@$listen/postgres" -c "SELECT 1" >/dev/null # replication starts at the first use
        fed
        console "PAUSE REPLICA replica1" >/dev/null
        tpcc --time 3600s --transactions "${CATCH_UP_TRANSACTIONS:-20000}" --keep
        commits=$(column pending_commits) bytes=$(column pending_bytes)
        read -r consort_before replica_before < <(used)
        before=$(date +%s%N)
        console "RESUME REPLICA replica1" >/dev/null
        fed
        took=$(($(date +%s%N) - before))
        read -r consort_after replica_after < <(used)
        awk -v n="$n" -v commits="$commits" -v bytes="$bytes" -v took="$took" -v steps="$(column steps)" \
            -v beside="$(column steps_beside)" -v again="$(column steps_again)" \
            -v consort="$((consort_after - consort_before))" -v replica="$((replica_after - replica_before))" 'BEGIN {
                printf "%d,%d,%.0f,%.2f,%.0f,%d,%d,%d,%.2f,%.2f\n", n, commits, bytes / 1e6, took / 1e9,
                    commits / (took / 1e9), steps, beside, again, consort / 100, replica / 100 }'
    done
done | tee "$home/runs.csv"
for n in "${connections[@]}"; do
    awk -F , -v n="$n" '$1 == n { print $5 }' "$home/runs.csv" | sort -n |
        awk -v n="$n" '{ all[NR] = $1 } END { printf "%d connections: median %d commits/s\n", n, all[int((NR + 1) / 2)] }'
done
