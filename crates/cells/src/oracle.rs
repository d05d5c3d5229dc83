//! The timestamp oracle: starts, commit timestamps, and the commits on their way to the store.
//!
//! ```text
//!    flushed <= durable <= certified
//!    start of a transaction = flushed
//!    commits above flushed: pending, in the order of timestamps
//! ```
//!
//! While a group of commits is flushed, all new transactions start at the timestamp before the group, so that none waits
//! and none sees a part of the group.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use certifier::{Certifier, Item, Refused};
use history::Version;
use ledger::{Ledger, Reached};
use stores::Cell;
use tokio::sync::oneshot;

use crate::bugs::{Bug, Bugs};
use crate::error::Lost;
use crate::write_set::{WriteSet, item};
use crate::{Error, Options};

/// A commit that is certified and not flushed.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) timestamp: u64,
    pub(crate) writes: WriteSet,
    /// Cells that the commit overwrites, as far as its transaction has read them.
    pub(crate) overwritten: Vec<(Bytes, Option<Cell>)>,
    /// Length of its record.
    pub(crate) bytes: usize,
    /// Tells the client's task that the next start covers the commit.
    visible: oneshot::Sender<Result<(), Error>>,
}

impl Pending {
    /// Tells the commit's task, if it still waits.
    pub(crate) fn tell(self, outcome: Result<(), Error>) {
        drop(self.visible.send(outcome));
    }
}

/// A write set on its way to certification, with what needs no lock.
#[derive(Debug)]
pub(crate) struct Prepared {
    writes: WriteSet,
    overwritten: Vec<(Bytes, Option<Cell>)>,
    record: Vec<u8>,
    items: Vec<Item>,
}

impl Prepared {
    /// `read` has the cells that the transaction has read. If it is certified, then those that it overwrites are the store's
    /// newest: no commit has written them since its start.
    pub(crate) fn of(writes: WriteSet, read: Vec<(Bytes, Option<Cell>)>) -> Result<Prepared, Error> {
        let overwritten = read.into_iter().filter(|(key, _)| writes.get(key).is_some()).collect();
        Ok(Prepared { record: writes.to_record()?, items: writes.items(), writes, overwritten })
    }
}

/// The answer to a certified commit.
#[derive(Debug)]
pub(crate) struct Certified {
    pub(crate) timestamp: u64,
    /// Ends when the ledger has the record.
    pub(crate) durable: Reached,
    /// Ends when the next start covers the commit.
    pub(crate) visible: oneshot::Receiver<Result<(), Error>>,
}

/// Transactions by outcome, since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits that wrote.
    pub commits: u64,
    /// Commits of transactions that wrote nothing.
    pub read_commits: u64,
    /// Transactions that another one had overtaken.
    pub conflicts: u64,
    /// Transactions whose snapshot was too old: an old version was evicted.
    pub evicted_versions: u64,
    /// Transactions whose snapshot was too old: the certifier's window had passed it.
    pub passed_windows: u64,
    /// Transactions that ended without a commit.
    pub rollbacks: u64,
    /// Commits that were refused because the store had too much to take.
    pub busy: u64,
}

/// Starts, certification, and pending commits. Invariants: `flushed` only rises; a timestamp is given and its record
/// appended to the ledger in one step; `pending` has each timestamp above `flushed` that no group has taken.
#[derive(Debug)]
pub(crate) struct Oracle {
    certifier: Certifier,
    flushed: u64,
    /// The highest timestamp that a client was told of.
    told: u64,
    /// Active transactions by start.
    active: BTreeMap<u64, usize>,
    pending: VecDeque<Pending>,
    /// Bytes of records that are not flushed, those of the group among them.
    unflushed_bytes: usize,
    unflushed_limit: usize,
    /// Why the database takes no transactions any more.
    stopped: Option<Error>,
    pub(crate) counts: Counts,
    bugs: Bugs,
}

impl Oracle {
    pub(crate) fn new(newest: u64, options: &Options) -> Oracle {
        Oracle {
            certifier: Certifier::new(Version::new(newest), options.window),
            flushed: newest,
            told: newest,
            active: BTreeMap::new(),
            pending: VecDeque::new(),
            unflushed_bytes: 0,
            unflushed_limit: options.unflushed_size,
            stopped: None,
            counts: Counts::default(),
            bugs: options.bugs,
        }
    }

    /// Gives a start: every commit up to it is flushed, and none above is shown.
    pub(crate) fn start(&mut self) -> Result<u64, Error> {
        self.check()?;
        let above = self.bugs.has(Bug::StartAboveFlushed);
        let start = if above { self.certifier.newest().get() } else { self.flushed };
        *self.active.entry(start).or_default() += 1;
        Ok(start)
    }

    /// Ends a transaction.
    pub(crate) fn end(&mut self, start: u64) {
        let count = self.active.get_mut(&start).expect("an active transaction has its start");
        *count -= 1;
        if *count == 0 {
            self.active.remove(&start);
        }
    }

    /// Decides on a write set, gives it a timestamp and appends its record. `watched` has keys that must be unchanged
    /// since a timestamp each.
    pub(crate) fn certify(
        &mut self,
        start: u64,
        watched: &[(Bytes, u64)],
        Prepared { writes, overwritten, record, items }: Prepared,
        ledger: &Ledger,
    ) -> Result<Certified, Error> {
        self.check()?;
        if self.unflushed_bytes > self.unflushed_limit {
            self.counts.busy += 1;
            return Err(Error::Busy { bytes: self.unflushed_bytes });
        }
        if let Some((key, since)) = watched.iter().find(|(key, since)| self.changed_since(key, *since))
            && !self.bugs.has(Bug::WatchIgnored)
        {
            self.counts.conflicts += 1;
            return Err(Error::Conflict { key: key.clone(), with: since + 1 });
        }
        let from = if self.bugs.has(Bug::CertifiedFromNewest) { self.newest() } else { start };
        let certified = self.certifier.certify(Version::new(from), &items);
        let version = certified.map_err(|refused| self.refused(start, &writes, refused))?.version;
        let durable = ledger.append(version, &record);
        let (visible, wait) = oneshot::channel();
        let (timestamp, bytes) = (version.get(), record.len());
        self.unflushed_bytes += bytes;
        self.counts.commits += 1;
        self.pending.push_back(Pending { timestamp, writes, overwritten, bytes, visible });
        Ok(Certified { timestamp, durable, visible: wait })
    }

    fn refused(&mut self, start: u64, writes: &WriteSet, refused: Refused) -> Error {
        match refused {
            Refused::Conflict { with, item: id } => {
                self.counts.conflicts += 1;
                let key = writes.keys().find(|key| item(key).id == id).cloned().unwrap_or_default();
                Error::Conflict { key, with: with.get() }
            }
            Refused::BelowFloor { .. } => {
                self.counts.passed_windows += 1;
                Error::SnapshotTooOld { start, lost: Lost::Window }
            }
        }
    }

    /// Whether a commit above the timestamp may have written the key: surely if so, and perhaps if the certifier's window
    /// has passed the timestamp.
    pub(crate) fn changed_since(&self, key: &[u8], timestamp: u64) -> bool {
        let since = Version::new(timestamp.min(self.newest()));
        self.certifier.conflict(since, &[item(key)]).is_some()
    }

    /// Takes in a record of the ledger that was certified before.
    pub(crate) fn restore(&mut self, timestamp: u64, writes: &WriteSet) {
        self.certifier.restore(Version::new(timestamp), &writes.items());
        (self.flushed, self.told) = (timestamp, timestamp);
    }

    /// The oldest commit that no group has taken.
    pub(crate) fn next_pending(&self) -> Option<u64> {
        self.pending.front().map(|pending| pending.timestamp)
    }

    /// Takes pending commits up to a durable timestamp, so many at most.
    pub(crate) fn take_group(&mut self, durable: u64, most: usize) -> Vec<Pending> {
        let count = self.pending.iter().take(most).take_while(|pending| pending.timestamp <= durable).count();
        self.pending.drain(..count).collect()
    }

    /// The commits up to here are flushed: new transactions see them.
    pub(crate) fn advance(&mut self, flushed: u64, bytes: usize) {
        assert!(flushed >= self.flushed && flushed <= self.newest(), "groups are flushed in order");
        self.flushed = flushed;
        self.unflushed_bytes -= bytes;
    }

    /// A client is told that the commit is committed.
    pub(crate) fn tells(&mut self, timestamp: u64) {
        self.told = self.told.max(timestamp);
    }

    /// Takes no transactions any more, and ends those that wait.
    pub(crate) fn stop(&mut self, error: &Error) {
        self.stopped.get_or_insert_with(|| error.clone());
        for pending in std::mem::take(&mut self.pending) {
            pending.tell(Err(error.clone()));
        }
    }

    /// Fails when the database takes no transactions any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn newest(&self) -> u64 {
        self.certifier.newest().get()
    }

    pub(crate) fn flushed(&self) -> u64 {
        self.flushed
    }

    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    /// The oldest start of an active transaction; without one, the next start.
    pub(crate) fn oldest_start(&self) -> u64 {
        if self.bugs.has(Bug::EvictedTooEarly) {
            return self.flushed;
        }
        self.active.keys().next().copied().unwrap_or(self.flushed)
    }

    pub(crate) fn active(&self) -> usize {
        self.active.values().sum()
    }
}
