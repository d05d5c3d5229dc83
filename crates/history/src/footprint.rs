//! Footprint of a statement or a transaction, at the grain of tables, columns and rows.

use crate::{ColumnSet, Key, RelationId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// More tables than this fold a footprint to *everything*.
pub const MAX_TABLES: usize = 64;
/// More keys of one table than this fold to all of its rows.
pub const MAX_KEYS: usize = 128;

/// Finest grain of a footprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// Tables.
    Table,
    /// Tables and their columns.
    Column,
    /// Tables, their columns and their rows.
    #[default]
    Row,
}

/// Set of rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All, also those that do not exist yet.
    All,
    /// The rows with these primary keys, whether they exist or not. Never more than [`MAX_KEYS`].
    Keys(BTreeSet<Key>),
}

impl Rows {
    /// The rows with these keys; all rows if there are too many.
    pub fn keys(keys: impl IntoIterator<Item = Key>) -> Rows {
        let keys: BTreeSet<Key> = keys.into_iter().collect();
        if keys.len() > MAX_KEYS { Rows::All } else { Rows::Keys(keys) }
    }

    fn intersects(&self, other: &Rows) -> bool {
        match (self, other) {
            (Rows::Keys(mine), Rows::Keys(theirs)) => {
                let (few, many) = if mine.len() < theirs.len() { (mine, theirs) } else { (theirs, mine) };
                few.iter().any(|key| many.contains(key))
            }
            (Rows::All, Rows::Keys(keys)) | (Rows::Keys(keys), Rows::All) => !keys.is_empty(),
            (Rows::All, Rows::All) => true,
        }
    }

    fn union(&mut self, other: &Rows) {
        match (&mut *self, other) {
            (Rows::Keys(mine), Rows::Keys(theirs)) => {
                mine.extend(theirs);
                if mine.len() > MAX_KEYS {
                    *self = Rows::All;
                }
            }
            _ => *self = Rows::All,
        }
    }

    fn covers(&self, other: &Rows) -> bool {
        match (self, other) {
            (Rows::All, _) => true,
            (Rows::Keys(_), Rows::All) => false,
            (Rows::Keys(mine), Rows::Keys(theirs)) => theirs.is_subset(mine),
        }
    }
}

/// Touched items of one table.
///
/// A read names the columns whose values its result depends on, and the rows that it is confined to by
/// equality on the whole primary key. A write names the columns that it changed, the rows, and whether rows
/// came or went: inserts and deletes change every read of these rows, whatever its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The columns read, or changed in rows that stayed.
    pub columns: ColumnSet,
    /// The rows read, or changed, or come and gone.
    pub rows: Rows,
    /// Rows came or went (insert, delete, a changed key, truncate). Always `false` for a read.
    pub existence: bool,
}

impl Access {
    /// The whole table, whichever way.
    pub const WHOLE: Access = Access { columns: ColumnSet::All, rows: Rows::All, existence: true };

    /// A read of these columns in these rows.
    pub fn read(columns: ColumnSet, rows: Rows) -> Access {
        Access { columns, rows, existence: false }
    }

    /// An update of these columns in these rows, none of which came or went.
    pub fn update(columns: ColumnSet, rows: Rows) -> Access {
        Access { columns, rows, existence: false }
    }

    /// Rows with these keys came or went.
    pub fn existence(rows: Rows) -> Access {
        Access { columns: ColumnSet::All, rows, existence: true }
    }

    /// True if one can matter to the other.
    pub fn overlaps(&self, other: &Access) -> bool {
        (self.existence || other.existence || self.columns.intersects(other.columns))
            && self.rows.intersects(&other.rows)
    }

    fn union(&mut self, other: &Access) {
        self.columns = self.columns.union(other.columns);
        self.rows.union(&other.rows);
        self.existence |= other.existence;
    }

    fn covers(&self, other: &Access) -> bool {
        self.rows.covers(&other.rows)
            && (self.existence || (!other.existence && self.columns.covers(other.columns)))
    }
}

/// Touched items of one database. A footprint is never too small: a set that outgrows a bound folds to the
/// next coarser grain (keys to the table's rows, tables to everything).
///
/// Invariant: at most [`MAX_TABLES`] tables, each with at most [`MAX_KEYS`] keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Footprint {
    /// Every table of the database and its catalog.
    Everything,
    /// These tables.
    Tables(BTreeMap<RelationId, Access>),
}

impl Default for Footprint {
    fn default() -> Self {
        Footprint::NOTHING
    }
}

impl Footprint {
    /// No table: `SELECT 1`.
    pub const NOTHING: Footprint = Footprint::Tables(BTreeMap::new());

    /// One table.
    pub fn of(table: RelationId, access: Access) -> Footprint {
        Footprint::Tables(BTreeMap::from([(table, access)]))
    }

    /// True if it touches nothing.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Footprint::Tables(tables) if tables.is_empty())
    }

    /// The same at this grain: never less than it was.
    #[must_use]
    pub fn at(mut self, grain: Grain) -> Footprint {
        let Footprint::Tables(tables) = &mut self else { return self };
        for access in tables.values_mut() {
            if grain != Grain::Row {
                access.rows = Rows::All;
            }
            if grain == Grain::Table {
                access.columns = ColumnSet::All;
            }
        }
        self
    }

    /// Adds what is touched of one table.
    pub fn add(&mut self, table: RelationId, access: Access) {
        let Footprint::Tables(tables) = self else { return };
        match tables.get_mut(&table) {
            Some(mine) => mine.union(&access),
            None => drop(tables.insert(table, access)),
        }
        if tables.len() > MAX_TABLES {
            *self = Footprint::Everything;
        }
    }

    /// Adds all that `other` touches.
    pub fn union(&mut self, other: &Footprint) {
        match other {
            Footprint::Everything => *self = Footprint::Everything,
            Footprint::Tables(tables) => {
                tables.iter().for_each(|(table, access)| self.add(*table, access.clone()))
            }
        }
    }

    /// True if a change of one can matter to the other. *Everything* meets even a statement that touches no
    /// table: the catalog is part of it.
    pub fn overlaps(&self, other: &Footprint) -> bool {
        let (Footprint::Tables(mine), Footprint::Tables(theirs)) = (self, other) else { return true };
        let (few, many) = if mine.len() < theirs.len() { (mine, theirs) } else { (theirs, mine) };
        few.iter().any(|(table, access)| many.get(table).is_some_and(|other| access.overlaps(other)))
    }

    /// True if this, written, may have emptied a table that `read` reads at one blow (TRUNCATE): a snapshot
    /// from before shows nothing of it afterwards.
    pub fn may_empty(&self, read: &Footprint) -> bool {
        let (Footprint::Tables(mine), Footprint::Tables(theirs)) = (self, read) else { return true };
        let whole = |(table, access): (&RelationId, &Access)| {
            access.existence && access.rows == Rows::All && theirs.contains_key(table)
        };
        mine.iter().any(whole)
    }

    /// True if everything that `other` touches is in this one.
    pub fn covers(&self, other: &Footprint) -> bool {
        match (self, other) {
            (Footprint::Everything, _) => true,
            (Footprint::Tables(_), Footprint::Everything) => false,
            (Footprint::Tables(mine), Footprint::Tables(theirs)) => theirs
                .iter()
                .all(|(table, access)| mine.get(table).is_some_and(|larger| larger.covers(access))),
        }
    }

    /// The tables touched, ascending; `None` if it is everything.
    pub fn tables(&self) -> Option<impl Iterator<Item = (RelationId, &Access)>> {
        match self {
            Footprint::Everything => None,
            Footprint::Tables(tables) => Some(tables.iter().map(|(table, access)| (*table, access))),
        }
    }
}

/// `everything`, `nothing`, or `16385(1,3)[2 rows] 16390(*)+-`: table, columns, rows if not all, `+-` if rows came or
/// went.
impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(tables) = self.tables() else { return f.write_str("everything") };
        if self.is_nothing() {
            return f.write_str("nothing");
        }
        for (place, (table, access)) in tables.enumerate() {
            write!(f, "{}{table}({})", if place == 0 { "" } else { " " }, access.columns)?;
            match &access.rows {
                Rows::All => {}
                Rows::Keys(keys) if keys.len() == 1 => f.write_str("[1 row]")?,
                Rows::Keys(keys) => write!(f, "[{} rows]", keys.len())?,
            }
            if access.existence {
                f.write_str("+-")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: RelationId = RelationId::new(1);
    const U: RelationId = RelationId::new(2);

    fn key(n: u64) -> Key {
        Key::new(n)
    }

    fn read(columns: &[i16], rows: Rows) -> Footprint {
        Footprint::of(T, Access::read(ColumnSet::of(columns.iter().copied()), rows))
    }

    #[test]
    fn columns_keep_apart_what_keys_do_not() {
        let update = Footprint::of(T, Access::update(ColumnSet::of([2]), Rows::All));
        assert!(read(&[2], Rows::All).overlaps(&update));
        assert!(!read(&[1], Rows::All).overlaps(&update));
        assert!(!read(&[], Rows::All).overlaps(&update), "a count does not see an update");
        let insert = Footprint::of(T, Access::existence(Rows::keys([key(5)])));
        assert!(read(&[], Rows::All).overlaps(&insert), "a count sees an insert");
        assert!(!read(&[1], Rows::keys([key(4)])).overlaps(&insert));
        assert!(read(&[1], Rows::keys([key(5)])).overlaps(&insert));
    }

    #[test]
    fn everything_overlaps_even_nothing() {
        assert!(Footprint::Everything.overlaps(&Footprint::NOTHING));
        assert!(!Footprint::NOTHING.overlaps(&Footprint::of(T, Access::WHOLE)));
    }

    #[test]
    fn bounds_fold_to_the_coarser_grain() {
        let mut rows = read(&[1], Rows::keys([key(0)]));
        for n in 1..=MAX_KEYS as u64 {
            rows.union(&read(&[1], Rows::keys([key(n)])));
        }
        assert_eq!(rows, read(&[1], Rows::All));
        let mut tables = Footprint::NOTHING;
        for n in 0..=MAX_TABLES as u32 {
            tables.add(RelationId::new(n), Access::WHOLE);
        }
        assert_eq!(tables, Footprint::Everything);
        assert_eq!(Rows::keys((0..1000).map(key)), Rows::All);
    }

    #[test]
    fn a_coarser_grain_covers_a_finer_one() {
        let finest = read(&[2], Rows::keys([key(1)]));
        let of_table = finest.clone().at(Grain::Table);
        let of_column = finest.clone().at(Grain::Column);
        assert_eq!(finest.clone().at(Grain::Row), finest);
        assert_eq!(of_column, read(&[2], Rows::All));
        assert!(of_table.covers(&of_column) && of_column.covers(&finest) && !of_column.covers(&of_table));
        let other_column = Footprint::of(T, Access::update(ColumnSet::of([3]), Rows::keys([key(1)])));
        assert!(of_table.overlaps(&other_column) && !of_column.overlaps(&other_column));
        assert_eq!(Footprint::Everything.at(Grain::Table), Footprint::Everything);
    }

    #[test]
    fn covering_is_by_grain() {
        let whole = Footprint::of(T, Access::WHOLE);
        let update = Footprint::of(T, Access::update(ColumnSet::of([2]), Rows::keys([key(1)])));
        let insert = Footprint::of(T, Access::existence(Rows::keys([key(1)])));
        assert!(whole.covers(&update) && whole.covers(&insert) && insert.covers(&update));
        assert!(!update.covers(&insert) && !update.covers(&whole));
        assert!(!whole.covers(&Footprint::of(U, Access::WHOLE)));
        assert!(Footprint::Everything.covers(&whole) && !whole.covers(&Footprint::Everything));
    }

    #[test]
    fn union_covers_both_and_overlap_is_symmetric() {
        let some = [
            read(&[1], Rows::keys([key(1)])),
            read(&[2, 3], Rows::All),
            Footprint::of(T, Access::existence(Rows::keys([key(2)]))),
            Footprint::of(U, Access::WHOLE),
            Footprint::Everything,
            Footprint::NOTHING,
        ];
        for a in &some {
            for b in &some {
                let mut both = a.clone();
                both.union(b);
                assert!(both.covers(a) && both.covers(b), "{a} and {b} in {both}");
                assert_eq!(a.overlaps(b), b.overlaps(a), "{a} and {b}");
            }
        }
    }
}
