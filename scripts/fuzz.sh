#!/usr/bin/env bash
# Shows what reads bytes from outside whatever bytes there are: scripts/fuzz.sh [TARGET ..]     (all targets of fuzz/)
#
# Each target gets FUZZ_RUNS inputs (10 million), grown from its folder in fuzz/corpus; those that hold a whole
# conversation over a socket, ask PostgreSQL's grammar, or try each line of a file by itself, get a hundredth of that. What
# is found on the way lies in fuzz/found and is used again; git does not keep it. An input that fails is named, and belongs
# into fuzz/corpus, under a name that says what it is: a test of the crate concerned plays that folder on stable Rust.
#
# Without a sanitizer: there is no unsafe code of ours, and PostgreSQL's C code would not be compiled with one.
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
