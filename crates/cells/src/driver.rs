//! The driver of a database: flushes groups of commits in order, and keeps the store and the ledger in shape.

use std::collections::VecDeque;
use std::sync::Arc;

use history::Version;
use ledger::Steps;
use tokio::time::Instant;

use crate::Error;
use crate::bugs::Bug;
use crate::flush::{flush, repeat};
use crate::shared::{Ending, Shared};

/// Keys that the store settles in one call.
const SETTLED_AT_ONCE: usize = 1_000;

/// The task that flushes. It ends when the database is closed or dropped, or has failed.
#[derive(Debug)]
pub struct Driver {
    shared: Arc<Shared>,
    /// The writer of a ledger without a thread.
    pub(crate) steps: Option<Steps>,
    /// Flushed bytes that the store has not synced.
    unsynced_bytes: usize,
    /// The flushed timestamp that the store has synced and settled.
    synced: u64,
    last_sync: Instant,
    /// Synced timestamps whose records the ledger keeps, and the times at which they were.
    synced_at: VecDeque<(Instant, u64)>,
    /// Flushed timestamps, and the times at which they were: tombstones stay for a time.
    flushed_at: VecDeque<(Instant, u64)>,
    /// Tombstones below this timestamp are dropped.
    dropped_below: u64,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, steps: Option<Steps>) -> Driver {
        // Records that recovery has put are neither synced nor settled.
        let (last_sync, synced_at, flushed_at) = (Instant::now(), VecDeque::new(), VecDeque::new());
        Driver {
            shared,
            steps,
            unsynced_bytes: 0,
            synced: 0,
            last_sync,
            synced_at,
            flushed_at,
            dropped_below: 0,
        }
    }

    /// Runs until the database is closed or dropped, or has failed.
    pub async fn run(mut self) {
        let ended = self.works().await;
        let error = ended.err().unwrap_or(Error::Closed);
        if error != Error::Closed {
            tracing::error!(%error, hint = error.hint(), "the database has stopped");
        }
        self.shared.stop(&error);
        // Transactions that wait for a start find the error.
        self.shared.flushed.send_replace(u64::MAX);
        let ending = Arc::clone(&self.shared.ending);
        drop(self);
        ending.send_replace(Ending::Closed);
    }

    async fn works(&mut self) -> Result<(), Error> {
        loop {
            let is_closing = *self.shared.ending.borrow() > Ending::Open;
            let next = self.shared.oracle().next_pending();
            match next {
                Some(next) => self.flushes_from(next).await?,
                None if is_closing => return self.keeps_up(true).await,
                None => self.rests().await,
            }
            let is_due = self.last_sync.elapsed() >= self.shared.options.sync_interval;
            let is_full = self.unsynced_bytes >= self.shared.options.sync_size;
            if is_due || is_full || self.shared.versions().is_over() {
                self.keeps_up(false).await?;
            }
        }
    }

    /// Flushes the commits that are durable, from the oldest pending one on.
    async fn flushes_from(&mut self, next: u64) -> Result<(), Error> {
        let shared = &self.shared;
        let durable = if shared.options.bugs.has(Bug::FlushedBeforeDurable) {
            u64::MAX
        } else {
            shared.ledger.durable(Version::new(next)).await?;
            shared.ledger.newest_durable().get()
        };
        let group = shared.oracle().take_group(durable, shared.options.group_size);
        self.unsynced_bytes += flush(shared, group).await?;
        Ok(())
    }

    /// Waits for a commit, an end, or the next upkeep.
    async fn rests(&self) {
        let interval = self.shared.options.sync_interval;
        drop(tokio::time::timeout(interval, self.shared.work.notified()).await);
    }

    /// Syncs and settles the store, forgets what the ledger needs no more, evicts old versions, drops old tombstones.
    async fn keeps_up(&mut self, is_last: bool) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let (flushed, oldest_start) = {
            let oracle = shared.oracle();
            (oracle.flushed(), oracle.oldest_start())
        };
        shared.versions().evict(oldest_start);
        self.last_sync = Instant::now();
        if flushed > self.synced || is_last {
            if shared.options.bugs.has(Bug::ForgottenBeforeSynced) {
                drop(shared.ledger.forget_below(Version::new(flushed + 1)));
            }
            repeat(&shared, "cannot sync the store", || shared.store.sync()).await?;
            self.settles().await?;
            (self.synced, self.unsynced_bytes) = (flushed, 0);
            self.synced_at.push_back((Instant::now(), flushed));
        }
        self.forgets_records();
        self.drops_tombstones(flushed, oldest_start).await
    }

    /// Forgets the records whose cells are durable: a store may need some time after a sync.
    fn forgets_records(&mut self) {
        let (lag, mut durable) = (self.shared.store.sync_lag(), None);
        while self.synced_at.front().is_some_and(|(at, _)| at.elapsed() >= lag) {
            durable = self.synced_at.pop_front().map(|(_, synced)| synced);
        }
        if let Some(durable) = durable {
            drop(self.shared.ledger.forget_below(Version::new(durable + 1)));
        }
    }

    /// Has the store settle the keys whose newest versions are kept because reads are weak, and drops these versions.
    async fn settles(&self) -> Result<(), Error> {
        let unsettled = self.shared.versions().unsettled();
        for keys in unsettled.chunks(SETTLED_AT_ONCE) {
            let names: Vec<_> = keys.iter().map(|(key, _)| key.clone()).collect();
            repeat(&self.shared, "cannot settle the store", || self.shared.store.settle(&names)).await?;
            // A read that has the store's answer from before looks at the kept versions first.
            let _alone = self.shared.settling.write().await;
            self.shared.versions().settled(keys);
        }
        Ok(())
    }

    /// Drops tombstones that no snapshot, no record of the ledger and no late put needs.
    async fn drops_tombstones(&mut self, flushed: u64, oldest_start: u64) -> Result<(), Error> {
        let now = Instant::now();
        if self.flushed_at.back().is_none_or(|(_, last)| *last < flushed) {
            self.flushed_at.push_back((now, flushed));
        }
        let mut passed = None;
        let time = self.shared.options.tombstone_time;
        while self.flushed_at.front().is_some_and(|(at, _)| now - *at >= time) {
            passed = self.flushed_at.pop_front().map(|(_, flushed)| flushed);
        }
        let Some(passed) = passed else { return Ok(()) };
        let kept = self.shared.ledger.oldest().map_or(0, Version::get);
        let early = self.shared.options.bugs.has(Bug::TombstonesDroppedTooEarly);
        let below = if early { flushed + 1 } else { passed.min(kept).min(oldest_start) };
        if below > self.dropped_below {
            let store = &self.shared.store;
            repeat(&self.shared, "cannot drop tombstones", || store.drop_tombstones(below)).await?;
            self.dropped_below = below;
        }
        Ok(())
    }
}
