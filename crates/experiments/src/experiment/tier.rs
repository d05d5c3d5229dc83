//! A tier in memory as a setup has it: one process per node, each on a small machine of its own, made for each point and gone
//! after it.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort::failure::Failure;
use consort::home::Home;
use consort::settings_file::{SettingsFile, quoted};
use consort::tier::{Nodes, PageVersions, SECRET_FILE};
use consort::{down, up};
use load_clients::session::{Protocol, Session, Trouble};
use local_cluster::SmallMachine;
use memory_tier::message::{self, Hello, Order, Purpose, Report, Version};
use serde::Serialize;

use super::faults::{Recovery, meanwhile};
use super::ground::Machines;
use super::point::Verified;
use super::table::{Fault, Setup};

/// Interval of the look at the nodes after a fault.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The roles by which a fault names a node.
const ROLES: [&str; 2] = ["master", "slave"];

/// The tier of one setup.
pub(super) struct Tier {
    home: Home,
    count: usize,
    page_versions: PageVersions,
}

/// Counts of all nodes since the tier's start.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Counts {
    /// Reads that were sent to nodes.
    pub(super) reads: u64,
    /// Reads that nodes have aborted because of their version.
    pub(super) aborted: u64,
    /// Bytes of pages and their changes at the node that has the most.
    pub(super) bytes: u64,
}

impl Counts {
    /// The counts since an earlier look.
    pub(super) fn since(self, before: Counts) -> Counts {
        Counts {
            reads: self.reads.saturating_sub(before.reads),
            aborted: self.aborted.saturating_sub(before.aborted),
            bytes: self.bytes,
        }
    }
}

/// Name of the machine of a node.
pub(super) fn machine_name(number: usize) -> String {
    format!("node{number}")
}

impl Tier {
    /// Starts nodes and Consort, each on its machine. The folder is made, and emptied before.
    pub(super) fn start(
        setup: &Setup,
        folder: &Path,
        port: u16,
        machines: &Machines,
    ) -> Result<Tier, Failure> {
        remove(folder)?;
        std::fs::create_dir_all(folder)?;
        let home = Home::at(Some(folder))?;
        let mut file = SettingsFile::of(None);
        setup.settings.iter().for_each(|(key, value)| file.set(key, &value.to_string()));
        let design = setup.design.as_deref().unwrap_or_default();
        file.set("design", &quoted(design));
        home.replace_config(&file.with_servers([]))?;
        let page_versions = if setup.single_version { PageVersions::Single } else { PageVersions::Keep };
        let tier = Tier { home, count: setup.tier_nodes(), page_versions };
        tier.start_nodes(machines)?;
        let options =
            up::Options::for_demo(&format!("127.0.0.1:{port}"), design, up::Writers::ThroughConsort);
        up::bring_up(&tier.home, &options.with_nodes(1 + setup.replicas, setup.spares))?;
        let pid = tier.home.running().ok_or_else(|| Failure::new("Consort is not running"))?;
        machines.consort().take(pid.as_raw_nonzero().get())?;
        Ok(tier)
    }

    /// Starts the nodes that do not run, and puts them on their machines.
    pub(super) fn start_nodes(&self, machines: &Machines) -> Result<(), Failure> {
        start_nodes(&self.home, self.count, self.page_versions, machines)
    }

    /// The same while clients go on.
    async fn start_nodes_meanwhile(&self, machines: &Arc<Machines>) -> Result<(), Failure> {
        let (home, machines) = (Home::at(Some(self.home.folder()))?, machines.clone());
        let (count, page_versions) = (self.count, self.page_versions);
        meanwhile(move || start_nodes(&home, count, page_versions, &machines)).await
    }

    /// Compares the pages of all nodes with those of the first.
    pub(super) async fn verify(&self, console: &str) -> Result<Verified, Failure> {
        let secret = memory_tier::secret(&self.home.folder().join(SECRET_FILE)).map_err(Failure::new)?;
        let there = Nodes::of(&self.home).ok_or_else(|| Failure::new("there are no nodes"))?;
        let at = nodes(console).await?.iter().map(|node| node.newest).max().unwrap_or(0);
        let (mut verified, mut first) = (Verified::default(), None);
        for (name, address) in there.addresses() {
            let hash = hash(address, &secret, at)?;
            match *first.get_or_insert(hash) == hash {
                true => verified.equal += 1,
                false => verified.different.push(format!("{name} has other pages at version {at}")),
            }
        }
        Ok(verified)
    }

    /// Consort's log.
    pub(super) fn log(&self) -> PathBuf {
        self.home.log_file()
    }

    /// Kills a node.
    fn kill(&self, name: &str) -> Result<(), Failure> {
        let nodes = Nodes::of(&self.home).ok_or_else(|| Failure::new("there are no nodes"))?;
        let process = nodes.processes().find(|(node, _)| *node == name).and_then(|(_, process)| process);
        let process = process.ok_or_else(|| Failure::new(format!("{name} is not running")))?;
        rustix::process::kill_process(process, rustix::process::Signal::KILL)
            .map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Kills a node and starts it again, as the fault says, and watches until it serves, or until the clients end.
    pub(super) async fn strike(
        &self,
        fault: &Fault,
        console: &str,
        machines: &Arc<Machines>,
        until: Instant,
    ) -> Result<Recovery, Failure> {
        let before = nodes(console).await?;
        let wanted = fault.node.as_deref().unwrap_or_default();
        let is_role = ROLES.contains(&wanted);
        let struck =
            before.iter().find(|node| if is_role { node.role == wanted } else { node.name == wanted });
        let struck = struck.ok_or_else(|| Failure::new(format!("node {wanted} does not exist")))?.clone();
        let was_master = struck.role == "master";
        let killed = Instant::now();
        self.kill(&struck.name)?;
        let reads = |role: &str| -> u64 {
            before.iter().filter(|node| role.is_empty() || node.role == role).map(|node| node.reads).sum()
        };
        let spare_reads = Some(reads("spare") as f64 / (reads("") as f64).max(1.0));
        let mut recovery = Recovery { spare_reads, ..Recovery::default() };
        let back = fault.back_after_s.map(|after| killed + Duration::from_secs(after));
        let mut started: Option<Instant> = None;
        let mut reads_at_start = 0;
        while Instant::now() < until {
            if started.is_none() && back.is_some_and(|back| Instant::now() >= back) {
                started = Some(Instant::now());
                self.start_nodes_meanwhile(machines).await?;
            }
            // An answer that is lost is asked for again.
            if let Ok(seen) = nodes(console).await {
                let has_master = seen.iter().any(|node| node.role == "master" && node.name != struck.name);
                if was_master && has_master {
                    recovery.master_s = recovery.master_s.or(Some(killed.elapsed().as_secs_f64()));
                }
                if let (Some(node), Some(started)) =
                    (seen.iter().find(|node| node.name == struck.name), started)
                {
                    let passed = Some(started.elapsed().as_secs_f64());
                    if node.is_up && recovery.caught_up_s.is_none() {
                        recovery.caught_up_s = passed;
                        reads_at_start = node.reads;
                    }
                    if recovery.caught_up_s.is_some() && node.reads > reads_at_start {
                        recovery.first_read_s = recovery.first_read_s.or(passed);
                    }
                }
            }
            let is_done = match started {
                Some(_) => recovery.first_read_s.is_some(),
                None => back.is_none() && (!was_master || recovery.master_s.is_some()),
            };
            if is_done {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(recovery)
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        // A process that cannot be ended ends with its machine.
        let _ = down::stop_everything(&self.home);
        let _ = remove(self.home.folder());
    }
}

fn start_nodes(
    home: &Home,
    count: usize,
    page_versions: PageVersions,
    machines: &Machines,
) -> Result<(), Failure> {
    let nodes = Nodes::start(home, count, page_versions)?;
    for (name, process) in nodes.processes() {
        let process = process.ok_or_else(|| Failure::new(format!("{name} is not running")))?;
        machine(machines, name)?.take(process.as_raw_nonzero().get())?;
    }
    Ok(())
}

/// Hash of all pages of a node at a version.
fn hash(address: SocketAddr, secret: &[u8], at: Version) -> Result<u64, Failure> {
    let stream = TcpStream::connect(address)?;
    message::write(&mut &stream, &Hello { secret: secret.to_vec(), purpose: Purpose::Control })?;
    message::write(&mut &stream, &Order::Hash { at })?;
    match message::read(&mut &stream)? {
        Report::Hash(hash) => Ok(hash),
        other => Err(Failure::new(format!("{address} does not tell a hash: {other:?}"))),
    }
}

fn machine<'a>(machines: &'a Machines, name: &str) -> Result<&'a SmallMachine, Failure> {
    machines.of_tier(name).ok_or_else(|| Failure::new(format!("there is no machine for {name}")))
}

fn remove(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A node, as the console shows it.
#[derive(Clone)]
struct Shown {
    name: String,
    role: String,
    is_up: bool,
    received: u64,
    newest: u64,
    reads: u64,
    aborted: u64,
    bytes: u64,
}

async fn nodes(console: &str) -> Result<Vec<Shown>, Trouble> {
    let session = Session::open(console, Protocol::Simple).await?;
    let rows = session.texts("SHOW NODES").await?;
    session.close().await;
    let shown = |row: &HashMap<String, String>| {
        let text = |column: &str| row.get(column).cloned().unwrap_or_default();
        let number = |column: &str| text(column).parse().unwrap_or(0);
        Shown {
            name: text("node"),
            role: text("role"),
            is_up: text("state") == "up",
            received: number("received"),
            newest: number("newest"),
            reads: number("reads"),
            aborted: number("aborted"),
            bytes: number("bytes"),
        }
    };
    Ok(rows.iter().map(shown).collect())
}

/// All nodes serve and have everything; else a sentence.
pub(super) async fn is_whole(console: &str, setup: &Setup) -> Result<(), String> {
    let nodes = nodes(console).await.map_err(|trouble| trouble.to_string())?;
    let late = nodes.iter().find(|node| !node.is_up || node.received < node.newest);
    match late {
        Some(node) => {
            Err(format!("{} is {}, at version {} of {}", node.name, node.role, node.received, node.newest))
        }
        None if nodes.len() != setup.tier_nodes() => Err(format!("{} nodes are there", nodes.len())),
        None => Ok(()),
    }
}

/// Counts of all nodes.
pub(super) async fn counts(console: &str) -> Result<Counts, Failure> {
    let nodes = nodes(console).await?;
    Ok(Counts {
        reads: nodes.iter().map(|node| node.reads).sum(),
        aborted: nodes.iter().map(|node| node.aborted).sum(),
        bytes: nodes.iter().map(|node| node.bytes).max().unwrap_or(0),
    })
}
