//! Histories of clients of the tier under faults: strictly serializable. `HISTORY_SECONDS=600` goes on with other faults for so long.

use super::Tier;
use crate::cut_network::Network;
use crate::fixture::{Ends, eventually, history_time};
use load_clients::progress::Progress;
use load_clients::stop::Stop;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use workloads::check::{Findings, Model, check};
use workloads::histories::{Isolation, Recorded, Workload, record, set_up_texts};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);
/// Versions between two faults.
const COMMITS: u64 = 150;

/// Waits for so many more versions, whatever becomes of the clients meanwhile.
fn commits(tier: &Tier) {
    let newest = || tier.nodes().iter().map(|node| node.received).max().unwrap_or(0);
    let from = newest();
    eventually("more commits", || newest() >= from + COMMITS);
}

/// The history of clients while this is done to the tier.
fn recorded(tier: &Tier, isolation: Isolation, strike: impl FnOnce(&Tier) + Send) -> (Recorded, Findings) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(set_up_texts(&tier.url(), &[])).expect("tables");
    let workload =
        Workload { texts: true, rate: 400, keys: 20, ..Workload::new(&tier.url(), isolation, LONG) };
    let stop = Stop::new();
    let recorded = std::thread::scope(|scope| {
        let ending = Ends(stop.clone());
        let striking = scope.spawn(move || {
            let _ending = ending;
            commits(tier);
            strike(tier);
            commits(tier);
        });
        let recorded = runtime.block_on(async { record(&workload, &stop, &mut Progress::new()).await });
        striking.join().expect("the faults come and go");
        recorded.expect("a history")
    });
    let findings = check(&recorded.history);
    (recorded, findings)
}

#[test]
fn histories_are_strictly_serializable_while_every_node_dies() {
    for isolation in [Isolation::Serializable, Isolation::Autocommit] {
        let (_, findings) = recorded(&Tier::start(3), isolation, |tier| {
            for node in ["node1", "node2", "node3"] {
                tier.signal(node, Signal::KILL);
                commits(tier);
                tier.up(3);
                tier.until_whole(3);
                commits(tier);
            }
        });
        assert!(findings.holds(Model::StrictSerializable), "{findings}");
        assert!(findings.living as u64 > 4 * COMMITS, "{findings}");
    }
}

#[test]
fn histories_are_strictly_serializable_while_nodes_hang_and_consort_dies() {
    let (_, findings) = recorded(&Tier::start(3), Isolation::Serializable, |tier| {
        for node in [tier.slave(), tier.master()] {
            tier.signal(&node, Signal::STOP);
            commits(tier);
            tier.signal(&node, Signal::CONT);
            tier.until_whole(3);
            commits(tier);
        }
        tier.kill_consort();
        tier.up(3);
        commits(tier);
    });
    assert!(findings.holds(Model::StrictSerializable), "{findings}");
}

/// A fault of one node, or of Consort, and its end.
fn fault(tier: &Tier, networks: &[Network], random: &mut fastrand::Rng) {
    let number = random.usize(0..3);
    let node = format!("node{}", number + 1);
    match (random.u8(0..4), networks.get(number)) {
        (0, None) => {
            tier.signal(&node, Signal::KILL);
            commits(tier);
            tier.up(3);
        }
        (0 | 1, Some(network)) => {
            network.cut();
            commits(tier);
            network.mend();
        }
        (0..3, _) => {
            tier.signal(&node, Signal::STOP);
            commits(tier);
            tier.signal(&node, Signal::CONT);
        }
        _ => {
            tier.kill_consort();
            tier.up(3);
        }
    }
    tier.until_whole(3);
    commits(tier);
}

/// Rounds of one history each, every second one with networks that are cut in place of nodes that are killed.
#[test]
fn histories_are_strictly_serializable_under_random_faults() {
    let since = Instant::now();
    for seed in 0.. {
        let mut random = fastrand::Rng::with_seed(seed);
        let (tier, networks) = match seed % 2 {
            0 => Tier::behind_networks(3),
            _ => (Tier::start(3), Vec::new()),
        };
        let isolation = if random.bool() { Isolation::Serializable } else { Isolation::Autocommit };
        let (_, findings) = recorded(&tier, isolation, |tier| {
            // The master's network first: it is cut off from Consort and from its slaves.
            let number = tier.master().trim_start_matches("node").parse::<usize>().expect("a number");
            if let Some(network) = networks.get(number - 1) {
                network.cut();
                commits(tier);
                network.mend();
                tier.until_whole(3);
            }
            (0..3).for_each(|_| fault(tier, &networks, &mut random));
        });
        assert!(findings.holds(Model::StrictSerializable), "seed {seed}: {findings}");
        assert!(findings.living as u64 > 4 * COMMITS, "seed {seed}: {findings}");
        if seed > 0 && since.elapsed() >= history_time(0) {
            return;
        }
    }
}
