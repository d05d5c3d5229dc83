//! `consort-bench`, which `consort bench` starts: staleness, cost and correctness of any PostgreSQL server or proxy, the papers'
//! experiments, and the acceptance of Consort itself. The loads are the crate `workloads`'; the clusters are the crate `consort`'s.
//!
//! Exit codes: those of `consort`.

mod acceptance;
mod experiment;
mod plot;
mod spread;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use consort::failure::Failure;
use consort::runtime;
use consort::{down, serve, tier, up};

/// Measure any PostgreSQL server or proxy: stale reads, proxy overhead, checked histories, workloads
///
/// All commands but `acceptance` and `experiment` work with any address. The exit code is 1 if a client saw a
/// result that a single server would not return, or if a workload's tables violate their rules.
#[derive(Parser)]
#[command(name = "consort-bench", bin_name = "consort bench", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Workload(Box<workloads::Command>),
    Acceptance(acceptance::Options),
    Experiment(experiment::Options),
    // Consort as it is linked here: what is measured is started as `consort up` starts it.
    #[command(hide = true)]
    Up(up::Options),
    #[command(hide = true)]
    Down(down::Options),
    #[command(hide = true)]
    Serve(serve::Options),
    #[command(hide = true)]
    TierNode(tier::Options),
}

const EXAMPLES: &str = "\
Examples:
  consort bench stale --url postgres://postgres@127.0.0.1:6432/postgres
  consort bench acceptance --part stale --rounds 1000
  consort bench mix --url postgres://postgres@127.0.0.1:6432/postgres --time 30s
  consort bench tpcc --url postgres://postgres@127.0.0.1:6432/postgres --scale 2 --time 60s
  consort bench experiment strong-reads
  consort bench histories --help";

fn main() -> ExitCode {
    let command = CommandLine::parse().command;
    consort::exit_code(|| run(&command))
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Workload(workload) => measure(workload),
        Command::Acceptance(options) => acceptance::run(options),
        Command::Experiment(options) => experiment::run(options),
        Command::Up(options) => up::run(options),
        Command::Down(options) => down::run(options),
        Command::Serve(options) => serve::run(options),
        Command::TierNode(options) => tier::run(options),
    }
}

/// Runs a workload and prints its figures.
fn measure(workload: &workloads::Command) -> Result<(), Failure> {
    let ran = runtime()?.block_on(workloads::run(workload));
    let verdict = ran.map_err(failed)?;
    match verdict {
        workloads::Verdict::Clean => Ok(()),
        workloads::Verdict::Violated => {
            Err(Failure::new("clients saw results that a single PostgreSQL server would not return"))
        }
    }
}

/// The failure of a command whose load could not run.
fn failed(error: workloads::Error) -> Failure {
    Failure::new(error.to_string())
}
