//! Parameters of extensions (`pg_trgm.similarity_threshold`). No view lists them before the library is loaded, so a probe reads
//! them by name: once a statement depends on them in a session in which code may have set them.

use super::SessionState;
use statement_analysis::template::Dependencies;
use std::collections::BTreeSet;

/// The parameters that statements of a session depend on.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    /// Parameters that the next probe also reads.
    pub(super) asked: BTreeSet<&'static str>,
    /// Parameters that a probe has read, with no event since that may have changed them out of sight.
    known: BTreeSet<&'static str>,
}

impl Parameters {
    /// Records that a probe has read what was asked for.
    pub(super) fn were_asked(&mut self) {
        self.known.append(&mut self.asked);
    }

    /// Records an event that may have changed any parameter.
    pub(super) fn may_have_changed(&mut self) {
        self.known.clear();
    }
}

/// True if extensions may have state in the session that this statement depends on and a standby's connection lacks: code has
/// run that may have set it, or roles and databases have parameters of extensions.
pub fn may_have_extension_state(state: &SessionState, on: &Dependencies) -> bool {
    (on.extension_state || !on.parameters.is_subset(&state.parameters.known))
        && (state.is_seeded() || state.beginning.has_application_settings)
}

/// Makes the next probe read the parameters that this statement depends on. False if that is needless, or does not suffice.
pub fn asks_for_parameters(state: &mut SessionState, on: &Dependencies) -> bool {
    let asks = !on.extension_state && may_have_extension_state(state, on);
    if asks {
        state.parameters.asked.extend(&on.parameters);
        state.probing.due = true;
    }
    asks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::{Assignment, NewValue, Utility};
    use crate::{Dirt, Interner, MIRRORED, Own, Startup};

    /// Result of a probe that finds nothing, with this value of the one parameter that it also reads.
    fn row(parameter: Option<&str>) -> String {
        let first = ["false", "false", "false", "false", "0000000000000001"].map(str::to_owned);
        let all = first.into_iter().chain(MIRRORED.iter().map(|_| "x".to_owned()));
        format!("{{{}}}", all.chain(parameter.map(str::to_owned)).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn parameter_is_known_once_a_probe_read_it() {
        const NAME: &str = "pg_trgm.similarity_threshold";
        let on = Dependencies { parameters: BTreeSet::from([NAME]), ..Dependencies::default() };
        let hidden = Dependencies { extension_state: true, ..Dependencies::default() };
        let mut interner = Interner::new(8);
        let mut state = SessionState::new(&Startup::of([], Own::default()).unwrap(), &mut interner);
        state.probed(&[Some(&row(None))], &mut interner).unwrap();
        assert!(!may_have_extension_state(&state, &on), "no code has run");
        assert!(!asks_for_parameters(&mut state, &on) && state.probe().is_none());
        state.dirtied(Dirt::Function);
        state.probed(&[Some(&row(None))], &mut interner).unwrap();
        assert!(may_have_extension_state(&state, &on) && may_have_extension_state(&state, &hidden));
        assert!(!asks_for_parameters(&mut state, &hidden), "no probe can tell");
        assert!(asks_for_parameters(&mut state, &on) && state.probe().unwrap().contains(NAME));
        state.probed(&[Some(&row(Some("0.9")))], &mut interner).unwrap();
        assert_eq!(state.settings().get(NAME), Some("0.9"));
        assert!(!may_have_extension_state(&state, &on) && may_have_extension_state(&state, &hidden));
        for dirt in [Dirt::Function, Dirt::Code, Dirt::Unknown, Dirt::Unjudged, Dirt::Setting, Dirt::Reload] {
            let mut state = state.clone();
            state.dirtied(dirt);
            assert!(may_have_extension_state(&state, &on), "{dirt}");
        }
        let reset = Assignment { name: NAME.to_owned(), local: false, value: NewValue::Reset };
        for utility in
            [Utility::Set(reset), Utility::ResetAll, Utility::Discard(crate::utility::Discard::All)]
        {
            let mut state = state.clone();
            state.completed(&utility, &mut interner);
            assert!(may_have_extension_state(&state, &on), "the initial value is not known: {utility:?}");
        }
    }
}
