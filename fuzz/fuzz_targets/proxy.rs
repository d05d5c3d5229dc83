#![no_main]

#[path = "../../crates/node/src/door/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/node/src/door/proxy.rs"]
mod proxy;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::check(bytes));
