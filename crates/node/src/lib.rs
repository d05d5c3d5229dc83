//! One process: sockets, clocks, configuration, metrics; runs the flows.

pub mod config;
