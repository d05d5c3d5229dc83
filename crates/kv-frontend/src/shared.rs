//! State that all connections of a server share.

use crate::Options;
use crate::clients::Clients;
use crate::scan::Cursors;
use crate::transaction::{Fault, Keys, Level};
use cells::Database;
use std::cell::Cell;
use std::time::Instant;

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.set(self.0.get() + count);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Counters since the start.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) connections: Counter,
    pub(crate) rejected: Counter,
    pub(crate) failed_log_ins: Counter,
    pub(crate) commands: Counter,
    pub(crate) errors: Counter,
    /// Transactions that the server ran again after a conflict.
    pub(crate) repeats: Counter,
    pub(crate) idle_transactions: Counter,
}

/// State that all connections of a server share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) options: Options,
    pub(crate) clients: Clients,
    pub(crate) cursors: Cursors,
    pub(crate) counters: Counters,
    pub(crate) started: Instant,
}

impl Shared {
    pub(crate) fn new(database: Database, options: Options) -> Shared {
        Shared {
            database,
            options,
            clients: Clients::default(),
            cursors: Cursors::default(),
            counters: Counters::default(),
            started: Instant::now(),
        }
    }

    /// Begins a transaction. `token`: the newest commit that the session knows of.
    pub(crate) async fn begin(&self, read_only: bool, level: Level, token: u64) -> Result<Keys, Fault> {
        Ok(Keys::new(self.database.begin(level.begin(read_only, token)).await?))
    }

    /// Names and values of the database's figures.
    pub(crate) fn figures(&self) -> Vec<(&'static str, String)> {
        let status = self.database.status();
        let state = self.database.failure().map_or("up".to_owned(), |error| format!("stopped: {error}"));
        vec![
            ("database", state),
            ("store", status.store.kind.to_owned()),
            ("store_location", status.store.location),
            ("newest_commit", status.certified.to_string()),
            ("newest_durable", status.durable.to_string()),
            ("newest_flushed", status.flushed.to_string()),
            ("active_transactions", status.active.to_string()),
            ("oldest_start", status.oldest_start.to_string()),
            ("old_versions", status.version_intervals.to_string()),
            ("old_version_bytes", status.version_bytes.to_string()),
            ("evicted_versions", status.evicted_intervals.to_string()),
            ("commits", status.counts.commits.to_string()),
            ("conflicts", status.counts.conflicts.to_string()),
            ("ledger_syncs", status.ledger.syncs.to_string()),
        ]
    }
}
