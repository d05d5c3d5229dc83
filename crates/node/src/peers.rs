//! A process in front of nodes that all take writes: it begins, answers the console and the page of metrics, and ends.

mod verify;

use crate::listen_addresses::Places;
use crate::node_console::{NodeConsole, ShowsNodes, Table, page};
use crate::process::{Signals, addresses_of, door_options, secrets};
use crate::start::Start;
use crate::start_error::StartError;
use crate::supervisor;
use certified::{Cluster, Engines, Entrance, NodeOptions, Options, State};
use config::Config;
use design::{Design, Durability};
use frontend::{Door, Soon};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::timeout;
use wire::Problem;

/// The database that is opened before clients are let in.
const FIRST_DATABASE: &str = "postgres";
/// Compares the nodes.
const VERIFY: &str = "VERIFY";
/// Progress of the comparison.
const SHOW_VERIFY: &str = "SHOW VERIFY";
/// Maximum wait.
const UP_LIMIT: Duration = Duration::from_secs(60);

/// How the engines of a design commit.
fn engines(design: &Design) -> Engines {
    match design.durability {
        Durability::LedgerAndEachEngine => Engines::DurableOneByOne,
        Durability::LedgerAndEnginesInGroups => Engines::FlushedTogether,
        Durability::Ledger | Durability::Primary | Durability::EveryEngine => Engines::InMemory,
    }
}

/// Serves until it is told to end, or the ledger has failed.
pub(crate) async fn run(config: &Rc<Config>, start: Start) -> Result<(), StartError> {
    let secrets = secrets(config).map_err(StartError::new)?;
    let nodes = nodes_of(config).map_err(StartError::new)?;
    let ledger_dir = config.peers.ledger_dir.clone().unwrap_or_default();
    let cluster = Options {
        nodes,
        ledger_dir,
        dump_dir: config.peers.dump_dir.clone(),
        engines: engines(&config.design()),
        capture: config.peers.capture,
        abort_percent: config.peers.abort_percent,
        replica_wait_timeout: config.replica_wait_timeout,
        connect_limit: config.pool.connect,
        drain_limit: config.shutdown_drain_timeout,
    };
    let cluster = Cluster::new(cluster, config.clone()).map_err(StartError::new)?;
    let mut options = door_options(config)?;
    options.sessions = Some(Rc::new(Entrance(cluster.clone())));
    let door = Door::new(options, secrets, None);
    let peers = Peers { cluster: cluster.clone(), progress: verify::Progress::default() };
    let console = NodeConsole::new(config, (start.config_file, start.log_level), &door, peers);
    let mut signals = Signals::listen()?;
    let places = Places::open(config, std::collections::BTreeMap::new()).await?;
    cluster.open(FIRST_DATABASE).map_err(StartError::new)?;
    if timeout(UP_LIMIT, cluster.until_tried(FIRST_DATABASE)).await.is_err() {
        tracing::warn!("a node gives no answer; clients are let in all the same");
    }
    let _served = places.serve(&door, console.clone());
    (start.ready)();
    supervisor::serves();
    let failed = tokio::select! {
        () = console.asked_to_end(&mut signals) => None,
        why = cluster.failed() => Some(why),
    };
    console.end(&door, &mut signals, failed.is_some()).await;
    failed.map_or(Ok(()), |why| Err(StartError::new(why)))
}

/// The nodes of a configuration.
fn nodes_of(config: &Config) -> Result<Vec<NodeOptions>, String> {
    let nodes = addresses_of(config, FIRST_DATABASE)?;
    Ok(nodes.into_iter().map(|(name, address)| NodeOptions { name, address }).collect())
}

/// State for the console and the metrics page.
struct Peers {
    cluster: Rc<Cluster>,
    progress: verify::Progress,
}

impl ShowsNodes for Peers {
    const KIND: &'static str = "a multi-primary cluster";
    const HELP: &'static str =
        "each database at each node: its state, the version that it shows, its sessions";

    const COMMANDS: &'static [(&'static str, &'static str)] = &[
        (VERIFY, "compares the rows of all nodes at one version; a node that differs from most leaves"),
        (SHOW_VERIFY, "progress of a running VERIFY"),
    ];

    fn run<'a>(&'a self, command: &'static str) -> Soon<'a, Result<Table, Problem>> {
        Box::pin(async move {
            match command {
                VERIFY => verify::verify(&self.cluster, &self.progress).await,
                _ => Ok(self.progress.shown()),
            }
        })
    }

    fn renew(&self, config: &Config) -> Result<(), String> {
        self.cluster.renew(nodes_of(config)?)
    }

    fn nodes(&self) -> Table {
        let line = |shown: certified::Shown| {
            let (state, why) = match shown.state {
                State::Up => ("up", String::new()),
                State::Down(why) => ("down", why),
            };
            vec![
                shown.node,
                shown.database,
                state.to_owned(),
                shown.version.get().to_string(),
                shown.newest.get().to_string(),
                shown.sessions.to_string(),
                shown.conflicts.to_string(),
                shown.syncs.to_string(),
                shown.capture.to_owned(),
                why,
            ]
        };
        let columns = &[
            "node",
            "database",
            "state",
            "version",
            "newest",
            "sessions",
            "conflicts",
            "syncs",
            "capture",
            "why",
        ];
        (columns, self.cluster.shown().into_iter().map(line).collect())
    }

    fn metrics(&self) -> String {
        let labels = |one: &certified::Shown| {
            let database = one.database.replace('\\', "\\\\").replace('"', "\\\"");
            format!("node=\"{}\",database=\"{database}\"", one.node)
        };
        page(
            &self.cluster.shown(),
            labels,
            &[
                ("consort_node_up", "gauge", "The node takes sessions of the database", |one| {
                    u64::from(one.state == State::Up)
                }),
                ("consort_node_version", "gauge", "Version of the database that the node shows", |one| {
                    one.version.get()
                }),
                ("consort_node_lag_versions", "gauge", "Versions that the node does not show yet", |one| {
                    one.newest.get().saturating_sub(one.version.get())
                }),
                ("consort_node_sessions", "gauge", "Client sessions at the node", |one| one.sessions as u64),
                (
                    "consort_certification_conflicts_total",
                    "counter",
                    "Transactions of the database that were refused",
                    |one| one.conflicts,
                ),
            ],
        )
    }

    fn not_ready(&self) -> Option<String> {
        let any_up = self.cluster.shown().iter().any(|one| one.state == State::Up);
        (!any_up).then(|| "no node takes sessions".to_owned())
    }
}
