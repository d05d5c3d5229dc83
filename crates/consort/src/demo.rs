//! `consort demo`: one load, two designs, side by side, for both kinds of writers. Real servers in a folder that is
//! removed afterwards. For a design with nodes of one kind: one PostgreSQL, and three such nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use config::Config;
use load_clients::mix;
use load_clients::mix::Report;
use load_clients::pause::whole_seconds;
use load_clients::progress::Progress;
use load_clients::stop::Stop;
use local_cluster::{Cluster, Node, free_port};
use tokio::runtime::Runtime;

use crate::down;
use crate::failure::Failure;
use crate::home::Home;
use crate::runtime;
use crate::up::{self, Writers};

/// The designs that are compared: what proxies do that do not know what they read, and the default.
const DESIGNS: [design::Design; 2] = [design::WEAK, design::CONSORT];

/// Compare the designs weak and consort under one load: stale reads, offload, throughput, latency
///
/// Creates a primary and two standbys in a temporary directory, twice: first with log-ins at the nodes for
/// Consort only, then for other clients too. Takes about a minute and removes the servers. The exit code is 1
/// if a client of the design consort saw a result that a single server would not return. With --design it
/// compares one PostgreSQL with three nodes of that design.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Duration of each of the four runs, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = whole_seconds)]
    time: u64,

    /// Replay delay of the standbys in milliseconds, to simulate distance or lag
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000))]
    delay: u64,

    /// Compare three nodes of this design with one PostgreSQL
    #[arg(long, value_name = "NAME", value_parser = design_names(), conflicts_with = "delay")]
    design: Option<String>,

    /// Folder of PostgreSQL's programs for the servers; default: the usual folders
    #[arg(long, value_name = "DIR")]
    postgres_bin: Option<PathBuf>,
}

fn design_names() -> clap::builder::PossibleValuesParser {
    let designs = design::all()
        .filter(design::Design::has_nodes)
        .map(|design| clap::builder::PossibleValue::new(design.name).help(design.summary));
    clap::builder::PossibleValuesParser::new(designs)
}

const EXAMPLES: &str = "\
Examples:
  consort demo
  consort demo --time 30
  consort demo --delay 100
  consort demo --postgres-bin /opt/pg18/bin
  consort demo --design base";

/// Runs and compares.
pub fn run(options: &Options) -> Result<(), Failure> {
    let runtime = runtime()?;
    let time = Duration::from_secs(options.time);
    let programs = options.postgres_bin.as_deref();
    if let Some(name) = &options.design {
        return beside_one_server(&runtime, name, time, programs);
    }
    let mut clean = true;
    for writers in [Writers::ThroughConsort, Writers::Anywhere] {
        let reports = compare(&runtime, writers, time, options.delay, programs)?;
        clean &= reports.iter().all(|(name, report)| *name != design::CONSORT.name || report.is_clean());
        let columns: Vec<(&str, &Report)> = reports.iter().map(|(name, report)| (*name, report)).collect();
        println!("writers {}: {}", writers.name(), writers.meaning());
        println!("{}", mix::side_by_side(&columns));
    }
    match clean {
        true => Ok(()),
        false => Err(Failure::new(
            "clients of the design consort saw results that a single server would not return",
        )),
    }
}

/// Compares one PostgreSQL with three nodes of a design, whose clients read what was acknowledged.
fn beside_one_server(
    runtime: &Runtime,
    name: &str,
    time: Duration,
    programs: Option<&Path>,
) -> Result<(), Failure> {
    let measured = |url: &str| {
        let mix = mix::Options::new(url, time);
        let report =
            runtime.block_on(async { mix::demo(&mix, &Stop::at_ctrl_c(), &mut Progress::new()).await });
        report.map_err(|error| Failure::new(error.to_string()))
    };
    eprintln!("one PostgreSQL ..");
    let alone = Folder::new("one-server")?;
    let options = up::Options::for_demo(&alone.listen, design::CONSORT.name, Writers::Anywhere);
    alone.bring_up(&options.with_programs(programs).alone())?;
    down::stop_consort(&alone.home)?;
    let servers = Cluster::open(&alone.home.programs()?, alone.home.folder())?;
    let port = servers.primary().port();
    let one = measured(&format!("postgres://postgres@127.0.0.1:{port}/postgres"))?;
    drop(alone);
    eprintln!("three nodes, design {name} ..");
    let peers = Folder::new(name)?;
    let options = up::Options::for_demo(&peers.listen, name, Writers::ThroughConsort);
    let config = peers.bring_up(&options.with_programs(programs))?;
    let three = measured(&format!("{}?options=-c%20consort.consistency%3Dstrong", up::url(&config)))?;
    println!("one PostgreSQL, and three nodes of the design {name}");
    println!("{}", mix::side_by_side(&[("PostgreSQL", &one), (name, &three)]));
    match three.is_clean() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "clients of the design {name} saw results that a single server would not return"
        ))),
    }
}

/// Runs the mix through each of the designs on one cluster of its own, whose standbys are `delay` milliseconds late.
pub fn compare(
    runtime: &Runtime,
    writers: Writers,
    time: Duration,
    delay: u64,
    programs: Option<&Path>,
) -> Result<Vec<(&'static str, Report)>, Failure> {
    let folder = Folder::new(writers.name())?;
    let mut reports = Vec::new();
    for design in DESIGNS {
        eprintln!("writers {}, design {} ..", writers.name(), design.name);
        let options = up::Options::for_demo(&folder.listen, design.name, writers);
        let config = folder.bring_up(&options.with_programs(programs))?;
        folder.delay(delay)?;
        let url = up::url(&config);
        let mix = mix::Options { console: Some(console_url(&url, &config)), ..mix::Options::new(&url, time) };
        let report =
            runtime.block_on(async { mix::demo(&mix, &Stop::at_ctrl_c(), &mut Progress::new()).await });
        reports.push((design.name, report.map_err(|error| Failure::new(error.to_string()))?));
        down::stop_consort(&folder.home)?;
    }
    Ok(reports)
}

/// The console's address, derived from a database's.
fn console_url(url: &str, config: &Config) -> String {
    let server = url.rsplit_once('/').map_or(url, |(server, _)| server);
    format!("{server}/{}", config.console_database)
}

/// A cluster for the demo, removed when it is dropped.
struct Folder {
    home: Home,
    folder: PathBuf,
    listen: String,
}

impl Folder {
    fn new(name: &str) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("consort-demo-{}-{name}", std::process::id()));
        Ok(Self { home: Home::at(Some(&folder))?, folder, listen: format!("127.0.0.1:{}", free_port()?) })
    }

    fn bring_up(&self, options: &up::Options) -> Result<Config, Failure> {
        up::bring_up(&self.home, options)
    }

    fn delay(&self, delay: u64) -> Result<(), Failure> {
        let cluster = Cluster::open(&self.home.programs()?, self.home.folder())?;
        let set = |standby: &Node| standby.set("recovery_min_apply_delay", &format!("{delay}ms"));
        Ok(cluster.standbys().iter().try_for_each(set)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Processes and files that cannot be ended or removed stay until the next reboot.
        let _ = down::stop_everything(&self.home);
        remove(&self.folder);
    }
}

fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}
