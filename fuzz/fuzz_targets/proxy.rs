#![no_main]

#[path = "../../crates/frontend/src/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/frontend/src/proxy_protocol.rs"]
mod proxy;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::check(bytes));
