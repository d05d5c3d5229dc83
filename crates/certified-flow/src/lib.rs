//! The flows of the designs whose nodes all take writes: the start of a transaction, its commit, and the applier of a node.
//! With them what they move: the order of a database, and each node's site in it.
//!
//! The flows are written over two traits. `certified` implements [`Session`] and [`Node`] over connections to PostgreSQL;
//! `sim` implements them over a model, so that the simulator attacks the code that runs in production.
//!
//! # Invariants
//!
//! - A version is given and appended to the ledger in one step: both have one order.
//! - A node shows versions without gaps: each is committed there after all earlier versions, once.
//! - A durable record is committed, whatever becomes of the session and the node where it ran.
//! - A COMMIT is sent before its predecessor is shown only where the server makes it wait for that one.
//! - The label of a snapshot is read before the snapshot: a snapshot may only be newer than its label.
//!
//! # Absent knowledge
//!
//! This crate does not know SQL, a connection, a client's protocol or a runtime. Limits of time are kept by the traits'
//! implementers.

mod bringing;
mod bugs;
mod claim;
mod commit;
mod commit_order;
mod follow;
mod forced_aborts;
#[cfg(test)]
mod one_item;
mod order;
mod recent;
mod session;
mod site;
mod start;
mod write_set;

pub use bringing::Bringing;
pub use bugs::{Bug, Bugs};
pub use claim::{Cancellation, Claim, Sends};
pub use commit::{HANG_LIMIT, commit_certified};
pub use commit_order::CommitOrder;
pub use follow::{ALIVE_EVERY, Node, follow};
pub use order::{Conflict, Hold, Options, Order, RECORD_LIMIT_BYTES};
pub use session::{NotCommitted, Run, Session, Timer};
pub use site::{Place, Site, State};
pub use start::{Behind, start};
pub use write_set::WriteSet;
