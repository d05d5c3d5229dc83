# Shared by the suites: a temporary folder, an ordinary user, a plain server and a cluster of Consort. All of them end
# with the script. Source this file from the project's root.

fail() {
    printf 'suites: %s\n' "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Path of the program that the Makefile built; CONSORT names another one.
consort_program() {
    local program
    for program in "${CONSORT:-}" "$root/target/release/consort" "$root/target/debug/consort"; do
        [ -n "$program" ] && [ -x "$program" ] && { echo "$program"; return; }
    done
    fail "consort not found; run: cargo build --release -p consort"
}

# Runs a command as the user postgres if the script runs as root, because PostgreSQL's programs refuse root.
as_user() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid postgres --regid postgres --init-groups -- env HOME="$work" "$@"
    else
        "$@"
    fi
}

own() { [ "$(id -u)" -ne 0 ] || chown -R postgres:postgres "$@"; }

take_folder() {
    work=$(mktemp -d /tmp/consort-suite.XXXXXX)
    chmod 755 "$work"
    plain_pid= consort_pid=
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

clean_up() {
    local status=$?
    trap - EXIT HUP INT TERM
    stop_plain
    stop_consort
    rm -rf "$work"
    exit "$status"
}

# Waits for a process to end, and kills it after a time: PID SECONDS.
gone() {
    local tries=$(($2 * 10))
    while kill -0 "$1" 2>/dev/null && [ $tries -gt 0 ]; do
        sleep 0.1
        tries=$((tries - 1))
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# A plain server in the C locale, on a Unix socket, and with [PORT] at 127.0.0.1, too.
start_plain() {
    local port=${1:-5432} listen=${1:+127.0.0.1}
    plain_host=$work/plain-server
    mkdir "$plain_host"
    own "$plain_host"
    as_user env LC_ALL=C "$bin/initdb" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync \
        --pgdata="$plain_host/data" >"$work/initdb.log"
    local who=()
    [ "$(id -u)" -ne 0 ] || who=(--reuid postgres --regid postgres --init-groups)
    (cd "$plain_host" && exec setpriv "${who[@]}" --pdeathsig INT -- "$bin/postgres" -D "$plain_host/data" \
        -p "$port" -c listen_addresses="$listen" -c unix_socket_directories="$plain_host") >"$work/plain.log" 2>&1 </dev/null &
    plain_pid=$!
    until_answers "$plain_pid" "$plain_host" "$port"
}

stop_plain() {
    [ -n "$plain_pid" ] || return 0
    kill -INT "$plain_pid" 2>/dev/null || true
    gone "$plain_pid" 60
    plain_pid=
}

# A port without a listener, outside the ranges that the system assigns automatically.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}

# A primary, two standbys and Consort, in the C locale, at 127.0.0.1:$port.
start_consort() {
    port=$(free_port)
    LC_ALL=C setpriv --pdeathsig TERM -- "$program" up --foreground --dir "$work/cluster" --listen "127.0.0.1:$port" \
        >"$work/consort.log" 2>&1 </dev/null &
    consort_pid=$!
    until_answers "$consort_pid" 127.0.0.1 "$port"
}

stop_consort() {
    [ -n "$consort_pid" ] || return 0
    kill -TERM "$consort_pid" 2>/dev/null || true
    gone "$consort_pid" 90
    # If Consort was killed, its servers still run; this stops them.
    "$program" down --dir "$work/cluster" >/dev/null 2>&1 || true
    consort_pid=
}

until_answers() {
    local tries=1200
    until psql -X -q -h "$2" -p "$3" -U postgres -d postgres -c 'SELECT 1' >/dev/null 2>&1; do
        kill -0 "$1" 2>/dev/null || { cat "$work"/*.log >&2; fail "the server does not start"; }
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { cat "$work"/*.log >&2; fail "the server does not answer within two minutes"; }
        sleep 0.1
    done
}

# Before start_consort: adds these lines to its configuration.
sets() {
    mkdir -p "$work/cluster"
    printf '%s\n' "$@" >>"$work/cluster/consort.toml"
}

# Before start_consort: shadow mode, with enough time for analysis and proof that first reads are offloaded too.
shadow_on() {
    metrics_port=$(free_port)
    sets "debug.shadow = \"$work/shadow\"" 'proof_timeout = "1s"' "metrics_listen = \"127.0.0.1:$metrics_port\""
}

# Prints the verdicts of shadow mode with their counts. Fails if a difference is not in suites/shadow-reviewed.txt.
shadow_verdict() {
    local page
    exec 3<>"/dev/tcp/127.0.0.1/$metrics_port"
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    page=$(cat <&3)
    exec 3>&-
    echo "compared with the primary: $(sed -nE 's/^consort_shadowed_total\{verdict="([a-z]+)"\} ([0-9]+).*/\1 \2/p' <<<"$page" \
        | tr '\n' ' ')"
    awk -F '\t' -v OFS='\t' '
        FNR == NR { if ($0 !~ /^#/ && NF > 1) reviewed[$1] = $2; next }
        $1 == "different" {
            for (part in reviewed) if (index($5, part)) { known[part]++; next }
            other++; print
        }
        END {
            for (part in known) printf "reviewed, %d times: %s (%s)\n", known[part], part, reviewed[part]
            if (other) { printf "%d differences without a review\n", other; exit 1 }
        }' suites/shadow-reviewed.txt "$work/shadow" || fail "a standby answered differently from the primary"
}

# From `consort status --json`: reads served by each node, and the standbys' share.
share_of_reads() {
    "$program" status --dir "$work/cluster" --json | awk '
        /"name":/ { gsub(/[",]/, ""); name = $2 }
        /"reads_served":/ { gsub(/,/, ""); served[name] = $2; all += $2 }
        /"role":/ { gsub(/[",]/, ""); role = $2 }
        END {
            for (name in served) { if (name != "primary") away += served[name] }
            printf "reads served: %d, at standbys: %d (%.1f %%)\n", all, away, all ? 100 * away / all : 0
        }'
}
