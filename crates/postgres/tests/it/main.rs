//! The engine against real servers. Every test has its own, in a temporary folder.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod analysis;
mod attach;
mod attach_waits;
mod decoder;
mod looks;
mod majors;
mod own_connections;
mod timelines;

use postgres::Error;
use postgres::address::{Address, Control};
use testkit::{LIMIT as SOON, one, soon};

/// A connection that finds tables by their names alone, as any client's.
async fn client(address: &Address) -> Result<Control, Error> {
    Control::like_a_client(address).await
}
