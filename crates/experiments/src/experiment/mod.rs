//! `consort bench experiment`: the papers' experiments again, side by side. Each is a row of a table (`design::EXPERIMENTS`):
//! setups, loads, and what the paper claims. This file knows none of them.
//!
//! ```text
//!   for each round: for each setup: for each load:
//!     load the tables, clients while each node has its CPU quota, check the tables, VERIFY the replicas
//!   then: ratios by round, verdicts, tables, CSV, JSON, plots
//! ```

mod busy;
mod faults;
mod ground;
mod key_value;
mod ledger;
mod page;
mod peers;
mod pgpool;
mod point;
mod results;
mod slow_disk;
mod table;
mod tier;
mod verdict;

use std::path::PathBuf;
use std::time::Instant;

use crate::plot::Pen;
use clap::Args;
use load_clients::pause::whole_seconds;
use load_clients::stop::Stop;
use load_clients::table::Table;
use tokio::runtime::Runtime;

use consort::failure::Failure;
use consort::runtime;
use ground::Ground;
use point::{Point, Which};
use results::Results;
use table::Experiment;

/// Repeat a paper's experiment on nodes with a CPU quota, and compare its claims with the measurements
///
/// Creates the servers in a temporary directory, each in a control group limited to a few hundredths of a
/// core, so that a small machine stands for a cluster. Results show ratios and the distribution of work, not
/// absolute figures or the effect of disks and networks. Needs the right to create control groups (root, or a
/// delegated group). Removes servers, groups and directory at the end, even if the command is killed.
///
/// The exit code is 1 if tables violated their rules or a replica differed. A claim that is not confirmed is
/// a result, not a failure.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Experiments to run, or `all` that need no extension; default: list the experiments
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Short trial: run a part once, for seconds, and check no claim
    #[arg(long)]
    quick: bool,
    /// Setup to run (repeatable); claims that need other setups are not checked
    #[arg(long, value_name = "SETUP", conflicts_with_all = ["quick", "pages"])]
    setup: Vec<String>,
    /// Load to run (repeatable)
    #[arg(long, value_name = "LOAD", conflicts_with_all = ["quick", "pages"])]
    load: Vec<String>,
    /// CPU quota of each server, in hundredths of a core; default: as in the experiment
    #[arg(long, value_name = "PERCENT", conflicts_with = "pages")]
    node_percent: Option<u32>,
    /// CPU quota of the primary, in hundredths of a core; default: as in the experiment
    #[arg(long, value_name = "PERCENT", conflicts_with = "pages")]
    primary_percent: Option<u32>,
    /// Number of clients, in all setups; default: as in the experiment
    #[arg(long, value_name = "N", conflicts_with = "pages", value_parser = clap::value_parser!(u64).range(1..))]
    clients: Option<u64>,
    /// Number of measurements of each point; default: as in the experiment
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Duration of each measurement, in seconds; default: as in the experiment
    #[arg(long, value_name = "SECONDS", value_parser = whole_seconds)]
    time: Option<u64>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for results
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    results: PathBuf,
    /// Directory whose pages get the plots and tables of this run, in place of earlier ones
    #[arg(long, value_name = "DIR", conflicts_with = "quick")]
    pages: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  consort bench experiment                      list the experiments
  consort bench experiment strong-reads
  consort bench experiment strong-reads --setup weak-4 --setup consort-4 --load 'TPC-W browsing'
  consort bench experiment all --quick";

/// Runs those that were asked for.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let all = table::all().map_err(Failure::new)?;
    if options.names.is_empty() {
        print!("{}", list(&all));
        return Ok(());
    }
    let key_value = key_value_names(options);
    let chosen = chosen(&all, options)?;
    let mut loads = chosen.iter().flat_map(|experiment| &experiment.load);
    let mut setups = chosen.iter().flat_map(|experiment| &experiment.setup);
    let is_slow = loads.any(|load| load.disk_ms > 0) || setups.any(|setup| setup.read_ms > 0);
    if is_slow && !slow_disk::is_here() {
        return slow_disk::again();
    }
    let pen = Pen::find().map_err(|error| Failure::new(error.to_string()))?;
    std::fs::create_dir_all(&options.results)?;
    let runtime = runtime()?;
    let _context = runtime.enter();
    let stop = Stop::at_ctrl_c();
    let mut wrong = Vec::new();
    for experiment in &chosen {
        if !stop.was_asked() {
            wrong.extend(one(&runtime, experiment, options, pen, &stop)?);
        }
    }
    for name in key_value.iter().filter(|_| !stop.was_asked()) {
        key_value::run(name, &key_value_choice(options))?;
    }
    match wrong.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} checks of the data failed:\n  {}", wrong.join("\n  ")))),
    }
}

fn list(all: &[Experiment]) -> Table {
    let mut table = Table::new(&["name", "what", "of"]);
    for experiment in all {
        table.push([&experiment.name, &experiment.about, &experiment.paper].map(String::clone).to_vec());
    }
    key_value::list().into_iter().for_each(|row| table.push(row.to_vec()));
    table
}

/// The experiments with key-value stores that were asked for.
fn key_value_names(options: &Options) -> Vec<String> {
    let names = options.names.iter().flat_map(|name| match name.as_str() {
        "all" => key_value::names(options.quick),
        name => vec![name.to_owned()],
    });
    names.filter(|name| key_value::is_one(name)).collect()
}

fn key_value_choice(options: &Options) -> key_value::Choice {
    key_value::Choice {
        quick: options.quick,
        loads: options.load.clone(),
        clients: options.clients,
        rounds: options.rounds,
        time_s: options.time,
        seed: options.seed,
        results: options.results.clone(),
        pages: options.pages.clone(),
    }
}

/// The rows that were asked for, as they were asked for.
fn chosen(all: &[Experiment], options: &Options) -> Result<Vec<Experiment>, Failure> {
    let names = || all.iter().map(|experiment| experiment.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut chosen = Vec::new();
    for name in options.names.iter().filter(|name| !key_value::is_one(name)) {
        let before = chosen.len();
        let is_meant = |experiment: &&Experiment| match name.as_str() {
            "all" => !experiment.needs_extension(),
            name => name == experiment.name,
        };
        chosen.extend(all.iter().filter(is_meant).cloned());
        if chosen.len() == before {
            return Err(Failure::new(format!("experiment {name} does not exist; experiments: {}", names())));
        }
    }
    for experiment in &mut chosen {
        if options.quick {
            *experiment = experiment.quick();
        }
        *experiment = experiment.only(&options.setup, &options.load).map_err(Failure::new)?;
        experiment.node_percent = options.node_percent.or(experiment.node_percent);
        for setup in &mut experiment.setup {
            setup.clients = options.clients.or(setup.clients);
        }
        experiment.primary_percent = options.primary_percent.or(experiment.primary_percent);
        experiment.rounds = options.rounds.unwrap_or(experiment.rounds);
        experiment.time_s = options.time.unwrap_or(experiment.time_s);
        let ends = experiment.warm_up_s + experiment.time_s;
        if experiment.fault.as_ref().is_some_and(|fault| fault.over_s() >= ends) {
            return Err(Failure::new(format!("{}: --time is too short for its events", experiment.name)));
        }
    }
    Ok(chosen)
}

/// Runs one, and reports its result. Returns the errors of the data, in words.
fn one(
    runtime: &Runtime,
    experiment: &Experiment,
    options: &Options,
    pen: Pen,
    stop: &Stop,
) -> Result<Vec<String>, Failure> {
    println!("{}: {}\n{}\n", experiment.name, experiment.about, experiment.paper);
    let since = Instant::now();
    let mut points = Vec::new();
    let mut ground = Ground::make(experiment)?;
    let measured = rounds(runtime, &mut ground, (experiment, options), stop, &mut points);
    let log = options.results.join(format!("{}.log", experiment.name));
    let wrong: Vec<String> = points.iter().flat_map(named_wrongs).collect();
    if measured.is_err() || !wrong.is_empty() {
        // Without a log there is nothing to copy.
        let _ = std::fs::copy(ground.log(), log);
    }
    drop(ground);
    let results = Results::of(experiment, options.quick, &points);
    // The measurements before a failure are not lost.
    results.write(experiment, &options.results)?;
    measured?;
    let files = results::plot(pen, experiment, &points, &options.results)?;
    if let Some(pages) = &options.pages {
        page::write(experiment, &results, &files, pages)?;
    }
    println!("{}", results::summary(experiment, &points));
    println!("{}", results.verdicts());
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    println!("{} points in {} s; {}\n", points.len(), since.elapsed().as_secs(), files.join(", "));
    Ok(wrong)
}

/// All points, in rounds; every second round goes the other way, so that slow changes meanwhile favour no
/// point.
fn rounds(
    runtime: &Runtime,
    ground: &mut Ground,
    (experiment, options): (&Experiment, &Options),
    stop: &Stop,
    points: &mut Vec<Point>,
) -> Result<(), Failure> {
    for round in 1..=experiment.rounds {
        let mut setups: Vec<&table::Setup> = experiment.setup.iter().collect();
        if round.is_multiple_of(2) {
            setups.reverse();
        }
        for setup in setups {
            for load in &experiment.load {
                if stop.was_asked() {
                    return Ok(());
                }
                let which = Which { experiment, setup, load, round, seed: options.seed + round };
                let point = runtime.block_on(point::measure(ground, &which, stop)).map_err(|failure| {
                    Failure::new(format!("round {round}, {}, {}: {failure}", setup.name, load.name))
                })?;
                tell(&point);
                points.push(point);
            }
        }
    }
    Ok(())
}

/// A line for whoever waits.
fn tell(point: &Point) {
    let all = &point.report.all;
    println!(
        "round {}, {}, {}: {:.1} a second, mean {:.1} ms, {} given up; busiest node {:.0} % of its quota, all cores \
         {:.0} % busy; {} checks hold, {} tables equal",
        point.round,
        point.setup,
        point.load,
        verdict::throughput(point),
        all.mean_us as f64 / 1000.0,
        all.failed,
        point.busiest() * 100.0,
        point.machine_busy * 100.0,
        point.report.checks.iter().filter(|check| check.holds).count(),
        point.verified.equal,
    );
    named_wrongs(point).iter().for_each(|wrong| println!("WRONG: {wrong}"));
}

fn named_wrongs(point: &Point) -> Vec<String> {
    let name = |wrong| format!("round {}, {}, {}: {wrong}", point.round, point.setup, point.load);
    point.wrong().into_iter().map(name).collect()
}
