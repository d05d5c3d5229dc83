//! A process in front of an in-memory tier: it begins, answers the console and the page of metrics, and ends.

use crate::listen_addresses::Places;
use crate::node_console::{NodeConsole, ShowsNodes, Table, page};
use crate::process::{Signals, door_options, secrets};
use crate::start::Start;
use crate::start_error::StartError;
use crate::supervisor;
use config::Config;
use frontend::Door;
use memory_tier::front::log::Log;
use memory_tier::front::membership::Membership;
use memory_tier::front::{Entrance, Limits, NodeOptions, Options, Tier};
use memory_tier::message::{Part, State};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// The tier's one database.
const DATABASE: &str = "postgres";
/// Clients are let in when there is a master, or after this time.
const MASTER_LIMIT: Duration = Duration::from_secs(60);

/// Serves until it is told to end, or the query log has failed.
pub(crate) async fn run(config: &Rc<Config>, start: Start) -> Result<(), StartError> {
    let secrets = secrets(config).map_err(StartError::new)?;
    let tier = Rc::new(Tier::new(tier_options(config).map_err(StartError::new)?));
    let log =
        Log::open(config.peers.ledger_dir.as_deref().unwrap_or("".as_ref())).map_err(StartError::new)?;
    let log = Rc::new(log);
    let membership = Membership::new(tier.clone(), log.clone());
    let entrance = Rc::new(Entrance::new(tier.clone()));
    let mut options = door_options(config)?;
    options.sessions = Some(entrance.clone());
    let door = Door::new(options, secrets, None);
    let console = NodeConsole::new(config, Shown { tier: tier.clone(), entrance, log });
    *door.console.borrow_mut() = Some(console.clone());
    let mut signals = Signals::listen()?;
    let places = Places::open(config, std::collections::BTreeMap::new()).await?;
    let checkpoints = spawn_local({
        let membership = membership.clone();
        async move { membership.checkpoint().await }
    });
    let mut members = spawn_local(async move { membership.run().await });
    let has_master = timeout(MASTER_LIMIT, tier.until(|tier| tier.master().is_some()));
    let mut failed = tokio::select! {
        master = has_master => {
            if master.is_err() {
                tracing::warn!("no node has become the master; clients are let in all the same");
            }
            None
        }
        why = &mut members => Some(why),
        () = console.asked_to_end(&mut signals) => return Ok(()),
    };
    if failed.is_none() {
        let _served = places.serve(&door, console.clone());
        (start.ready)();
        supervisor::serves();
        failed = tokio::select! {
            () = console.asked_to_end(&mut signals) => None,
            why = &mut members => Some(why),
        };
        console.end(&door, &mut signals, failed.is_some()).await;
    }
    members.abort();
    checkpoints.abort();
    match failed {
        None => Ok(()),
        Some(Ok(why)) => Err(StartError::new(why)),
        Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn tier_options(config: &Config) -> Result<Options, String> {
    let active = config.peers.nodes.len().saturating_sub(config.peers.spares);
    let nodes = config.peers.nodes.iter().enumerate().map(|(place, node)| NodeOptions {
        is_spare: place >= active,
        name: node.name.clone(),
        address: if node.host.contains(':') {
            format!("[{}]:{}", node.host, node.port)
        } else {
            format!("{}:{}", node.host, node.port)
        },
    });
    Ok(Options {
        nodes: nodes.collect(),
        secret: memory_tier::secret(config.peers.secret_file.as_deref().unwrap_or("".as_ref()))?,
        database: DATABASE.to_owned(),
        limits: Limits {
            replica_wait: config.replica_wait_timeout,
            connect: config.pool.connect,
            ..Limits::default()
        },
        spare_read_interval: config.peers.spare_read_interval,
    })
}

/// State for the console and the metrics page.
struct Shown {
    tier: Rc<Tier>,
    entrance: Rc<Entrance>,
    log: Rc<Log>,
}

/// A node as it is shown.
struct NodeShown {
    name: String,
    role: &'static str,
    is_up: bool,
    newest: u64,
    /// Reads of clients that run there.
    reads: u64,
    /// The node's own report; `None`: it gives none.
    state: Option<State>,
    why: String,
}

impl Shown {
    fn each(&self) -> Vec<NodeShown> {
        let node = |(node, options): (usize, &NodeOptions)| {
            let state = self.tier.state(node);
            let is_master = self.tier.master() == Some(node);
            let is_slave = state.as_ref().is_some_and(|state| matches!(state.part, Part::Slave { .. }));
            NodeShown {
                name: options.name.clone(),
                role: if is_master {
                    "master"
                } else if is_slave && self.tier.is_idle_spare(node) {
                    "spare"
                } else if is_slave {
                    "slave"
                } else {
                    "none"
                },
                is_up: is_master || self.tier.serves(node),
                newest: self.tier.newest(),
                reads: self.entrance.reads_at(node) as u64,
                state,
                why: self.tier.why(node),
            }
        };
        self.tier.options.nodes.iter().enumerate().map(node).collect()
    }
}

impl NodeShown {
    fn of(&self, value: fn(&State) -> u64) -> u64 {
        self.state.as_ref().map_or(0, value)
    }
}

impl ShowsNodes for Shown {
    const KIND: &'static str = "an in-memory tier";
    const HELP: &'static str = "each node: its role, whether it serves, the version that it has, its memory";

    fn nodes(&self) -> Table {
        let columns = &[
            "node",
            "role",
            "state",
            "received",
            "newest",
            "transactions",
            "bytes",
            "commits",
            "conflicts",
            "evicted",
            "aborted",
            "why",
        ];
        let line = |shown: &NodeShown| {
            let counts: [fn(&State) -> u64; 6] = [
                |state| state.transactions.into(),
                |state| state.bytes,
                |state| state.commits,
                |state| state.conflicts,
                |state| state.evicted,
                |state| state.aborted,
            ];
            let mut line = vec![
                shown.name.clone(),
                shown.role.to_owned(),
                if shown.is_up { "up" } else { "down" }.to_owned(),
                shown.of(|state| state.received).to_string(),
                shown.newest.to_string(),
            ];
            line.extend(counts.map(|count| shown.of(count).to_string()));
            line.push(if shown.is_up { String::new() } else { shown.why.clone() });
            line
        };
        (columns, self.each().iter().map(line).collect())
    }

    fn metrics(&self) -> String {
        let mut text = page(
            &self.each(),
            |shown| format!("node=\"{}\",role=\"{}\"", shown.name, shown.role),
            &[
                ("consort_node_up", "gauge", "The node takes transactions", |shown| u64::from(shown.is_up)),
                ("consort_node_version", "gauge", "Newest version that the node has", |shown| {
                    shown.of(|state| state.received)
                }),
                ("consort_node_lag_versions", "gauge", "Versions that the node has not received", |shown| {
                    shown.newest.saturating_sub(shown.of(|state| state.received))
                }),
                ("consort_node_reads", "gauge", "Reads of clients that run at the node", |shown| shown.reads),
                ("consort_node_transactions", "gauge", "Transactions that are open at the node", |shown| {
                    shown.of(|state| state.transactions.into())
                }),
                ("consort_node_bytes", "gauge", "Bytes of pages and their changes", |shown| {
                    shown.of(|state| state.bytes)
                }),
                ("consort_node_commits_total", "counter", "Commits since the node's start", |shown| {
                    shown.of(|state| state.commits)
                }),
                (
                    "consort_node_conflicts_total",
                    "counter",
                    "Transactions whose results were others at their commit",
                    |shown| shown.of(|state| state.conflicts),
                ),
                (
                    "consort_node_aborted_total",
                    "counter",
                    "Reads that were aborted because another version took the place of theirs",
                    |shown| shown.of(|state| state.aborted),
                ),
                ("consort_node_evicted_total", "counter", "Reads that were aborted for memory", |shown| {
                    shown.of(|state| state.evicted)
                }),
            ],
        );
        text.push_str(&page(
            &[self.log.counters()],
            |_| "log=\"query\"".to_owned(),
            &[("consort_log_syncs_total", "counter", "Syncs of the query log", |counters| counters.syncs)],
        ));
        text
    }

    fn not_ready(&self) -> Option<String> {
        self.tier.master().is_none().then(|| "the in-memory tier has no master".to_owned())
    }
}
