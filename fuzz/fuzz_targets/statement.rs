#![no_main]

#[path = "../../crates/session-state/tests/fuzzed/statement.rs"]
mod statement;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| statement::check(bytes));
