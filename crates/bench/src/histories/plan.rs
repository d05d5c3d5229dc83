//! What each transaction does: chosen by chance, within the limits of the options. Keys retire after a number of
//! appends, so that lists stay short and versions stay comparable.

use crate::check::{Key, Value};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The limits of what transactions do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many keys are in use at a time.
    pub(crate) keys: usize,
    /// After so many appends a new key takes the place of one.
    pub(crate) appends_per_key: u32,
    /// A transaction has one to so many operations.
    pub(crate) operations: usize,
    /// The part of transactions that only read, 0 to 1.
    pub(crate) read_only: f64,
    /// Each transaction is one append, or one read of one or several keys in one statement.
    pub(crate) one_statement: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Append(Key, Value),
    /// One statement that reads these keys.
    Read(Vec<Key>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) read_only: bool,
    pub(crate) steps: Vec<Step>,
}

/// Makes plans for all clients of a run: they share the keys in use and the next value.
pub(crate) struct Planner {
    limits: Limits,
    /// The keys in use and how many appends each had.
    in_use: Mutex<Vec<(Key, u32)>>,
    next_key: AtomicU32,
    next_value: AtomicU32,
}

impl Planner {
    pub(crate) fn new(limits: Limits) -> Planner {
        let keys = u32::try_from(limits.keys).expect("a number of keys fits");
        Planner {
            limits,
            in_use: Mutex::new((0..keys).map(|key| (Key(key), 0)).collect()),
            next_key: AtomicU32::new(keys),
            next_value: AtomicU32::new(1),
        }
    }

    pub(crate) fn plan(&self, chance: &mut fastrand::Rng) -> Plan {
        let read_only = chance.f64() < self.limits.read_only;
        let operations = chance.usize(1..=self.limits.operations);
        if self.limits.one_statement {
            let step = if read_only { self.read(operations, chance) } else { self.append(chance) };
            return Plan { read_only, steps: vec![step] };
        }
        let mut steps: Vec<Step> = (0..operations)
            .map(|_| if read_only || chance.bool() { self.read(1, chance) } else { self.append(chance) })
            .collect();
        if !read_only && !steps.iter().any(|step| matches!(step, Step::Append(..))) {
            steps.push(self.append(chance));
        }
        sort_appends(&mut steps);
        Plan { read_only, steps }
    }

    fn append(&self, chance: &mut fastrand::Rng) -> Step {
        let value = Value(self.next_value.fetch_add(1, Ordering::SeqCst));
        let mut in_use = self.in_use.lock().expect("nobody panics while planning");
        let place = chance.usize(..in_use.len());
        let (key, appends) = in_use[place];
        in_use[place] = if appends + 1 < self.limits.appends_per_key {
            (key, appends + 1)
        } else {
            (Key(self.next_key.fetch_add(1, Ordering::SeqCst)), 0)
        };
        Step::Append(key, value)
    }

    fn read(&self, at_most: usize, chance: &mut fastrand::Rng) -> Step {
        let in_use = self.in_use.lock().expect("nobody panics while planning");
        let mut keys: Vec<Key> = (0..at_most).map(|_| in_use[chance.usize(..in_use.len())].0).collect();
        keys.sort();
        keys.dedup();
        Step::Read(keys)
    }
}

/// Puts the appends into the order of their keys, in the places where appends stand: nobody waits for a deadlock to be
/// found, which takes a second each time.
fn sort_appends(steps: &mut [Step]) {
    let is_append = |step: &Step| matches!(step, Step::Append(..));
    let mut appends: Vec<Step> = steps.iter().filter(|step| is_append(step)).cloned().collect();
    appends.sort_by_key(|step| match step {
        Step::Append(key, value) => (*key, *value),
        Step::Read(keys) => (keys[0], Value(0)),
    });
    for (place, append) in steps.iter_mut().filter(|step| is_append(step)).zip(appends) {
        *place = append;
    }
}
