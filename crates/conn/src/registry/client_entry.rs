//! The place of one client: what others may see of it, and the bell that tells it to leave.

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

/// What a session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It logs in.
    Arriving,
    /// Bytes of a replication connection pass, for as long as they come.
    Replicating,
    /// It waits for its client, with its transaction in this state.
    Idle(Status),
    /// It waits for RESUME.
    Waiting,
    /// It runs a request.
    Active,
}

/// Whether a session must go, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bell {
    Silent,
    /// When it is next idle outside a transaction block.
    WhenIdle(Leave),
    /// When it next waits for something but its statement.
    Now(Leave),
}

/// The place of one client.
#[derive(Debug)]
pub struct Seat {
    /// Its number in this process.
    pub id: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// Its port there; 0 through a Unix socket.
    pub port: u16,
    /// Its role.
    pub user: String,
    /// Its database.
    pub database: String,
    /// What it calls itself.
    pub application: String,
    /// The minor version of the protocol that it speaks.
    pub minor: u16,
    /// It speaks TLS.
    pub tls: bool,
    /// When it came.
    pub since: SystemTime,
    /// Its backend at the primary.
    pub pid: Cell<i32>,
    /// When its connection there was opened.
    pub opened: Cell<Option<tokio::time::Instant>>,
    /// Named statements that it has prepared.
    pub prepared: Cell<usize>,
    /// What it runs, for those who may cancel it.
    pub running: Rc<Running>,
    /// What cancels it.
    pub key: RefCell<Option<CancelRequest>>,
    /// Why it keeps its connection at the primary to itself, where sessions share them.
    pub tie: RefCell<Option<&'static str>>,
    /// It has proven who it is, and counts among the clients of its database and its user.
    pub entered: Cell<bool>,
    doing: Cell<Doing>,
    /// Since when it does that.
    doing_since: Cell<tokio::time::Instant>,
    /// Since when its transaction is open.
    transaction_since: Cell<Option<tokio::time::Instant>>,
    /// When its last request came.
    asked: Cell<SystemTime>,
    requests: Cell<u64>,
    /// Since when it waits for a connection at the primary.
    queued: Cell<Option<Instant>>,
    /// How long its requests have waited for RESUME or for a connection since it was asked last.
    held: Cell<Duration>,
    /// Since when its client takes nothing of what is to leave.
    pub stall: Rc<Stall>,
    /// That was said.
    stall_said: Cell<bool>,
    bell: Cell<Bell>,
    /// What it runs is not ended from outside.
    spared: Cell<bool>,
    /// Why it is not in another process yet that takes over, or that it is on its way there.
    going: Cell<Option<handover::Going>>,
    waker: RefCell<Option<Waker>>,
}

impl Seat {
    /// A place for a client that wants to log in.
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

    /// What the session does.
    pub fn doing(&self) -> Doing {
        self.doing.get()
    }

    /// Whether it has not proven yet who it is.
    pub fn is_stranger(&self) -> bool {
        self.doing.get() == Doing::Arriving && !self.entered.get()
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// It waits for its client. A session that was idle already has been idle since then.
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

    /// Since when it does what it does.
    pub fn doing_since(&self) -> tokio::time::Instant {
        self.doing_since.get()
    }

    /// Since when its transaction is open, if one is.
    pub fn transaction_since(&self) -> Option<tokio::time::Instant> {
        self.transaction_since.get()
    }

    /// When its last request came.
    pub fn asked(&self) -> SystemTime {
        self.asked.get()
    }

    /// It waits for a connection at the primary.
    pub fn is_queued(&self) -> bool {
        self.queued.get().is_some()
    }

    /// It begins to wait for a connection.
    pub fn queues(&self) {
        self.queued.set(Some(Instant::now()));
    }

    /// It has got one, or has given up.
    pub fn is_served(&self) {
        self.held.set(self.held.get() + self.waited());
        self.queued.set(None);
    }

    /// How long its request has been waiting for RESUME, or for a connection.
    pub fn waited(&self) -> Duration {
        if let Some(since) = self.queued.get() {
            return since.elapsed();
        }
        match self.doing.get() {
            Doing::Waiting => self.asked.get().elapsed().unwrap_or_default(),
            Doing::Arriving | Doing::Idle(_) | Doing::Active | Doing::Replicating => Duration::ZERO,
        }
    }

    /// The same, to be asked again.
    pub fn held(&self) -> Duration {
        self.held.get()
    }

    /// How long its requests have waited for RESUME or for a connection since this was asked last.
    pub fn take_held(&self) -> Duration {
        self.held.take()
    }

    /// Its request goes on after RESUME.
    pub fn goes_on(&self) {
        self.held.set(self.held.get() + self.waited());
    }

    /// Its client has taken nothing for so long of an answer that is there for it. Once.
    pub fn stalls(&self, limit: Duration, now: tokio::time::Instant) -> bool {
        self.stall.get().is_some_and(|since| now - since > limit) && !self.stall_said.replace(true)
    }

    /// The session waits for RESUME.
    pub fn waits(&self) {
        self.begins(Doing::Waiting);
        self.asked.set(SystemTime::now());
    }

    /// Bytes of a replication connection pass from now on.
    pub fn replicates(&self) {
        self.begins(Doing::Replicating);
    }

    /// The session runs a request from now on.
    pub fn active(&self) {
        self.begins(Doing::Active);
        self.transaction_since.set(self.transaction_since.get().or(Some(self.doing_since.get())));
        self.spared.set(false);
        self.going.set(None);
        self.asked.set(SystemTime::now());
        self.requests.set(self.requests.get() + 1);
    }

    /// Tells the session to leave: when it is outside a block, or at once.
    pub fn ring(&self, at_once: bool, why: Leave) {
        if !matches!(self.bell.get(), Bell::Now(_)) {
            self.bell.set(if at_once { Bell::Now(why) } else { Bell::WhenIdle(why) });
        }
        self.wake();
    }

    /// The session looks, if it waits, what there is for it.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether it was told to leave at once.
    pub fn is_sent_away(&self) -> bool {
        matches!(self.bell.get(), Bell::Now(_))
    }

    /// Why the session must go before it begins anything else, if it must.
    pub fn rung(&self, outside_block: bool) -> Option<Leave> {
        match self.bell.get() {
            Bell::Now(why) => Some(why),
            Bell::WhenIdle(why) if outside_block => Some(why),
            Bell::Silent | Bell::WhenIdle(_) => None,
        }
    }

    /// Until its next request, what it runs is not ended from outside: it goes when that is over. The error: it must go already,
    /// and what it ran may be ended at any moment.
    pub fn spare(&self) -> Result<(), Leave> {
        match self.bell.get() {
            Bell::Now(why) => Err(why),
            Bell::Silent | Bell::WhenIdle(_) => {
                self.spared.set(true);
                Ok(())
            }
        }
    }

    /// What it runs is not ended from outside.
    pub fn is_spared(&self) -> bool {
        self.spared.get()
    }

    /// It was sent away, and goes when what it runs is over.
    pub fn goes_behind(&self) -> bool {
        self.is_spared() && matches!(self.bell.get(), Bell::Now(_))
    }

    /// The session waits: must it go? If not, it is woken when it must.
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

    /// Completes when the session must go at once.
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
