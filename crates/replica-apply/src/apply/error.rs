//! Why a batch was not applied, by what the caller does about it.

use history::Xid;

/// Reason why a batch was not applied. Nothing of the batch is visible then, and the feed must be opened
/// again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The replica went away, is not ready, or refused: open the feeder again, later if it was said already.
    #[error(transparent)]
    Server(#[from] postgres::Error),
    /// The replica does not hold what the stream implies: it must serve no reads until it was repaired.
    #[error("{table} differs at the replica: {what}")]
    Diverged {
        /// The table.
        table: String,
        /// The difference, with the row's key.
        what: String,
    },
    /// A table of the replica is not as it is at the primary: it was changed there.
    #[error("{table} {why}")]
    Unfit {
        /// The table.
        table: String,
        /// A sentence without its subject.
        why: String,
    },
    /// The transaction ran DDL that cannot be run at the replica with the same effect: the database must be
    /// copied again.
    #[error(transparent)]
    Ddl(Unrun),
    /// The position at the replica is not where this feed left it: another process feeds it, or an earlier
    /// connection of ours has committed only now. Open it again.
    #[error("another session moved the replication position at the replica")]
    Moved,
    /// Rows that were kept in a file cannot be read.
    #[error("cannot read back the rows of a large transaction: {0}")]
    Kept(std::io::Error),
}

/// DDL that was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("transaction {xid} ran DDL that is not applied to replicas: {why}")]
pub struct Unrun {
    /// The transaction.
    pub xid: Xid,
    /// Why not.
    pub why: String,
    /// True if roles or owners may lag: neither comes with commands.
    pub roles_may_lag: bool,
}

impl Error {
    pub(super) fn stream(what: String) -> Error {
        Error::Server(postgres::Error::Protocol(what))
    }
}

/// A message that cannot be built, as postgres-protocol says it.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::stream(error.to_string())
    }
}
