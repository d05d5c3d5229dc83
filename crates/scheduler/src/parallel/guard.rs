//! Decides if a statement may stand for its rows.
//!
//! A statement that is executed again, after all that have a lower version, gives the same as at the primary
//! only if it reads and finds there what it read and found. At the primary it saw a snapshot: the commits
//! that had been shown when it began. If another transaction commits between its beginning and its own
//! commit, and wrote rows that it read, the replica executes it on other values:
//!
//! ```text
//!   A: r := r + sum(s) is executed      B: s := 100 commits, v1      A commits, v2       primary: r without B's s
//!                                                                     in order B, A      replica: r with it
//! ```
//!
//! Their writes are disjoint and both are deterministic; commit order alone does not save them. So a
//! statement travels only if nothing that it read or wrote was committed between. Commits that it had seen
//! have a lower version than its own: they were shown before. Else its rows travel, which depend on nothing.

use super::bugs::{Bug, Bugs};
use history::{Footprint, Version};
use std::collections::VecDeque;
use std::sync::Arc;

/// Recent writes, by version.
///
/// Invariants: the window has every commit above the floor, ascending without a gap, and never more than its
/// bound.
#[derive(Debug)]
pub struct Guard {
    bugs: Bugs,
    max_window: usize,
    /// Commits up to here are not known one by one.
    floor: Version,
    window: VecDeque<Arc<Footprint>>,
}

impl Guard {
    /// Nothing is known of commits up to and including `newest`. At most `max_window` commits are remembered:
    /// a transaction that began before the oldest of them travels as rows.
    pub fn new(newest: Version, max_window: usize) -> Guard {
        Guard { bugs: Bugs::default(), max_window, floor: newest, window: VecDeque::new() }
    }

    /// The guard with these bugs planted.
    #[must_use]
    pub fn with_bugs(self, bugs: Bugs) -> Guard {
        Guard { bugs, ..self }
    }

    /// True if the transaction that gets the next version may be executed again by its statements. `started`:
    /// every commit up to and including it had been shown when the transaction began. `touched`: all that it
    /// read and wrote.
    pub fn stands(&self, started: Version, touched: &Footprint) -> bool {
        self.stands_seeing(started, touched, |_| false)
    }

    /// The same, if more is known: which later commits it has seen all the same.
    pub fn stands_seeing(
        &self,
        started: Version,
        touched: &Footprint,
        saw: impl Fn(Version) -> bool,
    ) -> bool {
        if self.bugs.has(Bug::StatementInCommitOrder) {
            return true;
        }
        let known = started.get().saturating_sub(self.floor.get());
        let since = self.window.iter().skip(usize::try_from(known).unwrap_or(usize::MAX));
        let versions = (started.get() + 1..).map(Version::new);
        let mut met = versions.zip(since).filter(|(_, wrote)| wrote.overlaps(touched));
        started >= self.floor && met.all(|(version, _)| saw(version))
    }

    /// The next version was given to a commit that wrote this.
    pub fn placed(&mut self, wrote: Arc<Footprint>) {
        self.window.push_back(wrote);
        if self.window.len() > self.max_window {
            self.window.pop_front();
            self.floor = self.floor.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{Access, RelationId};

    fn touches(table: u32) -> Footprint {
        Footprint::of(RelationId::new(table), Access::WHOLE)
    }

    #[test]
    fn what_was_committed_since_decides() {
        let mut guard = Guard::new(Version::new(7), 2);
        let began = Version::new(7);
        assert!(guard.stands(began, &touches(1)), "nothing was committed since");
        guard.placed(Arc::new(touches(2)));
        assert!(guard.stands(began, &touches(1)) && !guard.stands(began, &touches(2)));
        assert!(guard.stands(Version::new(8), &touches(2)), "it had seen that");
        assert!(!guard.stands(Version::new(6), &touches(1)), "older than what is known");
    }

    #[test]
    fn what_was_seen_does_not_count_as_committed_since() {
        let mut guard = Guard::new(Version::new(7), 9);
        (1..=3).for_each(|table| guard.placed(Arc::new(touches(table))));
        let (began, saw_the_ninth) = (Version::new(7), |version: Version| version == Version::new(9));
        assert!(guard.stands_seeing(began, &touches(2), saw_the_ninth));
        assert!(!guard.stands_seeing(began, &touches(3), saw_the_ninth));
        assert!(!guard.stands(began, &touches(2)));
    }

    #[test]
    fn what_is_forgotten_is_not_taken_for_nothing() {
        let mut guard = Guard::new(Version::ZERO, 2);
        (1..=3).for_each(|table| guard.placed(Arc::new(touches(table))));
        assert!(!guard.stands(Version::ZERO, &touches(9)));
        assert!(guard.stands(Version::new(1), &touches(9)) && !guard.stands(Version::new(1), &touches(3)));
    }
}
