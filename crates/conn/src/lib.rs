//! Connections: sockets, peers with their buffers, log-in at a server, and the registry of clients.

pub mod log_in;
pub mod peer;
pub mod random;
pub mod registry;
pub mod secrets;
pub mod socket;
