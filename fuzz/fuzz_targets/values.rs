#![no_main]

#[path = "../../crates/statement-analysis/tests/fuzzed/values.rs"]
mod values;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| values::check(bytes));
