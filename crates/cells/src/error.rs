//! Errors of transactions, each with a code for protocols and a hint.

use std::fmt;

use bytes::Bytes;
use stores::StoreError;

/// An error of a database or a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Another transaction has committed a write to the key first. Nothing of this one is left.
    Conflict {
        /// The key.
        key: Bytes,
        /// The commit timestamp of the other transaction, or a later one. A repetition that begins with
        /// [`Consistency::Session`](crate::Consistency::Session) of it waits for that commit, and does not meet it again.
        with: u64,
    },
    /// The transaction's snapshot is older than what is remembered: it must run again.
    SnapshotTooOld {
        /// The start timestamp.
        start: u64,
        /// The kind of memory that was too small.
        lost: Lost,
    },
    /// A write in a read-only transaction.
    ReadOnly,
    /// The key, the value or the write set is refused.
    Invalid {
        /// The limit and its setting.
        reason: String,
    },
    /// The store failed. A transaction that has read may go on.
    Store(StoreError),
    /// The commit is durable and will be visible; the store did not take it in time.
    NotVisible {
        /// The commit timestamp.
        timestamp: u64,
    },
    /// Commits wait for the store, and there is no room for more. Nothing of this one is left.
    Busy {
        /// Bytes that wait.
        bytes: usize,
    },
    /// The ledger failed. The process must start again, and finds out what is committed.
    Ledger(ledger::Error),
    /// The store belongs to another database, or a newer process has taken it over.
    StoreTaken {
        /// The finding in the store.
        reason: String,
    },
    /// The folder or a record of the ledger cannot be used.
    Folder {
        /// The failed operation, and the system's answer.
        reason: String,
    },
    /// The database was closed.
    Closed,
}

/// The memory that had no room for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// An old version was evicted (`versions_size`).
    Version,
    /// The certifier's window has passed the snapshot (`window`).
    Window,
}

impl Error {
    /// The code, one word in capitals, for protocols that send one.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Error::Conflict { .. } => "CONFLICT",
            Error::SnapshotTooOld { .. } => "SNAPSHOTTOOOLD",
            Error::ReadOnly => "READONLY",
            Error::Invalid { .. } => "INVALID",
            Error::Store(StoreError::Unavailable { .. }) => "STOREUNAVAILABLE",
            Error::Store(StoreError::Refused { .. } | StoreError::Failed { .. }) => "STOREREFUSED",
            Error::Store(StoreError::Unknown { .. }) => "STOREUNKNOWN",
            Error::NotVisible { .. } => "NOTVISIBLE",
            Error::Busy { .. } => "BUSY",
            Error::Ledger(_) => "LEDGER",
            Error::StoreTaken { .. } => "STORETAKEN",
            Error::Folder { .. } => "FOLDER",
            Error::Closed => "CLOSED",
        }
    }

    /// The remedy, for a client or an operator.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Error::Conflict { .. } => "run the transaction again",
            Error::SnapshotTooOld { lost: Lost::Version, .. } => {
                "run the transaction again, shorten it, or give old versions more memory (versions_size)"
            }
            Error::SnapshotTooOld { lost: Lost::Window, .. } => {
                "run the transaction again, shorten it, or remember more commits (window)"
            }
            Error::ReadOnly => "begin the transaction without READ ONLY",
            Error::Invalid { .. } => "shorten the key or the value, or split the transaction",
            Error::Store(error) => error.hint(),
            Error::NotVisible { .. } => {
                "the transaction is committed: do not run it again; check that the store runs"
            }
            Error::Busy { .. } => {
                "run the transaction again later; check that the store runs (unflushed_size)"
            }
            Error::Ledger(error) => error.hint().unwrap_or("start the process again"),
            Error::StoreTaken { .. } => {
                "open the database with the folder that belongs to the store; if that is lost, adopt the store from an \
                 empty folder (adopt)"
            }
            Error::Folder { .. } => "check the folder, its owner and its file system",
            Error::Closed => "open the database again",
        }
    }

    /// Whether the transaction has left nothing and may succeed when it runs again.
    #[must_use]
    pub const fn may_run_again(&self) -> bool {
        matches!(self, Error::Conflict { .. } | Error::SnapshotTooOld { .. } | Error::Busy { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Conflict { key, with } => {
                write!(f, "the transaction conflicts with commit {with} on key {key:?}")
            }
            Error::SnapshotTooOld { start, lost: Lost::Version } => {
                write!(f, "snapshot {start} is too old: a version that it reads was evicted")
            }
            Error::SnapshotTooOld { start, lost: Lost::Window } => {
                write!(f, "snapshot {start} is too old: the certifier's window has passed it")
            }
            Error::ReadOnly => f.write_str("the transaction is read-only"),
            Error::Invalid { reason } | Error::Folder { reason } => f.write_str(reason),
            Error::Store(error) => error.fmt(f),
            Error::NotVisible { timestamp } => {
                write!(f, "commit {timestamp} is durable, but the store has not taken it yet")
            }
            Error::Busy { bytes } => write!(f, "{bytes} bytes of commits wait for the store"),
            Error::Ledger(error) => error.fmt(f),
            Error::StoreTaken { reason } => write!(f, "the store is taken: {reason}"),
            Error::Closed => f.write_str("the database is closed"),
        }
    }
}

impl std::error::Error for Error {}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store(error)
    }
}

impl From<ledger::Error> for Error {
    fn from(error: ledger::Error) -> Error {
        Error::Ledger(error)
    }
}
