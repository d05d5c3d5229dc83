//! In-flight write sets of one database, found by their tables.

use crate::GaugeNumber;
use history::{Access, ColumnSet, DatabaseId, Footprint, Key, RelationId, Rows};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Identity of one in-flight write set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DoubtId(u64);

impl DoubtId {
    /// The in-flight write set with this number.
    pub const fn new(number: u64) -> DoubtId {
        DoubtId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for DoubtId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}", self.0)
    }
}

/// An in-flight write set as the order keeps it.
#[derive(Debug)]
pub(crate) struct Doubt {
    pub(crate) database: DatabaseId,
    pub(crate) footprint: Footprint,
    pub(crate) state: DoubtState,
    /// True if it began before a change of the catalog came out: its tables are not known any more, and will
    /// not be.
    pub(crate) outdated: bool,
}

/// State of an in-flight write set. The state only moves downwards in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtState {
    /// A statement that may commit was sent, or will be; no answer yet.
    Open,
    /// The connection was lost before the answer: the backend may live and commit still.
    Lost,
    /// The answer came, or the backend is gone: ends by a settled snapshot probe with this number or a higher
    /// one.
    Ending(GaugeNumber),
}

impl fmt::Display for DoubtState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DoubtState::Open => f.write_str("open"),
            DoubtState::Lost => f.write_str("lost"),
            DoubtState::Ending(number) => write!(f, "ends by {number}"),
        }
    }
}

/// An in-flight write set as the console shows it.
#[derive(Clone, Copy, Debug)]
pub struct DoubtView<'a> {
    /// Its number; earlier write sets have lower ones.
    pub id: DoubtId,
    /// The database whose tables are in flight.
    pub database: DatabaseId,
    /// Footprint that is in flight.
    pub footprint: &'a Footprint,
    /// State of the write set.
    pub state: DoubtState,
}

/// In-flight write sets of one database, by table.
///
/// Invariants: `everything` is the number of footprints put in and not taken out which are *everything*; each
/// other one has one entry per table, which for *nothing* is none, and no table is without an entry.
#[derive(Debug, Default)]
pub(crate) struct ByTable {
    everything: usize,
    tables: BTreeMap<RelationId, Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    doubt: DoubtId,
    columns: ColumnSet,
    existence: bool,
    rows: Which,
}

/// The rows of an entry; the usual single row without a look elsewhere.
#[derive(Debug)]
enum Which {
    All,
    One(Key),
    Several(BTreeSet<Key>),
}

impl ByTable {
    pub(crate) fn insert(&mut self, doubt: DoubtId, footprint: &Footprint) {
        match footprint.tables() {
            None => self.everything += 1,
            Some(tables) => {
                for (table, access) in tables {
                    self.tables.entry(table).or_default().push(Entry::new(doubt, access));
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, doubt: DoubtId, footprint: &Footprint) {
        let Some(tables) = footprint.tables() else {
            self.everything -= 1;
            return;
        };
        for (table, _) in tables {
            let entries = self.tables.get_mut(&table).expect("a doubt has an entry at each of its tables");
            let place = entries.iter().position(|entry| entry.doubt == doubt).expect("one entry per doubt");
            entries.swap_remove(place);
            if entries.is_empty() {
                self.tables.remove(&table);
            }
        }
    }

    /// True if any of them can matter to `footprint`.
    pub(crate) fn overlaps(&self, footprint: &Footprint) -> bool {
        if self.everything > 0 {
            return true;
        }
        let Some(mut tables) = footprint.tables() else { return !self.tables.is_empty() };
        !self.tables.is_empty()
            && tables.any(|(table, access)| {
                self.tables
                    .get(&table)
                    .is_some_and(|entries| entries.iter().any(|entry| entry.overlaps(access)))
            })
    }

    /// The in-flight write sets that touch a table.
    pub(crate) fn of(&self, table: RelationId) -> impl Iterator<Item = DoubtId> {
        self.tables.get(&table).into_iter().flatten().map(|entry| entry.doubt)
    }

    pub(crate) fn any_everything(&self) -> bool {
        self.everything > 0
    }

    pub(crate) fn audit<'a>(&self, footprints: impl Iterator<Item = (DoubtId, &'a Footprint)>) {
        let (mut everything, mut entries) = (0, 0);
        for (doubt, footprint) in footprints {
            match footprint.tables() {
                None => everything += 1,
                Some(tables) => {
                    for (table, _) in tables {
                        entries += 1;
                        assert!(self.of(table).any(|other| other == doubt), "{doubt} is found at {table}");
                    }
                }
            }
        }
        assert_eq!(everything, self.everything);
        assert_eq!(entries, self.tables.values().map(Vec::len).sum::<usize>());
        assert!(self.tables.values().all(|entries| !entries.is_empty()));
    }
}

impl Entry {
    fn new(doubt: DoubtId, access: &Access) -> Entry {
        let rows = match &access.rows {
            Rows::All => Which::All,
            Rows::Keys(keys) => match keys.first() {
                Some(key) if keys.len() == 1 => Which::One(*key),
                _ => Which::Several(keys.clone()),
            },
        };
        Entry { doubt, columns: access.columns, existence: access.existence, rows }
    }

    /// The same question as [`Access::overlaps`].
    fn overlaps(&self, access: &Access) -> bool {
        let rows = match (&self.rows, &access.rows) {
            (Which::All, Rows::All) => true,
            (Which::All, Rows::Keys(keys)) => !keys.is_empty(),
            (Which::One(_), Rows::All) => true,
            (Which::One(key), Rows::Keys(keys)) => keys.contains(key),
            (Which::Several(mine), Rows::All) => !mine.is_empty(),
            (Which::Several(mine), Rows::Keys(keys)) => !mine.is_disjoint(keys),
        };
        rows && (self.existence || access.existence || self.columns.intersects(access.columns))
    }
}
