//! The order in which the primary has shown commits. Input: snapshot probes and decoded commits. Output:
//! settled probes, in-flight write sets, versions and boundaries.
//!
//! The primary of a PostgreSQL cluster does not say in which order its commits become visible, and a client's
//! connection may die while its commit is on the way. The following is known all the same, and this crate
//! keeps it:
//!
//! - A **snapshot probe** (`Gauge`) is one look at the primary: its snapshot and, read after it, its WAL
//!   position. The probe is **settled** for a database when every commit of that database which the snapshot
//!   sees has come out of the decoder. Only then does it prove anything, and only for callers that wanted it
//!   before it was sent.
//! - An **in-flight write set** (doubt) is the time in which a commit may or may not be visible at the
//!   primary: from the first byte sent that may commit until a settled probe that was sent after the answer.
//!   An error or a lost connection ends nothing.
//! - A **boundary** is the state of a settled probe, for a database whose commits are
//!   [placed](Order::place_commits): a state that the primary has shown, and the commits that it has more
//!   than the boundary before, each with its **version**. Logical replicas show boundaries and nothing
//!   between.
//!
//! ```text
//!    client's commit     |--- sent ---- visible? ---- answer |
//!    in-flight writes    [=====================================================)
//!    snapshot probe                                           sent  answered  settled (decoder caught up)
//! ```
//!
//! This crate is pure: it opens nothing, waits for nothing and asks no clock. The crate does not know
//! standbys, sessions or statements. See [`Order`].

mod boundary;
mod bugs;
mod commit_placement;
mod counts;
mod database;
mod finished_transactions;
mod in_flight_write;
mod in_flight_writes;
mod order;
mod snapshot_probe;
mod versions;

pub use boundary::{Boundary, Placed, RunNumber};
pub use bugs::{Bug, Bugs};
pub use counts::Counts;
pub use in_flight_write::{DoubtId, DoubtState, DoubtView};
pub use order::{Options, Order};
pub use snapshot_probe::{Gauge, GaugeNumber, Void};
