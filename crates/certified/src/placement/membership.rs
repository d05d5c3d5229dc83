//! Nodes that join, leave, fall behind, and differ, while the others serve.

use super::Cluster;
use crate::applier;
use crate::database::{Database, Life};
use crate::node_connection::{answered, first, reach, said};
use crate::options::NodeOptions;
use crate::script::literal;
use certified_flow::{Hold, State};
use history::Version;
use postgres::address::Address;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

/// Interval of the look at what nodes show.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A node that was behind and shows what was durable so long ago takes sessions again.
const CAUGHT_UP: Duration = Duration::from_secs(1);
/// Interval of the look at sessions of a node that leaves.
const LEFT_EVERY: Duration = Duration::from_millis(20);
/// Nodes that take sessions reach a common version within this time.
const HOLD_LIMIT: Duration = Duration::from_secs(3);
/// Ends the connection of the node's applier, which finds the mark then.
const END_APPLIER: &str = "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity \
     WHERE datname = pg_catalog.current_database() AND application_name = 'consort applier'";

/// Nodes that show one version of a database, until it is dropped. Commits after it wait.
pub struct Held {
    /// The version.
    pub version: Version,
    /// Each node: its name, and its address with the database.
    pub nodes: Vec<(String, Address)>,
    _hold: Hold<Life>,
}

impl Cluster {
    /// Names of the open databases.
    pub fn databases(&self) -> Vec<String> {
        self.databases.borrow().keys().cloned().collect()
    }

    /// The nodes that take sessions of a database, each with its address.
    pub fn serving(&self, database: &str) -> Vec<(String, Address)> {
        let open = self.databases.borrow().get(database).cloned();
        let sites = open.map(|open| open.order.sites()).unwrap_or_default();
        let node = |number| {
            let node = self.nodes.get(number);
            (node.name.clone(), node.address.with_database(database))
        };
        sites.iter().filter(|site| site.is_up()).map(|site| node(site.number)).collect()
    }

    /// From now on these are the nodes. Nodes that are new join, as soon as they have caught up. Nodes that are not named
    /// any more leave: transactions there may end first, within the drain limit.
    ///
    /// # Errors
    /// A node cannot join, or the members cannot be written: a sentence for a person. Nodes before it have joined.
    pub fn renew(self: &Rc<Cluster>, wanted: Vec<NodeOptions>) -> Result<(), String> {
        let is_same = |one: &NodeOptions, other: &NodeOptions| {
            one.name == other.name
                && one.address.host == other.address.host
                && one.address.port == other.address.port
        };
        let mut members = self.nodes.members();
        for (number, node) in &members {
            if !wanted.iter().any(|one| is_same(one, node)) {
                tracing::info!(node = node.name, "removing node");
                self.nodes.leave(*number)?;
                spawn_local(self.clone().let_go(*number));
            }
        }
        members.retain(|(_, node)| wanted.iter().any(|one| is_same(one, node)));
        for node in wanted {
            if members.iter().any(|(_, one)| is_same(one, &node)) {
                continue;
            }
            tracing::info!(node = node.name, "adding node");
            let number = self.nodes.join(node)?;
            for database in self.databases.borrow().values() {
                let site = database.order.joins(number);
                spawn_local(applier::run(database.clone(), site));
            }
        }
        Ok(())
    }

    /// Waits for the transactions at a node that leaves.
    async fn let_go(self: Rc<Cluster>, number: usize) {
        let sites = || -> Vec<_> {
            self.databases.borrow().values().filter_map(|database| database.order.site(number)).collect()
        };
        sites().iter().for_each(|site| site.begins_to_leave("the node leaves the cluster"));
        let deadline = Instant::now() + self.options.drain_limit;
        while sites().iter().any(|site| site.sessions() > 0) && Instant::now() < deadline {
            // Transactions that end ring no bell.
            sites().iter().for_each(|site| site.ring());
            sleep(LEFT_EVERY).await;
        }
        self.databases.borrow().values().for_each(|database| database.order.leaves(number));
        tracing::info!(node = self.nodes.get(number).name, "node removed");
    }

    /// Holds the nodes that take sessions of a database at one version: its newest one.
    ///
    /// # Errors
    /// A node does not reach it in time: a sentence for a person.
    pub async fn hold(&self, name: &str) -> Result<Held, String> {
        let database = self.databases.borrow().get(name).cloned();
        let database = database.ok_or_else(|| format!("database {name} is not open"))?;
        let hold = database.order.holds();
        let reached = async {
            for site in &hold.sites {
                site.until(|site| site.visible() >= hold.version).await;
            }
        };
        if timeout(HOLD_LIMIT, reached).await.is_err() {
            return Err(format!("the nodes did not reach {} within {HOLD_LIMIT:?}", hold.version));
        }
        let node = |number| {
            let node = self.nodes.get(number);
            (node.name.clone(), node.address.with_database(name))
        };
        let nodes = hold.sites.iter().map(|site| node(site.number)).collect();
        Ok(Held { version: hold.version, nodes, _hold: hold })
    }

    /// A node has other rows than the others: it takes no sessions from now on, until it is made again.
    ///
    /// # Errors
    /// The node cannot be marked: after a restart of Consort it would be served.
    pub async fn expels(&self, database: &str, node: &str, why: &str) -> Result<(), String> {
        let member = self.nodes.members().into_iter().find(|(_, one)| one.name == node);
        let Some((number, node)) = member else { return Ok(()) };
        let open: Vec<Rc<Database>> = self.databases.borrow().values().cloned().collect();
        let Some(site) =
            open.iter().find(|one| one.name == database).and_then(|database| database.order.site(number))
        else {
            return Ok(());
        };
        tracing::error!(node = node.name, database, why, "a node has other rows than the others, and leaves");
        site.falls_silent();
        site.goes_down(why.to_owned());
        let control = answered(reach(&node.address.with_database(database))).await?;
        let mark = format!(
            "SET session_replication_role = replica; SET synchronous_commit = on; \
             DELETE FROM consort.diverged; INSERT INTO consort.diverged VALUES ({})",
            literal(why)
        );
        answered(async { control.batch_execute(&mark).await.map_err(|error| said(&error)) }).await?;
        // There may be none at this moment.
        let _ = first(&control, END_APPLIER).await;
        Ok(())
    }
}

/// Takes nodes that show durable versions too late out of service, and back when they have caught up.
pub(super) async fn watch_lag(database: Rc<Database>) {
    let limit = database.options.replica_wait_timeout;
    let mut targets: BTreeMap<usize, (Version, Instant)> = BTreeMap::new();
    loop {
        sleep(LOOK_EVERY).await;
        let durable = database.order.durable();
        for site in database.order.sites() {
            let (target, since) = targets.entry(site.number).or_insert_with(|| (durable, Instant::now()));
            if site.visible() >= *target {
                if site.is_behind() && since.elapsed() < CAUGHT_UP {
                    tracing::info!(node = database.nodes.get(site.number).name, "the node has caught up");
                    site.serves();
                }
                (*target, *since) = (durable, Instant::now());
            } else if site.state() != State::Up {
                continue;
            } else if since.elapsed() > limit {
                let why = format!(
                    "the node is behind: it did not show {target} in {limit:?} (replica_wait_timeout)"
                );
                tracing::warn!(
                    node = database.nodes.get(site.number).name,
                    why,
                    "a node leaves until it follows"
                );
                site.falls_behind(why);
            }
        }
    }
}
