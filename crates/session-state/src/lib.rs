//! State of one client's session: its settings, its transaction block, and every event that Consort cannot
//! follow. A statement may be offloaded only if everything that its result depends on is known, and can be
//! made equal at a standby.
//!
//! The state is a machine without time. Its inputs are completions, failures, reports of the server, and the
//! moments when the server is ready. The node queries the state before each statement. Standbys are unknown
//! to this crate.

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
pub use consort_settings::{LAST_COMMIT, NOT_BEFORE, OWN_SETTINGS, Own, SettingError, set_by_function};
pub use dirt::Dirt;
pub use settings::{ANALYSED_UNDER, Interner, MIRRORED, PARSED_UNDER, Settings, WRITTEN_UNDER};
pub use startup::Startup;
pub use state::{
    Answer, CarriedState, Pairs, SessionState, asks_for_parameters, calls_set_config,
    may_have_extension_state, not_before, pairs,
};
pub use stay::SessionStay;
