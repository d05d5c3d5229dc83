//! Errors of a ledger, by what its user does about them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use history::Version;

/// An error of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A write or a sync failed. Nothing is known of the records that waited: the process must stop, and must not
    /// acknowledge them or refuse them.
    Failed {
        /// The failed operation, its file, and the system's answer.
        reason: String,
    },
    /// A durable record, or the header of a segment, is not what was written. A person must decide.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The finding at that offset.
        reason: String,
    },
    /// Another process has the folder open.
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be read or written while the ledger opens, or a file cannot be read.
    Unusable {
        /// The failed operation, its file, and the system's answer.
        reason: String,
    },
    /// The appended version does not follow the newest. Nothing was appended.
    OutOfOrder {
        /// The version that would have been taken.
        expected: Version,
        /// The version that came.
        got: Version,
    },
    /// The record has more bytes than [`crate::RECORD_LIMIT`]. Nothing was appended.
    TooLarge {
        /// The length of the record.
        bytes: usize,
    },
    /// The record to read was forgotten.
    Forgotten {
        /// The oldest that is kept.
        oldest: Version,
    },
}

impl Error {
    pub(crate) fn failed(action: &str, path: &Path, error: &io::Error) -> Error {
        Error::Failed { reason: format!("{action} {}: {error}", path.display()) }
    }

    pub(crate) fn unusable(action: &str, path: &Path, error: &io::Error) -> Error {
        Error::Unusable { reason: format!("{action} {}: {error}", path.display()) }
    }

    pub(crate) fn damaged(path: &Path, offset: u64, reason: impl Into<String>) -> Error {
        Error::Damaged { path: path.to_owned(), offset, reason: reason.into() }
    }

    /// The process must stop: see [`Error::Failed`].
    #[must_use]
    pub fn must_stop(&self) -> bool {
        matches!(self, Error::Failed { .. })
    }

    /// A hint for the operator, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Error::Failed { .. } => {
                Some("repair the disk and start again: the ledger finds out which records are durable")
            }
            Error::Damaged { .. } => {
                Some("restore the ledger's folder from a copy, or rebuild the cluster from one node")
            }
            Error::Locked { .. } => {
                Some("stop the other process, or give this one a folder of its own (ledger_dir)")
            }
            Error::Unusable { .. } => Some("check the folder, its owner and its file system (ledger_dir)"),
            Error::Forgotten { .. } => Some("bring the node to a newer version from a copy of another node"),
            Error::TooLarge { .. } => Some("split the transaction into smaller ones"),
            Error::OutOfOrder { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Failed { reason } => write!(f, "the ledger has failed: {reason}"),
            Error::Damaged { path, offset, reason } => {
                write!(f, "the ledger is damaged: {reason} ({}, byte {offset})", path.display())
            }
            Error::Locked { path } => write!(f, "another process has the ledger open: {}", path.display()),
            Error::Unusable { reason } => f.write_str(reason),
            Error::OutOfOrder { expected, got } => {
                write!(f, "version {got} cannot be appended to the ledger: the next one is {expected}")
            }
            Error::TooLarge { bytes } => {
                write!(f, "the record has {bytes} bytes, and the ledger takes {}", crate::RECORD_LIMIT)
            }
            Error::Forgotten { oldest } => {
                write!(f, "the ledger has forgotten the record: the oldest one that is kept is {oldest}")
            }
        }
    }
}

impl std::error::Error for Error {}
