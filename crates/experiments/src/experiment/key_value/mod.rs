//! Experiments with transactions over key-value stores, next to the stores' own clients: the same loads, interleaved in rounds,
//! with clients and database in this process, as in the paper.

mod client;
mod ground;
mod load;
mod plain_cassandra;
mod plain_redis;
mod report;
mod table;
mod tpcc;
mod transactions;
mod ycsb;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use consort::failure::Failure;
use fastrand::Rng;
use serde::Serialize;

use client::Kind;
use ground::Ground;
use load::{Data, Load, Measured};
use table::Experiment;
use tpcc::Tables;

/// Choices of a person.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Seconds instead of minutes, no verdict.
    pub(super) quick: bool,
    /// Loads by name; empty: all.
    pub(super) loads: Vec<String>,
    pub(super) clients: Option<u64>,
    pub(super) rounds: Option<u64>,
    pub(super) time_s: Option<u64>,
    pub(super) seed: u64,
    pub(super) results: PathBuf,
    pub(super) pages: Option<PathBuf>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
struct Point {
    round: u64,
    load: &'static str,
    client: &'static str,
    measured: Measured,
    #[serde(skip)]
    kind: Kind,
}

/// Name, subject and source of each.
pub(super) fn list() -> Vec<[String; 3]> {
    let all = table::all().into_iter();
    all.map(|it| [it.name.to_owned(), it.about.to_owned(), table::PAPER.to_owned()]).collect()
}

/// Whether an experiment has this name.
pub(super) fn is_one(name: &str) -> bool {
    table::all().iter().any(|experiment| experiment.name == name)
}

/// The names that `all` means.
pub(super) fn names(quick: bool) -> Vec<String> {
    let chosen = table::all().into_iter().filter(|experiment| experiment.is_quick || !quick);
    chosen.map(|experiment| experiment.name.to_owned()).collect()
}

/// Runs one, and reports its result.
pub(super) fn run(name: &str, choice: &Choice) -> Result<(), Failure> {
    let experiment = table::all().into_iter().find(|experiment| experiment.name == name);
    let experiment =
        chosen(experiment.ok_or_else(|| Failure::new(format!("no experiment {name}")))?, choice)?;
    println!("{}: {}\n{}\n", experiment.name, experiment.about, table::PAPER);
    let since = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let points = runtime.block_on(measure(&experiment, choice.seed))?;
    report::write(&experiment, choice, &points)?;
    println!("{} points in {} s\n", points.len(), since.elapsed().as_secs());
    Ok(())
}

/// The experiment with what a person chose.
fn chosen(mut experiment: Experiment, choice: &Choice) -> Result<Experiment, Failure> {
    if choice.quick {
        (experiment.rows, experiment.rounds, experiment.warm_up_s, experiment.time_s) = (1_000, 1, 0, 1);
    }
    experiment.rounds = choice.rounds.unwrap_or(experiment.rounds);
    experiment.time_s = choice.time_s.unwrap_or(experiment.time_s);
    if let Some(clients) = choice.clients {
        experiment.clients = usize::try_from(clients).map_err(client::failed)?;
    }
    if let Some(missing) =
        choice.loads.iter().find(|name| experiment.loads.iter().all(|(load, _)| load != *name))
    {
        let names: Vec<&str> = experiment.loads.iter().map(|(load, _)| *load).collect();
        return Err(Failure::new(format!("load {missing} does not exist; loads: {}", names.join(", "))));
    }
    experiment
        .loads
        .retain(|(load, _)| choice.loads.is_empty() || choice.loads.iter().any(|name| name == load));
    Ok(experiment)
}

/// Loads the rows, and measures all points in rounds. Every second round has the kinds of clients in the other order.
async fn measure(experiment: &Experiment, seed: u64) -> Result<Vec<Point>, Failure> {
    let ground = Ground::make(experiment.place).await?;
    let kinds = Ground::kinds(experiment.place);
    let has_tpcc = experiment.loads.iter().any(|(_, load)| matches!(load, Load::Tpcc { .. }));
    for kind in kinds {
        let mut rows = load::ycsb_rows(experiment.rows, experiment.value, &mut Rng::with_seed(seed));
        if has_tpcc {
            rows.extend(Tables::of(table::WAREHOUSES).rows());
        }
        let loading = if *kind == Kind::Plain { Kind::Batched } else { *kind };
        load::fill(ground.clients(loading, experiment.clients), rows).await?;
    }
    let mut points = Vec::new();
    for round in 1..=experiment.rounds {
        for (name, load) in &experiment.loads {
            let mut kinds = kinds.to_vec();
            if experiment
                .claims
                .iter()
                .any(|claim| claim.load == *name && claim.against == Some(Kind::Batched))
            {
                kinds.push(Kind::Batched);
            }
            if round.is_multiple_of(2) {
                kinds.reverse();
            }
            for kind in kinds {
                let clients = ground.clients(kind, experiment.clients);
                let data = Data::of(*load, experiment.rows, round);
                let times =
                    (Duration::from_secs(experiment.warm_up_s), Duration::from_secs(experiment.time_s));
                let measured = load::run(clients, data, times, seed + round).await?;
                let point = Point { round, load: name, client: kind.name(), measured, kind };
                report::tell(&point);
                points.push(point);
            }
        }
    }
    ground.close().await?;
    Ok(points)
}
