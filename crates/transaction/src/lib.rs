//! The flows: one statement, one commit, one block, one snapshot from begin to end, each in one place.
//!
//! A flow decides where a statement runs and which answer is sent. The flows are written over two traits,
//! [`Cluster`] and [`Session`], which `node` implements over sockets and `sim` over a model, so that the
//! simulator attacks the code that runs in production. This crate is pure: it opens nothing, asks no clock
//! and knows no runtime. The crate does not know statements, messages or sockets, and it does not decide what
//! is proven: that is `scheduler`.
//!
//! A flow may be dropped at any `await` (the client went away): its ticket is given back and its in-flight
//! write set goes on, because both are guards.

mod block;
mod bugs;
mod doubt;
mod pinned;
mod read;
mod refresh;
mod snapshot;
mod turn;
mod whole;
mod world;
mod write;

pub use block::{BLOCK_NOT_OPEN, Block, LOCK_REFUSED, MANY_READS, OWN_WRITES, Standing, UNPROVEN_IN_BLOCK};
pub use bugs::{Bug, Bugs};
pub use doubt::InDoubt;
pub use pinned::Pinned;
pub use read::{Ended, read};
pub use refresh::{Refresh, refresh};
pub use snapshot::{SNAPSHOT_ATTEMPTS, catalog_shown, snapshot};
pub use turn::{Turn, turn};
pub use whole::{Placed, WHOLE_ATTEMPTS, read_whole, shown_by, snapshot_whole};
pub use world::{AtPrimary, Backend, Cluster, Delivered, Locks, Session, StandbyFailed};
pub use write::{quiet, write};
