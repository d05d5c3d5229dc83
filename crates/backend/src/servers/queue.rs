//! Who waits for a connection: those of one user in one database in the order in which they came. Whoever is first is called
//! when anything has changed that may let it through, and looks again.

use super::Servers;
use conn::registry::Seat;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Those who wait.
#[derive(Default)]
pub(super) struct Queue {
    waiting: RefCell<VecDeque<Rc<Waiting>>>,
}

/// One who waits.
pub(super) struct Waiting {
    /// Who came earlier has a lower one, in all queues.
    pub(super) number: u64,
    called: Notify,
    /// It was called, and has not looked yet.
    is_called: Cell<bool>,
    /// When it looked last it let somebody pass who came earlier.
    stepped_back: Cell<bool>,
}

impl Queue {
    /// Who came first.
    pub(super) fn first(&self) -> Option<Rc<Waiting>> {
        self.waiting.borrow().front().cloned()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }
}

impl Waiting {
    /// Something has changed.
    pub(super) fn call(&self) {
        self.is_called.set(true);
        self.called.notify_one();
    }

    pub(super) fn is_called(&self) -> bool {
        self.is_called.get()
    }

    pub(super) fn has_stepped_back(&self) -> bool {
        self.stepped_back.get()
    }
}

/// A place in a queue; given up when this is dropped.
pub(super) struct Ticket<'a> {
    queue: &'a Queue,
    this: Rc<Waiting>,
    seat: &'a Seat,
    servers: &'a Servers,
    /// When it came.
    pub(super) since: Instant,
}

impl<'a> Ticket<'a> {
    /// Behind everybody who is there.
    pub(super) fn draw(servers: &'a Servers, queue: &'a Queue, number: u64, seat: &'a Seat) -> Ticket<'a> {
        let (is_called, stepped_back) = Default::default();
        let this = Rc::new(Waiting { number, called: Notify::new(), is_called, stepped_back });
        queue.waiting.borrow_mut().push_back(this.clone());
        servers.waiters.set(servers.waiters.get() + 1);
        seat.queues();
        Ticket { queue, this, seat, servers, since: Instant::now() }
    }

    /// Nobody is before it.
    pub(super) fn is_first(&self) -> bool {
        self.queue.first().is_some_and(|first| Rc::ptr_eq(&first, &self.this))
    }

    /// It has looked, in vain; or it has stepped back.
    pub(super) fn has_looked(&self, stepped_back: bool) {
        self.this.is_called.set(false);
        self.this.stepped_back.set(stepped_back);
    }

    /// Waits until it is called.
    pub(super) async fn called(&self) {
        self.this.called.notified().await;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.queue.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.this));
        self.servers.waiters.set(self.servers.waiters.get() - 1);
        self.seat.is_served();
        if let Some(next) = self.queue.first() {
            next.call();
        }
        self.servers.call_again();
    }
}
