//! A statement's own error is no failure of a replica: one server executes the statement, once, and its
//! client gets that error.

use crate::session::{query, until_it_leaves};
use crate::stage::{Open, Raw, until};
use cluster::Setup;
use local_cluster::{Node, Options};
use scheduler::Writers;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::Scratch;

/// Proofs wait longer where many tests run.
fn patient(setup: &mut Setup) {
    setup.proof_timeout = Duration::from_secs(5);
}

/// The design in which reads wait for the whole latest state.
fn waits_for_latest() -> design::Design {
    design::PRIMARY_COPY.into_iter().find(|design| design.reads == design::Reads::LatestWaiting).unwrap()
}

/// Number of the server's log lines with these words at this level.
fn logged(node: &Node, level: &str, words: &str) -> usize {
    let files = std::fs::read_dir(node.log_folder()).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let is_it = |line: &&str| line.contains(&format!("{level}:")) && line.contains(words);
    texts.map(|text| text.lines().filter(is_it).count()).sum()
}

/// Executions that failed with these words: at the primary, and at its only replica. A server writes its log later: all that it
/// had to say by now stands in front of a mark.
fn executed(servers: &Scratch, words: &str) -> (usize, usize) {
    static MARKS: AtomicUsize = AtomicUsize::new(0);
    let cluster = servers.cluster();
    let replica = cluster.standbys().iter().chain(cluster.replicas()).next().expect("one replica");
    let count = |node: &Node| {
        let mark = format!("mark {} of the test", MARKS.fetch_add(1, Ordering::Relaxed));
        node.query("postgres", &format!("DO $$ BEGIN RAISE LOG '{mark}'; END $$")).unwrap();
        until(|| logged(node, "LOG", &mark) > 0);
        logged(node, "ERROR", words)
    };
    (count(servers.primary()), count(replica))
}

/// A statement, its SQLSTATE, and the words of its error in a server's log.
const FAIL: [(&str, &str, &str); 5] = [
    ("SELECT 101 / (v - v) FROM items WHERE v < 3", "22012", "division by zero"),
    ("SELECT 102 / v FROM items WHERE id = 100", "22012", "division by zero"),
    ("SELECT 103 / 0", "22012", "division by zero"),
    ("SELECT (SELECT v FROM items)", "21000", "more than one row"),
    ("SELECT v::text::few FROM items", "23514", "value for domain few"),
];

/// Each fails at the replica, or at the primary where a proof has not come in time: never at both, and once.
fn fail_once(servers: &Scratch, set: impl FnOnce(&mut Setup) + Send + 'static) {
    servers.query(
        "CREATE DOMAIN few AS int CHECK (VALUE < 3); CREATE TABLE items (id int PRIMARY KEY, v int); \
         INSERT INTO items SELECT n, n - 100 FROM generate_series(1, 200) n",
    );
    let open = Open::before(servers, Writers::Anywhere, set);
    let mut raw = Raw::ready(&open, "postgres");
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items");
    for (text, sqlstate, words) in FAIL {
        until(|| {
            let before = executed(servers, words);
            assert_eq!(query(&mut raw, text).last().map(String::as_str), Some(sqlstate), "{text}");
            let after = executed(servers, words);
            let times = (after.0 - before.0, after.1 - before.1);
            assert!(matches!(times, (1, 0) | (0, 1)), "{text}: {times:?}, {}", open.why_at_primary());
            times == (0, 1)
        });
    }
}

/// With whole reads, such an error was taken for a replica's failure: the statement was executed at five
/// replicas one after the other, and at the primary.
#[test]
fn own_error_at_whole_reads_is_executed_once() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    fail_once(&servers, |setup| {
        patient(setup);
        setup.design = waits_for_latest();
    });
}

#[test]
fn own_error_at_fed_replica_is_executed_once() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    fail_once(&servers, patient);
}

#[test]
fn own_error_at_standby_is_executed_once() {
    fail_once(&Scratch::start(1), patient);
}

/// A read that leaves a block fails there, and makes the block fail, without being executed at the primary too.
#[test]
fn own_error_in_block_is_executed_once() {
    let servers = Scratch::start(1);
    servers.query("CREATE TABLE items (id int PRIMARY KEY, v int); INSERT INTO items SELECT n, n - 100 FROM generate_series(1, 200) n");
    let open = Open::before(&servers, Writers::Anywhere, patient);
    let mut raw = Raw::ready(&open, "postgres");
    until_it_leaves(&open, &mut raw, "SELECT count(*) FROM items");
    // Statements that take long leave a block, once that is known.
    let fails = "SELECT 1 / (count(*) - count(*)) FROM items, generate_series(1, 2000)";
    until(|| {
        let before = executed(&servers, "division by zero");
        query(&mut raw, "BEGIN");
        assert_eq!(query(&mut raw, fails), ["22012"]);
        assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"], "the block has failed");
        query(&mut raw, "ROLLBACK");
        let after = executed(&servers, "division by zero");
        let times = (after.0 - before.0, after.1 - before.1);
        assert!(matches!(times, (1, 0) | (0, 1)), "{times:?}, {}", open.why_at_primary());
        times == (0, 1)
    });
}

/// An error about the catalog or about roles is for the primary to report: a logical replica has copies of
/// both.
#[test]
fn catalog_error_at_fed_replica_is_the_primarys() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query("CREATE TABLE items (id int PRIMARY KEY, v int); INSERT INTO items VALUES (1, 1)");
    let open = Open::before(&servers, Writers::Anywhere, |setup| {
        patient(setup);
        setup.design = waits_for_latest();
    });
    let mut raw = Raw::ready(&open, "postgres");
    until_it_leaves(&open, &mut raw, "SELECT v FROM items");
    let replica = servers.replica(0);
    replica
        .query(
            "postgres",
            "SET session_replication_role = replica; SET default_transaction_read_only = off; \
        ALTER TABLE items RENAME TO gone",
        )
        .unwrap();
    assert_eq!(query(&mut raw, "SELECT v FROM items"), ["1"], "the primary has the table still");
    assert_eq!(executed(&servers, "\"items\" does not exist"), (0, 1), "one replica is asked once");
}
