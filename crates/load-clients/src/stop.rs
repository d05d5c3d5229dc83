//! End of a workload: after its time, at a request, or at Ctrl-C, always between two transactions, so that
//! the measurements until then are still reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A request to end that all tasks of a workload share.
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

    /// A stop that also comes automatically after the given time.
    #[must_use]
    pub fn after(&self, time: Duration) -> Stop {
        Stop { asked: self.asked.clone(), at: Some(Instant::now() + time) }
    }

    /// Ends the workload.
    pub fn now(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    /// True if to end.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.was_asked() || self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// True if the user asked for the end before its time.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}
