//! Changes of a commit as another database takes them: rows with PostgreSQL's text of their values, and definitions.

use serde::{Deserialize, Serialize};
use std::io;

/// A row: PostgreSQL's text of each value; `None` is NULL.
pub type Row = Vec<Option<Vec<u8>>>;

/// A step of a commit. The order of steps matters; inside of [`Change::Rows`] all deletes come first, then updates, then inserts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A definition, as the client wrote it.
    Definition(String),
    /// Net changes of rows.
    Rows(Vec<TableRows>),
    /// All rows of a table, in place of those that are there.
    Contents {
        /// Its name, in schema `public`.
        table: String,
        /// Names of its columns.
        columns: Vec<String>,
        /// The rows.
        rows: Vec<Row>,
    },
    /// Sequences that stand elsewhere now.
    Sequences(Vec<SequenceValue>),
}

/// Changed rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRows {
    /// Its name, in schema `public`.
    pub table: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Places of the primary key's columns. Empty: the table has none, and all columns stand for its rows.
    pub key: Vec<u16>,
    /// Keys of deleted rows, and of rows whose unique values have changed, which are among the inserts, too.
    pub deletes: Vec<Row>,
    /// Rows whose other values have changed.
    pub updates: Vec<Row>,
    /// New rows.
    pub inserts: Vec<Row>,
}

impl TableRows {
    /// Columns by which deletes name rows.
    pub fn delete_columns(&self) -> Vec<&str> {
        match self.key.as_slice() {
            [] => self.columns.iter().map(String::as_str).collect(),
            key => key.iter().map(|place| self.columns[usize::from(*place)].as_str()).collect(),
        }
    }
}

/// State of a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceValue {
    /// Its name, in schema `public`.
    pub name: String,
    /// Value that was given last, or is given next.
    pub value: i64,
    /// The value was given.
    pub is_called: bool,
}

/// Encodes the changes of a commit. No changes are not empty.
///
/// # Panics
/// Never: memory takes all bytes.
pub fn encode(changes: &[Change]) -> Vec<u8> {
    postcard::to_extend(changes, Vec::new()).expect("a vector takes all bytes")
}

/// Decodes the changes of a commit.
///
/// # Errors
/// The bytes are no changes.
pub fn decode(bytes: &[u8]) -> io::Result<Vec<Change>> {
    postcard::from_bytes(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a record holds no changes"))
}
