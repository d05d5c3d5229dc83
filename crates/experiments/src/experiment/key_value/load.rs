//! A load: its rows, its operations, and the clients that run them for a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use consort::failure::Failure;
use fastrand::Rng;
use load_clients::latency::Latencies;
use serde::Serialize;
use tokio::task::JoinSet;

use super::client::{Client, Outcome, failed};
use super::tpcc::{self, Tables};
use super::ycsb::{self, Mix, Rows};

/// Rows that one client loads in one transaction, or batch: Cassandra refuses batches above 50 KiB.
const LOADED_AT_ONCE: usize = 20;
/// New rows of a run at most.
const NEW_ROWS: u64 = 1_000_000_000;

/// Work of the clients.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Single operations on one table.
    Ycsb(Mix),
    /// TPC-C's transactions over keys and values, on so many warehouses.
    Tpcc { warehouses: u64 },
}

/// The rows of a load, which clients share.
#[derive(Debug)]
pub(super) enum Data {
    Ycsb(Mix, Rows),
    Tpcc(Tables),
}

/// A transaction, drawn before it begins: a repetition does the same.
enum Drawn {
    Ycsb(ycsb::Operation),
    Tpcc(tpcc::Transaction),
}

impl Data {
    /// The rows of a load. New rows begin at a number that no earlier run has reached.
    pub(super) fn of(load: Load, rows: u64, run: u64) -> Data {
        match load {
            Load::Ycsb(mix) => Data::Ycsb(mix, Rows::of(rows, rows + run * NEW_ROWS)),
            Load::Tpcc { warehouses } => Data::Tpcc(Tables::of(warehouses)),
        }
    }

    fn draw(&self, random: &mut Rng) -> Drawn {
        match self {
            Data::Ycsb(mix, rows) => Drawn::Ycsb(mix.draw(rows, random)),
            Data::Tpcc(tables) => Drawn::Tpcc(tables.draw(random)),
        }
    }
}

impl Drawn {
    fn name(&self) -> &'static str {
        match self {
            Drawn::Ycsb(operation) => operation.name(),
            Drawn::Tpcc(transaction) => transaction.name(),
        }
    }

    async fn run(&self, client: &mut dyn Client) -> Result<(), Failure> {
        match self {
            Drawn::Ycsb(operation) => operation.run(client).await,
            Drawn::Tpcc(transaction) => transaction.run(client).await,
        }
    }
}

/// Rows of YCSB's table.
pub(super) fn ycsb_rows(count: u64, value: usize, random: &mut Rng) -> Vec<(Bytes, Bytes)> {
    (0..count).map(|row| (ycsb::key(row), ycsb::value(value, random))).collect()
}

/// Loads rows through these clients, which share them.
pub(super) async fn fill(clients: Vec<Box<dyn Client>>, rows: Vec<(Bytes, Bytes)>) -> Result<(), Failure> {
    let (mut tasks, share) = (JoinSet::new(), rows.len().div_ceil(clients.len()));
    for (mut client, rows) in clients.into_iter().zip(rows.chunks(share.max(1)).map(<[_]>::to_vec)) {
        tasks.spawn(async move {
            for rows in rows.chunks(LOADED_AT_ONCE) {
                client.begin().await?;
                for (key, value) in rows {
                    client.insert(key.clone(), value.clone()).await?;
                }
                if client.commit().await? == Outcome::Conflict {
                    return Err(Failure::new("a row is loaded twice"));
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(failed)??;
    }
    Ok(())
}

/// Figures of one kind of operation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) operation: &'static str,
    pub(super) ended: u64,
    pub(super) mean_us: u64,
    pub(super) p99_us: u64,
}

/// Figures of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    pub(super) seconds: f64,
    /// Operations that ended, each counted once.
    pub(super) ended: u64,
    /// Attempts that another transaction had overtaken. Each was repeated.
    pub(super) conflicts: u64,
    pub(super) lines: Vec<Line>,
}

impl Measured {
    pub(super) fn a_second(&self) -> f64 {
        self.ended as f64 / self.seconds.max(0.001)
    }

    /// Attempts that ended in a conflict, of all attempts.
    pub(super) fn conflict_share(&self) -> f64 {
        self.conflicts as f64 / ((self.ended + self.conflicts) as f64).max(1.0)
    }
}

/// Times of one client.
#[derive(Default)]
struct Tally {
    kinds: BTreeMap<&'static str, (u64, Duration, Latencies)>,
    conflicts: u64,
}

/// Runs the clients for a time after a warm-up, which is not counted.
pub(super) async fn run(
    clients: Vec<Box<dyn Client>>,
    data: Data,
    (warm_up, time): (Duration, Duration),
    seed: u64,
) -> Result<Measured, Failure> {
    let (data, begun) = (Arc::new(data), Instant::now());
    let mut tasks = JoinSet::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        let data = Arc::clone(&data);
        let mut random = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        tasks.spawn(async move {
            let mut tally = Tally::default();
            while begun.elapsed() < warm_up + time {
                let drawn = data.draw(&mut random);
                let since = Instant::now();
                let conflicts = ended(&drawn, &mut *client).await?;
                if begun.elapsed() > warm_up && begun.elapsed() < warm_up + time {
                    let (ended, sum, latencies) = tally.kinds.entry(drawn.name()).or_default();
                    (*ended, *sum) = (*ended + 1, *sum + since.elapsed());
                    latencies.record(since.elapsed());
                    tally.conflicts += conflicts;
                }
            }
            Ok::<_, Failure>(tally)
        });
    }
    let mut all = Tally::default();
    while let Some(tally) = tasks.join_next().await {
        let tally = tally.map_err(failed)??;
        all.conflicts += tally.conflicts;
        for (name, (ended, sum, latencies)) in tally.kinds {
            let kind = all.kinds.entry(name).or_default();
            (kind.0, kind.1) = (kind.0 + ended, kind.1 + sum);
            kind.2.merge(&latencies);
        }
    }
    Ok(measured(&all, time))
}

/// Repeats a transaction until it commits. Returns the number of conflicts.
async fn ended(drawn: &Drawn, client: &mut dyn Client) -> Result<u64, Failure> {
    let mut conflicts = 0;
    loop {
        client.begin().await?;
        drawn.run(client).await?;
        match client.commit().await? {
            Outcome::Committed => return Ok(conflicts),
            Outcome::Conflict => conflicts += 1,
        }
    }
}

fn measured(all: &Tally, time: Duration) -> Measured {
    let lines = all.kinds.iter().map(|(operation, (ended, sum, latencies))| Line {
        operation,
        ended: *ended,
        mean_us: u64::try_from(sum.as_micros()).unwrap_or(u64::MAX) / (*ended).max(1),
        p99_us: latencies.percentiles().p99_us,
    });
    let lines: Vec<Line> = lines.collect();
    let ended = lines.iter().map(|line| line.ended).sum();
    Measured { seconds: time.as_secs_f64(), ended, conflicts: all.conflicts, lines }
}
