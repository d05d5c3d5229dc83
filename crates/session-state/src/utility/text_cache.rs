//! Cache of statements by their exact text: the grammar splits a text only once.

use super::{Statement, split};
use statement_analysis::cache::BoundedTable;
use statement_analysis::shape::{self, Shape, Strings, Verb};
use std::rc::Rc;

/// Longest text, in bytes, that is cached. Longer texts are split each time: most of them come once.
const MAX_KEPT: usize = 4 * 1024;

/// Content of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// No statement: the server answers EmptyQueryResponse.
    Nothing,
    /// One statement that has a query tree.
    Tree,
    /// These statements.
    Statements(Rc<[Statement]>),
}

/// Cache from texts to their content, bounded in bytes.
#[derive(Debug)]
pub struct Utilities {
    table: BoundedTable<(Strings, Rc<[Statement]>)>,
}

impl Utilities {
    /// Creates an empty cache that never holds more than `max_bytes`.
    pub fn new(max_bytes: usize) -> Utilities {
        Utilities { table: BoundedTable::new(max_bytes) }
    }

    /// The statements of a text whose shape was read under `strings`. For a text with a single statement that
    /// has a query tree the grammar is not needed.
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

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }
}
