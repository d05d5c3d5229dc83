//! Every node takes writes. A client's session is placed at one node; each commit gets its place in one order from the
//! certifier, is made durable by the ledger, and is brought to the other nodes by appliers.
//!
//! ```text
//!    client --- session --- node 1      capture/ notes what a transaction touches
//!                  |
//!              certifier                first committer wins
//!                  |
//!               ledger                  one fsync for all that wait
//!                  |
//!       applier 2    applier 3          records in their order, several in one transaction
//! ```
//!
//! # Invariants
//!
//! - A version is given and appended to the ledger in one step: both have one order.
//! - A node shows versions without gaps: each is committed there behind all earlier ones, once (`consort.version`).
//! - What is durable in the ledger is committed, whatever becomes of the session and the node where it ran.
//! - A record comes before every transaction without a version: such a transaction is ended if it is in the way.
//! - The label of a snapshot is read before the snapshot: a snapshot may only be newer than its label.
//!
//! This crate does not know what a listening socket, a log-in of a client or the console is.

mod applier;
mod blockers;
mod capture_kind;
mod database;
mod engine;
mod install;
mod node_connection;
mod nodes;
mod notes;
mod options;
mod placement;
mod record;
mod script;
mod session;
mod statement;
mod timer;
mod user_code;

pub use certified_flow::State;
pub use options::{Engines, NodeOptions, Options};
pub use placement::{Cluster, Entrance, Held, Shown};
