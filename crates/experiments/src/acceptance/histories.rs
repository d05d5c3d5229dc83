//! List-append histories during faults, in each design, at each isolation level and in both modes of writers, judged by the
//! checker. Each design must have met each kind of fault, and must have read at its replicas; where reads may be of any age the
//! checker must find that some were stale.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use design::{Design, Reads};
use load_clients::progress::Progress;
use load_clients::share::{Asked, Before, Share, Source, ratio};
use load_clients::stop::Stop;
use load_clients::table::{percent, write_json};
use tokio::runtime::Runtime;
use workloads::check::{Findings, Model, check, stale_reads};
use workloads::histories::{Isolation, Recorded, Snapshots, Summary, TABLE, Workload, record, set_up, table};

use super::Options;
use super::faults::{self, Done, Fault, Series};
use super::ground::{Ground, HEALTHY_LIMIT};
use super::lines::Lines;
use consort::failure::Failure;
use consort::up::Writers;

/// At least this part of the reads that may leave does.
const SHARE_WISH: f64 = 0.30;

/// Fewer transactions a second than the servers could take, and more keys than the smallest workload has: under a flood of
/// writes to a few rows nothing leaves, and nothing would be judged but the primary.
const RATE: u64 = 1000;
const KEYS: usize = 20;

/// The part of transactions that only read.
const READ_ONLY: f64 = 0.6;

/// The part of transactions with one statement for several keys, for designs in which Consort feeds replicas
/// or has them execute: one applied step there is more than a row. In other designs it would leave fewer keys
/// at rest, and show nothing more.
const TOGETHER: f64 = 0.3;

/// The runs of one mode of writers: the level, and whether read-only snapshots may be taken at standbys.
const RUNS: [(Isolation, bool); 5] = [
    (Isolation::RepeatableRead, false),
    (Isolation::RepeatableRead, true),
    (Isolation::Serializable, false),
    (Isolation::Autocommit, false),
    (Isolation::ReadCommitted, false),
];

/// The runs of a design in which transactions are ordered first: whatever they ask for, they are serializable.
const ORDERED_RUNS: [(Isolation, bool); 2] =
    [(Isolation::Serializable, false), (Isolation::Autocommit, false)];

/// The run of a design in which reads may be of any age, so that a replica may show the state before a table
/// was created again: a single run cannot see another run's tables.
const ANY_AGE_RUNS: [(Isolation, bool); 1] = [(Isolation::Autocommit, false)];

/// A design, by its name.
pub(super) fn design(name: &str) -> Result<Design, String> {
    design::chosen(name).map_err(|refused| refused.to_string())
}

fn runs_of(design: &Design) -> &'static [(Isolation, bool)] {
    match design.reads {
        _ if design.orders_first() => &ORDERED_RUNS,
        Reads::AnyAge => &ANY_AGE_RUNS,
        _ => &RUNS,
    }
}

/// Consistency that a run must keep. Reads of any age are bound neither to the order of real time, nor to
/// that of their session. But each shows a state that the primary has shown, so that there is one order of
/// all.
fn owed(design: &Design, isolation: Isolation) -> Model {
    match design.reads {
        Reads::AnyAge => Model::Serializable,
        _ => isolation.owes(),
    }
}

/// Modes of writers for a design: where every server executes write statements, no client may write past
/// Consort.
fn modes_of<'a>(design: &Design, options: &'a Options) -> &'a [Writers] {
    if design.orders_first() { &[Writers::ThroughConsort] } else { &options.writers }
}

/// Each design in each of its modes of writers.
pub(super) fn modes(options: &Options) -> Vec<(&Design, Writers)> {
    options
        .designs
        .iter()
        .flat_map(|design| modes_of(design, options).iter().map(move |mode| (design, *mode)))
        .collect()
}

/// Result of one run.
struct Judged {
    recorded: Recorded,
    findings: Findings,
    share: Option<Share>,
    faults: Done,
    /// Stale reads while a replica was held back, if one was.
    stale: Option<usize>,
}

/// Faults and reads of a design in all its runs.
#[derive(Default)]
struct Met {
    runs: usize,
    /// Its readers are replicas that Consort feeds, or has execute.
    fed: bool,
    struck: Vec<Fault>,
    /// Number of reads that each standby or replica has answered.
    reads: BTreeMap<String, u64>,
}

impl Met {
    /// The faults of the next of so many runs. They go on where those before have ended, and there are as many in any case as bring
    /// the design, run by run, to all that it must meet.
    fn next_series(&self, fed: bool, runs: usize, time: Duration) -> Series {
        let first = self.struck.len();
        let due = (faults::enough(fed) * (self.runs + 1)).div_ceil(runs);
        Series { first, least: due.saturating_sub(first).max(1), time }
    }

    fn judge(&self, design: &str, lines: &mut Lines) {
        let (befallen, all) = faults::told(&self.struck, self.fed);
        lines.judge(
            &format!("histories, {design}: faults of its servers"),
            "each at least once",
            befallen,
            all,
        );
        let reads: Vec<String> = self.reads.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let some = self.reads.values().any(|count| *count > 0);
        lines.judge(&format!("histories, {design}: reads at replicas"), "some", reads.join(", "), some);
    }
}

/// Sum of all runs.
#[derive(Default)]
struct Sum {
    summaries: Vec<Summary>,
    faults: usize,
    unhealed: Vec<String>,
    /// Reads that may leave, and those that were answered by standbys.
    may_leave: u64,
    left: f64,
    /// By the designs' names.
    met: BTreeMap<&'static str, Met>,
}

/// Runs them all.
pub(super) fn run(
    runtime: &Runtime,
    options: &Options,
    stop: &Stop,
    lines: &mut Lines,
) -> Result<(), Failure> {
    let all = modes(options);
    let runs: usize = all.iter().map(|(design, _)| runs_of(design).len()).sum();
    let time = Duration::from_secs(options.histories_time) / runs.max(1) as u32;
    let mut sum = Sum::default();
    for &(design, writers) in &all {
        let its_runs = runs_of(design).len() * all.iter().filter(|(other, _)| *other == design).count();
        let name = format!("histories-{}-{}", design.name, writers.name());
        let ground = Arc::new(Ground::make_as(&name, design, options.fed, writers, &[])?);
        for (number, &(isolation, snapshots)) in runs_of(design).iter().enumerate() {
            if stop.was_asked() {
                break;
            }
            let series = sum.met.entry(design.name).or_default().next_series(ground.fed, its_runs, time);
            // Clients are stopped before that.
            let at_most = time + HEALTHY_LIMIT * (series.least as u32 + 3);
            let workload = Workload {
                read_only: READ_ONLY,
                together: if ground.fed { TOGETHER } else { 0.0 },
                rate: RATE,
                keys: KEYS,
                snapshots: Snapshots {
                    at_standbys: if snapshots { 1.0 } else { 0.0 },
                    ..Snapshots::default()
                },
                seed: options.seed + number as u64,
                ..Workload::new(&url_of(design, &ground, TABLE), isolation, at_most)
            };
            let judged = runtime.block_on(one(design, &workload, &ground, series, stop))?;
            let name = format!("{name}-{number}");
            let mode = format!("{}, writers {}", design.name, writers.name());
            let owed = owed(design, isolation);
            sum.take(&judged, &workload, (mode.as_str(), owed), lines);
            sum.meet(design, &ground, &judged);
            judge_stale(&judged, &mode, lines);
            if !judged.findings.holds(owed) {
                println!("{isolation}: not {owed}\n{}", judged.findings);
                keep(&judged, &name, options)?;
                ground.keep(&options.results);
            }
        }
        ground.judge_bypass("histories", lines);
        runtime.block_on(ground.judge_equal(&name, lines))?;
    }
    sum.judge(options, lines)
}

/// Address of the clients, with the declaration that they write these tables, if the design demands it.
pub(super) fn url_of(design: &Design, ground: &Ground, tables: &str) -> String {
    match design.declares_tables() {
        true => format!("{}?options=-c%20consort.tables_written%3D{tables}", ground.url()),
        false => ground.url(),
    }
}

/// With a replica that is held back some reads are stale, and the checker must find that: else it would find
/// nothing in other runs either.
fn judge_stale(judged: &Judged, mode: &str, lines: &mut Lines) {
    let Some(stale) = judged.stale else { return };
    let strict = judged.findings.holds(Model::StrictSerializable);
    let measured = format!("{stale}; {}strict serializable", if strict { "" } else { "not " });
    let what = format!("histories, {mode}: stale reads while a replica is held back");
    lines.judge(&what, "some; not strict serializable", measured, stale > 0 && !strict);
}

/// Records a history during faults, and judges it. Its clients go on until all is well again after the last
/// fault.
async fn one(
    design: &Design,
    workload: &Workload,
    ground: &Arc<Ground>,
    series: Series,
    stop: &Stop,
) -> Result<Judged, Failure> {
    ground.wait_healthy().await?;
    set_up(&workload.url, &[]).await?;
    let before = Before::read(&Source::Console(ground.console())).await?;
    let over = Stop::new();
    let clients = over.clone();
    let mut progress = Progress::new();
    let recording = record(workload, &clients, &mut progress);
    let striking = async {
        let done = befall(design, ground, series, &stop.after(series.time)).await;
        over.now();
        done
    };
    let (recorded, befallen) = tokio::join!(recording, striking);
    let (recorded, (held, faults)) = (recorded?, befallen?);
    let asked = Asked { reads: recorded.reads, writes: recorded.appends };
    let share = before.shares(&BTreeMap::from([(TABLE.to_owned(), asked)])).await?;
    let findings = check(&recorded.history);
    let stale = held.map(|held| stale_reads(&recorded.history, held));
    Ok(Judged { recorded, findings, share: share.get(TABLE).cloned(), faults, stale })
}

/// Faults of a cluster while clients run. Where reads may be of any age a replica is held back first; then
/// come the faults. Returns when it was held back, in nanoseconds since the beginning.
async fn befall(
    design: &Design,
    ground: &Arc<Ground>,
    series: Series,
    stop: &Stop,
) -> Result<(Option<Range<u64>>, Done), Failure> {
    let began = Instant::now();
    let held = match design.reads {
        Reads::AnyAge => Some(faults::hold_back(ground, TABLE, began).await?),
        _ => None,
    };
    Ok((held, faults::strike(ground, series, stop).await?))
}

/// Keeps every file that shows the cause.
fn keep(judged: &Judged, name: &str, options: &Options) -> Result<(), Failure> {
    let file = File::create(options.results.join(format!("{name}.jsonl")))?;
    judged.recorded.history.write(BufWriter::new(file))?;
    std::fs::write(options.results.join(format!("{name}.findings")), judged.findings.to_string())?;
    Ok(std::fs::write(options.results.join(format!("{name}.faults")), judged.faults.log.join("\n") + "\n")?)
}

impl Sum {
    fn take(&mut self, judged: &Judged, workload: &Workload, (mode, owed): (&str, Model), lines: &mut Lines) {
        let isolation = workload.isolation;
        let mut summary = Summary::of(&judged.recorded, isolation, &judged.findings, judged.share.clone());
        (summary.owed, summary.valid) = (owed.to_string(), judged.findings.holds(owed));
        let what = match workload.snapshots.at_standbys > 0.0 {
            true => format!("histories, {mode}: {isolation} with read_only_snapshots"),
            false => format!("histories, {mode}: {isolation}"),
        };
        judged.faults.log.iter().for_each(|fault| println!("  {fault}"));
        self.faults += judged.faults.log.len();
        self.unhealed.extend(judged.faults.unhealed.iter().cloned());
        let (reads, left) = self.leave(judged, workload);
        let share = match (&judged.share, reads) {
            (None, _) => "share unknown".to_owned(),
            (Some(share), 0) => {
                format!(
                    "offloaded {}, where no read is offloadable ({})",
                    percent(share.at_standbys),
                    share.why_not()
                )
            }
            (Some(share), reads) => format!(
                "offloaded {} of the offloadable reads ({})",
                percent(ratio_of(left, reads)),
                share.why_not()
            ),
        };
        let measured = format!(
            "{}: {} committed, {} failed, {} unknown, {} sessions lost, {} faults; {share}",
            if summary.valid { "valid" } else { "INVALID" },
            summary.committed,
            summary.failed,
            summary.unknown,
            summary.lost_sessions,
            judged.faults.log.len()
        );
        lines.judge(&what, &summary.owed.clone(), measured, summary.valid);
        self.summaries.push(summary);
    }

    /// Adds the faults and reads of one more run of a design.
    fn meet(&mut self, design: &Design, ground: &Ground, judged: &Judged) {
        let met = self.met.entry(design.name).or_default();
        met.runs += 1;
        met.fed = ground.fed;
        met.struck.extend(&judged.faults.struck);
        for reader in ground.readers() {
            let served = judged.share.as_ref().and_then(|share| share.by_server.get(reader.name()));
            *met.reads.entry(reader.name().to_owned()).or_default() += served.copied().unwrap_or(0);
        }
    }

    /// Number of reads that may be offloaded in a run, and the share that was: none at SERIALIZABLE, at
    /// REPEATABLE READ those of read-only transactions whose snapshots may, at READ COMMITTED all.
    fn leave(&mut self, judged: &Judged, workload: &Workload) -> (u64, f64) {
        let reads = match workload.isolation {
            Isolation::Serializable => 0,
            Isolation::RepeatableRead if workload.snapshots.at_standbys > 0.0 => {
                judged.recorded.read_only_reads
            }
            Isolation::RepeatableRead => 0,
            Isolation::Autocommit | Isolation::ReadCommitted => judged.recorded.reads,
        };
        let all = judged.recorded.reads as f64;
        let left = judged.share.as_ref().map_or(0.0, |share| share.at_standbys * all);
        self.may_leave += reads;
        self.left += if reads > 0 { left } else { 0.0 };
        (reads, left)
    }

    fn judge(&self, options: &Options, lines: &mut Lines) -> Result<(), Failure> {
        // Other designs have other rules for what may leave.
        if options.designs == [design::CONSORT] {
            let share = ratio_of(self.left, self.may_leave);
            let what = "histories: reads that may leave, at standbys";
            lines.judge(what, "30 %", percent(share), share > SHARE_WISH);
        }
        for design in &options.designs {
            self.met.get(design.name).unwrap_or(&Met::default()).judge(design.name, lines);
        }
        let (faults, unhealed) = (self.faults, self.unhealed.len());
        let healed = format!("{healed} of {faults} faults", healed = faults - unhealed);
        lines.judge("histories: all well again within 30 s", "every fault", healed, self.unhealed.is_empty());
        self.unhealed.iter().for_each(|fault| println!("  {fault}"));
        let table = table(&self.summaries);
        print!("{table}");
        table.write_csv(&options.results.join("histories-faults.csv"))?;
        Ok(write_json(&options.results.join("histories-faults.json"), &self.summaries)?)
    }
}

fn ratio_of(part: f64, whole: u64) -> f64 {
    part * ratio(1, whole)
}
