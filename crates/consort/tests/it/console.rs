//! The console over a real connection: every SHOW command has an answer, and what changes something does.

use std::process::{Command, Stdio};

use crate::fixture::{Serving, eventually, psql};

const SHOWS: &[&str] = &[
    "CLIENTS",
    "SERVERS",
    "POOLS",
    "STATS",
    "DATABASES",
    "USERS",
    "CONFIG",
    "VERSION",
    "HELP",
    "REPLICAS",
    "ROUTES",
    "DOUBTS",
    "GAUGES",
];

#[test]
fn every_show_command_has_an_answer() {
    let serving = Serving::start(1, "");
    let console = serving.url("postgres", "consort");
    for name in SHOWS {
        psql(&console, &format!("SHOW {name}")).worked();
    }
    let help = psql(&console, "SHOW HELP").worked();
    assert!(SHOWS.iter().all(|name| help.contains(&format!("SHOW {name}|"))), "{help}");
    assert!(psql(&console, "SHOW REPLICAS").worked().contains("standby1|standby|"));
    assert!(
        psql(&console, "SHOW VERSION; SHOW CONFIG").worked().contains("metrics_listen"),
        "two in one text"
    );
    let refused = psql(&console, "SELECT 1").err;
    assert!(
        refused.contains("invalid command 'SELECT 1', use SHOW HELP") && refused.contains("HINT"),
        "{refused}"
    );
}

#[test]
fn pause_holds_new_transactions_until_resume() {
    let serving = Serving::start(0, "drain_time = \"100ms\"");
    let console = serving.url("postgres", "consort");
    psql(&console, "PAUSE postgres").worked();
    let waiting = Command::new("psql")
        .args(["-X", "-A", "-t", "-d", &serving.url("postgres", "postgres"), "-c", "SELECT 'through'"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("a waiting client", || psql(&console, "SHOW CLIENTS").worked().contains("|postgres|waiting|"));
    psql(&console, "RESUME postgres").worked();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through\n");
}

#[test]
fn pause_has_a_limit_and_says_what_is_open() {
    let serving = Serving::start(0, "drain_time = \"100ms\"");
    let mut open = Command::new("psql")
        .args(["-X", "-d", &serving.url("postgres", "postgres"), "-c", "SELECT pg_sleep(600)"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let console = serving.url("postgres", "consort");
    eventually("an open transaction", || {
        psql(&console, "SHOW CLIENTS").worked().contains("|postgres|active|")
    });
    let refused = psql(&console, "PAUSE").err;
    assert!(refused.contains("1 transactions are still open after 100ms"), "{refused}");
    psql(&console, "RESUME").worked();
    open.kill().unwrap();
    open.wait().unwrap();
}

#[test]
fn shutdown_ends_the_process() {
    let mut serving = Serving::start(0, "");
    psql(&serving.url("postgres", "consort"), "SHUTDOWN");
    assert!(serving.ended().success());
}

#[test]
fn what_went_through_is_counted() {
    let serving = Serving::start(0, "");
    let url = serving.url("postgres", "postgres");
    psql(&url, "BEGIN; SELECT repeat('x', 5000); COMMIT").worked();
    psql(&url, "SELECT 1").worked();
    let stats = psql(&serving.url("postgres", "consort"), "SHOW STATS").worked();
    let line = stats.lines().find(|line| line.starts_with("postgres|")).expect("the database is known");
    let counts: Vec<u64> = line.split('|').skip(1).map(|count| count.parse().expect("a number")).collect();
    let [transactions, statements, received, sent, transaction_us, statement_us, ..] = counts[..] else {
        panic!("{line}")
    };
    assert!(transactions == 2 && statements == 2, "{line}");
    assert!(received > 40 && sent > 5000 && transaction_us > 0 && statement_us > 0, "{line}");
}
