//! Results as people and programs want them: a table with aligned columns, CSV, JSON.

use serde::Serialize;
use std::fmt;
use std::path::Path;

/// Rows of text under a heading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The cells, as many in each row as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(columns: &[&str]) -> Table {
        Table { columns: columns.iter().map(|&column| column.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// The row has not as many cells as there are columns.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// The table in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
        let rule = format!("|{}\n", "---|".repeat(self.columns.len()));
        let rows = self.rows.iter().map(|row| line(row));
        [line(&self.columns), rule].into_iter().chain(rows).collect()
    }

    /// Writes it as CSV with a heading.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_csv(&self, path: &Path) -> Result<(), WriteError> {
        let failed =
            |error: csv::Error| WriteError { path: path.display().to_string(), problem: error.to_string() };
        let mut writer = csv::Writer::from_path(path).map_err(failed)?;
        writer.write_record(&self.columns).map_err(failed)?;
        for row in &self.rows {
            writer.write_record(row).map_err(failed)?;
        }
        writer.flush().map_err(|error| failed(error.into()))
    }
}

/// A result file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {problem}")]
pub struct WriteError {
    path: String,
    problem: String,
}

/// Writes a result as JSON, indented.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(path: &Path, result: &impl Serialize) -> Result<(), WriteError> {
    let failed = |problem: String| WriteError { path: path.display().to_string(), problem };
    let text = serde_json::to_string_pretty(result).map_err(|error| failed(error.to_string()))?;
    std::fs::write(path, text + "\n").map_err(|error| failed(error.to_string()))
}

/// Columns of numbers to the right, others to the left.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |text: &String| text.chars().count();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| length(&row[column]));
                cells.chain([length(&self.columns[column])]).max().unwrap_or(0)
            })
            .collect();
        let to_the_right: Vec<bool> = (0..self.columns.len())
            .map(|column| column > 0 && self.rows.iter().all(|row| is_figure(&row[column])))
            .collect();
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let gap = if column == 0 { "" } else { "  " };
                line += &if to_the_right[column] {
                    format!("{gap}{cell:>width$}")
                } else {
                    format!("{gap}{cell:<width$}")
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn is_figure(cell: &str) -> bool {
    cell.is_empty() || cell == "-" || cell.starts_with(|first: char| first.is_ascii_digit() || first == '+')
}

/// A share as a percentage with one decimal, cut and not rounded, so that only all is 100.0 %.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", (share * 1000.0 + 1e-9).floor() / 10.0)
}

/// Microseconds as milliseconds.
#[must_use]
pub fn milliseconds(microseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "times of a run have far fewer than 52 bits")]
    let microseconds = microseconds as f64;
    format!("{:.2} ms", microseconds / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_to_the_right() {
        let mut table = Table::new(&["name", "reads", "what"]);
        table.push(vec!["a".into(), "5".into(), "x".into()]);
        table.push(vec!["long".into(), "12345".into(), "yy".into()]);
        assert_eq!(table.to_string(), "name  reads  what\na         5  x\nlong  12345  yy\n");
    }

    #[test]
    fn a_table_can_be_markdown() {
        let mut table = Table::new(&["name", "reads"]);
        table.push(vec!["a".into(), "5".into()]);
        assert_eq!(table.markdown(), "| name | reads |\n|---|---|\n| a | 5 |\n");
    }

    #[test]
    fn almost_all_is_not_all() {
        assert_eq!(percent(0.99999), "99.9 %");
        assert_eq!(percent(1.0), "100.0 %");
        assert_eq!(percent(0.0), "0.0 %");
    }
}
