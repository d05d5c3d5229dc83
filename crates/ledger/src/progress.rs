//! A watermark that futures and threads wait for.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Error;

/// A watermark, or the reason why it goes no further. The value only rises.
#[derive(Debug)]
pub(crate) struct Progress {
    /// As in the state, for a look without the lock.
    value: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    value: u64,
    failed: Option<Error>,
    /// Futures that wait, by what they wait for.
    waiting: BTreeMap<(u64, u64), Waker>,
    tickets: u64,
}

impl State {
    fn outcome(&self, goal: u64) -> Option<Result<(), Error>> {
        if self.value >= goal { Some(Ok(())) } else { self.failed.clone().map(Err) }
    }
}

impl Progress {
    pub(crate) fn new(value: u64) -> Progress {
        let state = State { value, ..State::default() };
        Progress { value: AtomicU64::new(value), state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Moves forward, and wakes the futures and threads that waited for it.
    pub(crate) fn advance(&self, to: u64) {
        let mut state = self.state();
        if to <= state.value {
            return;
        }
        state.value = to;
        self.value.store(to, Ordering::Release);
        let later = match to.checked_add(1) {
            Some(above) => state.waiting.split_off(&(above, 0)),
            None => BTreeMap::new(),
        };
        let reached = std::mem::replace(&mut state.waiting, later);
        drop(state);
        self.changed.notify_all();
        reached.into_values().for_each(Waker::wake);
    }

    /// Fails all futures that are not reached. The first reason stays.
    pub(crate) fn fail(&self, error: &Error) {
        let mut state = self.state();
        state.failed.get_or_insert_with(|| error.clone());
        let all = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        all.into_values().for_each(Waker::wake);
    }

    /// A future that ends when the watermark has come to the goal.
    pub(crate) fn reached(self: &Arc<Progress>, goal: u64) -> Reached {
        Reached { progress: Arc::clone(self), goal, refused: None, ticket: None }
    }

    /// A future that ends at once with an error.
    pub(crate) fn refused(self: &Arc<Progress>, error: Error) -> Reached {
        Reached { progress: Arc::clone(self), goal: u64::MAX, refused: Some(error), ticket: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The lock is never held across code that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that ends when the ledger has come as far as was asked for. It works in each runtime.
#[derive(Debug)]
#[must_use = "a future says what has been reached when it is waited for"]
pub struct Reached {
    progress: Arc<Progress>,
    goal: u64,
    refused: Option<Error>,
    ticket: Option<u64>,
}

impl Reached {
    /// Blocks the thread until the future would end.
    ///
    /// # Errors
    /// The future's.
    pub fn wait(self) -> Result<(), Error> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        let mut state = self.progress.state();
        loop {
            if let Some(outcome) = state.outcome(self.goal) {
                return outcome;
            }
            state = self.progress.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Reached {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Some(error) = &self.refused {
            return Poll::Ready(Err(error.clone()));
        }
        if self.progress.value() >= self.goal {
            return Poll::Ready(Ok(()));
        }
        let this = &mut *self;
        let mut state = this.progress.state();
        if let Some(outcome) = state.outcome(this.goal) {
            return Poll::Ready(outcome);
        }
        let ticket = *this.ticket.get_or_insert_with(|| {
            state.tickets += 1;
            state.tickets
        });
        state.waiting.insert((this.goal, ticket), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket
            && self.progress.value() < self.goal
        {
            self.progress.state().waiting.remove(&(self.goal, ticket));
        }
    }
}
