//! Histories over three writing nodes, under faults: generalized snapshot isolation in which a session sees its own commits, and
//! strong snapshot isolation for sessions that ask for it.

use super::{Peers, in_memory};
use crate::cut_network::Network;
use crate::fixture::{Ends, eventually, history_time};
use crate::load::Client;
use load_clients::progress::Progress;
use load_clients::stop::Stop;
use std::time::{Duration, Instant};
use workloads::check::{Findings, Model, check};
use workloads::histories::{Isolation, Recorded, Workload, record, set_up};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);
/// Commits between two faults.
const COMMITS: u64 = 150;

/// Waits for so many more commits, whatever becomes of the clients meanwhile.
fn commits(peers: &Peers) {
    let newest = || -> Option<u64> {
        let mut console = Client::connect(&peers.serving.url("postgres", "consort")).ok()?;
        let rows = console.rows("SHOW NODES").ok()?;
        rows.iter().find(|row| row.get("database") == Some("postgres"))?.get("newest")?.parse().ok()
    };
    let mut from = None;
    eventually("more commits", || {
        let now = newest();
        from = from.or(now);
        now.zip(from).is_some_and(|(now, from)| now >= from + COMMITS)
    });
}

/// The history of clients at this consistency while this is done to the servers.
fn recorded(
    mut peers: Peers,
    consistency: &str,
    isolation: Isolation,
    strike: impl FnOnce(&mut Peers) + Send,
) -> (Recorded, Findings) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(set_up(&peers.url(), &[])).expect("tables");
    let url = format!("{}?options=-c%20consort.consistency%3D{consistency}", peers.url());
    let workload = Workload { rate: 400, keys: 20, ..Workload::new(&url, isolation, LONG) };
    let stop = Stop::new();
    let recorded = std::thread::scope(|scope| {
        let ending = Ends(stop.clone());
        let peers = &mut peers;
        let striking = scope.spawn(move || {
            let _ending = ending;
            commits(peers);
            strike(peers);
            commits(peers);
        });
        let recorded = runtime.block_on(async { record(&workload, &stop, &mut Progress::new()).await });
        striking.join().expect("the faults come and go");
        recorded.expect("a history")
    });
    // It may have ended with the thread that has started it.
    peers.serving.signal("KILL");
    peers.serving.ended();
    peers.serving.start_again();
    peers.equal("SELECT t::text FROM consort_bench_list t ORDER BY 1");
    let findings = check(&recorded.history);
    (recorded, findings)
}

fn kills_each_node(peers: &mut Peers) {
    for node in peers.cluster().nodes() {
        node.kill();
        commits(peers);
        node.start().expect("the node starts");
        commits(peers);
    }
}

#[test]
fn histories_are_of_snapshots_and_strong_ones_where_asked_for() {
    for design in design::CERTIFIED {
        for (consistency, owed) in
            [("session", Model::StrongSessionSnapshotIsolation), ("strong", Model::StrongSnapshotIsolation)]
        {
            let peers = Peers::start(design.name);
            let (recorded, findings) =
                recorded(peers, consistency, Isolation::RepeatableRead, kills_each_node);
            assert!(findings.holds(owed), "{}, {consistency}: {findings}", design.name);
            assert!(findings.living as u64 > 4 * COMMITS && recorded.lost_sessions > 0, "{findings}");
        }
    }
}

/// Nodes that keep the order of commits show no version before an earlier one.
#[test]
fn histories_of_ordered_nodes_are_strong() {
    let (_, findings) = recorded(Peers::ordered(), "strong", Isolation::RepeatableRead, |peers| {
        kills_each_node(peers);
        peers.lose_all();
        commits(peers);
    });
    assert!(findings.holds(Model::StrongSnapshotIsolation), "{findings}");
}

/// Statements of their own are repeated inside Consort: none is done twice, none is lost.
#[test]
fn histories_of_repeated_statements_are_strong() {
    let peers = Peers::start(in_memory());
    let (_, findings) = recorded(peers, "strong", Isolation::Autocommit, kills_each_node);
    assert!(findings.holds(Model::StrongSnapshotIsolation), "{findings}");
}

#[test]
fn histories_hold_while_consort_dies_and_a_node_hangs() {
    let peers = Peers::start(in_memory());
    let (_, findings) = recorded(peers, "strong", Isolation::RepeatableRead, |peers| {
        for _ in 0..2 {
            peers.serving.signal("KILL");
            peers.serving.ended();
            peers.serving.start_again();
            commits(peers);
        }
        let node = &peers.cluster().nodes()[2];
        node.hang();
        commits(peers);
        node.resume();
        commits(peers);
        peers.lose_all();
    });
    assert!(findings.holds(Model::StrongSnapshotIsolation), "{findings}");
}

/// Strikes a node or Consort at random, one fault at a time, until the time is over.
fn strikes_at_random(peers: &mut Peers, networks: &[Network], until: Instant) {
    let seed = fastrand::u64(..);
    println!("faults of seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    while Instant::now() < until {
        let number = random.usize(0..networks.len());
        match random.u8(0..6) {
            0 | 1 => {
                peers.cluster().nodes()[number].kill();
                commits(peers);
                peers.cluster().nodes()[number].start().expect("the node starts");
            }
            2 => {
                peers.cluster().nodes()[number].hang();
                commits(peers);
                peers.cluster().nodes()[number].resume();
            }
            3 => {
                networks[number].cut();
                commits(peers);
                networks[number].mend();
            }
            4 => {
                peers.serving.signal("KILL");
                peers.serving.ended();
                peers.serving.start_again();
            }
            _ => peers.lose_all(),
        }
        commits(peers);
    }
}

/// Nodes that are killed, hang and are cut off, in any order, at both consistencies of each design.
#[test]
fn histories_hold_under_faults_of_every_kind() {
    let each = history_time(20) / 6;
    for design in design::CERTIFIED {
        for (consistency, owed) in
            [("session", Model::StrongSessionSnapshotIsolation), ("strong", Model::StrongSnapshotIsolation)]
        {
            let servers = testkit::Scratch::with(local_cluster::Options {
                standbys: 0,
                peers: 3,
                ..testkit::Scratch::options()
            });
            let (networks, peers) = Peers::over_networks(servers, design.name);
            let until = Instant::now() + each;
            let (_, findings) = recorded(peers, consistency, Isolation::RepeatableRead, |peers| {
                strikes_at_random(peers, &networks, until);
            });
            assert!(findings.holds(owed), "{}, {consistency}: {findings}", design.name);
        }
    }
}
