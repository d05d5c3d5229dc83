//! Locks: a block that has read a table holds it against TRUNCATE, LOCK and DDL of others until it ends, at
//! any node of the read. And a read inside a block does not pass a table that another session has locked.
//!
//! A block that defers its locks holds them until its last statement: no other session may have had the table
//! between two of its statements.
//!
//! Two things are left out, because there only the waiting differs, never a result: a read outside a block may pass a
//! lock by a proof of its position, and a transaction with one snapshot at a standby takes no locks at the primary.

use super::{Checker, Violation};
use crate::model::primary::{HeldLock, Isolation};
use crate::record::{Block, Read, Record};
use crate::world::World;

/// `closed`: no writer bypasses, so that what the record says of locks is all.
pub fn check(world: &World, record: &Record, closed: bool) -> Vec<Violation> {
    let held = world.primary().held();
    let violation = |what: String| Violation { checker: Checker::Locks, what };
    let mut found = Vec::new();
    let locking = |block: &&Block| block.isolation == Isolation::Committed;
    for block in record.blocks.iter().filter(locking) {
        for (table, since) in &block.holds {
            let passed = held.iter().find(|lock| {
                lock.database == block.database
                    && lock.table == *table
                    && lock.pid != block.pid
                    && lock.from > *since
                    && outlasts(block, lock)
            });
            if let Some(lock) = passed {
                found.push(violation(format!(
                    "{table:?}, read by a block at {since}, was locked by another: {lock:?}"
                )));
            }
        }
    }
    if closed {
        let inside = |read: &&Read| read.block.is_some_and(|place| locking(&&record.blocks[place]));
        let reads = record.reads.iter().filter(|read| read.strong).filter(inside);
        let passed = |read| held.iter().find(|lock| passes(record, read, lock)).map(|lock| (read, lock));
        let passing = reads.filter_map(passed);
        found.extend(passing.map(|(read, lock)| violation(format!("passed {lock:?}: {read:?}"))));
    }
    found
}

/// True if the block goes on after the lock's begin. If the block defers its locks: after the lock's end, with
/// a statement that succeeds.
fn outlasts(block: &Block, lock: &HeldLock) -> bool {
    match lock.until {
        _ if !block.defers => block.ending.is_some_and(|ending| lock.from < ending),
        Some(until) => block.statements.iter().any(|arrived| *arrived > until),
        None => false,
    }
}

/// True if another session held the lock for as long as the read took.
fn passes(record: &Record, read: &Read, lock: &HeldLock) -> bool {
    let own = read.block.is_some_and(|place| record.blocks[place].pid == lock.pid);
    !own && lock.database == read.database
        && read.select.tables().contains(&lock.table)
        && lock.from < read.arrived.at
        && lock.until.is_none_or(|until| until > read.answered.at)
}
