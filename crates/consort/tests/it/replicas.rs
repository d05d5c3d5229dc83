//! What an operator does with a replica that Consort feeds while everybody works: paused, resumed, made anew.

use std::process::Command;

use postgres::local::Node;

use crate::fed::{all_equal, is_fed, rows, serving};
use crate::fixture::{CONSORT, Done, Serving, eventually, run};
use crate::load::{Client, Console, Load, READ_QUIET, THROUGH, served, serves};

/// `consort replica` for what is served.
fn replica(serving: &Serving, what: &str, name: &str) -> Done {
    let mut command = Command::new(CONSORT);
    run(command.args(["replica", what, name, "--config"]).arg(serving.config_file()))
}

/// The number of a database, which each copy of it has anew.
fn number(node: &Node) -> Option<String> {
    let sql = "SELECT oid FROM pg_database WHERE datname = 'postgres'";
    node.query("template1", sql).ok()?.first()?.first()?.clone()
}

fn state(console: &mut Console) -> String {
    console.feed("replica1", "postgres").state
}

#[test]
fn a_paused_replica_takes_nothing_until_it_is_resumed() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let load = Load::start(&url);
    serves(&mut console, "replica1");
    assert_eq!(replica(&serving, "pause", "replica1").worked(), "replica1: paused\n");
    eventually("a replica that is paused", || state(&mut console) == "paused");
    assert_eq!(console.node("replica1").why, "paused");
    load.goes_on(20, 10);
    let there = || rows(serving.servers.replica(0), "postgres", "counter");
    let (before, shown) = (served(&mut console, "replica1"), there());
    load.goes_on(20, 10);
    assert_eq!((served(&mut console, "replica1"), there()), (before, shown));
    assert_eq!(replica(&serving, "resume", "replica1").worked(), "replica1: goes on\n");
    serves(&mut console, "replica1");
    load.end();
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_that_is_paused_for_too_long_is_copied_anew() {
    let (serving, mut console, url) = serving(0, &format!("{THROUGH}\nfed_buffer = \"1MB\""));
    let mut client = Client::connect(&url).unwrap();
    let before = number(serving.servers.replica(0));
    console.rows("PAUSE REPLICA replica1");
    for round in 1..20 {
        let sql = format!("INSERT INTO counter SELECT {round} * 10000 + n, 0 FROM generate_series(1, 10000) n");
        client.rows(&sql).unwrap();
    }
    console.rows("RESUME REPLICA replica1");
    all_equal(&serving, &mut console);
    assert_ne!(number(serving.servers.replica(0)), before);
}

#[test]
fn a_replica_is_made_anew_while_everybody_works() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let load = Load::start(&url);
    let node = serving.servers.replica(0);
    let before = number(node);
    replica(&serving, "rebuild", "replica1").worked();
    eventually("another copy", || number(node).is_some_and(|now| Some(now) != before));
    load.goes_on(20, 10);
    is_fed(&mut console, "postgres");
    serves(&mut console, "replica1");
    load.end();
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_that_has_failed_is_made_anew() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    serving.servers.replica(0).query("postgres", "DELETE FROM quiet").unwrap();
    client.rows("UPDATE quiet SET v = v + 1").unwrap();
    eventually("a replica that has failed", || state(&mut console) == "failed");
    console.rows("REBUILD REPLICA replica1");
    all_equal(&serving, &mut console);
    assert_eq!(client.number(READ_QUIET).unwrap(), 8);
}

#[test]
fn what_is_no_replica_is_refused() {
    let (serving, _console, _url) = serving(1, THROUGH);
    let refused = replica(&serving, "pause", "replica9").failed(1);
    assert!(refused.contains("there is no replica \"replica9\"\nConsort feeds replica1."), "{refused}");
    let refused = replica(&serving, "rebuild", "standby1").failed(1);
    assert!(refused.contains("\"standby1\" is no replica that Consort feeds"), "{refused}");
    let console = serving.url("postgres", "consort");
    let mut psql = Command::new("psql");
    psql.args(["-X", "-v", "VERBOSITY=verbose", "-d", &console, "-c", "RESUME REPLICA nobody"]);
    let refused = run(&mut psql).err;
    assert!(refused.contains("42704") && refused.contains("HINT:  Consort feeds replica1."), "{refused}");
}
