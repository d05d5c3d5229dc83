#![no_main]

#[path = "../../crates/node/tests/fuzzed/config.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| config::check(bytes));
