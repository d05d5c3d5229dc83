//! One process: sockets, clocks, configuration, metrics; runs the flows.

mod barrier;
mod chance;
pub mod cluster;
pub mod config;
pub mod console;
mod console_access;
pub mod door;
mod follow;
pub mod hba;
pub mod http;
mod listening;
pub mod log_in;
mod members;
pub mod metrics;
mod overdue;
pub mod peer;
pub mod plan;
pub mod pool;
pub mod pooling;
mod process;
mod room;
pub mod routes;
mod scheduled;
pub mod servers;
pub mod service;
pub mod session;
pub mod shadow;
mod shown;
pub mod socket;
pub mod standby;
pub mod statement_log;
mod supervisor;
pub mod understanding;
mod verify;

pub use process::{Start, StartError, lookup, serve};
pub use room::check_room;
