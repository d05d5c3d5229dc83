//! Outcomes of each kind of transaction: the measurements, and the checks' knowledge of the whole run.

use super::Outcome;
use load_clients::latency::Latencies;
use load_clients::session::{Sent, Trouble};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Measurements of one kind of transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) failed: u64,
    pub(crate) retries: u64,
    pub(crate) latencies: Latencies,
    pub(crate) spent: Duration,
}

/// Measurements of all transactions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) kinds: Vec<Tally>,
    /// Also those that a second attempt made good.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) first_errors: BTreeMap<String, String>,
    pub(crate) sent: Sent,
    pub(crate) timeline: Timeline,
}

/// Number of transactions that ended in each second since the clients began, the warm-up too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// Transactions that committed, or rolled back because their rules say so.
    pub ended: Vec<u64>,
    /// Transactions that were given up.
    pub failed: Vec<u64>,
}

impl Timeline {
    pub(crate) fn add(&mut self, since: Duration, well: bool) {
        let second = usize::try_from(since.as_secs()).unwrap_or(usize::MAX);
        let length = self.ended.len().max(second.saturating_add(1));
        self.ended.resize(length, 0);
        self.failed.resize(length, 0);
        if well {
            self.ended[second] += 1;
        } else {
            self.failed[second] += 1;
        }
    }

    /// Average number of ends a second, from one second to another; nothing if the run did not last so long.
    #[must_use]
    pub fn rate(&self, from: usize, to: usize) -> Option<f64> {
        let seconds = self.ended.get(from..to).filter(|seconds| !seconds.is_empty())?;
        #[expect(clippy::cast_precision_loss, reason = "counts of a run have far fewer than 52 bits")]
        let rate = seconds.iter().sum::<u64>() as f64 / seconds.len() as f64;
        Some(rate)
    }
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

/// Code under which an error is counted.
fn code(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Refused { state, .. } => state.code().to_owned(),
        Trouble::Lost(_) => "connection lost".to_owned(),
        Trouble::Silent(_) => "no answer".to_owned(),
        Trouble::Address { .. } | Trouble::Unexpected(_) => "unexpected answer".to_owned(),
    }
}

/// Number of transactions of each kind that have committed, or may have, since the run began (its warm-up is
/// part of it).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_has_a_place_for_each_second() {
        let mut timeline = Timeline::default();
        for (tenths, well) in [(3, true), (4, false), (21, true), (29, true)] {
            timeline.add(Duration::from_millis(tenths * 100), well);
        }
        assert_eq!((timeline.ended.as_slice(), timeline.failed.as_slice()), (&[1, 0, 2][..], &[1, 0, 0][..]));
        assert_eq!((timeline.rate(1, 3), timeline.rate(2, 4), timeline.rate(1, 1)), (Some(1.0), None, None));
    }
}
