//! The changes of the writer's transactions, for databases behind the tier.
//!
//! Definitions divide a transaction into segments: the rows that a segment has changed are read at its end, when the table is
//! still as it was then. A savepoint that is rolled back takes the segments after it back.

use super::transaction::{engine_error, simple};
use crate::changes::{self, Change, Row, SequenceValue, TableRows};
use crate::message::Failure;
use dialect::{Catalog, Table, sequence_position, value_text};
use pages::{Tables, Writer};
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

/// Names under which SQLite knows the number of a row.
const ROW_NUMBERS: [&str; 3] = ["rowid", "_rowid_", "oid"];
/// The table of sequences.
const SEQUENCES: &str = "consort_sequence";

/// Changes of the transaction that runs.
#[derive(Default)]
pub(super) struct Capture {
    changes: Vec<Change>,
    /// Rows of each segment that has ended, and the number of changes before its end.
    segments: Vec<(Tables, usize)>,
    /// Names of savepoints, and the segments that had ended.
    savepoints: Vec<(String, usize)>,
}

impl Capture {
    /// A transaction begins.
    pub(super) fn begins(&mut self) {
        *self = Capture::default();
    }

    /// A statement about savepoints has run: SQLite's text.
    pub(super) fn savepoint(&mut self, writer: &Writer, statement: &str) {
        let (verb, name) = statement.rsplit_once(' ').unwrap_or_default();
        let place = self.savepoints.iter().rposition(|(known, _)| known == name);
        match (verb, place) {
            ("SAVEPOINT", _) => self.savepoints.push((name.to_owned(), self.segments.len())),
            ("RELEASE", Some(place)) => self.savepoints.truncate(place),
            (_, Some(place)) => {
                self.savepoints.truncate(place + 1);
                let ended = self.savepoints[place].1;
                if self.segments.len() > ended {
                    let (tables, changes) = self.segments.swap_remove(ended);
                    self.segments.truncate(ended);
                    self.changes.truncate(changes);
                    writer.put_rows_back(tables);
                }
            }
            _ => {}
        }
    }

    /// Ends a segment: reads the rows that it has changed.
    pub(super) fn ends_segment(&mut self, writer: &Writer, catalog: &Catalog) -> Result<(), Failure> {
        let tables = writer.take_rows().ok_or_else(|| simple("XX000", "a changed row could not be read"))?;
        let before = self.changes.len();
        let connection = writer.connection();
        let mut rows = Vec::new();
        let mut names: Vec<_> = tables.keys().collect();
        names.sort();
        for name in names {
            if name == SEQUENCES {
                let values =
                    sequences(connection, tables[name].keys()).map_err(|error| engine_error(&error))?;
                self.changes.push(Change::Sequences(values));
            } else if let Some(table) = catalog.table(name) {
                let changed =
                    table_rows(connection, table, &tables[name]).map_err(|error| engine_error(&error))?;
                rows.extend(changed);
            }
        }
        if !rows.is_empty() {
            self.changes.push(Change::Rows(rows));
        }
        self.segments.push((tables, before));
        Ok(())
    }

    /// A definition has run. The rows of a table to which it has given computed values go along.
    pub(super) fn defines(
        &mut self,
        writer: &Writer,
        catalog: &Catalog,
        text: &str,
        computed: Option<&str>,
    ) -> Result<(), Failure> {
        drop(writer.take_rows());
        self.changes.push(Change::Definition(text.to_owned()));
        if let Some(table) = computed.and_then(|name| catalog.table(name)) {
            let rows = contents(writer.connection(), table).map_err(|error| engine_error(&error))?;
            let columns = table.columns.iter().map(|column| column.name.clone()).collect();
            self.changes.push(Change::Contents { table: table.name.clone(), columns, rows });
        }
        Ok(())
    }

    /// The transaction's changes, encoded.
    pub(super) fn encoded(&self) -> Vec<u8> {
        changes::encode(&self.changes)
    }
}

fn sequences<'a>(
    connection: &Connection,
    oids: impl Iterator<Item = &'a i64>,
) -> rusqlite::Result<Vec<SequenceValue>> {
    let mut found = connection
        .prepare_cached("SELECT name, last, start, increment FROM consort_sequence WHERE oid = ?1")?;
    let mut values = Vec::new();
    for oid in oids {
        let mut rows = found.query([oid])?;
        if let Some(row) = rows.next()? {
            let (value, is_called) = sequence_position(row.get(1)?, row.get(2)?, row.get(3)?);
            values.push(SequenceValue { name: row.get(0)?, value, is_called });
        }
    }
    Ok(values)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// SQLite's text that reads all columns of a table, in their order.
fn select(table: &Table) -> String {
    let columns: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    format!("SELECT {} FROM {}", columns.join(", "), quoted(&table.name))
}

fn contents(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare(&select(table))?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(texts(table, |place| row.get_ref(place))?);
    }
    Ok(all)
}

fn texts<'a>(
    table: &Table,
    value: impl Fn(usize) -> rusqlite::Result<ValueRef<'a>>,
) -> rusqlite::Result<Row> {
    let columns = table.columns.iter().enumerate();
    columns.map(|(place, column)| Ok(value_text(column.kind, value(place)?))).collect()
}

/// Net changes of a table's rows; `None`: there are none.
fn table_rows(
    connection: &Connection,
    table: &Table,
    rows: &pages::Rows,
) -> rusqlite::Result<Option<TableRows>> {
    let is_free = |name: &&str| table.columns.iter().all(|column| !column.name.eq_ignore_ascii_case(name));
    let number = ROW_NUMBERS.iter().find(|name| is_free(name)).ok_or(rusqlite::Error::InvalidQuery)?;
    let mut now = connection.prepare_cached(&format!("{} WHERE {number} = ?1", select(table)))?;
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    let key: Vec<usize> = table
        .primary_key()
        .map(|key| key.keys.iter().filter_map(|key| place(&key.text)).collect())
        .unwrap_or_default();
    // PostgreSQL sets a column GENERATED ALWAYS to no value but the next one: such a row is deleted and inserted.
    let generated = table.columns.iter().enumerate().filter(|(_, column)| column.identity == "a");
    let unique: Option<Vec<usize>> = unique_columns(table).map(|mut unique| {
        unique.extend(generated.map(|(place, _)| place));
        unique
    });
    let mut changed = TableRows {
        table: table.name.clone(),
        columns: table.columns.iter().map(|column| column.name.clone()).collect(),
        key: key.iter().filter_map(|place| u16::try_from(*place).ok()).collect(),
        ..TableRows::default()
    };
    for (number, old) in rows {
        let mut found = now.query([number])?;
        let new = match found.next()? {
            None => None,
            Some(row) => Some(
                (0..table.columns.len()).map(|place| row.get(place)).collect::<Result<Vec<Value>, _>>()?,
            ),
        };
        if *old == new {
            continue;
        }
        let text = |values: &[Value]| texts(table, |place| Ok(ValueRef::from(&values[place])));
        let stays = |old: &[Value], new: &[Value]| {
            !key.is_empty()
                && unique.as_ref().is_some_and(|unique| unique.iter().all(|place| old[*place] == new[*place]))
        };
        match (old, new) {
            (Some(old), Some(new)) if stays(old, &new) => changed.updates.push(text(&new)?),
            (old, new) => {
                if let Some(old) = old {
                    let mut old = text(old)?;
                    if !key.is_empty() {
                        old = key.iter().map(|place| old[*place].take()).collect();
                    }
                    changed.deletes.push(old);
                }
                if let Some(new) = new {
                    changed.inserts.push(text(&new)?);
                }
            }
        }
    }
    let is_empty = changed.deletes.is_empty() && changed.updates.is_empty() && changed.inserts.is_empty();
    Ok((!is_empty).then_some(changed))
}

/// Places of columns that some index forbids to be equal. `None`: it may be any, for an index has an expression.
fn unique_columns(table: &Table) -> Option<Vec<usize>> {
    let keys = table.indexes.iter().filter(|index| index.is_unique).flat_map(|index| &index.keys);
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    keys.map(|key| if key.is_expression { None } else { place(&key.text) }).collect()
}
