//! Settings as values, and corner cases of the state that no story covers.

use super::*;
use crate::utility::{Assignment, NewValue, Utility};
use history::LoadTime;
use statement_analysis::shape::Strings;
use std::collections::BTreeMap;

fn settings(interner: &mut Interner, values: &[(&str, &str)]) -> Settings {
    interner.intern(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn session(interner: &mut Interner) -> SessionState {
    let startup = Startup::of([("user", "app")], Own::default()).unwrap();
    SessionState::new(&startup, interner)
}

fn set(name: &str, value: &str) -> Utility {
    Utility::Set(Assignment { name: name.into(), value: NewValue::To(value.into()), local: false })
}

/// The result of a probe that finds nothing, with this value for every setting.
fn answer(value: &str) -> String {
    answer_of(value, LoadTime::new(7))
}

/// The result of a probe, as [`answer`], from a backend that has read the configuration at `loaded`.
fn answer_of(value: &str, loaded: LoadTime) -> String {
    let loaded = format!("{:016x}", loaded.get());
    let found = ["false"; 4].into_iter().chain([loaded.as_str()]);
    let elements: Vec<&str> = found.chain(MIRRORED.iter().map(|_| value)).collect();
    format!("{{{}}}", elements.join(","))
}

#[test]
fn settings_of_applications_that_nobody_can_ask_for() {
    let mut interner = Interner::new(10);
    let begun = |parameters: &[(&str, &str)], interner: &mut Interner| {
        let startup = Startup::of(parameters.iter().copied(), Own::default()).unwrap();
        let mut session = SessionState::new(&startup, interner);
        session.probed(&[Some(&answer("x"))], interner).unwrap();
        session
    };
    let plain = [("user", "app"), ("options", "-c consort.consistency=weak -c search_path=a")];
    let mut session = begun(&plain, &mut interner);
    assert!(!session.may_have_application_settings());
    for asked in [("options", "-c app.actor=a"), ("app.actor", "a")] {
        assert!(begun(&[("user", "app"), asked], &mut interner).may_have_application_settings(), "{asked:?}");
    }
    // The role or the database has an initial application setting.
    let of_the_role = answer("x").replacen("false,false,false,false", "false,false,false,true", 1);
    let mut other = begun(&plain, &mut interner);
    other.probed(&[Some(&of_the_role)], &mut interner).unwrap();
    assert!(other.may_have_application_settings() && other.may_leave() == session.may_leave());
    // The session has set one, and rolled it back: it is empty now, and not absent.
    let mut other = begun(&plain, &mut interner);
    other.completed(&set("app.actor", "a"), &mut interner);
    other.completed(&Utility::ResetAll, &mut interner);
    assert!(other.may_have_application_settings());
    // Code has run that may have set one, and no probe finds it.
    session.dirtied(Dirt::Function);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    assert!(session.may_have_application_settings());
}

#[test]
fn the_lists_are_sorted_and_one_holds_the_other() {
    assert!(MIRRORED.is_sorted() && ANALYSED_UNDER.is_sorted());
    assert!(ANALYSED_UNDER.iter().all(|name| MIRRORED.contains(name)));
}

#[test]
fn equal_settings_are_one_value() {
    let mut interner = Interner::new(100);
    let a = settings(&mut interner, &[("search_path", "a"), ("bytea_output", "hex")]);
    let b = interner.with(&a, "bytea_output", Some("escape"));
    let c = interner.with(&a, "search_path", Some("c"));
    assert_ne!(a.id(), b.id());
    assert_eq!(a.analysis_id(), b.analysis_id(), "how bytes look does not change what a statement touches");
    assert_ne!(a.analysis_id(), c.analysis_id());
    let back = interner.with(&b, "bytea_output", Some("hex"));
    assert_eq!(back, a);
    assert_eq!(back.id(), a.id());
    assert_eq!(interner.with(&a, "x.y", None).id(), a.id());
    assert_eq!(a.analysis().collect::<Vec<_>>(), [("search_path", "a")]);
}

/// A standby parses no statement twice for clients that differ only in their names.
#[test]
fn names_of_clients_make_no_difference_to_reads() {
    let mut interner = Interner::new(100);
    let plain = settings(&mut interner, &[("search_path", "a")]);
    let [one, other] = ["one", "other"].map(|name| interner.with(&plain, "application_name", Some(name)));
    assert!(one != other && one != plain);
    assert_eq!([one.for_reads(), other.for_reads(), plain.for_reads()], [&plain; 3]);
    let path = interner.with(&one, "search_path", Some("b"));
    assert_eq!(path.for_reads().iter().collect::<Vec<_>>(), [("search_path", "b")]);
}

#[test]
fn what_a_session_begins_with_is_a_setting_of_its_own() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    session.probed(&[Some(&answer("none"))], &mut interner).unwrap();
    let first = session.settings().clone();
    session.begins_with("application_name", "till", &mut interner);
    let named = session.settings().clone();
    assert_eq!(named.get("application_name"), Some("till"));
    assert_eq!(first.to_become(&named), None, "no standby hears of it");
    assert_eq!(
        first.to_become_at_primary(&named, Some(&first)).unwrap(),
        "SELECT pg_catalog.set_config('application_name', 'till', false)"
    );
    // A rollback leaves the setting as it was.
    session.completed(&set("application_name", "else"), &mut interner);
    session.statement_failed();
    session.ready(b'I', &mut interner);
    assert_eq!(session.settings(), &named);
    session.completed(&Utility::ResetAll, &mut interner);
    session.ready(b'I', &mut interner);
    assert_eq!(session.settings(), &first, "that goes back to what its connection began with");
}

#[test]
fn some_settings_decide_where_names_are_found_and_some_how_a_text_is_read() {
    let mut interner = Interner::new(100);
    let plain = [("role", "none"), ("session_authorization", "app"), ("search_path", "public")];
    let base = settings(&mut interner, &plain);
    for (name, value, finds, reads) in [
        ("search_path", "a", false, true),
        ("role", "reader", false, true),
        ("role", "app", true, true),
        ("datestyle", "ISO, DMY", true, false),
        ("timezone", "Asia/Tokyo", true, false),
        ("app.tenant", "7", true, true),
        ("statement_timeout", "1s", true, true),
    ] {
        let other = interner.with(&base, name, Some(value));
        assert_eq!((base.find_as(&other), base.read_as(&other)), (finds, reads), "{name} = {value}");
    }
}

#[test]
fn what_nobody_holds_is_forgotten() {
    let mut interner = Interner::new(64);
    let held = settings(&mut interner, &[("search_path", "held")]);
    let first = settings(&mut interner, &[("search_path", "0")]).id();
    for n in 1..10_000 {
        settings(&mut interner, &[("search_path", &n.to_string())]);
        assert!(interner.len() <= 64);
    }
    assert_eq!(settings(&mut interner, &[("search_path", "held")]).id(), held.id());
    assert_ne!(settings(&mut interner, &[("search_path", "0")]).id(), first, "a number is never given twice");
}

#[test]
fn a_connection_follows_in_one_statement() {
    let mut interner = Interner::new(100);
    let plain = [("role", "none"), ("session_authorization", "app"), ("search_path", "public")];
    let base = settings(&mut interner, &plain);
    let with = |interner: &mut Interner, changes: &[(&str, &str)]| {
        changes
            .iter()
            .fold(base.clone(), |settings, (name, value)| interner.with(&settings, name, Some(value)))
    };
    assert_eq!(base.to_become(&base), None);
    let tenant = with(&mut interner, &[("app.tenant", "it's \\7"), ("search_path", "a")]);
    assert_eq!(
        base.to_become(&tenant).unwrap(),
        "SELECT pg_catalog.set_config('app.tenant',  E'it''s \\\\7', false), pg_catalog.set_config('search_path', 'a', false)"
    );
    assert_eq!(
        tenant.to_become(&base).unwrap(),
        "SELECT pg_catalog.set_config('app.tenant', NULL, false), pg_catalog.set_config('search_path', 'public', false)"
    );
    assert_eq!(
        tenant.to_become_at_primary(&base, Some(&base)).unwrap(),
        "SELECT pg_catalog.set_config('app.tenant', NULL, false), pg_catalog.set_config('search_path', NULL, false)",
        "it goes on following reloads"
    );
    let reader = with(&mut interner, &[("role", "reader"), ("search_path", "a")]);
    let other = with(&mut interner, &[("role", "other")]);
    assert_eq!(
        reader.to_become(&other).unwrap(),
        "SELECT pg_catalog.set_config('role', 'none', false), pg_catalog.set_config('search_path', 'public', false), \
         pg_catalog.set_config('role', 'other', false)"
    );
    assert_eq!(other.to_become(&base).unwrap(), "SELECT pg_catalog.set_config('role', 'none', false)");
    let joe = with(&mut interner, &[("session_authorization", "joe"), ("role", "reader")]);
    assert_eq!(
        base.to_become(&joe).unwrap(),
        "SELECT pg_catalog.set_config('session_authorization', 'joe', false), pg_catalog.set_config('role', 'reader', false)"
    );
    let serializable = with(&mut interner, &[("default_transaction_isolation", "serializable")]);
    assert_eq!(base.to_become(&serializable), None, "a standby would refuse every statement");
    assert_eq!((reader.effective_role(), base.effective_role()), (Some("reader"), Some("app")));
}

#[test]
fn texts_are_plain_where_both_sides_speak_utf8() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    assert!(session.text_is_plain(b"SELECT 1") && !session.text_is_plain("SELECT '\u{e9}'".as_bytes()));
    session.reported("client_encoding", "UTF8");
    session.reported("server_encoding", "UTF8");
    assert!(session.text_is_plain("SELECT '\u{e9}'".as_bytes()));
    session.reported("client_encoding", "SJIS");
    assert!(!session.text_is_plain("SELECT '\u{e9}'".as_bytes()) && session.text_is_plain(b"SELECT 1"));
}

#[test]
fn strings_are_read_as_the_server_says() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    session.reported("standard_conforming_strings", "on");
    assert_eq!(session.strings(), Strings::Standard);
    session.completed(&set("standard_conforming_strings", "off"), &mut interner);
    session.reported("standard_conforming_strings", "off");
    session.ready(b'I', &mut interner);
    assert_eq!(session.strings(), Strings::Escaping);
}

#[test]
fn how_long_a_session_may_be_idle() {
    let mut interner = Interner::new(100);
    let mut limit = |value: &str| {
        let decided = settings(&mut interner, &[("idle_session_timeout", value)]).decided();
        (decided.idle_limit.map(|limit| limit.as_millis()), decided.stays)
    };
    for (value, ms) in [
        ("1s", 1000),
        ("1500", 1500),
        ("1500 ms", 1500),
        ("10min", 600_000),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
    ] {
        assert_eq!(limit(value), (Some(ms), None), "{value}");
    }
    assert_eq!((limit("0"), limit("0s")), ((None, None), (None, None)));
    for value in
        ["1", "999ms", "1.5s", "1us", "010", "0x10", "", "s", "99999999999999999999", "213503982334602d"]
    {
        assert_eq!(limit(value).1, Some(SessionStay::IdleSessionLimit), "{value}");
    }
    let unset = settings(&mut interner, &[]).decided();
    assert_eq!((unset.idle_limit, unset.stays), (None, None), "a server that has no such setting");
}

#[test]
fn too_many_settings_are_not_followed() {
    let mut interner = Interner::new(1000);
    let mut session = session(&mut interner);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    let stays = |session: &SessionState| session.may_leave() == Err(SessionStay::TooManySettings);
    for n in 0..10_000 {
        session.completed(&set(&format!("app.x{n}"), "1"), &mut interner);
        session.ready(b'I', &mut interner);
    }
    session.completed(&set("session_replication_role", "origin"), &mut interner);
    session.completed(&set("exit_on_error", "off"), &mut interner);
    session.completed(&set("restrict_nonsystem_relation_kind", ""), &mut interner);
    session.completed(&set("idle_session_timeout", "0"), &mut interner);
    assert!(stays(&session) && session.settings().iter().count() < 200);
    let mut session = self::session(&mut interner);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    for (name, value) in [
        ("session_replication_role", "origin"),
        ("exit_on_error", "off"),
        ("restrict_nonsystem_relation_kind", ""),
        ("idle_session_timeout", "0"),
    ] {
        session.completed(&set(name, value), &mut interner);
    }
    session.completed(&set("app.long", &"x".repeat(100_000)), &mut interner);
    assert!(stays(&session) && session.settings().get("app.long").is_none());
    session.completed(&Utility::Discard(crate::utility::Discard::All), &mut interner);
    assert!(!stays(&session));
}

#[test]
fn a_strange_answer_proves_nothing() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    assert!(session.probe().unwrap().starts_with("SELECT "));
    let whole = answer("x");
    let (short, null, letter) =
        (whole.replacen("x,", "", 1), whole.replacen("false", "NULL", 1), whole.replacen("false", "t", 1));
    for row in [
        &[][..],
        &[None],
        &[Some(&*whole), Some(&*whole)],
        &[Some(&*short)],
        &[Some(&*null)],
        &[Some(&*letter)],
    ] {
        let mut session = session.clone();
        assert_eq!(session.probed(row, &mut interner), Err(Dirt::Fresh));
        assert_eq!((session.may_leave(), session.probe()), (Err(SessionStay::Dirty(Dirt::Fresh)), None));
    }
    session.probe_failed();
    assert_eq!(session.probe(), None);
    session.dirtied(Dirt::Function);
    assert!(session.probe().is_some());
}

/// The probe of a backend counts until a reload that the backend had not applied by then.
#[test]
fn settings_from_before_a_reload_are_not_known() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    let [before, reload, after] = [5, 6, 7].map(LoadTime::new);
    session.reloaded(reload);
    assert_eq!(session.dirt(), Some(Dirt::Fresh));
    session.probed(&[Some(&answer_of("x", before))], &mut interner).unwrap();
    session.reloaded(before);
    assert!(session.knows_settings());
    session.reloaded(reload);
    assert_eq!(session.may_leave(), Err(SessionStay::Dirty(Dirt::Reload)));
    assert!(!session.knows_settings() && session.known_settings().is_none());
    // The backend has not applied the reload yet.
    session.probed(&[Some(&answer_of("x", before))], &mut interner).unwrap();
    session.reloaded(reload);
    assert!(!session.knows_settings() && session.probe().is_some());
    session.probed(&[Some(&answer_of("y", after))], &mut interner).unwrap();
    session.reloaded(reload);
    assert!(session.knows_settings());
    // RESET restores the values of the last probe, because the session has set nothing so far.
    session.completed(&set("timezone", "z"), &mut interner);
    session.ready(b'I', &mut interner);
    session.completed(&Utility::Discard(crate::utility::Discard::All), &mut interner);
    assert_eq!(session.settings().get("timezone"), Some("y"));
    session.reloaded(LoadTime::MAX);
    session.completed(&Utility::Discard(crate::utility::Discard::All), &mut interner);
    assert!(!session.knows_settings(), "what the server goes back to is another now");
}

/// After a reload, a session goes on at a connection that began later: with the settings that it has set, and
/// all others as in that connection.
#[test]
fn what_a_session_has_set_itself_it_takes_along_behind_a_reload() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    // Settings as in servers that keep no session attached because of them.
    let of = |name: &'static str, value: &'static str| match name {
        "session_replication_role" => (name, "origin"),
        "exit_on_error" => (name, "off"),
        "restrict_nonsystem_relation_kind" => (name, ""),
        name if name.ends_with("_timeout") => (name, "0"),
        name => (name, value),
    };
    let as_all = |value: &'static str, interner: &mut Interner| {
        settings(interner, &MIRRORED.iter().map(|name| of(name, value)).collect::<Vec<_>>())
    };
    let asked = {
        let loaded = format!("{:016x}", 7);
        let values = MIRRORED.iter().map(|name| format!("\"{}\"", of(name, "x").1));
        let found = ["false"; 4].map(str::to_owned).into_iter().chain([loaded]);
        format!("{{{}}}", found.chain(values).collect::<Vec<_>>().join(","))
    };
    session.probed(&[Some(&asked)], &mut interner).unwrap();
    session.completed(&set("timezone", "z"), &mut interner);
    session.ready(b'I', &mut interner);
    assert!(!session.may_begin_anew(), "nothing was loaded");
    // Code has run in a backend that has not applied the reload at its next probe.
    session.reloaded(LoadTime::new(8));
    session.dirtied(Dirt::Function);
    session.probed(&[Some(&asked)], &mut interner).unwrap();
    session.completed(&set("timezone", "z"), &mut interner);
    session.ready(b'I', &mut interner);
    session.reloaded(LoadTime::new(8));
    assert!(session.may_begin_anew());
    let mut anew = session.clone();
    for value in ["y", "v"] {
        assert!(anew.goes_on_at(&as_all(value, &mut interner), LoadTime::new(8), &mut interner));
        let found = ["timezone", "search_path"].map(|name| anew.settings().get(name));
        assert_eq!(found, [Some("z"), Some(value)]);
        assert!(!anew.knows_settings(), "nobody has looked there yet");
        // The configuration is reloaded again before the session's backend has applied the first reload.
        anew.reloaded(LoadTime::new(9));
        assert!(anew.may_begin_anew());
    }
    // A setting too long to take along.
    let mut long = session.clone();
    long.completed(&set("search_path", &"x".repeat(10_000)), &mut interner);
    long.ready(b'I', &mut interner);
    assert!(!long.may_begin_anew());
    // State in the backend keeps the session at its connection, too.
    session.dirtied(Dirt::Temporary);
    assert!(!session.may_begin_anew());
}

/// A backend may apply a reload before Consort knows of it: changes by the reload do not count as set by the
/// session.
#[test]
fn what_came_with_a_reload_is_left_behind() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    let found = |loaded: i64, others: &[(&str, &str)]| {
        let value =
            |name: &str| others.iter().find(|(other, _)| *other == name).map_or("x", |(_, value)| value);
        let begun = ["false"; 4].map(str::to_owned).into_iter().chain([format!("{loaded:016x}")]);
        let values = begun.chain(MIRRORED.iter().map(|name| value(name).to_owned()));
        format!("{{{}}}", values.collect::<Vec<_>>().join(","))
    };
    let first = settings(&mut interner, &MIRRORED.map(|name| (name, "x")));
    session.began_with(&first, LoadTime::new(7), &mut interner);
    session.dirtied(Dirt::Function);
    session.probed(&[Some(&found(7, &[("timezone", "z")]))], &mut interner).unwrap();
    assert!(!session.is_to_be_told_apart());
    session.dirtied(Dirt::Function);
    let both = [("timezone", "z"), ("search_path", "y"), ("bytea_output", "y")];
    session.probed(&[Some(&found(8, &both))], &mut interner).unwrap();
    assert!(session.is_to_be_told_apart());
    // An application setting, which no view lists.
    session.completed(&set("app.tenant", "7"), &mut interner);
    session.ready(b'I', &mut interner);
    session.changed(&[("TimeZone", "z"), ("bytea_output", "y")], &mut interner);
    // The effect of RESET there is unknown.
    let mut reset = session.clone();
    reset.completed(&Utility::ResetAll, &mut interner);
    assert!(!reset.knows_settings());
    let later = settings(&mut interner, &MIRRORED.map(|name| (name, "v")));
    assert!(session.goes_on_at(&later, LoadTime::new(9), &mut interner));
    let names = ["timezone", "bytea_output", "search_path", "app.tenant"];
    let found = names.map(|name| session.settings().get(name));
    assert_eq!(found, [Some("z"), Some("y"), Some("v"), Some("7")]);
    session.completed(&Utility::ResetAll, &mut interner);
    assert_eq!(session.settings().get("timezone"), Some("v"), "there it is known");
    assert!(!session.goes_on_at(&settings(&mut interner, &[]), LoadTime::new(9), &mut interner), "none came");
}

/// Connections opened at the same time have read the configuration at different times: their differences were
/// not set by the session.
#[test]
fn a_connection_that_read_the_configuration_at_another_time_is_followed() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    let all = |value, interner: &mut Interner| settings(interner, &MIRRORED.map(|name| (name, value)));
    let (old, new) = (all("x", &mut interner), all("y", &mut interner));
    session.probed(&[Some(&answer_of("y", LoadTime::new(8)))], &mut interner).unwrap();
    for (there, loaded) in [(&old, 7), (&new, 9)] {
        assert!(session.goes_on_at(there, LoadTime::new(loaded), &mut interner));
        assert_eq!(session.settings(), there);
    }
}

/// A session receives its own settings at a connection of its role that began with others: RESET does not
/// restore those.
#[test]
fn what_a_session_is_given_is_no_beginning() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    let there = interner.with(session.settings(), "search_path", Some("b"));
    assert!(!session.goes_on_at(&there, LoadTime::new(7), &mut interner), "no reload came");
    assert_eq!(session.settings().get("search_path"), Some("x"));
    session.reloaded(LoadTime::new(8));
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    session.completed(&Utility::ResetAll, &mut interner);
    assert_eq!(session.settings().get("search_path"), Some("b"));
}

/// An unsolicited report of the server came with a reload: the session has not set it, and no rollback takes
/// it back.
#[test]
fn what_is_reported_by_itself_came_with_a_reload() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    let begin = Utility::Begin(crate::utility::Modes::default());
    session.completed(&begin, &mut interner);
    session.ready(b'T', &mut interner);
    // A setting that holds for a block alone did not come with a reload.
    let mut local = session.clone();
    let set_local = Assignment { name: "timezone".into(), value: NewValue::To("z".into()), local: true };
    local.completed(&Utility::Set(set_local), &mut interner);
    local.reported("TimeZone", "z");
    local.ready(b'T', &mut interner);
    local.completed(&Utility::Commit { chain: false }, &mut interner);
    local.reported("TimeZone", "x");
    local.ready(b'I', &mut interner);
    assert!(!local.is_to_be_told_apart() && local.settings().get("timezone") == Some("x"));
    session.completed(&Utility::Savepoint("s".into()), &mut interner);
    session.reported("TimeZone", "y");
    session.ready(b'T', &mut interner);
    session.completed(&Utility::RollbackTo("s".into()), &mut interner);
    session.ready(b'T', &mut interner);
    assert_eq!(session.settings().get("timezone"), Some("y"));
    session.completed(&Utility::Rollback { chain: false }, &mut interner);
    session.completed(&set("datestyle", "ISO"), &mut interner);
    session.reported("DateStyle", "ISO, MDY");
    session.ready(b'I', &mut interner);
    assert_eq!(session.settings().get("timezone"), Some("y"));
    assert!(session.is_to_be_told_apart());
    let later = settings(&mut interner, &MIRRORED.map(|name| (name, "v")));
    assert!(session.goes_on_at(&later, LoadTime::new(9), &mut interner));
    let found = ["timezone", "datestyle"].map(|name| session.settings().get(name));
    assert_eq!(found, [Some("v"), Some("ISO, MDY")]);
    // Earlier reports no longer count.
    session.completed(&set("timezone", "v"), &mut interner);
    session.ready(b'I', &mut interner);
    assert_eq!(session.settings().get("timezone"), Some("v"));
}

/// The server restores a setting of the session that a block has changed for itself alone, or has set back in
/// a failed attempt: no reload came.
#[test]
fn what_is_put_back_behind_a_block_came_with_no_reload() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    session.completed(&set("timezone", "y"), &mut interner);
    session.reported("TimeZone", "y");
    session.ready(b'I', &mut interner);
    for local in [true, false] {
        let mut session = session.clone();
        session.completed(&Utility::Begin(crate::utility::Modes::default()), &mut interner);
        session.ready(b'T', &mut interner);
        let back = Assignment { name: "timezone".into(), value: NewValue::To("x".into()), local };
        session.completed(&Utility::Set(back), &mut interner);
        session.reported("TimeZone", "x");
        session.ready(b'T', &mut interner);
        session.reported("TimeZone", "y");
        if !local {
            // The block fails, and the server restores its settings at once.
            session.statement_failed();
            session.ready(b'E', &mut interner);
        }
        session.completed(&Utility::Commit { chain: false }, &mut interner);
        session.ready(b'I', &mut interner);
        assert_eq!(session.settings().get("timezone"), Some("y"), "{local}");
        assert!(!session.is_to_be_told_apart(), "{local}");
        let there = settings(&mut interner, &MIRRORED.map(|name| (name, "x")));
        assert!(!session.goes_on_at(&there, LoadTime::new(7), &mut interner), "{local}");
        assert_eq!(session.settings().get("timezone"), Some("y"), "{local}");
        // A later unsolicited report came with a reload.
        session.reported("DateStyle", "z");
        session.ready(b'I', &mut interner);
        assert!(session.is_to_be_told_apart(), "{local}");
    }
}

/// A session that has just begun is a model for others; a session that has begun again and set a setting is
/// none.
#[test]
fn who_has_set_something_has_not_just_begun() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    assert!(session.has_just_begun());
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    assert!(!session.has_just_begun());
    session.reloaded(LoadTime::new(8));
    session.completed(&Utility::Discard(crate::utility::Discard::All), &mut interner);
    assert!(session.has_just_begun(), "nobody knows what the server goes back to");
    session.completed(&set("search_path", "z"), &mut interner);
    session.ready(b'I', &mut interner);
    assert!(session.dirt() == Some(Dirt::Fresh) && !session.has_just_begun());
}

/// Settings changed by code before a reload are no initial settings.
#[test]
fn what_code_has_set_is_no_beginning() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    session.dirtied(Dirt::Function);
    session.probed(&[Some(&answer("y"))], &mut interner).unwrap();
    session.reloaded(LoadTime::new(8));
    session.probed(&[Some(&answer_of("y", LoadTime::new(8)))], &mut interner).unwrap();
    assert!(session.knows_settings());
    let reset = Assignment { name: "timezone".into(), value: NewValue::Reset, local: false };
    let back = [Utility::Set(reset), Utility::ResetAll, Utility::Discard(crate::utility::Discard::All)];
    for back in back {
        let mut session = session.clone();
        session.completed(&back, &mut interner);
        session.ready(b'I', &mut interner);
        assert!(!session.knows_settings(), "{back:?}");
    }
}

#[test]
fn random_may_be_a_sequence_after_code() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    assert!(!session.is_seeded());
    let mut set_seed = session.clone();
    set_seed.completed(&set("seed", "0.5"), &mut interner);
    assert!(set_seed.is_seeded());
    session.dirtied(Dirt::Function);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    assert!(session.is_seeded(), "no probe can tell");
}

#[test]
fn a_flood_of_savepoints_is_not_followed() {
    let mut interner = Interner::new(100);
    let mut session = session(&mut interner);
    session.probed(&[Some(&answer("x"))], &mut interner).unwrap();
    session.completed(&Utility::Begin(crate::utility::Modes::default()), &mut interner);
    for n in 0..1_000 {
        session.completed(&Utility::Savepoint(format!("s{n}")), &mut interner);
    }
    session.completed(&Utility::RollbackTo("s3".into()), &mut interner);
    session.ready(b'T', &mut interner);
    assert_eq!(session.dirt(), Some(Dirt::Setting));
}

#[test]
fn names_are_stable_and_distinct() {
    let names: BTreeMap<&str, SessionStay> = SessionStay::all().map(|stay| (stay.name(), stay)).collect();
    assert_eq!(names.len(), SessionStay::all().count());
}

/// The other settings with this beginning belong to the transaction or to the primary. This one cuts off a read wherever it runs.
#[test]
fn transaction_timeout_is_mirrored() {
    use crate::settings::{Kind, kind};
    assert_eq!(kind("transaction_timeout"), Kind::Mirrored);
    assert!(MIRRORED.contains(&"transaction_timeout"), "a new standby connection is asked for it, too");
    assert_eq!(kind("transaction_read_only"), Kind::Transactions);
}
