//! State of a session for a successor process, in which it goes on: as values, because interned settings
//! belong to one process.

use super::initial_settings::Beginning;
use super::parameter_status::Reports;
use super::{DirtSet, SessionState};
use crate::{Interner, MIRRORED, OWN_SETTINGS, Own, Settings, Startup};
use history::LoadTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings, by name.
pub type Pairs = Vec<(String, String)>;

/// A session's state outside a block, with no event that Consort cannot follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedState {
    /// Settings now.
    pub settings: Pairs,
    /// Initial settings, if they are known.
    pub first: Option<Pairs>,
    /// True if RESET restores the initial settings.
    pub resets: bool,
    /// Consort's own settings now, as SHOW returns them.
    pub own: Pairs,
    /// Values of Consort's own settings that RESET restores.
    pub defaults: Pairs,
    /// True if the session has had a temporary object once.
    pub had_temporary: bool,
    /// True if `random()` may be a sequence of the session's own.
    pub seeded: bool,
    /// True if the session has set any setting.
    pub any_set: bool,
    /// Settings that the server reported.
    pub reported: Pairs,
    /// True if the reports are not applied yet.
    pub moved: bool,
    /// True if the client uses UTF-8.
    pub client_utf8: bool,
    /// True if the database uses UTF-8.
    pub server_utf8: bool,
    /// Time when the backend had read the configuration ([`LoadTime::get`]).
    pub loaded_us: i64,
}

/// Settings as values.
pub fn pairs(settings: &Settings) -> Pairs {
    settings.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn interned(pairs: &Pairs, interner: &mut Interner) -> Settings {
    interner.intern(pairs.iter().cloned().collect())
}

fn shown(own: &Own) -> Pairs {
    let show = |name: &&str| Some(((*name).to_owned(), own.show(name).ok()?));
    OWN_SETTINGS.iter().filter_map(show).collect()
}

/// Consort's own settings with these values. `None`: this process does not know one of them.
fn own(shown: &Pairs, begins: &Own) -> Option<Own> {
    let mut own = begins.clone();
    for (name, value) in shown {
        own.set(name, Some(value), begins).ok()?;
    }
    Some(own)
}

impl SessionState {
    /// Writes the state down for a successor process. `None`: the session is in a block, or has dirt
    /// ([`SessionState::may_move`]).
    pub fn carried(&self) -> Option<CarriedState> {
        self.may_move().ok()?;
        // Every new field decides here if it goes along.
        let SessionState {
            defaults,
            transaction,
            dirt: _,
            probing,
            seeded,
            undecided,
            application_settings: _,
            beginning,
            reports,
            overflown: _,
            name_changes: _,
            named: _,
            parameters: _,
        } = self;
        let (now, Beginning { settings: first, resets, any_set, loaded, .. }) = (&transaction.now, beginning);
        let Reports { values, moved, client_utf8, server_utf8 } = reports;
        if transaction.failed || now.own_after.is_some() {
            return None;
        }
        let reported = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Some(CarriedState {
            settings: pairs(&now.settings),
            first: first.as_ref().map(pairs),
            resets: *resets,
            own: shown(&now.own),
            defaults: shown(defaults),
            had_temporary: probing.had_temporary,
            seeded: *seeded || *undecided,
            any_set: *any_set,
            reported: reported.collect(),
            moved: *moved,
            client_utf8: *client_utf8,
            server_utf8: *server_utf8,
            loaded_us: loaded.get(),
        })
    }

    /// Creates the state of a session that was handed over. `begins`: Consort's own settings of a session
    /// that asks for none here. `None`: this process does not know one of Consort's own settings in the
    /// message.
    pub fn of_carried(carried: &CarriedState, begins: &Own, interner: &mut Interner) -> Option<SessionState> {
        let defaults = own(&carried.defaults, begins)?;
        let startup = Startup { own: defaults.clone(), forward: Vec::new() };
        let mut state = SessionState::new(&startup, interner);
        state.transaction.now.settings = interned(&carried.settings, interner);
        state.transaction.now.own = own(&carried.own, &defaults)?;
        state.transaction.committed = state.transaction.now.clone();
        state.beginning.settings = carried.first.as_ref().map(|first| interned(first, interner));
        state.beginning.resets = carried.resets;
        let reported: BTreeMap<&str, &str> =
            carried.reported.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        for name in MIRRORED {
            if let Some(value) = reported.get(name) {
                state.reports.values.insert(name, (*value).to_owned());
            }
        }
        (state.dirt, state.probing.due) = (DirtSet::default(), false);
        (state.probing.had_temporary, state.seeded, state.beginning.any_set) =
            (carried.had_temporary, carried.seeded, carried.any_set);
        // The initial application settings are not in the message.
        (state.application_settings, state.beginning.has_application_settings) = (true, true);
        state.reports.moved = carried.moved;
        (state.reports.client_utf8, state.reports.server_utf8) = (carried.client_utf8, carried.server_utf8);
        state.beginning.loaded = LoadTime::new(carried.loaded_us);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dirt;

    #[test]
    fn a_session_goes_on_elsewhere_as_it_is() {
        let mut here = Interner::new(8);
        let pairs = [("consort.consistency", "session"), ("options", "-c app.x=1")];
        let startup = Startup::of(pairs, Own::default()).unwrap();
        let mut state = SessionState::new(&startup, &mut here);
        assert_eq!(state.carried(), None, "nothing is known of it yet");
        state.dirt = DirtSet::default();
        state.reported("TimeZone", "UTC");
        state.transaction.now.own.set("consort.tables_read", Some("a, b"), &Own::default()).unwrap();
        state.transaction.committed = state.transaction.now.clone();
        state.beginning.settings = Some(here.intern(BTreeMap::new()));
        (state.beginning.resets, state.beginning.loaded) = (true, LoadTime::new(7));
        let carried = state.carried().unwrap();
        // Another process has other identities for the same settings.
        let mut there = Interner::new(8);
        there.intern(BTreeMap::from([("datestyle".to_owned(), "ISO".to_owned())]));
        let begins = Own { read_only_is_repeatable: true, ..Own::default() };
        let mut arrived = SessionState::of_carried(&carried, &begins, &mut there).unwrap();
        assert_eq!(arrived.carried(), Some(carried.clone()));
        assert_eq!(arrived.settings().get("timezone"), None, "what is reported is not believed yet");
        arrived.ready(b'I', &mut there);
        assert_eq!(arrived.settings().get("timezone"), Some("UTC"));
        assert_eq!(arrived.consistency(), startup.own.consistency);
        assert!(arrived.transaction.now.own.read_only_is_repeatable, "that is this process's design");
        let unknown = CarriedState { own: vec![("consort.unheard".to_owned(), String::new())], ..carried };
        assert!(SessionState::of_carried(&unknown, &begins, &mut there).is_none());
        state.dirtied(Dirt::Temporary);
        assert_eq!(state.carried(), None);
    }
}
