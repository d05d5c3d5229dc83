//! Errors of readers, of the writer and of the store, by what their receiver does.

use crate::write_set::Version;

/// Failure of a reader, of the writer or of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite's own error: a constraint, a syntax error, a limit.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The version has not been received yet. Wait for it.
    #[error("version {at} has not been received (newest: {received})")]
    Unreceived {
        /// The version that was asked for.
        at: Version,
        /// The newest version without a gap.
        received: Version,
    },
    /// The version's pages are not held any more, or never were. Use a version from `oldest` on.
    #[error("version {at} is not held any more (oldest: {oldest})")]
    Gone {
        /// The version that was asked for.
        at: Version,
        /// The oldest version that can still be read.
        oldest: Version,
    },
    /// The reader was the oldest one when the store exceeded its byte bound. Run the transaction again.
    #[error("the snapshot was evicted: the store exceeds its memory limit (max_bytes)")]
    Evicted,
    /// Policy `Single`: another transaction needs another version of a page. Run the transaction again.
    #[error("version conflict: another transaction needs another version of the same page")]
    Conflict,
    /// The version was discarded by a fail-over. Run the transaction again.
    #[error("the version was discarded by a fail-over")]
    Discarded,
    /// The connection was used outside of `begin` and `end`.
    #[error("no transaction has begun on this connection")]
    Closed,
}

/// A write set that does not follow the newest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write set of version {got}, but version {expected} is next")]
pub struct Gap {
    /// The version that would follow.
    pub expected: Version,
    /// The version of the write set.
    pub got: Version,
}

/// Reason for the end of a registered snapshot before its owner ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Evicted,
    Conflict,
    Discarded,
    Closed,
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Error {
        match ended {
            Ended::Evicted => Error::Evicted,
            Ended::Conflict => Error::Conflict,
            Ended::Discarded => Error::Discarded,
            Ended::Closed => Error::Closed,
        }
    }
}
