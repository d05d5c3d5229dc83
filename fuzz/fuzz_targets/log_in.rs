#![no_main]

#[path = "../../crates/node/tests/fuzzed/log_in.rs"]
mod log_in;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| log_in::check(bytes));
