//! The freshness index of one database: the last write of each item. The stamp is a WAL position for
//! standbys, and a version for logical replicas.
//!
//! Items are a table's existence of rows, its columns, and its rows by primary key. A commit overlaps a read
//! only if it wrote both a column (or rows came or went) and a row that the read touches. So the newest by
//! columns and the newest by rows are both upper bounds, and the smaller one is the answer.

use crate::row_freshness::{RowId, Rows, Stamp};
use history::{Access, ColumnSet, DatabaseId, Footprint, RelationId, Rows as RowSet};
use std::collections::BTreeMap;

/// Last write of each item of one database.
///
/// Invariants: `newest` is the stamp of the newest commit; nothing in `tables` is newer. A table that is not
/// in `tables` was last written at or below `floor`. At most `max_tables` tables.
#[derive(Debug)]
pub(crate) struct Freshness<S> {
    database: DatabaseId,
    floor: S,
    newest: S,
    tables: BTreeMap<RelationId, Table<S>>,
}

/// Stamps of the newest commits of one table.
#[derive(Debug, Default)]
struct Table<S> {
    /// Newest commit that touched the table at all.
    newest: S,
    /// Newest commit that touched all of its rows, or more rows than a footprint names.
    whole: S,
    /// In which rows came or went.
    existence: S,
    /// Newest commit that changed a column, if it is not known which.
    any_column: S,
    /// Newest commit that changed the column, by attribute number less one.
    columns: Vec<S>,
}

impl<S: Stamp> Freshness<S> {
    pub(crate) fn new(database: DatabaseId) -> Freshness<S> {
        Freshness { database, floor: S::default(), newest: S::default(), tables: BTreeMap::new() }
    }

    /// Everything may have been written as late as `floor`.
    pub(crate) fn raise_floor(&mut self, floor: S) {
        self.floor = self.floor.max(floor);
        self.newest = self.newest.max(floor);
        let floor = self.floor;
        self.tables.retain(|_, table| table.newest > floor);
    }

    /// The commit of `at` wrote this. They come in their order.
    pub(crate) fn note(&mut self, wrote: &Footprint, at: S, rows: &mut Rows<S>, max_tables: usize) {
        self.newest = self.newest.max(at);
        let Some(tables) = wrote.tables() else { return self.raise_floor(at) };
        for (table, access) in tables {
            if self.tables.len() >= max_tables && !self.tables.contains_key(&table) {
                self.raise_floor(self.newest);
            }
            self.tables.entry(table).or_default().note(access, at);
            if let RowSet::Keys(keys) = &access.rows {
                keys.iter().for_each(|key| rows.note(RowId::new(self.database, table, *key), at));
            }
        }
        assert!(self.tables.len() <= max_tables, "bound of tables");
    }

    /// The stamp of the newest commit that overlaps what is read, or something later.
    pub(crate) fn newest(&self, footprint: &Footprint, rows: &Rows<S>) -> S {
        let Some(tables) = footprint.tables() else { return self.newest };
        tables.fold(self.floor, |newest, (table, access)| {
            let of_table = self.tables.get(&table).map_or(S::default(), |found| {
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

    fn by_rows(&self, id: RelationId, table: &Table<S>, access: &Access, rows: &Rows<S>) -> S {
        match &access.rows {
            RowSet::All => table.newest,
            RowSet::Keys(keys) if keys.is_empty() => S::default(),
            RowSet::Keys(keys) => keys
                .iter()
                .map(|key| rows.newest(RowId::new(self.database, id, *key)))
                .fold(table.whole, S::max),
        }
    }
}

impl<S: Stamp> Table<S> {
    fn note(&mut self, access: &Access, at: S) {
        self.newest = at;
        if access.rows == RowSet::All {
            self.whole = at;
        }
        if access.existence {
            self.existence = at;
        }
        match access.columns.attributes() {
            None => self.any_column = at,
            Some(attributes) => attributes.for_each(|attribute| {
                let place = usize::from(attribute.unsigned_abs()) - 1;
                if self.columns.len() <= place {
                    self.columns.resize(place + 1, S::default());
                }
                self.columns[place] = at;
            }),
        }
    }

    fn by_columns(&self, access: &Access) -> S {
        if access.existence || access.columns == ColumnSet::All {
            return self.newest;
        }
        if access.columns == ColumnSet::NONE {
            return self.existence;
        }
        let named = access.columns.attributes().into_iter().flatten();
        named
            .filter_map(|attribute| self.columns.get(usize::from(attribute.unsigned_abs()) - 1).copied())
            .fold(self.existence.max(self.any_column), S::max)
    }
}
