//! The subcommand: its arguments and its mixes.

use super::Tpcw;
use super::rules::Size;
use crate::workload;
use crate::workload::Report;
use crate::{Error, Verdict};
use clap::{Args, ValueEnum};
use load_clients::progress::Progress;
use load_clients::session::Trouble;
use load_clients::stop::Stop;
use serde::Serialize;

/// Arguments of `tpcw`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Number of emulated browsers for which the tables are sized, with 2,880 customers each (about 8 MB)
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub scale: i32,
    /// Number of books (the specification has 1,000, 10,000, 100,000 ..)
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(i32).range(100..=10_000_000))]
    pub items: i32,
    /// Divisor for books and customers: for trials, not for measurements
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100))]
    pub shrink: i32,
    /// Mix of interactions
    #[arg(long, value_enum, default_value = "shopping")]
    pub mix: Mix,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub run: workload::Options,
}

const EXAMPLES: &str = "\
The command drops and creates the tables tpcw_* at the address, loads them, and runs emulated browsers (--clients), each
one interaction after the other with think time (--think). Then it checks that orders agree with their lines, and the
stock with sales; if not, the exit code is 1. Queries of pages run, but no page is rendered. Carts are kept in two tables.

Examples:
  consort bench tpcw --url postgres://postgres@127.0.0.1:6432/postgres --clients 200 --time 60s
  consort bench tpcw --url postgres://postgres@127.0.0.1:6432/postgres --keep --mix ordering --think 0 --clients 16";

/// Mix of interactions (clause 5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// 95 of 100 look, 5 order (`WIPSb`)
    Browsing,
    /// 80 of 100 look, 20 order (WIPS)
    Shopping,
    /// 50 of 100 look, 50 order (`WIPSo`)
    Ordering,
}

impl Mix {
    /// Its name, as it is given.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Weight of each interaction, of 100, in the order of their names.
    pub(super) fn weights(self) -> [f64; 14] {
        match self {
            Mix::Browsing => {
                [29.0, 11.0, 11.0, 21.0, 12.0, 11.0, 2.0, 0.82, 0.75, 0.69, 0.30, 0.25, 0.10, 0.09]
            }
            Mix::Shopping => [16.0, 5.0, 5.0, 17.0, 20.0, 17.0, 11.6, 3.0, 2.6, 1.2, 0.75, 0.66, 0.10, 0.09],
            Mix::Ordering => {
                [9.12, 0.46, 0.46, 12.35, 14.53, 13.08, 13.53, 12.86, 12.73, 10.18, 0.25, 0.22, 0.12, 0.11]
            }
        }
    }
}

fn workload(options: &Options) -> Tpcw {
    Tpcw {
        size: Size::new(options.items, options.scale, options.shrink),
        mix: options.mix,
        blocks: options.run.blocks,
        orders_before: 0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mix_is_a_hundred_and_looks_as_often_as_it_says() {
        for (mix, looks) in [(Mix::Browsing, 95.0), (Mix::Shopping, 80.0), (Mix::Ordering, 50.0)] {
            let weights = mix.weights();
            assert!((weights.iter().sum::<f64>() - 100.0).abs() < 1e-6, "{mix:?}");
            assert!((weights[..6].iter().sum::<f64>() - looks).abs() < 1e-6, "{mix:?}");
        }
    }
}
