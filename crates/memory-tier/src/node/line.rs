//! The master's line of commits: one writer makes versions, every member receives them, then they are shown in their order.

use super::engine::{Engine, Running, locked};
use super::sequences::Sequences;
use super::transaction::{Client, Desk, Transaction, Values, gone, simple};
use crate::message::{FRAME_LIMIT, Failure, Version};
use pages::WriteSet;
use rusqlite::InterruptHandle;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of write sets that are kept for members that connect again.
const KEPT: usize = 64 << 20;
/// Bytes of a frame around a write set, at most.
const ROOM: usize = 1 << 10;
/// Subscribers look this often whether their epoch is over.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A write set on its way, encoded.
pub(super) type Encoded = Arc<Vec<u8>>;

/// The line. Without a writer the node is no master.
#[derive(Default)]
pub(super) struct Line {
    /// The one writer; whoever holds it makes the next version.
    pub(super) writer: Mutex<Option<Making>>,
    /// Ends the statement that the writer runs.
    interrupt: Mutex<Option<InterruptHandle>>,
    state: Mutex<State>,
    moved: Condvar,
}

/// The writer's connection and what its transactions need.
pub(super) struct Making {
    pub(super) writer: pages::Writer,
    pub(super) desk: Desk,
    pub(super) sequences: Arc<Sequences>,
}

#[derive(Default)]
struct State {
    /// The master's epoch; `None`: the node is no master.
    epoch: Option<u64>,
    members: BTreeSet<String>,
    /// Versions that each subscriber has, and the number of its subscription.
    has: BTreeMap<String, (u64, Version)>,
    subscriptions: u64,
    /// Write sets that are not shown yet, in their order.
    pending: VecDeque<(Version, WriteSet)>,
    /// Encoded write sets, the oldest first; some are shown already.
    kept: VecDeque<(Version, Encoded)>,
    kept_bytes: usize,
    made: Version,
    shown: Version,
}

/// The next step of a subscription.
pub(super) enum Next {
    /// These write sets.
    Sets(Vec<(Version, Encoded)>),
    /// The master has none so old.
    TooOld,
    /// The epoch is over.
    Over,
}

impl Line {
    /// The node is the master from this version on.
    pub(super) fn begins(&self, epoch: u64, members: &[String], making: Making, from: Version) {
        *locked(&self.interrupt) = Some(making.writer.connection().get_interrupt_handle());
        *locked(&self.writer) = Some(making);
        let mut state = locked(&self.state);
        *state = State { epoch: Some(epoch), made: from, shown: from, ..State::default() };
        state.members = members.iter().cloned().collect();
        drop(state);
        self.moved.notify_all();
    }

    /// The node is no master any more: what waits gets no answer but that.
    pub(super) fn ends(&self, why: &str) {
        let was = locked(&self.state).epoch.take();
        self.moved.notify_all();
        // A commit that holds the writer ends soon: it does not wait for members there.
        if let Some(handle) = locked(&self.interrupt).take() {
            handle.interrupt();
        }
        let making = locked(&self.writer).take();
        if was.is_some() {
            tracing::info!(why, "no master any more");
        }
        drop(making);
    }

    /// Sets the members, which must receive a write set. Other subscribers delay no commit.
    pub(super) fn members(&self, engine: &Engine, epoch: u64, names: Vec<String>) -> Result<(), String> {
        let mut state = locked(&self.state);
        if state.epoch != Some(epoch) {
            return Err(format!("epoch {epoch} is not this master's"));
        }
        state.members = names.into_iter().collect();
        self.advance(engine, &mut state);
        Ok(())
    }

    /// Puts a write set into the line. The caller holds the writer, so versions come in their order.
    ///
    /// # Errors
    /// The epoch is over.
    pub(super) fn push(&self, engine: &Engine, set: WriteSet) -> Result<Version, Failure> {
        let version = set.version;
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        let mut state = locked(&self.state);
        if state.epoch.is_none() {
            return Err(gone());
        }
        if bytes.len() > FRAME_LIMIT - ROOM {
            // The writer has made a version that cannot be shipped: the part of the master ends here.
            state.epoch = None;
            self.moved.notify_all();
            let hint = "Change the rows in several transactions.";
            let why =
                format!("the transaction changes {} bytes of pages, too many for one commit", bytes.len());
            return Err(Failure { hint: hint.to_owned(), ..simple("54000", &why) });
        }
        state.made = version;
        state.kept_bytes += bytes.len();
        state.kept.push_back((version, Arc::new(bytes)));
        state.pending.push_back((version, set));
        while state.kept_bytes > KEPT
            && state.kept.front().is_some_and(|(version, _)| *version <= state.shown)
        {
            let dropped = state.kept.pop_front().map_or(0, |(_, bytes)| bytes.len());
            state.kept_bytes -= dropped;
        }
        self.advance(engine, &mut state);
        Ok(version)
    }

    /// Whether the node is the master of this epoch.
    pub(super) fn is_of(&self, epoch: u64) -> bool {
        locked(&self.state).epoch == Some(epoch)
    }

    /// Whether the node is a master.
    pub(super) fn is_master(&self) -> bool {
        locked(&self.state).epoch.is_some()
    }

    /// The newest version that was made.
    pub(super) fn made(&self) -> Version {
        locked(&self.state).made
    }

    /// The newest version that is shown.
    pub(super) fn shown(&self) -> Version {
        locked(&self.state).shown
    }

    /// Waits until a version is shown.
    ///
    /// # Errors
    /// The epoch ended before.
    pub(super) fn until_shown(&self, version: Version) -> Result<(), Failure> {
        let mut state = locked(&self.state);
        while state.shown < version {
            if state.epoch.is_none() {
                return Err(unknown());
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// A subscriber has all versions up to this one.
    pub(super) fn received(
        &self,
        engine: &Engine,
        epoch: u64,
        (name, number): (&str, u64),
        version: Version,
    ) {
        let mut state = locked(&self.state);
        let is_newest = state.has.get(name).is_none_or(|(known, _)| *known <= number);
        if state.epoch == Some(epoch) && is_newest {
            state.has.insert(name.to_owned(), (number, version));
            self.advance(engine, &mut state);
        }
    }

    /// The number of a new subscription.
    pub(super) fn subscribes(&self) -> u64 {
        let mut state = locked(&self.state);
        state.subscriptions += 1;
        state.subscriptions
    }

    /// A subscriber has gone. It holds up commits for as long as it is a member.
    pub(super) fn leaves(&self, epoch: u64, (name, number): (&str, u64)) {
        let mut state = locked(&self.state);
        if state.epoch == Some(epoch) && state.has.get(name).is_some_and(|(known, _)| *known == number) {
            state.has.remove(name);
        }
    }

    /// Waits for write sets above a version.
    pub(super) fn next(&self, epoch: u64, above: Version) -> Next {
        let mut state = locked(&self.state);
        loop {
            if state.epoch != Some(epoch) {
                return Next::Over;
            }
            if state.made > above {
                let oldest = state.kept.front().map_or(Version::MAX, |(version, _)| *version);
                if oldest > above + 1 {
                    return Next::TooOld;
                }
                let from = usize::try_from(above + 1 - oldest).expect("a position in memory");
                return Next::Sets(state.kept.iter().skip(from).cloned().collect());
            }
            state = self.moved.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            if state.made <= above {
                return Next::Sets(Vec::new());
            }
        }
    }

    /// Whether write sets above this version are still kept.
    pub(super) fn keeps_above(&self, version: Version) -> bool {
        let state = locked(&self.state);
        version <= state.made
            && (version == state.made || state.kept.front().is_some_and(|(oldest, _)| *oldest <= version + 1))
    }

    /// Shows what every member has received.
    fn advance(&self, engine: &Engine, state: &mut State) {
        let least =
            state.members.iter().map(|name| state.has.get(name).map_or(0, |(_, version)| *version)).min();
        let until = least.unwrap_or(Version::MAX);
        let before = state.shown;
        while state.pending.front().is_some_and(|(version, _)| *version <= until) {
            let (version, set) = state.pending.pop_front().expect("looked at");
            if let Err(gap) = engine.store.receive(set) {
                tracing::error!(version, %gap, "a version cannot be shown");
                state.epoch = None;
                break;
            }
            state.shown = version;
        }
        if state.shown > before {
            engine.store.acknowledge(state.shown);
            engine.arrives();
        }
        self.moved.notify_all();
    }
}

/// The flow of a commit: the statements again under the one writer, all members have the diffs, the version is shown.
pub(super) fn commit_eager(
    engine: &Engine,
    client: &Client,
    transaction: &Transaction,
    values: Values,
    running: &Running,
) -> Result<Version, Failure> {
    let version = {
        let mut writer = locked(&engine.line.writer);
        let making = writer.as_mut().ok_or_else(gone)?;
        match transaction.replay(engine, client, values, making, running)? {
            Some(set) => engine.line.push(engine, set)?,
            // What it has read may not be shown yet.
            None => engine.line.made(),
        }
    };
    engine.line.until_shown(version)?;
    engine.commits.fetch_add(1, Ordering::Relaxed);
    Ok(version)
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
