//! What came of each kind of transaction: what is measured, and what the checks must know of the whole run.

use super::Outcome;
use crate::latency::Latencies;
use crate::session::{Sent, Trouble};
use std::collections::BTreeMap;
use std::time::Duration;

/// What was measured of one kind of transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) failed: u64,
    pub(crate) retries: u64,
    pub(crate) latencies: Latencies,
    pub(crate) spent: Duration,
}

/// What was measured of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) kinds: Vec<Tally>,
    /// Also those that a second attempt made good.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) first_errors: BTreeMap<String, String>,
    pub(crate) sent: Sent,
}

impl Tallies {
    pub(crate) fn new(kinds: usize) -> Tallies {
        Tallies { kinds: vec![Tally::default(); kinds], ..Tallies::default() }
    }

    pub(crate) fn error(&mut self, trouble: &Trouble) {
        let code = code(trouble);
        self.first_errors.entry(code.clone()).or_insert_with(|| trouble.to_string());
        *self.errors.entry(code).or_default() += 1;
    }
}

/// What errors are counted under.
fn code(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Refused { state, .. } => state.code().to_owned(),
        Trouble::Lost(_) => "connection lost".to_owned(),
        Trouble::Silent(_) => "no answer".to_owned(),
        Trouble::Address { .. } | Trouble::Unexpected(_) => "unexpected answer".to_owned(),
    }
}

/// How many transactions of each kind have committed, or may have, since the run began (its warm-up is part of it).
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    kinds: Vec<(u64, u64)>,
}

impl Ledger {
    pub(crate) fn new(kinds: usize) -> Ledger {
        Ledger { kinds: vec![(0, 0); kinds] }
    }

    pub(crate) fn note(&mut self, kind: usize, outcome: Outcome) {
        match outcome {
            Outcome::Committed => self.kinds[kind].0 += 1,
            Outcome::Unknown => self.kinds[kind].1 += 1,
            Outcome::Undone => {}
        }
    }

    /// At least and at most so many transactions of that kind have committed.
    #[must_use]
    pub fn bounds(&self, kind: usize) -> (u64, u64) {
        let (committed, unknown) = self.kinds.get(kind).copied().unwrap_or_default();
        (committed, committed + unknown)
    }
}
