//! Logical replicas join the cluster and leave it while clients work.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use local_cluster::{Node, Options};
use testkit::Scratch;

use crate::fed::{all_equal, refuses, rows, write_past};
use crate::fixture::{
    CONSORT, Done, Serving, UpFolder, configuration, eventually, free_port, run, up_folder,
};
use crate::load::{Client, Console, Load, TABLES, THROUGH, serves};
use crate::replicas::number;

/// Consort in front of a primary and a standby, and a server that could be fed; the configuration with it and without.
fn without_a_replica() -> (Serving, String, String) {
    let servers = Arc::new(Scratch::with(Options { standbys: 1, replicas: 1, ..Scratch::options() }));
    let (port, metrics_port) = (free_port(), free_port());
    let lines = format!("metrics_listen = \"127.0.0.1:{metrics_port}\"\nauth_type = \"trust\"\n{THROUGH}");
    let with = configuration(&servers, port, &lines);
    let (without, _) = with.split_once("[[replica]]").expect("there is one");
    let serving = Serving::configured(servers, port, metrics_port, without);
    let without = without.to_owned();
    (serving, with, without)
}

/// True if no client is connected to the node.
fn is_left(node: &Node) -> bool {
    let clients =
        "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    node.query("template1", clients).is_ok_and(|rows| rows.is_empty())
}

#[test]
fn replicas_join_and_leave_while_everybody_works() {
    let (serving, with, without) = without_a_replica();
    let url = serving.url("postgres", "postgres");
    let mut client = Client::connect(&url).unwrap();
    client.rows(TABLES).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let load = Load::start(&url);
    serves(&mut console, "standby1");
    let node = serving.servers.replica(0);
    for round in 0..2 {
        fs::write(serving.config_file(), &with).unwrap();
        console.rows("RELOAD");
        serves(&mut console, "replica1");
        // DDL runs there: nothing is copied again.
        let copy = number(node);
        client.rows(&format!("CREATE TABLE later{round} AS SELECT 1 AS n")).unwrap();
        eventually("the new table", || rows(node, "postgres", &format!("later{round}")).is_some());
        assert_eq!(number(node), copy);
        load.goes_on(20, 10);
        fs::write(serving.config_file(), &without).unwrap();
        console.rows("RELOAD");
        eventually("a cluster without it", || {
            console.rows("SHOW REPLICAS").iter().all(|row| row.get("name") != Some("replica1"))
        });
        assert!(console.rows("SHOW REPLICATION").is_empty());
        eventually("a server without connections", || is_left(node));
        load.goes_on(20, 10);
        serves(&mut console, "standby1");
    }
    // Nothing is kept for it.
    let here = serving.servers.query("SELECT pg_current_wal_lsn()")[0][0].clone().unwrap();
    let kept =
        format!("SELECT FROM pg_replication_slots WHERE plugin <> '' AND confirmed_flush_lsn < '{here}'");
    eventually("a slot that goes on", || serving.servers.query(&kept).is_empty());
    fs::write(serving.config_file(), &with).unwrap();
    console.rows("RELOAD");
    serves(&mut console, "replica1");
    load.end();
    all_equal(&serving, &mut console);
}

#[test]
fn who_has_left_the_cluster_is_written_to() {
    let (serving, with, without) = without_a_replica();
    Client::connect(&serving.url("postgres", "postgres")).and_then(|mut client| client.rows(TABLES)).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let node = serving.servers.replica(0);
    for _ in 0..2 {
        fs::write(serving.config_file(), &with).unwrap();
        console.rows("RELOAD");
        all_equal(&serving, &mut console);
        refuses(node, "postgres");
        fs::write(serving.config_file(), &without).unwrap();
        console.rows("RELOAD");
        eventually("a server that is its owner's", || {
            write_past(node, "postgres", "CREATE TABLE IF NOT EXISTS mine (n int)").is_ok()
        });
    }
}

/// `consort replica` for what is in a folder.
fn replica(folder: &UpFolder, arguments: &[&str]) -> Done {
    run(Command::new(CONSORT).arg("replica").args(arguments).arg("--dir").arg(folder.path()))
}

#[test]
fn up_adds_replicas_and_removes_them() {
    let folder = up_folder();
    assert!(replica(&folder, &["add"]).failed(3).contains("no cluster exists"));
    folder.up().worked();
    Client::connect(&folder.url()).and_then(|mut client| client.rows(TABLES)).unwrap();
    assert_eq!(replica(&folder, &["add"]).worked(), "replica1: added\n");
    let status = folder.run("status", &[]).worked();
    assert!(status.contains("replica1, database postgres: "), "{status}");
    replica(&folder, &["add", "--no-wait"]).worked();
    assert_eq!(replica(&folder, &["remove", "replica1"]).worked(), "replica1: removed\n");
    assert!(!folder.path().join("replica1").exists());
    let status = folder.run("status", &[]).worked();
    assert!(!status.contains("replica1") && status.contains("replica2"), "{status}");
    let refused = replica(&folder, &["remove", "standby1"]).failed(1);
    assert!(
        refused.contains("replica \"standby1\" does not exist; existing replicas: replica2"),
        "{refused}"
    );
    let refused = folder.run("repair", &["--standby", "replica2"]).failed(1);
    assert!(refused.contains("`consort replica rebuild replica2`"), "{refused}");
    let system = ["--node", "replica2", "-XAtd", "template1", "-c", "SELECT pg_is_in_recovery()"];
    assert_eq!(folder.run("psql", &system).worked(), "f\n");
    // A name that is free is taken.
    assert_eq!(replica(&folder, &["add"]).worked(), "replica1: added\n");
    folder.run("down", &[]).worked();
    assert!(replica(&folder, &["add"]).failed(3).contains("consort up --replicas"));
    folder.run("up", &[]).worked();
    let status = folder.run("status", &[]).worked();
    assert!(["standby1", "replica1", "replica2"].iter().all(|name| status.contains(name)), "{status}");
}

#[test]
fn servers_that_up_did_not_make_are_added_in_the_configuration() {
    let (serving, ..) = without_a_replica();
    let mut command = Command::new(CONSORT);
    let refused = run(command.args(["replica", "add", "--config"]).arg(serving.config_file())).failed(1);
    assert!(refused.contains("[[replica]]") && refused.contains("RELOAD"), "{refused}");
}
