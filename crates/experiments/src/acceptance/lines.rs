//! Targets and measurements, line by line.

use std::path::Path;

use load_clients::table::{Table, write_json};

use consort::failure::Failure;

/// A cell is shown up to this length.
const SHOWN_CHARACTERS: usize = 90;

/// The lines so far.
#[derive(Default)]
pub(super) struct Lines {
    rows: Vec<[String; 4]>,
    missed: usize,
}

impl Lines {
    /// Adds a line: what it is about, what was wished, what was measured, and whether that is enough.
    pub(super) fn judge(&mut self, what: &str, wish: &str, measured: impl Into<String>, kept: bool) {
        self.missed += usize::from(!kept);
        self.add(what, wish, measured.into(), if kept { "kept" } else { "MISSED" });
    }

    /// Adds a figure without a target.
    pub(super) fn tell(&mut self, what: &str, measured: impl Into<String>) {
        self.add(what, "-", measured.into(), "-");
    }

    fn add(&mut self, subject: &str, wish: &str, measured: String, verdict: &str) {
        println!("{subject}: {measured} (goal: {wish}) {verdict}");
        self.rows.push([subject.to_owned(), wish.to_owned(), measured, verdict.to_owned()]);
    }

    /// Number of missed targets.
    pub(super) fn missed(&self) -> usize {
        self.missed
    }

    /// All of them as a terminal can show them: what is longer stands in the files, and above.
    pub(super) fn shown(&self) -> Table {
        let mut table = self.table();
        for cell in table.rows.iter_mut().flatten().filter(|cell| cell.chars().count() > SHOWN_CHARACTERS) {
            *cell = cell.chars().take(SHOWN_CHARACTERS).chain("..".chars()).collect();
        }
        table
    }

    /// All of them.
    fn table(&self) -> Table {
        let mut table = Table::new(&["what", "goal", "measured", "verdict"]);
        self.rows.iter().for_each(|row| table.push(row.to_vec()));
        table
    }

    /// Writes them as CSV and JSON.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let table = self.table();
        table.write_csv(&folder.join("acceptance.csv"))?;
        Ok(write_json(&folder.join("acceptance.json"), &table)?)
    }
}
