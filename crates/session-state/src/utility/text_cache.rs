//! Statements by their exact text: what the grammar said once need not be asked again.

use super::{Statement, split};
use statement_analysis::cache::BoundedTable;
use statement_analysis::shape::{self, Shape, Strings, Verb};
use std::rc::Rc;

/// Longer texts are split anew each time: most of them come once.
const MAX_KEPT: usize = 4 * 1024;

/// What a text holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// No statement: the server answers EmptyQueryResponse.
    Nothing,
    /// One statement that has a query tree.
    Tree,
    /// These statements.
    Statements(Rc<[Statement]>),
}

/// What texts hold, bounded in bytes.
#[derive(Debug)]
pub struct Utilities {
    table: BoundedTable<(Strings, Rc<[Statement]>)>,
}

impl Utilities {
    /// An empty one that never holds more than `max_bytes`.
    pub fn new(max_bytes: usize) -> Utilities {
        Utilities { table: BoundedTable::new(max_bytes) }
    }

    /// The statements of a text whose shape was read under `strings`. A text with a single statement that has a query tree
    /// costs nothing: the grammar is not asked.
    pub fn look(&mut self, shape: &Shape, text: &str, strings: Strings) -> Held {
        match shape.verb() {
            Verb::Empty => return Held::Nothing,
            Verb::Tree if !shape.several() => return Held::Tree,
            Verb::Tree | Verb::Utility => {}
        }
        let hash = shape::hash(text.as_bytes()) ^ strings as u64;
        let place = self.table.find(hash, |key| key == text.as_bytes());
        if let Some((read_under, statements)) = place.and_then(|place| self.table.ask(place))
            && *read_under == strings
        {
            return Held::Statements(statements.clone());
        }
        let statements: Rc<[Statement]> = split(text, strings).into();
        if text.len() <= MAX_KEPT && place.is_none() {
            let bytes = statements.len() * (size_of::<Statement>() + 64);
            self.table.insert(hash, text.as_bytes().into(), (strings, statements.clone()), bytes);
        }
        Held::Statements(statements)
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
}
