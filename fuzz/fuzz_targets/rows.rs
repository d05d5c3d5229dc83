#![no_main]

#[path = "../../crates/postgres/src/decoder/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/postgres/src/decoder/message.rs"]
mod message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::check(bytes));
