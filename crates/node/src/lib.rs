//! One process: sockets, clocks, configuration, metrics; runs the flows.

pub mod config;
pub mod console;
pub mod http;
pub mod metrics;
mod chance;
pub mod door;
pub mod log_in;
pub mod peer;
pub mod pool;
pub mod session;
pub mod socket;
pub mod standby;
mod console_access;
mod process;
mod shown;

pub use process::{Start, StartError, serve};
