//! Outcomes of the reads or writes of one kind.

use crate::knowledge::Fault;
use crate::latency::{Latencies, Percentiles};
use crate::session::Trouble;
use serde::Serialize;
use std::time::Duration;

/// Counts of one kind of statement, while a run goes on.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    done: u64,
    stale: u64,
    backwards: u64,
    errors: u64,
    first_error: Option<String>,
    latencies: Latencies,
}

/// The same when it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Statements (or transactions) that were answered.
    pub done: u64,
    /// Reads older than a write acknowledged before they began.
    pub stale: u64,
    /// Reads older than a read that ended before they began.
    pub backwards: u64,
    /// Statements that were answered by an error, or not at all.
    pub errors: u64,
    /// The first of those errors.
    pub first_error: Option<String>,
    /// Latencies of the answered ones.
    pub latency: Percentiles,
}

impl Tally {
    /// A statement was answered.
    pub fn done(&mut self, took: Duration) {
        self.done += 1;
        self.latencies.record(took);
    }

    /// A read was answered.
    pub fn read(&mut self, took: Duration, fault: Fault) {
        self.done(took);
        self.stale += u64::from(fault.stale);
        self.backwards += u64::from(fault.backwards);
    }

    /// A statement failed.
    pub fn failed(&mut self, trouble: &Trouble) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| trouble.to_string());
    }

    /// Adds all of the other.
    pub fn merge(&mut self, other: &Tally) {
        self.done += other.done;
        self.stale += other.stale;
        self.backwards += other.backwards;
        self.errors += other.errors;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
        self.latencies.merge(&other.latencies);
    }

    /// Number of answers so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.done
    }

    /// The figures.
    #[must_use]
    pub fn total(&self) -> Total {
        Total {
            done: self.done,
            stale: self.stale,
            backwards: self.backwards,
            errors: self.errors,
            first_error: self.first_error.clone(),
            latency: self.latencies.percentiles(),
        }
    }
}
