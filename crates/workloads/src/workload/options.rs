//! The arguments that all workloads have.

use super::Blocks;
use clap::{Args, ValueEnum};
use load_clients::pause;
use load_clients::result_files::ResultFiles;
use load_clients::session::Protocol;
use serde::Serialize;
use std::time::Duration;

/// The isolation level of transactions in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Default of the server or role: BEGIN without an isolation level
    #[default]
    Default,
    /// READ COMMITTED
    ReadCommitted,
    /// REPEATABLE READ
    RepeatableRead,
    /// SERIALIZABLE
    Serializable,
}

impl Isolation {
    pub(crate) fn clause(self) -> &'static str {
        match self {
            Isolation::Default => "",
            Isolation::ReadCommitted => " ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => " ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => " ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

/// Arguments of every workload.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Options {
    /// URL to connect to
    #[arg(long, visible_alias = "at")]
    pub url: String,
    /// URL for loading, if different
    #[arg(long, value_name = "URL")]
    pub load_url: Option<String>,
    /// URL for the checks after the run, if the measured address may return stale rows
    #[arg(long, value_name = "URL")]
    pub check_url: Option<String>,
    /// Reuse the tables of an earlier run of the same size, instead of dropping and loading them
    #[arg(long)]
    pub keep: bool,
    /// Number of clients, each with one transaction after the other
    #[arg(long, default_value_t = 8)]
    pub clients: u64,
    /// Duration of the run; 0: load and check only
    #[arg(long, value_parser = pause::parse, default_value = "10s")]
    pub time: Duration,
    /// Stop after this number of transactions
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    pub transactions: u64,
    /// Warm-up before the measurement
    #[arg(long, value_parser = pause::parse, value_name = "TIME", default_value = "0")]
    pub warm_up: Duration,
    /// Limit of transactions per second, of all clients together; 0: no limit
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// Mean think time of a client between two transactions (negative exponential, at most ten times the
    /// mean); default: 7s for tpcw, otherwise 0
    #[arg(long, value_parser = pause::parse, value_name = "TIME")]
    pub think: Option<Duration>,
    /// Number of retries of a transaction that the server rolled back (SQLSTATE 40001, 40P01)
    #[arg(long, default_value_t = 10)]
    pub retries: u32,
    /// Statement timeout, after which the client reconnects
    #[arg(long, value_parser = pause::parse, value_name = "TIME", default_value = "60s")]
    pub statement_limit: Duration,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub blocks: Blocks,
    /// Query protocol
    #[arg(long, value_enum, default_value = "extended")]
    pub protocol: Protocol,
    /// Admin console with SHOW REPLICAS, for measuring the share of reads by node
    #[arg(long, value_name = "URL")]
    pub console: Option<String>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub files: ResultFiles,
}

impl Options {
    pub(crate) fn load_url(&self) -> &str {
        self.load_url.as_deref().unwrap_or(&self.url)
    }

    pub(crate) fn check_url(&self) -> &str {
        self.check_url.as_deref().unwrap_or(&self.url)
    }
}
