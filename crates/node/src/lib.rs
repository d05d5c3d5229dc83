//! One process: sockets, clocks, configuration, metrics; runs the flows.

pub mod config;
pub mod console;
pub mod http;
pub mod metrics;
mod chance;
pub mod door;
pub mod log_in;
pub mod peer;
pub mod session;
pub mod socket;
