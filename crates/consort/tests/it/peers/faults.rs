//! Nodes and Consort are killed and hang under transfers: what was acknowledged is there, sums hold, and all nodes are equal.

use super::{Peers, in_memory, is_conflict};
use crate::fixture::eventually;
use crate::load::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Clients that transfer money between ten accounts, and note each transfer in a row of its own.
pub(super) struct Transfers {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Transfers {
    pub(super) fn start(url: &str) -> Transfers {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..3)
            .map(|at| {
                let (url, stop, done) = (url.to_owned(), stop.clone(), done.clone());
                std::thread::spawn(move || transfer(&url, at, &stop, &done))
            })
            .collect();
        Transfers { stop, done, threads }
    }

    pub(super) fn go_on(&self) {
        let before = self.done.load(Ordering::Relaxed);
        eventually("transfers", || {
            assert!(!self.threads.iter().any(JoinHandle::is_finished), "a client has given up");
            self.done.load(Ordering::Relaxed) > before + 10
        });
    }

    /// The transfers that were acknowledged.
    pub(super) fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
    }
}

fn transfer(url: &str, at: u64, stop: &AtomicBool, done: &AtomicU64) -> Vec<String> {
    let (mut acknowledged, mut client, mut round) = (Vec::new(), None, 0_u64);
    while !stop.load(Ordering::Relaxed) {
        let Some(session) = client.as_mut() else {
            client = Client::connect(url).ok();
            continue;
        };
        round += 1;
        let (from, to) = (round % 10, (round + 1 + at) % 10);
        let name = format!("{at}-{round}");
        let ended = once(session, from, to, &name);
        match &ended {
            Ok(()) => {
                acknowledged.push(name);
                done.fetch_add(1, Ordering::Relaxed);
            }
            failed if is_conflict(failed) => {
                let _ = session.rows("ROLLBACK");
            }
            Err(_) => client = None,
        }
    }
    acknowledged
}

fn once(session: &mut Client, from: u64, to: u64, name: &str) -> Result<(), crate::load::Trouble> {
    session.rows("BEGIN")?;
    session.rows(&format!("UPDATE account SET v = v - 1 WHERE id = {from}"))?;
    session.rows(&format!("UPDATE account SET v = v + 1 WHERE id = {to}"))?;
    session.rows(&format!("INSERT INTO done VALUES ('{name}')"))?;
    session.rows("COMMIT").map(drop)
}

/// The tables of the transfers.
pub(super) fn accounts(client: &mut Client) {
    client.rows("CREATE TABLE account (id int PRIMARY KEY, v int)").expect("a table");
    client.rows("CREATE TABLE done (name text PRIMARY KEY)").expect("a table");
    client.rows("INSERT INTO account SELECT n, 100 FROM generate_series(0, 9) n").expect("a table");
}

fn bank(design: &str) -> Peers {
    bank_of(Peers::start(design))
}

fn bank_of(peers: Peers) -> Peers {
    accounts(&mut peers.client());
    peers.equal("SELECT count(*) FROM account");
    peers
}

fn check(peers: &Peers, acknowledged: &[String]) {
    assert_eq!(peers.equal("SELECT sum(v) FROM account"), "[[Some(\"1000\")]]");
    peers.equal("SELECT t::text FROM account t ORDER BY 1");
    let there = peers.equal("SELECT string_agg(name, ' ' ORDER BY name) FROM done");
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|name| !there.contains(&format!("{name} ")) && !there.contains(&format!("{name}\"")))
        .collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

#[test]
fn killed_nodes_lose_no_acknowledged_transfer() {
    for design in design::CERTIFIED {
        let peers = bank(design.name);
        let transfers = Transfers::start(&peers.url());
        for node in peers.cluster().nodes() {
            transfers.go_on();
            node.kill();
            transfers.go_on();
            node.start().expect("the node starts");
        }
        transfers.go_on();
        check(&peers, &transfers.end());
    }
}

/// Nodes that keep the order of commits have closed it after a crash, and are opened at what they show.
#[test]
fn ordered_nodes_lose_no_acknowledged_transfer() {
    let mut peers = bank_of(Peers::ordered());
    let transfers = Transfers::start(&peers.url());
    for node in peers.cluster().nodes() {
        transfers.go_on();
        node.kill();
        transfers.go_on();
        node.start().expect("the node starts");
    }
    transfers.go_on();
    peers.lose_all();
    transfers.go_on();
    check(&peers, &transfers.end());
    let passed = "SELECT consort.native_next_version() = max(version) + 1 FROM consort.version";
    assert_eq!(peers.equal(passed), "[[Some(\"t\")]]");
}

#[test]
fn killed_consort_loses_no_acknowledged_transfer() {
    let mut peers = bank(in_memory());
    let transfers = Transfers::start(&peers.url());
    for _ in 0..2 {
        transfers.go_on();
        peers.serving.signal("KILL");
        peers.serving.ended();
        peers.serving.start_again();
    }
    transfers.go_on();
    check(&peers, &transfers.end());
}

#[test]
fn all_killed_at_once_lose_no_acknowledged_transfer() {
    let mut peers = bank(in_memory());
    let transfers = Transfers::start(&peers.url());
    transfers.go_on();
    peers.lose_all();
    transfers.go_on();
    check(&peers, &transfers.end());
}

#[test]
fn hanging_node_does_not_stop_the_others() {
    let peers = bank(in_memory());
    let node = &peers.cluster().nodes()[1];
    let transfers = Transfers::start(&peers.url());
    transfers.go_on();
    node.hang();
    transfers.go_on();
    transfers.go_on();
    node.resume();
    transfers.go_on();
    check(&peers, &transfers.end());
}

/// A session at a node that gives no answer is told, and its client finds another node.
#[test]
fn session_at_hanging_node_is_disconnected() {
    let peers = bank(in_memory());
    let node = &peers.cluster().nodes()[1];
    let mut clients: Vec<Client> = (0..3).map(|_| peers.client()).collect();
    let number = |client: &mut Client| client.number("SELECT number FROM consort.place");
    let at = clients.iter_mut().position(|client| number(client).unwrap() == 1).expect("one is there");
    let mut there = clients.remove(at);
    node.hang();
    let trouble = there.rows("UPDATE account SET v = v WHERE id = 1").expect_err("no answer");
    assert!(trouble.says_away(), "{trouble:?}");
    let mut next = peers.client();
    assert_ne!(number(&mut next).unwrap(), 1);
    next.rows("UPDATE account SET v = v WHERE id = 1").unwrap();
    node.resume();
    peers.equal("SELECT t::text FROM account t ORDER BY 1");
}

/// A command that changes the catalog comes through under load, at all nodes, and nothing is lost.
#[test]
fn catalog_changes_under_load_reach_every_node() {
    let peers = bank(in_memory());
    let transfers = Transfers::start(&peers.url());
    transfers.go_on();
    let mut client = peers.client();
    for column in ["a", "b", "c"] {
        client.rows(&format!("ALTER TABLE account ADD COLUMN {column} int DEFAULT 7")).expect("a new column");
        transfers.go_on();
    }
    client.rows("CREATE INDEX ON account (v)").expect("an index");
    check(&peers, &transfers.end());
    assert_eq!(peers.equal("SELECT sum(c) FROM account"), "[[Some(\"70\")]]");
}

/// A node that is killed has lost positions of its sequences, and gives no value twice.
#[test]
fn killed_node_gives_no_value_of_a_sequence_twice() {
    let peers = Peers::start(in_memory());
    peers.client().rows("CREATE TABLE t (id serial PRIMARY KEY, v int)").expect("a table");
    for round in 0..2 {
        let mut clients = peers.clients::<3>();
        for _ in 0..50 {
            for client in &mut clients {
                client.rows("INSERT INTO t (v) VALUES (1)").expect("a value of its own");
            }
        }
        drop(clients);
        if round == 0 {
            peers.cluster().nodes().iter().for_each(local_cluster::Node::kill);
            for node in peers.cluster().nodes() {
                node.start().expect("the node starts");
            }
            eventually("sessions at all nodes", || {
                let mut clients: Vec<Client> =
                    (0..3).filter_map(|_| Client::connect(&peers.url()).ok()).collect();
                let place = |client: &mut Client| client.one("SELECT number FROM consort.place").ok();
                clients.iter_mut().filter_map(place).collect::<BTreeSet<String>>().len() == 3
            });
        }
    }
    assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"300\")]]");
}
