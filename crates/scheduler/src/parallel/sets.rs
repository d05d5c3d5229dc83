//! Reads and writes of one transaction, and its class per table.

use crate::parallel::Class;
use history::{Access, Footprint, RelationId};
use std::collections::BTreeMap;

/// The read and write sets of a statement or a transaction, at the grain of tables, columns and rows, with
/// the class in which it affects each table (section 4.1).
///
/// Two [`Footprint`]s and not one: two transactions that read the same are independent, so reads and writes
/// must be distinguished. Two footprints and not six sets: a footprint already holds tables, columns and
/// rows, is never too small, and is the result of `analysis` for a statement and of the decoder for a commit.
/// The class is kept separately because the class of a transaction does not follow from its items (rule iii:
/// a row of one statement and a column of another make a table).
///
/// Invariant: `classes` names the tables of both footprints, as long as neither is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    reads: Footprint,
    writes: Footprint,
    classes: BTreeMap<RelationId, Class>,
}

impl Sets {
    /// The sets of one statement, or of one decoded commit (which reads nothing: its rows are values).
    ///
    /// `finest` says of each table which class may be made use of at most, for the reasons in the module's text; with
    /// one answer for all tables it is what the paper's figure 6 compares ("only TAS", "TAS and CAS", "all classes").
    pub fn of(reads: &Footprint, writes: &Footprint, finest: impl Fn(RelationId) -> Class) -> Sets {
        let fold = |footprint: &Footprint| {
            let Some(tables) = footprint.tables() else { return Footprint::Everything };
            let mut folded = Footprint::NOTHING;
            tables.for_each(|(table, access)| folded.add(table, finest(table).fold(access)));
            folded
        };
        let mut sets = Sets { reads: fold(reads), writes: fold(writes), classes: BTreeMap::new() };
        sets.classes = sets.classes_of_accesses();
        sets
    }

    /// Adds what a later statement of the same transaction reads and writes. Classes merge by rules i to iii; one that
    /// the footprints can no longer tell (too many keys) becomes coarser.
    pub fn merge(&mut self, later: &Sets) {
        self.reads.union(&later.reads);
        self.writes.union(&later.writes);
        let classes = self.classes_of_accesses();
        let earlier = std::mem::replace(&mut self.classes, classes);
        for (table, class) in &mut self.classes {
            let merged = match (earlier.get(table), later.classes.get(table)) {
                (Some(one), Some(other)) => one.merged(*other),
                (Some(only), None) | (None, Some(only)) => *only,
                (None, None) => continue,
            };
            *class = merged.max(*class);
        }
    }

    /// The read set.
    pub fn reads(&self) -> &Footprint {
        &self.reads
    }

    /// The write set.
    pub fn writes(&self) -> &Footprint {
        &self.writes
    }

    /// True if it may touch everything, the catalog too.
    pub fn is_everything(&self) -> bool {
        self.reads == Footprint::Everything || self.writes == Footprint::Everything
    }

    /// The tables that it touches with its classes there, ascending; none if it is everything.
    pub fn classes(&self) -> impl Iterator<Item = (RelationId, Class)> {
        self.classes.iter().map(|(table, class)| (*table, *class))
    }

    /// Reads and writes of each table that it touches, ascending; none if it is everything.
    pub(crate) fn tables(&self) -> impl Iterator<Item = Touched<'_>> {
        self.classes.iter().map(|(table, class)| Touched {
            table: *table,
            class: *class,
            read: access(&self.reads, *table),
            written: access(&self.writes, *table),
        })
    }

    /// The finest class that says all that is touched of a table.
    fn classes_of_accesses(&self) -> BTreeMap<RelationId, Class> {
        if self.is_everything() {
            return BTreeMap::new();
        }
        let both = [&self.reads, &self.writes].into_iter().filter_map(Footprint::tables).flatten();
        both.map(|(table, _)| {
            let accesses =
                [&self.reads, &self.writes].into_iter().filter_map(|touched| access(touched, table));
            (table, Class::of(accesses))
        })
        .collect()
    }
}

/// Items of one table that one transaction touches. At least one of `read` and `written` is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched<'a> {
    pub(crate) table: RelationId,
    pub(crate) class: Class,
    pub(crate) read: Option<&'a Access>,
    pub(crate) written: Option<&'a Access>,
}

fn access(footprint: &Footprint, table: RelationId) -> Option<&Access> {
    match footprint {
        Footprint::Everything => None,
        Footprint::Tables(tables) => tables.get(&table),
    }
}
