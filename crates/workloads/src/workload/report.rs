//! Report of a run: a line per transaction, errors by SQLSTATE, checks.

use super::tallies::{Tallies, Tally, Timeline};
use super::{Checked, Isolation, Options, Workload};
use load_clients::console::Told;
use load_clients::latency::{Latencies, Percentiles};
use load_clients::session::Protocol;
use load_clients::table::{Table, milliseconds, percent};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Outcomes of one kind of transaction, or of all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// Its name.
    pub transaction: String,
    /// Number of commits.
    pub committed: u64,
    /// Committed a second.
    pub per_second: f64,
    /// Its part of all that committed or rolled back by rule, 0 to 1.
    pub share: f64,
    /// Number of rollbacks that their rules demand.
    pub rolled_back: u64,
    /// Number of retries.
    pub retries: u64,
    /// Number of transactions that were given up.
    pub failed: u64,
    /// The average time of those that ended well, with all their attempts.
    pub mean_us: u64,
    /// Their times.
    pub latency: Percentiles,
}

/// Result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The workload.
    pub workload: String,
    /// Its size and its mix.
    pub setting: String,
    /// Number of clients.
    pub clients: u64,
    /// Protocol of the statements.
    pub protocol: Protocol,
    /// Isolation of the transactions in blocks.
    pub isolation: Isolation,
    /// Time of the loading, if it was done.
    pub loaded_seconds: Option<f64>,
    /// Time of the measurement.
    pub seconds: f64,
    /// Each kind of transaction.
    pub transactions: Vec<Line>,
    /// All of them.
    pub all: Line,
    /// Statements that read (SELECT, also with FOR UPDATE).
    pub read_statements: u64,
    /// Statements that write.
    pub write_statements: u64,
    /// Nodes that served the reads, if a console reported them.
    pub served: Option<Served>,
    /// Errors by SQLSTATE, also of attempts that were made good.
    pub errors: BTreeMap<String, u64>,
    /// The first of each.
    pub first_errors: BTreeMap<String, String>,
    /// Transactions that ended in each second.
    pub timeline: Timeline,
    /// The checks of the tables.
    pub checks: Vec<Checked>,
}

/// Nodes that served the reads of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Served {
    /// Reads by node.
    pub nodes: BTreeMap<String, u64>,
    /// The part that standbys served, 0 to 1.
    pub at_standbys: f64,
    /// Statements by the reason that kept them at the primary, writes among them, or by the proof of their
    /// answers; nothing if the console does not report it.
    pub reasons: BTreeMap<String, u64>,
}

impl Served {
    pub(crate) fn of(told: Told) -> Served {
        let at_standbys: u64 = told
            .served
            .iter()
            .filter(|(node, _)| told.standbys.contains(*node))
            .map(|(_, count)| count)
            .sum();
        let mut reasons = BTreeMap::<String, u64>::new();
        for (route, &count) in told.routes.iter().flatten().filter(|(_, count)| **count > 0) {
            *reasons.entry(route.reason.clone()).or_default() += count;
        }
        Served { at_standbys: ratio(at_standbys, told.served.values().sum()), nodes: told.served, reasons }
    }
}

/// Time of the loading, if it was done, and of the measurement.
pub(crate) struct Times {
    pub(crate) loaded_seconds: Option<f64>,
    pub(crate) seconds: f64,
}

impl Report {
    pub(crate) fn new<W: Workload>(
        workload: &W,
        options: &Options,
        times: Times,
        tallies: &Tallies,
        served: Option<Served>,
        checks: Vec<Checked>,
    ) -> Report {
        let Times { loaded_seconds, seconds } = times;
        let ended: u64 = tallies.kinds.iter().map(|tally| tally.committed + tally.rolled_back).sum();
        let named = workload.transactions().iter().zip(&tallies.kinds);
        Report {
            workload: workload.name().to_owned(),
            setting: workload.describe(),
            clients: options.clients + workload.more_clients(),
            protocol: options.protocol,
            isolation: options.blocks.isolation,
            loaded_seconds,
            seconds,
            transactions: named.map(|(name, tally)| line(name, tally, ended, seconds)).collect(),
            all: line("all", &merged(&tallies.kinds), ended, seconds),
            read_statements: tallies.sent.reads,
            write_statements: tallies.sent.writes,
            served,
            errors: tallies.errors.clone(),
            first_errors: tallies.first_errors.clone(),
            timeline: tallies.timeline.clone(),
            checks,
        }
    }

    /// Every check holds.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    /// The numbers of the checks that do not hold.
    #[must_use]
    pub fn broken(&self) -> Vec<&str> {
        self.checks.iter().filter(|check| !check.holds).map(|check| check.number.as_str()).collect()
    }

    /// The line of a transaction.
    #[must_use]
    pub fn line(&self, transaction: &str) -> Option<&Line> {
        self.transactions.iter().find(|line| line.transaction == transaction)
    }

    /// The part of the statements that read, 0 to 1.
    #[must_use]
    pub fn read_share(&self) -> f64 {
        ratio(self.read_statements, self.read_statements + self.write_statements)
    }

    /// The lines as a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            self.workload.as_str(),
            "committed",
            "a second",
            "share",
            "rolled back",
            "retries",
            "failed",
            "mean",
            "median",
            "99 of 100",
            "longest",
        ]);
        for line in self.transactions.iter().filter(|line| line.happened()).chain([&self.all]) {
            table.push(line.cells());
        }
        table
    }
}

impl Line {
    fn happened(&self) -> bool {
        self.committed + self.rolled_back + self.failed > 0
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.transaction.clone(),
            self.committed.to_string(),
            format!("{:.1}", self.per_second),
            percent(self.share),
            self.rolled_back.to_string(),
            self.retries.to_string(),
            self.failed.to_string(),
            milliseconds(self.mean_us),
            milliseconds(self.latency.p50_us),
            milliseconds(self.latency.p99_us),
            milliseconds(self.latency.max_us),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} clients, {} protocol", self.setting, self.clients, self.protocol)?;
        match self.loaded_seconds {
            Some(seconds) => writeln!(f, "; loaded in {seconds:.1} s\n")?,
            None => writeln!(f, "\n")?,
        }
        if self.all.happened() {
            writeln!(f, "{}", self.table())?;
            let (reads, all) = (self.read_statements, self.read_statements + self.write_statements);
            writeln!(
                f,
                "{:.1} s, {reads} of {all} statements read ({})",
                self.seconds,
                percent(self.read_share())
            )?;
        }
        if let Some(served) = &self.served {
            let nodes: Vec<String> =
                served.nodes.iter().map(|(node, count)| format!("{node} {count}")).collect();
            writeln!(f, "reads at standbys: {} ({})", percent(served.at_standbys), nodes.join(", "))?;
        }
        for (code, count) in &self.errors {
            let first = self.first_errors.get(code).map_or("", String::as_str);
            writeln!(f, "error {code}: {count} times, first: {first}")?;
        }
        if self.all.happened() || !self.errors.is_empty() {
            writeln!(f)?;
        }
        for check in &self.checks {
            let sign = if check.holds { "holds " } else { "BROKEN" };
            writeln!(f, "{sign}  {}  {}", check.number, check.what)?;
            if let Some(broken_by) = &check.broken_by {
                writeln!(f, "        {broken_by}")?;
            }
        }
        Ok(())
    }
}

fn line(name: &str, tally: &Tally, ended: u64, seconds: f64) -> Line {
    let ended_here = tally.committed + tally.rolled_back;
    let mean_us = tally.spent.as_micros() / u128::from(ended_here.max(1));
    Line {
        transaction: name.to_owned(),
        committed: tally.committed,
        per_second: float(tally.committed) / seconds.max(0.001),
        share: ratio(ended_here, ended),
        rolled_back: tally.rolled_back,
        retries: tally.retries,
        failed: tally.failed,
        mean_us: u64::try_from(mean_us).unwrap_or(u64::MAX),
        latency: tally.latencies.percentiles(),
    }
}

fn merged(tallies: &[Tally]) -> Tally {
    let mut latencies = Latencies::default();
    tallies.iter().for_each(|tally| latencies.merge(&tally.latencies));
    Tally {
        committed: tallies.iter().map(|tally| tally.committed).sum(),
        rolled_back: tallies.iter().map(|tally| tally.rolled_back).sum(),
        failed: tallies.iter().map(|tally| tally.failed).sum(),
        retries: tallies.iter().map(|tally| tally.retries).sum(),
        spent: tallies.iter().map(|tally| tally.spent).sum(),
        latencies,
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run have far fewer than 52 bits")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use load_clients::console::Route;

    #[test]
    fn reads_are_counted_by_node_and_statements_by_reason() {
        let route = |node: &str, statement: &str, reason: &str| Route {
            database: "d".to_owned(),
            node: node.to_owned(),
            statement: statement.to_owned(),
            reason: reason.to_owned(),
        };
        let served = Served::of(Told {
            standbys: ["s1".to_owned()].into(),
            served: [("s1".to_owned(), 30), ("p".to_owned(), 10)].into(),
            routes: Some(
                [
                    (route("s1", "SELECT a", "plain"), 20),
                    (route("s1", "SELECT b", "plain"), 10),
                    (route("p", "SELECT a", "in_flight"), 10),
                    (route("p", "SELECT b", "in_flight"), 0),
                    (route("p", "COPY", "copy_from"), 0),
                ]
                .into(),
            ),
        });
        assert!((served.at_standbys - 0.75).abs() < 1e-9);
        assert_eq!(served.reasons, [("in_flight".to_owned(), 10), ("plain".to_owned(), 30)].into());
    }
}
