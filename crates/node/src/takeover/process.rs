//! Steps of a whole process in a takeover, on either side.

use super::successor::follows;
use super::{Heir, PID_FILE};
use crate::listen_addresses::Places;
use crate::process::{FAREWELL_LIMIT, LEFT_EVERY, Process, Signals};
use crate::start_error::StartError;
use conn::registry::{Leave, Seat};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

/// Maximum wait for the predecessor's leader lease, where only the leader may serve. After that another
/// Consort has it.
const LEAD_LIMIT: Duration = Duration::from_secs(10);

impl Process {
    /// Accepts connections at these addresses from now on.
    pub(crate) fn serve_at(self: &Rc<Self>, places: Places) {
        *self.over.served.borrow_mut() = places.serve(&self.door, self.clone());
    }

    // The process that takes over.

    /// Takes over, and serves from then on. `false`: it was asked to end before, and the predecessor goes on.
    pub(crate) async fn inherits(
        self: &Rc<Self>,
        heir: Heir,
        places: Places,
        signals: &mut Signals,
    ) -> Result<bool, StartError> {
        let before = heir.pid;
        self.door.process_numbers.begin_at(heir.part);
        for database in &heir.disabled {
            self.door.disable(database, true);
        }
        let lead = self.cluster.lead();
        let alone = lead.is_alone();
        let mut inheritance = tokio::select! {
            all = heir.receives(alone) => all.map_err(StartError::new)?,
            () = self.asked_to_end(signals) => return Ok(false),
        };
        inheritance.is_handed_over().await.map_err(StartError::new)?;
        // From here on nothing may fail: no other process has the clients.
        if alone {
            lead.follows_in_order();
            if timeout(LEAD_LIMIT, lead.until_leads()).await.is_err() {
                tracing::warn!("another Consort leads; redirecting the clients of the previous process");
            }
        }
        if let Some(file) = &*self.pid_file.borrow()
            && let Err(error) = write_pid(file)
        {
            tracing::warn!(%error, "cannot write the PID file");
        }
        let cancels = self.door.registry.comes_behind();
        let clients = inheritance.begins(self);
        self.serve_at(places);
        tracing::info!(clients, before, "takeover complete");
        spawn_local(follows(self.clone(), inheritance, cancels));
        Ok(true)
    }

    // The process that serves.

    /// Copies of what listens, and of what holds the process's number.
    pub(crate) fn sockets(&self) -> Vec<(String, OwnedFd)> {
        let mut sockets = self.over.served.borrow().sockets();
        let pid_file = self.pid_file.borrow().as_ref().and_then(|file| file.try_clone().ok());
        sockets.extend(pid_file.map(|file| (PID_FILE.to_owned(), OwnedFd::from(file))));
        sockets
    }

    /// Waits until no transaction is open that began before that moment, here or at the predecessor, at most
    /// for `shutdown_drain_timeout`. Console commands do not count.
    pub(super) async fn older_transactions_end(&self, than: Instant) {
        let config = self.config();
        let began_before = |seat: &Seat| seat.transaction_since().is_some_and(|since| since < than);
        let is_older = || {
            let seats = self.door.registry.seats();
            seats.iter().any(|seat| seat.database != config.console_database && began_before(seat))
        };
        let limit = config.shutdown_drain_timeout;
        while (is_older() || self.door.registry.is_somebody_before()) && than.elapsed() < limit {
            sleep(LEFT_EVERY).await;
        }
    }

    /// Disconnects clients at once that could not go over in time.
    pub(super) async fn cut_off_who_is_left(self: &Rc<Self>) {
        self.door.registry.sends_newcomers_away();
        let seats = self.door.registry.seats();
        let console = self.config().console_database.clone();
        let is_left = |seat: &Rc<Seat>| !seat.has_gone() && seat.database != console;
        let left: Vec<_> = seats.into_iter().filter(is_left).collect();
        let at_primary = self.door.registry.send_away(&left, Leave::Ending);
        self.end_at_primary(at_primary).await;
        let deadline = Instant::now() + FAREWELL_LIMIT;
        while !self.door.registry.nobody_but_strangers() && Instant::now() < deadline {
            sleep(LEFT_EVERY).await;
        }
    }

    /// All of it is another process's: sockets, and the lead.
    pub(super) fn is_taken_over(&self, alone: bool) {
        self.over.is_over.set(true);
        self.over.alone.set(alone);
        self.door.registry.accepts_nobody_ever();
        self.over.served.take().are_anothers();
        drop(self.pid_file.take());
        // The predecessor's answer during the handover counts to its end, even if the configuration was read
        // again meanwhile.
        self.cluster.lead().set_alone(alone);
        if !alone {
            self.cluster.lead().resign();
            if let Some(service) = &*self.door.service.borrow() {
                service.servers.let_go(None);
            }
        }
        self.over.changed.notify_waiters();
    }

    /// Completes when another process has taken over.
    pub(crate) async fn until_taken_over(&self) {
        loop {
            let changed = self.over.changed.notified();
            if self.over.is_so() {
                return;
            }
            changed.await;
        }
    }

    /// Another process has taken over: serves the remaining clients until the last one has left.
    pub(crate) async fn remains(self: &Rc<Self>, signals: &mut Signals) {
        let alone = self.over.alone.get();
        let left = async {
            // A client of the predecessor goes on to the next process.
            while (self.door.is_anybody_here() || self.door.registry.is_somebody_before()) && !alone {
                sleep(LEFT_EVERY).await;
            }
        };
        tokio::select! {
            () = left => {}
            () = self.asked_to_end(signals) => return self.end(signals).await,
        }
        self.door.close(true);
        self.cluster.stop();
        tracing::info!("shut down after the handover");
    }
}

/// Writes the number of this process into its file, which another one held before.
fn write_pid(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
