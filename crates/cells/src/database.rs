//! An open database: its transactions, its figures and its end.

use std::sync::Arc;

use bytes::Bytes;
use stores::Description;

use crate::oracle::Counts;
use crate::shared::{Ending, Handle, Shared};
use crate::transaction::Transaction;
use crate::write_set::check_key;
use crate::{Begin, Consistency, Error};

/// A database over a store, with its ledger in a folder. Clones are the same database. Its flush ends when all clones
/// and all transactions are dropped; [`Database::close`] waits for that.
#[derive(Clone, Debug)]
pub struct Database {
    handle: Arc<Handle>,
}

/// Figures of a database, for status pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The newest commit timestamp that was given.
    pub certified: u64,
    /// The newest durable commit timestamp.
    pub durable: u64,
    /// The newest flushed commit timestamp: the next start.
    pub flushed: u64,
    /// Active transactions.
    pub active: usize,
    /// The oldest start of an active transaction.
    pub oldest_start: u64,
    /// Old versions in memory.
    pub version_intervals: usize,
    /// Size of old versions in memory, in bytes.
    pub version_bytes: usize,
    /// Old versions that were evicted because memory was short.
    pub evicted_intervals: u64,
    /// Transactions by outcome.
    pub counts: Counts,
    /// Records and syncs of the ledger.
    pub ledger: ledger::Counters,
    /// The store.
    pub store: Description,
    /// The number of times the store was opened as a part of this database.
    pub epoch: u64,
}

impl Database {
    pub(crate) fn new(shared: Arc<Shared>) -> Database {
        Database { handle: Arc::new(Handle { shared }) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Begins a transaction. Its snapshot shows all commits up to its start, and none above.
    ///
    /// # Errors
    /// [`Error::NotVisible`] if a commit that the snapshot must show is not flushed in time; the error with which the
    /// database has stopped.
    pub async fn begin(&self, begin: Begin) -> Result<Transaction, Error> {
        let wanted = match begin.consistency {
            Consistency::Snapshot => 0,
            Consistency::Session(token) => token,
            Consistency::Strong => self.shared().oracle().told(),
        };
        if wanted > self.shared().oracle().flushed() {
            self.until_flushed(wanted).await?;
        }
        let start = self.shared().oracle().start()?;
        Ok(Transaction::new(Arc::clone(&self.handle), start, begin.read_only))
    }

    async fn until_flushed(&self, timestamp: u64) -> Result<(), Error> {
        let shared = self.shared();
        let mut flushed = shared.flushed.subscribe();
        let covers = flushed.wait_for(|flushed| *flushed >= timestamp);
        match tokio::time::timeout(shared.options.visible_timeout, covers).await {
            Ok(_) => shared.oracle().check(),
            Err(_) => Err(Error::NotVisible { timestamp }),
        }
    }

    /// Whether a commit above the timestamp has written the key. True too if the certifier's window has passed the
    /// timestamp.
    ///
    /// # Errors
    /// The key is invalid, or the database has stopped.
    pub fn changed_since(&self, key: &[u8], timestamp: u64) -> Result<bool, Error> {
        check_key(key)?;
        let oracle = self.shared().oracle();
        oracle.check()?;
        Ok(oracle.changed_since(key, timestamp))
    }

    /// The error with which the database has stopped, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.shared().oracle().check().err()
    }

    /// Figures.
    #[must_use]
    pub fn status(&self) -> Status {
        let shared = self.shared();
        let durable = shared.ledger.newest_durable().get();
        let (version_intervals, version_bytes, evicted_intervals) = {
            let versions = shared.versions();
            (versions.count(), versions.bytes(), versions.evicted())
        };
        let oracle = shared.oracle();
        Status {
            certified: oracle.newest(),
            durable,
            flushed: oracle.flushed(),
            active: oracle.active(),
            oldest_start: oracle.oldest_start(),
            version_intervals,
            version_bytes,
            evicted_intervals,
            counts: oracle.counts,
            ledger: shared.ledger.counters(),
            store: shared.store.describe(),
            epoch: shared.ownership.epoch(),
        }
    }

    /// Takes no transactions any more, flushes what is certified, syncs and closes the store. The folder is free when all
    /// clones and transactions are dropped. Commits that the store does not take within `visible_timeout` stay in the ledger for the next open.
    ///
    /// # Errors
    /// The store's.
    pub async fn close(&self) -> Result<(), Error> {
        let shared = self.shared();
        let mut ending = shared.ending.subscribe();
        shared.ends();
        let is_lost = ending.wait_for(|ending| *ending == Ending::Closed).await.is_err();
        assert!(!is_lost, "the sender lives as long as the database");
        Ok(shared.store.close().await?)
    }

    /// The value of the reserved cell that says whose the store is, for tests and tools.
    #[must_use]
    pub fn owner(&self) -> Bytes {
        self.shared().ownership.owner()
    }
}
