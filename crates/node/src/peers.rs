//! A process in front of nodes that all take writes: it begins, answers the console and the page of metrics, and ends.

use crate::listen_addresses::Places;
use crate::process::{FAREWELL_LIMIT, LEFT_EVERY, Signals, addresses_of, door_options, secrets};
use crate::start::Start;
use crate::start_error::StartError;
use crate::supervisor;
use admin::{console, http};
use certified::{Cluster, Engines, Entrance, NodeOptions, Options, State};
use config::Config;
use design::{Design, Durability};
use frontend::{Console, Door, Keeps, Soon};
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use wire::{Answers, Column, Problem};

/// The database that is opened before clients are let in.
const FIRST_DATABASE: &str = "postgres";
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
    let nodes = addresses_of(config, FIRST_DATABASE).map_err(StartError::new)?;
    let nodes = nodes.into_iter().map(|(name, address)| NodeOptions { name, address }).collect();
    let ledger_dir = config.peers.ledger_dir.clone().unwrap_or_default();
    let cluster = Options {
        nodes,
        ledger_dir,
        engines: engines(&config.design()),
        replica_wait_timeout: config.replica_wait_timeout,
        connect_limit: config.pool.connect,
    };
    let cluster = Cluster::new(cluster, config.clone());
    let mut options = door_options(config)?;
    options.sessions = Some(Rc::new(Entrance(cluster.clone())));
    let door = Door::new(options, secrets, None);
    let peers = Rc::new(Peers { config: config.clone(), cluster: cluster.clone(), ending: Notify::new() });
    *door.console.borrow_mut() = Some(peers.clone());
    let mut signals = Signals::listen()?;
    let places = Places::open(config, std::collections::BTreeMap::new()).await?;
    cluster.open(FIRST_DATABASE).map_err(StartError::new)?;
    if timeout(UP_LIMIT, cluster.until_tried(FIRST_DATABASE)).await.is_err() {
        tracing::warn!("a node gives no answer; clients are let in all the same");
    }
    let _served = places.serve(&door, peers.clone());
    (start.ready)();
    supervisor::serves();
    let failed = tokio::select! {
        () = asked_to_end(&mut signals, &peers) => None,
        why = cluster.failed() => Some(why),
    };
    end(&door, config, &mut signals, &peers, failed.is_some()).await;
    failed.map_or(Ok(()), |why| Err(StartError::new(why)))
}

/// Completes at a signal to end, or SHUTDOWN.
async fn asked_to_end(signals: &mut Signals, peers: &Peers) {
    tokio::select! {
        () = signals.end() => {}
        () = peers.ending.notified() => {}
    }
}

/// Lets open transactions end, but for a process that must stop.
async fn end(door: &Rc<Door>, config: &Config, signals: &mut Signals, peers: &Peers, at_once: bool) {
    let clients = door.registry.seats().len();
    tracing::info!(clients, "ending");
    supervisor::ends(clients);
    door.close(at_once);
    if !at_once {
        tokio::select! {
            () = empty(door, config, config.shutdown_drain_timeout) => {}
            () = asked_to_end(signals, peers) => {}
        }
        door.close(true);
    }
    empty(door, config, FAREWELL_LIMIT).await;
    tracing::info!("ended");
}

/// Waits until the last client of a database has left.
async fn empty(door: &Door, config: &Config, limit: Duration) {
    let deadline = Instant::now() + limit;
    let waits = || door.registry.seats().iter().any(|seat| seat.database != config.console_database);
    while waits() && Instant::now() < deadline {
        sleep(LEFT_EVERY).await;
    }
}

/// State for the console and the metrics page.
struct Peers {
    config: Rc<Config>,
    cluster: Rc<Cluster>,
    ending: Notify,
}

/// Name, kind, help and value of a metric of one database at one node.
type Family = (&'static str, &'static str, &'static str, fn(&certified::Shown) -> u64);

const HELP: &[(&str, &str)] = &[
    ("SHOW NODES", "each database at each node: its state, the version that it shows, its sessions"),
    ("SHOW VERSION", "the version of Consort"),
    ("SHOW HELP", "this list"),
    ("SHUTDOWN", "ends, when open transactions have ended"),
];

impl Console for Peers {
    fn admits(&self, user: &str) -> bool {
        console::rights(&self.config, user).is_some()
    }

    fn answer<'a>(
        &'a self,
        user: &'a str,
        text: &'a str,
        out: &'a mut Vec<u8>,
        _keeps: &'a mut Keeps,
    ) -> Soon<'a, ()> {
        Box::pin(async move {
            let rights = console::rights(&self.config, user);
            if console::commands(text).next().is_none() {
                return out.empty_query();
            }
            for command in console::commands(text) {
                let words: Vec<String> = command.split_whitespace().map(str::to_ascii_uppercase).collect();
                match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    ["SHOW", "NODES"] => self.show_nodes(out),
                    ["SHOW", "VERSION"] => {
                        rows(out, &["version"], &[vec![format!("Consort {}", env!("CARGO_PKG_VERSION"))]]);
                    }
                    ["SHOW", "HELP"] => {
                        let lines: Vec<_> = HELP
                            .iter()
                            .map(|(name, does)| vec![(*name).to_owned(), (*does).to_owned()])
                            .collect();
                        rows(out, &["command", "description"], &lines);
                    }
                    ["SHUTDOWN"] if rights == Some(console::Rights::Command) => {
                        self.ending.notify_one();
                        out.complete("SHUTDOWN");
                    }
                    ["SHUTDOWN"] => {
                        return out.problem(&Problem::error(
                            "42501",
                            "admin access needed: only admin_users may command",
                        ));
                    }
                    _ => {
                        let why = format!("unknown command \"{command}\" in a multi-primary cluster");
                        return out
                            .problem(&Problem::error("42601", why).hint("SHOW HELP lists the commands."));
                    }
                }
            }
        })
    }
}

impl Peers {
    fn show_nodes(&self, out: &mut Vec<u8>) {
        let columns =
            ["node", "database", "state", "version", "newest", "sessions", "conflicts", "syncs", "why"];
        let lines: Vec<Vec<String>> = self
            .cluster
            .shown()
            .into_iter()
            .map(|shown| {
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
                    why,
                ]
            })
            .collect();
        rows(out, &columns, &lines);
    }
}

fn rows(out: &mut Vec<u8>, columns: &[&str], lines: &[Vec<String>]) {
    out.row_description(&columns.iter().map(|name| Column::text(name)).collect::<Vec<_>>());
    for line in lines {
        out.data_row(&line.iter().map(|value| Some(value.as_bytes())).collect::<Vec<_>>());
    }
    out.complete("SHOW");
}

impl http::Pages for Peers {
    fn metrics(&self) -> String {
        let mut page = String::new();
        let shown = self.cluster.shown();
        let families: [Family; 5] = [
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
        ];
        for (name, kind, help, value) in families {
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for one in &shown {
                let database = one.database.replace('\\', "\\\\").replace('"', "\\\"");
                let _ =
                    writeln!(page, "{name}{{node=\"{}\",database=\"{database}\"}} {}", one.node, value(one));
            }
        }
        page
    }

    fn not_ready(&self) -> Option<String> {
        let shown = self.cluster.shown();
        let any_up = shown.iter().any(|one| one.state == State::Up);
        (!any_up).then(|| "no node takes sessions".to_owned())
    }
}
