//! The freshness index of one database: when each item was last written.
//!
//! Items are a table's existence of rows, its columns, and its rows by primary key. A commit overlaps a read only if it
//! wrote both a column (or rows came or went) and a row that the read touches, so the newest by columns and the newest
//! by rows are both upper bounds, and the smaller one is the answer.

use crate::rows::{RowId, Rows};
use history::{Access, ColumnSet, DatabaseId, Footprint, Lsn, RelationId, Rows as RowSet};
use std::collections::BTreeMap;

/// When each item of one database was last written.
///
/// Invariants: `newest` is the end of the newest commit; nothing in `tables` is newer. A table that is not in `tables`
/// was last written at or below `floor`. At most `max_tables` tables.
#[derive(Debug)]
pub(crate) struct Freshness {
    database: DatabaseId,
    floor: Lsn,
    newest: Lsn,
    tables: BTreeMap<RelationId, Table>,
}

/// Ends of the newest commits of one table.
#[derive(Debug, Default)]
struct Table {
    /// That touched it at all.
    newest: Lsn,
    /// That touched all of its rows, or more rows than a footprint names.
    whole: Lsn,
    /// In which rows came or went.
    existence: Lsn,
    /// That changed a column, and it is not known which.
    any_column: Lsn,
    /// That changed the column, by attribute number less one.
    columns: Vec<Lsn>,
}

impl Freshness {
    pub(crate) fn new(database: DatabaseId) -> Freshness {
        Freshness { database, floor: Lsn::ZERO, newest: Lsn::ZERO, tables: BTreeMap::new() }
    }

    /// Everything may have been written as late as `floor`.
    pub(crate) fn raise_floor(&mut self, floor: Lsn) {
        self.floor = self.floor.max(floor);
        self.newest = self.newest.max(floor);
        let floor = self.floor;
        self.tables.retain(|_, table| table.newest > floor);
    }

    /// A commit that ends at `end` wrote this.
    pub(crate) fn note(&mut self, wrote: &Footprint, end: Lsn, rows: &mut Rows, max_tables: usize) {
        self.newest = self.newest.max(end);
        let Some(tables) = wrote.tables() else { return self.raise_floor(end) };
        for (table, access) in tables {
            if self.tables.len() >= max_tables && !self.tables.contains_key(&table) {
                self.raise_floor(self.newest);
            }
            self.tables.entry(table).or_default().note(access, end);
            if let RowSet::Keys(keys) = &access.rows {
                keys.iter().for_each(|key| rows.note(RowId::new(self.database, table, *key), end));
            }
        }
        assert!(self.tables.len() <= max_tables, "bound of tables");
    }

    /// The end of the newest commit that overlaps what is read, or something later.
    pub(crate) fn newest(&self, footprint: &Footprint, rows: &Rows) -> Lsn {
        let Some(tables) = footprint.tables() else { return self.newest };
        tables.fold(self.floor, |newest, (table, access)| {
            let of_table = self.tables.get(&table).map_or(Lsn::ZERO, |found| {
                let by_columns = found.by_columns(access);
                if by_columns <= newest {
                    by_columns
                } else {
                    by_columns.min(self.by_rows(table, found, access, rows))
                }
            });
            newest.max(of_table)
        })
    }

    pub(crate) fn tables(&self) -> usize {
        self.tables.len()
    }

    fn by_rows(&self, id: RelationId, table: &Table, access: &Access, rows: &Rows) -> Lsn {
        match &access.rows {
            RowSet::All => table.newest,
            RowSet::Keys(keys) if keys.is_empty() => Lsn::ZERO,
            RowSet::Keys(keys) => keys
                .iter()
                .map(|key| rows.newest(RowId::new(self.database, id, *key)))
                .fold(table.whole, Lsn::max),
        }
    }
}

impl Table {
    fn note(&mut self, access: &Access, end: Lsn) {
        self.newest = end;
        if access.rows == RowSet::All {
            self.whole = end;
        }
        if access.existence {
            self.existence = end;
        }
        match access.columns.attributes() {
            None => self.any_column = end,
            Some(attributes) => attributes.for_each(|attribute| {
                let place = usize::from(attribute.unsigned_abs()) - 1;
                if self.columns.len() <= place {
                    self.columns.resize(place + 1, Lsn::ZERO);
                }
                self.columns[place] = end;
            }),
        }
    }

    fn by_columns(&self, access: &Access) -> Lsn {
        if access.existence || access.columns == ColumnSet::All {
            return self.newest;
        }
        if access.columns == ColumnSet::NONE {
            return self.existence;
        }
        let named = access.columns.attributes().into_iter().flatten();
        named
            .filter_map(|attribute| self.columns.get(usize::from(attribute.unsigned_abs()) - 1).copied())
            .fold(self.existence.max(self.any_column), Lsn::max)
    }
}
