//! When a workload ends: after its time, when it is told to, or at Ctrl-C, always between two transactions, so that
//! what was measured until then is still reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A wish to end that all tasks of a workload share.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    at: Option<Instant>,
}

impl Stop {
    /// One that only `now` ends.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// One that Ctrl-C ends, too.
    #[must_use]
    pub fn at_ctrl_c() -> Stop {
        let stop = Stop::new();
        let asked = stop.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                asked.now();
            }
        });
        stop
    }

    /// The same wish, which also comes by itself after the given time.
    #[must_use]
    pub fn after(&self, time: Duration) -> Stop {
        Stop { asked: self.asked.clone(), at: Some(Instant::now() + time) }
    }

    /// Ends the workload.
    pub fn now(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    /// Whether to end.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.was_asked() || self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// Whether somebody asked for the end before its time.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}
