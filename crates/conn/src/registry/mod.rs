//! The registry of clients: who is here, what others may see of it and do to it, and what tells its session to leave or to
//! go to another process. Sessions know it; the front end, which lets clients in, stands above both.
//!
//! It does not know how a client logs in, nor what a session runs.

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

/// A last word takes no longer than this to leave.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// What a client still sends after the last word is read for so long, so that closing does not destroy that word.
const LINGER_LIMIT: Duration = Duration::from_millis(250);

/// The clients of one process.
pub struct Registry {
    /// The thread's spare buffers.
    pub rooms: Rooms,
    /// Who may cancel what.
    pub cancels: Cancels,
    /// What PAUSE holds.
    pub pauses: Rc<Pauses>,
    /// To another process, which takes over.
    pub moves: Moves,
    /// The database that is no database but the console.
    pub console_database: String,
    primary: Option<Place>,
    seats: RefCell<BTreeMap<u64, Rc<Seat>>>,
    next_seat: Cell<u64>,
    /// Log lines about clients who were not even heard.
    unheard: RefCell<Sparing>,
    /// Log lines about clients that do what a client does not.
    unruly: RefCell<Sparing>,
}

impl Registry {
    /// Nobody is here yet; this is the primary.
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

    /// A line in the log, unless there are many of its kind: nobody who was not let in fills the disk.
    pub fn note_unheard(&self, why: &str) {
        if let Some(unsaid) = self.unheard.borrow_mut().may(tokio::time::Instant::now()) {
            tracing::warn!(unsaid, "{why}");
        }
    }

    /// A line about a client that does what a client does not, unless there are many of its kind.
    pub fn note_unruly(&self, seat: &Seat, why: &str) {
        if let Some(unsaid) = self.unruly.borrow_mut().may(tokio::time::Instant::now()) {
            let Seat { id, user, database, application, port, .. } = seat;
            tracing::warn!(client = id, user, database, application, from = %seat.origin, port, unsaid, "an unruly client: {why}");
        }
    }

    /// The same of one that has not said yet who it is.
    pub fn note_stranger(&self, from: Origin, port: u16, why: &str) {
        if let Some(unsaid) = self.unruly.borrow_mut().may(tokio::time::Instant::now()) {
            tracing::warn!(%from, port, unsaid, "an unruly client: {why}");
        }
    }

    /// Where the primary is.
    pub fn primary(&self) -> Option<Place> {
        self.primary.clone()
    }

    /// All clients that have a place.
    pub fn seats(&self) -> Vec<Rc<Seat>> {
        self.seats.borrow().values().cloned().collect()
    }

    /// The client has left its place.
    pub fn leave(&self, seat: &Seat) {
        self.seats.borrow_mut().remove(&seat.id);
        if let Some(key) = seat.key.take() {
            self.cancels.leave(&key);
        }
    }

    /// Lets a last word reach the client, then closes.
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

    /// A place for a client that wants to log in.
    pub fn take_seat(&self, origin: Origin, port: u16, tls: bool, startup: &Startup) -> Rc<Seat> {
        let id = self.next_id();
        let seat = Rc::new(Seat::new(id, origin, port, tls, startup));
        if self.moves.empties.get() {
            seat.ring(true, Leave::Ending);
        }
        self.seats.borrow_mut().insert(id, seat.clone());
        seat
    }

    /// So many clients are like this.
    pub fn count_like(&self, is_alike: impl Fn(&Seat) -> bool) -> usize {
        self.seats.borrow().values().filter(|seat| is_alike(seat)).count()
    }

    /// So many clients have a place.
    pub fn count(&self) -> usize {
        self.seats.borrow().len()
    }

    /// The client of this number.
    pub fn seat(&self, id: u64) -> Option<Rc<Seat>> {
        self.seats.borrow().get(&id).cloned()
    }

    fn next_id(&self) -> u64 {
        self.next_seat.replace(self.next_seat.get() + 1)
    }

    /// Sends these away at once. The processes at the primary that are to be ended for it. Who is spared goes by itself when what
    /// it runs is over.
    pub fn send_away(self: &Rc<Registry>, seats: &[Rc<Seat>], why: Leave) -> Vec<i32> {
        seats.iter().for_each(|seat| seat.ring(true, why));
        let not_spared = seats.iter().filter(|seat| !seat.is_spared()).cloned();
        self.cut_off(&not_spared.collect::<Vec<_>>())
    }

    /// Cancels what these sessions run at standbys: nobody is left to hear of its end. The processes of those that run something at
    /// the primary, which are to be ended instead: a COMMIT that waits for a synchronous standby would be acknowledged if it were
    /// cancelled.
    pub fn cut_off(self: &Rc<Registry>, seats: &[Rc<Seat>]) -> Vec<i32> {
        let mut at_primary = Vec::new();
        for seat in seats.iter().filter(|seat| seat.doing() == Doing::Active) {
            let Some(key) = seat.key.borrow().clone() else { continue };
            if seat.running.is_away().is_some() {
                let registry = self.clone();
                tokio::task::spawn_local(async move { registry.cancels.cancel(&key).await });
            } else if seat.pid.get() != 0 {
                // What is to end there must not meet another client.
                seat.running.strike();
                at_primary.push(seat.pid.get());
            }
        }
        at_primary
    }
}
