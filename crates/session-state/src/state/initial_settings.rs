//! The beginning of a session: its first settings, and whether RESET goes back to them.

use crate::settings::Settings;
use history::LoadTime;

/// The beginning of a session.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    /// The settings with which its connection began; known if a probe came before any SET, or if others share the connection.
    /// What differs from them the session has set itself.
    pub(super) settings: Option<Settings>,
    /// RESET goes back to them: no reload came between.
    pub(super) resets: bool,
    /// The session may have set something.
    pub(super) any_set: bool,
    /// When its process had last read the configuration, as the last probe found it.
    pub(super) loaded: LoadTime,
}

impl Default for Beginning {
    fn default() -> Beginning {
        Beginning { settings: None, resets: false, any_set: false, loaded: LoadTime::UNKNOWN }
    }
}
