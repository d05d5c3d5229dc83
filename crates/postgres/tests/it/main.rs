//! The engine against real servers. Every test has its own, in a temporary folder.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod analysis;
mod apply;
mod attach;
mod attach_waits;
mod decoder;
mod local;
mod looks;
mod own_connections;
#[cfg(feature = "control-groups")]
mod small_machines;
mod timelines;
mod verify;

use postgres::Error;
use postgres::address::{Address, Control};
use std::future::Future;
use std::time::Duration;

/// What should happen soon has this long on a busy machine.
const SOON: Duration = Duration::from_secs(120);

/// A future that should be ready soon.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} not within {SOON:?}"))
}

/// A connection that finds tables by their names alone, as any client's.
async fn client(address: &Address) -> Result<Control, Error> {
    Control::like_a_client(address).await
}

/// The first value of an answer.
fn one(rows: &[Vec<Option<String>>]) -> &str {
    rows[0][0].as_deref().unwrap_or("null")
}
