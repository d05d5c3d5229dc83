//! Decides which transactions may run at a replica now, and which wait (section 4.2, Algorithm 2).

use super::bugs::{Bug, Bugs};
use crate::parallel::prefix::Prefix;
use crate::parallel::{Combined, Compare, Sets};
use history::Version;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Limits of concurrent and early execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Comparison for independence.
    pub compare: Compare,
    /// At most so many run at once: the connections to the replica.
    pub max_running: usize,
    /// Maximum distance of the newest offered version above the prefix: transactions that run, wait and are
    /// done beyond a gap together.
    pub max_ahead: usize,
    /// After a completion, the waiting ones are examined in their order until this number was found that must
    /// go on waiting. 1 is the head of the queue alone, as published.
    pub look: usize,
    /// For the tests of the tests.
    pub bugs: Bugs,
}

impl Default for Options {
    fn default() -> Self {
        Options { compare: Compare::Items, max_running: 16, max_ahead: 4096, look: 32, bugs: Bugs::default() }
    }
}

impl Options {
    /// Algorithms 1 and 2 as they are published: classes, the head of the queue, no bounds. For experiments.
    pub fn as_published() -> Options {
        Options {
            compare: Compare::Classes,
            max_running: usize::MAX,
            max_ahead: usize::MAX,
            look: 1,
            bugs: Bugs::default(),
        }
    }
}

/// Result of an offered transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Execute it now.
    Running,
    /// A later [`Executor::completed`] says when.
    Waiting,
}

/// Transactions that a completed transaction sets free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Execute these now, all at once if you can; ascending.
    pub started: Vec<Version>,
    /// Everything up to and including this version is done; `None` if that was known before.
    pub prefix: Option<Version>,
}

/// Why something is refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too far above the prefix: offer it again when the prefix has moved.
    Full,
    /// Versions are offered in their order without gaps; this one is next.
    NotNext(Version),
    /// The transaction does not run.
    NotRunning,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full => f.write_str("too far above the prefix"),
            Refused::NotNext(next) => write!(f, "{next} is next"),
            Refused::NotRunning => f.write_str("the version does not run"),
        }
    }
}

impl std::error::Error for Refused {}

/// The transactions of one replica that are not all done yet. Versions are the places in the order.
///
/// Invariants: running transactions are independent of one another; a running one is independent of every
/// older one that waits; `running_state` and `waiting_state` are those of `running` and `waiting`; every
/// offered version runs, waits, or is done; at most `max_running` run; `newest <= prefix + max_ahead`; when
/// nothing runs, nothing waits.
#[derive(Debug)]
pub struct Executor {
    options: Options,
    newest: Version,
    running: BTreeMap<Version, Arc<Sets>>,
    running_state: Combined,
    /// In the order of their versions.
    waiting: VecDeque<(Version, Arc<Sets>)>,
    waiting_state: Combined,
    prefix: Prefix,
}

impl Executor {
    /// The replica has executed everything up to and including `done`, and nothing above it. A replica that is lost gets
    /// a new executor from the position that it is found at.
    pub fn new(options: Options, done: Version) -> Executor {
        let options = Options {
            max_running: options.max_running.max(1),
            max_ahead: options.max_ahead.max(1),
            look: options.look.max(1),
            ..options
        };
        Executor {
            options,
            newest: done,
            running: BTreeMap::new(),
            running_state: Combined::default(),
            waiting: VecDeque::new(),
            waiting_state: Combined::default(),
            prefix: Prefix::new(done),
        }
    }

    /// Offers the next transaction of the order. The transaction runs if it is independent of all that run
    /// and all that wait and there is room, else it waits.
    ///
    /// Errors: [`Refused::Full`], [`Refused::NotNext`].
    pub fn offer(&mut self, version: Version, sets: Arc<Sets>) -> Result<Place, Refused> {
        if version != self.newest.next() {
            return Err(Refused::NotNext(self.newest.next()));
        }
        if self.ahead() >= self.options.max_ahead {
            return Err(Refused::Full);
        }
        self.newest = version;
        let waiting = self.options.bugs.has(Bug::WaitingNotAsked) || self.apart(&self.waiting_state, &sets);
        if waiting && self.may_run(&sets) {
            self.run(version, sets);
            return Ok(Place::Running);
        }
        self.waiting_state.merge(&sets);
        self.waiting.push_back((version, sets));
        Ok(Place::Waiting)
    }

    /// A running transaction has been executed, as a whole. A transaction that was rolled back and will run
    /// again has not.
    ///
    /// Errors: [`Refused::NotRunning`].
    pub fn completed(&mut self, version: Version) -> Result<Completed, Refused> {
        let sets = self.running.remove(&version).ok_or(Refused::NotRunning)?;
        leave(&mut self.running_state, &sets, self.options.bugs);
        let moved = self.prefix.done(version);
        let prefix =
            if self.options.bugs.has(Bug::PrefixWithGaps) { Some(self.prefix.newest()) } else { moved };
        Ok(Completed { started: self.start_waiting(), prefix })
    }

    /// Everything up to and including this version is done.
    pub fn prefix(&self) -> Version {
        self.prefix.get()
    }

    /// The versions that run, ascending. The first is the one that the prefix waits for.
    pub fn running(&self) -> impl Iterator<Item = Version> {
        self.running.keys().copied()
    }

    /// The versions that wait, ascending.
    pub fn waiting(&self) -> impl Iterator<Item = Version> {
        self.waiting.iter().map(|(version, _)| *version)
    }

    /// Number of versions that are done beyond the first that is not.
    pub fn done_ahead(&self) -> usize {
        self.prefix.beyond()
    }

    /// Checks the invariants against a recomputation; for tests. Panics if one does not hold.
    pub fn audit(&self) {
        let state = |sets: &mut dyn Iterator<Item = &Arc<Sets>>| {
            sets.fold(Combined::default(), |mut all, sets| {
                all.merge(sets);
                all
            })
        };
        let running = state(&mut self.running.values());
        assert_eq!(self.running_state, running, "the running state");
        assert_eq!(
            self.waiting_state,
            state(&mut self.waiting.iter().map(|(_, sets)| sets)),
            "the waiting state"
        );
        for (version, sets) in &self.running {
            let others = self.running.iter().filter(|(other, _)| *other != version);
            let older =
                self.waiting.iter().map(|(other, sets)| (other, sets)).filter(|(other, _)| *other < version);
            for (other, theirs) in others.chain(older) {
                let apart = state(&mut std::iter::once(theirs)).independent(sets, self.options.compare);
                assert!(apart, "{version} runs and depends on {other}, which runs or waits before it");
            }
        }
        let ahead = (self.newest.get() - self.prefix.get().get()) as usize;
        assert_eq!(ahead, self.ahead(), "every version runs, waits or is done");
        assert!(ahead <= self.options.max_ahead && self.running.len() <= self.options.max_running, "bounds");
        assert!(!self.running.is_empty() || self.waiting.is_empty(), "a version runs");
    }

    /// Starts those that wait and are independent of all that run and all that wait before them, in their order.
    fn start_waiting(&mut self) -> Vec<Version> {
        let (mut started, mut at) = (Vec::new(), 0);
        let mut passed = Combined::default();
        while passed.transactions() < self.options.look
            && let Some((version, sets)) = self.waiting.get(at)
        {
            if self.running.len() >= self.options.max_running {
                break;
            }
            let first = self.options.bugs.has(Bug::WaitingPassed) || self.apart(&passed, sets);
            if first && self.may_run(sets) {
                let (version, sets) = (*version, sets.clone());
                self.waiting.remove(at);
                leave(&mut self.waiting_state, &sets, self.options.bugs);
                self.run(version, sets);
                started.push(version);
            } else {
                passed.merge(sets);
                at += 1;
            }
        }
        started
    }

    /// Distance of the newest above the prefix.
    fn ahead(&self) -> usize {
        self.running.len() + self.waiting.len() + self.prefix.beyond()
    }

    fn may_run(&self, sets: &Sets) -> bool {
        self.running.len() < self.options.max_running && self.apart(&self.running_state, sets)
    }

    fn apart(&self, state: &Combined, sets: &Sets) -> bool {
        state.independent_with(sets, self.options.compare, self.options.bugs)
    }

    fn run(&mut self, version: Version, sets: Arc<Sets>) {
        self.running_state.merge(&sets);
        self.running.insert(version, sets);
    }
}

fn leave(state: &mut Combined, sets: &Sets, bugs: Bugs) {
    if bugs.has(Bug::CountsNotKept) { state.forget(sets) } else { state.remove(sets) }
}
