//! Existing keys: the loaded ones, and those whose insert was acknowledged, up to the first gap.

use crate::workload::Outcome;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The keys of the table, counted from 0.
///
/// Invariants: `sure <= next`; every key below `sure` is there, but for `holes`; `ended` holds keys of `sure..next`.
#[derive(Debug)]
pub(super) struct Keys {
    at_first: i64,
    /// Keys below this are not known one by one: some may be missing since an earlier run.
    unsure_below: i64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: i64,
    sure: i64,
    ended: BTreeSet<i64>,
    holes: BTreeSet<i64>,
}

impl Keys {
    /// A table whose next key is this, and that has so many rows.
    pub(super) fn new(next: i64, rows: i64) -> Keys {
        let state = State { next, sure: next, ended: BTreeSet::new(), holes: BTreeSet::new() };
        let unsure_below = if rows == next { 0 } else { next };
        Keys { at_first: rows, unsure_below, state: Mutex::new(state) }
    }

    /// Initial number of rows.
    pub(super) fn at_first(&self) -> i64 {
        self.at_first
    }

    /// The key for the next insert.
    pub(super) fn next(&self) -> i64 {
        let mut state = self.state();
        state.next += 1;
        state.next - 1
    }

    /// All keys below this have been inserted, or it has been tried.
    pub(super) fn sure(&self) -> i64 {
        self.state().sure
    }

    /// An insert is over.
    pub(super) fn ended(&self, key: i64, outcome: Outcome) {
        let mut guard = self.state();
        let state = &mut *guard;
        if outcome != Outcome::Committed {
            state.holes.insert(key);
        }
        state.ended.insert(key);
        while state.ended.remove(&state.sure) {
            state.sure += 1;
        }
    }

    /// The key is below `sure`, and its insert was acknowledged.
    pub(super) fn is_there(&self, key: i64) -> bool {
        let state = self.state();
        key >= self.unsure_below && key < state.sure && !state.holes.contains(&key)
    }

    /// Number of these keys that exist.
    pub(super) fn count_there(&self, from: i64, to: i64) -> i64 {
        let state = self.state();
        let (from, to) = (from.max(self.unsure_below), to.min(state.sure));
        let holes = if from < to { state.holes.range(from..to).count() } else { 0 };
        (to - from).max(0) - i64::try_from(holes).unwrap_or(i64::MAX)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_there_when_all_before_them_have_ended() {
        let keys = Keys::new(10, 10);
        let (a, b, c) = (keys.next(), keys.next(), keys.next());
        keys.ended(b, Outcome::Committed);
        assert_eq!((keys.sure(), keys.is_there(b)), (10, false));
        keys.ended(a, Outcome::Unknown);
        assert_eq!((keys.sure(), keys.is_there(a), keys.is_there(b)), (12, false, true));
        assert_eq!((keys.count_there(8, 20), keys.count_there(12, 20)), (3, 0));
        keys.ended(c, Outcome::Committed);
        assert_eq!(keys.count_there(8, 20), 4);
        let with_gaps = Keys::new(10, 9);
        assert!(!with_gaps.is_there(3) && with_gaps.count_there(0, 10) == 0);
    }
}
