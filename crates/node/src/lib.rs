//! One process: sockets, clocks, configuration, metrics; runs the flows.

pub mod config;
pub mod console;
pub mod http;
pub mod metrics;
