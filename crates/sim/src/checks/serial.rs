//! K8: the committed SERIALIZABLE transactions have a serial order.

use super::shown::{Ghost, fact_of, snapshots};
use super::{Checker, Violation};
use crate::model::primary::{Isolation, cells};
use crate::model::serial::{SerialTransaction, has_cycle};
use crate::record::{Read, Record, Where};
use crate::world::World;
use history::DatabaseId;
use std::collections::BTreeSet;

/// Finds whether the SERIALIZABLE blocks of one database have no serial order.
pub fn check(world: &World, record: &Record) -> Vec<Violation> {
    // Commits that a crash took back may have been read before.
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
    // Reads at the primary are facts; an answer of a standby fits one or more of the shown states.
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
