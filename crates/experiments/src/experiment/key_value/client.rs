//! A client of a key-value store, with or without transactions: the same loads run through each.

use async_trait::async_trait;
use bytes::Bytes;
use consort::failure::Failure;

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Writes of the transaction are in the store.
    Committed,
    /// Another transaction has overtaken it; nothing is left.
    Conflict,
}

/// Kind of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The store's own client. Writes take effect at once.
    Plain,
    /// The store's own client with its own batches: writes take effect together at the end.
    Batched,
    /// Consort's transactions.
    Transactions,
}

impl Kind {
    /// Name of the client in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Plain => "own client",
            Kind::Batched => "own batches",
            Kind::Transactions => "transactions",
        }
    }
}

/// One client. Between `begin` and `commit` it has one transaction open, if it has transactions at all.
#[async_trait]
pub(super) trait Client: Send {
    /// Begins a transaction.
    async fn begin(&mut self) -> Result<(), Failure>;

    /// Returns the value of a key.
    async fn get(&mut self, key: Bytes) -> Result<Option<Bytes>, Failure>;

    /// Writes a value to a key that is there.
    async fn put(&mut self, key: Bytes, value: Bytes) -> Result<(), Failure>;

    /// Writes a value to a new key.
    async fn insert(&mut self, key: Bytes, value: Bytes) -> Result<(), Failure> {
        self.put(key, value).await
    }

    /// Returns the number of rows of a scan from a key on.
    async fn scan(&mut self, from: Bytes, limit: usize) -> Result<usize, Failure>;

    /// Ends the transaction.
    async fn commit(&mut self) -> Result<Outcome, Failure>;
}

/// The error of a store or a database as a failure of the run.
pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}
