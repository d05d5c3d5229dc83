//! The subcommand: its arguments and its mixes.

use super::Tpcc;
use super::conditions::Before;
use super::rules::Size;
use crate::workload;
use crate::workload::Report;
use crate::{Error, Verdict};
use clap::{Args, ValueEnum};
use load_clients::progress::Progress;
use load_clients::session::Trouble;
use load_clients::stop::Stop;
use serde::Serialize;

/// Arguments of `tpcc`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Number of warehouses (about 100 MB each)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub scale: i32,
    /// Divisor for items, customers and orders of a warehouse: for trials, not for measurements
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub shrink: i32,
    /// Mix of transactions
    #[arg(long, value_enum, default_value = "standard")]
    pub mix: Mix,
    /// Create foreign keys between the tables
    #[arg(long)]
    pub foreign_keys: bool,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub run: workload::Options,
}

const EXAMPLES: &str = "\
The command drops and creates the tables tpcc_* at the address, loads them, runs, and checks the twelve consistency
conditions of the specification (3.3.2.1 to 3.3.2.12); if one is violated, the exit code is 1.

Examples:
  consort bench tpcc --url postgres://postgres@127.0.0.1:6432/postgres --scale 4 --time 60s
  consort bench tpcc --url postgres://postgres@127.0.0.1:6432/postgres --scale 4 --keep --mix balanced
  consort bench tpcc --url postgres://postgres@127.0.0.1:6432/postgres --shrink 100 --time 0";

/// Mix of transactions.
///
/// All but the first are those of Hihooi's Table 6: read-only, 95, 85 and 70 of 100 statements that read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// The specification's: 45 new orders, 43 payments, 4 of each other
    Standard,
    /// 50 order-status, 50 stock-level
    ReadOnly,
    /// 3 payments, 50 order-status, 47 stock-level: about 95 of 100 statements read
    ReadHeavy,
    /// 2 new orders, 3 payments, 85 order-status, 10 stock-level: about 85 of 100 statements read
    Balanced,
    /// 7 new orders, 5 payments, 73 order-status, 15 stock-level: about 70 of 100 statements read
    WriteHeavy,
}

impl Mix {
    /// Its name, as it is given.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Weights of new-order, payment, order-status, delivery and stock-level, of 100.
    pub(crate) fn weights(self) -> [f64; 5] {
        match self {
            Mix::Standard => [45.0, 43.0, 4.0, 4.0, 4.0],
            Mix::ReadOnly => [0.0, 0.0, 50.0, 0.0, 50.0],
            Mix::ReadHeavy => [0.0, 3.0, 50.0, 0.0, 47.0],
            Mix::Balanced => [2.0, 3.0, 85.0, 0.0, 10.0],
            Mix::WriteHeavy => [7.0, 5.0, 73.0, 0.0, 15.0],
        }
    }
}

impl Tpcc {
    /// TPC-C of so many warehouses, in a mix.
    pub(crate) fn new(scale: i32, shrink: i32, mix: Mix, run: &workload::Options) -> Tpcc {
        Tpcc {
            size: Size::new(scale, shrink, run.clients),
            mix,
            before: Before::default(),
            blocks: run.blocks,
            foreign_keys: false,
        }
    }
}

fn workload(options: &Options) -> Tpcc {
    let foreign_keys = options.foreign_keys;
    Tpcc { foreign_keys, ..Tpcc::new(options.scale, options.shrink, options.mix, &options.run) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mix_is_a_hundred() {
        for mix in Mix::value_variants() {
            assert!((mix.weights().iter().sum::<f64>() - 100.0).abs() < 1e-9, "{mix:?}");
        }
    }

    /// By the counts that the paper gives for each transaction: reading and writing statements.
    #[test]
    fn the_mixes_read_as_often_as_the_paper_says() {
        let (reads, writes) = ([20.0, 4.0, 3.0, 0.0, 2.0], [25.0, 5.0, 0.0, 0.0, 0.0]);
        let sum = |weights: [f64; 5], counts: [f64; 5]| -> f64 {
            weights.iter().zip(counts).map(|(weight, count)| weight * count).sum()
        };
        let share = |mix: Mix| {
            let (reads, writes) = (sum(mix.weights(), reads), sum(mix.weights(), writes));
            100.0 * reads / (reads + writes)
        };
        assert!((share(Mix::ReadOnly) - 100.0).abs() < 1e-9);
        assert!((share(Mix::ReadHeavy) - 95.0).abs() < 1.0, "{}", share(Mix::ReadHeavy));
        assert!((share(Mix::Balanced) - 85.0).abs() < 2.0, "{}", share(Mix::Balanced));
        assert!((share(Mix::WriteHeavy) - 70.0).abs() < 3.0, "{}", share(Mix::WriteHeavy));
    }
}
