//! `VERIFY`: results of a comparison of replicas with the primary, table by table.

use super::{Column, Table, number, text, value};

const COLUMNS: &[Column] = &[
    text("node"),
    text("database"),
    text("table"),
    number("rows"),
    text("state"),
    text("what"),
    text("first_key"),
];

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Equal rows.
    Equal,
    /// Different rows, or another table.
    Differs,
    /// The rows differed, were repaired, and are equal now.
    Repaired,
    /// The kind of table is never compared.
    LeftOut,
    /// The table could not be compared now.
    Unreached,
}

impl State {
    /// Name in results, for readers and programs.
    pub fn name(self) -> &'static str {
        match self {
            State::Equal => "equal",
            State::Differs => "differs",
            State::Repaired => "repaired",
            State::LeftOut => "left out",
            State::Unreached => "unreached",
        }
    }
}

/// One table at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The node's name.
    pub node: String,
    /// The database.
    pub database: String,
    /// Table name. `None`: all tables.
    pub table: Option<String>,
    /// Number of its rows at the primary.
    pub rows: Option<u64>,
    /// Result of the comparison.
    pub state: State,
    /// Difference, or the reason why it was not compared.
    pub what: Option<String>,
    /// Key of the first row that differs.
    pub first_key: Option<String>,
}

/// Returns the answer of the console.
pub fn table(lines: Vec<Line>) -> Table {
    Table { columns: COLUMNS, rows: lines.into_iter().map(row).collect() }
}

fn row(line: Line) -> Vec<Option<String>> {
    vec![
        Some(line.node),
        Some(line.database),
        line.table,
        line.rows.map(|rows| rows.to_string()),
        value(line.state.name()),
        line.what,
        line.first_key,
    ]
}
