//! Replicas that execute statements again, or apply their rows, in parallel if they are independent: they
//! must come to the primary's states. Transactions at the primary begin, execute one statement and commit, in
//! a random order.

use crate::bugs::Planted;
use crate::checks::{Checker, Violation};
use crate::random::Random;
use crate::run::Outcome;
use crate::scheduled::engine::{Place as Value, ROWS, State, Statement, TABLES, relation};
use history::{Access, ColumnSet, Footprint, Key, Rows, Version};
use scheduler::parallel::{Class, Executor, Guard, Options, Place, Sets};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Transactions of one run.
const COMMITS: usize = 60;
/// Commits that the guard remembers.
const WINDOW: usize = 8;

/// A transaction at the primary: its statement, what it made of its row, and when it began.
struct Open {
    statement: Statement,
    to: Value,
    made: u64,
    started: Version,
}

/// Form in which a commit travels.
#[derive(Clone)]
enum Effect {
    Statement(Statement, Value),
    Row(Value, u64),
}

/// The primary, and what it has committed.
struct Primary {
    states: Vec<State>,
    open: Vec<Open>,
    guard: Guard,
    sent: Vec<(Effect, Arc<Sets>)>,
    as_statements: usize,
}

/// One replica.
struct Replica {
    state: State,
    executor: Executor,
    offered: Version,
    /// Result of each running transaction for its row.
    running: BTreeMap<Version, (Value, u64)>,
}

fn footprint(places: &[Value]) -> Footprint {
    let mut footprint = Footprint::NOTHING;
    for (table, row) in places {
        let key = Key::new(u64::try_from(*row).expect("few rows"));
        footprint.add(relation(*table), Access::update(ColumnSet::All, Rows::keys([key])));
    }
    footprint
}

impl Primary {
    fn newest(&self) -> Version {
        Version::new(u64::try_from(self.sent.len()).expect("few commits"))
    }

    fn shown(&self) -> &State {
        self.states.last().expect("never empty")
    }

    /// A transaction executes its statement, unless another one holds its row.
    fn begin(&mut self, random: &mut Random, number: u64) {
        let mut value = || (random.below(TABLES as u64) as usize, random.below(ROWS as u64) as usize);
        let (to, from) = (value(), value());
        if self.open.iter().any(|open| open.to == to) {
            return;
        }
        let statement = Statement::Write(to, Some(from), number);
        let mut state = self.shown().clone();
        statement.run(&mut state);
        self.open.push(Open { statement, to, made: state.get(to), started: self.newest() });
    }

    fn commit(&mut self, place: usize) {
        let open = self.open.swap_remove(place);
        let Statement::Write(to, Some(from), _) = open.statement else { return };
        let (touched, wrote) = (footprint(&[to, from]), footprint(&[to]));
        let stands = self.guard.stands(open.started, &touched);
        let reads = if stands { touched } else { Footprint::NOTHING };
        let effect = if stands { Effect::Statement(open.statement, to) } else { Effect::Row(to, open.made) };
        self.as_statements += usize::from(stands);
        self.sent.push((effect, Arc::new(Sets::of(&reads, &wrote, |_| Class::Row))));
        self.guard.placed(Arc::new(wrote));
        let mut state = self.shown().clone();
        state.set(to, open.made);
        self.states.push(state);
    }
}

impl Replica {
    /// Takes in the next that it lacks, if there is one.
    fn take(&mut self, primary: &Primary) {
        let Some((_, sets)) = primary.sent.get(self.place(self.offered.next())) else { return };
        self.offered = self.offered.next();
        if self.executor.offer(self.offered, sets.clone()) == Ok(Place::Running) {
            self.start(self.offered, primary);
        }
    }

    fn place(&self, version: Version) -> usize {
        usize::try_from(version.get()).expect("few commits") - 1
    }

    fn start(&mut self, version: Version, primary: &Primary) {
        let made = match &primary.sent[self.place(version)].0 {
            Effect::Row(to, made) => (*to, *made),
            Effect::Statement(statement, to) => {
                let mut state = self.state.clone();
                statement.run(&mut state);
                (*to, state.get(*to))
            }
        };
        self.running.insert(version, made);
    }

    /// One of those that run is done.
    fn finish(&mut self, random: &mut Random, primary: &Primary) {
        let all: Vec<Version> = self.running.keys().copied().collect();
        if all.is_empty() {
            return;
        }
        let version = random.one(&all);
        let (to, made) = self.running.remove(&version).expect("it runs");
        self.state.set(to, made);
        for started in self.executor.completed(version).expect("it runs").started {
            self.start(started, primary);
        }
    }
}

/// Runs one seed with these bugs planted.
pub fn run(seed: u64, planted: Planted) -> Outcome {
    let mut random = Random::new(seed ^ 0x57A7E);
    let options = Options { bugs: planted.parallel, ..Options::default() };
    let mut primary = Primary {
        states: vec![State::default()],
        open: Vec::new(),
        guard: Guard::new(Version::ZERO, WINDOW).with_bugs(planted.parallel),
        sent: Vec::new(),
        as_statements: 0,
    };
    let mut replica = Replica {
        state: State::default(),
        executor: Executor::new(options, Version::ZERO),
        offered: Version::ZERO,
        running: BTreeMap::new(),
    };
    let (mut number, mut violations) = (0, Vec::new());
    while replica.offered.get() < COMMITS as u64 || !replica.running.is_empty() {
        number += 1;
        match random.below(4) {
            0 if primary.open.len() < 4 => primary.begin(&mut random, number),
            1 if !primary.open.is_empty() => {
                let place = random.below(primary.open.len() as u64) as usize;
                primary.commit(place);
            }
            2 if replica.offered.get() < COMMITS as u64 => replica.take(&primary),
            _ => replica.finish(&mut random, &primary),
        }
        // The replica has executed all that it was given: it shows a state, which the primary must have
        // shown.
        let whole = replica.running.is_empty();
        if whole && replica.state != primary.states[replica.offered.get() as usize] && violations.is_empty() {
            let what = format!("at {} a replica shows what the primary did not", replica.offered);
            violations.push(Violation { checker: Checker::K4, what });
        }
    }
    let reads = primary.as_statements;
    Outcome { violations, commits: primary.sent.len(), reads, ..Outcome::default() }
}
