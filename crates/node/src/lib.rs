//! One process: sockets, clocks, configuration, metrics; runs the flows.

mod connection_budget;
mod console_access;
mod console_view;
mod key_value;
mod listen_addresses;
mod node_console;
mod open_files;
mod peers;
mod process;
mod replica_configuration;
mod serve;
mod start;
mod start_error;
mod supervisor;
mod takeover;
mod tier;
mod timeouts;
mod verify;

pub use connection_budget::check_room;
pub use process::{StartsAgain, lookup};
pub use serve::serve;
pub use start::Start;
pub use start_error::StartError;
pub use takeover::{Heir, NoHeir};
