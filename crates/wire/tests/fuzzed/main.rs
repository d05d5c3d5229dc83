//! Fuzzed checks (`make fuzz`): properties that hold for any bytes, and the inputs kept of them in
//! `fuzz/corpus`.
#![expect(clippy::disallowed_methods, reason = "the tests read files; the crate does not")]

mod first_packet;
mod frames;
#[path = "../../../../fuzz/play.rs"]
mod play;
mod scram;

use play::play;

#[test]
fn any_bytes_are_frames_or_refused() {
    play("frames", frames::check);
}

#[test]
fn any_bytes_are_a_first_packet_or_refused() {
    play("first_packet", first_packet::check);
}

#[test]
fn any_bytes_are_a_log_in_or_refused() {
    play("scram", scram::check);
}
