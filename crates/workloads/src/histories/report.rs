//! The subcommand: options, the run, the verdict, the files.

use super::{Isolation, Recorded, Registers, Snapshots, TABLE, Workload, record, record_registers, set_up};
use crate::check::{Findings, History, Key, Model, Outcome, check, check_each_key};
use crate::{Error, Verdict};
use clap::Args;
use load_clients::pause;
use load_clients::progress::Progress;
use load_clients::result_files::ResultFiles;
use load_clients::session::Protocol;
use load_clients::share::{Asked, Before, Server, Share, Source};
use load_clients::stop::Stop;
use load_clients::table::{Table, percent};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `histories`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// URL to connect to (not needed with --check)
    #[arg(long, required_unless_present = "check")]
    pub url: Option<String>,
    /// Number of concurrent clients
    #[arg(long, default_value_t = 8)]
    pub clients: usize,
    /// Duration for each isolation level
    #[arg(long, value_parser = pause::parse, value_name = "TIME", default_value = "30s")]
    pub time: Duration,
    /// Stop after this number of transactions
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    pub transactions: u64,
    /// Limit of transactions per second, of all clients together; 0: no limit
    #[arg(long, default_value_t = 4000)]
    pub rate: u64,
    /// Isolation levels to run, one after the other
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "repeatable-read,serializable,autocommit"
    )]
    pub isolation: Vec<Isolation>,
    /// Query protocol
    #[arg(long, value_enum, default_value = "prepared")]
    pub protocol: Protocol,
    /// Number of keys in use at a time
    #[arg(long, default_value_t = 10)]
    pub keys: usize,
    /// Number of appends after which a key is replaced by a new one
    #[arg(long, default_value_t = 32)]
    pub appends_per_key: u32,
    /// Maximum number of operations in a transaction
    #[arg(long, default_value_t = 4)]
    pub operations: usize,
    /// Share of read-only transactions, 0 to 1
    #[arg(long, default_value_t = 0.3)]
    pub read_only: f64,
    /// Share of transactions with one statement that appends to up to three keys, 0 to 1
    #[arg(long, default_value_t = 0.0, conflicts_with = "single_key")]
    pub together: f64,
    /// Share of clients with consort.read_only_snapshots = on, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    pub read_only_snapshots: f64,
    /// Run single statements on one key each, and check each key for linearizability
    #[arg(long)]
    pub single_key: bool,
    /// Use registers instead of lists: single writes and reads of rows with version numbers
    #[arg(long, conflicts_with_all = ["single_key", "isolation", "log"])]
    pub registers: bool,
    /// Share of read-only transactions on a snapshot up to 0.3 s old, for testing the checker
    #[arg(long, default_value_t = 0.0)]
    pub old_snapshots: f64,
    /// Server behind the address, for estimating the share of reads at standbys (repeatable). The share comes
    /// out too low, because PostgreSQL counts one scan for each key of a read
    #[arg(long = "server", value_name = "NAME=URL", conflicts_with = "console")]
    pub servers: Vec<Server>,
    /// Admin console with SHOW REPLICAS, for measuring the share of reads at standbys exactly
    #[arg(long, value_name = "URL")]
    pub console: Option<String>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// File for the history, one transaction per line
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// History file to check, instead of a run
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub check: Option<PathBuf>,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub files: ResultFiles,
}

/// One judged run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Isolation of the transactions; nothing for a log whose origin is unknown.
    pub isolation: Option<Isolation>,
    /// Number of committed transactions.
    pub committed: usize,
    /// Number of failed transactions.
    pub failed: usize,
    /// Number of transactions of unknown outcome.
    pub unknown: usize,
    /// Number of sessions that ended by a fault.
    pub lost_sessions: u64,
    /// The model that the run must keep.
    pub owed: String,
    /// True if it holds.
    pub valid: bool,
    /// The anomalies' names.
    pub anomalies: Vec<String>,
    /// Placement of the reads, if it is known.
    pub share: Option<Share>,
    /// The first error that was not a serialization failure or a deadlock.
    pub first_trouble: Option<String>,
}

impl Summary {
    /// The report of a run that the checker has judged.
    #[must_use]
    pub fn of(
        recorded: &Recorded,
        isolation: Isolation,
        findings: &Findings,
        share: Option<Share>,
    ) -> Summary {
        let mut anomalies: Vec<String> = findings.anomalies.iter().map(|anomaly| anomaly.name()).collect();
        anomalies.sort();
        anomalies.dedup();
        Summary {
            isolation: Some(isolation),
            committed: recorded.history.count(Outcome::Committed),
            failed: recorded.history.count(Outcome::Failed),
            unknown: recorded.history.count(Outcome::Unknown),
            lost_sessions: recorded.lost_sessions,
            owed: isolation.owes().to_string(),
            valid: findings.holds(isolation.owes()),
            anomalies,
            share,
            first_trouble: recorded.first_trouble.clone(),
        }
    }
}

/// Runs the subcommand and prints its results.
///
/// # Errors
/// The address cannot be used or a file cannot be read or written.
pub async fn run(options: &Options) -> Result<Verdict, Error> {
    if let Some(path) = &options.check {
        return judge_file(path);
    }
    let stop = Stop::at_ctrl_c();
    if options.registers {
        return run_registers(options, &stop).await;
    }
    let summaries = measure(options, &stop).await?;
    let table = table(&summaries);
    print!("{table}");
    options.files.write(&table, &summaries)?;
    Ok(Verdict::clean_if(summaries.iter().all(|summary| summary.valid)))
}

/// Runs each isolation level in turn: a summary of each; anomalies that break the promised model are printed.
///
/// # Errors
/// The address cannot be used or the log cannot be written.
pub async fn measure(options: &Options, stop: &Stop) -> Result<Vec<Summary>, Error> {
    let mut summaries = Vec::new();
    for &isolation in &options.isolation {
        if stop.was_asked() {
            break;
        }
        summaries.push(run_one(options, isolation, stop).await?);
    }
    Ok(summaries)
}

fn judge_file(path: &Path) -> Result<Verdict, Error> {
    let file = File::open(path).map_err(|error| Error::File(path.display().to_string(), error))?;
    let history = History::read(BufReader::new(file))?;
    let findings = check(&history);
    print!("{findings}");
    Ok(Verdict::clean_if(findings.broken.is_empty()))
}

async fn run_registers(options: &Options, stop: &Stop) -> Result<Verdict, Error> {
    let run = Registers {
        url: options.url.clone().expect("clap demands an address"),
        clients: options.clients,
        keys: u32::try_from(options.keys).unwrap_or(u32::MAX),
        time: options.time,
        reads: 0.5,
        protocol: options.protocol,
        seed: options.seed,
    };
    let (accesses, faults) = record_registers(&run, stop).await?;
    let all: usize = accesses.values().map(Vec::len).sum();
    let wrong: usize = faults.values().map(Vec::len).sum();
    for (key, faults) in &faults {
        println!("key {key}: {} faults, the first: {:?}", faults.len(), faults[0]);
    }
    println!("{all} accesses of {} registers, {wrong} faults", accesses.len());
    Ok(Verdict::clean_if(wrong == 0))
}

async fn run_one(options: &Options, isolation: Isolation, stop: &Stop) -> Result<Summary, Error> {
    let workload = workload(options, isolation);
    set_up(&workload.url, &options.servers).await?;
    let source = Source::of(&options.servers, options.console.as_deref());
    let before = Before::read(&source).await?;
    let mut progress = Progress::new();
    let recorded = record(&workload, stop, &mut progress).await?;
    drop(progress);
    if let Some(path) = &options.log {
        let path = if options.isolation.len() > 1 { with_suffix(path, isolation) } else { path.clone() };
        let failed = |error| Error::File(path.display().to_string(), error);
        let file = File::create(&path).map_err(failed)?;
        recorded.history.write(BufWriter::new(file)).map_err(failed)?;
    }
    let asked = Asked { reads: recorded.reads, writes: recorded.appends };
    let share = before.shares(&BTreeMap::from([(TABLE.to_owned(), asked)])).await?.remove(TABLE);
    let owed = isolation.owes();
    let valid = if options.single_key {
        say_keys(&check_each_key(&recorded.history, owed))
    } else {
        let findings = check(&recorded.history);
        say(&findings, owed, isolation);
        findings
    };
    Ok(Summary::of(&recorded, isolation, &valid, share))
}

fn workload(options: &Options, isolation: Isolation) -> Workload {
    let url = options.url.as_deref().expect("clap demands an address");
    let isolation = if options.single_key { Isolation::Autocommit } else { isolation };
    Workload {
        clients: options.clients,
        transactions: options.transactions,
        rate: options.rate,
        protocol: options.protocol,
        keys: options.keys,
        appends_per_key: options.appends_per_key,
        operations: if options.single_key { 1 } else { options.operations },
        read_only: options.read_only,
        together: options.together,
        snapshots: Snapshots { at_standbys: options.read_only_snapshots, old: options.old_snapshots },
        seed: options.seed,
        ..Workload::new(url, isolation, options.time)
    }
}

/// Prints the anomalies that break the promised model; those that the level allows are only named in the
/// table.
fn say(findings: &Findings, owed: Model, isolation: Isolation) {
    if !findings.holds(owed) {
        println!("{isolation}: not {owed}\n{findings}");
    }
}

/// Prints what is wrong at single keys and adds it up.
fn say_keys(keys: &[(Key, Findings)]) -> Findings {
    let mut all = Findings { anomalies: Vec::new(), living: 0, broken: Vec::new() };
    for (key, findings) in keys {
        println!("key {key}:\n{findings}");
        all.anomalies.extend(findings.anomalies.iter().cloned());
        all.broken.extend(findings.broken.iter().copied());
    }
    all.broken.sort();
    all.broken.dedup();
    all
}

fn with_suffix(path: &Path, isolation: Isolation) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(isolation.to_string().replace(' ', "-"));
    PathBuf::from(name)
}

/// A row per run.
#[must_use]
pub fn table(summaries: &[Summary]) -> Table {
    let mut table = Table::new(&[
        "isolation",
        "committed",
        "failed",
        "unknown",
        "lost sessions",
        "at standbys",
        "owed",
        "verdict",
        "anomalies",
        "first trouble",
    ]);
    for summary in summaries {
        table.push(vec![
            summary.isolation.map_or_else(String::new, |isolation| isolation.to_string()),
            summary.committed.to_string(),
            summary.failed.to_string(),
            summary.unknown.to_string(),
            summary.lost_sessions.to_string(),
            summary.share.as_ref().map_or_else(|| "-".to_owned(), |share| percent(share.at_standbys)),
            summary.owed.clone(),
            if summary.valid { "valid".to_owned() } else { "INVALID".to_owned() },
            if summary.anomalies.is_empty() { "none".to_owned() } else { summary.anomalies.join(" ") },
            summary.first_trouble.clone().unwrap_or_else(|| "none".to_owned()),
        ]);
    }
    table
}
