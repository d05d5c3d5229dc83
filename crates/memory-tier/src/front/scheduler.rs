//! The node at which a transaction runs, and the connection to it.

use super::answers::failure;
use super::node_connection::{Connections, Controls, NodeConnection};
use super::scheduling::{Estimates, Load, choose};
use super::tier_state::Tier;
use crate::message::{Failure, Version};
use dialect::{Statement, split};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Texts whose statements are kept. When there are more all are forgotten.
const MAX_TEXTS: usize = 5_000;
/// A longer text is not kept, in bytes.
const MAX_TEXT: usize = 16 << 10;
/// A node that cannot be reached is tried again after this time, if nothing is heard of it meanwhile.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A statement, and the key of its estimate.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) statement: Statement,
    key: u64,
}

/// State that the sessions of a front share.
pub(super) struct Scheduler {
    pub(super) tier: Rc<Tier>,
    connections: Connections,
    controls: Controls,
    loads: RefCell<Vec<Load>>,
    estimates: RefCell<Estimates>,
    texts: RefCell<HashMap<String, Rc<[Rc<Parsed>]>>>,
    /// Reads that were placed.
    reads: Cell<u64>,
    /// The same at each node.
    reads_of: RefCell<Vec<u64>>,
}

/// Statements that a transaction will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Reads of one version.
    Reads {
        /// Key of the first statement's estimate.
        key: u64,
    },
    /// Writes, or both.
    Writes,
}

/// A connection to the node that runs a transaction. Dropped, it is closed, and the node rolls back.
pub(super) struct Placed {
    pub(super) connection: NodeConnection,
    /// The answer to the beginning of a block's transaction has not come yet.
    pub(super) is_opening: bool,
    load: Option<Counted>,
}

/// A read that counts in the load of its node.
struct Counted {
    scheduler: Rc<Scheduler>,
    node: usize,
    version: Version,
    key: u64,
    estimate_us: u64,
    began: Instant,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.scheduler.loads.borrow_mut()[self.node].end(self.version, self.estimate_us);
    }
}

impl Scheduler {
    pub(super) fn new(tier: Rc<Tier>) -> Rc<Scheduler> {
        let nodes = tier.options.nodes.len();
        Rc::new(Scheduler {
            tier,
            connections: Connections::new(nodes),
            controls: Controls::new(nodes),
            loads: RefCell::new(vec![Load::default(); nodes]),
            estimates: RefCell::default(),
            texts: RefCell::default(),
            reads: Cell::new(0),
            reads_of: RefCell::new(vec![0; nodes]),
        })
    }

    /// The statements of a text.
    ///
    /// # Errors
    /// Its syntax is wrong.
    pub(super) fn statements(&self, text: &str) -> Result<Rc<[Rc<Parsed>]>, Failure> {
        if let Some(known) = self.texts.borrow().get(text) {
            return Ok(known.clone());
        }
        let split = split(text).map_err(Failure::from)?;
        let statements: Rc<[Rc<Parsed>]> = split.into_iter().map(Parsed::new).map(Rc::new).collect();
        let mut texts = self.texts.borrow_mut();
        if texts.len() >= MAX_TEXTS {
            texts.clear();
        }
        if text.len() <= MAX_TEXT {
            texts.insert(text.to_owned(), statements.clone());
        }
        Ok(statements)
    }

    /// A connection to a node that takes this work. Nodes that have failed it before are the last ones.
    ///
    /// # Errors
    /// No node takes it before the deadline: 57P03.
    pub(super) async fn place(
        self: &Rc<Scheduler>,
        work: Work,
        version: Version,
        avoided: &[usize],
        deadline: Instant,
    ) -> Result<Placed, Failure> {
        loop {
            let Some(node) = self.node_for(work, version, avoided) else {
                let found = self.tier.until(|_| self.node_for(work, version, avoided).is_some());
                if timeout_at(deadline, found).await.is_err() {
                    return Err(no_node(work));
                }
                continue;
            };
            let load = self.count(node, work, version);
            let taken = tokio::select! {
                taken = self.connections.take(&self.tier, node) => taken,
                () = self.tier.until(|tier| tier.is_silent(node)) => Err(silent()),
            };
            match taken {
                Ok(connection) => return Ok(Placed { connection, is_opening: false, load }),
                Err(error) => self.lost(node, &error.to_string()),
            }
            drop(load);
            if Instant::now() >= deadline {
                return Err(no_node(work));
            }
            if self.node_for(work, version, avoided) == Some(node) {
                tokio::select! {
                    () = self.tier.until_changed() => {}
                    () = sleep(AGAIN_AFTER) => {}
                }
            }
        }
    }

    fn node_for(&self, work: Work, version: Version, avoided: &[usize]) -> Option<usize> {
        let master = self.tier.master();
        if work == Work::Writes {
            return master;
        }
        let loads = self.loads.borrow();
        let slaves = loads
            .iter()
            .enumerate()
            .filter(|(node, _)| self.tier.serves(*node) && Some(*node) != master && !avoided.contains(node));
        let (spares, slaves): (Vec<_>, Vec<_>) = slaves.partition(|(node, _)| self.tier.is_idle_spare(*node));
        let interval = self.tier.options.spare_read_interval;
        let warms = interval > 0 && self.reads.get() % interval == interval - 1;
        let candidates = if warms && !spares.is_empty() { &spares } else { &slaves };
        let chosen = choose(candidates, version, self.tier.options.read_versions);
        chosen.or(master).or_else(|| (0..loads.len()).find(|node| self.tier.serves(*node)))
    }

    fn count(self: &Rc<Scheduler>, node: usize, work: Work, version: Version) -> Option<Counted> {
        let Work::Reads { key } = work else { return None };
        self.reads.set(self.reads.get() + 1);
        self.reads_of.borrow_mut()[node] += 1;
        let estimate_us = self.estimates.borrow().of(key);
        self.loads.borrow_mut()[node].begin(version, estimate_us);
        Some(Counted { scheduler: self.clone(), node, version, key, estimate_us, began: Instant::now() })
    }

    /// Takes a connection back, whose transaction has ended.
    pub(super) fn give_back(&self, placed: Placed) {
        let Placed { connection, load, .. } = placed;
        if let Some(load) = &load {
            self.estimates.borrow_mut().note(load.key, load.began.elapsed());
        }
        self.connections.give_back(connection);
    }

    /// A connection to the node broke.
    pub(super) fn lost(&self, node: usize, why: &str) {
        self.connections.close(node);
        self.tier.failed(node, why);
    }

    /// Ends the statement that a session runs at a node. Completes when the node has taken the order, or cannot be reached.
    pub(super) async fn cancel(&self, node: usize, session: u64) {
        self.controls.cancel(&self.tier, node, session).await;
    }

    /// Reads that were sent to the node, those that it has aborted included.
    pub(super) fn reads_of(&self, node: usize) -> u64 {
        self.reads_of.borrow()[node]
    }

    /// Reads of sessions that run at the node now.
    pub(super) fn reads_at(&self, node: usize) -> usize {
        self.loads.borrow()[node].transactions()
    }
}

impl Parsed {
    pub(super) fn new(statement: Statement) -> Parsed {
        let mut hasher = DefaultHasher::new();
        statement.text.hash(&mut hasher);
        Parsed { statement, key: hasher.finish() }
    }

    /// Work of a transaction that begins with this statement and reads alone.
    pub(super) fn reads(&self) -> Work {
        Work::Reads { key: self.key }
    }
}

/// The node gives no answer to membership, and will give none to sessions.
pub(super) fn silent() -> std::io::Error {
    std::io::Error::other("the node does not answer")
}

/// No node takes the work.
fn no_node(work: Work) -> Failure {
    let why = match work {
        Work::Reads { .. } => "no node of the in-memory tier serves reads now",
        Work::Writes => "the in-memory tier has no master now",
    };
    failure("57P03", why, "Try again. SHOW NODES in Consort's console tells why.")
}
