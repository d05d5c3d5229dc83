//! K8: the committed SERIALIZABLE transactions have a serial order: the graph of who must come before whom (Adya 1999:
//! write-write, write-read and read-write dependencies) has no cycle.

use super::shown::{Ghost, fact_of, snapshots};
use super::{Checker, Violation};
use crate::model::primary::{Isolation, cells};
use crate::model::schema::Cell;
use crate::record::{Read, Record, Where};
use crate::world::World;
use history::DatabaseId;
use std::collections::BTreeSet;

/// One committed transaction.
#[derive(Clone, Debug)]
pub struct SerialTransaction {
    /// The number of the state that it read.
    pub snapshot: usize,
    /// The number of the first state that shows what it wrote.
    pub shown: usize,
    /// What it read.
    pub reads: BTreeSet<Cell>,
    /// What it wrote.
    pub writes: BTreeSet<Cell>,
}

/// Whether no serial order exists.
pub fn has_cycle(all: &[SerialTransaction]) -> bool {
    // Remove what nothing comes before, again and again: what is left lies on or behind a cycle.
    let mut left: BTreeSet<usize> = (0..all.len()).collect();
    loop {
        let free: Vec<usize> = left
            .iter()
            .copied()
            .filter(|one| !left.iter().any(|other| other != one && before(&all[*other], &all[*one])))
            .collect();
        if free.is_empty() {
            return !left.is_empty();
        }
        left.retain(|one| !free.contains(one));
    }
}

fn before(first: &SerialTransaction, second: &SerialTransaction) -> bool {
    let meets = |a: &BTreeSet<Cell>, b: &BTreeSet<Cell>| a.intersection(b).next().is_some();
    (meets(&first.writes, &second.writes) && first.shown < second.shown)
        || (meets(&first.writes, &second.reads) && first.shown <= second.snapshot)
        || (meets(&first.reads, &second.writes) && second.shown > first.snapshot)
}

/// Finds whether the SERIALIZABLE blocks of one database have no serial order.
pub fn check(world: &World, record: &Record) -> Vec<Violation> {
    // What a crash took back may have been read before.
    if world.primary().went_back() {
        return Vec::new();
    }
    let ghost = Ghost::new(world);
    let databases: BTreeSet<DatabaseId> = record.blocks.iter().map(|block| block.database).collect();
    let cyclic = databases.into_iter().filter(|database| {
        let blocks = record.blocks.iter().enumerate().filter(|(_, block)| {
            block.isolation == Isolation::Serializable && block.database == *database && block.ended.is_some()
        });
        let all: Vec<SerialTransaction> =
            blocks.filter_map(|(place, _)| transaction(world, record, &ghost, place)).collect();
        has_cycle(&all)
    });
    cyclic.map(|_| Violation { checker: Checker::K8, what: "no serial order".into() }).collect()
}

/// A block that committed, or that only read.
fn transaction(world: &World, record: &Record, ghost: &Ghost, place: usize) -> Option<SerialTransaction> {
    let reads: Vec<&Read> = record.reads.iter().filter(|read| read.block == Some(place)).collect();
    let fact = fact_of(world, record, place);
    if fact.is_none() && record.blocks[place].wrote {
        return None;
    }
    // What ran at the primary alone is a fact; what a standby answered fits one or more of the shown states.
    let block = &record.blocks[place];
    if reads.iter().all(|read| read.place == Where::Primary) {
        let (begun, ended) = (block.first?.0.at, block.ended?);
        let mut facts = world.primary().serial_facts().into_iter();
        return facts
            .find(|fact| fact.pid == block.pid && begun <= fact.at && fact.at <= ended)
            .map(|fact| fact.transaction);
    }
    let snapshot = snapshots(ghost, block, &reads).last().copied()?;
    let read_cells = reads.iter().flat_map(|read| read.select.tables()).flat_map(cells).collect();
    let writes = fact.iter().flat_map(|fact| fact.effects.iter().map(|(cell, _)| *cell)).collect();
    Some(SerialTransaction {
        snapshot,
        shown: fact.map_or(snapshot, |fact| fact.shown),
        reads: read_cells,
        writes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schema::Table;

    #[test]
    fn write_skew_has_no_serial_order() {
        let (x, y) = (Cell::a(Table::Full, 0), Cell::a(Table::Full, 1));
        let both = BTreeSet::from([x, y]);
        let one = |shown, writes| SerialTransaction { snapshot: 0, shown, reads: both.clone(), writes };
        let (first, second) = (one(1, BTreeSet::from([x])), one(2, BTreeSet::from([y])));
        assert!(has_cycle(&[first.clone(), second.clone()]));
        assert!(!has_cycle(&[first, SerialTransaction { snapshot: 1, ..second }]));
    }
}
