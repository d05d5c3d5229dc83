#!/usr/bin/env bash
# PostgreSQL's own regress suite, first on plain PostgreSQL, then through Consort with its database followed.
#
#   suites/regress.sh [--floor N] [--only plain|consort] [--keep DIR] [--source-version V] [--shadow] [--pool MODE]
#
#   --floor N            files that must pass through Consort (205); fewer end in an error
#   --only WHICH         one of the two runs
#   --keep DIR           copy results, differences and logs there
#   --source-version V   take tests and psql of this version of Debian's package. Without it those of the installed
#                        server's version are taken, or, where the archive does not hand out that source, those of the
#                        nearest minor version that it does; said in the first lines. psql belongs to the tests: since
#                        15.19 it skips to the next \. after a COPY that fails, which older scripts do not have
#   --shadow             through Consort in shadow mode: each offloaded read also runs at the primary, before and after,
#                        and the answers are compared. A difference that suites/shadow-reviewed.txt does not name is an
#                        error. One file runs at a time: under DDL of other files hardly any read can be offloaded
#   --pool MODE          through Consort with pool_mode = "MODE": transaction (or statement); without it session
#
# CONSORT_POSTGRES_BIN names the programs of another major. Tests and headers of 17 and 18 then come from later releases of
# Debian, and pg_regress from the folder of the programs. No release of Debian has a source of 16.
#
# The source package is fetched with apt, by a sources file of its own; the system's sources stay as they are. It is kept
# in target/suites. Servers, results and everything else live in a temporary folder that goes with the script, and so do
# its processes. Permitted differences of the results are in suites/footers.awk and docs/compatibility.md.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
. suites/cluster.sh

floor=205
only=
keep=
source_version=
shadow=
pool=
while [ $# -gt 0 ]; do
    case "$1" in
        --floor) floor=$2; shift 2 ;;
        --only) only=$2; shift 2 ;;
        --keep) keep=$2; shift 2 ;;
        --source-version) source_version=$2; shift 2 ;;
        --shadow) shadow=1; shift ;;
        --pool) pool=$2; shift 2 ;;
        *) fail "no such option: $1" ;;
    esac
done

bin=${CONSORT_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}
installed=$("$bin/postgres" --version | sed -E 's/^[^0-9]*([0-9.]+).*/\1/') || fail "PostgreSQL is not installed in $bin"
major=${installed%%.*}
case $major in
    15) release= installed=$(dpkg-query -W -f '${Version}' postgresql-15) || fail "postgresql-15 is not installed" ;;
    17) release=trixie ;;
    18) release=sid ;;
    *) fail "no release of Debian has the tests of PostgreSQL $major" ;;
esac
package=postgresql-$major
pg_regress=$(find "$(dirname "$(realpath "$bin/postgres")")/../lib" -path '*/pgxs/src/test/regress/pg_regress' | head -n 1)
[ -n "$pg_regress" ] || fail "the programs in $bin have no pg_regress"
cache=$root/target/suites
psql_folder=$bin

# Debian's source package, by apt, in a folder of its own.
fetch() {
    headers=/usr/include/postgresql/15/server
    [ -z "$release" ] || headers=$cache/headers/usr/include/postgresql/$major/server
    have_source "${source_version:-$installed}" && [ -d "$headers" ] && return 0
    have apt-get || fail "Debian's source package $package=$installed is needed, and there is no apt-get"
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache/archives/partial" "$cache/source" "$cache/headers"
    # The repositories that the system takes its packages from, or the same of a later release, checked against Debian's keys.
    local key="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" found
    found=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | sort -u)
    if [ -z "$release" ]; then
        sed "s|^|deb-src $key |" <<<"$found" >"$cache/apt/sources.list"
    else
        found=$(grep -v security <<<"$found" | head -n 1 | cut -d ' ' -f 1)
        printf '%s\n' "deb-src $key $found $release main" "deb $key $found $release main" >"$cache/apt/sources.list"
    fi
    local apt=(-q -o "Dir::Etc::sourcelist=$cache/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$cache/apt/lists" -o "Dir::Cache=$cache/apt/cache" -o APT::Sandbox::User=root)
    (cd "$cache/source" && apt-get "${apt[@]}" update) >"$work/apt.log" 2>&1 </dev/null || true
    if [ -n "$release" ] && [ ! -d "$headers" ]; then
        (cd "$work" && apt-get "${apt[@]}" download "postgresql-server-dev-$major" && dpkg-deb -x postgresql-server-dev-*.deb "$cache/headers") \
            >>"$work/apt.log" 2>&1 </dev/null || { cat "$work/apt.log" >&2; fail "no headers of PostgreSQL $major"; }
    fi
    local version
    for version in ${source_version:-$(nearest_versions)}; do
        echo "fetching the source of $package $version"
        have_source "$version" && return 0
        (cd "$cache/source" && apt-get "${apt[@]}" source --download-only "$package=$version") \
            >>"$work/apt.log" 2>&1 </dev/null && have_source "$version" && return 0
        echo "the archive does not hand out that source"
    done
    grep -E '^(E|Err)' "$work/apt.log" >&2 || true
    fail "no source of $package; what was run: cd $cache/source && apt-get ${apt[*]} source --download-only $package"
}

# The installed server's version, then those that the archive lists, the nearest minor version first.
nearest_versions() {
    echo "$installed"
    apt-cache "${apt[@]}" showsrc "$package" 2>/dev/null | sed -n 's/^Version: //p' \
        | awk -F '[.-]' -v own="$installed" 'BEGIN { split(own, part, /[.-]/) }
            $0 != own { print ($2 > part[2] ? $2 - part[2] : part[2] - $2), $0 }' | sort -n | cut -d ' ' -f 2
}

have_source() {
    tarball=$(ls "$cache/source/${package}_${1%%-*}.orig.tar."* 2>/dev/null | grep -v '\.asc$' | head -n 1 || true)
    [ -n "$tarball" ] && source_version=$1
}

# The psql of the tests' own version.
psql_of_tests() {
    [ "$source_version" != "$installed" ] && [ -z "$release" ] || return 0
    mkdir "$work/client"
    (cd "$work/client" && apt-get -q -o APT::Sandbox::User=root download "postgresql-client-15=$source_version" \
        && dpkg-deb -x ./*.deb .) >"$work/apt.log" 2>&1 </dev/null \
        || { cat "$work/apt.log" >&2; fail "the archive has no postgresql-client-15=$source_version"; }
    psql_folder=$work/client/usr/lib/postgresql/15/bin
    chmod -R a+rX "$work/client"
}

# The tests, and the three libraries that they load, built against the installed server's headers.
build() {
    mkdir "$work/source"
    tar -xf "$tarball" -C "$work/source" --strip-components=1 --wildcards '*/src/test/regress' '*/contrib/spi'
    regress=$work/source/src/test/regress
    mkdir "$work/lib"
    [ -d "$headers" ] || fail "headers are missing; run: apt-get install postgresql-server-dev-15=$installed"
    local cc=(cc -O1 -w -fPIC -shared -I "$headers" -I /usr/include/postgresql)
    "${cc[@]}" -o "$work/lib/regress.so" "$regress/regress.c"
    "${cc[@]}" -DREFINT_VERBOSE -o "$work/lib/refint.so" "$work/source/contrib/spi/refint.c"
    "${cc[@]}" -o "$work/lib/autoinc.so" "$work/source/contrib/spi/autoinc.c"
    own "$work/source" "$work/lib"
}

files() { sed -nE 's/^test: *//p' "$regress/parallel_schedule" | tr -s ' ' '\n'; }

# One run of the whole schedule: NAME HOST PORT.
schedule() {
    local name=$1 host=$2 port=$3 output=$work/$1 begun=$SECONDS
    mkdir -p "$output/testtablespace"
    own "$output"
    echo "running $(grep -cE . <(files)) files: $name"
    (cd "$output" && as_user "$pg_regress" --inputdir="$regress" --outputdir="$output" \
        --dlpath="$work/lib" --bindir="$psql_folder" --host="$host" --port="$port" --user=postgres \
        --max-concurrent-tests=20 ${shadow:+--max-connections=1} --schedule="$regress/parallel_schedule") >"$output/log" 2>&1 </dev/null || true
    judge "$name" "$output" $((SECONDS - begun))
}

# Each file's result against each of its expected outputs, both through the one rule; pg_regress's own report of an
# exit status counts too.
judge() {
    local name=$1 output=$2 seconds=$3 file expected passed same
    local ran=0 good=0 failed=()
    mkdir -p "$output/filtered"
    for file in $(files); do
        ran=$((ran + 1)) passed=
        awk -f "$root/suites/footers.awk" "$output/results/$file.out" >"$output/filtered/$file.out" 2>/dev/null || true
        for expected in "$regress/expected/$file.out" "$regress/expected/$file"_[0-9].out; do
            [ -f "$expected" ] || continue
            awk -f "$root/suites/footers.awk" "$expected" >"$output/expected.out"
            cmp -s "$output/filtered/$file.out" "$output/expected.out" && passed=1 && break
        done
        grep -qE "^(test )? *$file +\.\.\. .*\(test process exited" "$output/log" && passed=
        if [ -n "$passed" ]; then good=$((good + 1)); echo "$file" >>"$output/passed"; continue; fi
        failed+=("$file")
        awk -f "$root/suites/footers.awk" "$regress/expected/$file.out" >"$output/expected.out"
        diff -U3 "$output/expected.out" "$output/filtered/$file.out" >"$output/filtered/$file.diff" 2>&1 || true
    done
    echo "$name: $good of $ran files pass, in $seconds s"
    echo "passed: $(tr '\n' ' ' <"$output/passed" 2>/dev/null || true)"
    for file in "${failed[@]}"; do
        same=
        [ "$name" = plain ] || ! cmp -s "$work/plain/filtered/$file.out" "$output/filtered/$file.out" \
            || same=", exactly as on plain PostgreSQL"
        echo "failed: $file ($(grep -cE '^[-+][^-+]' "$output/filtered/$file.diff" || true) lines differ$same)"
        head -n 14 "$output/filtered/$file.diff" | sed 's/^/    /'
    done
    [ -z "$keep" ] || { mkdir -p "$keep/$name" && cp -r "$output/." "$keep/$name/"; }
    passing=$good
}

console() { psql -X -A -t -h 127.0.0.1 -p "$port" -U postgres -d consort "$@"; }

# Checks that the mode is the requested one.
pools_so() {
    console -c 'SHOW CONFIG' | grep "^pool_mode|$pool|" \
        || fail "pool_mode is not $pool"
}

take_folder
program=
[ "$only" = plain ] || program=$(consort_program)
fetch
echo "tests of $package $source_version, server $installed"
[ "$source_version" = "$installed" ] || echo "NOTE: tests and psql are NOT of the server's own version; the run on plain" \
    "PostgreSQL shows what that alone makes fail"
psql_of_tests
build
if [ "$only" != consort ]; then
    start_plain
    schedule plain "$plain_host" 5432
    stop_plain
fi
if [ "$only" != plain ]; then
    [ -z "$shadow" ] || shadow_on
    sets "pool_mode = \"${pool:-session}\""
    start_consort
    [ -z "$pool" ] || pools_so
    schedule consort 127.0.0.1 "$port"
    "$program" status --dir "$work/cluster" --json >"$work/consort/status.json" || true
    console -c 'SHOW ROUTES' >"$work/consort/routes" 2>&1 || true
    [ -z "$pool" ] || echo "assignments of connections: $(console -c 'SHOW STATS' | grep '^regression|' || true)"
    share_of_reads
    [ -z "$shadow" ] || [ -z "$keep" ] || cp "$work/shadow" "$keep/consort/shadow"
    [ -z "$shadow" ] || shadow_verdict
    if [ -n "$keep" ]; then
        cp "$work/consort/status.json" "$work/consort/routes" "$keep/consort/"
        cp "$work"/consort.log "$keep/consort/" 2>/dev/null || true
        cp -r "$work/cluster/primary/log" "$keep/consort/primary-log"
    fi
    [ "$passing" -ge "$floor" ] || fail "$passing files pass through Consort, at least $floor must"
fi
