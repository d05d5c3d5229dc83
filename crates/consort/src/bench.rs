//! `consort bench`: staleness, cost and correctness of whatever answers at an address. The workloads are the crate
//! `bench`'s; this is their place in the command.

use clap::{Args, Subcommand};

use crate::console::runtime;
use crate::failure::Failure;
use crate::{acceptance, experiment};

/// Measure whatever answers at an address: stale reads, what a proxy costs, histories under a checker, workloads
///
/// All but `acceptance` and `experiment` work against any PostgreSQL server or proxy. The exit code is 1 if the run saw what one server would
/// not show, or if a workload's tables break their rules.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    #[command(flatten)]
    Workload(Box<::bench::Command>),
    Acceptance(acceptance::Options),
    Experiment(experiment::Options),
}

const EXAMPLES: &str = "\
Examples:
  consort bench stale --url postgres://postgres@127.0.0.1:6432/postgres
  consort bench acceptance --part stale --rounds 1000
  consort bench mix --url postgres://postgres@127.0.0.1:6432/postgres --time 30s
  consort bench tpcc --url postgres://postgres@127.0.0.1:6432/postgres --scale 2 --time 60s
  consort bench experiment strong-reads
  consort bench histories --help";

/// Measures and prints the figures.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workload = match &options.command {
        Command::Workload(workload) => workload,
        Command::Acceptance(options) => return acceptance::run(options),
        Command::Experiment(options) => return experiment::run(options),
    };
    let verdict =
        runtime()?.block_on(::bench::run(workload)).map_err(|error| Failure::new(error.to_string()))?;
    match verdict {
        ::bench::Verdict::Clean => Ok(()),
        ::bench::Verdict::Violated => {
            Err(Failure::new("the run saw what one PostgreSQL server would not show"))
        }
    }
}
