#![no_main]

#[path = "../../crates/statement-analysis/tests/fuzzed/tree.rs"]
mod tree;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tree::check(bytes));
