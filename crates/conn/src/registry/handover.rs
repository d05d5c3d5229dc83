//! Idle sessions go on in another process that takes over: each is asked, writes itself down, and waits until it is known whether
//! it has arrived there (`node::takeover`).

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

/// So many sessions are on their way at a time: each has its client's socket twice meanwhile, and the process may have few
/// descriptors left.
const ON_THEIR_WAY: usize = 64;

/// What becomes of a session that was asked to go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is another process's: nothing of it is touched here any more.
    There,
    /// It goes on here.
    Back,
}

/// A session that goes over.
#[derive(Debug)]
pub struct Moving {
    /// What it takes along.
    pub carried: Vec<u8>,
    /// A copy of its client's socket.
    pub socket: OwnedFd,
    /// Tells it what has become of it; dropped: it goes on here.
    pub moved: oneshot::Sender<()>,
}

/// Whether sessions are asked to go over, and whether anybody is accepted.
#[derive(Debug, Default)]
pub struct Moves {
    to: RefCell<Option<Sender<Moving>>>,
    /// Nobody is accepted for now,
    pub closed: Cell<bool>,
    /// or ever again: the listening sockets are another process's.
    pub over: Cell<bool>,
    /// Who comes in leaves at once: the others have been sent away.
    pub empties: Cell<bool>,
    /// A take-over has begun, or has come to nothing.
    pub changed: Notify,
    /// Who has the sessions that are not here, for those who want to cancel something there.
    pub before: RefCell<Option<UnboundedSender<CancelRequest>>>,
}

impl Moves {
    /// Whether the session of this place, which waits for its client, is to go over now.
    pub fn asks(&self, seat: &Seat) -> bool {
        let is_idle = seat.doing() == Doing::Idle(Status::Idle) && seat.rung(true).is_none();
        self.to.borrow().is_some() && is_idle && !seat.was_asked()
    }
}

impl Registry {
    /// From now on sessions that are idle go over, and come out here. Why one has stayed the last time need not be so any more.
    pub fn begins_to_move(&self) -> Receiver<Moving> {
        let (to, moving) = channel(ON_THEIR_WAY);
        *self.moves.to.borrow_mut() = Some(to);
        for seat in self.seats() {
            seat.is_back();
            seat.wake();
        }
        moving
    }

    /// Nobody is accepted from now on; who has knocked waits.
    pub fn accepts_nobody(&self) {
        self.moves.closed.set(true);
        self.moves.changed.notify_waiters();
    }

    /// The listening sockets are another process's.
    pub fn accepts_nobody_ever(&self) {
        self.moves.over.set(true);
        self.accepts_nobody();
    }

    /// Nothing comes of it: all goes on here.
    pub fn goes_on(&self) {
        *self.moves.to.borrow_mut() = None;
        self.moves.closed.set(false);
        self.moves.empties.set(false);
        self.moves.changed.notify_waiters();
    }

    /// Waits while nobody is accepted; `false`: nobody will be.
    pub async fn may_accept(&self) -> bool {
        while self.moves.closed.get() && !self.moves.over.get() {
            let changed = self.moves.changed.notified();
            changed.await;
        }
        !self.moves.over.get()
    }

    /// Waits until nobody is accepted.
    pub async fn closes(&self) {
        while !self.moves.closed.get() {
            let changed = self.moves.changed.notified();
            changed.await;
        }
    }

    /// Waits until the session may set out. `None`: it goes on here.
    pub async fn may_go(&self, seat: &Seat) -> Option<OwnedPermit<Moving>> {
        let to = self.moves.to.borrow().clone()?;
        tokio::select! {
            way = to.reserve_owned() => way.ok(),
            _ = seat.sent_away() => None,
        }
    }

    /// Hands a session over, and waits until it is known what has become of it.
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

    /// A place for a client that comes from another process.
    pub fn takes_in(&self, carried: CarriedSeat) -> Option<Rc<Seat>> {
        let id = self.next_id();
        let seat = Rc::new(carried.seat(id)?);
        if let Some(key) = seat.key.borrow().clone() {
            self.cancels.enter(key, seat.running.clone());
        }
        self.seats.borrow_mut().insert(id, seat.clone());
        Some(seat)
    }

    /// Sessions that are not here may be those of another process, which hears of cancel requests there.
    pub fn comes_behind(&self) -> UnboundedReceiver<CancelRequest> {
        let (to, cancels) = unbounded_channel();
        *self.moves.before.borrow_mut() = Some(to);
        cancels
    }

    /// Whether the process before is there still, and may send clients.
    pub fn is_somebody_before(&self) -> bool {
        self.moves.before.borrow().is_some()
    }

    /// The process before is gone.
    pub fn nobody_is_before(&self) {
        *self.moves.before.borrow_mut() = None;
    }

    /// Whether nobody is left but those who have not proven yet who they are.
    pub fn nobody_but_strangers(&self) -> bool {
        let console = &self.console_database;
        let is_none = |seat: &Rc<Seat>| seat.has_gone() || seat.is_stranger() || seat.database == *console;
        self.seats().iter().all(is_none)
    }

    /// Who gets a place from now on leaves as soon as he is in.
    pub fn sends_newcomers_away(&self) {
        self.moves.empties.set(true);
    }

    /// Somebody wants to cancel something, wherever it runs.
    pub async fn cancel(&self, request: &CancelRequest) {
        let before = self.moves.before.borrow().clone();
        match before {
            // A process that is gone has no sessions.
            Some(before) if !self.cancels.knows(request) => {
                let _ = before.send(request.clone());
            }
            _ => self.cancels.cancel(request).await,
        }
    }

    /// Whether somebody is here who could go over and has neither gone nor said that he stays. Who takes nothing of his answer
    /// is not waited for.
    pub fn is_to_move(&self) -> bool {
        let console = &self.console_database;
        let is_to = |seat: &Rc<Seat>| self.moves.asks(seat) && seat.stall.get().is_none();
        self.seats().iter().any(|seat| seat.database != *console && is_to(seat))
    }

    /// Why those stay that stay, and how many.
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
