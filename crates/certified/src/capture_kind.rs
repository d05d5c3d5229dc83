//! Kinds of captures: what tells Consort which rows and keys a transaction has touched.

/// Source of the write sets of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Triggers in PL/pgSQL write notes to a table.
    Sql,
    /// The extension's trigger keeps notes in memory.
    Extension,
}

impl Capture {
    /// Name for the console and the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Capture::Sql => "sql",
            Capture::Extension => "extension",
        }
    }
}
