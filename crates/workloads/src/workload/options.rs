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
    /// What the server or the role has by default; the word is left out.
    #[default]
    Default,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
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
    /// Where the clients log in
    #[arg(long, visible_alias = "at")]
    pub url: String,
    /// Another address for loading
    #[arg(long, value_name = "URL")]
    pub load_url: Option<String>,
    /// Another address for the checks after the run: what is measured may show old rows, if that is its design
    #[arg(long, value_name = "URL")]
    pub check_url: Option<String>,
    /// Use the tables that an earlier run has left, instead of dropping and loading them; the size must be the same
    #[arg(long)]
    pub keep: bool,
    /// How many clients run, each one transaction after the other
    #[arg(long, default_value_t = 8)]
    pub clients: u64,
    /// How long they run; 0 loads and checks only
    #[arg(long, value_parser = pause::parse, default_value = "10s")]
    pub time: Duration,
    /// .. or until so many transactions have ended
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    pub transactions: u64,
    /// They run so long before anything is counted
    #[arg(long, value_parser = pause::parse, value_name = "TIME", default_value = "0")]
    pub warm_up: Duration,
    /// No more transactions a second than this, all clients together; 0 is no limit
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// How long a client thinks between two transactions, on average (negative exponential, at most ten times that); tpcw
    /// has 7s, the others 0, if it is not given
    #[arg(long, value_parser = pause::parse, value_name = "TIME")]
    pub think: Option<Duration>,
    /// How often a transaction is tried again that the server rolled back (SQLSTATE 40001, 40P01)
    #[arg(long, default_value_t = 10)]
    pub retries: u32,
    /// How long a statement may take before its client gives up and logs in again
    #[arg(long, value_parser = pause::parse, value_name = "TIME", default_value = "60s")]
    pub statement_limit: Duration,
    #[expect(missing_docs, reason = "a comment here would take the place of the command's own help")]
    #[command(flatten)]
    pub blocks: Blocks,
    /// How statements travel
    #[arg(long, value_enum, default_value = "extended")]
    pub protocol: Protocol,
    /// An admin console with SHOW REPLICAS, to learn which nodes served the reads
    #[arg(long, value_name = "URL")]
    pub console: Option<String>,
    /// What chance starts from
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
