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
# As root on Debian it installs the missing packages. What it cannot install it lists at once, with the line to run for each, and
# ends with an error: nothing is built before all of it is there.
# It asks nothing, reads no input, and does nothing when nothing is missing. Clusters that the distribution's packages
# start by themselves are left alone and never used.
set -euo pipefail
cd "$(dirname "$0")/.."

supported=15
wanted_rust=
while read -r key equals value; do
    if [ "$key $equals" = "rust-version =" ]; then wanted_rust=${value//\"/}; fi
done <Cargo.toml
missing=()
# What no package brings: a sentence each, and the line to run.
notes=() lines=()

fail() {
    printf 'consort: %s\n' "$*" >&2
    exit 1
}

lacks() {
    notes+=("$1")
    lines+=("$2")
}

# A program, not one of the functions here that bear its name.
have() { type -P "$1" >/dev/null; }

# True when version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

rust() {
    local installer="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
    # For the clone, and what comes later.
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
    if ! have rustup; then
        lacks "a nightly toolchain, which rustup installs" "rustup toolchain install nightly"
        return
    fi
    [ "${#notes[@]}" -eq 0 ] || return 0
    rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
    have cargo-fuzz || cargo install --locked cargo-fuzz
}

jq() { have jq || missing+=(jq); }

# Any will do; this one is small.
fonts() { [ -n "$(find /usr/share/fonts /usr/local/share/fonts -name '*.ttf' -print -quit 2>/dev/null)" ] || missing+=(fonts-dejavu-core); }

install() {
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

# All that is missing and is for a person to install, each with its line.
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
        rust | build | server | headers | pgbouncer | pgpool | fuzz | jq | fonts) "$group" ;;
        *) fail "no such group of prerequisites: $group (rust, build, server, headers, pgbouncer, pgpool, fuzz, jq, fonts)" ;;
    esac
done
if [ "${#notes[@]}" -ne 0 ]; then list; fi
[ "${#missing[@]}" -ne 0 ] || exit 0
if [ "$EUID" -ne 0 ] || ! have apt-get; then list; fi
install "${missing[@]}"
