//! Reads and writes of several transactions, as if they were one; decides if one more is independent of them
//! all.

use super::bugs::{Bug, Bugs};
use crate::parallel::counts::Counts;
use crate::parallel::sets::Touched;
use crate::parallel::{Class, Sets};
use history::{Access, ColumnSet, Key, RelationId, Rows};
use std::collections::BTreeMap;

/// Comparison of two states. States that `Classes` calls independent are independent for `Items` too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// Columns and rows of each table that one of them writes, whichever the class. They depend on one
    /// another if they meet in a row, and in a column or because rows come or go.
    #[default]
    Items,
    /// Algorithm 1 as it is published: of each table that both touch, columns if both are of the column's
    /// class, rows if both are of the row's; else they depend on one another.
    Classes,
}

/// The read and write sets of several transactions in one, counted (section 4.2): merging one and removing it again
/// leaves exactly what was there before.
///
/// Not a [`Footprint`](history::Footprint): the union of footprints cannot be undone, and what outgrew a bound there
/// would stay coarse. Comparing with the combined state costs the size of one transaction, not of all; it may see a
/// dependence that no single one of them has (the columns of one with the rows of the other), never miss one.
///
/// Invariant: as many of everything as in the transactions merged and not removed; a table that none of them touches is
/// not in `tables`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Combined {
    transactions: usize,
    everything: usize,
    tables: BTreeMap<RelationId, Table>,
}

/// Touched items of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    classes: Counts<Class>,
    read: Counts<Item>,
    written: Counts<Item>,
}

/// Item of an access. Columns and rows stand last, so that the last item of a kind shows if there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Existence,
    AllColumns,
    Column(i16),
    AllRows,
    Row(Key),
}

impl Combined {
    /// Number of transactions in it.
    pub fn transactions(&self) -> usize {
        self.transactions
    }

    /// Adds a transaction.
    pub fn merge(&mut self, sets: &Sets) {
        self.transactions += 1;
        self.everything += usize::from(sets.is_everything());
        for touched in sets.tables() {
            let table = self.tables.entry(touched.table).or_default();
            table.classes.add(touched.class);
            touched.read.into_iter().flat_map(items).for_each(|item| table.read.add(item));
            touched.written.into_iter().flat_map(items).for_each(|item| table.written.add(item));
        }
    }

    /// Takes out a transaction that was merged before. Panics if it was not.
    pub fn remove(&mut self, sets: &Sets) {
        let known = sets.tables().all(|touched| self.tables.contains_key(&touched.table));
        assert!(known, "a removed transaction was merged");
        self.leave(sets, Counts::take, Counts::take);
    }

    /// The planted bug `counts_not_kept`.
    pub(crate) fn forget(&mut self, sets: &Sets) {
        self.leave(sets, Counts::forget, Counts::forget);
    }

    fn leave(
        &mut self,
        sets: &Sets,
        class: impl Fn(&mut Counts<Class>, &Class),
        item: impl Fn(&mut Counts<Item>, &Item),
    ) {
        self.transactions = self.transactions.checked_sub(1).expect("a removed transaction was merged");
        self.everything -= usize::from(sets.is_everything());
        for touched in sets.tables() {
            let Some(table) = self.tables.get_mut(&touched.table) else { continue };
            class(&mut table.classes, &touched.class);
            touched.read.into_iter().flat_map(items).for_each(|gone| item(&mut table.read, &gone));
            touched.written.into_iter().flat_map(items).for_each(|gone| item(&mut table.written, &gone));
            if table.classes.is_empty() {
                self.tables.remove(&touched.table);
            }
        }
    }

    /// The class of a table by rules i to iii over all transactions here; `None` if none touches it.
    pub fn class(&self, table: RelationId) -> Option<Class> {
        self.tables.get(&table)?.class()
    }

    /// True if a transaction is independent of every one here: in whichever order they are executed, or at
    /// the same time, each does and leaves the same (Algorithm 1).
    pub fn independent(&self, sets: &Sets, compare: Compare) -> bool {
        self.independent_with(sets, compare, Bugs::default())
    }

    pub(crate) fn independent_with(&self, sets: &Sets, compare: Compare, bugs: Bugs) -> bool {
        if self.transactions == 0 {
            return true;
        }
        if (self.everything > 0 || sets.is_everything()) && !bugs.has(Bug::EverythingNotCompared) {
            return false;
        }
        let shared = || sets.tables().filter_map(|theirs| Some((self.tables.get(&theirs.table)?, theirs)));
        match compare {
            Compare::Items => shared().all(|(mine, theirs)| mine.items_apart(&theirs, bugs)),
            Compare::Classes => {
                // Lines 2 to 5, then 6 to 18.
                let mut written =
                    shared().filter(|(mine, theirs)| !mine.written.is_empty() || theirs.written.is_some());
                written.next().is_none() || shared().all(|(mine, theirs)| mine.classes_apart(&theirs, bugs))
            }
        }
    }
}

impl Table {
    fn class(&self) -> Option<Class> {
        self.classes.items().copied().reduce(Class::merged)
    }

    /// Nothing that one of the two writes is read or written by the other.
    fn apart(&self, theirs: &Touched<'_>, bugs: Bugs, meet: impl Fn(&Counts<Item>, &Access) -> bool) -> bool {
        let met =
            |mine: &Counts<Item>, theirs: Option<&Access>| theirs.is_some_and(|theirs| meet(mine, theirs));
        let reads = !bugs.has(Bug::ReadsNotCompared);
        let write_write = met(&self.written, theirs.written);
        let read_write = met(&self.written, theirs.read) || met(&self.read, theirs.written);
        !(write_write || (reads && read_write))
    }

    fn items_apart(&self, theirs: &Touched<'_>, bugs: Bugs) -> bool {
        self.apart(theirs, bugs, |mine, theirs| {
            let existence =
                (theirs.existence || mine.has(&Item::Existence)) && !bugs.has(Bug::ExistenceNotCompared);
            rows_meet(mine, theirs, bugs) && (existence || columns_meet(mine, theirs))
        })
    }

    fn classes_apart(&self, theirs: &Touched<'_>, bugs: Bugs) -> bool {
        match (self.class(), theirs.class) {
            (Some(Class::Column), Class::Column) => self.apart(theirs, bugs, columns_meet),
            (Some(Class::Row), Class::Row) => {
                self.apart(theirs, bugs, |mine, theirs| rows_meet(mine, theirs, bugs))
            }
            _ if bugs.has(Bug::ClassesNotCompared) => {
                self.apart(theirs, bugs, |mine, theirs| rows_meet(mine, theirs, bugs))
            }
            _ => false,
        }
    }
}

fn items(access: &Access) -> impl Iterator<Item = Item> {
    let all_columns = (access.columns == ColumnSet::All).then_some(Item::AllColumns);
    let columns = access.columns.attributes().into_iter().flatten().map(Item::Column);
    let (all_rows, keys) = match &access.rows {
        Rows::All => (Some(Item::AllRows), None),
        Rows::Keys(keys) => (None, Some(keys)),
    };
    let rows = keys.into_iter().flatten().copied().map(Item::Row);
    let existence = access.existence.then_some(Item::Existence);
    existence.into_iter().chain(all_columns).chain(columns).chain(all_rows).chain(rows)
}

fn rows_meet(mine: &Counts<Item>, theirs: &Access, bugs: Bugs) -> bool {
    let all = mine.has(&Item::AllRows) && !bugs.has(Bug::ClassesNotCompared);
    match &theirs.rows {
        Rows::All if bugs.has(Bug::ClassesNotCompared) => false,
        Rows::All => all || matches!(mine.items().next_back(), Some(Item::Row(_))),
        Rows::Keys(keys) => keys.iter().any(|key| all || mine.has(&Item::Row(*key))),
    }
}

fn columns_meet(mine: &Counts<Item>, theirs: &Access) -> bool {
    match theirs.columns.attributes() {
        None => mine.items().any(|item| matches!(item, Item::AllColumns | Item::Column(_))),
        Some(mut columns) => {
            columns.any(|column| mine.has(&Item::AllColumns) || mine.has(&Item::Column(column)))
        }
    }
}
