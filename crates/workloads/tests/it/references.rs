//! The four reference histories: recorded from plain PostgreSQL by our own workload, and the verdict on each.
//! `cargo run -p bench --example references` records them again. The files are the memory. The same runs are
//! also made live, so that neither the recorder nor the checker can drift alone.

use crate::fixture;
use load_clients::progress::Progress;
use load_clients::stop::Stop;
use std::time::Duration;
use workloads::check::{Findings, History, Model, Operation, check};
use workloads::histories::{Isolation, Snapshots, Workload, record, set_up};

/// Reads one of the files.
pub(crate) fn stored(name: &str) -> History {
    let path = format!("{}/tests/references/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    History::read(std::io::BufReader::new(file)).expect("a history")
}

fn holds(findings: &Findings) -> Vec<Model> {
    Model::ALL.into_iter().filter(|model| findings.holds(*model)).collect()
}

const SNAPSHOT_MODELS: [Model; 4] = [
    Model::ReadCommitted,
    Model::SnapshotIsolation,
    Model::StrongSessionSnapshotIsolation,
    Model::StrongSnapshotIsolation,
];

fn judge_read_committed(history: &History) {
    let findings = check(history);
    assert_eq!(holds(&findings), [Model::ReadCommitted], "{findings}");
    assert!(findings.found("G-single"), "{findings}");
}

fn judge_repeatable_read(history: &History) {
    let findings = check(history);
    assert_eq!(holds(&findings), SNAPSHOT_MODELS, "{findings}");
    assert!(findings.found("G2-item"), "{findings}");
}

fn judge_serializable(history: &History) {
    let findings = check(history);
    assert_eq!(holds(&findings), Model::ALL, "{findings}");
    assert!(findings.anomalies.is_empty(), "{findings}");
}

fn judge_old_snapshots(history: &History) {
    let findings = check(history);
    assert!(findings.holds(Model::SnapshotIsolation), "{findings}");
    assert!(!findings.holds(Model::StrongSessionSnapshotIsolation), "{findings}");
    assert!(!findings.holds(Model::StrongSnapshotIsolation), "{findings}");
    assert!(findings.found("G-single-process") || findings.found("G-single-realtime"), "{findings}");
}

#[test]
fn stored_read_committed_is_not_snapshot_isolation() {
    judge_read_committed(&stored("read-committed"));
}

#[test]
fn stored_repeatable_read_is_snapshot_isolation_with_write_skew() {
    judge_repeatable_read(&stored("repeatable-read"));
}

#[test]
fn stored_serializable_is_everything() {
    judge_serializable(&stored("serializable"));
}

#[test]
fn stored_old_snapshots_are_snapshot_isolation_but_not_strong() {
    judge_old_snapshots(&stored("repeatable-read-old-snapshots"));
}

#[tokio::test]
async fn live_histories_are_judged_like_the_stored_ones() {
    let servers = fixture::servers(0).await;
    let url = fixture::url(servers.primary());
    let limit = Duration::from_secs(120);
    let run = async |workload: Workload| {
        let workload = Workload { transactions: 1500, ..workload };
        set_up(&workload.url, &[]).await.unwrap();
        let recorded = record(&workload, &Stop::new(), &mut Progress::silent()).await.unwrap();
        // On a slow machine a planted old snapshot may be gone before it is taken: that transaction failed, no more.
        let is_planted = workload.snapshots.old > 0.0;
        assert!(is_planted || recorded.first_trouble.is_none(), "{:?}", recorded.first_trouble);
        recorded.history
    };
    judge_read_committed(&run(Workload::new(&url, Isolation::ReadCommitted, limit)).await);
    judge_repeatable_read(&run(Workload::new(&url, Isolation::RepeatableRead, limit)).await);
    judge_serializable(&run(Workload::new(&url, Isolation::Serializable, limit)).await);
    let autocommit = Workload::new(&url, Isolation::Autocommit, limit);
    let findings = check(&run(autocommit).await);
    assert_eq!(holds(&findings), Model::ALL, "{findings}");
    let together = Workload { together: 0.5, ..Workload::new(&url, Isolation::Autocommit, limit) };
    let history = run(together).await;
    let findings = check(&history);
    assert_eq!(holds(&findings), Model::ALL, "{findings}");
    let of_three = |operations: &[Operation]| matches!(operations, [Operation::Append(..), _, _]);
    assert!(history.transactions.iter().any(|transaction| of_three(&transaction.operations)));
    let old = Workload {
        snapshots: Snapshots { old: 0.5, ..Snapshots::default() },
        ..Workload::new(&url, Isolation::RepeatableRead, limit)
    };
    judge_old_snapshots(&run(old).await);
}
