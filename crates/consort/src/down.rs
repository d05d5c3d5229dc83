//! `consort down`: stops Consort and the servers of a folder. Nothing is removed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use config::Config;
use local_cluster::{Cluster, NodeState, Stop};

use crate::failure::Failure;
use crate::home::Home;
use crate::tier::Nodes;

/// Beyond the drain time Consort has so long to end.
const END_LIMIT: Duration = Duration::from_secs(10);
/// The default of `shutdown_drain_timeout`, for a process whose configuration cannot be read.
const UNREADABLE_DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// Stop Consort and the servers that `consort up` started
///
/// Open transactions can end first, up to shutdown_drain_timeout. The data are kept; `consort up` starts the
/// cluster again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Directory of the cluster; default: that of `consort up`
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  consort down
  consort down --dir ./pg";

/// Stops it all.
pub fn run(options: &Options) -> Result<(), Failure> {
    let home = Home::at(options.dir.as_deref())?;
    if is_key_value(&home) {
        if home.running().is_none() {
            eprintln!("Consort is not running in {}", home.folder().display());
            return Ok(());
        }
        eprintln!("stopping Consort ..");
        return stop_consort(&home);
    }
    // A first `up` that was broken off has written no configuration, and may have started servers.
    if !home.config_file().exists()
        && Nodes::of(&home).is_none()
        && Cluster::open(&home.programs()?, home.folder()).is_err()
    {
        return Err(Failure::not_running(format!("no cluster exists in {}", home.folder().display())));
    }
    if home.running().is_some() {
        eprintln!("stopping Consort ..");
    }
    let has_back_ends =
        Config::read(&home.config_file()).is_ok_and(|config| !config.peers.back_ends.is_empty());
    stop_consort(&home)?;
    if let Some(nodes) = Nodes::of(&home) {
        let _turn = home.take_turn()?;
        // What Consort has written at its end, if it came to that.
        match std::fs::read_to_string(home.folder().join("ledger/back_ends")) {
            Ok(said) => eprint!("{said}"),
            Err(_) if has_back_ends => eprintln!(
                "the state of the back ends is unknown, because Consort was killed; start it, and stop it again"
            ),
            Err(_) => {}
        }
        if !nodes.stop()? {
            eprintln!("no node is running in {}", home.folder().display());
        }
        return Ok(());
    }
    if cluster(&home)?.nodes().iter().all(|node| node.state() == NodeState::Stopped) {
        eprintln!("no server is running in {}", home.folder().display());
        return Ok(());
    }
    eprintln!("stopping the servers ..");
    stop_everything(&home)
}

/// True if the cluster there is Consort alone, with its store.
fn is_key_value(home: &Home) -> bool {
    Config::read(&home.config_file()).is_ok_and(|config| config.design().is_key_value())
}

/// Stops Consort, and leaves the servers as they are.
pub fn stop_consort(home: &Home) -> Result<(), Failure> {
    let _turn = home.take_turn()?;
    // The clients, and then each back end, have that time.
    let drains = match Config::read(&home.config_file()) {
        Ok(config) => {
            let back_ends = u32::try_from(config.peers.back_ends.len()).unwrap_or(u32::MAX);
            config.shutdown_drain_timeout.saturating_mul(back_ends.saturating_add(1))
        }
        Err(_) => {
            let limit = UNREADABLE_DRAIN_LIMIT;
            eprintln!(
                "the configuration cannot be read: Consort has {} s to end its transactions",
                limit.as_secs()
            );
            limit
        }
    };
    home.end(drains + END_LIMIT).map(drop)
}

/// Stops Consort and the servers.
pub fn stop_everything(home: &Home) -> Result<(), Failure> {
    stop_consort(home)?;
    let _turn = home.take_turn()?;
    if let Some(nodes) = Nodes::of(home) {
        return nodes.stop().map(drop);
    }
    Ok(cluster(home)?.stop(Stop::Fast)?)
}

fn cluster(home: &Home) -> Result<Cluster, Failure> {
    Ok(Cluster::open(&home.programs()?, home.folder())?)
}
