//! Decisions of the in-memory tier: the flow of a commit, the master's line of versions, epochs, members, and tags of reads.
//!
//! `memory-tier` runs them over threads, sockets and files, `sim` over a model. So the simulator attacks the code that runs in
//! production.
//!
//! # Invariants
//!
//! - A version is shown at the master when every member has received it, and acknowledged after that.
//! - A version above the decided one is dropped by a node before it takes a part in a newer epoch.
//! - A member that stands still leaves the acknowledgement within [`STALL_LIMIT`].
//! - The tag of a read is the newest acknowledged version: it never falls.
//!
//! # Absent knowledge
//!
//! This crate does not know pages, SQL, a connection or a clock. Times are durations since a moment of the caller.

mod bugs;
mod commit;
mod epochs;
mod line;
mod members;

pub use bugs::{Bug, Bugs};
pub use commit::{Master, commit_eager};
pub use epochs::{Epoch, Epochs, Standing, master_of};
pub use line::{Line, Next};
pub use members::{Members, NodeProgress, STALL_LIMIT, Tags, promoted_spares};

/// Version of the tier's database: the number of commits that made it. Zero is empty.
pub type Version = u64;
