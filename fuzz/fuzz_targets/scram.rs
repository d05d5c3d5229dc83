#![no_main]

#[path = "../../crates/wire/tests/fuzzed/scram.rs"]
mod scram;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scram::check(bytes));
