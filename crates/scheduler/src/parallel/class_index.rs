//! The newest writer of each table, column and row, kept by class (section 5.1, Algorithms 3 and 4). For experiments.

use crate::parallel::Class;
use crate::parallel::Sets;
use history::{Access, ColumnSet, Footprint, Key, RelationId, Rows, Version};
use std::collections::BTreeMap;
use std::fmt;

/// The three indexes of the paper's Table 5, as published: a version that a replica must show for a read to
/// be answered there. **Not to be trusted**: the module's text names two ways in which the answer is too old,
/// and a third comes from row sets read off a statement's text. The freshness index of the
/// [`Scheduler`](crate::Scheduler) decides; this one stands alongside it in experiments.
///
/// The maker of the [`Sets`] decides which classes it makes use of (figure 6).
///
/// Not bounded automatically: [`prune`](ClassIndex::prune) drops rows that every replica shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassIndex {
    newest: Version,
    /// The newest that may have written anything at all.
    everything: Version,
    tables: BTreeMap<RelationId, Table>,
}

/// The entries of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    newest: Version,
    /// Version of all columns: the number of a table's columns is not known here.
    all_columns: Version,
    columns: BTreeMap<i16, Version>,
    rows: BTreeMap<Key, Version>,
}

impl ClassIndex {
    /// A committed transaction wrote this (Algorithm 3). Versions ascend.
    pub fn note(&mut self, sets: &Sets, version: Version) {
        self.newest = self.newest.max(version);
        if sets.is_everything() {
            self.everything = self.newest;
        }
        for touched in sets.tables() {
            let Some(written) = touched.written else { continue };
            let table = self.tables.entry(touched.table).or_default();
            table.newest = version;
            match (touched.class, &written.rows) {
                (Class::Row, Rows::Keys(keys)) => {
                    table.rows.extend(keys.iter().map(|key| (*key, version)));
                }
                _ => table.note_columns(written.columns, version),
            }
        }
    }

    /// The version that a replica must have come to (Algorithm 4); zero if any will do.
    pub fn consistent(&self, read: &Sets) -> Version {
        if *read.reads() == Footprint::Everything {
            return self.newest;
        }
        let tables = read.tables().filter_map(|touched| {
            let (table, read) = (self.tables.get(&touched.table)?, touched.read?);
            Some(match touched.class {
                Class::Table => table.newest,
                Class::Column => {
                    table.of_columns(read).max(table.rows.values().copied().max().unwrap_or_default())
                }
                Class::Row => table.of_rows(read).max(table.of_columns(read)),
            })
        });
        tables.fold(self.everything, Version::max)
    }

    /// Every replica shows everything up to `version`: rows that were written there or before are no longer
    /// kept. As published: a replica that joins from an older state afterwards is not asked.
    pub fn prune(&mut self, version: Version) {
        self.tables.values_mut().for_each(|table| table.rows.retain(|_, at| *at > version));
    }
}

impl Table {
    fn note_columns(&mut self, columns: ColumnSet, version: Version) {
        match columns.attributes() {
            None => self.all_columns = version,
            Some(columns) => self.columns.extend(columns.map(|column| (column, version))),
        }
    }

    fn of_columns(&self, read: &Access) -> Version {
        match read.columns.attributes() {
            None => self.columns.values().copied().fold(self.all_columns, Version::max),
            Some(columns) => columns
                .map(|column| self.columns.get(&column).copied().unwrap_or_default().max(self.all_columns))
                .fold(Version::ZERO, Version::max),
        }
    }

    fn of_rows(&self, read: &Access) -> Version {
        let Rows::Keys(keys) = &read.rows else { return self.newest };
        keys.iter().filter_map(|key| self.rows.get(key)).copied().fold(Version::ZERO, Version::max)
    }
}

/// One line per table, as in the paper's Table 5: `1: v14, columns 3=v13 4=v13, rows 100=v11 120=v14`.
impl fmt::Display for ClassIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.everything > Version::ZERO {
            writeln!(f, "everything: {}", self.everything)?;
        }
        for (id, table) in &self.tables {
            write!(f, "{id}: {}, columns", table.newest)?;
            if table.all_columns > Version::ZERO {
                write!(f, " *={}", table.all_columns)?;
            }
            table.columns.iter().try_for_each(|(column, at)| write!(f, " {column}={at}"))?;
            f.write_str(", rows")?;
            table.rows.iter().try_for_each(|(key, at)| write!(f, " {}={at}", key.get()))?;
            writeln!(f)?;
        }
        Ok(())
    }
}
