//! The servers of an experiment, each on a small machine of its own, and Consort, or another proxy, in front of as many of them
//! as a setup wants.
//! All of it is gone when the value is dropped, or when this process ends in whatever way.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load_clients::session::{Protocol, Session, Trouble};
use local_cluster::{
    Cluster, Node, NodeState, Options, Role, SmallMachine, SmallMachines, free_port, wait_until,
};
use postgres::programs::Programs;

use super::peers;
use super::pgpool::Pgpool;
use super::point::{NodeUse, Verified};
use super::table::{Experiment, Kind, Setup};
use super::tier::{self, Tier};
use consort::failure::Failure;
use consort::home::Home;
use consort::settings_file::{SettingsFile, quoted};
use consort::up::Writers;
use consort::{daemon, down, up};

/// Time limit of nodes and Consort until all serve, and of replicas until they have the loaded rows.
const READY_LIMIT: Duration = Duration::from_secs(180);

/// Interval of the check that they do.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time limit of VACUUM and VERIFY.
const LONG: Duration = Duration::from_secs(600);

/// The database of what runs past Consort: nothing of Consort's is in it.
const PLAIN: &str = "plain";

/// The database of what runs through it.
pub(super) const SERVED: &str = "postgres";

/// The servers' `shared_buffers`, unless a setup has others: the data of every experiment fit into it, but for vectors.
const BUFFERS: &str = "64MB";

/// Further server settings: little memory each, and a server log that does not grow. Autovacuum would begin
/// once a minute, at all of them at once, take half of so small a machine for ten seconds, and meet some
/// points and not others.
const SETTINGS: [(&str, &str); 5] = [
    ("shared_buffers", BUFFERS),
    ("max_wal_size", "160MB"),
    ("max_slot_wal_keep_size", "2GB"),
    ("autovacuum", "off"),
    // Its files go with the folder when a server was killed.
    ("dynamic_shared_memory_type", "mmap"),
];

/// Consort waits for servers that are ten times as slow ten times as long as it does otherwise.
const PROOF_LIMIT: &str = "50ms";

/// The machines, by what is on them.
pub(super) struct Machines {
    nodes: Vec<SmallMachine>,
    /// Machines of a tier in memory.
    tier: Vec<SmallMachine>,
    consort: SmallMachine,
    /// The primary's name.
    primary: String,
    primary_percent: Option<u32>,
    node_percent: Option<u32>,
    consort_percent: Option<u32>,
}

impl Machines {
    fn all(&self) -> impl Iterator<Item = &SmallMachine> {
        self.nodes.iter().chain(&self.tier).chain([&self.consort])
    }

    /// Consort's.
    pub(super) fn consort(&self) -> &SmallMachine {
        &self.consort
    }

    /// Whether the machine has to do with the setup: PostgreSQL's servers stand still while a tier in memory works, and so do
    /// the tier's nodes for other setups.
    pub(super) fn works_for(&self, setup: &Setup, name: &str) -> bool {
        name == self.consort.name() || self.of_tier(name).is_some() == setup.is_memory_tier()
    }

    /// Machine of a node of a tier in memory.
    pub(super) fn of_tier(&self, name: &str) -> Option<&SmallMachine> {
        self.tier.iter().find(|machine| machine.name() == name)
    }

    /// From now on each has its quota.
    pub(super) fn limit(&self) -> Result<(), postgres::Error> {
        self.all().try_for_each(|machine| machine.limit(self.quota(machine.name())))
    }

    /// In hundredths of a core, if there is one.
    fn quota(&self, name: &str) -> Option<u32> {
        match name {
            name if name == self.consort.name() => self.consort_percent,
            name if name == self.primary => self.primary_percent,
            _ => self.node_percent,
        }
    }

    /// From now on each has as much as there is.
    pub(super) fn lift(&self) -> Result<(), postgres::Error> {
        self.all().try_for_each(|machine| machine.limit(None))
    }

    /// Usage of each server since it was made.
    pub(super) fn used(&self) -> Result<BTreeMap<String, Duration>, postgres::Error> {
        self.all().map(|machine| Ok((machine.name().to_owned(), machine.used()?))).collect()
    }

    /// Use between two counts in so much time, as part of a core and of the quota.
    pub(super) fn between(
        &self,
        before: &BTreeMap<String, Duration>,
        after: &BTreeMap<String, Duration>,
        time: Duration,
    ) -> BTreeMap<String, NodeUse> {
        let of = |(name, after): (&String, &Duration)| {
            let used = after.saturating_sub(before.get(name).copied().unwrap_or_default());
            let of_a_core = used.as_secs_f64() / time.as_secs_f64().max(0.001);
            let of_its_quota = self.quota(name).map(|percent| of_a_core / (f64::from(percent) / 100.0));
            (name.clone(), NodeUse { of_a_core, of_its_quota })
        };
        after.iter().map(of).collect()
    }
}

/// The servers, and Consort.
pub(super) struct Ground {
    home: Home,
    pub(super) cluster: Arc<Cluster>,
    pub(super) machines: Arc<Machines>,
    kind: Kind,
    port: u16,
    /// The setup that Consort or the relay runs for.
    serves: Option<Setup>,
    relay: Option<Pgpool>,
    /// Tier of the setup, if its data are in memory.
    tier: Option<Tier>,
    /// The primary's `shared_buffers`.
    buffers: String,
    /// The last to go: it takes with it what is still there.
    _all: SmallMachines,
}

impl Ground {
    /// Makes the servers that the experiment needs, and starts them.
    pub(super) fn make(experiment: &Experiment) -> Result<Self, Failure> {
        let name = format!("consort-{}-{}", experiment.name, std::process::id());
        let folder: PathBuf = std::env::temp_dir().join(name);
        let all = SmallMachines::make(&folder)?;
        let home = Home::at(Some(&folder))?;
        let (standbys, replicas) = match experiment.replicas {
            Kind::Standbys => (experiment.most_replicas(), 0),
            Kind::Fed => (0, experiment.most_replicas()),
            Kind::Peers => (0, 0),
        };
        let peers = if experiment.replicas == Kind::Peers { 1 + experiment.most_replicas() } else { 0 };
        let mut settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        if experiment.replicas == Kind::Peers {
            settings.extend(up::order_setting()?);
        }
        let options = Options { standbys, replicas, peers, settings, durable: false, ..Options::default() };
        let mut progress = |step: &str| eprintln!("{}: {step} ..", experiment.name);
        let cluster = Cluster::create(&Programs::find()?, &folder, &options, &mut progress)?;
        let nodes = cluster.nodes().iter().map(|node| all.add(node.name())).collect::<Result<_, _>>()?;
        let tier = (1..=experiment.most_tier_nodes()).map(|number| all.add(&tier::machine_name(number)));
        let machines = Machines {
            nodes,
            tier: tier.collect::<Result<_, _>>()?,
            consort: all.add("consort")?,
            primary: cluster.primary().name().to_owned(),
            primary_percent: experiment.primary_percent.or(experiment.node_percent),
            node_percent: experiment.node_percent,
            consort_percent: experiment.consort_percent,
        };
        let ground = Self {
            home,
            cluster: Arc::new(cluster),
            machines: Arc::new(machines),
            kind: experiment.replicas,
            port: free_port()?,
            serves: None,
            relay: None,
            tier: None,
            buffers: BUFFERS.to_owned(),
            _all: all,
        };
        ground.cluster.nodes().iter().try_for_each(|node| settle(&ground.machines, node))?;
        ground.cluster.primary().query(SERVED, &format!("CREATE DATABASE {PLAIN}"))?;
        Ok(ground)
    }

    /// Runs this setup now, in place of the one before.
    pub(super) async fn serve(&mut self, setup: &Setup) -> Result<(), Failure> {
        if self.serves.as_ref().is_some_and(|now| now.name == setup.name) {
            return Ok(());
        }
        self.rest()?;
        if setup.is_memory_tier() {
            let folder = self.home.folder().join("memory");
            self.tier = Some(Tier::start(setup, &folder, self.port, &self.machines)?);
            self.serves = Some(setup.clone());
            return Ok(());
        }
        self.set_buffers(setup.buffers.as_deref().unwrap_or(BUFFERS))?;
        if setup.relay.is_some() {
            let nodes: Vec<&Node> = self.nodes_of(setup).collect();
            let mut relay = Pgpool::start(self.home.folder(), self.port, &nodes)?;
            self.machines.consort.take(relay.pid())?;
            relay.wait(self.port).await?;
            (self.relay, self.serves) = (Some(relay), Some(setup.clone()));
        }
        if let Some(design) = &setup.design {
            if self.kind == Kind::Peers {
                peers::reset(&self.cluster, self.home.folder())?;
            }
            up::write(&self.home, &self.settings(design, setup), self.nodes_of(setup))?;
            std::fs::create_dir_all(self.home.socket_folder())?;
            daemon::start(&self.home)?;
            let pid = self.home.running().ok_or_else(|| Failure::new("Consort is not running"))?;
            self.machines.consort.take(pid.as_raw_nonzero().get())?;
            self.serves = Some(setup.clone());
        }
        Ok(())
    }

    /// Gives the primary so many buffers.
    fn set_buffers(&mut self, buffers: &str) -> Result<(), Failure> {
        if self.buffers != buffers {
            let primary = self.cluster.primary();
            primary.set("shared_buffers", buffers)?;
            primary.stop(local_cluster::Stop::Fast)?;
            start_again(&self.machines, primary)?;
            buffers.clone_into(&mut self.buffers);
        }
        Ok(())
    }

    /// Stops the proxy in front of the servers.
    pub(super) fn rest(&mut self) -> Result<(), Failure> {
        if self.tier.take().is_some() {
            self.serves = None;
        }
        if self.serves.take().is_some_and(|setup| setup.design.is_some()) {
            down::stop_consort(&self.home)?;
        }
        self.relay = None;
        Ok(())
    }

    fn settings(&self, design: &str, setup: &Setup) -> SettingsFile {
        let mut file = SettingsFile::of(None);
        file.set("listen", &format!("[{}]", quoted(&format!("127.0.0.1:{}", self.port))));
        file.set("unix_socket_dir", &quoted("run"));
        file.set("design", &quoted(design));
        file.set("writers", &quoted(Writers::ThroughConsort.name()));
        file.set("attach_on_first_use", "true");
        file.set("auth_type", &quoted("trust"));
        file.set("proof_timeout", &quoted(PROOF_LIMIT));
        if setup.is_certified() {
            file.set("ledger_dir", &quoted(peers::LEDGER));
            file.set("max_clients", "200");
        }
        file.set("pool_mode", &quoted("session"));
        setup.settings.iter().for_each(|(key, value)| file.set(key, &value.to_string()));
        file
    }

    /// The servers that a setup has: the primary, and the first of the others.
    fn nodes_of(&self, setup: &Setup) -> impl Iterator<Item = &Node> {
        let others = match self.kind {
            Kind::Standbys => self.cluster.standbys(),
            Kind::Fed => self.cluster.replicas(),
            Kind::Peers => &self.cluster.peers()[1..],
        };
        std::iter::once(self.cluster.primary()).chain(others.iter().take(setup.replicas))
    }

    /// The servers of the setup that Consort feeds.
    pub(super) fn fed(&self, setup: &Setup) -> impl Iterator<Item = &Node> {
        self.nodes_of(setup).filter(|node| node.role() == Role::Replica)
    }

    /// The nodes that run for a setup whose nodes all take writes.
    fn peers(&self) -> Option<Vec<&Node>> {
        let setup = self.serves.as_ref().filter(|setup| setup.is_certified())?;
        Some(self.nodes_of(setup).collect())
    }

    /// Address of the clients.
    pub(super) fn url(&self) -> String {
        match &self.serves {
            Some(setup) => format!("postgres://postgres@127.0.0.1:{}/{}", self.port, database(setup)),
            None => self.primary_at(PLAIN),
        }
    }

    /// The primary itself, with the database of the setup.
    pub(super) fn primary_url(&self, setup: &Setup) -> String {
        self.primary_at(database(setup))
    }

    fn primary_at(&self, database: &str) -> String {
        let primary = self.cluster.primary();
        let sockets = primary.socket_folder().display();
        format!("host={sockets} port={} user=postgres dbname={database}", primary.port())
    }

    /// Address for the checks afterwards, if not the clients': nothing may be old there.
    pub(super) fn check_url(&self) -> Option<String> {
        let setup = self.serves.as_ref()?;
        if self.tier.is_some() {
            // Every read of it is the newest.
            return None;
        }
        let past = || self.primary_url(setup);
        let through = || format!("{}?options=-c%20consort.consistency%3Dprimary", self.url());
        Some(if setup.relay.is_some() { past() } else { through() })
    }

    /// Address of the console, if Consort runs and may read at replicas.
    pub(super) fn console(&self) -> Option<String> {
        let consort = self
            .serves
            .as_ref()
            .is_some_and(|setup| setup.design.is_some() && !setup.is_certified() && !setup.is_memory_tier());
        consort.then(|| self.any_console())
    }

    /// Address of the console of the tier that serves, if one does.
    pub(super) fn tier_console(&self) -> Option<String> {
        self.tier.is_some().then(|| self.any_console())
    }

    fn any_console(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/consort", self.port)
    }

    /// The tier in memory of the setup that is served.
    pub(super) fn tier(&self) -> Option<&Tier> {
        self.tier.as_ref()
    }

    /// Address of the console, if Consort has a ledger.
    pub(super) fn ledger_console(&self) -> Option<String> {
        let has_ledger = self.serves.as_ref().is_some_and(Setup::is_certified);
        has_ledger.then(|| format!("postgres://postgres@127.0.0.1:{}/consort", self.port))
    }

    /// Waits until Consort serves with all servers of the setup, and until replicas that it feeds have all that there is.
    pub(super) async fn wait_ready(&self) -> Result<(), Failure> {
        let since = Instant::now();
        loop {
            let Err(why) = self.is_ready().await else { return Ok(()) };
            if since.elapsed() > READY_LIMIT {
                return Err(Failure::new(format!("not ready within {READY_LIMIT:?}: {why}")));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn is_ready(&self) -> Result<(), String> {
        let said = |trouble: Trouble| trouble.to_string();
        // A database is followed from its first client on.
        Session::open(&self.url(), Protocol::Simple).await.map_err(said)?.close().await;
        if let Some(nodes) = self.peers() {
            return peers::are_equal(&nodes);
        }
        if let (Some(console), Some(setup)) = (self.tier_console(), &self.serves) {
            return tier::is_whole(&console, setup).await;
        }
        let Some(console) = self.console() else { return self.standbys_have_all() };
        let session = Session::open(&console, Protocol::Simple).await.map_err(said)?;
        for row in session.texts("SHOW REPLICAS").await.map_err(said)? {
            let text = |column: &str| row.get(column).cloned().unwrap_or_default();
            if text("state") != "serving" {
                return Err(format!("{} is {}: {}", text("name"), text("state"), text("why")));
            }
        }
        let databases = session.texts("SHOW SNAPSHOTS").await.map_err(said)?;
        if let Some(why) = databases.iter().find_map(|row| row.get("why_not_serving")) {
            return Err(why.clone());
        }
        let feeds = session.texts("SHOW REPLICATION").await.map_err(said)?;
        let orders_first = self.serves.as_ref().is_some_and(Setup::orders_first);
        for row in &feeds {
            let text = |column: &str| row.get(column).cloned().unwrap_or_default();
            let has_all = match orders_first {
                true => text("state") == "executing",
                false => text("state") == "serving" && text("version") == text("newest_version"),
            };
            if !has_all {
                return Err(format!("{} is {}: {}", text("name"), text("state"), text("why")));
            }
        }
        let wanted = match (self.kind, &self.serves) {
            (Kind::Fed, Some(setup)) => setup.replicas,
            _ => 0,
        };
        match databases.is_empty() || feeds.len() < wanted {
            true => Err("not every replica has been copied yet".to_owned()),
            false => Ok(()),
        }
    }

    /// PostgreSQL's own standbys have all that the primary has.
    fn standbys_have_all(&self) -> Result<(), String> {
        const BEHIND: &str = "SELECT application_name FROM pg_stat_replication \
                              WHERE application_name LIKE 'standby%' AND replay_lsn < pg_current_wal_lsn()";
        let behind = self.cluster.primary().query(PLAIN, BEHIND).map_err(|error| error.to_string())?;
        match behind.first() {
            Some(_) => Err("a standby has not replayed all yet".to_owned()),
            None => Ok(()),
        }
    }

    /// Tidies up what was loaded.
    pub(super) fn vacuum_primary(&self, setup: &Setup) -> Result<(), Failure> {
        if setup.is_memory_tier() {
            return Ok(());
        }
        tidy_up(self.cluster.primary(), database(setup))
    }

    /// The same at the servers of the setup that Consort feeds.
    pub(super) fn vacuum_replicas(&self, setup: &Setup) -> Result<(), Failure> {
        let others = self.nodes_of(setup).skip(1).filter(|_| setup.is_certified());
        self.fed(setup).chain(others).try_for_each(|node| tidy_up(node, SERVED))
    }

    /// Compares the replicas that Consort feeds with the primary.
    pub(super) async fn verify(&self) -> Result<Verified, Failure> {
        let mut verified = Verified::default();
        if let Some(nodes) = self.peers() {
            peers::compare(&nodes, &mut verified)?;
            return Ok(verified);
        }
        if let (Some(tier), Some(console)) = (&self.tier, self.tier_console()) {
            return tier.verify(&console).await;
        }
        let fed = self.kind == Kind::Fed && self.serves.as_ref().is_some_and(|setup| setup.replicas > 0);
        let Some(console) = self.console().filter(|_| fed) else { return Ok(verified) };
        let session = Session::open(&console, Protocol::Simple).await?.with_limit(LONG);
        for row in session.texts(&format!("VERIFY {SERVED}")).await? {
            let text = |column: &str| row.get(column).cloned().unwrap_or_default();
            let line = format!("{} {} {} {}", text("node"), text("table"), text("what"), text("first_key"));
            match text("state").as_str() {
                "equal" => verified.equal += 1,
                "left out" => {}
                _ => verified.different.push(line),
            }
        }
        Ok(verified)
    }

    /// Starts again what was killed.
    pub(super) fn heal(&self) -> Result<(), Failure> {
        if let Some(tier) = &self.tier {
            return tier.start_nodes(&self.machines);
        }
        self.cluster.nodes().iter().try_for_each(|node| start_again(&self.machines, node))
    }

    /// Consort's log, for the results.
    pub(super) fn log(&self) -> PathBuf {
        self.tier.as_ref().map_or_else(|| self.home.log_file(), Tier::log)
    }
}

/// Starts a server, if it does not run, and puts it where it belongs.
pub(super) fn start_again(machines: &Machines, node: &Node) -> Result<(), Failure> {
    if node.state() == NodeState::Stopped {
        node.launch()?;
        // On its machine from the first moment: it recovers there.
        wait_until(READY_LIMIT, || node.state() != NodeState::Stopped);
        settle(machines, node)?;
        node.wait_ready(READY_LIMIT)?;
    }
    Ok(())
}

/// Puts a server on its machine.
fn settle(machines: &Machines, node: &Node) -> Result<(), Failure> {
    let machine = machines.nodes.iter().find(|machine| machine.name() == node.name());
    match (machine, node.state()) {
        (Some(machine), NodeState::Running { pid }) => Ok(machine.take(pid)?),
        _ => Err(Failure::new(format!("the server {} is not running", node.name()))),
    }
}

/// No point pays for what was loaded before it, also not if the server is killed and recovers.
fn tidy_up(node: &Node, database: &str) -> Result<(), Failure> {
    ["VACUUM ANALYZE", "CHECKPOINT"]
        .into_iter()
        .try_for_each(|command| Ok(node.query(database, command).map(drop)?))
}

/// Database of a setup's tables.
fn database(setup: &Setup) -> &'static str {
    if setup.design.is_some() { SERVED } else { PLAIN }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // A process that cannot be ended politely ends with its machine.
        let _ = self.machines.lift();
        (self.relay, self.tier) = (None, None);
        let _ = down::stop_everything(&self.home);
    }
}
