//! Local servers: made, cloned, started, stopped. Every test has its own, in a temporary folder.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod servers;
#[cfg(feature = "control-groups")]
mod small_machines;

use testkit::{LIMIT as SOON, one};
