//! State that the connections of a node share.

use super::line::Line;
use super::sequences::Sequences;
use super::{Limits, Options};
use crate::links::Links;
use crate::message::{self, Hello, Part, Purpose, State, Version};
use pages::Store;
use rusqlite::InterruptHandle;
use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// The lock's content. A thread that panicked while it held the lock has left it as it was between two steps.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The node's part in an epoch.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) epoch: u64,
    pub(super) part: Part,
}

/// A session's statement, as a cancel request sees it.
#[derive(Default)]
pub(super) enum Activity {
    /// No statement, or one that cannot be canceled.
    #[default]
    Idle,
    /// Waits for the writer.
    Waits,
    /// Canceled while it waited.
    Canceled,
    /// Runs, and can be interrupted.
    Runs(InterruptHandle),
}

/// The statement that a session runs, for its cancellation.
pub(super) type Running = Arc<Mutex<Activity>>;

/// Connections to other nodes, and the secret that they ask for.
struct Peers {
    secret: Vec<u8>,
    links: Links,
}

/// State that the connections share.
pub(super) struct Engine {
    pub(super) store: Store,
    /// Connections to other nodes, and the secret that they ask for.
    peers: Peers,
    standing: Mutex<Standing>,
    /// Held by those who look whether a version has come: the last lock that anybody takes.
    arrival: Mutex<()>,
    arrived: Condvar,
    pub(super) sequences: Arc<Sequences>,
    /// The master's line of commits.
    pub(super) line: Line,
    sessions: Mutex<HashMap<u64, Running>>,
    next_session: AtomicU64,
    transactions: AtomicU32,
    pub(super) limits: Limits,
    history: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) conflicts: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) aborted: AtomicU64,
}

/// A transaction that is open, or runs under the writer.
pub(super) struct CountedTransaction(Arc<Engine>);

impl CountedTransaction {
    pub(super) fn begin(engine: &Arc<Engine>) -> CountedTransaction {
        engine.transactions.fetch_add(1, Ordering::Relaxed);
        CountedTransaction(engine.clone())
    }
}

impl Drop for CountedTransaction {
    fn drop(&mut self) {
        self.0.transactions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    pub(super) fn new(options: &Options) -> Engine {
        Engine {
            store: Store::new(pages::Options { policy: options.policy, max_bytes: options.max_bytes }),
            peers: Peers {
                secret: options.secret.clone(),
                links: options.tls.as_ref().map(|tls| tls.links.clone()).unwrap_or_default(),
            },
            standing: Mutex::new(Standing { epoch: 0, part: Part::Idle }),
            arrival: Mutex::new(()),
            arrived: Condvar::new(),
            sequences: Arc::default(),
            line: Line::default(),
            sessions: Mutex::default(),
            next_session: AtomicU64::new(1),
            transactions: AtomicU32::new(0),
            limits: options.limits,
            history: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
        }
    }

    pub(super) fn is_secret(&self, secret: &[u8]) -> bool {
        self.peers.secret.ct_eq(secret).into()
    }

    /// Connects to another node for this purpose. Blocks.
    ///
    /// # Errors
    /// The node cannot be reached, or its certificate is refused.
    pub(super) fn connect(&self, address: &str, purpose: Purpose) -> io::Result<TcpStream> {
        let stream = self.peers.links.connect_blocking(address)?;
        message::write(&mut &stream, &Hello { secret: self.peers.secret.clone(), purpose })?;
        Ok(stream)
    }

    pub(super) fn standing(&self) -> Standing {
        locked(&self.standing).clone()
    }

    /// Begins an epoch, if it is a newer one than the known one, or takes a part in it; `step` runs while no version can be
    /// received.
    ///
    /// # Errors
    /// The epoch is not newer, or the step's own.
    pub(super) fn stands(
        &self,
        (known, epoch): (u64, u64),
        part: Part,
        step: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let mut standing = locked(&self.standing);
        let stands = eager_flow::Standing { epoch: standing.epoch, has_part: standing.part != Part::Idle };
        if !stands.obeys(known, epoch, part != Part::Idle) {
            return Err(format!("epoch {epoch} does not begin: this node is in epoch {}", standing.epoch));
        }
        self.line.ends("the master's epoch is over");
        step()?;
        *standing = Standing { epoch, part };
        self.changes_history();
        self.arrives();
        Ok(())
    }

    /// Runs a step that receives versions, if the node is in this epoch.
    ///
    /// # Errors
    /// It is in another one, or the step's own.
    pub(super) fn receives(
        &self,
        epoch: u64,
        step: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let standing = locked(&self.standing);
        if standing.epoch != epoch {
            return Err(format!("epoch {epoch} is over"));
        }
        step()?;
        self.arrives();
        Ok(())
    }

    /// Says that versions have been received.
    pub(super) fn arrives(&self) {
        let _held = locked(&self.arrival);
        self.arrived.notify_all();
    }

    /// Waits until the node has this version. False: it did not come in time.
    pub(super) fn wait_for(&self, version: Version, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut held = locked(&self.arrival);
        while self.store.received() < version {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            held = self.arrived.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// A session more: its number, and where it says what it runs.
    pub(super) fn enter(&self) -> (u64, Running) {
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        let running = Running::default();
        locked(&self.sessions).insert(number, running.clone());
        (number, running)
    }

    pub(super) fn leave(&self, session: u64) {
        locked(&self.sessions).remove(&session);
    }

    /// Ends the statement that a session runs, or that waits for the writer.
    pub(super) fn cancel(&self, session: u64) {
        let Some(running) = locked(&self.sessions).get(&session).cloned() else { return };
        let mut activity = locked(&running);
        match &*activity {
            Activity::Runs(statement) => statement.interrupt(),
            Activity::Waits => *activity = Activity::Canceled,
            Activity::Idle | Activity::Canceled => {}
        }
        drop(activity);
        self.line.writers.wake();
    }

    /// Says that versions may have another content than before.
    pub(super) fn changes_history(&self) {
        self.history.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of the node's history: with another one a version may have another content.
    pub(super) fn history(&self) -> u64 {
        self.history.load(Ordering::Relaxed)
    }

    pub(super) fn state(&self) -> State {
        let Standing { epoch, mut part } = self.standing();
        if matches!(part, Part::Master { .. }) && !self.line.is_master() {
            part = Part::Idle;
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        State {
            epoch,
            part,
            received: self.store.received(),
            made: self.line.made(),
            acknowledged: self.line.acknowledged(),
            transactions: self.transactions.load(Ordering::Relaxed),
            oldest: self.store.oldest_reader(),
            bytes: self.store.bytes() as u64,
            commits: count(&self.commits),
            conflicts: count(&self.conflicts),
            evicted: count(&self.evicted),
            aborted: count(&self.aborted),
        }
    }
}
