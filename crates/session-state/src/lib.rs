//! What is known of one client's session: its settings, its block, and whether anything may have happened to it that
//! nobody can follow. A statement may leave the primary only if all that its result depends on is known and can be made
//! equal at a standby.
//!
//! The state is a machine without time: it is told what completed, what failed, what the server reported, and when the
//! server was ready again; the node asks it before each statement. It does not know what a standby is.

mod block_status;
mod consort_settings;
mod dirt;
pub mod instant;
mod probe;
mod settings;
mod startup;
mod state;
mod stay;
#[cfg(test)]
mod tests;
pub mod utility;

pub use block_status::BlockStatus;
pub use consort_settings::{OWN_SETTINGS, Own, SettingError, set_by_function};
pub use dirt::Dirt;
pub use settings::{ANALYSED_UNDER, Interner, MIRRORED, PARSED_UNDER, Settings, WRITTEN_UNDER};
pub use startup::Startup;
pub use state::{Answer, CarriedState, Pairs, SessionState, calls_set_config, pairs};
pub use stay::SessionStay;
