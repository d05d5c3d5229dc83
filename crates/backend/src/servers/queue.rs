//! Clients that wait for a connection: those of one user in one database in FIFO order. Any change that may
//! let the first client through calls it, and it looks again.

use super::Servers;
use conn::registry::Seat;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The waiting clients.
#[derive(Default)]
pub(super) struct Queue {
    waiting: RefCell<VecDeque<Rc<Waiting>>>,
}

/// One who waits.
pub(super) struct Waiting {
    /// Ticket: a client that came earlier has a lower one, in all queues.
    pub(super) number: u64,
    called: Notify,
    /// True if the client was called, and has not looked yet.
    is_called: Cell<bool>,
    /// True if the client let an earlier client pass when it looked last.
    stepped_back: Cell<bool>,
}

impl Queue {
    /// The client that came first.
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
    /// Time of its arrival.
    pub(super) since: Instant,
}

impl<'a> Ticket<'a> {
    /// Draws a ticket after all present clients.
    pub(super) fn draw(servers: &'a Servers, queue: &'a Queue, number: u64, seat: &'a Seat) -> Ticket<'a> {
        let (is_called, stepped_back) = Default::default();
        let this = Rc::new(Waiting { number, called: Notify::new(), is_called, stepped_back });
        queue.waiting.borrow_mut().push_back(this.clone());
        servers.waiters.set(servers.waiters.get() + 1);
        seat.queues();
        Ticket { queue, this, seat, servers, since: Instant::now() }
    }

    /// True if no client is before it.
    pub(super) fn is_first(&self) -> bool {
        self.queue.first().is_some_and(|first| Rc::ptr_eq(&first, &self.this))
    }

    /// Records that the client has looked in vain, or has stepped back.
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
