//! One committed transaction as it came out of the decoder.

use crate::{DatabaseId, Footprint, Lsn, Xid};

/// A committed transaction that changed something, as the primary's logical decoding gave it.
///
/// Invariant: `start < end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The database whose slot gave it.
    pub database: DatabaseId,
    /// Its identity, of the whole server.
    pub xid: Xid,
    /// Where its commit record starts in the log.
    pub start: Lsn,
    /// Where its commit record ends: a standby that has replayed to here surely shows it.
    pub end: Lsn,
    /// What it wrote.
    pub wrote: Footprint,
}
