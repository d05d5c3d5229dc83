//! The subcommand: its arguments and its mixes.

use super::{Keys, Ycsb};
use crate::workload;
use crate::workload::Report;
use crate::{Error, Verdict};
use clap::{Args, ValueEnum};
use load_clients::progress::Progress;
use load_clients::session::Trouble;
use load_clients::stop::Stop;
use serde::Serialize;
use std::sync::Mutex;

/// Rows of one unit of scale, as OLTP-Bench has it.
const ROWS_OF_SCALE: i64 = 1000;

/// Arguments of `ycsb`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Number of rows, in thousands (about 1.1 MB each)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=10_000_000))]
    pub scale: i64,
    /// Mix of operations
    #[arg(long, value_enum, default_value = "a")]
    pub mix: Mix,
    /// Skew of the choice of rows: theta of Zipf's law, 0: uniform; default: 0.99 for a to f, 1 for the
    /// others
    #[arg(long, value_parser = theta)]
    pub theta: Option<f64>,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub run: workload::Options,
}

const EXAMPLES: &str = "\
The command drops and creates the table ycsb_usertable at the address, loads it, runs, and checks that all rows exist;
if a client did not find an existing row, the exit code is 1.

Examples:
  consort bench ycsb --url postgres://postgres@127.0.0.1:6432/postgres --mix b --time 60s
  consort bench ycsb --url postgres://postgres@127.0.0.1:6432/postgres --keep --mix balanced --theta 1";

fn theta(text: &str) -> Result<f64, String> {
    let theta: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (0.0..=5.0).contains(&theta) { Ok(theta) } else { Err("theta must be between 0 and 5".to_owned()) }
}

/// Mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// 50 reads, 50 updates
    A,
    /// 95 reads, 5 updates
    B,
    /// Reads
    C,
    /// 95 reads of the newest rows, 5 inserts
    D,
    /// 95 scans, 5 inserts
    E,
    /// 50 reads, 50 read-modify-writes
    F,
    /// Hihooi's: reads
    ReadOnly,
    /// Hihooi's: 95 scans, 5 inserts
    ReadHeavy,
    /// Hihooi's: 85 reads of the newest rows, 15 inserts
    Balanced,
    /// Hihooi's: 50 reads, 50 updates
    WriteHeavy,
}

/// Weight of each operation, of 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// Read, update, insert, scan, read-modify-write.
    pub(super) kinds: [f64; 5],
    /// The newest rows are the popular ones.
    pub(super) newest: bool,
}

impl Mix {
    /// Its name, as it is given.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) fn weights(self) -> Weights {
        let kinds = match self {
            Mix::A | Mix::WriteHeavy => [50.0, 50.0, 0.0, 0.0, 0.0],
            Mix::B => [95.0, 5.0, 0.0, 0.0, 0.0],
            Mix::C | Mix::ReadOnly => [100.0, 0.0, 0.0, 0.0, 0.0],
            Mix::D => [95.0, 0.0, 5.0, 0.0, 0.0],
            Mix::E | Mix::ReadHeavy => [0.0, 0.0, 5.0, 95.0, 0.0],
            Mix::F => [50.0, 0.0, 0.0, 0.0, 50.0],
            Mix::Balanced => [85.0, 0.0, 15.0, 0.0, 0.0],
        };
        // "Skewed to favor recent items", the paper says of its balanced mix (7.7).
        Weights { kinds, newest: matches!(self, Mix::D | Mix::Balanced) }
    }

    fn theta(self) -> f64 {
        let published = [Mix::ReadOnly, Mix::ReadHeavy, Mix::Balanced, Mix::WriteHeavy];
        if published.contains(&self) { 1.0 } else { 0.99 }
    }
}

fn workload(options: &Options) -> Ycsb {
    let rows = options.scale * ROWS_OF_SCALE;
    Ycsb {
        rows,
        mix: options.mix,
        weights: options.mix.weights(),
        theta: options.theta.unwrap_or_else(|| options.mix.theta()),
        blocks: options.run.blocks,
        keys: Keys::new(rows, rows),
        missing: Mutex::default(),
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
