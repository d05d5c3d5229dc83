//! PAUSE, SUSPEND and RESUME: open transactions, or statements, may end, and new requests wait.

use super::Door;
use conn::registry::{Doing, Seat};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wire::Status;

/// Interval between checks for the end of the last transaction.
const QUIET_EVERY: Duration = Duration::from_millis(5);

impl Door {
    /// Holds new transactions in one database or all, and waits until none is open there.
    ///
    /// # Errors
    /// The number of transactions that are still open after `limit`. The pause stays in effect.
    pub async fn pause(&self, database: Option<&str>, limit: Duration) -> Result<(), String> {
        self.registry.pauses.begin(database);
        tracing::warn!(database, "paused; new transactions wait until RESUME");
        let open = self.quiet(limit, is_open).await;
        open.map_err(|open| {
            format!("{open} transactions are still open after {limit:?}; new ones wait until RESUME")
        })
    }

    /// Holds every request, inside transactions too, and waits until none runs.
    ///
    /// # Errors
    /// The number of requests that still run after `limit`. The others are held all the same.
    pub async fn suspend(&self, limit: Duration) -> Result<(), String> {
        self.registry.pauses.suspend();
        tracing::warn!("suspended; all statements wait until RESUME");
        // A client that waits for a connection has begun nothing, and gets none before RESUME.
        let open = self.quiet(limit, |seat| seat.doing() == Doing::Active && !seat.is_queued()).await;
        open.map_err(|open| format!("{open} statements still run after {limit:?}; others wait until RESUME"))
    }

    /// Waits until `is_open` holds for no client of the pause, at most for `limit`. Then the error is the
    /// number of such clients.
    async fn quiet(&self, limit: Duration, is_open: fn(&Seat) -> bool) -> Result<(), usize> {
        let deadline = Instant::now() + limit;
        loop {
            let seats = self.registry.seats();
            let paused = seats.iter().filter(|seat| self.registry.pauses.holds(&seat.database));
            let clients = paused.filter(|seat| seat.database != self.options.console_database);
            let open = clients.filter(|seat| is_open(seat)).count();
            if open == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(open);
            }
            sleep(QUIET_EVERY).await;
        }
    }

    /// Admits new transactions again.
    pub fn resume(&self, database: Option<&str>) {
        let was_held = self.registry.pauses.holds_any();
        self.registry.pauses.end(database);
        if was_held {
            tracing::info!(database, "resumed");
        }
    }
}

/// Returns true if a transaction is open in this session.
fn is_open(seat: &Seat) -> bool {
    match seat.doing() {
        Doing::Arriving | Doing::Replicating | Doing::Idle(Status::Idle) => false,
        // SUSPEND holds statements inside transactions too.
        Doing::Waiting => seat.transaction_since().is_some(),
        Doing::Idle(_) | Doing::Active => true,
    }
}
