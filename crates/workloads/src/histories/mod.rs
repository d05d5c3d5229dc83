//! `consort bench histories`: list-append runs against any address, judged by our own checker.
//!
//! Clients run transactions of a few appends and reads at the chosen isolation level and log what they saw and when.
//! Faults are made by the caller meanwhile: a lost connection makes an unknown outcome at most, never a wrong verdict.

mod client;
mod plan;
mod registers;
mod report;
mod snapshots;

pub use registers::{Accesses, Registers, record_registers};
pub use report::{Options, Summary, measure, run, table};

use crate::check::{History, Model};
use clap::ValueEnum;
use client::{Client, Shared};
use load_clients::ground;
use load_clients::progress::Progress;
use load_clients::session::{Protocol, Trouble};
use load_clients::share::Server;
use load_clients::stop::Stop;
use plan::{Limits, Planner};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The table of the lists.
pub const TABLE: &str = "consort_bench_list";

/// Isolation of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Autocommit at READ COMMITTED: a single append, or one read of up to four keys
    Autocommit,
    /// Transaction blocks at READ COMMITTED
    ReadCommitted,
    /// Transaction blocks at REPEATABLE READ
    RepeatableRead,
    /// Transaction blocks at SERIALIZABLE
    Serializable,
}

impl Isolation {
    /// Consistency that one PostgreSQL server keeps at that level.
    #[must_use]
    pub fn owes(self) -> Model {
        match self {
            Isolation::ReadCommitted => Model::ReadCommitted,
            Isolation::RepeatableRead => Model::StrongSnapshotIsolation,
            Isolation::Autocommit | Isolation::Serializable => Model::StrictSerializable,
        }
    }

    fn level(self) -> &'static str {
        match self {
            Isolation::Autocommit | Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::Autocommit => "autocommit",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        })
    }
}

/// Snapshots of another kind than the usual one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshots {
    /// The part of clients that allow their read-only snapshots to be taken at standbys, 0 to 1.
    pub at_standbys: f64,
    /// The part of read-only transactions that use a snapshot up to 0.3 s old, 0 to 1: a planted fault, to test the
    /// checker with. It needs an address that leads to one server.
    pub old: f64,
}

/// A list-append run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Address of the clients.
    pub url: String,
    /// Number of clients.
    pub clients: usize,
    /// Time for which they run.
    pub time: Duration,
    /// They end earlier when so many transactions have ended.
    pub transactions: u64,
    /// No more transactions a second than this, all clients together: a log must fit into memory. 0 is no limit.
    pub rate: u64,
    /// Isolation of their transactions.
    pub isolation: Isolation,
    /// Protocol of the statements.
    pub protocol: Protocol,
    /// Number of keys in use at a time.
    pub keys: usize,
    /// After so many appends a new key takes the place of one.
    pub appends_per_key: u32,
    /// A transaction has one to so many operations.
    pub operations: usize,
    /// The part of transactions that only read, 0 to 1.
    pub read_only: f64,
    /// The part of transactions with one statement for several keys, 0 to 1: it appends to up to three of them, and in a block all
    /// reads are of up to so many keys as it may have operations.
    pub together: f64,
    /// Snapshots of another kind than the usual one.
    pub snapshots: Snapshots,
    /// Lists are texts with a comma in front of each value: for servers without arrays, after [`set_up_texts`].
    pub texts: bool,
    /// After so long a statement counts as lost.
    pub statement_limit: Duration,
    /// Random seed.
    pub seed: u64,
}

impl Workload {
    /// The usual run against an address.
    #[must_use]
    pub fn new(url: &str, isolation: Isolation, time: Duration) -> Workload {
        Workload {
            url: url.to_owned(),
            clients: 8,
            time,
            transactions: u64::MAX,
            rate: 4000,
            isolation,
            protocol: Protocol::Prepared,
            keys: 10,
            appends_per_key: 32,
            operations: 4,
            read_only: 0.3,
            together: 0.0,
            snapshots: Snapshots::default(),
            texts: false,
            statement_limit: Duration::from_secs(10),
            seed: 1,
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// All transactions.
    pub history: History,
    /// Statements that read.
    pub reads: u64,
    /// Reads in transactions that only read.
    pub read_only_reads: u64,
    /// Statements that appended.
    pub appends: u64,
    /// Number of sessions that ended by a fault.
    pub lost_sessions: u64,
    /// The first error that was not a serialization failure or a deadlock.
    pub first_trouble: Option<String>,
}

/// Makes the table of the lists, empty, and waits until it is at each of the servers.
///
/// # Errors
/// See `Trouble`.
pub async fn set_up(url: &str, servers: &[Server]) -> Result<(), Trouble> {
    make_table(url, servers, "bigint[]").await
}

/// The same with lists that are texts.
///
/// # Errors
/// See `Trouble`.
pub async fn set_up_texts(url: &str, servers: &[Server]) -> Result<(), Trouble> {
    make_table(url, servers, "text").await
}

async fn make_table(url: &str, servers: &[Server], list: &str) -> Result<(), Trouble> {
    let statements = format!(
        "DROP TABLE IF EXISTS {TABLE}; CREATE TABLE {TABLE} (k bigint PRIMARY KEY, v {list} NOT NULL)"
    );
    ground::prepare(url, url, servers, &[statements], &format!("SELECT count(*) FROM {TABLE}")).await
}

/// Runs the workload on a table that `set_up` made, until its time is over or it is stopped.
///
/// # Errors
/// No client could log in at all.
pub async fn record(workload: &Workload, stop: &Stop, progress: &mut Progress) -> Result<Recorded, Trouble> {
    let stop = stop.after(workload.time);
    let shared = Arc::new(shared(workload, stop.clone()));
    let keeper = (workload.snapshots.old > 0.0).then(|| tokio::spawn(snapshots::keep(shared.clone())));
    let mut clients = JoinSet::new();
    let mut seeds = fastrand::Rng::with_seed(workload.seed);
    for number in 0..workload.clients {
        let at_standbys = is_in_share(number, workload.clients, workload.snapshots.at_standbys);
        clients.spawn(Client::new(shared.clone(), seeds.u64(..), at_standbys).live());
    }
    while !shared.is_over() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        progress.say(|| {
            let gone = shared.start.elapsed().as_secs_f64();
            let done = shared.done.load(Ordering::Relaxed);
            format!("{}: {gone:.0} of {} s, {done} transactions", workload.isolation, workload.time.as_secs())
        });
    }
    let mut recorded = Recorded::default();
    while let Some(brought) = clients.join_next().await {
        let brought = brought.expect("a client does not panic");
        recorded.history.transactions.extend(brought.history.transactions);
        recorded.first_trouble = recorded.first_trouble.or(brought.first_trouble);
    }
    if let Some(keeper) = keeper {
        keeper.await.expect("the keeper of snapshots does not panic")?;
    }
    recorded.history.transactions.sort_by_key(|transaction| transaction.began);
    recorded.reads = shared.reads.load(Ordering::Relaxed);
    recorded.read_only_reads = shared.read_only_reads.load(Ordering::Relaxed);
    recorded.appends = shared.appends.load(Ordering::Relaxed);
    recorded.lost_sessions = shared.lost_sessions.load(Ordering::Relaxed);
    Ok(recorded)
}

fn shared(workload: &Workload, stop: Stop) -> Shared {
    let planner = Planner::new(Limits {
        keys: workload.keys,
        appends_per_key: workload.appends_per_key,
        operations: workload.operations,
        read_only: workload.read_only,
        one_statement: workload.isolation == Isolation::Autocommit,
        together: workload.together,
    });
    Shared {
        workload: workload.clone(),
        planner,
        start: Instant::now(),
        stop,
        next_process: AtomicU32::new(0),
        done: AtomicU64::new(0),
        reads: AtomicU64::new(0),
        read_only_reads: AtomicU64::new(0),
        appends: AtomicU64::new(0),
        lost_sessions: AtomicU64::new(0),
        old_snapshots: std::sync::Mutex::new(Vec::new()),
    }
}

/// True if the number belongs to the given share of all, spread evenly: the first half for one half.
fn is_in_share(number: usize, all: usize, share: f64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "clients are counted in hundreds")]
    let place = (number as f64 + 0.5) / all as f64;
    place < share
}
