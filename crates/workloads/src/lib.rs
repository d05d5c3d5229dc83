//! Workloads and experiments; ratios side by side.
//!
//! Everything here works against an address of any PostgreSQL server or proxy, and knows Consort by nothing but that
//! address: so other products are measured by the same runs. `consort bench` is the command; the demo's workload and the
//! slow disk are functions for others to call.

pub mod all_updates;
pub mod chbench;
pub mod check;
pub mod extensions;
pub mod histories;
pub mod idle;
mod mix_command;
pub mod overhead;
pub mod slow_disk;
pub mod stale;
pub mod tpcb;
pub mod tpcc;
pub mod tpcw;
pub mod workload;
pub mod ycsb;

pub use load_clients::verdict::Verdict;

use clap::Subcommand;
use load_clients::{mix, progress, session, stop, table};

/// The subcommands of `consort bench`.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Detect stale reads and reads that go backwards, on hot rows, alongside reads of a cold table
    Stale(stale::Options),
    /// Measure the overhead of proxies: pgbench, log-ins, COPY or large rows, compared with PgBouncer and
    /// direct access
    Overhead(overhead::Options),
    /// Measure the memory of idle clients, through a proxy and through PgBouncer
    Idle(idle::Options),
    /// Run the demo's mix of bank and catalogue, and count stale, backwards and wrong reads
    Mix(mix::Options),
    /// Run list-append transactions, and check the history against every consistency model
    Histories(histories::Options),
    /// Run TPC-C: five transactions on nine tables, and check the twelve consistency conditions
    Tpcc(tpcc::Options),
    /// Run the CH-benCHmark: TPC-C, alongside TPC-H's 22 queries of the same tables
    Chbench(chbench::Options),
    /// Run YCSB: single reads, updates, inserts and scans with Zipfian keys
    Ycsb(ycsb::Options),
    /// Run TPC-B: transfers, and check their sums
    Tpcb(tpcb::Options),
    /// Run TPC-W: fourteen interactions of a bookshop, by emulated browsers with think time
    Tpcw(tpcw::Options),
    /// Run AllUpdates: transactions of one update that conflict with nothing
    Allupdates(all_updates::Options),
    /// Run nearest-neighbour reads with PostGIS or pgvector
    Extensions(extensions::Options),
}

impl Command {
    /// The arguments that all workloads have, if it is one.
    pub fn workload(&mut self) -> Option<&mut workload::Options> {
        match self {
            Command::Stale(_)
            | Command::Overhead(_)
            | Command::Idle(_)
            | Command::Mix(_)
            | Command::Histories(_) => None,
            Command::Tpcc(options) => Some(&mut options.run),
            Command::Chbench(options) => Some(&mut options.run),
            Command::Ycsb(options) => Some(&mut options.run),
            Command::Tpcb(options) => Some(&mut options.run),
            Command::Tpcw(options) => Some(&mut options.run),
            Command::Allupdates(options) => Some(&mut options.run),
            Command::Extensions(options) => Some(&mut options.run),
        }
    }
}

/// Error of a run without a result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server or proxy did not do what the run needs.
    #[error(transparent)]
    Trouble(#[from] session::Trouble),
    /// A log cannot be judged.
    #[error(transparent)]
    History(#[from] check::ParseHistoryError),
    /// A result cannot be written.
    #[error(transparent)]
    Write(#[from] table::WriteError),
    /// A program that the run needs failed.
    #[error("{name}: {problem}")]
    Program {
        /// The program.
        name: String,
        /// The error's text.
        problem: String,
    },
    /// Addresses that do not go together.
    #[error("each --url needs a --proxy-pid and a --name of its own")]
    Unpaired,
    /// Only workloads have such a report.
    #[error("not a workload of a specification")]
    NoWorkload,
    /// A file cannot be opened or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
}

/// Runs a subcommand; its results go to the standard output, its progress to the standard error.
///
/// # Errors
/// See `Error`.
pub async fn run(command: &Command) -> Result<Verdict, Error> {
    match command {
        Command::Stale(options) => stale::run(options).await,
        Command::Overhead(options) => overhead::run(options).await,
        Command::Idle(options) => idle::run(options).await,
        Command::Mix(options) => mix_command::run(options).await,
        Command::Histories(options) => histories::run(options).await,
        Command::Tpcc(options) => tpcc::run(options).await,
        Command::Chbench(options) => chbench::run(options).await,
        Command::Ycsb(options) => ycsb::run(options).await,
        Command::Tpcb(options) => tpcb::run(options).await,
        Command::Tpcw(options) => tpcw::run(options).await,
        Command::Allupdates(options) => all_updates::run(options).await,
        Command::Extensions(options) => extensions::run(options).await,
    }
}

/// Runs a workload and gives its result; nothing is printed.
///
/// # Errors
/// The address cannot be used, or the command is no workload.
pub async fn measure(
    command: &Command,
    stop: &stop::Stop,
    progress: &mut progress::Progress,
) -> Result<workload::Report, Error> {
    let report = match command {
        Command::Stale(_)
        | Command::Overhead(_)
        | Command::Idle(_)
        | Command::Mix(_)
        | Command::Histories(_) => {
            return Err(Error::NoWorkload);
        }
        Command::Tpcc(options) => tpcc::measure(options, stop, progress).await?,
        Command::Chbench(options) => chbench::measure(options, stop, progress).await?,
        Command::Ycsb(options) => ycsb::measure(options, stop, progress).await?,
        Command::Tpcb(options) => tpcb::measure(options, stop, progress).await?,
        Command::Tpcw(options) => tpcw::measure(options, stop, progress).await?,
        Command::Allupdates(options) => all_updates::measure(options, stop, progress).await?,
        Command::Extensions(options) => extensions::measure(options, stop, progress).await?,
    };
    Ok(report)
}
