//! Runs the mix and shows what came of it, for one address or for several side by side.

use super::{
    ACCOUNT_ROWS, ACCOUNTS, CATALOGUE, CATALOGUE_ROWS, FIRST_BALANCE, Run, TRANSFERS, Transfers, clients,
};
use crate::progress::{Phase, Progress};
use crate::result_files::ResultFiles;
use crate::session::{Protocol, Trouble};
use crate::share::{Asked, Before, Server, Share, Source, ratio};
use crate::stop::Stop;
use crate::table::{Table, milliseconds, percent};
use crate::tally::{Tally, Total};
use crate::{ground, pause};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Arguments of `mix`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// URL to connect to
    #[arg(long)]
    pub url: String,
    /// Duration of the run
    #[arg(long, value_parser = pause::parse, default_value = "10s")]
    pub time: Duration,
    /// Number of reading clients
    #[arg(long, default_value_t = 12)]
    pub readers: u64,
    /// Pause of a reader between two reads
    #[arg(long, value_parser = pause::parse, default_value = "0")]
    pub read_every: Duration,
    /// Number of writing clients
    #[arg(long, default_value_t = 2)]
    pub writers: u64,
    /// Interval between the writes of a writing client
    #[arg(long, value_parser = pause::parse, default_value = "10ms")]
    pub write_every: Duration,
    /// Record the number of each transfer in a table, and check at the end for missing and repeated ones
    #[arg(long)]
    pub numbered: bool,
    /// URL for the check of the numbers, if the measured address may return stale rows
    #[arg(long, value_name = "URL")]
    pub check_url: Option<String>,
    /// Query protocol
    #[arg(long, value_enum, default_value = "prepared")]
    pub protocol: Protocol,
    /// Server behind the address, for measuring the share of reads at standbys (repeatable)
    #[arg(long = "server", value_name = "NAME=URL")]
    pub servers: Vec<Server>,
    /// Admin console with SHOW REPLICAS, for measuring the share of reads at standbys
    #[arg(long, value_name = "URL")]
    pub console: Option<String>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub files: ResultFiles,
}

impl Options {
    /// The usual mix at an address.
    #[must_use]
    pub fn new(url: &str, time: Duration) -> Options {
        Options {
            url: url.to_owned(),
            time,
            readers: 12,
            read_every: Duration::ZERO,
            writers: 2,
            write_every: Duration::from_millis(10),
            numbered: false,
            check_url: None,
            protocol: Protocol::Prepared,
            servers: Vec::new(),
            console: None,
            seed: 1,
            files: ResultFiles::default(),
        }
    }
}

/// Result of a mix.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// All reads.
    pub reads: Total,
    /// Reads of accounts by the session that had just written them.
    pub own: Total,
    /// Reads of accounts by other sessions.
    pub other: Total,
    /// Reads of the catalogue.
    pub catalogue: Total,
    /// Sums over all accounts.
    pub sums: Total,
    /// Sums that were not what they must be.
    pub wrong_sums: u64,
    /// Transfers and visits.
    pub writes: Total,
    /// Outcomes of the transfers, if they left their numbers.
    pub transfers: Option<Transfers>,
    /// Seconds that it took.
    pub seconds: f64,
    /// The part of all reads that ran at standbys, 0 to 1, if it is known.
    pub at_standbys: Option<f64>,
    /// Placement of the reads of each table, if it is known.
    pub shares: BTreeMap<String, Share>,
}

/// Makes the tables, runs the mix until its time is over or it is stopped, and adds up.
///
/// # Errors
/// The tables cannot be made, or the servers' statistics cannot be read.
pub async fn demo(options: &Options, stop: &Stop, progress: &mut Progress) -> Result<Report, Trouble> {
    let probe = format!("SELECT 1 FROM {CATALOGUE} LIMIT 1");
    ground::prepare(&options.url, &options.url, &options.servers, &tables(), &probe).await?;
    let source = Source::of(&options.servers, options.console.as_deref());
    let before = Before::read(&source).await?;
    let began = Instant::now();
    let run = Arc::new(Run::new(options, stop.after(options.time)));
    progress.enter(Phase::Clients);
    let mut tasks = JoinSet::new();
    for number in 0..options.readers {
        tasks.spawn(clients::read(run.clone(), options.seed ^ number, options.read_every));
    }
    for number in 0..options.writers {
        tasks.spawn(clients::write(run.clone(), options.seed ^ (number << 32), options.write_every));
    }
    let mut look = tokio::time::interval(Duration::from_millis(100));
    while !tasks.is_empty() {
        tokio::select! {
            ended = tasks.join_next() => ended.into_iter().for_each(|ended| ended.expect("a client does not panic")),
            _ = look.tick() => progress.say(|| {
                format!("bank and catalogue: {} of {} s", began.elapsed().as_secs(), options.time.as_secs())
            }),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let asked = asked(&run);
    let shares = before.shares(&asked).await?;
    let transfers = match &run.numbers {
        Some(numbers) => Some(numbers.look(options.check_url.as_deref().unwrap_or(&options.url)).await?),
        None => None,
    };
    Ok(Report { transfers, ..report(&run, seconds, &asked, shares) })
}

/// One by one: where all servers execute what clients write, DDL and what fills its tables may not stand in one request.
fn tables() -> [String; 6] {
    [
        format!("DROP TABLE IF EXISTS {ACCOUNTS}, {CATALOGUE}, {TRANSFERS}"),
        format!("CREATE TABLE {TRANSFERS} (id bigint PRIMARY KEY, times bigint NOT NULL)"),
        format!(
            "CREATE TABLE {ACCOUNTS} \
             (id bigint PRIMARY KEY, balance bigint NOT NULL, version bigint NOT NULL)"
        ),
        format!(
            "INSERT INTO {ACCOUNTS} \
             SELECT i, {FIRST_BALANCE}, 0 FROM generate_series(0, {ACCOUNT_ROWS} - 1) i"
        ),
        format!(
            "CREATE TABLE {CATALOGUE} \
             (id bigint PRIMARY KEY, price bigint NOT NULL, name text NOT NULL)"
        ),
        format!(
            "INSERT INTO {CATALOGUE} \
             SELECT i, 100 + i, 'article ' || i FROM generate_series(0, {CATALOGUE_ROWS} - 1) i"
        ),
    ]
}

fn asked(run: &Run) -> BTreeMap<String, Asked> {
    let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    BTreeMap::from([
        (
            ACCOUNTS.to_owned(),
            Asked { reads: number(&run.account_scans), writes: number(&run.account_writes) },
        ),
        (CATALOGUE.to_owned(), Asked { reads: number(&run.catalogue_scans), writes: 0 }),
    ])
}

fn report(
    run: &Run,
    seconds: f64,
    asked: &BTreeMap<String, Asked>,
    shares: BTreeMap<String, Share>,
) -> Report {
    let taken = |tally: &Mutex<Tally>| tally.lock().expect("no holder of the lock panics").clone();
    let parts = [&run.own, &run.other, &run.catalogue, &run.sums].map(taken);
    let mut all = Tally::default();
    parts.iter().for_each(|part| all.merge(part));
    Report {
        reads: all.total(),
        own: parts[0].total(),
        other: parts[1].total(),
        catalogue: parts[2].total(),
        sums: parts[3].total(),
        wrong_sums: run.wrong_sums.load(Ordering::Relaxed),
        writes: taken(&run.writes).total(),
        transfers: None,
        seconds,
        at_standbys: at_standbys(asked, &shares),
        shares,
    }
}

/// The tables' shares, weighed by their reads.
fn at_standbys(asked: &BTreeMap<String, Asked>, shares: &BTreeMap<String, Share>) -> Option<f64> {
    if shares.is_empty() {
        return None;
    }
    let all: u64 = asked.values().map(|asked| asked.reads).sum();
    let parts = asked
        .iter()
        .filter_map(|(table, asked)| Some(shares.get(table)?.at_standbys * ratio(asked.reads, all)));
    Some(parts.sum())
}

impl Report {
    /// Nothing stale, nothing backwards, no wrong sum, no transfer lost or done twice.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let right = self.reads.stale == 0 && self.reads.backwards == 0 && self.wrong_sums == 0;
        right && self.transfers.as_ref().is_none_or(Transfers::is_clean)
    }

    fn per_second(&self, count: u64) -> String {
        #[expect(clippy::cast_precision_loss, reason = "counts of a run have far fewer than 52 bits")]
        let count = count as f64;
        format!("{:.0}", count / self.seconds.max(0.001))
    }

    fn cells(&self) -> Vec<(&'static str, String)> {
        vec![
            ("reads", self.reads.done.to_string()),
            ("stale reads", self.reads.stale.to_string()),
            ("  missing own writes", self.own.stale.to_string()),
            ("  missing others' writes", self.other.stale.to_string()),
            ("reads that went backwards", self.reads.backwards.to_string()),
            ("wrong sums", self.wrong_sums.to_string()),
            ("reads at standbys", self.at_standbys.map_or_else(|| "-".to_owned(), percent)),
            ("reads a second", self.per_second(self.reads.done)),
            ("read latency, median", milliseconds(self.reads.latency.p50_us)),
            ("read latency, 99 of 100", milliseconds(self.reads.latency.p99_us)),
            ("writes a second", self.per_second(self.writes.done)),
            ("write latency, median", milliseconds(self.writes.latency.p50_us)),
            ("write latency, 99 of 100", milliseconds(self.writes.latency.p99_us)),
            ("errors", (self.reads.errors + self.writes.errors).to_string()),
        ]
    }
}

/// One column per report under its name, one row per figure.
#[must_use]
pub fn side_by_side(reports: &[(&str, &Report)]) -> Table {
    let names: Vec<&str> =
        std::iter::once("bank and catalogue").chain(reports.iter().map(|(name, _)| *name)).collect();
    let mut table = Table::new(&names);
    let columns: Vec<_> = reports.iter().map(|(_, report)| report.cells()).collect();
    for (row, (label, _)) in columns.first().into_iter().flatten().enumerate() {
        let cells = columns.iter().map(|column| column[row].1.clone());
        table.push(std::iter::once((*label).to_owned()).chain(cells).collect());
    }
    table
}
