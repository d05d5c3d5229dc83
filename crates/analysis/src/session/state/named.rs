//! Settings of applications (`app.tenant`) that the client names where it may call `set_config`. No view lists such settings, so
//! that the next probe asks for these by their names; where there is none of that name the answer is NULL.

use super::SessionState;
use crate::template::Parameter;

/// The function that sets a setting.
const SET_CONFIG: &[u8] = b"set_config";
/// PostgreSQL's limit for a name in its lists.
const LONGEST: usize = 63;
/// Whoever names more keeps its connection.
const MOST: usize = 64;

impl SessionState {
    /// The client sends this text with these parameters, and it may do what no plain read does. What it runs by the name of a
    /// statement (EXECUTE) may call what the text does not show.
    pub fn names_settings(&mut self, text: &str, parameters: &[Parameter<'_>]) {
        let text = text.as_bytes();
        if !calls_set_config(text) && !runs_by_name(text) {
            return;
        }
        let given = parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Text(value) | Parameter::Binary(value) => Some(*value),
            Parameter::Null | Parameter::Unknown => None,
        });
        for name in quoted(text).chain(given).filter_map(name_of_application) {
            if self.named.len() >= MOST {
                self.overflown = true;
                return;
            }
            self.named.insert(name);
            self.application_settings = true;
        }
    }

    /// The settings that not every session is asked for: those that are known, and those that were named.
    pub(super) fn asked(&self) -> impl Iterator<Item = &str> {
        let settings = &self.now.settings;
        let named = self.named.iter().map(String::as_str).filter(|name| settings.get(name).is_none());
        settings.others().chain(named)
    }
}

fn calls_set_config(text: &[u8]) -> bool {
    places(text, |byte| byte.eq_ignore_ascii_case(&b's')).any(|at| {
        text[at..].get(..SET_CONFIG.len()).is_some_and(|part| part.eq_ignore_ascii_case(SET_CONFIG))
    })
}

fn places(text: &[u8], of: impl Fn(&u8) -> bool) -> impl Iterator<Item = usize> {
    text.iter().enumerate().filter(move |(_, byte)| of(byte)).map(|(at, _)| at)
}

fn runs_by_name(text: &[u8]) -> bool {
    text.trim_ascii_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case(b"EXECUTE"))
}

/// What stands between two quotes that follow each other, whatever they mean: in a literal, or in the text of a function.
fn quoted(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let quotes = || places(text, |byte| *byte == b'\'');
    quotes().zip(quotes().skip(1)).map(|(from, to)| &text[from + 1..to])
}

/// The name in small letters, if it may be that of an application's setting: words with dots between. Consort's own are not.
fn name_of_application(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= LONGEST)?.to_ascii_lowercase();
    let is_word = |word: &str| {
        let starts = |c: char| c.is_alphabetic() || c == '_';
        word.starts_with(starts) && word.chars().all(|c| starts(c) || c.is_ascii_digit() || c == '$')
    };
    let is_whole = name.contains('.') && name.split('.').all(is_word) && !name.starts_with("consort.");
    is_whole.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Interner, Own, Startup};

    #[test]
    fn what_a_client_names_where_it_may_set_it_is_asked_for() {
        let mut interner = Interner::new(8);
        let mut session = SessionState::new(&Startup::of([], Own::default()).unwrap(), &mut interner);
        let mut named = |text: &str, parameters: &[Parameter<'_>]| {
            session.named.clear();
            session.names_settings(text, parameters);
            session.asked().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named("SELECT set_config('App.User', 'bob', false)", &[]), "app.user");
        assert_eq!(
            named("select PG_CATALOG.SET_CONFIG($1, $2, false)", &[Parameter::Text(b"app.user")]),
            "app.user"
        );
        assert_eq!(
            named("SELECT set_config(k, v, false) FROM (VALUES ('a.b', 'x'), ('a.c', 'y')) AS s (k, v)", &[]),
            "a.b a.c"
        );
        assert_eq!(named("DO $$BEGIN PERFORM set_config('app.it', 'b', false); END$$", &[]), "app.it");
        assert_eq!(named("EXECUTE sets('app.user', 'bob')", &[]), "app.user");
        for nothing in [
            "SELECT set_config('work_mem', '1MB', false)",
            "SELECT set_config('consort.consistency', 'weak', false)",
            "SELECT 'app.user'",
            "SELECT set_config('1.2', 'a b.c', false)",
        ] {
            assert_eq!(named(nothing, &[]), "", "{nothing}");
        }
    }
}
