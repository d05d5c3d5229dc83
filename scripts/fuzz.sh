#!/usr/bin/env bash
# Gives arbitrary bytes to each parser of external input: scripts/fuzz.sh [TARGET ..]     (all targets of fuzz/)
#
# Each target gets FUZZ_RUNS inputs (10 million), grown from its folder in fuzz/corpus; those that hold a whole
# conversation over a socket, ask PostgreSQL's grammar, or try each line of a file alone, get a hundredth of that.
# Inputs found on the way are in fuzz/found and are used again; git ignores them. A failing input is named. Add it
# to fuzz/corpus under a descriptive name: a test of the crate concerned plays that folder on stable Rust.
#
# Without a sanitizer: the project has no unsafe code, and PostgreSQL's C code would not be compiled with one.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${FUZZ_RUNS:-10000000}
slow=" door imports log_in statement "

targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(basename -s .rs -a fuzz/fuzz_targets/*.rs)
cargo +nightly fuzz build --sanitizer none
for target in "${targets[@]}"; do
    each=$runs
    case $slow in *" $target "*) each=$((runs / 100)) ;; esac
    echo "$target: $each inputs"
    mkdir -p "fuzz/found/$target"
    cargo +nightly fuzz run --sanitizer none "$target" "fuzz/found/$target" "fuzz/corpus/$target" -- \
        -runs="$each" -max_len=4096 -rss_limit_mb=1024 -timeout=10 -verbosity=0 -print_final_stats=1
done
