//! `consort demo`: one load, two designs, side by side, for both kinds of writers. Real servers in a folder that is
//! removed afterwards.

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
use postgres::programs::Programs;
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
/// if a client of the design consort saw a result that a single server would not return.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Duration of each of the four runs, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = whole_seconds)]
    time: u64,

    /// Replay delay of the standbys in milliseconds, to simulate distance or lag
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000))]
    delay: u64,
}

const EXAMPLES: &str = "\
Examples:
  consort demo
  consort demo --time 30
  consort demo --delay 100";

/// Runs and compares.
pub fn run(options: &Options) -> Result<(), Failure> {
    let runtime = runtime()?;
    let mut clean = true;
    for writers in [Writers::ThroughConsort, Writers::Anywhere] {
        let reports = compare(&runtime, writers, Duration::from_secs(options.time), options.delay)?;
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

/// Runs the mix through each of the designs on one cluster of its own, whose standbys are `delay` milliseconds late.
pub fn compare(
    runtime: &Runtime,
    writers: Writers,
    time: Duration,
    delay: u64,
) -> Result<Vec<(&'static str, Report)>, Failure> {
    let folder = Folder::new(writers)?;
    let mut reports = Vec::new();
    for design in DESIGNS {
        eprintln!("writers {}, design {} ..", writers.name(), design.name);
        let config = folder.up(design.name, writers)?;
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
    fn new(writers: Writers) -> Result<Self, Failure> {
        let folder =
            std::env::temp_dir().join(format!("consort-demo-{}-{}", std::process::id(), writers.name()));
        Ok(Self { home: Home::at(Some(&folder))?, folder, listen: format!("127.0.0.1:{}", free_port()?) })
    }

    fn up(&self, design: &str, writers: Writers) -> Result<Config, Failure> {
        up::bring_up(&self.home, &up::Options::for_demo(&self.listen, design, writers))
    }

    fn delay(&self, delay: u64) -> Result<(), Failure> {
        let cluster = Cluster::open(&Programs::find()?, self.home.folder())?;
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
