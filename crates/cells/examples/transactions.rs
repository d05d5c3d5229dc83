//! Transactions a second over the embedded store, each group synced:
//! `cargo run --profile dist -p cells --example transactions [folder] [seconds]`.
//!
//! The folder is where the disk is that is to be measured; a new folder in it is made and removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cells::{Begin, Database, Error, Options};
use stores::{EmbeddedOptions, EmbeddedStore};

const ROWS: u64 = 200_000;
const VALUE: usize = 100;
const THREADS: usize = 2;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let folder = place.join(format!("cells-transactions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_time().build();
    runtime.expect("a runtime starts").block_on(measure_all(&folder, Duration::from_secs(seconds)));
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

async fn measure_all(folder: &Path, time: Duration) {
    let store = EmbeddedStore::open(&folder.join("store"), EmbeddedOptions::default()).expect("it opens");
    let database = Database::open(Arc::new(store), folder, Options::default()).await.expect("it opens");
    println!("{ROWS} rows of {VALUE} bytes, {THREADS} threads");
    println!("{:34} {:>12} {:>9} {:>9} {:>9}", "", "a second", "cpu us", "failed", "a sync");
    load(&database).await;
    measure("point read, a transaction each", &database, 16, time, |database, random| async move {
        let transaction = database.begin(Begin { read_only: true, ..Begin::default() }).await?;
        let row = transaction.get(&key(random)).await?;
        assert!(row.is_some(), "every row is loaded");
        transaction.commit().await.map(drop)
    })
    .await;
    for clients in [1, 16, 256, 1_024] {
        let name = format!("two rows written, {clients} clients");
        measure(&name, &database, clients, time, |database, random| async move {
            let mut transaction = database.begin(Begin::default()).await?;
            transaction.put(key(random), value(random))?;
            transaction.put(key(random >> 20), value(random))?;
            transaction.commit().await.map(drop)
        })
        .await;
    }
    println!("{:?}", database.status());
    database.close().await.expect("it closes");
}

fn key(random: u64) -> Bytes {
    format!("user{:08}", random % ROWS).into()
}

fn value(random: u64) -> Bytes {
    let mut value = random.to_le_bytes().to_vec();
    value.resize(VALUE, b'x');
    value.into()
}

async fn load(database: &Database) {
    for first in (0..ROWS).step_by(1_000) {
        let mut transaction = database.begin(Begin::default()).await.expect("it begins");
        for row in first..first + 1_000 {
            transaction.put(key(row), value(row)).expect("it is valid");
        }
        transaction.commit().await.expect("it commits");
    }
}

/// Runs clients for a time. `cpu us` is the processor time of the process for each operation.
async fn measure<F, O>(name: &str, database: &Database, clients: u64, time: Duration, operation: F)
where
    F: Fn(Database, u64) -> O + Copy + Send + 'static,
    O: Future<Output = Result<(), Error>> + Send,
{
    let (before, cpu, begun) = (database.status().ledger, cpu_time(), Instant::now());
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let database = database.clone();
            tokio::task::spawn(async move {
                let (mut random, mut done, mut failed) = (client, 0u64, 0u64);
                while begun.elapsed() < time {
                    random = mixed(random);
                    match operation(database.clone(), random).await {
                        Ok(()) => done += 1,
                        Err(_) => failed += 1,
                    }
                }
                (done, failed)
            })
        })
        .collect();
    let (mut done, mut failed) = (0, 0);
    for task in tasks {
        let counts = task.await.expect("a client does not panic");
        (done, failed) = (done + counts.0, failed + counts.1);
    }
    let (took, cpu) = (begun.elapsed().as_secs_f64(), cpu_time() - cpu);
    let after = database.status().ledger;
    let syncs = (after.syncs - before.syncs).max(1);
    println!(
        "{name:34} {:>12.0} {:>9.2} {failed:>9} {:>9.1}",
        done as f64 / took,
        cpu.as_secs_f64() * 1e6 / done as f64,
        (after.records - before.records) as f64 / syncs as f64,
    );
}

/// Processor time of all threads of this process.
fn cpu_time() -> Duration {
    let nanos = |path: &Path| -> u64 {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux tells it").flatten();
    Duration::from_nanos(threads.map(|thread| nanos(&thread.path())).sum())
}

/// The generator "splitmix64" (Steele, Lea and Flood, 2014).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
