//! The behaviour of one copy: one order of the transactions, each whole and inside its own interval, in which
//! every read returns its result (Wing and Gong 1993, with the memory of Lowe 2017); and all replicas with
//! the same content.

use super::engine::{Engine, State, Statement};
use crate::checks::{Checker, Violation};
use crate::executor::Micros;
use std::collections::BTreeSet;
use std::rc::Rc;

/// After so many steps the search gives up and says nothing.
const MAX_STEPS: usize = 50_000;

/// One committed transaction, as its client saw it.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Time at which it was sent.
    pub from: Micros,
    /// Time at which its end was answered.
    pub to: Micros,
    /// Its statements, and the result of each.
    pub steps: Vec<(Statement, Vec<u64>)>,
}

/// Everything of one run.
#[derive(Debug, Default)]
pub struct Record {
    /// Transactions whose commit was answered.
    pub committed: Vec<Committed>,
    /// True if a commit was under way when its last replica was lost: its outcome is unknown.
    pub unknown: bool,
    /// Statements that touched a table that was not declared, and were executed.
    pub undeclared: usize,
    /// Clients that have not ended.
    pub clients: usize,
}

impl Record {
    /// Number of reads that were answered in committed transactions.
    pub fn reads(&self) -> usize {
        let steps = self.committed.iter().flat_map(|one| &one.steps);
        steps.filter(|(statement, _)| matches!(statement, Statement::Read(_))).count()
    }
}

/// Everything that is wrong.
pub fn check(record: &Record, engines: &[Rc<Engine>]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |checker, what: String| found.push(Violation { checker, what });
    if record.clients > 0 {
        say(Checker::K7, format!("{} clients wait for ever", record.clients));
    }
    if record.undeclared > 0 {
        say(Checker::K9, format!("{} statements ran on tables that were not declared", record.undeclared));
    }
    if !record.unknown && explains(&record.committed) == Some(false) {
        say(Checker::K1, "no order of one copy".into());
    }
    let there: Vec<&Rc<Engine>> =
        engines.iter().filter(|engine| engine.up.get() && !engine.out.get()).collect();
    if record.clients == 0 && there.iter().any(|engine| engine.open() > 0) {
        say(Checker::K7, "a replica has a transaction that never ended".into());
    }
    for pair in there.windows(2) {
        if pair[0].committed() != pair[1].committed() {
            say(Checker::K4, format!("{} and {} have another content", pair[0].id, pair[1].id));
        }
    }
    found
}

struct Search<'a> {
    all: Vec<&'a Committed>,
    refuted: BTreeSet<(Vec<bool>, State)>,
    steps: usize,
}

/// True if some order explains all; `None` if it took too long to find out.
fn explains(committed: &[Committed]) -> Option<bool> {
    let mut all: Vec<&Committed> = committed.iter().collect();
    all.sort_by_key(|one| one.to);
    let placed = vec![false; all.len()];
    Search { all, refuted: BTreeSet::new(), steps: 0 }.follows(placed, State::default())
}

impl Search<'_> {
    /// True if the transactions that are not placed yet can follow.
    fn follows(&mut self, mut placed: Vec<bool>, state: State) -> Option<bool> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return None;
        }
        // A transaction that changes nothing and fits now may be placed now.
        let open = loop {
            let open = self.open(&placed);
            let quiet = |place: &usize| self.run(*place, &state).is_some_and(|after| after == state);
            let fitting: Vec<usize> = open.iter().copied().filter(quiet).collect();
            if fitting.is_empty() {
                break open;
            }
            fitting.into_iter().for_each(|place| placed[place] = true);
        };
        if placed.iter().all(|placed| *placed) {
            return Some(true);
        }
        let key = (placed.clone(), state.clone());
        if self.refuted.contains(&key) {
            return Some(false);
        }
        for place in open {
            if let Some(after) = self.run(place, &state) {
                let mut next = placed.clone();
                next[place] = true;
                if self.follows(next, after)? {
                    return Some(true);
                }
            }
        }
        self.refuted.insert(key);
        Some(false)
    }

    /// Candidates for the next place: they began before any unplaced one ended.
    fn open(&self, placed: &[bool]) -> Vec<usize> {
        let left = || (0..self.all.len()).filter(|place| !placed[*place]);
        let bound = left().map(|place| self.all[place].to).min().unwrap_or(0);
        left().filter(|place| self.all[*place].from <= bound).collect()
    }

    /// The state after it, if it gives what it gave.
    fn run(&self, place: usize, before: &State) -> Option<State> {
        let mut state = before.clone();
        let same =
            |(statement, gave): &(Statement, Vec<u64>)| statement.run(&mut state).as_ref() == Some(gave);
        self.all[place].steps.iter().all(same).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(from: Micros, to: Micros, steps: Vec<(Statement, Vec<u64>)>) -> Committed {
        Committed { from, to, steps }
    }

    fn reads(gave: &State, tables: [usize; 2]) -> (Statement, Vec<u64>) {
        let statement = Statement::Read(tables.map(|table| (table, 0)).to_vec());
        let gives = statement.run(&mut gave.clone()).expect("reads do not fail");
        (statement, gives)
    }

    #[test]
    fn two_readers_who_see_two_writes_in_two_orders_have_no_order() {
        let (x, y) = (Statement::Write((0, 0), None, 1), Statement::Write((1, 0), None, 2));
        let (mut with_x, mut with_y) = (State::default(), State::default());
        let writes = [one(0, 9, vec![(x.clone(), vec![])]), one(0, 9, vec![(y.clone(), vec![])])];
        x.run(&mut with_x);
        y.run(&mut with_y);
        let first = one(0, 9, vec![reads(&with_x, [0, 1])]);
        let second = one(0, 9, vec![reads(&with_y, [0, 1])]);
        let all = |more: &[Committed]| explains(&[&writes, more].concat());
        assert_eq!(all(std::slice::from_ref(&first)), Some(true));
        assert_eq!(all(&[first, second]), Some(false));
    }

    #[test]
    fn a_read_after_an_answer_sees_what_was_answered() {
        let write = one(0, 5, vec![(Statement::Write((0, 0), None, 1), vec![])]);
        let old = |from, to| one(from, to, vec![reads(&State::default(), [0, 1])]);
        assert_eq!(explains(&[write.clone(), old(4, 8)]), Some(true));
        assert_eq!(explains(&[write, old(6, 8)]), Some(false));
    }
}
