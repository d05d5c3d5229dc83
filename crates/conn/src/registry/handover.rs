//! Handover of idle sessions to a successor process. Each session is asked, writes itself down, and waits
//! until its arrival there is confirmed or refused (`node::takeover`).

use super::{CarriedSeat, Doing, Registry, Seat};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::sync::mpsc::{
    OwnedPermit, Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel,
};
use tokio::sync::oneshot;
use wire::{CancelRequest, Status};

/// Maximum number of sessions on their way at a time. Each holds its client's socket twice meanwhile, and the
/// process may have few descriptors left.
const ON_THEIR_WAY: usize = 64;

/// Outcome of a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The session belongs to the successor process: nothing of it is touched here any more.
    There,
    /// The session goes on here.
    Back,
}

/// A session on its way to the successor process.
#[derive(Debug)]
pub struct Moving {
    /// The handover message.
    pub carried: Vec<u8>,
    /// A copy of the client's socket.
    pub socket: OwnedFd,
    /// Confirms the arrival. If it is dropped instead, the session goes on here.
    pub moved: oneshot::Sender<()>,
}

/// State of the handover, and of accepting clients.
#[derive(Debug, Default)]
pub struct Moves {
    to: RefCell<Option<Sender<Moving>>>,
    /// No client is accepted for now.
    pub closed: Cell<bool>,
    /// No client is ever accepted again: the listening sockets belong to the successor process.
    pub over: Cell<bool>,
    /// New clients are disconnected at once, as all others were before.
    pub empties: Cell<bool>,
    /// A takeover has begun, or has failed.
    pub changed: Notify,
    /// Channel to the predecessor process, for cancel requests of sessions that are not here.
    pub before: RefCell<Option<UnboundedSender<CancelRequest>>>,
}

impl Moves {
    /// True if the session of this entry, which waits for its client, is to go over now.
    pub fn asks(&self, seat: &Seat) -> bool {
        let is_idle = seat.doing() == Doing::Idle(Status::Idle) && seat.rung(true).is_none();
        self.to.borrow().is_some() && is_idle && !seat.was_asked()
    }
}

impl Registry {
    /// Starts the handover: idle sessions go over, and come out of the returned receiver. Earlier reasons to
    /// stay no longer count.
    pub fn begins_to_move(&self) -> Receiver<Moving> {
        let (to, moving) = channel(ON_THEIR_WAY);
        *self.moves.to.borrow_mut() = Some(to);
        for seat in self.seats() {
            seat.is_back();
            seat.wake();
        }
        moving
    }

    /// Stops accepting clients from now on; connections that arrive wait.
    pub fn accepts_nobody(&self) {
        self.moves.closed.set(true);
        self.moves.changed.notify_waiters();
    }

    /// Stops accepting clients for good: the listening sockets belong to the successor process.
    pub fn accepts_nobody_ever(&self) {
        self.moves.over.set(true);
        self.accepts_nobody();
    }

    /// Ends a takeover that failed: all sessions go on here.
    pub fn goes_on(&self) {
        *self.moves.to.borrow_mut() = None;
        self.moves.closed.set(false);
        self.moves.empties.set(false);
        self.moves.changed.notify_waiters();
    }

    /// Waits while no client is accepted. Returns `false` if none will be accepted any more.
    pub async fn may_accept(&self) -> bool {
        while self.moves.closed.get() && !self.moves.over.get() {
            let changed = self.moves.changed.notified();
            changed.await;
        }
        !self.moves.over.get()
    }

    /// Waits until clients are no longer accepted.
    pub async fn closes(&self) {
        while !self.moves.closed.get() {
            let changed = self.moves.changed.notified();
            changed.await;
        }
    }

    /// Waits until the session may go over. `None`: the session goes on here.
    pub async fn may_go(&self, seat: &Seat) -> Option<OwnedPermit<Moving>> {
        let to = self.moves.to.borrow().clone()?;
        tokio::select! {
            way = to.reserve_owned() => way.ok(),
            _ = seat.sent_away() => None,
        }
    }

    /// Hands a session over, and waits for the outcome.
    pub async fn hands_over(
        &self,
        seat: &Seat,
        way: OwnedPermit<Moving>,
        carried: Vec<u8>,
        socket: OwnedFd,
    ) -> Moved {
        let (moved, told) = oneshot::channel();
        way.send(Moving { carried, socket, moved });
        seat.goes();
        match told.await {
            Ok(()) => Moved::There,
            Err(_) => {
                seat.is_back();
                Moved::Back
            }
        }
    }

    /// Creates an entry for a client that comes from the predecessor process.
    pub fn takes_in(&self, carried: CarriedSeat) -> Option<Rc<Seat>> {
        let id = self.next_id();
        let seat = Rc::new(carried.seat(id)?);
        if let Some(key) = seat.key.borrow().clone() {
            self.cancels.enter(key, seat.running.clone());
        }
        self.seats.borrow_mut().insert(id, seat.clone());
        Some(seat)
    }

    /// Registers a predecessor process. Sessions that are not here may be the predecessor's, and it receives
    /// their cancel requests from the returned receiver.
    pub fn comes_behind(&self) -> UnboundedReceiver<CancelRequest> {
        let (to, cancels) = unbounded_channel();
        *self.moves.before.borrow_mut() = Some(to);
        cancels
    }

    /// True if the predecessor process still runs, and may send clients.
    pub fn is_somebody_before(&self) -> bool {
        self.moves.before.borrow().is_some()
    }

    /// Records that the predecessor process has ended.
    pub fn nobody_is_before(&self) {
        *self.moves.before.borrow_mut() = None;
    }

    /// True if no clients are left, apart from clients that are not authenticated yet.
    pub fn nobody_but_strangers(&self) -> bool {
        let console = &self.console_database;
        let is_none = |seat: &Rc<Seat>| seat.has_gone() || seat.is_stranger() || seat.database == *console;
        self.seats().iter().all(is_none)
    }

    /// Disconnects every new client as soon as it has an entry.
    pub fn sends_newcomers_away(&self) {
        self.moves.empties.set(true);
    }

    /// Cancels a session's statement, wherever it runs, in this process or in the predecessor.
    pub async fn cancel(&self, request: &CancelRequest) {
        let before = self.moves.before.borrow().clone();
        match before {
            // A process that has ended has no sessions.
            Some(before) if !self.cancels.knows(request) => {
                let _ = before.send(request.clone());
            }
            _ => self.cancels.cancel(request).await,
        }
    }

    /// True if a session here could go over and has neither gone nor decided to stay. A session whose client
    /// does not read its answer is not waited for.
    pub fn is_to_move(&self) -> bool {
        let console = &self.console_database;
        let is_to = |seat: &Rc<Seat>| self.moves.asks(seat) && seat.stall.get().is_none();
        self.seats().iter().any(|seat| seat.database != *console && is_to(seat))
    }

    /// Reasons of the sessions that stay, each with its number of sessions.
    pub fn why_they_stay(&self) -> BTreeMap<&'static str, usize> {
        let mut reasons = BTreeMap::new();
        for seat in self.seats() {
            if !seat.has_gone() && seat.database != self.console_database {
                *reasons.entry(seat.why_it_stays()).or_default() += 1;
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::super::Leave;
    use super::*;
    use config::origin::Origin;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use wire::Startup;

    fn seat(id: u64) -> Seat {
        Seat::new(id, Origin::Local, 0, false, &Startup::default())
    }

    #[test]
    fn whoever_has_stayed_is_asked_anew_the_next_time() {
        let registry = Registry::new("consort".to_owned(), None);
        let seat = registry.take_seat(Origin::Local, 0, false, &Startup::default());
        seat.idle(Status::Idle);
        assert!(!registry.moves.asks(&seat));
        for _ in 0..2 {
            let _moving = registry.begins_to_move();
            assert!(registry.moves.asks(&seat));
            seat.stays("busy");
            assert!(!registry.moves.asks(&seat) && seat.was_asked());
            registry.goes_on();
        }
    }

    #[test]
    fn only_so_many_are_on_their_way_at_a_time() {
        let registry = Registry::new("consort".to_owned(), None);
        let (seat, killed) = (seat(1), seat(2));
        let mut cx = Context::from_waker(Waker::noop());
        let mut go = |seat: &Seat| match pin!(registry.may_go(seat)).poll(&mut cx) {
            Poll::Ready(way) => Some(way),
            Poll::Pending => None,
        };
        assert!(go(&seat).is_some_and(|way| way.is_none()), "nobody asks");
        let moving = registry.begins_to_move();
        let mut ways: Vec<_> = (0..ON_THEIR_WAY).map(|_| go(&seat).flatten().expect("it may go")).collect();
        assert!(go(&seat).is_none(), "it waits");
        killed.ring(true, Leave::Killed);
        assert!(go(&killed).is_some_and(|way| way.is_none()), "it waits for nothing");
        drop(ways.pop());
        drop(go(&seat).flatten().expect("it may go"));
        drop(moving);
        assert!(go(&seat).is_some_and(|way| way.is_none()), "nobody takes it");
    }
}
