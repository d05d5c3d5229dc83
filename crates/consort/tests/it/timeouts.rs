//! Timeouts of clients and statements, and connections that are kept ready for them: PgBouncer's settings.

use crate::fixture::{Serving, eventually, psql};
use crate::levels::leaves;
use crate::load::{ANYWHERE, Client, READ_QUIET, served, serves_all};
use testkit::Scratch;

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
    let servers = testkit::Scratch::start(0);
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
    // A client that waits for a connection is no better off.
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
    let count = || kept_ready(&serving, "postgres").len();
    let mut client = Client::connect(&url).unwrap();
    client.rows("SELECT pg_backend_pid()").unwrap();
    eventually("three connections", || count() == 3);
    client.rows("SELECT pg_backend_pid()").unwrap();
    drop(client);
    eventually("none", || count() == 0);
}

/// The processes that a pool has at the primary.
fn kept_ready(serving: &Serving, database: &str) -> Vec<String> {
    let of_clients = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name = '' \
                      AND datname = ";
    let rows = serving.servers.query(&format!("{of_clients}'{database}'"));
    rows.into_iter().filter_map(|row| row[0].clone()).collect()
}

/// Waits for two of them, and for the end of those that there were before.
fn two_others(serving: &Serving, database: &str, before: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    eventually("two connections", || {
        found = kept_ready(serving, database);
        found.len() == 2 && !found.iter().any(|pid| before.contains(pid))
    });
    found
}

/// Ends these processes.
fn end_all(serving: &Serving, processes: &[String]) {
    for pid in processes {
        serving.servers.query(&format!("SELECT pg_terminate_backend({pid})"));
    }
}

#[test]
fn nothing_is_kept_ready_where_a_database_is_paused() {
    let (serving, console, _url) = stage("pool_mode = \"transaction\"\nmin_pool_size = 2");
    let databases = ["aa_paused", "zz_open"];
    databases.iter().for_each(|name| drop(serving.servers.query(&format!("CREATE DATABASE {name}"))));
    let _clients = databases.map(|name| Client::connect(&serving.url("postgres", name)).unwrap());
    let [paused, mut open] = databases.map(|name| two_others(&serving, name, &[]));
    psql(&console, "PAUSE aa_paused").worked();
    end_all(&serving, &paused);
    // Both are looked after in the same round.
    for _ in 0..2 {
        end_all(&serving, &open);
        open = two_others(&serving, "zz_open", &open);
    }
    assert!(kept_ready(&serving, "aa_paused").is_empty());
    psql(&console, "RESUME aa_paused").worked();
    two_others(&serving, "aa_paused", &paused);
}

#[test]
fn what_nobody_has_used_for_longest_makes_room() {
    let lines = "pool_mode = \"transaction\"\nmin_pool_size = 2\ndefault_pool_size = 2";
    let (serving, _console, url) = stage(lines);
    let mut client = Client::connect(&url).unwrap();
    let used = client.one("SELECT pg_backend_pid()").unwrap();
    let mut others = two_others(&serving, "postgres", &[]);
    others.retain(|pid| *pid != used);
    end_all(&serving, &others);
    eventually("a newer one", || {
        let found = kept_ready(&serving, "postgres");
        found.len() == 2 && !found.contains(&others[0])
    });
    // The client needs a connection that has logged in with the same parameters.
    let _other = Client::connect(&format!("{url}?options=-c%20work_mem%3D5MB")).unwrap();
    eventually("the end of one", || !kept_ready(&serving, "postgres").contains(&used));
    assert_ne!(client.one("SELECT pg_backend_pid()").unwrap(), used);
}

#[test]
fn where_the_server_could_let_nobody_in_the_next_ones_are_not_tried() {
    let (serving, console, url) = stage("server_login_retry = \"1h\"");
    let late = serving.url("postgres", "late");
    let refused = psql(&late, "SELECT 1").err;
    assert!(refused.contains("database \"late\" does not exist"), "{refused}");
    serving.servers.query("CREATE DATABASE late");
    assert_eq!(psql(&late, "SELECT 1").err, refused, "nobody asks the primary again");
    psql(&url, "SELECT 'another database'").worked();
    psql(&console, "SET server_login_retry = 0").worked();
    assert_eq!(psql(&late, "SELECT 1").worked(), "1\n");
}

/// One client's error does not affect other clients of the same role.
#[test]
fn what_the_server_says_to_one_client_is_said_to_no_other() {
    let (serving, _console, url) = stage("server_login_retry = \"1h\"");
    let refused = psql(&format!("{url}?options=-c%20work_mem%3Dplenty"), "SELECT 1").err;
    assert!(refused.contains("work_mem"), "{refused}");
    assert_eq!(psql(&url, "SELECT 1").worked(), "1\n");
    let late = serving.url("late", "postgres");
    assert!(psql(&late, "SELECT 1").err.contains("role \"late\" does not exist"));
    serving.servers.query("CREATE ROLE late LOGIN");
    assert_eq!(psql(&late, "SELECT 1").worked(), "1\n");
}

/// A role that may not replicate may do all else.
#[test]
fn a_replication_connection_that_is_refused_says_nothing_of_other_log_ins() {
    let (serving, _console, _url) = stage("server_login_retry = \"1h\"");
    serving.servers.query("CREATE ROLE plain LOGIN");
    let url = serving.url("plain", "postgres");
    let refused = psql(&format!("{url}?replication=database"), "SELECT 1").err;
    assert!(refused.contains("must be superuser or replication role"), "{refused}");
    assert_eq!(psql(&url, "SELECT 1").worked(), "1\n");
}

#[test]
fn a_primary_that_hangs_lets_nobody_in() {
    let (serving, _console, url) = stage("server_connect_timeout = \"300ms\"");
    serving.servers.primary().hang();
    let refused = psql(&url, "SELECT 1").err;
    serving.servers.primary().resume();
    assert!(refused.contains("cannot connect to the primary: no answer within 300 ms"), "{refused}");
}

#[test]
fn pgbouncers_names_of_settings_are_understood() {
    let (_serving, console, url) = stage("max_client_conn = 7\nclient_login_timeout = \"9s\"");
    let shown = psql(&console, "SHOW CONFIG").worked();
    for row in ["max_clients|7|1000|yes", "max_client_conn|7|1000|yes", "login_time|9s|60s|yes"] {
        assert!(shown.lines().any(|line| line == row), "{shown}");
    }
    psql(&console, "SET max_client_conn = 1").worked();
    let _one = Client::connect(&url).unwrap();
    assert!(psql(&url, "SELECT 1").err.contains("too many clients (max_clients = 1)"));
}

/// Since 17 a session may limit its transactions: a read that runs at a standby is ended, too.
#[test]
fn transaction_timeout_of_the_session_ends_reads_at_standbys() {
    let options = local_cluster::Options { standbys: 1, ..Scratch::options() };
    let (serving, mut console, url) = serves_all(Serving::over(Scratch::of_major(17, &options), ANYWHERE));
    let mut client = Client::connect(&url).unwrap();
    client.rows("SET transaction_timeout = '10s'").unwrap();
    leaves(&mut console, &mut client, READ_QUIET, 7);
    client.rows("SET transaction_timeout = '300ms'").unwrap();
    let before = served(&mut console, "standby1");
    let series = ["a", "b", "c", "d"].map(|name| format!("generate_series(1, 1000) {name}")).join(", ");
    let endless = format!("SELECT count(*) AS endless FROM quiet q, {series}");
    let trouble = client.rows(&endless).expect_err("the read takes too long");
    assert_eq!(trouble.sqlstate.as_deref(), Some("25P04"), "{trouble:?}");
    assert_eq!(served(&mut console, "standby1"), before, "no answer came");
    let runs = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query ~ 'endless FROM quiet' AND pid <> pg_backend_pid()";
    for node in serving.servers.cluster().nodes() {
        eventually("its end at each node", || node.query("postgres", runs).unwrap().is_empty());
    }
}
