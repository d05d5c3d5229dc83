//! Counters of one process. One thread owns them: they are plain cells, and counting costs an addition.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions.
    pub transactions: u64,
    /// Statements.
    pub statements: u64,
    /// Bytes from clients.
    pub received_bytes: u64,
    /// Bytes to clients.
    pub sent_bytes: u64,
    /// Time in transactions.
    pub transaction_us: u64,
    /// Time in statements.
    pub statement_us: u64,
    /// Time in which clients waited for a connection or for RESUME.
    pub wait_us: u64,
    /// Times that a client got a connection at the primary.
    pub assignments: u64,
    /// Named statements that clients parsed.
    pub client_parses: u64,
    /// Times that a server was sent one to parse: for these, and again where a connection lacked one.
    pub server_parses: u64,
    /// Times that clients bound one.
    pub binds: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            transactions: self.transactions + other.transactions,
            statements: self.statements + other.statements,
            received_bytes: self.received_bytes + other.received_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            transaction_us: self.transaction_us + other.transaction_us,
            statement_us: self.statement_us + other.statement_us,
            wait_us: self.wait_us + other.wait_us,
            assignments: self.assignments + other.assignments,
            client_parses: self.client_parses + other.client_parses,
            server_parses: self.server_parses + other.server_parses,
            binds: self.binds + other.binds,
        }
    }
}

/// Upper bounds of the histograms' buckets in microseconds; the last bucket has none.
pub const BUCKETS_US: [u64; 12] =
    [50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000];

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// Adds to the count.
    pub fn add(&self, more: u64) {
        self.0.set(self.0.get() + more);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Counters by name: the reasons of one decision, which are few.
#[derive(Debug, Default)]
pub struct ByName(RefCell<BTreeMap<&'static str, u64>>);

impl ByName {
    /// One more of this name.
    pub fn one(&self, name: &'static str) {
        *self.0.borrow_mut().entry(name).or_default() += 1;
    }

    /// All, by name.
    pub fn get(&self) -> BTreeMap<&'static str, u64> {
        self.0.borrow().clone()
    }
}

/// Histogram of durations, in [`BUCKETS_US`].
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Cell<u64>; BUCKETS_US.len() + 1],
    sum_us: Cell<u64>,
}

impl Histogram {
    /// Records a duration.
    pub fn took(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = &self.buckets[BUCKETS_US.partition_point(|bound| *bound < us)];
        bucket.set(bucket.get() + 1);
        self.sum_us.set(self.sum_us.get().saturating_add(us));
    }

    /// The count of each bucket.
    pub fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Cell::get)
    }

    /// All times together, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us.get()
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets().sum()
    }
}

/// Traffic of one database: totals, and rates per second of the last full period.
#[derive(Debug, Default)]
pub struct Traffic {
    total: Cell<Counts>,
    before: Cell<Counts>,
    average: Cell<Counts>,
    since: Cell<Duration>,
}

/// Length of a period of averages.
pub const PERIOD: Duration = Duration::from_secs(60);

impl Traffic {
    /// Changes the totals.
    pub fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut total = self.total.get();
        change(&mut total);
        self.total.set(total);
    }

    /// Since the start.
    pub fn total(&self) -> Counts {
        self.total.get()
    }

    /// A second, in the last full period.
    pub fn average(&self) -> Counts {
        self.average.get()
    }

    /// Ends the period if it is over; `now` is the time since the start.
    pub fn roll(&self, now: Duration) {
        let seconds = now.saturating_sub(self.since.get()).as_secs();
        if seconds < PERIOD.as_secs() {
            return;
        }
        let (total, before) = (self.total.get(), self.before.get());
        let each = |total: u64, before: u64| (total - before) / seconds;
        self.average.set(Counts {
            transactions: each(total.transactions, before.transactions),
            statements: each(total.statements, before.statements),
            received_bytes: each(total.received_bytes, before.received_bytes),
            sent_bytes: each(total.sent_bytes, before.sent_bytes),
            transaction_us: each(total.transaction_us, before.transaction_us),
            statement_us: each(total.statement_us, before.statement_us),
            wait_us: each(total.wait_us, before.wait_us),
            assignments: each(total.assignments, before.assignments),
            client_parses: each(total.client_parses, before.client_parses),
            server_parses: each(total.server_parses, before.server_parses),
            binds: each(total.binds, before.binds),
        });
        self.before.set(total);
        self.since.set(now);
    }
}

/// The process's own counts.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Clients that came.
    pub clients_accepted: Counter,
    /// Refused clients, by SQLSTATE.
    pub clients_refused: ByName,
    /// Cancel requests.
    pub cancel_requests: Counter,
    /// Reads that a standby answered, by what proved them.
    pub reads_at_standbys: ByName,
    /// Statements that ran at the primary, by what kept them there.
    pub statements_at_primary: ByName,
    /// Statement replication: commits that travelled as statements.
    pub commits_as_statements: Counter,
    /// Statement replication: commits that travelled as rows, by reason.
    pub commits_as_rows: ByName,
    /// Statement replication: unreported statements, by reason.
    pub statements_not_told: ByName,
    /// Reads that were compared with the primary in shadow mode, by verdict.
    pub shadowed: ByName,
    /// Statements that ran at the primary and are proven to be reads.
    pub reads_at_primary: Counter,
    /// Results that broke off after their first bytes had left.
    pub results_cut_off: Counter,
    /// Time for which answers were held for their proof.
    pub proof_wait: Histogram,
    /// Designs in which reads wait for a replica: time until the read was sent.
    pub replica_wait: Histogram,
    /// Designs in which a refresh locks: its wait for reads.
    pub refresh_wait: Histogram,
    /// Designs that order transactions first: wait of statements for their tables.
    pub lock_wait: Histogram,
    /// Designs that order transactions first: refused statements, by reason.
    pub scheduled_refused: ByName,
    /// Designs that order transactions first: replicas that were taken out.
    pub replicas_taken_out: Counter,
    /// Round trip of the snapshot probe.
    pub gauge_round_trip: Histogram,
    /// Wait of a statement for its analysis, if it had to wait.
    pub analysis_wait: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_those_of_the_last_full_period() {
        let traffic = Traffic::default();
        traffic.count(|counts| counts.statements += 600);
        traffic.roll(Duration::from_secs(59));
        assert_eq!(traffic.average().statements, 0);
        traffic.roll(Duration::from_secs(60));
        assert_eq!((traffic.average().statements, traffic.total().statements), (10, 600));
        traffic.roll(Duration::from_secs(120));
        assert_eq!(traffic.average().statements, 0, "nothing came in the second period");
    }
}
