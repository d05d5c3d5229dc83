#![no_main]

#[path = "../../crates/node/tests/fuzzed/requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| requests::check(bytes));
