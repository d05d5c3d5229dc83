//! The list-append workload itself: what it does with faults, and its subcommand.

use crate::fixture;
use load_clients::progress::Progress;
use load_clients::session::Protocol;
use load_clients::stop::Stop;
use local_cluster::Stop as How;
use std::sync::Arc;
use std::time::Duration;
use workloads::check::{Model, Outcome, check};
use workloads::histories::{Isolation, Registers, Workload, record, record_registers, set_up};

#[tokio::test]
async fn a_crash_of_the_server_makes_unknown_outcomes_and_no_anomaly() {
    let servers = Arc::new(fixture::servers(0).await);
    let url = fixture::url(servers.primary());
    set_up(&url, &[]).await.unwrap();
    let stop = Stop::new();
    let workload = Workload::new(&url, Isolation::RepeatableRead, Duration::from_secs(60));
    let (recorded, ()) =
        tokio::join!(async { record(&workload, &stop, &mut Progress::silent()).await.unwrap() }, async {
            fixture::wait_for_rows(&url, "SELECT 1 FROM consort_bench_list LIMIT 1").await;
            let crashing = servers.clone();
            let restart = move || crashing.primary().restart(How::Immediate).unwrap();
            tokio::task::spawn_blocking(restart).await.unwrap();
            fixture::wait_for_rows(&url, "SELECT 1 FROM consort_bench_list WHERE k > 20 LIMIT 1").await;
            stop.now();
        });
    let findings = check(&recorded.history);
    assert!(findings.holds(Model::StrongSnapshotIsolation), "{findings}");
    // The number of clients that had logged in before the crash is the machine's matter.
    assert!(recorded.lost_sessions >= 1, "{}", recorded.lost_sessions);
    assert!(recorded.first_trouble.is_some());
    assert!(recorded.history.count(Outcome::Committed) > 100);
}

#[tokio::test]
async fn registers_of_one_server_are_linearizable() {
    let servers = fixture::servers(0).await;
    let run = Registers {
        url: fixture::url(servers.primary()),
        clients: 6,
        keys: 3,
        time: Duration::from_secs(2),
        reads: 0.5,
        protocol: Protocol::Extended,
        seed: 1,
    };
    let (accesses, faults) = record_registers(&run, &Stop::new()).await.unwrap();
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(accesses.len(), 3);
    assert!(accesses.values().map(Vec::len).sum::<usize>() > 200);
}
