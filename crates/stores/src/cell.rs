//! The cell: the newest version of one key in a store.

use bytes::Bytes;

/// The state of one key: the timestamp of the commit that wrote it, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Commit timestamp, from 1.
    pub timestamp: u64,
    /// The value; `None` is a tombstone, the mark that a delete leaves.
    pub value: Option<Bytes>,
}

impl Cell {
    /// A cell with a value.
    #[must_use]
    pub fn put(timestamp: u64, value: impl Into<Bytes>) -> Cell {
        Cell { timestamp, value: Some(value.into()) }
    }

    /// A tombstone.
    #[must_use]
    pub const fn tombstone(timestamp: u64) -> Cell {
        Cell { timestamp, value: None }
    }

    /// Whether the cell marks a delete.
    #[must_use]
    pub const fn is_tombstone(&self) -> bool {
        self.value.is_none()
    }
}
