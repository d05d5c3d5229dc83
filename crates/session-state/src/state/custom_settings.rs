//! Application settings (`app.tenant`) that the client names in calls of `set_config`. No view lists such
//! settings, so the next probe reads these by their names; the result is NULL for a setting that does not
//! exist.

use super::SessionState;
use crate::consort_settings::SET_CONFIG;
use statement_analysis::Parameter;
use std::collections::BTreeSet;

/// Longest name of a setting, in bytes: PostgreSQL's limit for names in its lists.
const LONGEST: usize = 63;
/// Maximum number of settings that a session may name; a session with more is pinned to its connection.
const MOST: usize = 64;

/// Settings that were named, until a probe has read them.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    names: BTreeSet<String>,
    /// The statement that named them has begun to run.
    runs: bool,
}

impl Named {
    /// Records that code begins to run.
    pub(super) fn code_runs(&mut self) {
        self.runs = true;
    }

    /// Records that a probe has read the settings. A statement that has not run by then has set nothing yet.
    pub(super) fn were_asked(&mut self) {
        if std::mem::take(&mut self.runs) {
            self.names.clear();
        }
    }
}

impl SessionState {
    /// Records a text with its parameters that the client sends and that is no plain read. `runs`: the text
    /// executes, by name, a prepared statement that calls `set_config`.
    pub fn names_settings(&mut self, text: &str, parameters: &[Parameter<'_>], runs: bool) {
        let text = text.as_bytes();
        let mut is_computed = runs;
        for argument in first_arguments(text) {
            match argument {
                First::Text(name) => self.names(name),
                First::Parameter(number) => match number.checked_sub(1).and_then(|at| parameters.get(at)) {
                    Some(parameter) => given(parameter).into_iter().for_each(|name| self.names(name)),
                    None => is_computed = true,
                },
                First::Computed => is_computed = true,
            }
        }
        if is_computed {
            quoted(text).chain(parameters.iter().filter_map(given)).for_each(|name| self.names(name));
        }
    }

    fn names(&mut self, name: &[u8]) {
        let Some(name) = name_of_application(name) else { return };
        if self.named.names.len() >= MOST {
            self.overflown = true;
            return;
        }
        self.named.runs = false;
        self.named.names.insert(name);
        self.application_settings = true;
    }

    /// Settings that the probe does not read from every session: the known ones, the named ones, and parameters of extensions.
    pub(super) fn asked(&self) -> impl Iterator<Item = &str> {
        let settings = &self.transaction.now.settings;
        let named = &self.named.names;
        let parameters = self.parameters.asked.iter().copied().filter(|name| !named.contains(*name));
        let more = named.iter().map(String::as_str).chain(parameters);
        settings.others().chain(more.filter(|name| settings.get(name).is_none()))
    }
}

/// True if a text calls `set_config`, as far as it shows.
pub fn calls_set_config(text: &[u8]) -> bool {
    first_arguments(text).next().is_some()
}

/// First argument in the parentheses of a call.
#[derive(Debug, PartialEq, Eq)]
enum First<'t> {
    Text(&'t [u8]),
    Parameter(usize),
    /// An expression, whose value the text does not show.
    Computed,
}

/// First arguments of all calls of `set_config`, also in the texts of functions.
fn first_arguments(text: &[u8]) -> impl Iterator<Item = First<'_>> {
    let is_call = |at: &usize| {
        text[*at..]
            .get(..SET_CONFIG.len())
            .is_some_and(|word| word.eq_ignore_ascii_case(SET_CONFIG.as_bytes()))
    };
    places(text, |byte| byte.eq_ignore_ascii_case(&b's')).filter(is_call).filter_map(|at| {
        let behind = &text[at + SET_CONFIG.len()..];
        let behind = behind.strip_prefix(b"\"").unwrap_or(behind).trim_ascii_start();
        Some(first(behind.strip_prefix(b"(")?.trim_ascii_start()))
    })
}

fn first(argument: &[u8]) -> First<'_> {
    match argument {
        [b'\'', name @ ..] => {
            First::Text(&name[..name.iter().position(|byte| *byte == b'\'').unwrap_or(name.len())])
        }
        [b'$', number @ ..] => {
            let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(&number[..digits]).ok().and_then(|number| number.parse().ok());
            number.map_or(First::Computed, First::Parameter)
        }
        _ => First::Computed,
    }
}

fn given<'p>(parameter: &Parameter<'p>) -> Option<&'p [u8]> {
    match parameter {
        Parameter::Text(value) | Parameter::Binary(value) => Some(value),
        Parameter::Null | Parameter::Unknown => None,
    }
}

fn places(text: &[u8], of: impl Fn(&u8) -> bool) -> impl Iterator<Item = usize> {
    text.iter().enumerate().filter(move |(_, byte)| of(byte)).map(|(at, _)| at)
}

/// Texts between two consecutive quotes, whatever the quotes mean: in a literal, or in the text of a
/// function.
fn quoted(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let quotes = || places(text, |byte| *byte == b'\'');
    quotes().zip(quotes().skip(1)).map(|(from, to)| &text[from + 1..to])
}

/// The name in small letters, if it may be the name of an application setting: words with dots between.
/// Consort's own settings are excluded.
fn name_of_application(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= LONGEST)?.to_ascii_lowercase();
    let is_word = |word: &str| {
        let starts = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        word.starts_with(starts) && word.chars().all(|c| starts(c) || c.is_ascii_digit() || c == '$')
    };
    let is_whole = name.contains('.') && name.split('.').all(is_word) && !name.starts_with("consort.");
    is_whole.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dirt, Interner, Own, Startup};

    #[test]
    fn what_a_client_names_where_it_may_set_it_is_asked_for() {
        let mut interner = Interner::new(8);
        let mut session = SessionState::new(&Startup::of([], Own::default()).unwrap(), &mut interner);
        let mut named = |text: &str, parameters: &[&[u8]], runs: bool| {
            let parameters: Vec<_> = parameters.iter().map(|value| Parameter::Text(value)).collect();
            session.named = Named::default();
            session.names_settings(text, &parameters, runs);
            session.asked().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        for (text, names) in [
            ("SELECT set_config('App.User', 'j.doe', false)", "app.user"),
            (
                "select PG_CATALOG.\"set_config\" ( 'a.b', '1', false), set_config('a.c', '2', false)",
                "a.b a.c",
            ),
            (
                "SELECT set_config(k, v, false) FROM (VALUES ('a.b', 'x'), ('a.c', 'y')) AS s (k, v)",
                "a.b a.c",
            ),
            ("DO $$BEGIN PERFORM set_config('app.it', 'b', false); END$$", "app.it"),
            ("PREPARE p AS SELECT set_config($1, $2, false); EXECUTE p('app.it', 'b')", "app.it"),
            ("SELECT set_config('work_mem', '1MB', false)", ""),
            ("SELECT set_config('consort.consistency', 'weak', false)", ""),
            ("SELECT set_config('1.2', 'a.c', false)", ""),
            ("SELECT 'app.user'", ""),
        ] {
            assert_eq!(named(text, &[], false), names, "{text}");
        }
        assert_eq!(named("SELECT set_config($2, $1, false)", &[b"j.doe", b"app.user"], false), "app.user");
        assert_eq!(named("EXECUTE sets('app.user', 'bob')", &[], true), "app.user");
        assert_eq!(named("EXECUTE inserts('report.pdf')", &[], false), "");
        assert!(!session.overflown);
        session.named.were_asked();
        assert_eq!(session.asked().count(), 0);
        session.names_settings("SELECT set_config('a.b', '1', false)", &[], false);
        session.named.were_asked();
        assert_eq!(session.asked().count(), 1, "it has not run");
        session.dirtied(Dirt::Function);
        session.named.were_asked();
        assert_eq!(session.asked().count(), 0);
        (0..=MOST).for_each(|at| {
            session.names_settings(&format!("SELECT set_config('a.n{at}', '', true)"), &[], false)
        });
        assert!(session.overflown, "it keeps its connection");
    }
}
