//! Processes of the tier die, hang and come back.

use super::Tier;
use crate::fixture::{eventually, psql};
use crate::load::Client;
use rustix::process::Signal;
use std::fs;

/// Writes a row, again until it is acknowledged: what is refused in between has not taken effect, or is there already.
fn insert(tier: &Tier, id: i64) {
    eventually("an acknowledged insert", || {
        let text = format!("INSERT INTO t VALUES ({id}) ON CONFLICT (id) DO NOTHING");
        psql(&tier.url(), &text).status.success()
    });
}

fn count(tier: &Tier) -> i64 {
    tier.client().number("SELECT count(*) FROM t").expect("a count")
}

fn table(tier: &Tier) {
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY)").worked();
}

#[test]
fn another_node_becomes_the_master_and_nothing_is_lost() {
    let tier = Tier::start(3);
    table(&tier);
    for round in 0..3 {
        (0..10).for_each(|number| insert(&tier, round * 100 + number));
        let master = tier.master();
        tier.signal(&master, Signal::KILL);
        insert(&tier, round * 100 + 10);
        assert_ne!(tier.master(), master);
        assert_eq!(count(&tier), (round + 1) * 11);
        // It comes back as a slave that has all.
        tier.up(3);
        tier.until_whole(3);
    }
    assert_eq!(count(&tier), 33);
}

/// Whether a file of the query log has these bytes.
fn log_has(tier: &Tier, bytes: &[u8]) -> bool {
    let files = fs::read_dir(tier.folder.path().join("ledger/log")).expect("the log's folder");
    let has = |file: fs::DirEntry| {
        fs::read(file.path()).is_ok_and(|read| read.windows(bytes.len()).any(|window| window == bytes))
    };
    files.map(|file| file.expect("a file")).any(has)
}

/// The log has the change, a slave that hangs does not acknowledge it, the master dies. The client looks at once.
#[test]
fn what_became_of_a_commit_shows_in_the_next_read_after_its_answer_was_lost() {
    let tier = Tier::start(3);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, v text)").worked();
    for block in ["", "BEGIN;"] {
        let (master, slave, mut client) = (tier.master(), tier.slave(), tier.client());
        let mark = format!("the lost one {block}");
        let write = &format!("INSERT INTO t VALUES ({}, '{mark}')", block.len());
        client.rows(block).expect("an open block, or nothing");
        tier.signal(&slave, Signal::STOP);
        let (told, mut client) = std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                let end = if block.is_empty() { "" } else { "COMMIT" };
                let told = client.rows(write).and_then(|_| client.rows(end));
                (told, client)
            });
            eventually("the change in the log", || log_has(&tier, mark.as_bytes()));
            tier.signal(&master, Signal::KILL);
            writing.join().expect("an answer")
        });
        if let Err(told) = told {
            assert_eq!(told.sqlstate.as_deref(), Some("08007"), "{told:?}");
        }
        let count = client.number(&format!("SELECT count(*) FROM t WHERE v = '{mark}'"));
        assert_eq!(count.expect("a count"), 1);
        tier.signal(&slave, Signal::CONT);
        tier.up(3);
        tier.until_whole(3);
    }
}

#[test]
fn a_slave_that_dies_or_hangs_delays_commits_for_a_bounded_time() {
    let tier = Tier::start(3);
    table(&tier);
    insert(&tier, 0);
    let slave = tier.slave();
    tier.signal(&slave, Signal::STOP);
    (1..10).for_each(|number| insert(&tier, number));
    for _ in 0..10 {
        assert_eq!(count(&tier), 10);
    }
    assert!(tier.nodes().iter().any(|node| node.name == slave && !node.serves));
    tier.signal(&slave, Signal::CONT);
    tier.until_whole(3);
    tier.signal(&slave, Signal::KILL);
    (10..20).for_each(|number| insert(&tier, number));
    assert_eq!(count(&tier), 20);
    tier.up(3);
    tier.until_whole(3);
    assert_eq!(count(&tier), 20);
}

/// A master that hangs is replaced. Later it goes on, and no client hears of what it does.
#[test]
fn a_master_that_hangs_is_replaced_and_comes_back_as_a_slave() {
    let tier = Tier::start(3);
    table(&tier);
    insert(&tier, 0);
    let master = tier.master();
    tier.signal(&master, Signal::STOP);
    (1..10).for_each(|number| insert(&tier, number));
    tier.signal(&master, Signal::CONT);
    tier.until_whole(3);
    assert_ne!(tier.master(), master);
    (10..20).for_each(|number| insert(&tier, number));
    assert_eq!(count(&tier), 20);
}

#[test]
fn the_log_brings_back_what_was_acknowledged_when_all_memory_is_lost() {
    let tier = Tier::start(2);
    table(&tier);
    (0..20).for_each(|number| insert(&tier, number));
    let nodes: Vec<String> = tier.nodes().into_iter().map(|node| node.name).collect();
    nodes.iter().for_each(|node| tier.signal(node, Signal::KILL));
    tier.kill_consort();
    tier.up(2);
    assert_eq!(count(&tier), 20);
    insert(&tier, 20);
    // Consort alone dies: the nodes keep what they have.
    tier.kill_consort();
    tier.up(2);
    insert(&tier, 21);
    assert_eq!(count(&tier), 22);
}

#[test]
fn a_node_joins_while_clients_write() {
    let tier = Tier::start(2);
    table(&tier);
    (0..10).for_each(|number| insert(&tier, number));
    tier.folder.run("down", &[]).worked();
    tier.up(3);
    tier.until_whole(3);
    (10..20).for_each(|number| insert(&tier, number));
    for _ in 0..10 {
        assert_eq!(count(&tier), 20);
    }
}

/// Consort ends at once while a commit waits for a slave that hangs: its client cannot know the outcome, and hears so.
#[test]
fn commit_whose_client_must_leave_has_an_unknown_outcome() {
    for block in ["", "BEGIN;"] {
        let tier = Tier::start(3);
        psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, v text)").worked();
        let (master, slave, mut client) = (tier.master(), tier.slave(), tier.client());
        let mark = format!("of a client that must leave {block}");
        let write = &format!("INSERT INTO t VALUES (1, '{mark}')");
        client.rows(block).expect("an open block, or nothing");
        tier.signal(&slave, Signal::STOP);
        let told = std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                let end = if block.is_empty() { "" } else { "COMMIT" };
                client.rows(write).and_then(|_| client.rows(end))
            });
            eventually("the change in the log", || log_has(&tier, mark.as_bytes()));
            // Nor does it come to an end when the slave is given up.
            tier.signal(&master, Signal::STOP);
            tier.end_consort();
            writing.join().expect("an answer")
        });
        [&master, &slave].iter().for_each(|node| tier.signal(node, Signal::CONT));
        let told = told.expect_err("a client that must leave");
        assert_eq!(told.sqlstate.as_deref(), Some("08007"), "{told:?}");
        tier.until_consort_has_ended();
        tier.up(3);
        assert_eq!(count(&tier), 1, "the log has it");
    }
}

/// The end of a slave, and of the master: the spare serves in its place, at once and with everything.
#[test]
fn spare_takes_the_place_of_a_lost_node() {
    let tier = Tier::start_with_spares(3, 1);
    table(&tier);
    insert(&tier, 0);
    let role = |name: &str| tier.nodes().into_iter().find(|node| node.name == name).expect("a node").role;
    let transactions =
        |name: &str| tier.nodes().into_iter().find(|node| node.name == name).expect("a node").transactions;
    let spare = "node4";
    assert_eq!(role(spare), "spare");
    let status = tier.folder.run("status", &[]).worked();
    assert!(status.contains("spare"), "{status}");
    // Open reads do not run there, but for a few: one read in a hundred keeps it warm.
    let mut readers: Vec<_> = (0..6).map(|_| tier.client()).collect();
    // Reads of different versions go to different nodes.
    let mut version = 0;
    let mut read = |readers: &mut Vec<Client>| {
        for reader in readers {
            version += 1;
            insert(&tier, version);
            reader.rows("BEGIN READ ONLY").expect("a block");
            assert_eq!(reader.number("SELECT count(*) FROM t").expect("a count"), version + 1);
        }
    };
    read(&mut readers);
    // All of them are reported from other nodes: none is at the spare.
    let elsewhere = || {
        let nodes = tier.nodes().into_iter().filter(|node| node.name != spare);
        nodes.map(|node| node.transactions).sum::<u64>()
    };
    eventually("all reads at other nodes", || elsewhere() == readers.len() as u64);
    for reader in &mut readers {
        reader.rows("COMMIT").expect("an end");
    }
    let (master, mut lost) = (tier.master(), tier.slave());
    for _ in 0..2 {
        tier.signal(&lost, Signal::KILL);
        eventually("the spare's part", || role(spare) == "slave");
        read(&mut readers);
        eventually("reads at the spare", || transactions(spare) > 0);
        for reader in &mut readers {
            reader.rows("COMMIT").expect("an end");
        }
        tier.up_with_spares(3, 1);
        eventually("the spare's leave", || role(spare) == "spare");
        lost.clone_from(&master);
    }
    assert_eq!(count(&tier), 19);
}

/// An empty log must not have nodes discard what they have.
#[test]
fn tier_that_has_lost_its_log_alone_keeps_its_nodes() {
    let tier = Tier::start(2);
    tier.client().rows("CREATE TABLE kept (id int PRIMARY KEY); INSERT INTO kept VALUES (1)").expect("a row");
    let seen = tier.nodes()[0].received;
    tier.kill_consort();
    let (ledger, aside) = (tier.folder.path().join("ledger"), tier.folder.path().join("aside"));
    std::fs::rename(&ledger, &aside).expect("the log goes");
    let listen = format!("127.0.0.1:{}", tier.folder.port);
    let arguments = ["--listen", &listen, "--design", super::design(), "--nodes", "2"];
    let refused = tier.folder.run("up", &arguments).failed(1);
    assert!(
        refused.contains("the query log is empty") && refused.contains("has data in memory"),
        "{refused}"
    );
    std::fs::remove_dir_all(&ledger).expect("the empty log goes");
    std::fs::rename(&aside, &ledger).expect("the log comes back");
    tier.folder.run("up", &arguments).worked();
    tier.until_whole(2);
    assert!(tier.nodes()[0].received >= seen);
    assert_eq!(tier.client().number("SELECT count(*) FROM kept").expect("a count"), 1);
}
