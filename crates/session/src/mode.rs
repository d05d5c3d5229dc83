//! The design's demands on a session. A session looks them up once, because a design never changes while a
//! process runs.

use super::reported_statements::Before;
use cluster::Cluster;

/// The design's demands on a session.
pub(super) struct Mode {
    /// Reads wait for replicas that show the whole latest state.
    pub(super) reads_wait: bool,
    pub(super) commits: Commits,
}

/// The way of a session's transactions to a commit.
pub(super) enum Commits {
    /// The client's commands go to the primary.
    Plain,
    /// The primary gets one commit at a time.
    TakeTurns,
    /// The session reports the statements of each commit, with the settings that replicas execute them under.
    ReportStatements(Before),
    /// The scheduler orders transactions before the servers execute them.
    Ordered {
        /// A transaction declares its tables before it begins.
        declares: bool,
    },
}

impl Mode {
    /// Returns the mode of the process's design.
    pub(super) fn of(cluster: &Cluster) -> Mode {
        let commits = match () {
            () if cluster.orders_first() => Commits::Ordered { declares: cluster.declares_tables() },
            () if cluster.commits_take_turns() => Commits::TakeTurns,
            () if cluster.statements_travel() => Commits::ReportStatements(None),
            () => Commits::Plain,
        };
        Mode { reads_wait: cluster.reads_wait(), commits }
    }

    /// True if the scheduler orders transactions before the servers execute them.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self.commits, Commits::Ordered { .. })
    }
}
