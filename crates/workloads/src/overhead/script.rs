//! Scripts that run through each way.

use super::{copy, pgbench};
use crate::Error;
use clap::ValueEnum;
use load_clients::session::Protocol;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Script {
    /// pgbench: one select by primary key
    SelectOnly,
    /// pgbench: an update, a select and an insert
    SimpleUpdate,
    /// pgbench: three updates, a select and an insert
    TpcbLike,
    /// pgbench: nine selects for each simple update
    Mix,
    /// pgbench: log in, one select, log out
    Connect,
    /// One row with a value of 8 MB
    LargeRows,
    /// COPY of 64 MB to the client
    CopyOut,
    /// COPY of 64 MB from the client
    CopyIn,
}

impl Script {
    /// The protocols that make a difference, of those that were asked for.
    pub(super) fn protocols(self, asked: &[Protocol]) -> &[Protocol] {
        match self {
            Script::SelectOnly | Script::SimpleUpdate | Script::TpcbLike | Script::Mix => asked,
            Script::Connect | Script::LargeRows | Script::CopyOut | Script::CopyIn => &[Protocol::Simple],
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// A single run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The work.
    pub script: Script,
    /// Protocol of the statements.
    pub protocol: Protocol,
    /// Number of clients.
    pub clients: u32,
    /// Time of the run.
    pub time: Duration,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Said {
    /// Transactions that were done.
    pub transactions: u64,
    /// The same per second.
    pub per_second: f64,
    /// Average latency.
    pub latency_ms: f64,
}

/// Runs the work to its end.
///
/// # Errors
/// A program is not there, or what it says, or what a server says.
pub(super) async fn run(url: &str, run: &Run) -> Result<Said, Error> {
    match run.script {
        Script::LargeRows | Script::CopyOut | Script::CopyIn => copy::run(url, run).await,
        _ => pgbench::run(url, run).await,
    }
}
