//! Paused databases (PAUSE, SUSPEND, RESUME): new requests wait.

use super::{Leave, Seat};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Databases that are paused.
#[derive(Debug, Default)]
pub struct Pauses {
    /// True if any database is paused: the only field that a request reads otherwise.
    any: Cell<bool>,
    all: Cell<bool>,
    /// Time since which every request waits, inside transactions too (SUSPEND).
    suspended: Cell<Option<Instant>>,
    /// Total duration of earlier suspensions.
    was_suspended: Cell<Duration>,
    databases: RefCell<BTreeSet<String>>,
    changed: Notify,
}

impl Pauses {
    /// True if requests in this database wait.
    pub fn holds(&self, database: &str) -> bool {
        self.any.get() && (self.all.get() || self.databases.borrow().contains(database))
    }

    /// True if requests wait inside transactions too.
    pub fn suspended(&self) -> bool {
        self.suspended.get().is_some()
    }

    /// Makes requests wait inside transactions too, from now on.
    pub fn suspend(&self) {
        self.begin(None);
        self.suspended.set(self.suspended.get().or(Some(Instant::now())));
    }

    /// Total duration of all suspensions so far.
    pub fn suspended_for(&self) -> Duration {
        self.was_suspended.get() + self.suspended.get().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// True if requests wait in any database.
    pub fn holds_any(&self) -> bool {
        self.any.get()
    }

    /// True if requests wait in every database.
    pub fn all(&self) -> bool {
        self.all.get()
    }

    /// The databases whose requests wait.
    pub fn databases(&self) -> Vec<String> {
        self.databases.borrow().iter().cloned().collect()
    }

    /// Completes when a pause ends.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Pauses a database, or every database.
    pub fn begin(&self, database: Option<&str>) {
        match database {
            None => self.all.set(true),
            Some(name) => drop(self.databases.borrow_mut().insert(name.to_owned())),
        }
        self.any.set(true);
    }

    /// Ends the pause of a database, or every pause.
    pub fn end(&self, database: Option<&str>) {
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

    /// Waits while the database is paused, before a request that begins a transaction, unless the client
    /// cancels the request. A request that has only arrived in part (`open`) cannot be refused: it waits on.
    ///
    /// # Errors
    /// The session is disconnected.
    pub async fn pass(&self, seat: &Seat, open: bool) -> Result<(), Leave> {
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
