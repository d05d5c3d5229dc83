#![no_main]

#[path = "../../crates/node/tests/fuzzed/door.rs"]
mod door;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| door::check(bytes));
