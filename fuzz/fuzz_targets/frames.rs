#![no_main]

#[path = "../../crates/wire/tests/fuzzed/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frames::check(bytes));
