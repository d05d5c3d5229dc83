//! K3, the footprint ghost: each result must be what the primary's own states give, at some instant inside the
//! statement's interval. A REPEATABLE READ transaction is one read of everything, at one instant of its first statement.
//!
//! This is the promise itself: the states shown are those of a run of one server.

use super::{Checker, Violation};
use crate::model::primary::Isolation;
use crate::model::schema::State;
use crate::model::statement::Select;
use crate::record::{Block, Read, Record};
use crate::world::World;
use history::DatabaseId;
use std::collections::BTreeMap;
use std::rc::Rc;

/// All states that the primary showed, by database.
pub struct Ghost(BTreeMap<DatabaseId, Vec<Rc<State>>>);

impl Ghost {
    /// The ghost of this run.
    pub fn new(world: &World) -> Ghost {
        let primary = world.primary();
        let states = |place| {
            let database = crate::model::schema::database(place);
            (database, primary.states(database).into_iter().map(|(_, state)| state).collect())
        };
        Ghost((0..crate::model::schema::DATABASES).map(states).collect())
    }

    /// One state.
    pub fn state(&self, database: DatabaseId, number: usize) -> &State {
        &self.0[&database][number]
    }

    /// The numbers of the states, from one to another (both included), in which `read` gives what it gave.
    pub fn fits(&self, read: &Read, from: usize, to: usize) -> Vec<usize> {
        (from..=to).filter(|number| self.gives(read, *number)).collect()
    }

    fn gives(&self, read: &Read, number: usize) -> bool {
        let mut state = self.state(read.database, number).clone();
        state.apply(&read.own);
        match read.select {
            Select::Clock => {
                let said = u64::from(read.result[0]);
                read.arrived.at <= said && said <= read.answered.at
            }
            _ => read.select.run(&state, read.around) == read.result,
        }
    }
}

/// The states that fit every read of a transaction with one snapshot.
pub fn snapshots(ghost: &Ghost, block: &Block, reads: &[&Read]) -> Vec<usize> {
    let Some((arrived, answered)) = block.first else { return Vec::new() };
    let span = arrived.shown..=answered.shown;
    span.filter(|number| reads.iter().all(|read| ghost.gives(read, *number))).collect()
}

/// Finds every read that no shown state explains.
pub fn check(world: &World, record: &Record) -> Vec<Violation> {
    let ghost = Ghost::new(world);
    let mut found = Vec::new();
    let violation = |what: String| Violation { checker: Checker::K3, what };
    for read in record.reads.iter().filter(|read| read.strong) {
        if one_snapshot(record, read) {
            continue;
        }
        if ghost.fits(read, read.arrived.shown, read.answered.shown).is_empty() {
            found.push(violation(describe(read)));
        }
    }
    // However old a whole read may be, it is of one state.
    for read in record.reads.iter().filter(|read| !read.strong && world.ways.get().whole) {
        if !one_snapshot(record, read) && ghost.fits(read, 0, read.answered.shown).is_empty() {
            found.push(violation(describe(read)));
        }
    }
    for (place, block) in record.blocks.iter().enumerate() {
        if block.isolation == Isolation::Committed {
            continue;
        }
        let reads: Vec<&Read> = record.reads.iter().filter(|read| read.block == Some(place)).collect();
        let Some(first) = reads.first() else { continue };
        let fits = snapshots(&ghost, block, &reads);
        if fits.is_empty() {
            found.push(violation(format!(
                "no one snapshot for {} reads, first {}",
                reads.len(),
                describe(first)
            )));
        } else if let Some(fact) = fact_of(world, record, place)
            && !fits.iter().any(|number| untouched(&ghost, block.database, *number, &fact))
        {
            found.push(violation(format!(
                "lost update: wrote over what its snapshot did not see, {}",
                describe(first)
            )));
        }
    }
    found
}

fn one_snapshot(record: &Record, read: &Read) -> bool {
    read.block.is_some_and(|place| record.blocks[place].isolation != Isolation::Committed)
}

/// The block's commit.
pub fn fact_of(world: &World, record: &Record, place: usize) -> Option<crate::model::request::Fact> {
    let block = &record.blocks[place];
    let begun = block.first?.0.at;
    let ended = block.ended?;
    let facts = world.primary().facts();
    facts.into_iter().find(|fact| fact.pid == block.pid && begun <= fact.at && fact.at <= ended)
}

/// True if all written cells are as the snapshot had them, up to the commit.
fn untouched(
    ghost: &Ghost,
    database: DatabaseId,
    snapshot: usize,
    fact: &crate::model::request::Fact,
) -> bool {
    let (seen, before) = (ghost.state(database, snapshot), ghost.state(database, fact.shown - 1));
    fact.effects.iter().all(|(cell, _)| seen.get(*cell) == before.get(*cell))
}

fn describe(read: &Read) -> String {
    format!(
        "client {} at {:?}: {:?} gave {:?}, arrived {:?}, answered {:?}",
        read.client, read.place, read.select, read.result, read.arrived, read.answered
    )
}
