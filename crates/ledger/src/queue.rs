//! Records that wait for the writer, and what else it is to do.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use history::Version;

use crate::Error;
use crate::record::{RECORD_LIMIT, encode};

/// Bytes of an emptied buffer that are kept for the next group.
const KEPT_BUFFER: usize = 4 << 20;

/// Work for the writer.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Records in their order, as [`encode`] leaves them.
    pub(crate) group: Vec<u8>,
    /// The version of the first of them, and of the last.
    pub(crate) versions: Option<(u64, u64)>,
    /// Forget what lies below.
    pub(crate) forget_below: u64,
    /// The ledger is closed after this work.
    pub(crate) is_last: bool,
}

/// The queue between those who append and the writer.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// The writer waits for this, while it has nothing to do.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    work: Work,
    /// The newest record that was appended.
    newest: Option<u64>,
    failed: Option<Error>,
    writer_waits: bool,
    /// A call has asked to forget since the writer looked.
    forgets: bool,
}

impl Queue {
    pub(crate) fn new(newest: Option<u64>) -> Queue {
        let state = State { newest, ..State::default() };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn newest(&self) -> Option<u64> {
        self.state().newest
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.state().work.group.len()
    }

    /// Adds a record.
    pub(crate) fn push(&self, version: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > RECORD_LIMIT {
            return Err(Error::TooLarge { bytes: bytes.len() });
        }
        let mut state = self.state();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let expected = state.newest.map_or(version.max(1), |newest| newest + 1);
        if version != expected {
            return Err(Error::OutOfOrder { expected: Version::new(expected), got: Version::new(version) });
        }
        encode(version, bytes, &mut state.work.group);
        let first = state.work.versions.map_or(version, |(first, _)| first);
        state.work.versions = Some((first, version));
        state.newest = Some(version);
        self.wake(state);
        Ok(())
    }

    pub(crate) fn forget_below(&self, version: u64) {
        let mut state = self.state();
        state.work.forget_below = state.work.forget_below.max(version);
        state.forgets = true;
        self.wake(state);
    }

    /// Whether something waits for the writer.
    pub(crate) fn has_work(&self) -> bool {
        let state = self.state();
        !state.work.group.is_empty() || state.forgets || state.work.is_last
    }

    /// The writer is to end after what waits.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.work.is_last = true;
        self.wake(state);
    }

    /// The writer has failed or ended: nothing is taken any more. The first reason stays.
    pub(crate) fn fail(&self, error: &Error) {
        self.state().failed.get_or_insert_with(|| error.clone());
    }

    /// Waits until there is something to do, and takes all of it. The emptied buffer of the group before is used again.
    pub(crate) fn take(&self, mut emptied: Vec<u8>) -> Work {
        let mut state = self.state();
        while state.work.group.is_empty() && !state.forgets && !state.work.is_last {
            state.writer_waits = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.writer_waits = false;
        state.forgets = false;
        emptied.clear();
        emptied.shrink_to(KEPT_BUFFER);
        Work {
            group: std::mem::replace(&mut state.work.group, emptied),
            versions: state.work.versions.take(),
            forget_below: state.work.forget_below,
            is_last: state.work.is_last,
        }
    }

    /// Wakes the writer if it waits, with the lock given back first.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let waits = std::mem::take(&mut state.writer_waits);
        drop(state);
        if waits {
            self.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Callers' mistakes are errors: no code under the lock panics for them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
