#!/usr/bin/env bash
# Runs `make bench`: clusters in a temporary folder, a search for stale reads, list-append histories, and the cost
# compared with PgBouncer and a direct connection. Tables go to the terminal, CSV and JSON to bench-results/.
#
#   BENCH          the parts that run                (stale histories overhead bulk tls idle)
#   BENCH_ROUNDS   rounds of `bench stale` per gap   (1000)
#   BENCH_SECONDS  seconds of `bench histories`      (30)
#   BENCH_TURNS    rounds of each other part         (3)
set -euo pipefail
cd "$(dirname "$0")/.."
consort=$(readlink -f "${CONSORT:-target/dist/consort}")
home=$(mktemp -d "${TMPDIR:-/tmp}/consort-bench-XXXXXX")
chmod 755 "$home"
trap 'for dir in "$home"/*/; do "$consort" down --dir "$dir" >/dev/null 2>&1 || true; done; rm -rf "$home"' EXIT
mkdir -p bench-results
ulimit -n "$(ulimit -Hn)" # thousands of clients

# up NAME [OPTION..]: a cluster with pgbench's tables. The roles `pooled` and `known` use transaction pooling; `known` logs in
# by SCRAM. Lines on standard input are added to its configuration.
up() {
    local dir=$home/$1 file=$home/$1/consort.toml
    "$consort" up --dir "$dir" --listen "127.0.0.1:$((20000 + RANDOM % 10000))" "${@:2}" >/dev/null
    "$consort" down --dir "$dir"
    printf 'host all known 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n' >"$dir/rules"
    touch "$dir/users"
    sed -i "s|^auth_type = .*|auth_type = \"hba\"\npool_mode = \"session\"\nauth_hba_file = \"$dir/rules\"\nauth_file = \"$dir/users\"\nmax_clients = 5000|" "$file"
    # `consort up` writes all below this line again.
    grep -q '^# Servers of `consort up`' "$file"
    { sed '/^# Servers of `consort up`/,$d' "$file" && cat && printf '[user.%s]\npool_mode = "transaction"\n\n' pooled known &&
        sed -n '/^# Servers of `consort up`/,$p' "$file"; } >"$file.new"
    mv "$file.new" "$file"
    "$consort" up --dir "$dir" >/dev/null
    psql -qX "$(url "$1")" -c "CREATE ROLE pooled SUPERUSER LOGIN" -c "CREATE ROLE known SUPERUSER LOGIN PASSWORD 'known'"
    psql -AtX "$(url "$1")" -c "SELECT format('\"%s\" \"%s\"', rolname, rolpassword) FROM pg_authid WHERE rolname = 'known'" >"$dir/users"
    psql -qX "$(console "$1")" -c RELOAD
    pgbench -i -q -s 10 "$(url "$1")" >"$home/initialize.log" 2>&1 || { cat "$home/initialize.log"; exit 1; }
}
# url NAME [USER[:PASSWORD]], console NAME, port NAME NODE, direct NAME NODE: addresses in a cluster
url() { echo "postgres://${2:-postgres}@$(sed -n 's/^listen = \["\(.*\)"\]/\1/p' "$home/$1/consort.toml")/postgres"; }
console() { url "$1" | sed 's|[^/]*$|consort|'; }
port() {
    "$consort" status --dir "$home/$1" --json | tr -d ' \n' | grep -o "\"name\":\"$2\"[^}]*\"port\":[0-9]*" | grep -o '[0-9]*$'
}
direct() { echo "postgres://postgres@127.0.0.1:$(port "$1" "$2")/postgres?sslmode=disable"; }

# bench NAME SUBCOMMAND ..: its figures
bench() {
    echo "== $1"
    "$consort" bench "${@:2}" --csv "bench-results/$1.csv" --json "bench-results/$1.json"
}
# way TITLE NAME [USER]: arguments for measuring a cluster
way() { ways+=(--name "$1" --url "$(url "$2" "${3:-}")${sslmode:+?sslmode=$sslmode}" --proxy-pid "$(cat "$home/$2/consort.pid")"); }
runs() { case " ${BENCH:-stale histories overhead bulk tls idle} " in *" $1 "*) ;; *) false ;; esac; }
turns=(--rounds "${BENCH_TURNS:-3}")

# The nodes accept local log-ins, for the direct connection and for their own statistics.
up anywhere --writers anywhere </dev/null
servers=()
for node in primary standby1 standby2; do servers+=(--server "$node=$(direct anywhere "$node")"); done
if runs stale; then
    bench stale stale --url "$(url anywhere)" --rounds "${BENCH_ROUNDS:-1000}" "${servers[@]}"
fi
if runs histories; then
    bench histories histories --url "$(url anywhere)" --time "${BENCH_SECONDS:-30}s" --console "$(console anywhere)"
fi

# Proofs are cheaper if only Consort can log in at the nodes. A direct connection and PgBouncer therefore stay with the
# first cluster. The third cluster has no standbys: it shows the cost of pooling alone.
if runs overhead || runs bulk || runs idle; then
    up through </dev/null
    up alone --standbys 0 --writers anywhere </dev/null
    beside=(--direct "$(direct anywhere primary)" --pgbouncer-setting server_tls_sslmode=disable)
fi
if runs overhead; then
    ways=("${beside[@]}")
    way consort through
    way "consort, shared" through pooled
    way "consort, writers anywhere" anywhere
    way "consort, no standbys" alone
    way "consort, no standbys, shared" alone pooled
    bench overhead overhead "${turns[@]}" --script select-only,mix "${ways[@]}"
fi
# Log-ins by SCRAM, and long values. PgBouncer has the role's password, Consort the secret from PostgreSQL.
if runs bulk; then
    ways=("${beside[@]}")
    printf '"known" "known"\n' >"$home/known.txt"
    printf 'host all known 127.0.0.1/32 scram-sha-256\n' >"$home/known.hba"
    way consort through known:known
    way "consort, no standbys" alone known:known
    bench bulk overhead "${turns[@]}" --script connect,large-rows,copy-out,copy-in "${ways[@]}" \
        --pgbouncer-setting auth_type=hba --pgbouncer-setting "auth_hba_file=$home/known.hba" \
        --pgbouncer-setting "auth_file=$home/known.txt" --pgbouncer-client "user=known password=known"
fi
# TLS on both sides, with one self-signed certificate. Consort reaches nodes by TCP with `writers = "anywhere"`.
if runs tls; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout "$home/key.pem" -out "$home/cert.pem" 2>/dev/null
    chmod 644 "$home/cert.pem" && chmod 600 "$home/key.pem"
    if [ "$(id -u)" = 0 ]; then chown postgres "$home/key.pem"; fi # the user of PostgreSQL and PgBouncer
    up tls --standbys 0 --writers anywhere </dev/null
    psql -qX "$(direct tls primary)" -c "ALTER SYSTEM SET ssl_cert_file = '$home/cert.pem'" \
        -c "ALTER SYSTEM SET ssl_key_file = '$home/key.pem'" -c "ALTER SYSTEM SET ssl = on" -c "SELECT pg_reload_conf()" >/dev/null
    "$consort" down --dir "$home/tls"
    sed -i "s|^auth_type|tls_certificate = \"$home/cert.pem\"\ntls_key = \"$home/key.pem\"\nserver_tls = \"require\"\nauth_type|" "$home/tls/consort.toml"
    "$consort" up --dir "$home/tls" >/dev/null
    ways=(--direct "$(direct tls primary)" --pgbouncer-client sslmode=require)
    for setting in client_tls_sslmode=require "client_tls_cert_file=$home/cert.pem" "client_tls_key_file=$home/key.pem" \
        server_tls_sslmode=require; do ways+=(--pgbouncer-setting "$setting"); done
    sslmode=require
    way "consort, no standbys" tls
    way "consort, no standbys, shared" tls pooled
    bench tls overhead "${turns[@]}" "${ways[@]}"
fi
if runs idle; then
    sslmode=
    ways=("${beside[@]}")
    way "consort, shared" through pooled
    bench idle idle "${ways[@]}" --pgbouncer-setting max_client_conn=5000
fi
