//! What happened, in which order. Positions in the log, transaction identities, snapshots, versions, watermarks, footprints,
//! decoded commits, the cells of rows that they changed, and what a fed replica shows: the nouns that every other crate speaks
//! in.
//!
//! This crate is pure: it opens, waits for and asks the time of nothing. It does not know what a server, a session or a
//! proof is.

mod cell;
mod columns;
mod commit;
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
