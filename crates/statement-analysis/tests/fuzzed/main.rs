//! Fuzzed checks (`make fuzz`): properties that hold for any bytes, and the inputs kept of them in
//! `fuzz/corpus`.
#![expect(clippy::disallowed_methods, reason = "the tests read files; the crate does not")]

#[path = "../../../../fuzz/play.rs"]
mod play;
mod tree;
mod values;

use play::play;

#[test]
fn any_text_is_a_tree_or_refused() {
    play("tree", tree::check);
}

#[test]
fn any_bytes_are_values_or_refused() {
    play("values", values::check);
}
