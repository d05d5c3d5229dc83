//! A process in front of an in-memory tier: it begins, answers the console and the page of metrics, and ends.

use crate::listen_addresses::Places;
use crate::node_console::{NodeConsole, ShowsNodes, Table, page};
use crate::process::{Signals, door_options, secrets};
use crate::start::Start;
use crate::start_error::StartError;
use crate::supervisor;
use config::Config;
use disk_tier::{BackEnds, Restore};
use frontend::{Door, Soon};
use memory_tier::front::log::Log;
use memory_tier::front::membership::Membership;
use memory_tier::front::{Entrance, Limits, NodeOptions, Options, Tier};
use memory_tier::links::Links;
use memory_tier::message::{Order, Part, Report, State};
use postgres::address::Address;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;
use wire::Problem;

/// The tier's one database.
const DATABASE: &str = "postgres";
/// Commands of the console that no other kind of cluster has.
const SHOW_BACK_ENDS: &str = "SHOW BACK_ENDS";
const WAIT_BACK_ENDS: &str = "WAIT BACK_ENDS";
const VERIFY: &str = "VERIFY";
/// Clients are let in when there is a master, or after this time.
const MASTER_LIMIT: Duration = Duration::from_secs(60);

/// Serves until it is told to end, or the query log has failed.
pub(crate) async fn run(config: &Rc<Config>, start: Start) -> Result<(), StartError> {
    let secrets = secrets(config).map_err(StartError::new)?;
    let tier = Rc::new(Tier::new(tier_options(config).map_err(StartError::new)?));
    let log =
        Log::open(config.peers.ledger_dir.as_deref().unwrap_or("".as_ref())).map_err(StartError::new)?;
    let log = Rc::new(log);
    let addresses = back_end_addresses(config).map_err(StartError::new)?;
    let back_ends = BackEnds::new(addresses.clone(), &tier, &log, config.peers.back_end_log_limit as u64);
    let membership = Membership::new(tier.clone(), log.clone());
    let restored = restores(config, &log, &addresses, &membership).await.map_err(StartError::new)?;
    let entrance = Rc::new(Entrance::new(tier.clone()));
    let mut options = door_options(config)?;
    options.sessions = Some(entrance.clone());
    let door = Door::new(options, secrets, None);
    let shown = Shown { tier: tier.clone(), entrance, log: log.clone(), back_ends: back_ends.clone() };
    let console = NodeConsole::new(config, (start.config_file, start.log_level), &door, shown);
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
        if restored.is_some() {
            tier.closes("the tier restarts from a back end");
        }
        // What an earlier end has written down holds no longer.
        let _ = std::fs::remove_file(back_ends_file(config));
        let mut feeds = None;
        let feed = feed(restored.as_ref(), &tier, &log, &back_ends, &mut feeds);
        let _served = places.serve(&door, console.clone());
        (start.ready)();
        supervisor::serves();
        failed = tokio::select! {
            () = console.asked_to_end(&mut signals) => None,
            why = &mut members => Some(why),
            why = feed => Some(Ok(why)),
        };
        console.end(&door, &mut signals, failed.is_some()).await;
        if let Some(feeds) = feeds {
            if failed.is_none() {
                drain(config, &back_ends).await;
            }
            feeds.abort();
        }
    }
    members.abort();
    checkpoints.abort();
    match failed {
        None => Ok(()),
        Some(Ok(why)) => Err(StartError::new(why)),
        Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Restarts the tier from a back end, if it has to, and then feeds all of them. Completes with the reason when it cannot.
async fn feed(
    restored: Option<&Restore>,
    tier: &Rc<Tier>,
    log: &Log,
    back_ends: &Rc<BackEnds>,
    feeds: &mut Option<JoinHandle<()>>,
) -> String {
    if let Some(restored) = restored {
        if let Err(why) = disk_tier::restore(restored, tier, log).await {
            return why;
        }
        tier.opens();
    }
    *feeds = Some(back_ends.start());
    std::future::pending().await
}

/// Addresses of the back ends.
fn back_end_addresses(config: &Config) -> Result<Vec<Address>, String> {
    let tls = config.tls_to_servers()?;
    let address =
        |url: &String| disk_tier::address(url, tls.as_ref()).map_err(|why| format!("{why} (back_ends)"));
    config.peers.back_ends.iter().map(address).collect()
}

/// The restart from a back end, if the query log is new. A node that still has data is not overwritten.
async fn restores(
    config: &Config,
    log: &Log,
    addresses: &[Address],
    membership: &Membership,
) -> Result<Option<Restore>, String> {
    if log.is_new() {
        for (node, options) in config.peers.nodes.iter().enumerate() {
            match membership.order(node, &Order::Report).await {
                Ok(Report::State(state)) if state.received > 0 => {
                    return Err(format!(
                        "the query log is empty, but {} has data in memory up to version {}: put the log back, or end the nodes",
                        options.name, state.received
                    ));
                }
                Ok(_) => {}
                // Nothing runs there: its memory is lost.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                // Without a back end this may be the first start, of nodes that are not all there.
                Err(_) if addresses.is_empty() => {}
                Err(error) => {
                    return Err(format!(
                        "the query log is empty, and {} may have data in memory: {error}; end the node, or start it again",
                        options.name
                    ));
                }
            }
        }
    }
    disk_tier::plan(config.peers.ledger_dir.as_deref().unwrap_or("".as_ref()), log, addresses).await
}

/// The file that says at Consort's end what the back ends have.
fn back_ends_file(config: &Config) -> PathBuf {
    config.peers.ledger_dir.as_deref().unwrap_or("".as_ref()).join("back_ends")
}

/// Waits until every back end has all that was committed, and writes down which one has.
async fn drain(config: &Config, back_ends: &BackEnds) {
    let mut text = String::new();
    for back_end in back_ends.each() {
        let drained = timeout(config.shutdown_drain_timeout, back_end.drained()).await;
        let said = match drained.unwrap_or_else(|_| Err("not all was applied in time".to_owned())) {
            Ok(version) => format!("back end {}: has everything, up to version {version}", back_end.name()),
            Err(why) => {
                format!("back end {}: LACKS commits, which stay in the query log: {why}", back_end.name())
            }
        };
        tracing::info!("{said}");
        text.push_str(&said);
        text.push('\n');
    }
    let file = back_ends_file(config);
    let new = file.with_extension("new");
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file));
    if let Err(error) = written {
        tracing::warn!(%error, "cannot write down what back ends have");
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
        links: config.peers.tls_ca_file.as_deref().map_or_else(|| Ok(Links::default()), Links::encrypted)?,
        database: DATABASE.to_owned(),
        limits: Limits {
            replica_wait: config.replica_wait_timeout,
            connect: config.pool.connect,
            ..Limits::default()
        },
        spare_read_interval: config.peers.spare_read_interval,
        read_versions: config.peers.read_versions,
    })
}

/// State for the console and the metrics page.
struct Shown {
    tier: Rc<Tier>,
    entrance: Rc<Entrance>,
    log: Rc<Log>,
    back_ends: Rc<BackEnds>,
}

/// A node as it is shown.
struct NodeShown {
    name: String,
    role: &'static str,
    is_up: bool,
    newest: u64,
    /// Reads of clients that run there.
    reads: u64,
    /// Reads that were sent there.
    reads_sent: u64,
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
                reads_sent: self.entrance.reads_of(node),
                state,
                why: self.tier.why(node),
            }
        };
        self.tier.options.nodes.iter().enumerate().map(node).collect()
    }
}

impl Shown {
    fn shown_back_ends(&self) -> Table {
        let line = |shown: disk_tier::Shown| {
            let applied = shown.applied.map(|version| version.to_string()).unwrap_or_default();
            vec![shown.name, shown.state.to_owned(), applied, shown.lag.to_string(), shown.why]
        };
        let lines = self.back_ends.shown().into_iter().map(line).collect();
        (&["back_end", "state", "applied", "lag", "why"], lines)
    }

    /// One line for each table of each back end.
    async fn verify(&self) -> Result<Table, Problem> {
        let columns = &["node", "database", "table", "rows", "state", "what", "first_key"];
        let mut lines = Vec::new();
        for back_end in self.back_ends.each() {
            let name = back_end.name();
            let line = |table: &str, rows: u64, state: &str, what: String, key: &str| {
                let text = [&name, DATABASE, table, &rows.to_string(), state, &what, key];
                text.map(str::to_owned).to_vec()
            };
            match back_end.compare().await {
                Ok(tables) => lines.extend(tables.iter().map(|of| {
                    let state = if of.differ == 0 { "equal" } else { "differs" };
                    let what = match of.differ {
                        0 => format!("at version {}", of.version),
                        differ => format!(
                            "{differ} rows differ at version {}; the back end has {} rows",
                            of.version, of.back_end_rows
                        ),
                    };
                    line(&of.table, of.rows, state, what, &of.keys.join("; "))
                })),
                Err(why) => lines.push(line("", 0, "unreached", why, "")),
            }
        }
        Ok((columns, lines))
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

    const COMMANDS: &'static [(&'static str, &'static str)] = &[
        (SHOW_BACK_ENDS, "each back end: its state, the version that it has, the versions that it lacks"),
        (WAIT_BACK_ENDS, "waits until each back end has all that is committed now"),
        (VERIFY, "compares each back end with the tier, at one version"),
    ];

    fn run<'a>(&'a self, command: &'static str) -> Soon<'a, Result<Table, Problem>> {
        Box::pin(async move {
            match command {
                VERIFY => self.verify().await,
                WAIT_BACK_ENDS => {
                    let failed = |why| Problem::error("55000", why).hint("SHOW BACK_ENDS");
                    self.back_ends.drained().await.map_err(failed)?;
                    Ok(self.shown_back_ends())
                }
                _ => Ok(self.shown_back_ends()),
            }
        })
    }

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
            "reads",
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
            line.push(shown.reads_sent.to_string());
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
                (
                    "consort_node_reads_total",
                    "counter",
                    "Reads of clients that were sent to the node",
                    |shown| shown.reads_sent,
                ),
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
            &self.back_ends.shown(),
            |shown| format!("back_end=\"{}\"", shown.name.replace(['\\', '"'], "_")),
            &[
                ("consort_back_end_up", "gauge", "The back end gets commits", |shown| {
                    u64::from(shown.why.is_empty())
                }),
                ("consort_back_end_version", "gauge", "Newest version that the back end has", |shown| {
                    shown.applied.unwrap_or(0)
                }),
                ("consort_back_end_lag_versions", "gauge", "Versions that the back end lacks", |shown| {
                    shown.lag
                }),
            ],
        ));
        text.push_str(&page(
            &[self.log.counters()],
            |_| "log=\"query\"".to_owned(),
            &[("consort_log_syncs_total", "counter", "Syncs of the query log", |counters| counters.syncs)],
        ));
        text
    }

    fn not_ready(&self) -> Option<String> {
        let has_none = self.tier.master().is_none();
        has_none.then(|| "the in-memory tier has no master".to_owned()).or_else(|| self.tier.closed())
    }
}
