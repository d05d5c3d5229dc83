//! `VERIFY`: what was found when replicas were compared with the primary, table by table.

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

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The same rows.
    Equal,
    /// Other rows, or another table.
    Differs,
    /// It differed, was repaired, and has the same rows now.
    Repaired,
    /// It is not compared, by its nature.
    LeftOut,
    /// It could not be compared now.
    Unreached,
}

impl State {
    /// For people and programs.
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
    /// The table; nothing: all of them.
    pub table: Option<String>,
    /// Its rows at the primary.
    pub rows: Option<u64>,
    /// What was found.
    pub state: State,
    /// How it differs, or why it was not compared.
    pub what: Option<String>,
    /// The first row that differs.
    pub first_key: Option<String>,
}

/// The answer.
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
