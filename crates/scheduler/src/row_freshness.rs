//! Last write of each row, in bounded memory: two generations and a floor.
//!
//! ```text
//!   written  -->  young  --full-->  old  --young full again-->  floor (only the newest stamp is left)
//! ```

use crate::bugs::{Bug, Bugs};
use history::{DatabaseId, Key, KeyBuilder, RelationId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hasher};

/// Stamp of a write. The default is before everything.
pub(crate) trait Stamp: Copy + Ord + Default + Debug {}

impl<T: Copy + Ord + Default + Debug> Stamp for T {}

/// The identity of one row of one table of one database, hashed. Two rows with the same identity count as one, which
/// can only make a row newer than it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowId(u64);

impl RowId {
    pub(crate) fn new(database: DatabaseId, table: RelationId, key: Key) -> RowId {
        let table = u64::from(database.get()) << 32 | u64::from(table.get());
        let row = KeyBuilder::default().integer(table.cast_signed()).integer(key.get().cast_signed());
        RowId(row.finish().get())
    }
}

/// The newest commit of each row.
///
/// Invariants: each generation has at most `room` rows; a row that is in neither was last written at or below `floor`.
#[derive(Debug)]
pub(crate) struct Rows<S> {
    young: Generation<S>,
    old: Generation<S>,
    floor: S,
    room: usize,
    bugs: Bugs,
}

#[derive(Debug, Default)]
struct Generation<S> {
    rows: HashMap<RowId, S, BuildHasherDefault<AsItIs>>,
    newest: S,
}

impl<S: Stamp> Rows<S> {
    /// Remembers at most `max_rows` rows in both generations together.
    pub(crate) fn new(max_rows: usize, bugs: Bugs) -> Rows<S> {
        let room = (max_rows / 2).max(1);
        Rows { young: Generation::default(), old: Generation::default(), floor: S::default(), room, bugs }
    }

    pub(crate) fn note(&mut self, row: RowId, at: S) {
        if self.young.rows.len() >= self.room && !self.young.rows.contains_key(&row) {
            self.turn();
        }
        let last = self.young.rows.entry(row).or_default();
        *last = at.max(*last);
        self.young.newest = self.young.newest.max(at);
        assert!(self.young.rows.len() <= self.room, "bound of rows");
    }

    pub(crate) fn newest(&self, row: RowId) -> S {
        let known = self.young.rows.get(&row).or_else(|| self.old.rows.get(&row));
        known.copied().unwrap_or(self.floor)
    }

    pub(crate) fn len(&self) -> usize {
        self.young.rows.len() + self.old.rows.len()
    }

    /// Forgets everything; the caller has a floor of its own.
    pub(crate) fn clear(&mut self) {
        *self = Rows::new(self.room * 2, self.bugs);
    }

    /// The old generation becomes the floor, the young one old. Its memory is used again.
    fn turn(&mut self) {
        if !self.bugs.has(Bug::IndexEvictsWithoutFloor) {
            self.floor = self.floor.max(self.old.newest);
        }
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.rows.clear();
        self.young.newest = S::default();
    }
}

/// A row's identity is a hash already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Lsn;

    fn row(n: u64) -> RowId {
        RowId::new(DatabaseId::new(5), RelationId::new(16_384), Key::new(n))
    }

    #[test]
    fn ten_million_rows_stay_within_the_bound() {
        const MAX: usize = 7 << 17;
        let mut rows = Rows::new(MAX, Bugs::default());
        for n in 0..10_000_000 {
            rows.note(row(n), Lsn::new(n + 1));
            if n % 100_000 == 0 {
                assert!(rows.len() <= MAX);
            }
        }
        assert!(rows.len() <= MAX);
        // Both tables together: 17 bytes for each of their 2^20 buckets.
        assert!(rows.young.rows.capacity() + rows.old.rows.capacity() <= MAX, "memory of the tables");
        assert!(rows.floor > Lsn::ZERO);
        for n in [0, 1, 5_000_000, 9_000_000, 9_999_999] {
            assert!(rows.newest(row(n)) >= Lsn::new(n + 1), "row {n} is never older than it is");
        }
        assert_eq!(rows.newest(row(9_999_999)), Lsn::new(10_000_000));
        assert!(rows.newest(row(77_000_000)) < Lsn::new(9_600_000), "the floor stays far behind");
    }

    #[test]
    fn a_row_written_again_stays() {
        let mut rows = Rows::new(8, Bugs::default());
        for n in 1..1000 {
            rows.note(row(0), Lsn::new(10 * n));
            rows.note(row(n), Lsn::new(10 * n + 1));
            assert_eq!(rows.newest(row(0)), Lsn::new(10 * n));
        }
        assert!(rows.len() <= 8);
    }

    #[test]
    fn tables_and_databases_are_kept_apart() {
        let (d, t, k) = (DatabaseId::new(1), RelationId::new(2), Key::new(3));
        assert_ne!(RowId::new(d, t, k), RowId::new(DatabaseId::new(2), t, k));
        assert_ne!(RowId::new(d, t, k), RowId::new(d, RelationId::new(3), k));
    }
}
