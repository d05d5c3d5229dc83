//! The one writer of a master. One transaction holds it; others wait, until they are canceled or have waited too long.

use super::engine::{Activity, Running, locked};
use super::transaction::{CANCELED, Making, gone, simple};
use crate::message::Failure;
use rusqlite::InterruptHandle;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The writer, and who waits for it.
#[derive(Default)]
pub(super) struct WriterQueue {
    slot: Mutex<Slot>,
    /// The writer was put back, the epoch has ended, or a waiting transaction was canceled.
    changed: Condvar,
}

#[derive(Default)]
struct Slot {
    /// The master's epoch; `None`: the node has no writer.
    epoch: Option<u64>,
    /// The writer, if no transaction holds it.
    free: Option<Making>,
    /// Ends the statement that the writer runs.
    interrupt: Option<InterruptHandle>,
}

/// The writer while a transaction holds it.
pub(super) struct HeldWriter<'a> {
    queue: &'a WriterQueue,
    pub(super) epoch: u64,
    making: Option<Making>,
}

impl WriterQueue {
    /// The node is the master of an epoch.
    pub(super) fn begin(&self, epoch: u64, making: Making) {
        let interrupt = Some(making.writer.connection().get_interrupt_handle());
        *locked(&self.slot) = Slot { epoch: Some(epoch), free: Some(making), interrupt };
        self.changed.notify_all();
    }

    /// The node is no master any more. A transaction that holds the writer is interrupted, and not waited for.
    pub(super) fn end(&self) {
        let ended = std::mem::take(&mut *locked(&self.slot));
        if let Some(interrupt) = ended.interrupt {
            interrupt.interrupt();
        }
        self.changed.notify_all();
    }

    /// A transaction that waits may have been canceled.
    pub(super) fn wake(&self) {
        let _held = locked(&self.slot);
        self.changed.notify_all();
    }

    /// Waits for the writer, at most for `limit`.
    ///
    /// # Errors
    /// 57014: canceled. 55P03: it has waited too long. Else the node is no master.
    pub(super) fn take(&self, running: &Running, limit: Option<Duration>) -> Result<HeldWriter<'_>, Failure> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        *locked(running) = Activity::Waits;
        let taken = self.wait(running, deadline);
        *locked(running) = Activity::Idle;
        if taken.is_err() {
            // The wake-up of a writer that was put back may have been this one's.
            self.changed.notify_one();
        }
        taken
    }

    fn wait(&self, running: &Running, deadline: Option<Instant>) -> Result<HeldWriter<'_>, Failure> {
        let mut slot = locked(&self.slot);
        loop {
            let Some(epoch) = slot.epoch else { return Err(gone()) };
            if matches!(*locked(running), Activity::Canceled) {
                return Err(simple(CANCELED, "canceling statement due to user request"));
            }
            if let Some(making) = slot.free.take() {
                return Ok(HeldWriter { queue: self, epoch, making: Some(making) });
            }
            slot = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let hint = "Another transaction runs at the master. lock_timeout limits this wait.";
                    let why = "canceling statement due to lock timeout";
                    return Err(Failure { hint: hint.to_owned(), ..simple("55P03", why) });
                }
                Some(left) => self.changed.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl Deref for HeldWriter<'_> {
    type Target = Making;

    fn deref(&self) -> &Making {
        self.making.as_ref().expect("held until it is dropped")
    }
}

impl DerefMut for HeldWriter<'_> {
    fn deref_mut(&mut self) -> &mut Making {
        self.making.as_mut().expect("held until it is dropped")
    }
}

impl Drop for HeldWriter<'_> {
    fn drop(&mut self) {
        let mut slot = locked(&self.queue.slot);
        if slot.epoch == Some(self.epoch) {
            slot.free = self.making.take();
        }
        drop(slot);
        self.queue.changed.notify_one();
    }
}
