//! Splitting of a text into statements.

use super::{Statement, Utility, What, parse_tree, statement_prefix};
use statement_analysis::shape::{MAX_LOOK, Shape, Strings, Verb};
use std::ops::Range;

/// The statements of a text, in order; none if it is empty. A text that the grammar refuses is one unknown
/// statement: PostgreSQL also refuses such a text as a whole, before it runs any of it.
pub fn split(text: &str, strings: Strings) -> Vec<Statement> {
    match pieces(text, strings) {
        Some(pieces) => pieces.into_iter().map(|range| statement(text, range, strings)).collect(),
        None => vec![Statement { range: 0..text.len(), what: What::Utility(Utility::Unknown) }],
    }
}

pub(super) fn pieces(text: &str, strings: Strings) -> Option<Vec<Range<usize>>> {
    if text.len() > MAX_LOOK {
        return None;
    }
    // The library splits by the rules of standard strings only.
    if strings == Strings::Escaping && text.contains('\\') {
        let shape = Shape::of(text, strings);
        let one = (shape.verb() != Verb::Empty).then_some(0..text.len());
        return (!shape.several()).then(|| one.into_iter().collect());
    }
    let pieces = pg_query::split_with_parser(text).ok()?;
    let place = |piece: &str| {
        let start = piece.as_ptr() as usize - text.as_ptr() as usize;
        start..start + piece.trim_end().len()
    };
    Some(pieces.into_iter().map(place).collect())
}

fn statement(text: &str, range: Range<usize>, strings: Strings) -> Statement {
    let piece = &text[range.clone()];
    let what = match Shape::of(piece, strings).verb() {
        Verb::Tree => What::Tree,
        Verb::Empty | Verb::Utility => What::Utility(utility(piece, range.start, strings)),
    };
    Statement { range, what }
}

/// The utility statement that a single statement at `offset` is.
fn utility(piece: &str, offset: usize, strings: Strings) -> Utility {
    statement_prefix::utility(piece, offset, strings)
        .or_else(|| parse_tree::utility(piece, strings))
        .unwrap_or(Utility::Unknown)
}
