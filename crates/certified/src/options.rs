//! How a cluster whose nodes all take writes behaves.

use postgres::address::Address;
use std::path::PathBuf;
use std::time::Duration;

/// One node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name.
    pub name: String,
    /// Its address as Consort's own role.
    pub address: Address,
}

/// How engines commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engines {
    /// One after the other, each on its disk before the next.
    DurableOneByOne,
    /// One after the other in memory: the ledger alone is durable.
    InMemory,
    /// In order in memory, several under way at once; then sessions flush together.
    FlushedTogether,
}

impl Engines {
    /// The `synchronous_commit` of commits.
    pub(crate) fn synchronous_commit(self) -> &'static str {
        match self {
            Engines::DurableOneByOne => "on",
            Engines::InMemory | Engines::FlushedTogether => "off",
        }
    }

    /// Records that are applied in one transaction at most.
    pub(crate) fn group(self) -> usize {
        match self {
            // Base, too, brings what others have committed in one transaction before its own commit (3.1).
            Engines::DurableOneByOne | Engines::InMemory | Engines::FlushedTogether => 100,
        }
    }
}

/// How the cluster behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The nodes at the start.
    pub nodes: Vec<NodeOptions>,
    /// The folder of the ledgers, one for each database.
    pub ledger_dir: PathBuf,
    /// The folder of dumps, for which the ledgers keep records.
    pub dump_dir: Option<PathBuf>,
    /// How engines commit.
    pub engines: Engines,
    /// Capture of write sets.
    pub capture: config::Capture,
    /// For experiments: share of the write sets that are refused after their check, in percent.
    pub abort_percent: u64,
    /// Time that a session waits for a version to be shown at its node. A node that shows a durable version later takes no
    /// sessions until it has caught up.
    pub replica_wait_timeout: Duration,
    /// How long a log-in at a node may take.
    pub connect_limit: Duration,
    /// Time that transactions at a node that leaves may go on.
    pub drain_limit: Duration,
}
