//! Standbys that are not on the primary's history: no read shows a row of theirs, at any level, and the
//! console reports the cause.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use local_cluster::{Node, Stop};
use testkit::Scratch;

use crate::fixture::{Serving, configuration, eventually, free_port, run};
use crate::load::{ANYWHERE, Client, Console, READ_QUIET, TABLES, THROUGH, served, serving};

const WRITE_LOST: &str = "UPDATE quiet SET v = 666";

fn shows(node: &Node, sql: &str) -> Option<String> {
    node.query("postgres", sql).expect("an answer")[0][0].clone()
}

/// WAL beyond every position of before, so that the standby's is one that the primary has had.
fn write_much(node: &Node) {
    let much = "SELECT pg_logical_emit_message(true, '', repeat('x', 1000000))";
    node.query("postgres", &format!("{much}; SELECT pg_switch_wal(); {much}")).expect("WAL");
}

/// Reads again and again, at every level, while its watcher looks at the standby.
fn reads_are_right(console: &mut Console, client: &mut Client, standby: &str) {
    let mut why = String::new();
    eventually("the standby's history compared", || {
        assert_eq!(client.one(READ_QUIET).expect("a row"), "7");
        why = console.node(standby).why;
        why.contains("diverged")
    });
    assert!(why.contains("pg_rewind") && why.contains("base backup"), "{why}");
    for level in ["strong", "session", "weak"] {
        client.rows(&format!("SET consort.consistency = '{level}'")).expect("a level");
        for _ in 0..20 {
            assert_eq!(client.one(READ_QUIET).expect("a row"), "7", "{level}");
        }
    }
    assert_eq!(console.node(standby).served, 0, "{why}");
}

/// The primary fails after a commit that one standby has replayed and the promoted one has not. The former is pointed at the
/// latter and restarted, without pg_rewind: it stands still and answers.
#[test]
fn diverged_standby_serves_nothing() {
    let servers = Arc::new(Scratch::start(2));
    let (a, b, c) = (servers.primary(), servers.standby(0), servers.standby(1));
    servers.query(TABLES);
    servers.catch_up(crate::fixture::LIMIT);
    b.set("primary_conninfo", "").unwrap();
    let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
    eventually("no receiver", || shows(b, receivers).as_deref() == Some("0"));
    servers.query(WRITE_LOST);
    write_much(a);
    let end = shows(a, "SELECT pg_current_wal_flush_lsn()").unwrap();
    let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    eventually("the lost commit", || shows(c, &replayed).as_deref() == Some("t"));
    assert_eq!(shows(c, READ_QUIET).as_deref(), Some("666"));
    a.stop(Stop::Fast).unwrap();
    b.query("postgres", "SELECT pg_promote()").unwrap();
    let conninfo = format!("host={} port={} user=postgres", b.socket_folder().display(), b.port());
    c.query("postgres", &format!("ALTER SYSTEM SET primary_conninfo = '{conninfo}'")).unwrap();
    c.query("postgres", "ALTER SYSTEM SET primary_slot_name = ''").unwrap();
    c.restart(Stop::Fast).unwrap();

    let (port, metrics_port) = (free_port(), free_port());
    let lines = format!("metrics_listen = \"127.0.0.1:{metrics_port}\"\nauth_type = \"trust\"\n{ANYWHERE}");
    let text = configuration(&servers, port, &lines);
    let (before, nodes) = text.split_once("[primary]").unwrap();
    let standby = nodes.split("[[standby]]\n").nth(2).unwrap();
    let host = b.socket_folder().display();
    let text = format!("{before}[primary]\nhost = \"{host}\"\nport = {}\n[[standby]]\n{standby}", b.port());
    let serving = Serving::configured(servers.clone(), port, metrics_port, &text);
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let mut client = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    // The decoded changes begin below the standby's position, and now go on above it: nothing else speaks
    // against it.
    (0..2).for_each(|_| write_much(b));
    reads_are_right(&mut console, &mut client, "standby2");

    let checked = serving.run("check", &[]).failed_saying(1);
    let said = "standby2: missing: the standby has diverged from the primary: its timeline 1 goes beyond";
    assert!(checked.contains(said) && checked.contains("pg_rewind"), "{checked}");
    let status = serving.run("status", &[]).worked();
    assert!(status.contains("has diverged from the primary") && status.contains("pg_rewind"), "{status}");
}

fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").arg(from).arg(to)).worked();
}

/// The primary comes back from an older copy of its folder, and writes other WAL in the place of what it has lost. Its standby
/// was proven before, and no connection to it ends.
#[test]
fn standby_of_a_restored_primary_serves_nothing() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let (a, c) = (serving.servers.primary(), serving.servers.standby(0));
    let mut client = Client::connect(&url).unwrap();
    eventually("a read there", || {
        assert_eq!(client.one(READ_QUIET).unwrap(), "7");
        served(&mut console, "standby1") > 0
    });
    a.stop(Stop::Fast).unwrap();
    let kept = serving.servers.cluster().folder().join("kept");
    copy(&a.data_folder(), &kept);
    a.start().unwrap();
    a.query("postgres", WRITE_LOST).unwrap();
    eventually("the lost commit", || shows(c, READ_QUIET).as_deref() == Some("666"));
    a.stop(Stop::Immediate).unwrap();
    std::fs::remove_dir_all(a.data_folder()).unwrap();
    copy(&kept, &a.data_folder());
    a.start().unwrap();
    write_much(a);
    let mut client = None;
    eventually("a log-in", || {
        client = Client::connect(&url).ok();
        client.is_some()
    });
    let mut client = client.unwrap();
    let before = console.node("standby1").served;
    let mut why = String::new();
    eventually("the standby's history compared", || {
        assert_eq!(client.one(READ_QUIET).unwrap(), "7");
        why = console.node("standby1").why;
        why.contains("diverged")
    });
    for _ in 0..50 {
        assert_eq!(client.one(READ_QUIET).unwrap(), "7");
    }
    assert_eq!(console.node("standby1").served, before, "{why}");
}
