//! The certifier's verdict on a write set.

use std::error::Error;
use std::fmt;

use history::Version;

/// A write set has a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certified {
    /// Its version: the one that follows the newest before.
    pub version: Version,
    /// The newest earlier version with an item that conflicts, at least the floor. A replica that has applied all
    /// versions up to this one may apply the record, though versions in between are missing.
    pub after: Version,
}

/// A write set was refused. The transaction must end; it may be run again from a newer snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A version above the transaction's start claims one of its items.
    Conflict {
        /// The newest such version.
        with: Version,
        /// The number of the item.
        item: u64,
    },
    /// The transaction's start lies below the window: conflicts cannot be excluded.
    BelowFloor {
        /// The oldest start that would have been looked at.
        floor: Version,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Conflict { with, item } => {
                write!(f, "the write set conflicts with version {with} (item {item:016x})")
            }
            Refused::BelowFloor { floor } => {
                write!(f, "the snapshot is older than the certifier's window, which begins at {floor}")
            }
        }
    }
}

impl Error for Refused {}
