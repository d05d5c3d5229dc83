#![no_main]

#[path = "../../crates/node/tests/fuzzed/auth_file.rs"]
mod auth_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| auth_file::check(bytes));
