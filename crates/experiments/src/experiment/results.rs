//! Results of an experiment: a line per point as CSV, everything as JSON, plots, and tables for a person.

use std::path::{Path, PathBuf};

use crate::plot::{Chart, Line, Pen};
use crate::spread::Spread;
use load_clients::table::{Table, percent, write_json};
use serde::Serialize;

use super::point::{NodeUse, Point};
use super::table::{Blow, Experiment, Figure, Load, Part, Setup};
use super::verdict::{self, Judged};
use consort::failure::Failure;

/// All of an experiment.
#[derive(Serialize)]
pub(super) struct Results<'a> {
    pub(super) experiment: &'a str,
    pub(super) paper: &'a str,
    pub(super) quick: bool,
    pub(super) cores: usize,
    pub(super) node_percent: Option<u32>,
    pub(super) primary_percent: Option<u32>,
    pub(super) consort_percent: Option<u32>,
    pub(super) seconds: u64,
    pub(super) claims: Vec<Judged>,
    pub(super) points: &'a [Point],
}

impl<'a> Results<'a> {
    pub(super) fn of(experiment: &'a Experiment, quick: bool, points: &'a [Point]) -> Self {
        Self {
            experiment: &experiment.name,
            paper: &experiment.paper,
            quick,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            node_percent: experiment.node_percent,
            primary_percent: experiment.primary_percent,
            consort_percent: experiment.consort_percent,
            seconds: experiment.time_s,
            claims: experiment.claim.iter().map(|claim| verdict::judge(claim, points, experiment)).collect(),
            points,
        }
    }

    /// Writes what was measured as CSV and as JSON, and the tables that a person reads as Markdown.
    pub(super) fn write(&self, experiment: &Experiment, folder: &Path) -> Result<(), Failure> {
        let file = folder.join(self.experiment);
        lines(self.points).write_csv(&file.with_extension("csv"))?;
        let tables = [summary(experiment, self.points).markdown(), self.verdicts().markdown()];
        std::fs::write(file.with_extension("md"), tables.join("\n"))?;
        Ok(write_json(&file.with_extension("json"), self)?)
    }

    /// The claims alongside the measurements.
    pub(super) fn verdicts(&self) -> Table {
        let mut table = Table::new(&["the paper says", "of", "wanted", "measured", "verdict"]);
        for judged in &self.claims {
            let measured = judged.measured.map_or_else(|| "-".to_owned(), |measured| measured.to_string());
            let why = judged.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            let verdict = match self.quick {
                true => "not judged: the quick form shows that it runs".to_owned(),
                false => format!("{}{why}", judged.verdict.name()),
            };
            table.push(vec![
                judged.says.clone(),
                judged.of.clone(),
                judged.wanted.clone(),
                measured,
                verdict,
            ]);
        }
        table
    }
}

/// A line per point.
pub(super) fn lines(points: &[Point]) -> Table {
    let mut table = Table::new(&[
        "round",
        "setup",
        "load",
        "per_second",
        "mean_ms",
        "p99_ms",
        "failed",
        "retries",
        "at_replicas",
        "primary_cpu",
        "busiest_of_quota",
        "consort_cpu",
        "machine_busy",
        "checks_broken",
        "tables_equal",
        "tables_different",
        "commits_a_sync",
    ]);
    for point in points {
        let all = &point.report.all;
        let cpu = |node: Option<&NodeUse>| {
            node.map_or_else(|| "-".to_owned(), |node| format!("{:.4}", node.of_a_core))
        };
        table.push(vec![
            point.round.to_string(),
            point.setup.clone(),
            point.load.clone(),
            format!("{:.2}", verdict::throughput(point)),
            format!("{:.2}", all.mean_us as f64 / 1000.0),
            format!("{:.2}", all.latency.p99_us as f64 / 1000.0),
            all.failed.to_string(),
            all.retries.to_string(),
            point.report.served.as_ref().map_or_else(|| "-".to_owned(), |served| percent(served.at_standbys)),
            cpu(point.primary()),
            format!("{:.3}", point.busiest()),
            cpu(point.nodes.get("consort")),
            format!("{:.3}", point.machine_busy),
            point.report.broken().len().to_string(),
            point.verified.equal.to_string(),
            point.verified.different.len().to_string(),
            point.commits_a_sync.map_or_else(|| "-".to_owned(), |commits| format!("{commits:.1}")),
        ]);
    }
    table
}

/// Every setup under every load: the middle of its rounds, how far they lie apart, and the ratio to the first setup.
pub(super) fn summary(experiment: &Experiment, points: &[Point]) -> Table {
    let first = &experiment.setup[0].name;
    let mut table = Table::new(&[
        "load",
        "setup",
        "a second",
        &format!("to {first}"),
        "mean ms",
        "given up",
        "at replicas",
        "primary",
        "busiest node",
        "Consort",
        "all cores",
        "commits a sync",
    ]);
    for load in &experiment.load {
        for setup in &experiment.setup {
            let of = |setup: &str| -> Vec<&Point> {
                points.iter().filter(|point| point.setup == setup && point.load == load.name).collect()
            };
            let (its, firsts) = (of(&setup.name), of(first));
            let spread = |figure: &dyn Fn(&Point) -> f64, decimals: usize| {
                let spread = Spread::of(its.iter().map(|point| figure(point)));
                spread.map_or_else(|| "-".to_owned(), |spread| spread.rounded(decimals))
            };
            let part = |figure: &dyn Fn(&Point) -> f64| {
                let spread = Spread::of(its.iter().map(|point| figure(point)));
                spread.map_or_else(|| "-".to_owned(), |spread| percent(spread.median))
            };
            let served = its.iter().filter_map(|point| Some(point.report.served.as_ref()?.at_standbys));
            let at_replicas =
                Spread::of(served).map_or_else(|| "-".to_owned(), |spread| percent(spread.median));
            let commits = Spread::of(its.iter().filter_map(|point| point.commits_a_sync));
            let ratios = its.iter().filter_map(|point| {
                let first = firsts.iter().find(|first| first.round == point.round)?;
                Some(verdict::throughput(point) / verdict::throughput(first).max(0.001))
            });
            let ratio = Spread::of(ratios).map_or_else(|| "-".to_owned(), |ratio| ratio.to_string());
            table.push(vec![
                load.name.clone(),
                setup.name.clone(),
                spread(&verdict::throughput, 1),
                ratio,
                spread(&|point| point.report.all.mean_us as f64 / 1000.0, 1),
                its.iter().map(|point| point.report.all.failed).sum::<u64>().to_string(),
                at_replicas,
                part(&|point| point.primary().map_or(0.0, NodeUse::shown)),
                part(&Point::busiest_server),
                part(&|point| point.nodes.get("consort").map_or(0.0, |node| node.of_a_core)),
                part(&|point| point.machine_busy),
                commits.map_or_else(|| "-".to_owned(), |commits| commits.rounded(1)),
            ]);
        }
    }
    table
}

/// Draws the plots; their files.
pub(super) fn plot(
    pen: Pen,
    experiment: &Experiment,
    points: &[Point],
    folder: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let mut charts = Vec::new();
    if experiment.setup.len() > 1 {
        for (figure, ending, unit) in [
            (Figure::Throughput, "throughput", "transactions a second"),
            (Figure::Response, "response", "mean response time, ms"),
        ] {
            let whole = outcome(experiment, &experiment.load, points, figure, unit);
            if whole.lines.len() <= MOST_LINES {
                charts.push((ending.to_owned(), whole));
                continue;
            }
            for load in &experiment.load {
                let chart = outcome(experiment, std::slice::from_ref(load), points, figure, unit);
                charts.push((format!("{ending}-{}", file_name(&load.name)), chart));
            }
        }
    }
    if !experiment.course.is_empty() {
        charts.push(("course".to_owned(), course(experiment, points)));
    }
    let mut files = Vec::new();
    for (ending, chart) in charts {
        let drawn = pen.draw(&chart, &folder.join(format!("{}-{ending}", experiment.name)));
        files.extend(drawn.map_err(|error| Failure::new(error.to_string()))?);
    }
    Ok(files)
}

/// More lines than this cannot be told apart: then each load has a plot of its own.
const MOST_LINES: usize = 8;

/// A name as a part of a file's.
fn file_name(name: &str) -> String {
    name.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-")
}

/// A figure of all setups: a line per load and series.
fn outcome(experiment: &Experiment, loads: &[Load], points: &[Point], figure: Figure, unit: &str) -> Chart {
    let only = loads.first().filter(|_| loads.len() < experiment.load.len());
    let mut lines: Vec<Line> = Vec::new();
    let parts: Vec<Option<&Part>> = match experiment.parts.is_empty() {
        true => vec![None],
        false => experiment.parts.iter().map(Some).collect(),
    };
    let loads = loads.iter().flat_map(|load| parts.iter().map(move |part| (load, *part)));
    for (load, part) in loads {
        for setup in &experiment.setup {
            let its = points.iter().filter(|point| point.setup == setup.name && point.load == load.name);
            let figures = its.filter_map(|point| verdict::figure(figure, point, part, experiment));
            let Some(spread) = Spread::of(figures) else { continue };
            let name = line_name(setup, part.map_or(&load.name, |part| &part.name));
            let place = (setup.x, spread);
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(place),
                None => lines.push(Line { name, points: vec![place] }),
            }
        }
    }
    let of = match only {
        Some(load) => format!(", {}", load.name),
        None => String::new(),
    };
    let title = format!("{}: {}{of}", experiment.name, figure.name());
    Chart { title, across: experiment.across.clone(), upwards: unit.to_owned(), lines, marks: Vec::new() }
}

fn line_name(setup: &Setup, load: &str) -> String {
    match setup.series.as_str() {
        "" => load.to_owned(),
        series => format!("{series}, {load}"),
    }
}

/// Runs second by second: a line for each.
fn course(experiment: &Experiment, points: &[Point]) -> Chart {
    let seconds = usize::try_from(experiment.warm_up_s + experiment.time_s).unwrap_or(usize::MAX);
    let unlimited = usize::try_from(experiment.unlimited().as_secs()).unwrap_or(usize::MAX);
    let mut lines = Vec::new();
    for course in &experiment.course {
        let its = points.iter().filter(|point| point.setup == course.setup && point.load == course.load);
        for point in its {
            let ended = point.report.timeline.ended.iter().take(seconds).enumerate().skip(unlimited);
            let place = |(second, &count): (usize, &u64)| {
                let count = count as f64;
                (second as f64 + 0.5, Spread { median: count, least: count, most: count })
            };
            let name = format!("{}, {}, round {}", course.setup, course.load, point.round);
            lines.push(Line { name, points: ended.map(place).collect() });
        }
    }
    let marks = experiment.fault.iter().flat_map(|fault| {
        let (begins, ends) = match fault.what {
            Blow::Kill => ("killed", "started again"),
            Blow::Hold => ("held up", "let go"),
        };
        let back = fault.back_after_s.map(|after| (fault.at_s + after, ends));
        let all = [Some((fault.at_s, begins)), back];
        let who = fault.node.as_deref().unwrap_or("replicas");
        all.into_iter().flatten().map(move |(at, what)| (at as f64, format!("{who} {what}")))
    });
    Chart {
        title: format!("{}: the course of the runs", experiment.name),
        across: "seconds since the clients began".to_owned(),
        upwards: "transactions in each second".to_owned(),
        lines,
        marks: marks.collect(),
    }
}
