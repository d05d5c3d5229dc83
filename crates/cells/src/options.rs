//! Settings of a database, and parameters of a transaction.

use std::time::Duration;

use crate::Bugs;

/// Settings of a database.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Commits that the certifier remembers. A transaction that runs over more commits is refused. Default 262,144.
    pub window: usize,
    /// Maximum size of old versions in memory, in bytes. Default 256 MiB.
    pub versions_size: usize,
    /// Maximum size of cells in memory that were flushed lately: their next writers need no read of the store. Default 32 MiB.
    pub newest_cells_size: usize,
    /// Maximum size of commits that are certified and not flushed, in bytes. Further commits are refused. Default 64 MiB.
    pub unflushed_size: usize,
    /// Limit of the wait until a commit is visible. The commit is durable in any case. Default 10 s.
    pub visible_timeout: Duration,
    /// Interval between syncs of the store, and between other upkeep. Default 1 s.
    pub sync_interval: Duration,
    /// The store is synced when so many bytes were flushed since the last sync. Default 64 MiB.
    pub sync_size: usize,
    /// Time for which a tombstone stays at least: longer than any put may be late. Default 10 min.
    pub tombstone_time: Duration,
    /// Commits that are flushed together at most. Default 4,096.
    pub group_size: usize,
    /// Size of a segment of the ledger, in bytes. Whole segments are forgotten. Default 16 MiB.
    pub segment_size: u64,
    /// Take over a store that another database has written, or whose ledger is lost. Needs an empty folder.
    pub adopt: bool,
    /// Planted bugs; none in production.
    pub bugs: Bugs,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            window: 1 << 18,
            versions_size: 256 << 20,
            newest_cells_size: 32 << 20,
            unflushed_size: 64 << 20,
            visible_timeout: Duration::from_secs(10),
            sync_interval: Duration::from_secs(1),
            sync_size: 64 << 20,
            tombstone_time: Duration::from_secs(600),
            group_size: 4_096,
            segment_size: ledger::Options::default().segment_size,
            adopt: false,
            bugs: Bugs::default(),
        }
    }
}

/// Parameters of a transaction. Default: read and write, [`Consistency::Snapshot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// Writes are refused.
    pub read_only: bool,
    /// The commits that the snapshot must show.
    pub consistency: Consistency,
}

/// The commits that a snapshot shows at least. Every snapshot shows all acknowledged commits: the levels differ after a
/// commit whose answer said that it is not visible yet ([`crate::Error::NotVisible`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// The newest flushed snapshot, without a wait.
    #[default]
    Snapshot,
    /// At least this commit timestamp: a session passes the timestamp of its last commit.
    Session(u64),
    /// Every commit that any client was told of.
    Strong,
}
