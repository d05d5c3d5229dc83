//! Verdicts, tables and the page of an experiment with a key-value store.

use std::fmt::Write;
use std::path::Path;

use consort::failure::Failure;
use load_clients::table::{Table, percent, write_json};

use super::super::page;
use super::client::Kind;
use super::table::{Claim, Experiment, PAPER, Place};
use super::{Choice, Point};
use crate::spread::Spread;

/// A line for whoever waits.
pub(super) fn tell(point: &Point) {
    println!(
        "round {}, {}, {}: {:.0} a second, {} conflicts",
        point.round,
        point.load,
        point.client,
        point.measured.a_second(),
        percent(point.measured.conflict_share()),
    );
}

/// Writes JSON, prints the tables, and fills the page if there is a folder of pages.
pub(super) fn write(experiment: &Experiment, choice: &Choice, points: &[Point]) -> Result<(), Failure> {
    std::fs::create_dir_all(&choice.results)?;
    write_json(&choice.results.join(format!("{}.json", experiment.name)), &points)?;
    let tables = [verdicts(experiment, points, choice.quick), summary(experiment, points)];
    for table in &tables {
        println!("{table}");
    }
    if let Some(pages) = &choice.pages {
        let text = format!("{}{}", conditions(experiment), tables.map(|table| table.markdown()).join("\n"));
        let beginning = format!("# {}\n\n{PAPER}: {}.", experiment.name, experiment.about);
        page::fill(&pages.join(format!("{}.md", experiment.name)), &beginning, &text)?;
    }
    Ok(())
}

fn conditions(experiment: &Experiment) -> String {
    let Experiment { name, rows, value, clients, warm_up_s, time_s, rounds, .. } = experiment;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let folder = std::env::temp_dir();
    let mut text = format!("```sh\nTMPDIR={} consort bench experiment {name}\n```\n\n", folder.display());
    let _ = writeln!(
        text,
        "{cores} cores for servers, clients and database; {rows} rows of {value} bytes; {clients} clients; each point \
         {time_s} s after {warm_up_s} s of warm-up; {rounds} rounds; files {}; {}.\n",
        if is_in_memory(&folder) { "in memory" } else { "on a disk" },
        if cfg!(debug_assertions) { "a build for tests (profile dev)" } else { "an optimized build" },
    );
    text
}

/// Whether a folder is on a file system in memory.
fn is_in_memory(folder: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let kinds = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let holders = kinds.filter(|(place, _)| folder.starts_with(place));
    holders.max_by_key(|(place, _)| place.len()).is_some_and(|(_, kind)| kind == "tmpfs")
}

/// Operations a second of one kind of client under a load, by round.
fn by_round<'a>(points: &'a [Point], load: &'a str, kind: Kind) -> impl Iterator<Item = (u64, f64)> + 'a {
    let its = points.iter().filter(move |point| point.load == load && point.kind == kind);
    its.map(|point| (point.round, point.measured.a_second()))
}

/// Throughput of a kind in proportion to another one of the same round.
fn ratio(points: &[Point], load: &str, kind: Kind, against: Kind) -> Option<Spread> {
    let others: Vec<(u64, f64)> = by_round(points, load, against).collect();
    Spread::of(by_round(points, load, kind).filter_map(|(round, ours)| {
        let other = others.iter().find(|(other, _)| *other == round)?.1;
        (other > 0.0).then(|| ours / other)
    }))
}

fn verdicts(experiment: &Experiment, points: &[Point], quick: bool) -> Table {
    let mut table = Table::new(&["claim", "of", "wanted", "measured", "verdict"]);
    for claim in &experiment.claims {
        let Claim { says, load, against, least } = *claim;
        let measured = match against {
            Some(against) => ratio(points, load, Kind::Transactions, against),
            None => Spread::of(by_round(points, load, Kind::Transactions).map(|(_, figure)| figure)),
        };
        let of = match against {
            Some(against) => format!("{load}: throughput to that of the {}", against.name()),
            None => format!("{load}: a second"),
        };
        let decimals = if against.is_some() { 2 } else { 0 };
        table.push(vec![
            says.to_owned(),
            of,
            format!("at least {least:.decimals$}"),
            measured.map_or_else(|| "-".to_owned(), |measured| measured.rounded(decimals)),
            if quick { "not judged: the quick form shows that it runs" } else { verdict(measured, least) }
                .to_owned(),
        ]);
    }
    table
}

/// A claim is decided if all rounds agree.
fn verdict(measured: Option<Spread>, least: f64) -> &'static str {
    match measured {
        None => "cannot be shown here: nothing was measured",
        Some(measured) if measured.least >= least => "kept",
        Some(measured) if measured.most < least => "NOT KEPT",
        Some(_) => "cannot be shown here: undecided, the bound lies among the rounds",
    }
}

fn summary(experiment: &Experiment, points: &[Point]) -> Table {
    let mut table = Table::new(&[
        "load",
        "client",
        "a second",
        "to the own client",
        "operation",
        "mean ms",
        "p99 ms",
        "conflicts",
    ]);
    let milliseconds = |figures: Vec<u64>| {
        let spread = Spread::of(figures.into_iter().map(|us| us as f64 / 1000.0));
        spread.map_or_else(|| "-".to_owned(), |spread| format!("{:.2}", spread.median))
    };
    for (load, _) in &experiment.loads {
        for kind in [Kind::Plain, Kind::Batched, Kind::Transactions] {
            let its: Vec<&Point> =
                points.iter().filter(|point| point.load == *load && point.kind == kind).collect();
            let Some(first) = its.first() else { continue };
            let throughput = Spread::of(its.iter().map(|point| point.measured.a_second()));
            let ratio =
                ratio(points, load, kind, Kind::Plain).filter(|_| experiment.place != Place::Embedded);
            let conflicts = Spread::of(its.iter().map(|point| point.measured.conflict_share()));
            for (at, line) in first.measured.lines.iter().enumerate() {
                let lines = its.iter().flat_map(|point| &point.measured.lines);
                let lines: Vec<_> = lines.filter(|other| other.operation == line.operation).collect();
                let once = |text: String| if at == 0 { text } else { String::new() };
                table.push(vec![
                    once((*load).to_owned()),
                    once(kind.name().to_owned()),
                    once(throughput.map_or_else(String::new, |spread| spread.rounded(0))),
                    once(ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string())),
                    line.operation.to_owned(),
                    milliseconds(lines.iter().map(|line| line.mean_us).collect()),
                    milliseconds(lines.iter().map(|line| line.p99_us).collect()),
                    once(conflicts.map_or_else(String::new, |share| percent(share.median))),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_is_decided_if_all_rounds_agree() {
        let of = |figures: [f64; 3]| verdict(Spread::of(figures), 0.9);
        assert_eq!(of([0.9, 1.0, 1.1]), "kept");
        assert_eq!(of([0.7, 0.8, 0.89]), "NOT KEPT");
        assert!(of([0.8, 0.95, 0.96]).contains("undecided"));
        assert!(verdict(None, 0.9).contains("nothing"));
    }
}
