//! A reload of a server's configuration changes settings of sessions that are open: what leaves the primary is read under
//! the settings that the primary's own process has.

use std::io::Write;
use std::process::Command;

use local_cluster::Node;

use crate::fixture::{Serving, eventually, run};
use crate::load::{ANYWHERE, Client, THROUGH, serving};
use crate::serving::figure;

/// Clients have connections of their own; without it they share them.
const OWN: &str = "pool_mode = \"session\"";

/// Two tables of one name, which only the path distinguishes, and values whose form is a matter of settings.
const TABLES: &str = "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.named (id int, name text); \
     CREATE TABLE b.named (id int, name text); INSERT INTO a.named VALUES (1, 'a'); INSERT INTO b.named VALUES (1, 'b'); \
     CREATE TABLE formed (id int, at timestamptz, bytes bytea); \
     INSERT INTO formed VALUES (1, '2020-01-01 12:00+00', 'A')";

/// A setting, its new value, a read that shows it, and the read's values before and afterwards. PostgreSQL
/// reports the second to the client automatically, with the next message of the process.
const CHANGES: [(&str, &str, &str, &str, &str); 3] = [
    ("search_path", "b, public", "SELECT name FROM named WHERE id = 1", "a", "b"),
    (
        "timezone",
        "Asia/Tokyo",
        "SELECT at FROM formed WHERE id = 1",
        "2020-01-01 12:00:00+00",
        "2020-01-01 21:00:00+09",
    ),
    ("bytea_output", "escape", "SELECT bytes FROM formed WHERE id = 1", "\\x41", "A"),
];

fn at_standbys(serving: &Serving) -> u64 {
    let proofs = ["plain", "positioned"];
    proofs
        .iter()
        .map(|proof| figure(serving, &format!("consort_reads_at_standbys_total{{proof=\"{proof}\"}}")))
        .sum()
}

/// The read's value at a standby.
fn elsewhere(serving: &Serving, client: &mut Client, read: &str) -> String {
    let mut shown = String::new();
    eventually("a read at a standby", || {
        let before = at_standbys(serving);
        shown = client.one(read).expect("an answer");
        at_standbys(serving) > before
    });
    shown
}

/// Changes a setting of the whole server through Consort.
fn reload(admin: &mut Client, name: &str, value: &str) {
    let names = value.split(", ").map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    admin.rows(&format!("ALTER SYSTEM SET {name} = {names}")).expect("a setting");
    // However it is demanded.
    let demand = match name {
        "bytea_output" => "SELECT 1; SELECT pg_catalog.PG_RELOAD_CONF()",
        _ => "SELECT pg_reload_conf()",
    };
    admin.rows(demand).expect("a reload");
}

/// Consort in front of a primary with these settings, and a session.
fn begin(lines: &str) -> (Serving, String, Client) {
    let (serving, _console, url) = serving(1, lines);
    let mut admin = Client::connect(&url).expect("a log-in");
    admin.rows(TABLES).expect("the tables can be made");
    for (name, value) in [("search_path", "a, public"), ("timezone", "UTC"), ("bytea_output", "hex")] {
        reload(&mut admin, name, value);
    }
    let mut client = admin;
    for (name, _, read, before, _) in CHANGES {
        eventually(name, || client.one(read).is_ok_and(|shown| shown == before));
    }
    (serving, url, client)
}

/// A read shows what the primary's own process would show: from the first statement under new settings on, no read of the
/// session is under the old ones.
fn counts_as_soon_as_the_primary_says_so(lines: &str) {
    let (serving, url, mut admin) = begin(lines);
    for (name, value, read, before, after) in CHANGES {
        let mut client = Client::connect(&url).expect("a log-in");
        assert_eq!(elsewhere(&serving, &mut client, read), before, "{name}");
        let show = format!("SHOW {name}");
        let old = client.one(&show).expect("an answer");
        reload(&mut admin, name, value);
        eventually(name, || {
            let shown = client.one(read).expect("an answer");
            assert!(shown == before || shown == after, "{name}: {shown}");
            let new = shown == after || client.one(&show).expect("an answer") != old;
            if new {
                assert_eq!(client.one(read).expect("an answer"), after, "{name}");
            }
            new
        });
        assert_eq!(elsewhere(&serving, &mut client, read), after, "{name}");
    }
}

#[test]
fn what_a_reload_changes_counts_for_open_sessions_with_writers_anywhere() {
    counts_as_soon_as_the_primary_says_so(ANYWHERE);
}

#[test]
fn what_a_reload_changes_counts_for_open_sessions_with_writers_through_consort() {
    counts_as_soon_as_the_primary_says_so(&format!("{THROUGH}\n{OWN}"));
}

/// Edits a server's configuration file.
fn append(node: &Node, name: &str, value: &str) {
    let file = node.data_folder().join("postgresql.auto.conf");
    let mut file = std::fs::OpenOptions::new().append(true).open(file).expect("a file of settings");
    writeln!(file, "{name} = '{value}'").expect("it is written");
}

/// Consort is not notified: a signal comes, and once a read elsewhere is under the new settings, all are.
fn is_found(lines: &str) {
    let (serving, url, _admin) = begin(lines);
    let primary = serving.servers.primary();
    let pid = std::fs::read_to_string(primary.data_folder().join("postmaster.pid")).expect("it runs");
    let pid = pid.lines().next().expect("a process").to_owned();
    for (name, value, read, before, after) in CHANGES {
        let mut client = Client::connect(&url).expect("a log-in");
        assert_eq!(elsewhere(&serving, &mut client, read), before, "{name}");
        append(primary, name, value);
        run(Command::new("kill").args(["-HUP", &pid])).worked();
        eventually(name, || elsewhere(&serving, &mut client, read) == after);
        for _ in 0..20 {
            assert_eq!(client.one(read).expect("an answer"), after, "{name}");
        }
    }
}

#[test]
fn a_reload_past_consort_is_found_with_writers_anywhere() {
    is_found(ANYWHERE);
}

#[test]
fn a_reload_past_consort_is_found_with_writers_through_consort() {
    is_found(&format!("{THROUGH}\n{OWN}"));
}

/// Settings that decide where a statement may run.
#[test]
fn defaults_of_transactions_that_a_reload_changes_are_heeded() {
    let (serving, url, mut admin) = begin(ANYWHERE);
    let mut client = Client::connect(&url).expect("a log-in");
    let (name, _, read, before, _) = CHANGES[0];
    assert_eq!(elsewhere(&serving, &mut client, read), before, "{name}");
    reload(&mut admin, "default_transaction_read_only", "on");
    eventually("READ ONLY", || client.one("SHOW default_transaction_read_only").expect("an answer") == "on");
    // Consort's own writes, which let reads be offloaded again, are done all the same.
    let mut client = Client::connect(&url).expect("a log-in");
    assert_eq!(elsewhere(&serving, &mut client, read), before, "{name}");
    let refused = client.rows("INSERT INTO a.named VALUES (2, 'c')").expect_err("it is read-only");
    assert_eq!(refused.sqlstate.as_deref(), Some("25006"), "{}", refused.text);
}

/// A SERIALIZABLE transaction is the primary's, whatever it was when the session began.
#[test]
fn a_reload_that_makes_sessions_serializable_keeps_their_reads() {
    let (serving, url, mut admin) = begin(THROUGH);
    let mut client = Client::connect(&url).expect("a log-in");
    let (name, _, read, before, _) = CHANGES[0];
    assert_eq!(elsewhere(&serving, &mut client, read), before, "{name}");
    reload(&mut admin, "default_transaction_isolation", "serializable");
    eventually("SERIALIZABLE", || {
        client.one("SHOW default_transaction_isolation").expect("an answer") == "serializable"
    });
    let left = at_standbys(&serving);
    for _ in 0..20 {
        assert_eq!(client.one(read).expect("an answer"), before);
    }
    assert_eq!(at_standbys(&serving), left, "a read of a serializable session has left");
}

/// A connection at a standby has what its session has, whatever the standby's own file says meanwhile.
#[test]
fn a_reload_at_a_standby_changes_nothing() {
    let (serving, _url, mut client) = begin(ANYWHERE);
    for (name, _, read, before, _) in CHANGES {
        assert_eq!(elsewhere(&serving, &mut client, read), before, "{name}");
    }
    let standby = &serving.servers.cluster().standbys()[0];
    for (name, value, read, before, _) in CHANGES {
        append(standby, name, value);
        standby.query("postgres", "SELECT pg_reload_conf()").expect("it answers");
        let show = format!("SHOW {name}");
        let set = || standby.query("postgres", &show).expect("it answers")[0][0].as_deref() == Some(value);
        eventually("the standby's own setting", set);
        for _ in 0..20 {
            assert_eq!(elsewhere(&serving, &mut client, read), before, "{name}");
        }
    }
}

/// Waits until sessions begin with the new setting.
fn begins_with(url: &str, name: &str, value: &str) {
    let show = format!("SHOW {name}");
    eventually(name, || Client::connect(url).expect("a log-in").one(&show).expect("an answer") == value);
}

/// Under transaction pooling, a session has the new configuration from its first statement on, and its own
/// settings.
#[test]
fn a_session_that_shares_connections_goes_on_under_the_new_configuration() {
    let (serving, _url, mut admin) = begin(ANYWHERE);
    admin.rows("CREATE ROLE shares SUPERUSER LOGIN").expect("a role");
    let url = serving.url("shares", "postgres");
    let connect = || Client::connect(&url).expect("a log-in");
    let (mut client, mut tied) = (connect(), connect());
    client.rows("SET bytea_output = 'escape'").expect("it is set");
    tied.rows("CREATE TEMP TABLE mine (n int)").expect("it is made");
    for (name, value, read, before, after) in &CHANGES[..2] {
        assert_eq!(elsewhere(&serving, &mut client, read), *before, "{name}");
        reload(&mut admin, name, value);
        begins_with(&url, name, value);
        // Nothing is asked before this runs.
        client.rows("SET work_mem = '5MB'").expect("it is set");
        assert_eq!(client.one(&format!("SHOW {name}")).expect("an answer"), *value);
        assert_eq!(elsewhere(&serving, &mut client, read), *after, "{name}");
        assert_eq!(client.one("SHOW work_mem").expect("an answer"), "5MB");
        let (_, _, read, _, shown) = CHANGES[2];
        assert_eq!(elsewhere(&serving, &mut client, read), shown, "its own setting");
        for _ in 0..2 {
            tied.rows("SELECT 1").expect("an answer");
        }
    }
    tied.rows("DISCARD ALL").expect("it is as it began");
    for (name, _, read, _, after) in &CHANGES[..2] {
        assert_eq!(elsewhere(&serving, &mut tied, read), *after, "{name}");
    }
}
