#![no_main]

#[path = "../../crates/wire/tests/fuzzed/first_packet.rs"]
mod first_packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| first_packet::check(bytes));
