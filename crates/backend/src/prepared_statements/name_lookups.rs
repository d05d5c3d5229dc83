//! Time of a server's last name lookup for a named statement. PostgreSQL looks names up at the Parse. It does
//! so again at a Bind or Describe after the search path, the temporary schema or an object of the statement
//! has changed. A new object that precedes the found one causes no lookup.
//!
//! A read at a standby causes no lookup at the primary. So a read is offloaded only if the primary would look
//! up nothing for it either. Otherwise its next execution runs at the primary.

use super::{Statements, Under};
use cluster::{Names, NamesAt};
use session_state::Settings;

/// The state of a session under which names are looked up.
#[derive(Clone, Debug, Default)]
pub(super) struct LookedUp {
    /// The settings, where they are known.
    settings: Option<Settings>,
    /// Changes of the session itself so far: see [`session_state::SessionState::name_changes`].
    changes: u64,
    /// Objects that the names stood for.
    names: NamesAt,
    /// The request of the session.
    request: u64,
}

impl LookedUp {
    /// Under this, in this request.
    pub(super) fn of(under: &Under, request: u64) -> LookedUp {
        let Under { known, name_changes, names, .. } = under;
        LookedUp { settings: known.clone(), changes: *name_changes, names: names.clone(), request }
    }
}

impl Statements {
    /// Checks if the primary would look up nothing for this statement under these settings, after so many
    /// changes of the session's own. `names`: other sessions' changes count too.
    pub fn are_names_looked_up(
        &self,
        name: &[u8],
        settings: Option<&Settings>,
        changes: u64,
        names: Option<&Names>,
    ) -> bool {
        let Some(then) = self.parsed(name).map(|parsed| &parsed.looked_up) else { return false };
        let same_path = match (&then.settings, settings) {
            (Some(then), Some(now)) => then.find_as(now),
            _ => false,
        };
        same_path && then.changes == changes && names.is_none_or(|names| names.are_those_of(&then.names))
    }

    /// The primary looks up the names of this statement now, if that is due.
    pub fn names_are_looked_up(&mut self, name: &[u8]) {
        let now = LookedUp::of(&self.under, self.request);
        if let Some(parsed) = self.parsed_mut(name) {
            parsed.looked_up = now;
        }
    }

    /// The request has failed, perhaps before names were looked up.
    pub fn names_may_be_unlooked(&mut self) {
        let request = self.request;
        for parsed in self.named.values_mut().filter(|parsed| parsed.looked_up.request == request) {
            parsed.looked_up.settings = None;
        }
    }
}
