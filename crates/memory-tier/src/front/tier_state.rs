//! State of the tier as the front knows it: which node is the master, which nodes serve reads, the newest acknowledged version.
//!
//! Membership fills it, sessions read it. Sessions report connections that broke.

use crate::links::Links;
use crate::message::{State, Version};
use eager_flow::{Bugs, Tags, promoted_spares};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

/// Reports of broken connections that are kept for membership at most. Later ones of the same kind are dropped.
const MAX_FAILURES: usize = 64;

/// A node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name.
    pub name: String,
    /// Its address: host and port.
    pub address: String,
    /// Reads run there only in place of lost nodes, and to keep it warm.
    pub is_spare: bool,
}

/// Limits of sessions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum wait of a read for its version at a slave.
    pub replica_wait: Duration,
    /// Maximum wait of a write for a master.
    pub master_wait: Duration,
    /// Maximum time of a connection attempt to a node.
    pub connect: Duration,
    /// Bytes of results that the portals of a session may hold.
    pub portal_bytes: usize,
    /// Bytes of a client's message.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            replica_wait: Duration::from_secs(1),
            master_wait: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            portal_bytes: 256 << 20,
            message_bytes: 48 << 20,
        }
    }
}

/// Options of a tier.
#[derive(Clone, Debug)]
pub struct Options {
    /// The nodes.
    pub nodes: Vec<NodeOptions>,
    /// The secret that nodes ask for.
    pub secret: Vec<u8>,
    /// Connections to the nodes: plain TCP, or TLS.
    pub links: Links,
    /// Name of the tier's database.
    pub database: String,
    /// Limits of sessions.
    pub limits: Limits,
    /// One read in so many runs at a spare, to keep it warm; 0: none.
    pub spare_read_interval: u64,
    /// Different versions at one slave up to which reads are placed by their version; 0: by load alone.
    pub read_versions: usize,
}

impl Options {
    /// Connects to a node.
    ///
    /// # Errors
    /// The node cannot be reached, or its certificate is refused.
    pub(super) async fn connect(&self, node: usize) -> io::Result<TcpStream> {
        self.links.connect(&self.nodes[node].address).await
    }
}

/// A node as the front knows it.
#[derive(Debug, Default)]
struct Node {
    serves: Cell<bool>,
    given_up: Cell<u64>,
    state: RefCell<Option<State>>,
    why: RefCell<String>,
}

/// State of the tier.
///
/// Invariant: `newest` never falls.
#[derive(Debug)]
pub struct Tier {
    /// Options of the tier.
    pub options: Options,
    tags: Cell<Tags>,
    master: Cell<Option<usize>>,
    nodes: Vec<Node>,
    changed: watch::Sender<()>,
    failures: RefCell<VecDeque<(usize, String)>>,
    failure: Notify,
    /// Why no client may come in; empty: clients may.
    closed: RefCell<String>,
    /// Looks at the nodes that have begun.
    begun: Cell<u64>,
    /// The last look that has found a master, or made one.
    settled: Cell<u64>,
}

impl Tier {
    /// A tier without a master, of which no node serves yet.
    pub fn new(options: Options) -> Tier {
        Tier {
            nodes: options.nodes.iter().map(|_| Node::default()).collect(),
            options,
            tags: Cell::new(Tags::new(Bugs::default())),
            master: Cell::new(None),
            changed: watch::Sender::new(()),
            failures: RefCell::default(),
            failure: Notify::new(),
            closed: RefCell::default(),
            begun: Cell::new(0),
            settled: Cell::new(0),
        }
    }

    /// The newest acknowledged version.
    pub fn newest(&self) -> Version {
        self.tags.get().tag()
    }

    /// Raises the newest acknowledged version. An older one changes nothing.
    pub fn acknowledged(&self, version: Version) {
        let mut tags = self.tags.get();
        tags.acknowledge(version);
        self.tags.set(tags);
    }

    /// The node where writes run.
    pub fn master(&self) -> Option<usize> {
        self.master.get()
    }

    /// Sets the node where writes run.
    pub fn set_master(&self, node: Option<usize>) {
        self.master.set(node);
        self.changed.send_replace(());
    }

    /// Whether reads may run at the node.
    pub fn serves(&self, node: usize) -> bool {
        self.nodes[node].serves.get()
    }

    /// Whether the node is a spare, and takes no lost node's place.
    pub fn is_idle_spare(&self, node: usize) -> bool {
        if !self.options.nodes[node].is_spare || self.master() == Some(node) {
            return false;
        }
        let nodes = self.options.nodes.iter().enumerate();
        let there = |node| self.serves(node) || self.master() == Some(node);
        let nodes: Vec<_> = nodes.map(|(node, options)| (options.is_spare, there(node))).collect();
        !promoted_spares(&nodes, self.master()).contains(&node)
    }

    /// Says whether reads may run at the node, and if not, why.
    pub fn set_serves(&self, node: usize, serves: bool, why: &str) {
        self.nodes[node].serves.set(serves);
        self.nodes[node].why.replace(why.to_owned());
        self.changed.send_replace(());
    }

    /// Gives a node up: what sessions wait for there does not come, or does not count.
    pub fn give_up(&self, node: usize) {
        let times = &self.nodes[node].given_up;
        times.set(times.get() + 1);
        self.changed.send_replace(());
    }

    /// Times that the node was given up.
    pub fn given_up(&self, node: usize) -> u64 {
        self.nodes[node].given_up.get()
    }

    /// Why the node does not serve; empty if it does.
    pub fn why(&self, node: usize) -> String {
        self.nodes[node].why.borrow().clone()
    }

    /// The node's last report.
    pub fn state(&self, node: usize) -> Option<State> {
        self.nodes[node].state.borrow().clone()
    }

    /// Notes a report of the node; `None`: it gives none, and what waits for its answers gives up.
    pub fn set_state(&self, node: usize, state: Option<State>) {
        let was_there = self.nodes[node].state.replace(state).is_some();
        if was_there && self.is_silent(node) {
            self.changed.send_replace(());
        }
    }

    /// Whether the node gives no report.
    pub fn is_silent(&self, node: usize) -> bool {
        self.nodes[node].state.borrow().is_none()
    }

    /// Reports a connection to the node that broke, or could not be opened. The node serves no reads until membership says so
    /// again.
    pub fn failed(&self, node: usize, why: &str) {
        if self.serves(node) {
            self.set_serves(node, false, why);
        }
        let mut failures = self.failures.borrow_mut();
        let is_known = failures.iter().any(|(known, _)| *known == node);
        if !is_known && failures.len() < MAX_FAILURES {
            failures.push_back((node, why.to_owned()));
        }
        self.failure.notify_one();
    }

    /// Completes with the next report of a broken connection: the node, and why. For one reader.
    pub async fn failure(&self) -> (usize, String) {
        loop {
            if let Some(failure) = self.failures.borrow_mut().pop_front() {
                return failure;
            }
            self.failure.notified().await;
        }
    }

    /// No client may come in, for this reason.
    pub fn closes(&self, why: &str) {
        self.closed.replace(why.to_owned());
    }

    /// Clients may come in.
    pub fn opens(&self) {
        self.closed.take();
    }

    /// Why no client may come in, if none may.
    pub fn closed(&self) -> Option<String> {
        Some(self.closed.borrow().clone()).filter(|why| !why.is_empty())
    }

    /// Membership begins to look at the nodes.
    pub fn look_begins(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// There is a master, and `newest` is no older than what it has shown when the last look began.
    pub fn look_settles(&self) {
        self.settled.set(self.begun.get());
        self.changed.send_replace(());
    }

    /// Completes when a look that begins from now on has settled, or an epoch has begun: what became of a transaction whose
    /// answer was lost shows in reads from then on.
    pub async fn until_settled(&self) {
        let begun = self.begun.get();
        self.until(|tier| tier.settled.get() > begun).await;
    }

    /// Completes when `so` holds, which is asked after every change of the master and of the nodes that serve.
    pub async fn until(&self, so: impl Fn(&Tier) -> bool) {
        let mut changes = self.changed.subscribe();
        while !so(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Completes at the next change of the master or of the nodes that serve.
    pub async fn until_changed(&self) {
        let _ = self.changed.subscribe().changed().await;
    }
}
