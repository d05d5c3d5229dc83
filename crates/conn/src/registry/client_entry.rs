//! One client's entry in the registry: its observable state, and its disconnect signal.

mod handover;

pub use handover::CarriedSeat;

use crate::peer::Stall;
use crate::registry::cancels::Running;
use crate::registry::disconnect_reason::Leave;
use config::origin::Origin;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};
use wire::{CancelRequest, Startup, Status};

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The client logs in.
    Arriving,
    /// A replication connection: Consort relays its bytes until it ends.
    Replicating,
    /// The session waits for its client, with its transaction in this state.
    Idle(Status),
    /// The session waits for RESUME.
    Waiting,
    /// The session runs a request.
    Active,
}

/// Disconnect signal of a session, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bell {
    Silent,
    /// The session ends when it is next idle outside a transaction block.
    WhenIdle(Leave),
    /// The session ends when it next waits for anything but its statement.
    Now(Leave),
}

/// One client's entry in the registry.
#[derive(Debug)]
pub struct Seat {
    /// Number of the client in this process.
    pub id: u64,
    /// Address of the client.
    pub origin: Origin,
    /// Port of the client; 0 through a Unix socket.
    pub port: u16,
    /// Role of the client.
    pub user: String,
    /// Database of the client.
    pub database: String,
    /// `application_name` of the client.
    pub application: String,
    /// Minor version of the protocol that the client speaks.
    pub minor: u16,
    /// True if the client uses TLS.
    pub tls: bool,
    /// Time when the client connected.
    pub since: SystemTime,
    /// Process number of the session's backend at the primary.
    pub pid: Cell<i32>,
    /// Time when the session's connection at the primary was opened.
    pub opened: Cell<Option<tokio::time::Instant>>,
    /// Number of named statements that the session has prepared.
    pub prepared: Cell<usize>,
    /// Place where the session's statement runs, for cancel requests.
    pub running: Rc<Running>,
    /// Cancel key of the session.
    pub key: RefCell<Option<CancelRequest>>,
    /// Pin reason: why the session is pinned to its connection at the primary under transaction pooling.
    pub tie: RefCell<Option<&'static str>>,
    /// True once the client is authenticated: it counts among the clients of its database and its user.
    pub entered: Cell<bool>,
    doing: Cell<Doing>,
    /// Time since which the session is in its state.
    doing_since: Cell<tokio::time::Instant>,
    /// Time when the session's transaction began.
    transaction_since: Cell<Option<tokio::time::Instant>>,
    /// Time of the last request.
    asked: Cell<SystemTime>,
    requests: Cell<u64>,
    /// Time since which the session waits for a connection at the primary.
    queued: Cell<Option<Instant>>,
    /// Total time that the session's requests waited for RESUME or for a connection, since
    /// [`Seat::take_held`].
    held: Cell<Duration>,
    /// Time since which the client accepts no output.
    pub stall: Rc<Stall>,
    /// True once the stall was reported.
    stall_said: Cell<bool>,
    bell: Cell<Bell>,
    /// True while the session's statement is not terminated from outside.
    spared: Cell<bool>,
    /// Progress of the session's handover to a successor process: on its way, or the reason why it stays.
    going: Cell<Option<handover::Going>>,
    waker: RefCell<Option<Waker>>,
}

impl Seat {
    /// Creates the entry of a client that wants to log in.
    pub fn new(id: u64, origin: Origin, port: u16, tls: bool, startup: &Startup) -> Seat {
        let application = startup.parameters.iter().find(|(name, _)| name == "application_name");
        Seat {
            id,
            origin,
            port,
            user: startup.user.clone(),
            database: startup.database.clone(),
            application: application.map(|(_, value)| value.clone()).unwrap_or_default(),
            minor: startup.spoken(),
            tls,
            since: SystemTime::now(),
            pid: Cell::new(0),
            opened: Cell::new(None),
            prepared: Cell::new(0),
            running: Rc::default(),
            key: RefCell::new(None),
            tie: RefCell::new(None),
            entered: Cell::new(false),
            doing: Cell::new(Doing::Arriving),
            doing_since: Cell::new(tokio::time::Instant::now()),
            transaction_since: Cell::new(None),
            asked: Cell::new(SystemTime::now()),
            requests: Cell::new(0),
            queued: Cell::new(None),
            held: Cell::new(Duration::ZERO),
            stall: Rc::default(),
            stall_said: Cell::new(false),
            bell: Cell::new(Bell::Silent),
            spared: Cell::new(false),
            going: Cell::new(None),
            waker: RefCell::new(None),
        }
    }

    /// State of the session.
    pub fn doing(&self) -> Doing {
        self.doing.get()
    }

    /// True until the client is authenticated.
    pub fn is_stranger(&self) -> bool {
        self.doing.get() == Doing::Arriving && !self.entered.get()
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Marks the session as waiting for its client. The time since which it is idle stays, if it was idle
    /// already.
    pub fn idle(&self, status: Status) {
        if self.doing.get() != Doing::Idle(status) {
            self.begins(Doing::Idle(status));
        }
        if status == Status::Idle {
            self.transaction_since.set(None);
        }
    }

    fn begins(&self, doing: Doing) {
        self.doing.set(doing);
        self.doing_since.set(tokio::time::Instant::now());
    }

    /// Time since which the session is in its state.
    pub fn doing_since(&self) -> tokio::time::Instant {
        self.doing_since.get()
    }

    /// Time when the session's transaction began, if one is open.
    pub fn transaction_since(&self) -> Option<tokio::time::Instant> {
        self.transaction_since.get()
    }

    /// Time of the last request.
    pub fn asked(&self) -> SystemTime {
        self.asked.get()
    }

    /// True while the session waits for a connection at the primary.
    pub fn is_queued(&self) -> bool {
        self.queued.get().is_some()
    }

    /// Marks the session as waiting for a connection.
    pub fn queues(&self) {
        self.queued.set(Some(Instant::now()));
    }

    /// Marks the session as no longer waiting: it has a connection, or has given up.
    pub fn is_served(&self) {
        self.held.set(self.held.get() + self.waited());
        self.queued.set(None);
    }

    /// Time that the current request has been waiting for RESUME or for a connection.
    pub fn waited(&self) -> Duration {
        if let Some(since) = self.queued.get() {
            return since.elapsed();
        }
        match self.doing.get() {
            Doing::Waiting => self.asked.get().elapsed().unwrap_or_default(),
            Doing::Arriving | Doing::Idle(_) | Doing::Active | Doing::Replicating => Duration::ZERO,
        }
    }

    /// The same total as [`Seat::take_held`], which stays as it is.
    pub fn held(&self) -> Duration {
        self.held.get()
    }

    /// Total time that requests waited for RESUME or for a connection, since the last call.
    pub fn take_held(&self) -> Duration {
        self.held.take()
    }

    /// Marks the request as going on after RESUME.
    pub fn goes_on(&self) {
        self.held.set(self.held.get() + self.waited());
    }

    /// True, once per stall, if the client has accepted no output for at least `limit` although an answer is
    /// ready.
    pub fn stalls(&self, limit: Duration, now: tokio::time::Instant) -> bool {
        self.stall.get().is_some_and(|since| now - since > limit) && !self.stall_said.replace(true)
    }

    /// Marks the session as waiting for RESUME.
    pub fn waits(&self) {
        self.begins(Doing::Waiting);
        self.asked.set(SystemTime::now());
    }

    /// Marks the session as a replication connection, whose bytes are relayed from now on.
    pub fn replicates(&self) {
        self.begins(Doing::Replicating);
    }

    /// Marks the session as running a request from now on.
    pub fn active(&self) {
        self.begins(Doing::Active);
        self.transaction_since.set(self.transaction_since.get().or(Some(self.doing_since.get())));
        self.spared.set(false);
        self.going.set(None);
        self.asked.set(SystemTime::now());
        self.requests.set(self.requests.get() + 1);
    }

    /// Signals the session to end: outside a block, or at once.
    pub fn ring(&self, at_once: bool, why: Leave) {
        if !matches!(self.bell.get(), Bell::Now(_)) {
            self.bell.set(if at_once { Bell::Now(why) } else { Bell::WhenIdle(why) });
        }
        self.wake();
    }

    /// Wakes the session, if it waits, to look at its signals.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// True if the session was signalled to end at once.
    pub fn is_sent_away(&self) -> bool {
        matches!(self.bell.get(), Bell::Now(_))
    }

    /// The reason why the session must end before it begins anything else, if it must.
    pub fn rung(&self, outside_block: bool) -> Option<Leave> {
        match self.bell.get() {
            Bell::Now(why) => Some(why),
            Bell::WhenIdle(why) if outside_block => Some(why),
            Bell::Silent | Bell::WhenIdle(_) => None,
        }
    }

    /// Protects the statement from termination until the next request: the session ends when the statement is
    /// over.
    ///
    /// # Errors
    /// The session must end already, and its statement may be terminated at any moment.
    pub fn spare(&self) -> Result<(), Leave> {
        match self.bell.get() {
            Bell::Now(why) => Err(why),
            Bell::Silent | Bell::WhenIdle(_) => {
                self.spared.set(true);
                Ok(())
            }
        }
    }

    /// True while the statement is not terminated from outside.
    pub fn is_spared(&self) -> bool {
        self.spared.get()
    }

    /// True if the session was disconnected and ends when its statement is over.
    pub fn goes_behind(&self) -> bool {
        self.is_spared() && matches!(self.bell.get(), Bell::Now(_))
    }

    /// The reason why a waiting session must end now, if it must. If not, the session is woken when it must.
    pub fn must_leave(&self, outside_block: bool, cx: &Context<'_>) -> Option<Leave> {
        if let Some(why) = self.rung(outside_block) {
            return Some(why);
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        None
    }

    /// Completes when the session must end at once.
    pub async fn sent_away(&self) -> Leave {
        poll_fn(|cx| match self.must_leave(false, cx) {
            Some(why) => Poll::Ready(why),
            None => Poll::Pending,
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_to_leave_at_once_has_been_told_for_good() {
        let startup = Startup { user: "ann".to_owned(), ..Startup::default() };
        let seat = Seat::new(1, Origin::Local, 0, false, &startup);
        assert!(!seat.is_sent_away() && seat.rung(true).is_none());
        seat.ring(false, Leave::Ending);
        assert!(!seat.is_sent_away());
        assert_eq!((seat.rung(false), seat.rung(true)), (None, Some(Leave::Ending)));
        seat.ring(true, Leave::Query);
        seat.ring(true, Leave::Transaction);
        assert!(seat.is_sent_away());
        assert_eq!(seat.rung(false), Some(Leave::Query));
    }
}
