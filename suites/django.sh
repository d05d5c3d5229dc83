#!/usr/bin/env bash
# Django's own tests, first on a plain server, then through Consort with two standbys, strong reads and transaction pooling,
# compared test by test.
#
#   suites/django.sh [--only plain|consort] [--pool MODE] [--keep DIR] [LABEL ..]
#
#   --only WHICH   one of the two runs; nothing is compared then
#   --pool MODE    through Consort with pool_mode = "MODE" (transaction)
#   --keep DIR     copy results, output and logs there
#   LABEL ..       these labels of Django's tests (those of suites/django/labels)
#
# Django's source, which has the tests, and psycopg come from PyPI into the temporary folder, at the versions that are named
# here and in suites/django/requirements.txt. A test with another outcome than on the plain server, or without one, is an
# error, unless suites/django/explained has the reason.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh
version=5.2.19
bin=${CONSORT_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}

only=
pool=transaction
keep=
labels=()
while [ $# -gt 0 ]; do
    case "$1" in
        --only) only=$2; shift 2 ;;
        --pool) pool=$2; shift 2 ;;
        --keep) keep=$2; shift 2 ;;
        -*) fail "no such option: $1" ;;
        *) labels+=("$1"); shift ;;
    esac
done
[ ${#labels[@]} -gt 0 ] || mapfile -t labels < <(grep -v '^#' suites/django/labels)

console() { psql -X -A -t -h 127.0.0.1 -p "$port" -U postgres -d consort "$@"; }

# Django's source in $work/django, and a Python with its requirements.
fetch() {
    have python3 && python3 -m venv "$work/venv" || fail "python3 with venv is needed"
    local pip=("$work/venv/bin/pip" -q --disable-pip-version-check)
    "${pip[@]}" install --no-deps -r suites/django/requirements.txt || fail "psycopg cannot be had"
    "${pip[@]}" download --no-deps --no-binary django -d "$work" "django==$version" || fail "Django's source cannot be had"
    mkdir "$work/django"
    tar -xzf "$work/django-$version.tar.gz" -C "$work/django" --strip-components=1
}

# Runs the tests at a server; Django creates its test databases next to the databases named here: NAME HOST PORT.
run() {
    local name=$1 begun=$SECONDS
    mkdir "$work/$name"
    (cd "$work/django/tests" && env PYTHONPATH="$work/django:$root/suites/django" PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8 \
        DJANGO_HOST="$2" DJANGO_PORT="$3" DJANGO_RESULTS="$work/$name/lines" \
        "$work/venv/bin/python" -W ignore runtests.py --settings=consort_settings --parallel=1 --noinput "${labels[@]}") \
        >"$work/$name/log" 2>&1 </dev/null || true
    LC_ALL=C sort -t "$(printf '\t')" -k 2 "$work/$name/lines" >"$work/$name/results" 2>/dev/null || true
    [ -z "$keep" ] || { mkdir -p "$keep" && cp -r "$work/$name" "$work"/*.log "$keep/"; }
    [ -s "$work/$name/results" ] || { tail -n 30 "$work/$name/log" >&2; fail "no test ran: $name"; }
    grep -qE '^Ran [0-9]+ tests in ' "$work/$name/log" || { tail -n 30 "$work/$name/log" >&2; fail "the tests stopped half-way: $name"; }
    echo "$name: $(wc -l <"$work/$name/results") tests in $((SECONDS - begun)) s: $(cut -f 1 "$work/$name/results" \
        | sort | uniq -c | awk '{ n = $1; $1 = ""; printf "%s%s%s", sep, n, $0; sep = ", " }')"
}

# Tests with another outcome through Consort; an error if suites/django/explained has no reason.
compare() {
    awk -F '\t' '
        FILENAME ~ /explained$/ { if ($0 !~ /^#/ && NF > 1) reason[$1] = $2; next }
        FILENAME ~ /plain.results$/ { plain[$2] = $1; next }
        { consort[$2] = $1 }
        function judge(test, here, there) {
            if (here == there) return
            differ++
            printf "%s: %s on plain PostgreSQL, %s through Consort", test, here, there
            if (test in reason) printf " (%s)\n", reason[test]
            else { other++; print "" }
        }
        END {
            for (test in plain) judge(test, plain[test], test in consort ? consort[test] : "not run")
            for (test in consort) if (!(test in plain)) judge(test, "not run", consort[test])
            printf "%d tests end otherwise, %d of them for no known reason\n", differ, other
            exit other > 0
        }' suites/django/explained "$work/plain/results" "$work/consort/results" \
        || fail "Django's tests end otherwise through Consort than on plain PostgreSQL"
}

take_folder
program=
[ "$only" = plain ] || program=$(consort_program)
fetch
if [ "$only" != consort ]; then
    plain_port=$(free_port)
    start_plain "$plain_port"
    run plain 127.0.0.1 "$plain_port"
    stop_plain
fi
if [ "$only" != plain ]; then
    sets "pool_mode = \"$pool\"" 'default_pool_size = 4'
    start_consort
    console -c 'SHOW CONFIG' | grep "^pool_mode|$pool|" || fail "pool_mode is not $pool"
    run consort 127.0.0.1 "$port"
    [ -z "$keep" ] || { console -c 'SHOW ROUTES' >"$keep/routes" && cp "$work"/*.log "$keep/"; }
    echo "assignments of connections: $(console -c 'SHOW STATS' | awk -F '|' '/^test_django/ { printf "%s%s %s", sep, $1, $2; sep = ", " }')"
    share_of_reads
    [ -n "$only" ] || compare
fi
