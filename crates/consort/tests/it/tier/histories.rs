//! Histories of clients of the tier under faults: strictly serializable.

use super::Tier;
use crate::fixture::eventually;
use load_clients::progress::Progress;
use load_clients::stop::Stop;
use rustix::process::Signal;
use std::time::Duration;
use workloads::check::{Findings, Model, check};
use workloads::histories::{Isolation, Recorded, Workload, record, set_up_texts};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);
/// Versions between two faults.
const COMMITS: u64 = 150;

/// Ends the recording, also when the work alongside it fails.
struct Ends(Stop);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.now();
    }
}

/// Waits for so many more versions, whatever becomes of the clients meanwhile.
fn commits(tier: &Tier) {
    let newest = || tier.nodes().iter().map(|node| node.received).max().unwrap_or(0);
    let from = newest();
    eventually("more commits", || newest() >= from + COMMITS);
}

/// The history of clients while this is done to the tier.
fn recorded(isolation: Isolation, strike: impl FnOnce(&Tier) + Send) -> (Recorded, Findings) {
    let tier = Tier::start(3);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(set_up_texts(&tier.url(), &[])).expect("tables");
    let workload =
        Workload { texts: true, rate: 400, keys: 20, ..Workload::new(&tier.url(), isolation, LONG) };
    let stop = Stop::new();
    let recorded = std::thread::scope(|scope| {
        let ending = Ends(stop.clone());
        let tier = &tier;
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
        let (_, findings) = recorded(isolation, |tier| {
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
    let (_, findings) = recorded(Isolation::Serializable, |tier| {
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
