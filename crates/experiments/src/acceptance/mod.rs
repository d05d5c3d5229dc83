//! `consort bench acceptance`: Consort's promises, measured on clusters of its own in temporary folders. Each
//! part is one line of a release's criteria, reports its target and its measurement, and leaves CSV and JSON
//! files.

mod bank;
mod demo;
mod faults;
mod ground;
mod histories;
mod lines;
mod offload;
mod stale;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use load_clients::pause::whole_seconds;
use load_clients::stop::Stop;

use consort::failure::Failure;
use consort::runtime;
use consort::up::Writers;
use lines::Lines;

/// Test the guarantees of Consort on temporary clusters: no stale reads, valid histories during faults,
/// offload
///
/// Creates servers and removes them afterwards. After a wrong read, keeps them, stopped, and prints their
/// directory. The exit code is 1 if a result was wrong or below its goal.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Parts to run; default: all
    #[arg(long, value_enum, value_delimiter = ',', default_value = "demo,stale,histories,bank,offload")]
    part: Vec<Part>,
    /// Modes of writers; default: both
    #[arg(long, value_enum, value_delimiter = ',', default_value = "through-consort,anywhere")]
    writers: Vec<Writers>,
    /// Designs for the parts histories and bank
    #[arg(long = "design", value_name = "NAME", value_delimiter = ',', default_value = "consort", value_parser = histories::design)]
    designs: Vec<design::Design>,
    /// Use logical replicas instead of standbys in the parts histories and bank
    #[arg(long)]
    fed: bool,
    /// Number of rounds of the part stale, for each delay
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Delays of the two standbys in the part stale, in milliseconds; a pair is FIRST/SECOND
    #[arg(long, value_delimiter = ',', default_value = "0/0,20/100,300/300,0/300")]
    delays: Vec<stale::Delays>,
    /// Minimum duration of the part histories, of all runs together, in seconds; extended until all faults
    /// occurred
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = whole_seconds)]
    histories_time: u64,
    /// Duration of the part bank, of all runs together, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = whole_seconds)]
    bank_time: u64,
    /// Duration of each run of the parts demo and offload, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = whole_seconds)]
    time: u64,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for results
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    results: PathBuf,
}

/// A part of the acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The demo's mix through the designs weak and consort
    Demo,
    /// Rounds of write and read back, over delays of the standbys, protocols, sessions, writers and kinds of commit
    Stale,
    /// List-append histories during faults, each at least once in each design: standbys, Consort and the
    /// primary are killed, hang and restart, standbys and replicas lose connections, logical replicas are
    /// rebuilt
    Histories,
    /// Transfers and sums during the same faults, with a kill of the primary first
    Bank,
    /// Read offload of a cold table alongside pgbench, of a hot row, and with statements that reduce it
    Offload,
}

impl Options {
    fn time(&self) -> Duration {
        Duration::from_secs(self.time)
    }
}

/// Runs the parts one after the other; their lines are printed and written at the end, and whenever a part has ended.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if !options.fed && options.designs.iter().any(|design| design.reads == design::Reads::AnyAge) {
        // A standby shows commits in another order than the primary.
        return Err(Failure::new("reads of any age can be checked only at logical replicas; add --fed"));
    }
    std::fs::create_dir_all(&options.results)?;
    let runtime = runtime()?;
    let _context = runtime.enter();
    let stop = Stop::at_ctrl_c();
    let mut lines = Lines::default();
    for part in &options.part {
        if stop.was_asked() {
            break;
        }
        let done = match part {
            Part::Demo => demo::run(&runtime, options, &mut lines),
            Part::Stale => stale::run(&runtime, options, &stop, &mut lines),
            Part::Histories => histories::run(&runtime, options, &stop, &mut lines),
            Part::Bank => bank::run(&runtime, options, &stop, &mut lines),
            Part::Offload => offload::run(&runtime, options, &stop, &mut lines),
        };
        lines.write(&options.results)?;
        done?;
    }
    print!("\n{}", lines.shown());
    match lines.missed() {
        0 => Ok(()),
        missed => Err(Failure::new(format!("{missed} results are below their goal"))),
    }
}
