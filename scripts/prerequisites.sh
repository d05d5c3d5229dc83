#!/usr/bin/env bash
# Makes sure that what a target of the Makefile needs is there: scripts/prerequisites.sh GROUP...
#
#   rust       cargo and rustc, at least the version that Cargo.toml asks for
#   build      a C compiler and libclang (the SQL grammar library is PostgreSQL's own C code, bound by bindgen)
#   server     PostgreSQL 15: server, initdb, pg_basebackup, psql, pgbench; openssl for the tests
#   headers    what PostgreSQL's own tests are compiled against
#   pgbouncer  PgBouncer, which the benchmarks and some tests stand beside
#   pgpool     Pgpool-II, which an experiment stands beside
#   fuzz       a nightly toolchain and cargo-fuzz
#   jq         what reads the outcomes of Go's tests
#   fonts      a TrueType font, for the words on plots
#
# As root on Debian it installs the missing packages; otherwise it prints the line to run and ends with an error.
# It asks nothing, reads no input, and does nothing when nothing is missing. Clusters that the distribution's packages
# start by themselves are left alone and never used.
set -euo pipefail
cd "$(dirname "$0")/.."

supported=15
wanted_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
missing=()

fail() {
    printf 'consort: %s\n' "$*" >&2
    exit 1
}

# A program, not one of the functions here that bear its name.
have() { type -P "$1" >/dev/null; }

# True when version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

rust() {
    local installer='curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh'
    if ! have cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then
        fail "cargo is installed but not on the PATH; run: . \"\$HOME/.cargo/env\""
    fi
    have cargo && have rustc || fail "Rust $wanted_rust or newer is needed; install it with: $installer"
    local found
    found=$(rustc --version | awk '{print $2}')
    at_least "${found%%-*}" "$wanted_rust" && return
    if have rustup; then
        fail "Rust $wanted_rust or newer is needed, this is $found; run: rustup update stable && rustup default stable"
    fi
    fail "Rust $wanted_rust or newer is needed, this is $found; install it with: $installer"
}

# libclang under the names that bindgen looks for: libclang-cpp is another library, and no help.
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

server() {
    local bin=/usr/lib/postgresql/$supported/bin
    [ -x "$bin/postgres" ] && [ -x "$bin/pg_basebackup" ] && [ -x "$bin/pgbench" ] && have psql || missing+=("postgresql-$supported")
    # The tests make certificates with it; the server's packages depend on it.
    have openssl || missing+=(openssl)
}

# Of the server's own version where it can be had: a newer one would take running servers' files away from under them.
headers() {
    [ -d /usr/include/postgresql/$supported/server ] && return
    local package="postgresql-server-dev-$supported" version
    version=$(dpkg-query -W -f '${Version}' "postgresql-$supported" 2>/dev/null) || true
    if [ -n "$version" ] && apt-cache show "$package=$version" >/dev/null 2>&1; then package+="=$version"; fi
    missing+=("$package")
}

pgbouncer() { have pgbouncer || [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer); }

# The server, which is started in a folder of its own. (Debian's package starts one by itself, too: never used.)
pgpool() { [ -x /usr/sbin/pgpool ] || missing+=(pgpool2); }

# Fuzzing needs what only a nightly compiler has.
fuzz() {
    have rustup || fail "a nightly toolchain is needed, which rustup installs: rustup toolchain install nightly"
    rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
    have cargo-fuzz || cargo install --locked cargo-fuzz
}

jq() { have jq || missing+=(jq); }

# Any will do; this one is small.
fonts() { [ -n "$(find /usr/share/fonts /usr/local/share/fonts -name '*.ttf' -print -quit 2>/dev/null)" ] || missing+=(fonts-dejavu-core); }

install() {
    have apt-get || fail "these are missing and there is no apt-get to install them with: $*"
    if [ "$(id -u)" -ne 0 ]; then
        fail "some packages are missing; run: sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
    fi
    echo "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q </dev/null
    local package
    for package in "$@"; do
        apt-cache show "$package" >/dev/null 2>&1 && continue
        [ "$package" = "postgresql-$supported" ] || fail "this distribution has no package $package"
        fail "this distribution has no $package, and other majors of PostgreSQL are refused until Consort's tests run" \
            "on them; Debian 12 ships it"
    done
    apt-get install -q -y --no-install-recommends "$@" </dev/null
}

for group in "$@"; do
    case "$group" in
        rust | build | server | headers | pgbouncer | pgpool | fuzz | jq | fonts) "$group" ;;
        *) fail "no such group of prerequisites: $group (rust, build, server, headers, pgbouncer, pgpool, fuzz, jq, fonts)" ;;
    esac
done
[ "${#missing[@]}" -eq 0 ] || install "${missing[@]}"
