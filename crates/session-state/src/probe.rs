//! The probe query, which makes a session's state known. At the primary the probe runs when the session is
//! idle outside a block, once after each event that leaves the state unknown. At a standby the probe runs on
//! each new connection.
//!
//! The result is one row with one array of text, an element for each item. The query costs a busy server 0.3
//! ms. PostgreSQL parses and plans one function over one list, and the catalogs of temporary objects are read
//! only in a session that has ever had one.

use crate::settings::{Interner, MIRRORED, NOT_KEPT, Settings};
use history::LoadTime;
use statement_analysis::sql::literal;
use std::collections::BTreeMap;

/// Precision of the check for temporary objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temporary {
    /// Checks if the session has a temporary schema. Once created, the schema stays.
    Schema,
    /// Checks if the temporary schema holds any object.
    Objects,
}

/// Finding that keeps a session at the primary although its settings are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Temporary,
    Listening,
    AdvisoryLock,
    /// A role or a database has initial settings that may belong to an application (`app.user`), which no
    /// view lists.
    ApplicationSettings,
}

const FOUND: [Found; 4] =
    [Found::Temporary, Found::Listening, Found::AdvisoryLock, Found::ApplicationSettings];

const TEMPORARY_SCHEMA: &str = "pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0::pg_catalog.oid";
/// Checks for temporary objects of any kind: everything that DROP of the schema would drop.
const TEMPORARY_OBJECTS: &str = "EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) \
     2615::pg_catalog.oid AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema())";
const LISTENING: &str = "EXISTS (SELECT FROM pg_catalog.pg_listening_channels())";
const ADVISORY_LOCK: &str = "EXISTS (SELECT FROM pg_catalog.pg_lock_status() AS l WHERE l.locktype \
     OPERATOR(pg_catalog.=) 'advisory' AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())";
/// Checks for application settings of any role or database. Checking for the session's own alone would more
/// than double the query's time.
const APPLICATION_SETTINGS: &str = "EXISTS (SELECT FROM pg_catalog.pg_db_role_setting AS s WHERE \
     pg_catalog.strpos(pg_catalog.array_to_string(s.setconfig, ' '), '.') OPERATOR(pg_catalog.>) 0)";

/// Time when the backend last read the configuration, as its 64 bits: no setting of the session changes its
/// form.
const LOADED: &str = "pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.pg_conf_load_time()), 'hex')";

/// Treatment of a setting in the probe query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// Reads the value.
    Value,
    /// Reads the value, and fixes it in the connection: a reload of the server's configuration no longer
    /// changes it. Not possible for settings that only a superuser may set.
    Keep,
}

/// State of a session after a probe.
pub(crate) struct Probed {
    pub(crate) settings: Settings,
    /// Time when the backend last read the configuration.
    pub(crate) loaded: LoadTime,
    pub(crate) found: Vec<Found>,
}

/// The probe query, which also reads the `others`. All names in it are schema-qualified, so that its meaning
/// does not depend on search_path.
pub(crate) fn question<'a>(others: impl Iterator<Item = &'a str>, temporary: Temporary) -> String {
    text(others, temporary, Ask::Value)
}

fn text<'a>(others: impl Iterator<Item = &'a str>, temporary: Temporary, ask: Ask) -> String {
    let temporary = match temporary {
        Temporary::Schema => TEMPORARY_SCHEMA,
        Temporary::Objects => TEMPORARY_OBJECTS,
    };
    let asked_first = [temporary, LISTENING, ADVISORY_LOCK, APPLICATION_SETTINGS, LOADED];
    let cases = asked_first.iter().enumerate().map(|(place, expression)| {
        format!("WHEN n OPERATOR(pg_catalog.=) '?{place}' THEN ({expression})::pg_catalog.text ")
    });
    let asked = (0..asked_first.len()).map(|place| format!("?{place}"));
    let names = MIRRORED.iter().copied().chain(others).map(str::to_owned);
    let quoted =
        asked.chain(names).map(|name| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")));
    let list = format!("{{{}}}", quoted.collect::<Vec<String>>().join(","));
    // Some settings came with a minor version: a missing one is NULL.
    let value = match ask {
        Ask::Value => "ELSE pg_catalog.current_setting(n, true)".to_owned(),
        Ask::Keep => format!(
            "WHEN n OPERATOR(pg_catalog.=) ANY ({}::pg_catalog.text[]) OR pg_catalog.current_setting(n, true) IS NULL \
             THEN pg_catalog.current_setting(n, true) \
             ELSE pg_catalog.set_config(n, pg_catalog.current_setting(n), false)",
            literal(&format!("{{{}}}", NOT_KEPT.join(",")))
        ),
    };
    format!(
        "SELECT pg_catalog.array_agg(CASE {}{value} END) FROM pg_catalog.unnest({}::pg_catalog.text[]) AS n",
        cases.collect::<String>(),
        literal(&list)
    )
}

/// Parses the probe's result. `None` if the row is not a result of that query.
pub(crate) fn answer<'a>(
    row: &[Option<&str>],
    others: impl Iterator<Item = &'a str>,
    interner: &mut Interner,
) -> Option<Probed> {
    let [Some(array)] = row else { return None };
    let elements = elements(array)?;
    let (found, values) = elements.split_at_checked(FOUND.len())?;
    let (loaded, values) = values.split_first()?;
    let loaded = u64::from_str_radix(loaded.as_deref()?, 16).ok()?.cast_signed();
    let names: Vec<&str> = MIRRORED.iter().copied().chain(others).collect();
    if names.len() != values.len() {
        return None;
    }
    let mut all = Vec::new();
    for (answer, what) in found.iter().zip(FOUND) {
        match answer.as_deref() {
            Some("false") => {}
            Some("true") => all.push(what),
            _ => return None,
        }
    }
    let known =
        names.into_iter().zip(values).filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    let settings = interner.intern(known.collect::<BTreeMap<String, String>>());
    Some(Probed { settings, loaded: LoadTime::new(loaded), found: all })
}

/// Elements of an array as PostgreSQL writes it: `{a,"b \"c\"",NULL}`.
fn elements(array: &str) -> Option<Vec<Option<String>>> {
    let mut rest = array.strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    loop {
        let (value, after) = element(rest)?;
        elements.push(value);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return after.is_empty().then_some(elements),
        }
    }
}

/// The first element of a list, and the rest after it.
fn element(list: &str) -> Option<(Option<String>, &str)> {
    let Some(quoted) = list.strip_prefix('"') else {
        let (value, after) = list.split_at(list.find(',').unwrap_or(list.len()));
        return Some(((value != "NULL").then(|| value.to_owned()), after));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((Some(value), &quoted[at + 1..])),
            (_, '\\') => value.push(chars.next()?.1),
            (_, other) => value.push(other),
        }
    }
}

impl Settings {
    /// The probe query for a new standby connection; [`Settings::of_probe`] parses its result. After the
    /// query, a reload of the standby's own configuration changes no mirrored setting of the connection,
    /// except those that only a superuser may set.
    pub fn probe() -> String {
        text(std::iter::empty(), Temporary::Schema, Ask::Keep)
    }

    /// Parses the one row of a probe query: the settings of a new connection, and the time when its backend
    /// read the configuration.
    pub fn of_probe(row: &[Option<&str>], interner: &mut Interner) -> Option<(Settings, LoadTime)> {
        Settings::of_probe_at_primary(row, &[], interner)
    }

    /// The probe query for a new connection at the primary, where a reload goes on changing settings that no
    /// client has set. The query also reads the initial settings of the role and the database, given by their
    /// names in lower case.
    pub fn probe_at_primary(made: &[String]) -> String {
        question(others(made), Temporary::Schema)
    }

    /// Parses the result of [`Settings::probe_at_primary`], as [`Settings::of_probe`] does.
    pub fn of_probe_at_primary(
        row: &[Option<&str>],
        made: &[String],
        interner: &mut Interner,
    ) -> Option<(Settings, LoadTime)> {
        answer(row, others(made), interner).map(|probed| (probed.settings, probed.loaded))
    }
}

/// The settings among `made` that are not read from every session.
fn others(made: &[String]) -> impl Iterator<Item = &str> {
    made.iter().map(String::as_str).filter(|name| MIRRORED.binary_search(name).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_they_are_written() {
        let read = |array: &str| {
            elements(array).map(|all| all.into_iter().map(|e| e.unwrap_or("-".into())).collect::<Vec<_>>())
        };
        assert_eq!(read("{a,NULL,b}"), Some(vec!["a".into(), "-".into(), "b".into()]));
        assert_eq!(
            read(r#"{"","a,b","c \"\\","NULL",d}"#),
            Some(vec!["".into(), "a,b".into(), "c \"\\".into(), "NULL".into(), "d".into()])
        );
        assert_eq!(read("{\"\u{2603}\"}"), Some(vec!["\u{2603}".into()]));
        for broken in ["", "a", "{", "{\"a}", "{\"a\"b}", "{\"a\\"] {
            assert_eq!(elements(broken), None, "{broken}");
        }
    }
}
