//! `consort bench acceptance`: what Consort promises, measured on clusters of its own in temporary folders. Each part is one
//! line of what a release must keep, says what it wished and what it got, and leaves CSV and JSON behind.

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

/// Measure on clusters in temporary folders what Consort promises: nothing stale, valid histories during faults, offload
///
/// It makes the servers it needs and removes them; after a wrong read it leaves them stopped where they are and says where.
/// The exit code is 1 if anything was wrong or less than what was wished.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// What to run; all of it by default
    #[arg(long, value_enum, value_delimiter = ',', default_value = "demo,stale,histories,bank,offload")]
    part: Vec<Part>,
    /// Modes of writers to run them in; both by default
    #[arg(long, value_enum, value_delimiter = ',', default_value = "through-consort,anywhere")]
    writers: Vec<Writers>,
    /// Designs to run the parts histories and bank in
    #[arg(long = "design", value_name = "NAME", value_delimiter = ',', default_value = "consort", value_parser = histories::design)]
    designs: Vec<design::Design>,
    /// In the parts histories and bank, replicas that Consort feeds in the place of standbys, also where the design does without
    #[arg(long)]
    fed: bool,
    /// Rounds of the part stale, for each delay
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Delays of the two standbys in the part stale, in milliseconds; a pair is FIRST/SECOND
    #[arg(long, value_delimiter = ',', default_value = "0/0,20/100,300/300,0/300")]
    delays: Vec<stale::Delays>,
    /// How long the part histories takes, all its runs together, in seconds; longer, if what each design must meet takes longer
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = whole_seconds)]
    histories_time: u64,
    /// How long the part bank takes, all its runs together, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = whole_seconds)]
    bank_time: u64,
    /// How long each run of the parts demo and offload takes, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = whole_seconds)]
    time: u64,
    /// What chance starts from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for results
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
    /// List-append histories while standbys, Consort and the primary are killed, hang and are restarted, standbys and replicas
    /// are cut off, and replicas that Consort feeds are made anew: each of it at least once in each design
    Histories,
    /// Transfers and sums during the same faults, of which the first kills the primary
    Bank,
    /// A cold table beside pgbench, a hot row, and what costs offload
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
        return Err(Failure::new(
            "of reads that may be of any age those at replicas that Consort feeds can be judged, and no others: add --fed",
        ));
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
        missed => Err(Failure::new(format!("{missed} lines are not what was wished"))),
    }
}
