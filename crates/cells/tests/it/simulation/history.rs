//! Transactions as their clients saw them.

use bytes::Bytes;
use cells::Error;

/// The end of a transaction, as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The transaction runs.
    Open,
    /// Commit at this timestamp.
    Committed(u64),
    /// Refusal: the transaction has left nothing.
    Refused(Error),
    /// The process was killed while it committed.
    Unknown,
}

/// One transaction.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// Events before it began, and before its end was known.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) start: u64,
    /// Keys and the values that were read, own writes apart.
    pub(crate) reads: Vec<(Bytes, Option<Bytes>)>,
    /// Last writes by key.
    pub(crate) writes: Vec<(Bytes, Option<Bytes>)>,
    /// Keys that had to be unchanged since a timestamp.
    pub(crate) watched: Vec<(Bytes, u64)>,
    pub(crate) end: End,
}

/// All transactions of a run.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) transactions: Vec<Observed>,
    pub(crate) breaches: Vec<String>,
    events: u64,
    values: u64,
    running: usize,
}

impl History {
    pub(crate) fn breach(&mut self, what: String) {
        self.breaches.push(what);
    }

    /// A moment: later ones are larger.
    pub(crate) fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// A number that no other write has.
    pub(crate) fn unique(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    pub(crate) fn enters(&mut self) {
        self.running += 1;
    }

    pub(crate) fn leaves(&mut self) {
        self.running -= 1;
    }

    /// Transactions that hold a database.
    pub(crate) fn running(&self) -> usize {
        self.running
    }
}
