//! Fuzz targets (`make fuzz`): checks that hold for any bytes, and the inputs kept in `fuzz/corpus`.
#![expect(clippy::disallowed_methods, reason = "the tests read files; the crate does not")]

#[path = "../../../../fuzz/play.rs"]
mod play;
mod statement;

use play::play;

#[test]
fn any_text_is_a_statement() {
    play("statement", statement::check);
}
