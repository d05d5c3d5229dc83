//! One process: sockets, clocks, configuration, metrics; runs the flows.

mod console_access;
mod members;
mod open_files;
mod overdue;
mod places;
mod process;
mod room;
mod serve;
mod shown;
mod start_error;
mod supervisor;
mod takeover;
mod verify;

pub use process::{StartsAgain, lookup};
pub use room::check_room;
pub use serve::{Start, serve};
pub use start_error::StartError;
pub use takeover::{Heir, NoHeir};
