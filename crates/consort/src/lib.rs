//! The command. Each subcommand is a file: its options, its work, its output. Work that runs for ever is
//! `node`'s, and PostgreSQL's processes are driven by `postgres`; this crate only brings them together for a
//! person at a terminal. The library lets `consort-bench` start clusters as `consort up` does.
//!
//! Exit codes: 0 done; 1 it could not be done, and the standard error says why; 2 the command line is wrong; 3 what was
//! asked for is not running.

mod attach;
mod bench;
mod broken_pipe;
mod check;
mod cluster_in;
mod console;
mod core_files;
pub mod daemon;
pub mod demo;
mod detach;
pub mod down;
mod dump;
mod explain;
pub mod failure;
mod feeds;
pub mod home;
mod import;
mod import_tier;
mod logging;
mod node;
mod psql;
mod redis_client;
mod repair;
mod replica;
mod seed;
pub mod serve;
pub mod settings_file;
mod status;
pub mod tier;
pub mod up;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Consort is a PostgreSQL proxy and connection pooler that sends reads to replicas without returning stale
/// data.
///
/// Clients connect to one address. Writes run at the primary. A read runs at a replica if its result is
/// proven to be what the primary would return, and at the primary otherwise.
#[derive(Parser)]
#[command(name = "consort", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  consort demo                    demonstration in a minute
  consort up                      start a primary, two standbys and Consort on this machine
  consort status                  show nodes, lag and read offload
  consort psql                    open psql through Consort
  consort down                    stop all; `consort up` starts it again
  consort serve --config FILE     serve in front of existing servers
  consort import pgbouncer.ini    convert a configuration of PgBouncer, PgCat or PgDog";

#[derive(Subcommand)]
enum Command {
    Up(up::Options),
    Down(down::Options),
    Demo(demo::Options),
    Serve(serve::Options),
    Import(import::Options),
    Attach(attach::Options),
    Detach(detach::Options),
    Check(check::Options),
    Repair(repair::Options),
    Replica(replica::Options),
    Node(node::Options),
    Verify(verify::Options),
    Status(status::Options),
    Explain(explain::Options),
    Psql(psql::Options),
    Bench(bench::Options),
    Dump(dump::Options),
    TierNode(tier::Options),
    ImportTier(import_tier::Options),
}

/// Runs the command line of this process; its exit code.
pub fn main() -> ExitCode {
    let command = CommandLine::parse().command;
    exit_code(|| run(command))
}

/// Runs a command: its exit code, after its failure was printed on the standard error.
pub fn exit_code(command: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    broken_pipe::ends_quietly(|| match command() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("consort: {failure}");
            failure.code()
        }
    })
}

/// A runtime of one thread for one command.
///
/// # Errors
/// The system has no descriptors left.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Up(options) => up::run(&options),
        Command::Down(options) => down::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Attach(options) => attach::run(&options),
        Command::Detach(options) => detach::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Repair(options) => repair::run(&options),
        Command::Replica(options) => replica::run(&options),
        Command::Node(options) => node::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Psql(options) => psql::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Dump(options) => dump::run(&options),
        Command::TierNode(options) => tier::run(&options),
        Command::ImportTier(options) => import_tier::run(&options),
    }
}
