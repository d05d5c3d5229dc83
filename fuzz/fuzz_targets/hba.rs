#![no_main]

#[path = "../../crates/node/tests/fuzzed/hba.rs"]
mod hba;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hba::check(bytes));
