//! The medians over the rounds, and the ratios to PgBouncer in the same round.

use super::cpu::Cpu;
use super::script::{Said, Script};
use crate::Error;
use load_clients::session::Protocol;
use load_clients::share::ratio;
use load_clients::table::Table;
use serde::Serialize;
use std::collections::BTreeMap;

/// Base of the ratios.
const COMPARED_WITH: &str = "pgbouncer session";

/// One run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    per_second: f64,
    latency_ms: f64,
    proxy_us: Option<f64>,
    proxy_user_us: Option<f64>,
    servers_us: Option<f64>,
}

impl Sample {
    pub(super) fn new(said: Said, proxy: Option<Cpu>, servers: Option<Cpu>) -> Sample {
        let per_transaction = |microseconds: u64| ratio(microseconds, said.transactions);
        Sample {
            per_second: said.per_second,
            latency_ms: said.latency_ms,
            proxy_us: proxy.map(|cpu| per_transaction(cpu.total_us)),
            proxy_user_us: proxy.map(|cpu| per_transaction(cpu.user_us)),
            servers_us: servers.map(|cpu| per_transaction(cpu.total_us)),
        }
    }
}

/// Script and way of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    script: Script,
    protocol: Protocol,
    way: String,
}

/// The figures of one way in one kind of run: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The script.
    pub script: Script,
    /// Protocol of its statements.
    pub protocol: Protocol,
    /// Through what.
    pub way: String,
    /// Transactions a second.
    pub per_second: f64,
    /// The mean latency of a run.
    pub latency_ms: f64,
    /// CPU microseconds of the proxy per transaction.
    pub proxy_us: Option<f64>,
    /// The part of them in user mode.
    pub proxy_user_us: Option<f64>,
    /// System calls of the proxy per transaction.
    pub calls: Option<f64>,
    /// CPU microseconds of all servers per transaction.
    pub servers_us: Option<f64>,
    /// The proxy's CPU time as a multiple of PgBouncer's (session pooling) in the same round.
    pub to_pgbouncer: Option<f64>,
    /// Number of rounds with figures.
    pub rounds: usize,
}

/// All runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    samples: BTreeMap<Kind, Vec<Option<Sample>>>,
    calls: BTreeMap<Kind, f64>,
    /// Ways that could not run something, with the first reason.
    pub problems: BTreeMap<String, String>,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.cells().serialize(serializer)
    }
}

impl Report {
    pub(super) fn add(
        &mut self,
        way: &str,
        script: Script,
        protocol: Protocol,
        sample: Result<Sample, Error>,
    ) {
        let kind = Kind { script, protocol, way: way.to_owned() };
        if let Err(error) = &sample {
            let name = format!("{way}, {script}, {protocol}");
            self.problems.entry(name).or_insert_with(|| error.to_string());
        }
        self.samples.entry(kind).or_default().push(sample.ok());
    }

    pub(super) fn set_calls(&mut self, way: &str, script: Script, protocol: Protocol, calls: f64) {
        self.calls.insert(Kind { script, protocol, way: way.to_owned() }, calls);
    }

    /// The medians.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        self.samples.iter().map(|(kind, samples)| self.cell(kind, samples)).collect()
    }

    fn cell(&self, kind: &Kind, samples: &[Option<Sample>]) -> Cell {
        let of = |figure: fn(&Sample) -> Option<f64>| median(samples.iter().flatten().filter_map(figure));
        let other = self.samples.get(&Kind { way: COMPARED_WITH.to_owned(), ..kind.clone() });
        let ratios = samples.iter().zip(other.into_iter().flatten()).filter_map(|(one, other)| {
            let (one, other) = (one.as_ref()?.proxy_us?, other.as_ref()?.proxy_us?);
            (other > 0.0).then_some(one / other)
        });
        Cell {
            script: kind.script,
            protocol: kind.protocol,
            way: kind.way.clone(),
            per_second: of(|sample| Some(sample.per_second)).unwrap_or(0.0),
            latency_ms: of(|sample| Some(sample.latency_ms)).unwrap_or(0.0),
            proxy_us: of(|sample| sample.proxy_us),
            proxy_user_us: of(|sample| sample.proxy_user_us),
            calls: self.calls.get(kind).copied(),
            servers_us: of(|sample| sample.servers_us),
            to_pgbouncer: median(ratios),
            rounds: samples.iter().flatten().count(),
        }
    }

    /// A line per script, protocol and way.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            "script",
            "protocol",
            "through",
            "tps",
            "latency ms",
            "proxy us",
            "user us",
            "calls",
            "to pgbouncer",
            "servers us",
        ]);
        for cell in self.cells() {
            let ran = |figure: Option<f64>, places: usize| match figure.filter(|_| cell.rounds > 0) {
                Some(figure) => format!("{figure:.places$}"),
                None => "-".to_owned(),
            };
            table.push(vec![
                cell.script.to_string(),
                cell.protocol.to_string(),
                cell.way.clone(),
                ran(Some(cell.per_second), 0),
                ran(Some(cell.latency_ms), 3),
                ran(cell.proxy_us, 1),
                ran(cell.proxy_user_us, 1),
                ran(cell.calls, 2),
                ran(cell.to_pgbouncer, 2),
                ran(cell.servers_us, 1),
            ]);
        }
        table
    }
}

fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[middle]),
        _ => Some(f64::midpoint(figures[middle - 1], figures[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios_are_per_round() {
        let said = Said { transactions: 100, per_second: 50.0, latency_ms: 2.0 };
        let sample = |us: u64| Ok(Sample::new(said, Some(Cpu { user_us: us / 2, total_us: us }), None));
        let mut report = Report::default();
        for (one, other) in [(3000, 1000), (4000, 2000), (9000, 3000)] {
            report.add("consort", Script::SelectOnly, Protocol::Simple, sample(one));
            report.add(COMPARED_WITH, Script::SelectOnly, Protocol::Simple, sample(other));
        }
        let cells = report.cells();
        assert_eq!((cells[0].proxy_us, cells[0].to_pgbouncer, cells[0].rounds), (Some(40.0), Some(3.0), 3));
        assert_eq!(cells[1].to_pgbouncer, Some(1.0));
        assert!(report.table().to_string().contains("pgbouncer session"));
    }

    #[test]
    fn even_numbers_have_a_median() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }
}
