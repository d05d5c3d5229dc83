//! The question that makes a session's state known: run at the primary when the session is idle outside a block, once
//! after each doubt about it; run at a standby connection when it is new. One row of text.

use super::settings::{Interner, MIRRORED, Settings, literal};
use std::collections::BTreeMap;

/// What is asked beside the settings: temporary relations and types, channels listened to, advisory locks of the session.
const FOUND: [(&str, Found); 3] = [
    (
        "pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0 AND (EXISTS (SELECT FROM pg_catalog.pg_class WHERE \
         relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()) OR EXISTS (SELECT FROM pg_catalog.pg_type \
         WHERE typnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()))",
        Found::Temporary,
    ),
    ("EXISTS (SELECT FROM pg_catalog.pg_listening_channels())", Found::Listening),
    (
        "EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' AND pid \
         OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())",
        Found::AdvisoryLock,
    ),
];

/// What keeps a session at the primary although its settings are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Temporary,
    Listening,
    AdvisoryLock,
}

/// The question, which also asks for these other settings.
pub(super) fn question<'a>(others: impl Iterator<Item = &'a str>) -> String {
    let mut columns: Vec<String> =
        FOUND.iter().map(|(expression, _)| format!("({expression})::pg_catalog.text")).collect();
    // Some settings came with a minor version: a missing one is NULL.
    let asked = MIRRORED.iter().copied().chain(others);
    columns.extend(asked.map(|name| format!("pg_catalog.current_setting({}, true)", literal(name))));
    format!("SELECT {}", columns.join(", "))
}

/// The answer: the settings, and what else was found. `None` if the row is not an answer to that question.
pub(super) fn answer<'a>(
    row: &[Option<&str>],
    others: impl Iterator<Item = &'a str>,
    interner: &mut Interner,
) -> Option<(Settings, Vec<Found>)> {
    let (found, values) = row.split_at_checked(FOUND.len())?;
    let names: Vec<&str> = MIRRORED.iter().copied().chain(others).collect();
    if names.len() != values.len() {
        return None;
    }
    let mut all = Vec::new();
    for (answer, (_, what)) in found.iter().zip(FOUND) {
        match *answer {
            Some("false") => {}
            Some("true") => all.push(what),
            _ => return None,
        }
    }
    let known = names
        .into_iter()
        .zip(values)
        .filter_map(|(name, value)| Some((name.to_owned(), (*value)?.to_owned())));
    Some((interner.intern(known.collect::<BTreeMap<String, String>>()), all))
}

impl Settings {
    /// The question to a new standby connection; [`Settings::of_probe`] reads its answer.
    pub fn probe() -> String {
        question(std::iter::empty())
    }

    /// The settings of a new standby connection, from the one row of text that [`Settings::probe`] gave.
    pub fn of_probe(row: &[Option<&str>], interner: &mut Interner) -> Option<Settings> {
        answer(row, std::iter::empty(), interner).map(|(settings, _)| settings)
    }
}
