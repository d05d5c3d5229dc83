//! Nodes are made again from dumps, and the ledger brings what these lack.

use super::faults::Transfers;
use super::membership::{at_each, node, up};
use crate::fixture::{eventually, psql, up_folder};
use crate::load::Client;
use std::path::{Path, PathBuf};
use testkit::UpFolder;

const NODES: [&str; 3] = ["node1", "node2", "node3"];

/// Numbers of the dumps that are kept.
fn dumps(folder: &UpFolder) -> Vec<u64> {
    let entries = std::fs::read_dir(folder.path().join("dumps")).expect("dumps");
    let mut all: Vec<u64> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

/// A file of a table's rows in a dump: the largest one.
fn largest(folder: &Path) -> PathBuf {
    let mut files: Vec<(u64, PathBuf)> = Vec::new();
    let mut folders = vec![folder.join("backup/base")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let found = entry.metadata().expect("a file");
            if found.is_dir() {
                folders.push(entry.path());
            } else {
                files.push((found.len(), entry.path()));
            }
        }
    }
    files.into_iter().max().expect("a file").1
}

fn flip_a_byte(file: &Path) {
    let mut bytes = std::fs::read(file).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).expect("a file");
}

fn takes_sessions(folder: &UpFolder) {
    eventually("all nodes take sessions", || {
        let status = folder.run("status", &[]).out;
        status.contains("node3") && !status.contains("down")
    });
}

fn sums(folder: &UpFolder) -> String {
    let rows = at_each(
        folder,
        &NODES,
        "SELECT sum(v), (SELECT string_agg(name, ' ' ORDER BY name) FROM done) FROM account",
    );
    assert!(rows.iter().all(|one| *one == rows[0] && one.contains("1000")), "{rows:?}");
    rows[0].clone()
}

#[test]
fn node_is_restored_from_the_last_whole_dump() {
    let folder = up_folder();
    up(&folder, "3");
    let url = folder.url();
    super::faults::accounts(&mut Client::connect(&url).expect("a client"));
    let refused = node(&folder, &["restore", "node2"]).failed(1);
    assert!(refused.contains("no whole dump"), "{refused}");
    let transfers = Transfers::start(&url);
    for expected in [&[1][..], &[1, 2], &[2, 3]] {
        transfers.go_on();
        let said = node(&folder, &["dump"]).worked();
        assert!(said.contains("postgres at"), "{said}");
        assert_eq!(dumps(&folder), expected, "the last one and the one before");
    }
    transfers.go_on();
    let said = node(&folder, &["restore", "node2"]);
    assert!(said.err.contains("from dump 3") && !said.err.contains("damaged"), "{}", said.err);
    said.worked();
    transfers.go_on();
    folder.run("verify", &[]).worked();
    // A damaged file, and then no end mark: the one before is taken.
    flip_a_byte(&largest(&folder.path().join("dumps/3")));
    let said = node(&folder, &["restore", "node2"]);
    assert!(said.err.contains("dump 3 is damaged") && said.err.contains("from dump 2"), "{}", said.err);
    said.worked();
    transfers.go_on();
    folder.run("verify", &[]).worked();
    let versions = folder.path().join("dumps/2/versions");
    let text = std::fs::read_to_string(&versions).expect("versions");
    std::fs::write(&versions, &text[..text.len() - 3]).expect("a file");
    let refused = node(&folder, &["restore", "node2"]).failed(1);
    assert!(refused.contains("dump 2 is damaged") && refused.contains("no whole dump"), "{refused}");
    transfers.end();
    sums(&folder);
    folder.run("down", &[]).worked();
}

/// All nodes are lost: the ledger has every acknowledged transfer. Then it is lost too: the dump is left.
#[test]
fn whole_cluster_is_restored_from_a_dump() {
    let folder = up_folder();
    up(&folder, "3");
    let url = folder.url();
    super::faults::accounts(&mut Client::connect(&url).expect("a client"));
    let transfers = Transfers::start(&url);
    transfers.go_on();
    node(&folder, &["dump", "--from", "node2"]).worked();
    transfers.go_on();
    let acknowledged = transfers.end();
    let refused = node(&folder, &["restore", "--all"]).failed(1);
    assert!(refused.contains("stop it first"), "{refused}");
    folder.run("down", &[]).worked();
    for name in NODES {
        std::fs::remove_dir_all(folder.path().join(name)).expect("a node");
    }
    let said = node(&folder, &["restore", "--all"]).worked();
    assert!(said.contains("the ledger goes on"), "{said}");
    up(&folder, "3");
    takes_sessions(&folder);
    let there = sums(&folder);
    assert!(acknowledged.iter().all(|name| there.contains(name)), "acknowledged and lost: {there}");
    folder.run("down", &[]).worked();
    for name in NODES {
        std::fs::remove_dir_all(folder.path().join(name)).expect("a node");
    }
    std::fs::remove_dir_all(folder.path().join("ledger")).expect("a ledger");
    let refused = node(&folder, &["restore", "--all"]).failed(1);
    assert!(refused.contains("the ledger is lost") && refused.contains("--new-ledger"), "{refused}");
    assert!(NODES.iter().all(|name| !folder.path().join(name).exists()), "nothing is replaced before");
    let said = node(&folder, &["restore", "--all", "--new-ledger"]).worked();
    assert!(said.contains("the ledger is lost") && said.contains("are gone"), "{said}");
    up(&folder, "3");
    takes_sessions(&folder);
    sums(&folder);
    psql(&url, "UPDATE account SET v = v").worked();
    sums(&folder);
    folder.run("verify", &[]).worked();
    folder.run("down", &[]).worked();
}

/// A node that leaves the design is a PostgreSQL server as any other.
#[test]
fn node_without_consort_is_an_ordinary_server() {
    let folder = up_folder();
    up(&folder, "2");
    let url = folder.url();
    let page = include_str!("../../../../../docs/multi-primary.md");
    let (_, rest) = page.split_once("## How to leave it").expect("a chapter");
    let (before, _) = rest.split_once("\n## ").expect("another chapter");
    let sql: Vec<&str> = before.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    psql(&url, "CREATE TABLE t (id serial PRIMARY KEY, v text)").worked();
    psql(&url, "INSERT INTO t (v) VALUES ('a'), ('b')").worked();
    stop_consort(&folder);
    let consort = folder.run("psql", &["--node", "node1", "-c", &sql.join("\n")]);
    consort.worked();
    let at_node = |sql: &str| folder.run("psql", &["--node", "node1", "-c", sql]).worked();
    at_node(
        "INSERT INTO t (v) VALUES ('c'); UPDATE t SET v = 'd' WHERE id = 1; DROP TABLE IF EXISTS nothing",
    );
    at_node("CREATE TABLE other (id int PRIMARY KEY)");
    let left = at_node(
        "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'consort%' UNION ALL SELECT count(*) FROM pg_namespace \
         WHERE nspname = 'consort' UNION ALL SELECT count(*) FROM pg_event_trigger UNION ALL \
         SELECT seqincrement - 1 FROM pg_sequence WHERE seqrelid = 't_id_seq'::regclass",
    );
    assert_eq!(left.matches('0').count(), 4, "{left}");
    folder.run("down", &[]).worked();
}

/// Stops Consort alone: the servers stay.
fn stop_consort(folder: &UpFolder) {
    let pid = std::fs::read_to_string(folder.path().join("consort.pid")).expect("a process");
    let pid = pid.trim().to_owned();
    assert!(std::process::Command::new("kill").arg(&pid).status().expect("a shell").success());
    let there = Path::new("/proc").join(&pid);
    eventually("Consort has ended", || !there.exists());
}
