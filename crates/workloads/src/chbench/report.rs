//! The subcommand: its arguments.

use super::Chbench;
use crate::tpcc::{Mix, Tpcc};
use crate::workload;
use crate::workload::Report;
use crate::{Error, Verdict};
use clap::Args;
use load_clients::progress::Progress;
use load_clients::session::Trouble;
use load_clients::stop::Stop;

/// Arguments of `chbench`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Number of warehouses (about 100 MB each)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=20_000))]
    pub scale: i32,
    /// Divisor for items, customers and orders of a warehouse: for trials, not for measurements
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub shrink: i32,
    /// Mix of TPC-C transactions
    #[arg(long, value_enum, default_value = "standard")]
    pub mix: Mix,
    /// Number of clients that run queries, in addition to --clients for transactions; without --think or
    /// --rate
    #[arg(long, default_value_t = 1)]
    pub analytical: u64,
    /// URL for the clients that run queries, if different
    #[arg(long, value_name = "URL")]
    pub analytical_url: Option<String>,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub run: workload::Options,
}

const EXAMPLES: &str = "\
The command drops and creates the tables tpcc_* and chbench_* at the address, loads them, runs, and checks TPC-C's
consistency conditions; if one is violated, the exit code is 1.

Examples:
  consort bench chbench --url postgres://postgres@127.0.0.1:6432/postgres --scale 2 --clients 8 --analytical 2 --time 60s";

fn workload(options: &Options) -> Chbench {
    let tpcc = Tpcc::new(options.scale, options.shrink, options.mix, &options.run);
    Chbench {
        tpcc,
        transactional: options.run.clients,
        analytical: options.analytical,
        analytical_url: options.analytical_url.clone(),
    }
}

/// Runs the subcommand and prints its results.
///
/// # Errors
/// The address cannot be used or a file cannot be written.
pub async fn run(options: &Options) -> Result<Verdict, Error> {
    workload::run(workload(options), &options.run).await
}

/// Runs it and gives the result.
///
/// # Errors
/// The address cannot be used.
pub async fn measure(options: &Options, stop: &Stop, progress: &mut Progress) -> Result<Report, Trouble> {
    workload::measure(workload(options), &options.run, stop, progress).await
}
