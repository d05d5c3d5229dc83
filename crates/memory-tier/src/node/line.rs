//! The master's line of commits, between threads: one writer makes versions, every member receives them, then they are shown.

use super::engine::{Engine, Running, locked};
use super::transaction::{Client, Making, gone, simple};
use super::writer_queue::{HeldWriter, WriterQueue};
use crate::message::{Failure, Version};
use eager_flow::{Bugs, Master, Next};
use pages::WriteSet;
use std::cell::Cell;
use std::pin::pin;
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Bytes of write sets that are kept for members that connect again.
const KEPT: usize = 64 << 20;
/// Subscribers look this often whether their epoch is over.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An encoded commit on its way.
pub(super) struct Commit {
    pub(super) set: Vec<u8>,
    /// Rows and definitions, for the log; empty: they are not noted.
    pub(super) changes: Vec<u8>,
}

/// A write set, and the encoded changes for the log.
pub(super) type Made = (WriteSet, Vec<u8>);

/// The line. Without a writer the node is no master.
pub(super) struct Line {
    pub(super) writers: WriterQueue,
    state: Mutex<State>,
    moved: Condvar,
}

/// Versions on their way, and their encoding.
type State = eager_flow::Line<WriteSet, Commit>;

impl Default for Line {
    fn default() -> Line {
        let state = Mutex::new(State::new(KEPT, Bugs::default()));
        Line { writers: WriterQueue::default(), state, moved: Condvar::new() }
    }
}

impl Line {
    /// The node is the master from this version on.
    pub(super) fn begins(&self, epoch: u64, members: &[String], making: Making, from: Version) {
        locked(&self.state).begin(epoch, members, from);
        self.writers.begin(epoch, making);
        self.moved.notify_all();
    }

    /// The node is no master any more: what waits gets no answer but that.
    pub(super) fn ends(&self, why: &str) {
        let was_master = locked(&self.state).end();
        self.moved.notify_all();
        self.writers.end();
        if was_master {
            tracing::info!(why, "no master any more");
        }
    }

    /// Sets the members, which must receive a write set. Other subscribers delay no commit.
    pub(super) fn members(&self, engine: &Engine, epoch: u64, names: Vec<String>) -> Result<(), String> {
        let mut state = locked(&self.state);
        if !state.set_members(epoch, names) {
            return Err(format!("epoch {epoch} is not this master's"));
        }
        self.advance(engine, &mut state);
        Ok(())
    }

    /// Puts a write set of the epoch's writer into the line.
    ///
    /// # Errors
    /// The epoch is over, or ends here: the write set is too large.
    pub(super) fn push(&self, engine: &Engine, epoch: u64, (set, changes): Made) -> Result<Version, Failure> {
        let version = set.version;
        let mut commit = Commit { set: Vec::new(), changes };
        set.encode(&mut commit.set);
        let size = commit.set.len() + commit.changes.len();
        let mut state = locked(&self.state);
        if size > engine.limits.write_set_bytes {
            // The writer has made a version that cannot be shipped: the part of the master ends here.
            if state.epoch() == Some(epoch) {
                state.end();
            }
            self.moved.notify_all();
            let hint = "Change the rows in several transactions.";
            let why = format!("the transaction changes {size} bytes of pages, too many for one commit");
            return Err(Failure { hint: hint.to_owned(), ..simple("54000", &why) });
        }
        if !state.push(epoch, version, set, (commit, size)) {
            return Err(gone());
        }
        self.advance(engine, &mut state);
        Ok(version)
    }

    /// Whether the node is the master of this epoch.
    pub(super) fn is_of(&self, epoch: u64) -> bool {
        locked(&self.state).epoch() == Some(epoch)
    }

    /// Whether the node is a master.
    pub(super) fn is_master(&self) -> bool {
        locked(&self.state).epoch().is_some()
    }

    /// The newest version that was made.
    pub(super) fn made(&self) -> Version {
        locked(&self.state).made()
    }

    /// The newest version that is shown.
    pub(super) fn shown(&self) -> Version {
        locked(&self.state).shown()
    }

    /// The newest version that each subscriber has acknowledged.
    pub(super) fn acknowledged(&self) -> Vec<(String, Version)> {
        locked(&self.state).acknowledged()
    }

    /// A subscriber has all versions up to this one.
    pub(super) fn received(&self, engine: &Engine, epoch: u64, whose: (&str, u64), version: Version) {
        let mut state = locked(&self.state);
        state.received(epoch, whose, version);
        self.advance(engine, &mut state);
    }

    /// The number of a new subscription.
    pub(super) fn subscribes(&self) -> u64 {
        locked(&self.state).subscribe()
    }

    /// A subscriber has gone. It holds up commits for as long as it is a member.
    pub(super) fn leaves(&self, epoch: u64, whose: (&str, u64)) {
        locked(&self.state).leave(epoch, whose);
    }

    /// Waits for write sets above a version.
    pub(super) fn next(&self, epoch: u64, above: Version) -> Next<Commit> {
        let state = locked(&self.state);
        match state.next(epoch, above) {
            Next::Sets(none) if none.is_empty() => {
                let waited = self.moved.wait_timeout(state, LOOK_EVERY);
                waited.unwrap_or_else(PoisonError::into_inner).0.next(epoch, above)
            }
            next => next,
        }
    }

    /// Whether write sets above this version are still kept.
    pub(super) fn keeps_above(&self, version: Version) -> bool {
        locked(&self.state).keeps_above(version)
    }

    /// Shows what every member has received.
    fn advance(&self, engine: &Engine, state: &mut State) {
        let has_shown = state.advance(|version, set| {
            let received = engine.store.receive(set);
            received.inspect_err(|gap| tracing::error!(version, %gap, "a version cannot be shown")).is_ok()
        });
        if has_shown {
            engine.store.acknowledge(state.shown());
            engine.arrives();
        }
        self.moved.notify_all();
    }
}

/// The master of a session's commit. Its steps block their thread.
pub(super) struct SessionMaster<'a> {
    engine: &'a Engine,
    running: &'a Running,
    /// Maximum wait for the writer.
    limit: Option<Duration>,
    /// Epoch of the writer.
    epoch: Cell<u64>,
}

impl<'a> Master for SessionMaster<'a> {
    type Writer = HeldWriter<'a>;
    type WriteSet = Made;
    type Failure = Failure;

    async fn writer(&self) -> Result<HeldWriter<'a>, Failure> {
        let held = self.engine.line.writers.take(self.running, self.limit)?;
        self.epoch.set(held.epoch);
        Ok(held)
    }

    fn push(&self, writer: &HeldWriter<'a>, made: Made) -> Result<Version, Failure> {
        self.engine.line.push(self.engine, writer.epoch, made)
    }

    fn made(&self, _: &HeldWriter<'a>) -> Version {
        self.engine.line.made()
    }

    async fn until_shown(&self, version: Version, is_change: bool) -> Result<(), Failure> {
        let line = &self.engine.line;
        let mut state = locked(&line.state);
        loop {
            match state.has_shown(self.epoch.get(), version) {
                Some(true) => return Ok(()),
                Some(false) => state = line.moved.wait(state).unwrap_or_else(PoisonError::into_inner),
                None if is_change => return Err(unknown()),
                None => return Err(gone()),
            }
        }
    }
}

/// Runs a transaction under the writer and waits until it is shown: its answer, and the version that shows it.
///
/// # Errors
/// As of the flow.
pub(super) fn commit_eager<T>(
    engine: &Engine,
    client: &Client,
    running: &Running,
    work: impl FnOnce(&mut Making) -> Result<(T, Option<Made>), Failure>,
) -> Result<(Result<T, Failure>, Version), Failure> {
    let master = SessionMaster { engine, running, limit: client.lock_timeout, epoch: Cell::new(0) };
    let flow = eager_flow::commit_eager(&master, async |writer: &mut HeldWriter<'_>| match work(writer) {
        Ok((answer, made)) => (Ok(answer), made),
        // The end of the epoch interrupts a statement as a cancel request does.
        Err(_) if !engine.line.is_of(writer.epoch) => (Err(gone()), None),
        Err(failure) => (Err(failure), None),
    });
    match pin!(flow).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("the steps of a session's master block"),
    }
}

/// A commit that may, or may not, have taken effect.
fn unknown() -> Failure {
    Failure {
        sqlstate: "08007".to_owned(),
        message: "the master has lost its part before the commit was acknowledged".to_owned(),
        detail: String::new(),
        hint: "Look whether the changes are there before you run the transaction again.".to_owned(),
        position: 0,
    }
}
