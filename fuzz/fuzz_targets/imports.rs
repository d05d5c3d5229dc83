#![no_main]

#[path = "../../crates/node/tests/fuzzed/imports.rs"]
mod imports;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| imports::check(bytes));
