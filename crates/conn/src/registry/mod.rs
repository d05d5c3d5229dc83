//! The registry of clients: all clients, their observable state, and the signals to disconnect them or to
//! hand them over. Sessions know the registry; the frontend, which admits clients, stands above both.
//!
//! The registry knows neither how a client logs in, nor what a session runs.

mod cancels;
mod client_entry;
mod disconnect_reason;
mod handover;
mod log_rate_limit;
mod pauses;

pub use cancels::{Cancel, Cancels, Running, Spared, pass_on};
pub use client_entry::{CarriedSeat, Doing, Seat};
pub use disconnect_reason::Leave;
pub use handover::{Moved, Moves, Moving};
pub use log_rate_limit::Sparing;
pub use pauses::Pauses;

use crate::peer::{Peer, Rooms};
use crate::socket::Place;
use config::origin::Origin;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::timeout;
use wire::Startup;

/// Time limit for sending the last message to a client.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// Time for which input after the last message is still read, so that closing the socket does not destroy
/// that message.
const LINGER_LIMIT: Duration = Duration::from_millis(250);

/// The clients of one process.
pub struct Registry {
    /// Spare buffers of the thread.
    pub rooms: Rooms,
    /// Cancel requests, by session.
    pub cancels: Cancels,
    /// Databases that PAUSE holds.
    pub pauses: Rc<Pauses>,
    /// Handover to a successor process.
    pub moves: Moves,
    /// Name of the database that is the console.
    pub console_database: String,
    primary: Option<Place>,
    seats: RefCell<BTreeMap<u64, Rc<Seat>>>,
    next_seat: Cell<u64>,
    /// Rate limit of log lines about clients that were refused before they sent a start-up message.
    unheard: RefCell<Sparing>,
    /// Rate limit of log lines about misbehaving clients.
    unruly: RefCell<Sparing>,
}

impl Registry {
    /// Creates an empty registry, for this primary.
    pub fn new(console_database: String, primary: Option<Place>) -> Registry {
        Registry {
            rooms: Rooms::default(),
            cancels: Cancels::default(),
            pauses: Rc::default(),
            moves: Moves::default(),
            console_database,
            primary,
            seats: RefCell::default(),
            next_seat: Cell::new(1),
            unheard: RefCell::default(),
            unruly: RefCell::default(),
        }
    }

    /// Logs a line about a refused client, unless there are many such lines: refused clients must not fill
    /// the disk.
    pub fn note_unheard(&self, why: &str) {
        if let Some(unsaid) = self.unheard.borrow_mut().may(tokio::time::Instant::now()) {
            tracing::warn!(unsaid, "{why}");
        }
    }

    /// Logs a line about a misbehaving client, unless there are many such lines.
    pub fn note_unruly(&self, seat: &Seat, why: &str) {
        if let Some(unsaid) = self.unruly.borrow_mut().may(tokio::time::Instant::now()) {
            let Seat { id, user, database, application, port, .. } = seat;
            tracing::warn!(client = id, user, database, application, from = %seat.origin, port, unsaid, "misbehaving client: {why}");
        }
    }

    /// Logs a line about a misbehaving client that has not identified itself yet, unless there are many such
    /// lines.
    pub fn note_stranger(&self, from: Origin, port: u16, why: &str) {
        if let Some(unsaid) = self.unruly.borrow_mut().may(tokio::time::Instant::now()) {
            tracing::warn!(%from, port, unsaid, "misbehaving client: {why}");
        }
    }

    /// Address of the primary.
    pub fn primary(&self) -> Option<Place> {
        self.primary.clone()
    }

    /// Entries of all clients.
    pub fn seats(&self) -> Vec<Rc<Seat>> {
        self.seats.borrow().values().cloned().collect()
    }

    /// Removes a client's entry.
    pub fn leave(&self, seat: &Seat) {
        self.seats.borrow_mut().remove(&seat.id);
        if let Some(key) = seat.key.take() {
            self.cancels.leave(&key);
        }
    }

    /// Sends the last message to the client, then closes.
    pub async fn farewell(&self, mut client: Peer) {
        if timeout(FAREWELL_LIMIT, client.finish()).await.is_err() {
            return;
        }
        let _ = timeout(LINGER_LIMIT, async {
            loop {
                let come = client.unread().len();
                client.consume(come);
                if client.fill().await.is_err() {
                    return;
                }
            }
        })
        .await;
    }

    /// Creates the entry of a client that wants to log in.
    pub fn take_seat(&self, origin: Origin, port: u16, tls: bool, startup: &Startup) -> Rc<Seat> {
        let id = self.next_id();
        let seat = Rc::new(Seat::new(id, origin, port, tls, startup));
        if self.moves.empties.get() {
            seat.ring(true, Leave::Ending);
        }
        self.seats.borrow_mut().insert(id, seat.clone());
        seat
    }

    /// Number of clients for which `is_alike` holds.
    pub fn count_like(&self, is_alike: impl Fn(&Seat) -> bool) -> usize {
        self.seats.borrow().values().filter(|seat| is_alike(seat)).count()
    }

    /// Number of clients.
    pub fn count(&self) -> usize {
        self.seats.borrow().len()
    }

    /// The client with this number.
    pub fn seat(&self, id: u64) -> Option<Rc<Seat>> {
        self.seats.borrow().get(&id).cloned()
    }

    fn next_id(&self) -> u64 {
        self.next_seat.replace(self.next_seat.get() + 1)
    }

    /// Disconnects these clients at once. Returns the processes at the primary that must be terminated for
    /// it. A protected session ends later, when its statement is over.
    pub fn send_away(self: &Rc<Registry>, seats: &[Rc<Seat>], why: Leave) -> Vec<i32> {
        seats.iter().for_each(|seat| seat.ring(true, why));
        let not_spared = seats.iter().filter(|seat| !seat.is_spared()).cloned();
        self.cut_off(&not_spared.collect::<Vec<_>>())
    }

    /// Cancels the statements that these sessions run at standbys: no client is left to receive their
    /// answers. Returns the processes of the sessions that run something at the primary, which must be
    /// terminated instead. A cancelled COMMIT that waits for a synchronous standby would be acknowledged.
    pub fn cut_off(self: &Rc<Registry>, seats: &[Rc<Seat>]) -> Vec<i32> {
        let mut at_primary = Vec::new();
        for seat in seats.iter().filter(|seat| seat.doing() == Doing::Active) {
            let Some(key) = seat.key.borrow().clone() else { continue };
            if seat.running.is_away().is_some() {
                let registry = self.clone();
                tokio::task::spawn_local(async move { registry.cancels.cancel(&key).await });
            } else if seat.pid.get() != 0 {
                // The termination must not hit another client on the same connection.
                seat.running.strike();
                at_primary.push(seat.pid.get());
            }
        }
        at_primary
    }
}
