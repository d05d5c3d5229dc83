//! What is paused (PAUSE, SUSPEND, RESUME): new requests wait.

use super::{Leave, Seat};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

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

    /// Requests wait inside transactions too from now on.
    pub fn suspend(&self) {
        self.begin(None);
        self.suspended.set(self.suspended.get().or(Some(Instant::now())));
    }

    /// How long everybody has waited so far, in all.
    pub fn suspended_for(&self) -> Duration {
        self.was_suspended.get() + self.suspended.get().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether requests wait anywhere.
    pub fn holds_any(&self) -> bool {
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
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Requests in this database wait from now on, or in every one.
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

    /// A request that begins a transaction waits here while its database is paused, unless its client cancels it. One of which
    /// only the beginning is here (`open`) cannot be refused: it waits on.
    ///
    /// # Errors
    /// The session is sent away.
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
