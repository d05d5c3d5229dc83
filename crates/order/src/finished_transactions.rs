//! The account for the quick rule: finished transactions that have not come out of any slot.
//!
//! A snapshot probe is settled when all that finished between the last settled probe and it has come out: no
//! wait for the WAL to be flushed by another transaction. Aborts, finished sub-transactions and databases
//! without a slot never come out; for them the rule does not hold, and the probe settles by position.

use crate::{Gauge, GaugeNumber};
use history::Xid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Identities that finished, by the first snapshot probe that saw them finished, as long as they have not
/// come out.
///
/// Invariants: `owed` and `first_finished` hold the same pairs; nothing in `out` is seen by the newest probe;
/// for every probe above `complete_from`, each identity that finished between `complete_from` and it is in
/// `owed` or came out.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    newest: Option<(GaugeNumber, Arc<Gauge>)>,
    owed: BTreeSet<(GaugeNumber, Xid)>,
    first_finished: BTreeMap<Xid, GaugeNumber>,
    /// Transactions that came out before a snapshot probe saw them finished.
    out: BTreeSet<Xid>,
    out_is_whole: bool,
    complete_from: GaugeNumber,
    /// Times the account was lost.
    pub(crate) lost: u64,
}

/// Limits of the account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) owed: usize,
    pub(crate) out: usize,
}

impl Owed {
    pub(crate) fn new() -> Owed {
        Owed { out_is_whole: true, ..Owed::default() }
    }

    pub(crate) fn newest(&self) -> Option<(GaugeNumber, &Gauge)> {
        self.newest.as_ref().map(|(number, gauge)| (*number, &**gauge))
    }

    /// A snapshot probe was answered: transactions that have finished since the one before it, and have not
    /// come out, are pending.
    pub(crate) fn gauge(&mut self, number: GaugeNumber, gauge: &Arc<Gauge>, limits: Limits) {
        let before = self.newest.replace((number, gauge.clone()));
        let Some((_, before)) = before else { return self.start_from(number) };
        if !self.out_is_whole || grown(&before, gauge) > limits.owed as u64 {
            return self.lose(number);
        }
        for xid in gauge.snapshot.finished_since(&before.snapshot) {
            if !self.out.remove(&xid) {
                self.owed.insert((number, xid));
                self.first_finished.insert(xid, number);
            }
        }
        if self.owed.len() > limits.owed {
            self.lose(number);
        }
    }

    /// A transaction came out of a slot.
    pub(crate) fn came_out(&mut self, xid: Xid, limits: Limits) {
        if self.newest.as_ref().is_some_and(|(_, gauge)| gauge.snapshot.sees(xid)) {
            self.pay(xid);
            return;
        }
        self.out.insert(xid);
        if self.out.len() > limits.out {
            self.out.clear();
            self.out_is_whole = false;
        }
    }

    /// The planted bug: all identities below one that came out are taken for paid.
    pub(crate) fn guess_below(&mut self, xid: Xid) {
        let below: Vec<Xid> = self.first_finished.range(..xid).map(|(xid, _)| *xid).collect();
        below.into_iter().for_each(|xid| self.pay(xid));
    }

    /// With everything up to `settled` known to be out: all snapshot probes *below* this number are settled
    /// by the quick rule. `None` if the account does not reach back to `settled`.
    pub(crate) fn quick_below(&self, settled: GaugeNumber) -> Option<GaugeNumber> {
        if settled < self.complete_from {
            return None;
        }
        let blocked = self.owed.range((settled.next(), Xid::default())..).next();
        Some(blocked.map_or(GaugeNumber::new(u64::MAX), |(number, _)| *number))
    }

    /// Number of transactions that finished above `after`, up to `to`, and have not come out.
    pub(crate) fn count(&self, after: GaugeNumber, to: GaugeNumber) -> u64 {
        self.owed.range((after.next(), Xid::default())..(to.next(), Xid::default())).count() as u64
    }

    /// Every database has settled a snapshot probe at or above `number`: transactions that finished before it
    /// are not asked for again.
    pub(crate) fn forget_to(&mut self, number: GaugeNumber) {
        while let Some((first, xid)) = self.owed.first().copied().filter(|(first, _)| *first <= number) {
            self.owed.remove(&(first, xid));
            self.first_finished.remove(&xid);
        }
        self.complete_from = self.complete_from.max(number);
    }

    pub(crate) fn len(&self) -> (usize, usize) {
        (self.owed.len(), self.out.len())
    }

    pub(crate) fn audit(&self) {
        assert_eq!(self.owed.len(), self.first_finished.len(), "owed is kept twice, equally");
        assert!(self.owed.iter().all(|(number, xid)| self.first_finished.get(xid) == Some(number)));
        if let Some((_, newest)) = &self.newest {
            assert!(
                self.out.iter().all(|xid| !newest.snapshot.sees(*xid)),
                "a visible transaction is not kept as out"
            );
        }
    }

    fn pay(&mut self, xid: Xid) {
        if let Some(number) = self.first_finished.remove(&xid) {
            self.owed.remove(&(number, xid));
        }
    }

    /// The account up to `number` is lost: databases settle a snapshot probe at or above it by position, then
    /// go on quickly.
    fn lose(&mut self, number: GaugeNumber) {
        self.start_from(number);
        self.lost += 1;
    }

    fn start_from(&mut self, number: GaugeNumber) {
        self.owed.clear();
        self.first_finished.clear();
        if let Some((_, newest)) = &self.newest {
            self.out.retain(|xid| !newest.snapshot.sees(*xid));
        }
        self.out_is_whole = true;
        self.complete_from = number;
    }
}

/// Number of identities that were given between two snapshot probes.
fn grown(before: &Gauge, now: &Gauge) -> u64 {
    now.snapshot.xmax().get().saturating_sub(before.snapshot.xmax().get())
}
