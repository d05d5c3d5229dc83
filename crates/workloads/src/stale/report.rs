//! The subcommand: options, the run as a whole, its table and files.

use super::{COLD, COLD_ROWS, Commit, HOT, READ_COLD, READ_HOT, Run, interval, rounds};
use crate::{Error, Verdict};
use clap::Args;
use load_clients::progress::Progress;
use load_clients::result_files::ResultFiles;
use load_clients::session::{Protocol, Session};
use load_clients::share::{Asked, Before, Server, Share, Source};
use load_clients::stop::Stop;
use load_clients::table::{Table, milliseconds, percent};
use load_clients::tally::{Tally, Total};
use load_clients::{console, ground, pause};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Uncounted reads of each table and protocol, before those that count.
const WARM_UP_READS: u32 = 5;

/// Arguments of `stale`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// URL to connect to
    #[arg(long)]
    pub url: String,
    /// URL for the writers, to bypass the measured address
    #[arg(long, value_name = "URL")]
    pub writer_url: Option<String>,
    /// Number of rounds of write, wait and read back
    #[arg(long, default_value_t = 1000)]
    pub rounds: u64,
    /// Duration of writing at an interval and reading in a loop, instead of rounds
    #[arg(long, value_parser = pause::parse, value_name = "TIME", conflicts_with = "rounds")]
    pub time: Option<Duration>,
    /// Number of hot rows, and of concurrent rounds
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: u64,
    /// Gaps between the write and the reads
    #[arg(long, value_parser = pause::parse, value_delimiter = ',', default_value = "0,20ms,100ms,300ms")]
    pub gaps: Vec<Duration>,
    /// Query protocols, in alternation
    #[arg(long, value_enum, value_delimiter = ',', default_value = "simple,extended,prepared")]
    pub protocol: Vec<Protocol>,
    /// Values of synchronous_commit for the writers, in alternation
    #[arg(long, value_enum, value_delimiter = ',', default_value = "on")]
    pub synchronous_commit: Vec<Commit>,
    /// Number of writers at an interval (with --rounds: in addition to the rounds' own writers)
    #[arg(long)]
    pub writers: Option<u64>,
    /// Interval between the writes of these writers
    #[arg(long, value_parser = pause::parse, value_name = "TIME", default_value = "10ms")]
    pub write_every: Duration,
    /// URL for these writers, if different from that of the rounds' own writers
    #[arg(long, value_name = "URL")]
    pub beside_url: Option<String>,
    /// Write in a transaction block after a savepoint
    #[arg(long)]
    pub savepoints: bool,
    /// Number of readers in a loop, with --time
    #[arg(long, default_value_t = 4)]
    pub readers: u64,
    /// Pause of a reader between two reads, with --time
    #[arg(long, value_parser = pause::parse, value_name = "TIME", default_value = "0")]
    pub read_every: Duration,
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
    /// Options for a number of rounds at an address, with defaults for the rest.
    #[must_use]
    pub fn new(url: &str, rounds: u64) -> Options {
        Options {
            url: url.to_owned(),
            writer_url: None,
            rounds,
            time: None,
            rows: 1,
            gaps: [0, 20, 100, 300].map(Duration::from_millis).to_vec(),
            protocol: vec![Protocol::Simple, Protocol::Extended, Protocol::Prepared],
            synchronous_commit: vec![Commit::On],
            writers: None,
            write_every: Duration::from_millis(10),
            beside_url: None,
            savepoints: false,
            readers: 4,
            read_every: Duration::ZERO,
            servers: Vec::new(),
            console: None,
            seed: 1,
            files: ResultFiles::default(),
        }
    }
}

/// The options that the tasks need.
pub(super) struct Setting {
    pub(super) url: String,
    pub(super) writer_url: Option<String>,
    pub(super) beside_url: Option<String>,
    pub(super) savepoints: bool,
    pub(super) rounds: u64,
    pub(super) rows: u64,
    pub(super) gaps: Vec<Duration>,
    pub(super) protocols: Vec<Protocol>,
    pub(super) commits: Vec<Commit>,
    pub(super) read_every: Duration,
    pub(super) seed: u64,
}

impl Setting {
    pub(super) fn writer(&self) -> &str {
        self.writer_url.as_deref().unwrap_or(&self.url)
    }

    /// Address for the writers at an interval.
    pub(super) fn writer_beside(&self) -> &str {
        self.beside_url.as_deref().unwrap_or(self.writer())
    }

    pub(super) fn protocol_of(&self, number: u64) -> Protocol {
        self.protocols[usize::try_from(number).expect("tasks are few") % self.protocols.len()]
    }

    pub(super) fn commit_of(&self, number: u64) -> Commit {
        self.commits[usize::try_from(number).expect("tasks are few") % self.commits.len()]
    }
}

/// Whose statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// The write itself.
    Write,
    /// A read by the session that wrote.
    Own,
    /// A read by another session.
    Other,
    /// A read of the cold table.
    Cold,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Who::Write => "write",
            Who::Own => "own read",
            Who::Other => "other's read",
            Who::Cold => "cold read",
        })
    }
}

/// A kind of statement that is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Kind {
    /// Milliseconds between the write and the reads.
    pub gap_ms: u128,
    /// Protocol of the read.
    pub protocol: Protocol,
    /// The writer's demand on the commit.
    pub commit: Commit,
    /// Whose it is.
    pub who: Who,
}

/// The figures of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The kind.
    #[serde(flatten)]
    pub kind: Kind,
    /// Its figures.
    #[serde(flatten)]
    pub total: Total,
}

/// The results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Per kind.
    pub lines: Vec<Line>,
    /// All reads of hot rows.
    pub hot: Total,
    /// All reads of the cold table.
    pub cold: Total,
    /// All writes.
    pub writes: Total,
    /// Seconds that it took.
    pub seconds: f64,
    /// Placement of the hot reads, if it is known.
    pub hot_share: Option<Share>,
    /// Placement of the cold reads, if it is known.
    pub cold_share: Option<Share>,
    /// Wrong reads, one by one, the first of them.
    pub violations: Vec<String>,
}

/// Runs the subcommand and prints its results.
///
/// # Errors
/// The address cannot be used or a file cannot be written.
pub async fn run(options: &Options) -> Result<Verdict, Error> {
    let report = measure(options, &Stop::at_ctrl_c(), &mut Progress::new()).await?;
    let table = report.table();
    print!("{table}\n{}", report.summary());
    options.files.write(&table, &report)?;
    Ok(Verdict::clean_if(report.is_clean()))
}

/// Makes the tables, runs until the end or the stop, and adds up.
///
/// # Errors
/// The tables cannot be made, or the servers' statistics cannot be read.
pub async fn measure(options: &Options, stop: &Stop, progress: &mut Progress) -> Result<Report, Error> {
    let setting = setting(options);
    prepare(&setting, &options.servers).await?;
    if let Some(console) = &options.console {
        console::wait_caught_up(console, setting.writer(), console::CATCH_UP_LIMIT).await?;
    }
    warm_up(&setting).await?;
    let source = Source::of(&options.servers, options.console.as_deref());
    let before = Before::read(&source).await?;
    let began = Instant::now();
    let stop = options.time.map_or_else(|| stop.clone(), |time| stop.after(time));
    let run = Arc::new(Run::new(setting, stop));
    let mut tasks = start(options, &run);
    let mut look = tokio::time::interval(Duration::from_millis(100));
    while !tasks.is_empty() {
        tokio::select! {
            ended = tasks.join_next() => ended.into_iter().for_each(|ended| ended.expect("a session does not panic")),
            _ = look.tick() => progress.say(|| say(&run, options, began)),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let asked = BTreeMap::from([
        (HOT.to_owned(), asked(&run.hot_reads, &run.hot_writes)),
        (COLD.to_owned(), Asked { reads: run.cold_reads.load(Ordering::Relaxed), writes: 0 }),
    ]);
    let mut shares = before.shares(&asked).await?;
    let tallies = std::mem::take(&mut *run.tallies.lock().expect("no holder of the lock panics"));
    let sum = |wanted: &[Who]| {
        let mut sum = Tally::default();
        tallies.iter().filter(|(kind, _)| wanted.contains(&kind.who)).for_each(|(_, tally)| sum.merge(tally));
        sum.total()
    };
    Ok(Report {
        hot: sum(&[Who::Own, Who::Other]),
        cold: sum(&[Who::Cold]),
        writes: sum(&[Who::Write]),
        lines: tallies.iter().map(|(kind, tally)| Line { kind: *kind, total: tally.total() }).collect(),
        seconds,
        hot_share: shares.remove(HOT),
        cold_share: shares.remove(COLD),
        violations: std::mem::take(&mut *run.violations.lock().expect("no holder of the lock panics")),
    })
}

fn setting(options: &Options) -> Setting {
    Setting {
        url: options.url.clone(),
        writer_url: options.writer_url.clone(),
        beside_url: options.beside_url.clone(),
        savepoints: options.savepoints,
        rounds: if options.time.is_some() { u64::MAX } else { options.rounds },
        rows: options.rows,
        gaps: options.gaps.clone(),
        protocols: options.protocol.clone(),
        commits: options.synchronous_commit.clone(),
        read_every: options.read_every,
        seed: options.seed,
    }
}

async fn prepare(setting: &Setting, servers: &[Server]) -> Result<(), Error> {
    let (rows, cold) = (setting.rows, COLD_ROWS);
    let statements = format!(
        "DROP TABLE IF EXISTS {HOT}; DROP TABLE IF EXISTS {COLD}; \
         CREATE TABLE {COLD} (id bigint PRIMARY KEY, v bigint NOT NULL); \
         INSERT INTO {COLD} SELECT i, 2 * i FROM generate_series(0, {cold} - 1) i; \
         CREATE TABLE {HOT} (id bigint PRIMARY KEY, n bigint NOT NULL); \
         INSERT INTO {HOT} SELECT i, 0 FROM generate_series(0, {rows} - 1) i"
    );
    let probe = format!("SELECT n FROM {HOT} LIMIT 1");
    Ok(ground::prepare(setting.writer(), &setting.url, servers, &[statements], &probe).await?)
}

/// Reads each table a few times in each protocol before anything is counted: what a proxy must learn about a statement that
/// is new to it is not what is measured here.
async fn warm_up(setting: &Setting) -> Result<(), Error> {
    let mut session = Session::open(&setting.url, setting.protocols[0]).await?;
    for &protocol in &setting.protocols {
        session.speak(protocol);
        for _ in 0..WARM_UP_READS {
            session.run(READ_HOT, &[0]).await?;
            session.run(READ_COLD, &[0]).await?;
        }
    }
    session.close().await;
    Ok(())
}

fn start(options: &Options, run: &Arc<Run>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let usual_writers = if options.time.is_some() {
        for number in 0..options.readers {
            tasks.spawn(interval::read(run.clone(), number));
        }
        1
    } else {
        for row in 0..options.rows {
            tasks.spawn(rounds::run(run.clone(), i64::try_from(row).expect("rows are few")));
        }
        0
    };
    for number in 0..options.writers.unwrap_or(usual_writers) {
        tasks.spawn(interval::write(run.clone(), number, options.write_every));
    }
    tasks
}

fn asked(reads: &std::sync::atomic::AtomicU64, writes: &std::sync::atomic::AtomicU64) -> Asked {
    Asked { reads: reads.load(Ordering::Relaxed), writes: writes.load(Ordering::Relaxed) }
}

fn say(run: &Run, options: &Options, began: Instant) -> String {
    let done = run.done.load(Ordering::Relaxed);
    match options.time {
        Some(time) => format!("stale: {} of {} s, {done} reads", began.elapsed().as_secs(), time.as_secs()),
        None => format!("stale: {} of {} rounds", done.min(options.rounds), options.rounds),
    }
}

impl Report {
    /// Nothing stale, nothing backwards.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.hot.stale == 0 && self.hot.backwards == 0
    }

    /// A line per kind.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            "statement",
            "gap ms",
            "protocol",
            "synchronous_commit",
            "done",
            "stale",
            "backwards",
            "errors",
            "p50",
            "p99",
        ]);
        for Line { kind, total } in &self.lines {
            table.push(vec![
                kind.who.to_string(),
                kind.gap_ms.to_string(),
                kind.protocol.to_string(),
                kind.commit.to_string(),
                total.done.to_string(),
                total.stale.to_string(),
                total.backwards.to_string(),
                total.errors.to_string(),
                milliseconds(total.latency.p50_us),
                milliseconds(total.latency.p99_us),
            ]);
        }
        table
    }

    /// The whole in a few lines.
    #[must_use]
    pub fn summary(&self) -> String {
        let share = |share: &Option<Share>| match share {
            Some(share) if share.reasons.is_empty() => {
                format!(", {} at standbys", percent(share.at_standbys))
            }
            Some(share) => {
                format!(", {} at standbys (not: {})", percent(share.at_standbys), share.why_not())
            }
            None => String::new(),
        };
        let mut text = format!(
            "hot rows: {} reads, {} stale, {} backwards{}\ncold table: {} reads{}\nwrites: {} in {:.1} s\n",
            self.hot.done,
            self.hot.stale,
            self.hot.backwards,
            share(&self.hot_share),
            self.cold.done,
            share(&self.cold_share),
            self.writes.done,
            self.seconds,
        );
        self.violations.iter().for_each(|violation| text += &format!("wrong: {violation}\n"));
        let first =
            [&self.hot, &self.cold, &self.writes].into_iter().find_map(|total| total.first_error.clone());
        if let Some(error) = first {
            let errors = self.hot.errors + self.cold.errors + self.writes.errors;
            text += &format!("errors: {errors}, the first: {error}\n");
        }
        text
    }
}
