//! Events and their order. WAL positions, transaction identities, snapshots, versions, watermarks,
//! footprints, decoded commits, the cells of rows that they changed, and the visible state of a logical
//! replica: the nouns that every other crate speaks in.
//!
//! This crate is pure: it opens nothing, waits for nothing and asks no clock. The crate does not know
//! servers, sessions or proofs.

mod cell;
mod columns;
mod commit;
mod commit_token;
mod consistency;
mod footprint;
mod incarnation;
mod key;
mod load_time;
mod lsn;
mod relation;
mod shown;
mod snapshot;
mod timeline_history;
mod version;
mod watermark;
mod xid;

pub use cell::Cell;
pub use columns::ColumnSet;
pub use commit::Commit;
pub use commit_token::{CommitToken, ParseTokenError};
pub use consistency::{Consistency, ParseConsistencyError};
pub use footprint::{Access, Footprint, Grain, MAX_KEYS, MAX_TABLES, Rows};
pub use incarnation::{Epoch, Incarnation, Timeline};
pub use key::{Key, KeyBuilder};
pub use load_time::LoadTime;
pub use lsn::{Lsn, ParseLsnError};
pub use relation::{DatabaseId, RelationId};
pub use shown::{ParseShownError, Shown};
pub use snapshot::{ParseSnapshotError, Snapshot};
pub use timeline_history::{Fork, ParseHistoryError, TimelineHistory};
pub use version::Version;
pub use watermark::Watermark;
pub use xid::Xid;
