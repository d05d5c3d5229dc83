//! PgBouncer's console commands, over real connections.

use std::process::{Child, Stdio};

use crate::fixture::{Serving, eventually, psql};
use crate::load::Client;

/// psql with one command, while the test goes on.
fn running(url: &str, sql: &str) -> Child {
    let mut command = testkit::program("psql");
    command.args(["-XAt", "-d", url, "-c", sql]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("psql runs")
}

/// The final output of a child, on both streams.
fn said(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Consort without standbys, its console, and its database.
fn stage(lines: &str) -> (Serving, String, String) {
    let serving = Serving::start(0, lines);
    let (console, url) = (serving.url("postgres", "consort"), serving.url("postgres", "postgres"));
    (serving, console, url)
}

const SHARING: &str = "pool_mode = \"transaction\"\ndefault_pool_size = 2";

#[test]
fn a_disabled_database_takes_no_new_clients() {
    let (serving, console, url) = stage("");
    let mut here = Client::connect(&url).unwrap();
    psql(&console, "DISABLE postgres").worked();
    let refused = psql(&url, "SELECT 1").err;
    assert!(refused.contains("database \"postgres\" is disabled"), "{refused}");
    assert_eq!(here.one("SELECT 'goes on'").unwrap(), "goes on");
    assert!(psql(&console, "SHOW DATABASES").worked().contains("|0|1\n"), "it is shown");
    psql(&console, "ENABLE postgres").worked();
    assert_eq!(psql(&url, "SELECT 1").worked(), "1\n");
    assert!(psql(&console, "DISABLE nodb").err.contains("database \"nodb\" does not exist"));
    // Also where the primary has an unreachable database of the console's name.
    serving.servers.query("CREATE DATABASE consort");
    for command in ["DISABLE", "ENABLE", "KILL", "PAUSE", "RESUME", "RECONNECT", "WAIT_CLOSE"] {
        let refused = psql(&console, &format!("{command} consort")).err;
        let what = command.to_lowercase();
        assert!(refused.contains(&format!("cannot {what} admin db: consort")), "{refused}");
    }
}

#[test]
fn kill_sends_everybody_away_and_holds_who_comes() {
    let (serving, console, url) = stage(SHARING);
    let mut idle = Client::connect(&url).unwrap();
    idle.rows("SELECT 1").unwrap();
    let mut in_block = Client::connect(&url).unwrap();
    in_block.rows("BEGIN; CREATE TABLE lost (v int)").unwrap();
    let asleep = running(&url, "SELECT pg_sleep(600)");
    let sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    eventually("a running statement", || !serving.servers.query(sleeps).is_empty());
    let queued = running(&url, "SELECT 'queued' FROM pg_backend_pid()");
    eventually("a waiting client", || psql(&console, "SHOW CLIENTS").worked().contains("|none|waiting|"));
    psql(&console, "KILL postgres").worked();
    let told = said(asleep);
    assert!(told.contains("terminating connection due to administrator command"), "{told}");
    assert!(said(queued).contains("terminating connection due to administrator command"));
    for client in [&mut idle, &mut in_block] {
        let trouble = client.rows("SELECT 1").expect_err("it was sent away");
        assert_eq!(trouble.sqlstate.as_deref(), Some("57P01"), "{trouble:?}");
    }
    eventually("no connection of clients", || {
        let left = "SELECT 1 FROM pg_stat_activity WHERE application_name = '' AND backend_type = 'client backend' \
                    AND state <> 'idle'";
        serving.servers.query(left).is_empty()
    });
    let comes = running(&url, "SELECT to_regclass('lost') IS NULL");
    eventually("a held client", || psql(&console, "SHOW CLIENTS").worked().contains("|none|waiting|"));
    psql(&console, "RESUME postgres").worked();
    assert_eq!(said(comes), "t\n");
}

#[test]
fn kill_client_sends_one_away() {
    let (_serving, console, url) = stage("pool_mode = \"session\"");
    let (mut one, mut other) = (Client::connect(&url).unwrap(), Client::connect(&url).unwrap());
    let pid = one.one("SELECT pg_backend_pid()").unwrap();
    other.rows("SELECT 1").unwrap();
    let clients = psql(&console, "SHOW CLIENTS").worked();
    let line = clients.lines().find(|line| line.contains(&format!("|{pid}|"))).expect("it is listed");
    let id = line.rsplit('|').nth(2).unwrap();
    psql(&console, &format!("KILL_CLIENT {id}")).worked();
    let trouble = one.rows("SELECT 1").expect_err("it was sent away");
    assert_eq!(trouble.sqlstate.as_deref(), Some("57P01"), "{trouble:?}");
    assert_eq!(other.one("SELECT 'goes on'").unwrap(), "goes on");
    let refused = psql(&console, &format!("KILL_CLIENT {id}")).err;
    assert!(refused.contains(&format!("client {id} does not exist")), "{refused}");
}

#[test]
fn reconnect_closes_what_nobody_has_and_wait_close_waits_for_the_rest() {
    let (serving, console, url) = stage(&format!("{SHARING}\nshutdown_drain_timeout = \"200ms\""));
    let mut one = Client::connect(&url).unwrap();
    let mut other = Client::connect(&url).unwrap();
    one.rows("BEGIN").unwrap();
    let kept = one.one("SELECT pg_backend_pid()").unwrap();
    let left = other.one("SELECT pg_backend_pid()").unwrap();
    assert_ne!(kept, left);
    psql(&console, "RECONNECT postgres").worked();
    let is_there = |pid: &str| {
        !serving.servers.query(&format!("SELECT 1 FROM pg_stat_activity WHERE pid = {pid}")).is_empty()
    };
    eventually("the end of the one that nobody had", || !is_there(&left));
    assert!(is_there(&kept));
    let servers = psql(&console, "SHOW SERVERS").worked();
    let line = servers.lines().find(|line| line.contains(&format!("|{kept}|"))).expect("it is listed");
    assert_eq!(line.split('|').nth(13), Some("1"), "close_needed: {line}");
    let refused = psql(&console, "WAIT_CLOSE").err;
    assert!(refused.contains("1 connections are still open after 200ms"), "{refused}");
    one.rows("COMMIT").unwrap();
    psql(&console, "WAIT_CLOSE postgres").worked();
    eventually("its end", || !is_there(&kept));
    assert_ne!(one.one("SELECT pg_backend_pid()").unwrap(), kept);
}

/// So that the database can be dropped, or the server restarted.
#[test]
fn pause_closes_the_connections_that_nobody_has() {
    let (serving, console, url) = stage(SHARING);
    let mut client = Client::connect(&url).unwrap();
    let pid = client.one("SELECT pg_backend_pid()").unwrap();
    let is_there = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {pid}");
    assert!(!serving.servers.query(&is_there).is_empty());
    psql(&console, "PAUSE postgres").worked();
    eventually("its end", || serving.servers.query(&is_there).is_empty());
    psql(&console, "RESUME postgres").worked();
    assert_ne!(client.one("SELECT pg_backend_pid()").unwrap(), pid);
}

/// A client that gives up and tries again would run its statement twice.
#[test]
fn what_somebody_asked_who_has_left_while_it_was_held_is_not_done() {
    let (serving, console, url) = stage("");
    psql(&url, "CREATE TABLE t (v int)").worked();
    psql(&console, "PAUSE").worked();
    let mut one = running(&url, "INSERT INTO t VALUES (1)");
    eventually("a waiting client", || psql(&console, "SHOW CLIENTS").worked().contains("|none|waiting|"));
    one.kill().expect("psql is there");
    one.wait().expect("it ends");
    eventually("its end", || !psql(&console, "SHOW CLIENTS").worked().contains("|none|waiting|"));
    psql(&console, "RESUME").worked();
    psql(&url, "INSERT INTO t VALUES (2)").worked();
    assert_eq!(psql(&url, "SELECT v FROM t").worked(), "2\n");
    assert_eq!(serving.servers.query("SELECT v FROM t")[0][0].as_deref(), Some("2"));
}

#[test]
fn suspend_holds_statements_inside_transactions_too() {
    let (_serving, console, url) = stage("");
    let mut one = Client::connect(&url).unwrap();
    one.rows("BEGIN").unwrap();
    psql(&console, "SUSPEND").worked();
    assert_eq!(psql(&console, "SHOW STATE").worked(), "active|no\npaused|no\nsuspended|yes\n");
    let resumed = std::thread::spawn(move || one.one("SELECT 'in the block'"));
    eventually("a waiting client", || psql(&console, "SHOW CLIENTS").worked().contains("|none|waiting|"));
    psql(&console, "RESUME").worked();
    assert_eq!(resumed.join().unwrap().unwrap(), "in the block");
    assert_eq!(psql(&console, "SHOW STATE").worked(), "active|yes\npaused|no\nsuspended|no\n");
    psql(&console, "PAUSE").worked();
    assert_eq!(psql(&console, "SHOW STATE").worked(), "active|no\npaused|yes\nsuspended|no\n");
    psql(&console, "RESUME").worked();
}

#[test]
fn set_changes_a_setting_until_the_configuration_is_read_again() {
    let (_serving, console, url) = stage("");
    psql(&console, "SET pool_mode = 'statement'").worked();
    let shown = || psql(&console, "SHOW CONFIG").worked();
    assert!(shown().contains("pool_mode|statement|transaction|yes\n"));
    assert!(psql(&url, "BEGIN").err.contains("transaction blocks not allowed"));
    psql(&console, "SET query_wait_timeout TO 7").worked();
    assert!(shown().contains("query_wait_timeout|7s|2min|yes\n"));
    for (command, why) in [
        ("SET listen = 'x'", "cannot be changed now"),
        ("SET pool_mod = 'session'", "Did you mean pool_mode?"),
        ("SET max_clients = 0", "expected a whole number"),
        ("SET auth_hba_file = 'rules'", "auth_type = \"hba\" must be set together"),
        ("SET max_clients", "invalid command"),
    ] {
        let refused = psql(&console, command).err;
        assert!(refused.contains(why), "{command}: {refused}");
    }
    psql(&console, "RELOAD").worked();
    assert!(shown().contains("pool_mode|transaction|transaction|yes\n"));
    psql(&url, "BEGIN; COMMIT").worked();
}

#[test]
fn shutdown_waits_for_clients_or_for_their_transactions() {
    let (mut serving, console, url) = stage("shutdown_drain_timeout = \"1ms\"");
    let mut one = Client::connect(&url).unwrap();
    one.rows("SELECT 1").unwrap();
    psql(&console, "SHUTDOWN WAIT_FOR_CLIENTS").worked();
    eventually("a closed door", || psql(&url, "SELECT 1").err.contains("Consort is shutting down"));
    one.rows("BEGIN; SELECT 1; COMMIT").unwrap();
    assert!(psql(&console, "SHOW VERSION").worked().contains("Consort"), "the console is open");
    drop(one);
    assert!(serving.ended().success());
    serving.start_again();
    let (mut idle, mut busy) = (Client::connect(&url).unwrap(), Client::connect(&url).unwrap());
    busy.rows("BEGIN").unwrap();
    idle.rows("SELECT 1").unwrap();
    psql(&console, "SHUTDOWN WAIT_FOR_SERVERS").worked();
    eventually("the idle one's end", || idle.rows("SELECT 1").is_err());
    assert_eq!(busy.one("SELECT 'goes on'").unwrap(), "goes on");
    busy.rows("COMMIT").unwrap();
    assert!(serving.ended().success());
}

/// Under transaction pooling, clients' own numbers are no processes of the primary.
#[test]
fn shutdown_ends_what_runs_on_shared_connections() {
    let (mut serving, console, url) = stage(&format!("{SHARING}\nshutdown_drain_timeout = \"100ms\""));
    let asleep = running(&url, "SELECT pg_sleep(600)");
    let sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    eventually("a running statement", || !serving.servers.query(sleeps).is_empty());
    psql(&console, "SHUTDOWN");
    assert!(serving.ended().success());
    let told = said(asleep);
    assert!(told.contains("terminating connection due to administrator command"), "{told}");
    eventually("its end at the primary", || serving.servers.query(sleeps).is_empty());
}
