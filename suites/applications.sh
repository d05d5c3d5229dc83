#!/usr/bin/env bash
# Applications over ORMs, with their defaults. Each request is a transaction of reads, and every tenth one writes at its end.
#
#   suites/applications.sh [--requests N] [--packages DIR] [sqlalchemy|django|gorm|typeorm|hibernate ..]
#
#   --requests N     so many requests to each application (400)
#   --packages DIR   keep the packages there, and use those that are there
#
# Each application runs on a plain server, through PgBouncer before it (session pooling), and through Consort with its
# defaults and two standbys, with the same data. The answers must be the same. Prints the median and the 99th percentile of
# a request, and the share of reads at standbys, which must be 90 %, with the reasons of the others.
#
# Packages come from their languages' registries, at the versions in suites/applications; an
# application whose language is not installed is named and left out, unless it was asked for.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh
bin=${CONSORT_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}
requests=400
packages=
while [ $# -gt 0 ]; do
    case "$1" in
        --requests) requests=$2; shift 2 ;;
        --packages) packages=$2; shift 2 ;;
        *) break ;;
    esac
done
asked=$*
known=" sqlalchemy django gorm typeorm hibernate "

left_out() { [ -z "$asked" ] || fail "$1"; echo "left out: $1"; return 1; }

served() { "$program" status --dir "$work/cluster" --json | awk -v want="$1" '
    /"name":/ { gsub(/[",]/, ""); name = $2 }
    /"reads_served":/ { gsub(/,/, ""); if ((name == "primary") == (want == "primary")) sum += $2 }
    END { print sum + 0 }'; }

console() { command psql -X -h 127.0.0.1 -p "$port" -U postgres -d consort "$@"; }

# python3 with the packages of requirements.txt, once: APPLICATION.
python() {
    [ ! -x "$packages/venv/bin/python" ] || return 0
    have python3 && python3 -m venv "$packages/venv" 2>/dev/null || { left_out "$1: python3 with venv"; return; }
    "$packages/venv/bin/pip" install -q --disable-pip-version-check --no-deps -r suites/applications/requirements.txt
}

make_sqlalchemy() { python SQLAlchemy; }
run_sqlalchemy() { "$packages/venv/bin/python" suites/applications/sqlalchemy_requests.py "$@"; }

make_django() { python Django; }
run_django() { "$packages/venv/bin/python" suites/applications/django_requests.py "$@"; }

make_gorm() {
    have go || { left_out "GORM: Go"; return; }
    [ ! -d "$packages/gorm" ] || return 0
    cp -r suites/applications/gorm "$packages/"
    (cd "$packages/gorm" && go build -o gorm .) || fail "GORM cannot be built"
}
run_gorm() { "$packages/gorm/gorm" "$@"; }

make_typeorm() {
    have node && have npm || { left_out "TypeORM: node with npm"; return; }
    [ ! -d "$packages/typeorm" ] || return 0
    cp -r suites/applications/typeorm "$packages/"
    (cd "$packages/typeorm" && npm ci --silent --no-audit --no-fund --ignore-scripts) || fail "TypeORM cannot be had"
}
run_typeorm() { node "$packages/typeorm/requests.cjs" "$@"; }

make_hibernate() {
    have javac && have mvn || { left_out "Hibernate: a JDK with Maven"; return; }
    [ ! -d "$packages/hibernate" ] || return 0
    cp -r suites/applications/hibernate "$packages/"
    (cd "$packages/hibernate" && mvn -q -B -ntp -Dstyle.color=never \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory=. \
        && sha256sum --quiet -c sha256 && javac -cp '*' -d . Requests.java) || fail "Hibernate cannot be had"
}
run_hibernate() { java -cp "$packages/hibernate:$packages/hibernate/*" Requests "$@"; }

# PgBouncer before the plain server, in the foreground.
start_pgbouncer() {
    bouncer_port=$(free_port)
    cat >"$work/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port=$plain_port user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $bouncer_port
auth_type = any
pool_mode = session
unix_socket_dir =
INI
    own "$work/pgbouncer.ini"
    local who=()
    [ "$(id -u)" -ne 0 ] || who=(--reuid postgres --regid postgres --init-groups)
    setpriv "${who[@]}" --pdeathsig INT -- pgbouncer -q "$work/pgbouncer.ini" >"$work/pgbouncer.log" 2>&1 </dev/null &
    until_answers $! 127.0.0.1 "$bouncer_port"
}

# The answers of an application in a file, and its times: NAME WAY PORT DATABASE.
requests_of() {
    local file=$work/$1.$2
    "run_$1" "postgres://postgres@127.0.0.1:$3/$4" "$requests" >"$file" 2>"$file.times" \
        || { cat "$file.times"; fail "$1 stopped half-way ($2)"; }
    tail -n 1 "$file.times"
}

try() {
    local name=$1 way direct bouncer through at_primary at_standbys share
    for way in direct pgbouncer; do
        command psql -X -q -h 127.0.0.1 -p "$plain_port" -U postgres -c "CREATE DATABASE ${name}_$way"
        command psql -X -q -h 127.0.0.1 -p "$plain_port" -U postgres -d "${name}_$way" -f suites/applications/shop.sql
    done
    command psql -X -q -h 127.0.0.1 -p "$port" -U postgres -d postgres -c "CREATE DATABASE $name"
    command psql -X -q -h 127.0.0.1 -p "$port" -U postgres -d "$name" -f suites/applications/shop.sql
    direct=$(requests_of "$name" direct "$plain_port" "${name}_direct")
    bouncer=$(requests_of "$name" pgbouncer "$bouncer_port" "${name}_pgbouncer")
    at_primary=$(served primary) at_standbys=$(served standbys)
    through=$(requests_of "$name" consort "$port" "$name")
    at_primary=$(($(served primary) - at_primary)) at_standbys=$(($(served standbys) - at_standbys))
    share=$(awk -v s="$at_standbys" -v p="$at_primary" 'BEGIN { printf "%.1f", s + p ? 100 * s / (s + p) : 0 }')
    for way in pgbouncer consort; do
        diff "$work/$name.direct" "$work/$name.$way" || fail "$name: the answers differ through $way"
    done
    printf '%-11s %8s %8s   %8s %8s   %8s %8s   %5s %%  ' "$name" $direct $bouncer $through "$share"
    console -At -F ' ' -c 'SHOW ROUTES' | awk -v name="$name" '
        $1 == name && /primary/ && / (SELECT|select) / { count[$(NF - 2)] += $(NF - 1) }
        END { for (reason in count) printf "%s %d  ", reason, count[reason]; print "" }'
    awk -v share="$share" 'BEGIN { exit !(share < 90) }' && low+=" $name:$share" || true
}

for name in $asked; do
    case $known in
        *" $name "*) ;;
        *) fail "no such application: $name" ;;
    esac
done
have pgbouncer || fail "pgbouncer is missing: scripts/prerequisites.sh pgbouncer"
low= made=
take_folder
packages=${packages:-$work}
mkdir -p "$packages"
program=$(consort_program)
for name in ${asked:-$known}; do "make_$name" && made+=" $name" || true; done
plain_port=$(free_port)
start_plain "$plain_port"
start_pgbouncer
start_consort
echo "$requests requests each, in ms: median and 99th percentile on a plain server, through PgBouncer, through Consort;"
echo "share of reads at standbys; reads at the primary by reason"
for name in $made; do try "$name"; done
[ -z "$low" ] || fail "less than 90 % of the reads at standbys:$low"
