//! Why a batch was not applied, by what the caller does about it.

use history::Xid;

/// Why a batch was not applied. Nothing of it is visible then, and the feeder must be opened anew.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The replica went away, is not ready, or refused: open the feeder again, later if it was said already.
    #[error(transparent)]
    Server(#[from] postgres::Error),
    /// The replica is not what the stream says that it is: it must serve nobody until it was repaired.
    #[error("{table} differs at the replica: {what}")]
    Diverged {
        /// The table.
        table: String,
        /// What is wrong, with the row's key.
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
    /// The transaction ran DDL that cannot be run at the replica with the same effect: it must be copied anew.
    #[error(transparent)]
    Ddl(Unrun),
    /// The position at the replica is not where this feeder left it: somebody else feeds it, or an earlier connection of
    /// ours has only now come through. Open it again.
    #[error("the position at the replica was moved by somebody else")]
    Moved,
    /// Rows that were kept in a file cannot be read.
    #[error("the rows of a large transaction cannot be read back: {0}")]
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
    /// Roles may be behind, or whom something belongs to: neither comes with commands.
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
