//! The beginning of a session: its initial settings, and whether RESET restores them.

use crate::settings::Settings;
use history::LoadTime;

/// The beginning of a session.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    /// Initial settings of the session's connection. They are known if a probe came before any SET, or if the
    /// connection is pooled. Settings that differ from them were set by the session.
    pub(super) settings: Option<Settings>,
    /// RESET restores them: no reload came between.
    pub(super) resets: bool,
    /// The session may have set something.
    pub(super) any_set: bool,
    /// The session began with settings of applications or extensions, or roles and databases have such settings.
    pub(super) has_application_settings: bool,
    /// Time when the backend had last read the configuration, as the last probe found it.
    pub(super) loaded: LoadTime,
}

impl Default for Beginning {
    fn default() -> Beginning {
        Beginning {
            settings: None,
            resets: false,
            any_set: false,
            has_application_settings: false,
            loaded: LoadTime::UNKNOWN,
        }
    }
}
