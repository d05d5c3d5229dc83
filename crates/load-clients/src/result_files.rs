//! The files that a run writes its results to.

use crate::table::{Table, WriteError, write_json};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Result files of a run: none by default.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct ResultFiles {
    /// File for the table, as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// File for all results, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl ResultFiles {
    /// Writes the table and the whole result to the files that were asked for.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, table: &Table, result: &impl Serialize) -> Result<(), WriteError> {
        if let Some(path) = &self.csv {
            table.write_csv(path)?;
        }
        self.json.as_ref().map_or(Ok(()), |path| write_json(path, result))
    }
}
