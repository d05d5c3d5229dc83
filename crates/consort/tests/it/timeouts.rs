//! How long clients may stay and their statements may take, and what is kept ready for them: PgBouncer's settings.

use crate::fixture::{Serving, eventually, psql};
use crate::load::Client;

/// Consort without standbys, with these lines at the top of its configuration and this at its end.
fn stage(lines: &str) -> (Serving, String, String) {
    let serving = Serving::start(0, lines);
    let (console, url) = (serving.url("postgres", "consort"), serving.url("postgres", "postgres"));
    (serving, console, url)
}

#[test]
fn a_client_that_asks_for_nothing_is_sent_away() {
    let (_serving, console, url) = stage("");
    let mut idle = Client::connect(&url).unwrap();
    idle.rows("SELECT 1").unwrap();
    let mut in_block = Client::connect(&url).unwrap();
    in_block.rows("BEGIN").unwrap();
    psql(&console, "SET client_idle_timeout = '300ms'").worked();
    eventually("one client less", || {
        psql(&console, "SHOW POOLS").worked().contains("\npostgres|postgres|1|0|")
    });
    let trouble = idle.rows("SELECT 1").expect_err("it was sent away");
    assert_eq!(trouble.sqlstate.as_deref(), Some("57P05"), "{trouble:?}");
    psql(&console, "SET client_idle_timeout = 0").worked();
    in_block.rows("COMMIT").unwrap();
}

#[test]
fn a_client_that_leaves_its_transaction_open_is_sent_away() {
    let (serving, console, url) = stage("pool_mode = \"transaction\"");
    serving.servers.query("CREATE TABLE left_open (v int)");
    let mut outside = Client::connect(&url).unwrap();
    outside.rows("SELECT 1").unwrap();
    let mut inside = Client::connect(&url).unwrap();
    inside.rows("BEGIN").unwrap();
    inside.rows("INSERT INTO left_open VALUES (1)").unwrap();
    psql(&console, "SET idle_transaction_timeout = '300ms'").worked();
    let in_transaction =
        "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND query ~ 'left_open'";
    eventually("the end of its transaction", || serving.servers.query(in_transaction).is_empty());
    let trouble = inside.rows("COMMIT").expect_err("it was sent away");
    assert_eq!(trouble.sqlstate.as_deref(), Some("25P03"), "{trouble:?}");
    assert_eq!(outside.one("SELECT count(*) FROM left_open").unwrap(), "0");
}

/// Also while it runs something: that is ended at the primary.
#[test]
fn a_transaction_that_takes_too_long_is_ended() {
    let (serving, console, url) = stage("");
    let mut client = Client::connect(&url).unwrap();
    client.rows("BEGIN").unwrap();
    let asleep = std::thread::spawn(move || client.rows("SELECT pg_sleep(600)"));
    let sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    eventually("a running statement", || !serving.servers.query(sleeps).is_empty());
    psql(&console, "SET transaction_timeout = '200ms'").worked();
    let trouble = asleep.join().unwrap().expect_err("it was sent away");
    assert_eq!(trouble.sqlstate.as_deref(), Some("25P04"), "{trouble:?}");
    eventually("its end at the primary", || serving.servers.query(sleeps).is_empty());
}

#[test]
fn a_statement_of_a_user_that_takes_too_long_is_ended() {
    let servers = postgres::local::Scratch::start(0);
    servers.query("CREATE ROLE hasty LOGIN");
    let port = crate::fixture::free_port();
    let mut text = crate::fixture::configuration(&servers, port, "auth_type = \"trust\"");
    text += "[user.hasty]\nquery_timeout = \"300ms\"\n";
    let serving = Serving::configured(servers.into(), port, 0, &text);
    let mut patient = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    let mut hasty = Client::connect(&serving.url("hasty", "postgres")).unwrap();
    hasty.rows("SELECT 1").unwrap();
    let slow = std::thread::spawn(move || patient.one("SELECT 'slept' FROM pg_sleep(2)"));
    let trouble = hasty.rows("SELECT pg_sleep(600)").expect_err("it was sent away");
    assert_eq!(trouble.sqlstate.as_deref(), Some("57014"), "{trouble:?}");
    assert!(trouble.text.contains("query timeout"), "{trouble:?}");
    let sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND usename = 'hasty'";
    eventually("its end at the primary", || serving.servers.query(sleeps).is_empty());
    assert_eq!(slow.join().unwrap().unwrap(), "slept");
    // Whoever waits for a connection is no better off.
    let console = serving.url("postgres", "consort");
    for set in ["SET pool_mode = 'transaction'", "SET default_pool_size = 1"] {
        psql(&console, set).worked();
    }
    let (mut one, mut other) = (
        Client::connect(&serving.url("hasty", "postgres")).unwrap(),
        Client::connect(&serving.url("hasty", "postgres")).unwrap(),
    );
    one.rows("BEGIN; SELECT pg_backend_pid()").unwrap();
    let trouble = other.rows("SELECT pg_backend_pid()").expect_err("it was sent away");
    assert_eq!(trouble.sqlstate.as_deref(), Some("57014"), "{trouble:?}");
    one.rows("COMMIT").unwrap();
}

#[test]
fn connections_are_kept_ready_as_long_as_a_client_is_there() {
    let lines = "pool_mode = \"transaction\"\nmin_pool_size = 3\nserver_idle_timeout = \"100ms\"";
    let (serving, _console, url) = stage(lines);
    let count = || {
        let of_clients = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ready'";
        serving.servers.query(of_clients)[0][0].clone().unwrap()
    };
    let mut client = Client::connect(&format!("{url}?application_name=ready")).unwrap();
    client.rows("SELECT pg_backend_pid()").unwrap();
    eventually("three connections", || count() == "3");
    client.rows("SELECT pg_backend_pid()").unwrap();
    drop(client);
    eventually("none", || count() == "0");
}

#[test]
fn behind_a_log_in_that_failed_the_next_ones_are_not_tried() {
    let (serving, console, _url) = stage("server_login_retry = \"1h\"");
    let late = serving.url("late", "postgres");
    let refused = psql(&late, "SELECT 1").err;
    assert!(refused.contains("role \"late\" does not exist"), "{refused}");
    serving.servers.query("CREATE ROLE late LOGIN");
    assert_eq!(psql(&late, "SELECT 1").err, refused, "nobody asks the primary again");
    psql(&serving.url("postgres", "postgres"), "SELECT 'another role'").worked();
    psql(&console, "SET server_login_retry = 0").worked();
    assert_eq!(psql(&late, "SELECT 1").worked(), "1\n");
}

#[test]
fn a_primary_that_hangs_lets_nobody_in() {
    let (serving, _console, url) = stage("server_connect_timeout = \"300ms\"");
    serving.servers.primary().hang();
    let refused = psql(&url, "SELECT 1").err;
    serving.servers.primary().resume();
    assert!(refused.contains("the primary cannot be reached: no answer within 300 ms"), "{refused}");
}

#[test]
fn pgbouncers_names_of_settings_are_understood() {
    let (_serving, console, url) = stage("max_client_conn = 7\nclient_login_timeout = \"9s\"");
    let shown = psql(&console, "SHOW CONFIG").worked();
    for row in ["max_clients|7|80|yes", "max_client_conn|7|80|yes", "login_time|9s|60s|yes"] {
        assert!(shown.lines().any(|line| line == row), "{shown}");
    }
    psql(&console, "SET max_client_conn = 1").worked();
    let _one = Client::connect(&url).unwrap();
    assert!(psql(&url, "SELECT 1").err.contains("too many clients: max_clients is 1"));
}
