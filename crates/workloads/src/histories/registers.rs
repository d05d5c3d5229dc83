//! One row per key, written and read by single statements: the check of linearizability in its plainest form. A write
//! returns the version that it made, so the order of versions is known without lists.

use crate::check::{Access, Key, RegisterFault, check_register};
use load_clients::session::{Cell, Protocol, Session, Trouble};
use load_clients::stop::Stop;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The table of the registers.
const TABLE: &str = "consort_bench_register";

/// A run on registers.
#[derive(Clone, Debug)]
pub struct Registers {
    /// Address of the clients.
    pub url: String,
    /// Number of clients.
    pub clients: usize,
    /// Number of rows.
    pub keys: u32,
    /// Time for which they run.
    pub time: Duration,
    /// The part of statements that read, 0 to 1.
    pub reads: f64,
    /// Protocol of the statements.
    pub protocol: Protocol,
    /// Random seed.
    pub seed: u64,
}

/// All accesses by key. A write of unknown outcome is left out, with its reads: see `check_register`.
pub type Accesses = BTreeMap<Key, Vec<Access>>;

/// Makes the rows, runs, and returns the accesses with what is wrong with them.
///
/// # Errors
/// The table cannot be made.
pub async fn record_registers(
    run: &Registers,
    stop: &Stop,
) -> Result<(Accesses, BTreeMap<Key, Vec<RegisterFault>>), Trouble> {
    let session = Session::open(&run.url, Protocol::Simple).await?;
    let rows = run.keys;
    session
        .execute(&format!(
            "DROP TABLE IF EXISTS {TABLE}; \
             CREATE TABLE {TABLE} (k bigint PRIMARY KEY, n bigint NOT NULL, v bigint NOT NULL); \
             INSERT INTO {TABLE} SELECT k, 0, 0 FROM generate_series(0, {rows} - 1) k"
        ))
        .await?;
    session.close().await;
    let stop = stop.after(run.time);
    let start = Instant::now();
    let values = Arc::new(AtomicI64::new(1));
    let mut clients = JoinSet::new();
    let mut seeds = fastrand::Rng::with_seed(run.seed);
    for _ in 0..run.clients {
        clients.spawn(live(run.clone(), seeds.fork(), start, stop.clone(), values.clone()));
    }
    let mut accesses = Accesses::new();
    while let Some(of_one) = clients.join_next().await {
        for (key, access) in of_one.expect("a client does not panic") {
            accesses.entry(key).or_default().push(access);
        }
    }
    let judged = accesses.iter().map(|(key, of_key)| (*key, check_register(of_key)));
    let faults = judged.filter(|(_, faults)| !faults.is_empty()).collect();
    Ok((accesses, faults))
}

async fn live(
    run: Registers,
    mut chance: fastrand::Rng,
    start: Instant,
    stop: Stop,
    values: Arc<AtomicI64>,
) -> Vec<(Key, Access)> {
    let mut accesses = Vec::new();
    while !stop.is_due() {
        let Ok(mut session) = Session::open(&run.url, run.protocol).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while !stop.is_due() {
            let key = Key(chance.u32(..run.keys));
            let wrote = chance.f64() >= run.reads;
            let began = nanoseconds(start);
            let answer = if wrote {
                let text = "UPDATE consort_bench_register SET n = n + 1, v = $2 WHERE k = $1 RETURNING n, v";
                session.run(text, &[i64::from(key.0), values.fetch_add(1, Ordering::SeqCst)]).await
            } else {
                session.run("SELECT n, v FROM consort_bench_register WHERE k = $1", &[i64::from(key.0)]).await
            };
            let ended = nanoseconds(start);
            let Ok(rows) = answer else { break };
            if let Some([Cell::Number(version), Cell::Number(value)]) = rows.first().map(Vec::as_slice) {
                accesses.push((key, Access { began, ended, version: *version, value: *value, wrote }));
            }
        }
    }
    accesses
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).expect("a run is shorter than 584 years")
}
