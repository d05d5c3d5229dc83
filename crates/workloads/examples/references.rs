//! Records the reference histories of the checker's tests from a scratch PostgreSQL server, one file per isolation
//! level, each of a size that a repository can hold.

use load_clients::progress::Progress;
use load_clients::stop::Stop;
use postgres::address::Host;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;
use testkit::Scratch;
use workloads::check::{Outcome, check};
use workloads::histories::{Isolation, Snapshots, Workload, record, set_up};

/// Number of transactions of a file.
const TRANSACTIONS: u64 = 1200;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let servers = tokio::task::spawn_blocking(|| Scratch::start(0)).await.expect("the server starts");
    let address = servers.primary().address("postgres", "postgres");
    let Host::Socket(folder) = &address.host else { panic!("a local server is reached by its socket") };
    let url = format!("host={} port={} user=postgres dbname=postgres", folder.display(), address.port);
    let limit = Duration::from_secs(120);
    let plain = |isolation| Workload {
        keys: 6,
        appends_per_key: 12,
        transactions: TRANSACTIONS,
        ..Workload::new(&url, isolation, limit)
    };
    let old = Workload {
        snapshots: Snapshots { old: 0.5, ..Snapshots::default() },
        ..plain(Isolation::RepeatableRead)
    };
    let runs = [
        ("read-committed", plain(Isolation::ReadCommitted)),
        ("repeatable-read", plain(Isolation::RepeatableRead)),
        ("serializable", plain(Isolation::Serializable)),
        ("repeatable-read-old-snapshots", old),
    ];
    for (name, workload) in runs {
        set_up(&workload.url, &[]).await.expect("a table");
        let history = record(&workload, &Stop::new(), &mut Progress::silent()).await.expect("a run").history;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/references/{name}.jsonl"));
        history.write(BufWriter::new(File::create(path).expect("the folder is there"))).expect("room");
        let findings = check(&history);
        let names: Vec<String> = findings.anomalies.iter().map(|anomaly| anomaly.name()).collect();
        println!(
            "{name}: {} committed, {names:?}, breaks {:?}",
            history.count(Outcome::Committed),
            findings.broken
        );
    }
}
