//! The time of the next message that keeps a backend from ending its session as idle.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Number of times that the backend is woken within its limit. The backend ends an idle session late by at
/// most this part of the limit, and never early.
const PARTS: u32 = 4;

/// Keeps a backend from taking its session for idle.
///
/// Invariant: while the session is busy unnoticed by the backend, `timer` is set, and is due a part of the
/// limit after the last message to the backend.
#[derive(Default)]
pub struct Awake {
    /// Maximum silence towards the backend while the session is busy.
    every: Option<Duration>,
    spoken: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Awake {
    /// Sets the backend's limit for an idle session.
    pub fn ends_when_idle_for(&mut self, limit: Option<Duration>) {
        self.every = limit.map(|limit| limit / PARTS);
    }

    /// Records a message to the backend. The backend's idle clock starts again when the message is processed.
    pub fn spoken(&mut self) {
        if self.every.is_some() {
            self.spoken = Some(Instant::now());
            self.timer = None;
        }
    }

    /// Records that the session is busy without the backend's knowledge.
    pub fn busy(&mut self) {
        let Some(every) = self.every.filter(|_| self.timer.is_none()) else { return };
        let due = self.spoken.map_or_else(Instant::now, |spoken| spoken + every);
        self.timer = Some(Box::pin(tokio::time::sleep_until(due)));
    }

    /// True once each time that a message is due.
    pub fn poll_due(&mut self, cx: &mut Context<'_>) -> bool {
        self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
    }
}
