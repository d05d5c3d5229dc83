//! What the primary has shown: gauges and decoded commits in; settled gauges, doubts, versions and boundaries out.
//!
//! The primary of a PostgreSQL cluster does not say in which order its commits become visible, and a client's
//! connection may die while its commit is on the way. Two things are known all the same, and this crate keeps them:
//!
//! - A **gauge** is one look at the primary: its snapshot and, read after it, its log position. It is **settled** for a
//!   database when every commit of that database which the snapshot sees has come out of the decoder. Only then does it
//!   prove anything, and only for those who wanted it before it was sent.
//! - A **doubt** is the time in which a commit may or may not be visible at the primary: from the first byte sent that
//!   may commit until a settled gauge that was sent after the answer. An error or a lost connection ends nothing.
//! - A **boundary** is what a settled gauge ends in, for a database whose commits are [placed](Order::place_commits): a
//!   state that the primary has shown, and the commits that it has more than the boundary before, each with its
//!   **version**. It is for replicas that are fed with commits: they show boundaries and nothing between.
//!
//! ```text
//!    client's commit   |--- sent ---- visible? ---- answer |
//!    doubt             [=====================================================)
//!    gauge                                                    sent  answered  settled (decoder has caught up)
//! ```
//!
//! This crate is pure: it opens, waits for and asks the time of nothing. It does not know what a standby, a session or
//! a statement is. See [`Order`].

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
