//! Application names (`application_name`) of pooled clients: the name follows the client, and needs no
//! connection of its own.

use crate::messages::{parse_named, run_named};
use crate::pooled::sharing;
use crate::session::query;
use crate::stage::{Open, Raw, SERVERS, database, until};
use wire::Asks;

/// The server's name of a session.
const SHOWN: &str = "SELECT current_setting('application_name'), a.application_name FROM pg_stat_activity a \
     WHERE a.pid = pg_backend_pid()";
/// At which connection it is.
const PID: &str = "SELECT pg_backend_pid()::text";

/// Reports of a client's application name up to ReadyForQuery, and all values of all rows.
fn heard(raw: &mut Raw) -> (Vec<String>, Vec<String>) {
    raw.told_of("application_name")
}

/// The same after this query.
fn hears(raw: &mut Raw, text: &str) -> (Vec<String>, Vec<String>) {
    raw.ask(|out| out.query(text.as_bytes()));
    heard(raw)
}

/// Logs in under this name; returns the reports of the name.
fn comes(mut raw: Raw, database: &str, name: &str) -> (Raw, Vec<String>) {
    raw.ask(|out| out.startup(&[("user", "postgres"), ("database", database), ("application_name", name)]));
    let (told, _) = heard(&mut raw);
    (raw, told)
}

#[test]
fn clients_of_different_names_share_a_connection() {
    database("named_apart");
    SERVERS.query_in(
        "named_apart",
        "CREATE FUNCTION runs() RETURNS text LANGUAGE plpgsql AS \
         $$ BEGIN RETURN set_config('app.by_code', current_setting('application_name'), false); END $$",
    );
    let open = sharing(1);
    let come = |name: &str| {
        let (raw, told) = comes(Raw::connect(&open), "named_apart", name);
        assert_eq!(told, [name]);
        raw
    };
    let (mut one, mut other) = (come("one"), come("other"));
    let mut plain = Raw::ready(&open, "named_apart");
    let (_, there) = hears(&mut plain, PID);
    let nothing = Vec::<String>::new();
    for _ in 0..3 {
        for (client, name) in [(&mut one, "one"), (&mut other, "other"), (&mut plain, "")] {
            assert_eq!(hears(client, SHOWN), (nothing.clone(), vec![name.to_owned(); 2]));
            assert_eq!(hears(client, "SHOW application_name"), (nothing.clone(), vec![name.to_owned()]));
            assert_eq!(hears(client, PID), (nothing.clone(), there.clone()), "{name}");
        }
        // Behind code the connection is reset on its way to the next one.
        for (client, name) in [(&mut one, "one"), (&mut other, "other"), (&mut plain, "")] {
            assert_eq!(hears(client, "SELECT runs()"), (nothing.clone(), vec![name.to_owned()]));
        }
    }
}

#[test]
fn who_resets_its_name_has_none() {
    database("named_reset");
    let open = sharing(1);
    let mut other = Raw::ready(&open, "named_reset");
    for resets in ["RESET application_name", "RESET ALL", "DISCARD ALL"] {
        let (mut one, _) = comes(Raw::connect(&open), "named_reset", "one");
        let mut told = |text: &str| hears(&mut one, text).0;
        assert_eq!(told("BEGIN"), [""; 0]);
        assert_eq!(told("SET application_name = 'else'"), ["else"]);
        assert_eq!(told("ROLLBACK"), ["one"]);
        assert_eq!(told(resets), [""], "{resets}");
        query(&mut other, "SELECT 1 FROM pg_backend_pid()");
        assert_eq!(hears(&mut one, "SHOW application_name"), (Vec::new(), vec![String::new()]), "{resets}");
    }
}

#[test]
fn a_name_is_told_and_shown_as_by_a_server() {
    database("named_oddly");
    let open = sharing(1);
    // The second of its characters that are no ASCII is the one that has no room.
    let long = format!("\u{e9}{}\u{e9}{}", "a".repeat(60), "b".repeat(36));
    assert_eq!(long.len(), 100);
    // The first client shows how the others begin.
    for name in [long.as_str(), "caf\u{e9}\t1", "", "it's \\7", long.as_str()] {
        let [server, here] = [Raw::connect_past(&SERVERS), Raw::connect(&open)].map(|raw| {
            let (mut raw, told) = comes(raw, "named_oddly", name);
            (told, hears(&mut raw, SHOWN), hears(&mut raw, "SHOW application_name"))
        });
        assert_eq!(here, server, "{name}");
    }
}

#[test]
fn who_has_a_connection_of_its_own_logs_in_with_its_name() {
    database("named_and_kept");
    let open = Open::trusting();
    let (mut one, told) = comes(Raw::connect(&open), "named_and_kept", "one");
    assert_eq!(told, ["one"]);
    assert_eq!(hears(&mut one, "RESET ALL").0, [""; 0]);
    assert_eq!(hears(&mut one, "SHOW application_name").1, ["one"]);
}

/// Clients that are called otherwise have no settings of their own there.
#[test]
fn a_standby_parses_nothing_anew_for_another_name() {
    database("named_parsed");
    let open = sharing(1);
    let parses = || open.cluster(|cluster| cluster.database("named_parsed").traffic().total().server_parses);
    let mut number = 0;
    until(|| {
        number += 1;
        let (mut client, _) = comes(Raw::connect(&open), "named_parsed", &format!("client {number}"));
        assert_eq!(parse_named(&mut client, b"read", "SELECT name FROM items WHERE id = 7"), "");
        // Behind that its Parse has been counted.
        query(&mut client, "SELECT 1 FROM pg_backend_pid()");
        let (reads, before) = (open.reads_at_standbys(), parses());
        assert_eq!(run_named(&mut client, b"read"), ["item 7"]);
        query(&mut client, "SELECT 1 FROM pg_backend_pid()");
        open.reads_at_standbys() > reads && parses() == before
    });
}
