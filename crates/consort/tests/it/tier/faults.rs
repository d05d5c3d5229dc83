//! Processes of the tier die, hang and come back.

use super::Tier;
use crate::fixture::{eventually, psql};
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
