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
    /// Start of its commit record in the WAL.
    pub start: Lsn,
    /// End of its commit record: a standby that has replayed to here surely shows it.
    pub end: Lsn,
    /// Footprint of its writes.
    pub wrote: Footprint,
}
