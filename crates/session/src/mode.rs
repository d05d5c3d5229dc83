//! What the design asks of a session, looked up once, when the session begins: a design does not change while a process runs.

use super::told::Before;
use cluster::Cluster;

/// What the design asks of a session.
pub(super) struct Mode {
    /// Reads wait for replicas that show the whole latest state.
    pub(super) reads_wait: bool,
    pub(super) commits: Commits,
}

/// How the session's transactions commit.
pub(super) enum Commits {
    /// As the client sends them.
    Plain,
    /// One at a time at the primary.
    TakeTurns,
    /// The cluster is told of their statements. The session's settings, as whoever executes them again needs these.
    ReportStatements(Before),
    /// Their transactions are ordered before they are executed.
    Ordered {
        /// A transaction says before it begins which tables it will touch.
        declares: bool,
    },
}

impl Mode {
    /// The mode of all sessions of this process.
    pub(super) fn of(cluster: &Cluster) -> Mode {
        let commits = match () {
            () if cluster.orders_first() => Commits::Ordered { declares: cluster.declares_tables() },
            () if cluster.commits_take_turns() => Commits::TakeTurns,
            () if cluster.statements_travel() => Commits::ReportStatements(None),
            () => Commits::Plain,
        };
        Mode { reads_wait: cluster.reads_wait(), commits }
    }

    /// Transactions are ordered before they are executed.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self.commits, Commits::Ordered { .. })
    }
}
