//! K1, one server: a search for one order of commits and reads, each inside its own interval, in which every read gives
//! what it gave (Wing and Gong 1993, with the memory of Lowe 2017). It does not use the order in which the primary showed
//! its commits; it tries that one first, because it is the likely one.

use super::{Checker, Violation};
use crate::executor::Micros;
use crate::model::primary::Isolation;
use crate::model::schema::{Cell, DATABASES, State, database};
use crate::model::statement::Select;
use crate::record::{Read, Record};
use crate::world::World;
use history::DatabaseId;
use std::collections::BTreeSet;

/// After so many steps the search gives up and says nothing: K3 has judged the run.
const MAX_STEPS: usize = 20_000;

/// One operation: a commit, or one or more reads at one instant.
struct Operation<'a> {
    from: Micros,
    to: Micros,
    /// Candidate for its place: of a commit among those shown, of a read among those that it can have seen.
    hint: usize,
    writes: &'a [(Cell, u32)],
    reads: Vec<&'a Read>,
}

/// The bits of the operations that are placed.
type Placed = Vec<u64>;

struct Search<'a> {
    operations: Vec<Operation<'a>>,
    refuted: BTreeSet<(Placed, Vec<u32>)>,
    steps: usize,
}

/// Finds the databases whose history no order explains. Runs in which a crash took commits back are left out: there one
/// server would have gone back too.
pub fn check(world: &World, record: &Record) -> Vec<Violation> {
    let primary = world.primary();
    if primary.went_back() {
        return Vec::new();
    }
    let facts = primary.facts();
    let mut found = Vec::new();
    for database in (0..DATABASES).map(database) {
        let mut operations: Vec<Operation<'_>> = facts
            .iter()
            .filter(|fact| fact.database == database)
            .map(|fact| {
                let (from, to) = interval(record, fact.pid, fact.at);
                Operation { from, to, hint: 2 * fact.shown, writes: &fact.effects, reads: Vec::new() }
            })
            .collect();
        operations.extend(reads(record, database));
        operations.sort_by_key(|operation| (operation.hint, operation.to));
        let mut search = Search { operations, refuted: BTreeSet::new(), steps: 0 };
        let nothing = vec![0; search.operations.len() / 64 + 1];
        if search.explains(&nothing, &State::default()) == Some(false) {
            found.push(Violation {
                checker: Checker::K1,
                what: format!("no order of one server in {database}"),
            });
        }
    }
    found
}

/// Time for which the statement was under way at the client that committed at `at`.
fn interval(record: &Record, pid: i32, at: Micros) -> (Micros, Micros) {
    let sent = record.sent.iter().filter(|sent| sent.pid == pid && sent.sent <= at);
    sent.max_by_key(|sent| sent.sent)
        .map_or((at, at), |sent| (sent.sent, sent.answered.unwrap_or(Micros::MAX)))
}

fn reads(record: &Record, database: DatabaseId) -> Vec<Operation<'_>> {
    let checked = |read: &&Read| {
        read.database == database && read.strong && !matches!(read.select, Select::Clock | Select::Place)
    };
    let mut operations = Vec::new();
    let alone =
        |read: &Read| read.block.is_none_or(|block| record.blocks[block].isolation == Isolation::Committed);
    for read in record.reads.iter().filter(checked).filter(|read| alone(read)) {
        operations.push(Operation {
            from: read.arrived.at,
            to: read.answered.at,
            hint: 2 * read.arrived.shown + 1,
            writes: &[],
            reads: vec![read],
        });
    }
    for place in 0..record.blocks.len() {
        let reads: Vec<&Read> = record
            .reads
            .iter()
            .filter(checked)
            .filter(|read| read.block == Some(place) && !alone(read))
            .collect();
        if let Some((arrived, answered)) = record.blocks[place].first
            && !reads.is_empty()
        {
            let (from, to) = (arrived.at, answered.at);
            operations.push(Operation { from, to, hint: 2 * arrived.shown + 1, writes: &[], reads });
        }
    }
    operations
}

impl Search<'_> {
    /// True if the steps that are not placed yet can follow; `None` if the search took too long.
    fn explains(&mut self, placed: &Placed, state: &State) -> Option<bool> {
        let (mut placed, mut state) = (placed.clone(), state.clone());
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return None;
        }
        // A read that fits now may be placed now: it changes nothing for the others.
        let bound = loop {
            let bound = self.bound(&placed);
            let Some(bound) = bound else { return Some(true) };
            let fitting: Vec<usize> =
                self.open(&placed, bound).filter(|place| self.fits(*place, &state)).collect();
            if fitting.is_empty() {
                break bound;
            }
            fitting.iter().for_each(|place| set(&mut placed, *place));
        };
        let key = (placed.clone(), state.values());
        if self.refuted.contains(&key) {
            return Some(false);
        }
        let next: Vec<usize> =
            self.open(&placed, bound).filter(|place| self.operations[*place].reads.is_empty()).collect();
        for place in next {
            let before = (placed.clone(), state.clone());
            set(&mut placed, place);
            state.apply(self.operations[place].writes);
            if self.explains(&placed, &state)? {
                return Some(true);
            }
            (placed, state) = before;
        }
        self.refuted.insert(key);
        Some(false)
    }

    /// The next placed transaction must have begun before any unplaced one ended.
    fn bound(&self, placed: &Placed) -> Option<Micros> {
        let left = self.operations.iter().enumerate().filter(|(place, _)| !is_set(placed, *place));
        left.map(|(_, operation)| operation.to).min()
    }

    fn open(&self, placed: &Placed, bound: Micros) -> impl Iterator<Item = usize> {
        let left = (0..self.operations.len()).filter(|place| !is_set(placed, *place));
        left.filter(move |place| self.operations[*place].from <= bound)
    }

    fn fits(&self, place: usize, state: &State) -> bool {
        let reads = &self.operations[place].reads;
        !reads.is_empty()
            && reads.iter().all(|read| {
                let mut seen = state.clone();
                seen.apply(&read.own);
                read.select.run(&seen, read.around) == read.result
            })
    }
}

fn is_set(placed: &Placed, place: usize) -> bool {
    placed[place / 64] & 1 << (place % 64) != 0
}

fn set(placed: &mut Placed, place: usize) {
    placed[place / 64] |= 1 << (place % 64);
}
