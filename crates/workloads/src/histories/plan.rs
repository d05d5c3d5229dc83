//! Plan of each transaction: chosen at random, within the limits of the options. Keys retire after a number
//! of appends, so that lists stay short and versions stay comparable.

use crate::check::{Key, Operation, Value};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// One statement appends to so many keys at most.
const MOST_AT_ONCE: usize = 3;

/// The limits of what transactions do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Number of keys in use at a time.
    pub(crate) keys: usize,
    /// After so many appends a new key takes the place of one.
    pub(crate) appends_per_key: u32,
    /// A transaction has one to so many operations.
    pub(crate) operations: usize,
    /// The part of transactions that only read, 0 to 1.
    pub(crate) read_only: f64,
    /// Each transaction is one statement, which appends to one or several keys or reads them.
    pub(crate) one_statement: bool,
    /// The part of transactions with one statement for several keys, 0 to 1.
    pub(crate) together: f64,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Append(Key, Value),
    /// One statement that appends the value to each of these keys, whose rows are there.
    AppendToAll(Vec<Key>, Value),
    /// One statement that reads these keys.
    Read(Vec<Key>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) read_only: bool,
    pub(crate) steps: Vec<Step>,
}

/// A key in use.
#[derive(Clone, Copy, Debug)]
struct InUse {
    key: Key,
    /// Number of its appends.
    appends: u32,
    /// One of them is committed.
    is_there: bool,
}

impl InUse {
    fn new(key: u32) -> InUse {
        InUse { key: Key(key), appends: 0, is_there: false }
    }
}

/// Makes plans for all clients of a run: they share the keys in use and the next value.
pub(crate) struct Planner {
    limits: Limits,
    in_use: Mutex<Vec<InUse>>,
    next_key: AtomicU32,
    next_value: AtomicU32,
}

impl Planner {
    pub(crate) fn new(limits: Limits) -> Planner {
        let keys = u32::try_from(limits.keys).expect("a number of keys fits");
        Planner {
            limits,
            in_use: Mutex::new((0..keys).map(InUse::new).collect()),
            next_key: AtomicU32::new(keys),
            next_value: AtomicU32::new(1),
        }
    }

    pub(crate) fn plan(&self, chance: &mut fastrand::Rng) -> Plan {
        let read_only = chance.f64() < self.limits.read_only;
        let operations = chance.usize(1..=self.limits.operations);
        let together = chance.f64() < self.limits.together;
        if self.limits.one_statement {
            let step = match (read_only, together) {
                (true, _) => self.read(operations, chance),
                (false, true) => self.append_to_all(chance),
                (false, false) => self.append(chance),
            };
            return Plan { read_only, steps: vec![step] };
        }
        if together {
            let mut steps: Vec<Step> = (0..operations).map(|_| self.read(operations, chance)).collect();
            if !read_only {
                steps[chance.usize(..operations)] = self.append_to_all(chance);
            }
            return Plan { read_only, steps };
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

    /// These steps are committed: the rows that they appended to are there from now on.
    pub(crate) fn committed(&self, operations: &[Operation]) {
        let mut in_use = self.in_use.lock().expect("no holder of the lock panics");
        for operation in operations {
            if let Operation::Append(key, _) = operation
                && let Some(used) = in_use.iter_mut().find(|used| used.key == *key)
            {
                used.is_there = true;
            }
        }
    }

    fn append(&self, chance: &mut fastrand::Rng) -> Step {
        let mut in_use = self.in_use.lock().expect("no holder of the lock panics");
        let place = chance.usize(..in_use.len());
        let value = self.value();
        Step::Append(self.take(&mut in_use[place]), value)
    }

    /// To some of those keys that can be updated; to one as ever, as long as there are none.
    fn append_to_all(&self, chance: &mut fastrand::Rng) -> Step {
        let mut in_use = self.in_use.lock().expect("no holder of the lock panics");
        let several = chance.usize(1..=MOST_AT_ONCE);
        let mut places: Vec<usize> = (0..several).map(|_| chance.usize(..in_use.len())).collect();
        places.retain(|place| in_use[*place].is_there);
        if places.is_empty() {
            drop(in_use);
            return self.append(chance);
        }
        places.sort_unstable();
        places.dedup();
        let mut keys: Vec<Key> = places.into_iter().map(|place| self.take(&mut in_use[place])).collect();
        keys.sort();
        Step::AppendToAll(keys, self.value())
    }

    fn value(&self) -> Value {
        Value(self.next_value.fetch_add(1, Ordering::SeqCst))
    }

    /// The key gets one append more. After so many another one takes its place.
    fn take(&self, used: &mut InUse) -> Key {
        let key = used.key;
        used.appends += 1;
        if used.appends >= self.limits.appends_per_key {
            *used = InUse::new(self.next_key.fetch_add(1, Ordering::SeqCst));
        }
        key
    }

    fn read(&self, at_most: usize, chance: &mut fastrand::Rng) -> Step {
        let in_use = self.in_use.lock().expect("no holder of the lock panics");
        let mut keys: Vec<Key> = (0..at_most).map(|_| in_use[chance.usize(..in_use.len())].key).collect();
        keys.sort();
        keys.dedup();
        Step::Read(keys)
    }
}

/// Puts the appends into the order of their keys, in the places where appends stand: no client waits for the
/// detection of a deadlock, which takes a second each time.
fn sort_appends(steps: &mut [Step]) {
    let is_append = |step: &Step| matches!(step, Step::Append(..));
    let mut appends: Vec<Step> = steps.iter().filter(|step| is_append(step)).cloned().collect();
    appends.sort_by_key(|step| match step {
        Step::Append(key, value) => (*key, *value),
        Step::AppendToAll(keys, _) | Step::Read(keys) => (keys[0], Value(0)),
    });
    for (place, append) in steps.iter_mut().filter(|step| is_append(step)).zip(appends) {
        *place = append;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_statement_appends_to_several_keys_whose_rows_are_there() {
        let planner = Planner::new(Limits {
            keys: 5,
            appends_per_key: 1000,
            operations: 4,
            read_only: 0.0,
            one_statement: true,
            together: 1.0,
        });
        let mut chance = fastrand::Rng::with_seed(1);
        let mut step = || planner.plan(&mut chance).steps.remove(0);
        assert!((0..100).all(|_| matches!(step(), Step::Append(..))), "there are none");
        planner.committed(&[1, 3, 4].map(|key| Operation::Append(Key(key), Value(key))));
        let mut sizes = [0; MOST_AT_ONCE + 1];
        for _ in 0..1000 {
            if let Step::AppendToAll(keys, _) = step() {
                assert!(keys.is_sorted() && keys.iter().all(|key| [1, 3, 4].contains(&key.0)), "{keys:?}");
                sizes[keys.len()] += 1;
            }
        }
        assert!(sizes[0] == 0 && sizes[1..].iter().all(|size| *size > 0), "{sizes:?}");
    }
}
