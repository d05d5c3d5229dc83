//! Marks of transactions that have locked readers out of tables, and the locks that may be held now.

use history::{DatabaseId, Footprint, RelationId};
use order::{DoubtId, Order};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of tables of a database with a mark of their own. With more, all count as marked.
const MAX_MARKED: usize = 4096;

/// The marks of all databases.
#[derive(Debug, Default)]
pub struct LockMarks(BTreeMap<DatabaseId, Marks>);

/// Number of the last mark of each table of a database.
#[derive(Debug, Default)]
struct Marks {
    newest: u64,
    everything: u64,
    tables: BTreeMap<RelationId, u64>,
    /// In-flight write sets of transactions that may hold such locks now.
    held: Vec<(DoubtId, Footprint)>,
}

impl LockMarks {
    /// Marks tables whose readers a transaction has locked out, or locks out until its commit, which follows.
    pub fn mark(&mut self, database: DatabaseId, footprint: &Footprint) {
        let marks = self.0.entry(database).or_default();
        marks.newest += 1;
        let newest = marks.newest;
        match footprint.tables() {
            Some(tables) => marks.tables.extend(tables.map(|(table, _)| (table, newest))),
            None => marks.everything = newest,
        }
        if marks.tables.len() > MAX_MARKED {
            marks.tables.clear();
            marks.everything = newest;
        }
    }

    /// Records that the transaction of this in-flight write set may hold ACCESS EXCLUSIVE locks on these
    /// tables until the write set ends. Forgets those of write sets that have ended.
    pub(crate) fn hold(&mut self, doubt: DoubtId, database: DatabaseId, footprint: Footprint, order: &Order) {
        let held = &mut self.0.entry(database).or_default().held;
        held.retain(|(doubt, _)| order.doubt_state(*doubt).is_some());
        held.push((doubt, footprint));
    }

    /// The newest mark.
    pub(crate) fn newest(&self, database: DatabaseId) -> u64 {
        self.0.get(&database).map_or(0, |marks| marks.newest)
    }

    /// True if a table of the footprint was marked after the mark `since`.
    pub(crate) fn any_since(&self, database: DatabaseId, since: u64, footprint: &Footprint) -> bool {
        let Some(marks) = self.0.get(&database) else { return false };
        let is_marked = |table: &RelationId| marks.tables.get(table).is_some_and(|mark| *mark > since);
        let any = match footprint.tables() {
            Some(mut tables) => tables.any(|(table, _)| is_marked(&table)),
            None => marks.newest > since,
        };
        any || marks.everything > since
    }

    /// True if a transaction of this Consort may hold such a lock on what a read reads.
    pub(crate) fn is_held(&mut self, database: DatabaseId, footprint: &Footprint, order: &Order) -> bool {
        let Some(marks) = self.0.get_mut(&database) else { return false };
        marks.held.retain(|(doubt, _)| order.doubt_state(*doubt).is_some());
        let touches = |held: &Footprint| match (held.tables(), footprint.tables()) {
            (Some(mut held), Some(tables)) => {
                let read: BTreeSet<RelationId> = tables.map(|(table, _)| table).collect();
                held.any(|(table, _)| read.contains(&table))
            }
            _ => true,
        };
        marks.held.iter().any(|(_, held)| touches(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::Access;

    #[test]
    fn ended_write_sets_are_forgotten_without_any_reader() {
        let (mut marks, mut order) = (LockMarks::default(), Order::new(order::Options::default()));
        let (database, footprint) = (DatabaseId::new(5), Footprint::of(RelationId::new(1), Access::WHOLE));
        for _ in 0..3 {
            let doubt = order.doubt(database, Footprint::NOTHING);
            marks.hold(doubt, database, footprint.clone(), &order);
            order.answered_quietly(doubt);
        }
        assert_eq!(marks.0[&database].held.len(), 1);
    }
}
