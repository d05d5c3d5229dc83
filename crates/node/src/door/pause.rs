//! PAUSE, SUSPEND and RESUME: transactions, or statements, that are open may end, new requests wait.

use super::{Doing, Door, Leave, Seat};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use wire::Status;

/// How often is looked whether the last transaction has ended.
const QUIET_EVERY: Duration = Duration::from_millis(5);

/// What is paused.
#[derive(Debug, Default)]
pub struct Pauses {
    /// Something is: the only thing that a request looks at as long as nothing is.
    any: Cell<bool>,
    all: Cell<bool>,
    /// Everybody waits, inside transactions too.
    suspended: Cell<Option<Instant>>,
    /// How long that lasted each time before, in all.
    was_suspended: Cell<Duration>,
    databases: RefCell<BTreeSet<String>>,
    changed: Notify,
}

impl Pauses {
    /// Whether requests in this database wait.
    pub fn holds(&self, database: &str) -> bool {
        self.any.get() && (self.all.get() || self.databases.borrow().contains(database))
    }

    /// Whether requests wait inside transactions too.
    pub fn suspended(&self) -> bool {
        self.suspended.get().is_some()
    }

    /// How long everybody has waited so far, in all.
    pub(crate) fn suspended_for(&self) -> Duration {
        self.was_suspended.get() + self.suspended.get().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether requests wait anywhere.
    pub(crate) fn holds_any(&self) -> bool {
        self.any.get()
    }

    /// Whether requests wait in every database.
    pub fn all(&self) -> bool {
        self.all.get()
    }

    /// The databases whose requests wait.
    pub fn databases(&self) -> Vec<String> {
        self.databases.borrow().iter().cloned().collect()
    }

    /// Completes when a pause ends.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn begin(&self, database: Option<&str>) {
        match database {
            None => self.all.set(true),
            Some(name) => drop(self.databases.borrow_mut().insert(name.to_owned())),
        }
        self.any.set(true);
    }

    /// Ends the pause of a database, or every pause.
    fn end(&self, database: Option<&str>) {
        match database {
            None => {
                self.all.set(false);
                self.was_suspended.set(self.suspended_for());
                self.suspended.set(None);
                self.databases.borrow_mut().clear();
            }
            Some(name) => drop(self.databases.borrow_mut().remove(name)),
        }
        self.any.set(self.all.get() || !self.databases.borrow().is_empty());
        self.changed.notify_waiters();
    }

    /// A request that begins a transaction waits here while its database is paused, unless its client cancels it. One of which
    /// only the beginning is here (`open`) cannot be refused: it waits on.
    ///
    /// # Errors
    /// The session is sent away.
    pub(crate) async fn pass(&self, seat: &Seat, open: bool) -> Result<(), Leave> {
        while self.holds(&seat.database) && (open || !seat.running.is_cancelled()) {
            let changed = self.changed.notified();
            seat.waits();
            tokio::select! {
                () = changed => {}
                () = seat.running.cancelled_while_held() => {}
                why = seat.sent_away() => return Err(why),
            }
            seat.goes_on();
        }
        if open {
            seat.running.forget();
        }
        Ok(())
    }
}

impl Door {
    /// Holds new transactions in one database or all, and waits until none is open there.
    ///
    /// # Errors
    /// How many transactions are still open after `limit`. The pause stays in effect.
    pub async fn pause(&self, database: Option<&str>, limit: Duration) -> Result<(), String> {
        self.pauses.begin(database);
        tracing::warn!(database, "paused: new transactions wait until RESUME");
        let open = self.quiet(limit, is_open).await;
        open.map_err(|open| {
            format!("{open} transactions are still open after {limit:?}; new ones wait until RESUME")
        })
    }

    /// Holds every request, inside transactions too, and waits until none runs.
    ///
    /// # Errors
    /// How many still run after `limit`. The others are held all the same.
    pub async fn suspend(&self, limit: Duration) -> Result<(), String> {
        self.pauses.begin(None);
        let suspended = &self.pauses.suspended;
        suspended.set(suspended.get().or(Some(Instant::now())));
        tracing::warn!("suspended: every statement waits until RESUME");
        // Who waits for a connection has begun nothing, and gets none before RESUME.
        let open = self.quiet(limit, |seat| seat.doing() == Doing::Active && !seat.is_queued()).await;
        open.map_err(|open| format!("{open} statements still run after {limit:?}; others wait until RESUME"))
    }

    /// Waits until no client of what is paused is like this, at most for `limit`; then it says how many are.
    async fn quiet(&self, limit: Duration, is_open: fn(&Seat) -> bool) -> Result<(), usize> {
        let deadline = Instant::now() + limit;
        loop {
            let seats = self.seats();
            let paused = seats.iter().filter(|seat| self.pauses.holds(&seat.database));
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

    /// Lets new transactions in again.
    pub fn resume(&self, database: Option<&str>) {
        let was_held = self.pauses.holds_any();
        self.pauses.end(database);
        if was_held {
            tracing::info!(database, "resumed");
        }
    }
}

/// Whether a transaction is open in this session.
fn is_open(seat: &Seat) -> bool {
    match seat.doing() {
        Doing::Arriving | Doing::Replicating | Doing::Waiting | Doing::Idle(Status::Idle) => false,
        Doing::Idle(_) | Doing::Active => true,
    }
}
