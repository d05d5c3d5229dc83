//! Notifications of one session, and the queue of them that waits for its client.

use super::{Database, Names, Notification};
use conn::registry::{Leave, Seat};
use postgres::Error;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The channel on which sessions go over from one connection to the other.
pub const PASS: &str = "consort_pass";
/// Most bytes that may wait for a client that does not take them, or is in a transaction.
pub const WAITING_BYTES: usize = 16 << 20;

/// A session's subscription to the listening connection of its database. Dropping it ends the notifications.
pub struct Ear {
    database: Rc<Database>,
    number: u64,
    hearer: Rc<Hearer>,
}

/// The same, for who hands notifications out.
pub(super) struct Hearer {
    seat: Rc<Seat>,
    channels: RefCell<Names>,
    /// The channels after this notification.
    becomes: RefCell<Option<(Box<str>, Names)>>,
    /// Its notification has come: so many were waiting.
    passed: Cell<Option<usize>>,
    waiting: RefCell<VecDeque<Waiting>>,
    bytes: Cell<usize>,
    is_lost: Cell<bool>,
}

/// A notification that waits for the client, and true if the client's session sent it.
type Waiting = (Rc<Notification>, bool);

impl Hearer {
    /// The channels that it wants to be listened to.
    pub(super) fn wanted(&self) -> Names {
        let mut wanted = self.channels.borrow().clone();
        wanted.extend(self.becomes.borrow().iter().flat_map(|(_, channels)| channels.clone()));
        wanted
    }

    /// Something was notified.
    pub(super) fn hear(&self, notification: &Rc<Notification>) {
        if &*notification.channel == PASS.as_bytes() {
            let passes =
                self.becomes.borrow_mut().take_if(|(pass, _)| pass.as_bytes() == &*notification.payload);
            if let Some((_, channels)) = passes {
                *self.channels.borrow_mut() = channels;
                self.passed.set(Some(self.waiting.borrow().len()));
            }
        }
        if notification.is_among(&self.channels.borrow()) {
            self.push(notification.clone(), false);
            self.seat.wake();
        }
    }

    /// Adds a notification. A session with too many must end.
    fn push(&self, notification: Rc<Notification>, is_own: bool) {
        let bytes = self.bytes.get() + notification.bytes();
        if bytes > WAITING_BYTES {
            self.seat.ring(false, Leave::Notifications);
            return;
        }
        self.bytes.set(bytes);
        self.waiting.borrow_mut().push_back((notification, is_own));
    }

    pub(super) fn lost(&self) {
        self.is_lost.set(true);
        self.seat.ring(false, Leave::Unheard);
    }
}

impl Ear {
    /// Hears nothing yet.
    pub(super) fn new(database: Rc<Database>, seat: Rc<Seat>) -> Rc<Ear> {
        let number = database.next.replace(database.next.get() + 1);
        let hearer = Rc::new(Hearer {
            seat,
            channels: RefCell::default(),
            becomes: RefCell::default(),
            passed: Cell::default(),
            waiting: RefCell::default(),
            bytes: Cell::default(),
            is_lost: Cell::default(),
        });
        database.hearers.borrow_mut().insert(number, hearer.clone());
        Rc::new(Ear { database, number, hearer })
    }

    /// The channels of the session.
    pub fn channels(&self) -> Names {
        self.hearer.channels.borrow().clone()
    }

    /// Drops all channels but these, from now on.
    pub fn keeps(&self, channels: Names) {
        if channels.len() < self.hearer.channels.borrow().len() {
            self.hearer.waiting.borrow_mut().retain(|(notification, _)| notification.is_among(&channels));
            *self.hearer.channels.borrow_mut() = channels;
            self.weigh();
            self.database.arrange_soon();
        }
    }

    /// Switches to these channels after a notification on [`PASS`] with the returned payload. After this call
    /// the connection listens to them.
    ///
    /// # Errors
    /// They cannot be: then nothing becomes of it.
    pub async fn becomes(&self, channels: Names) -> Result<Box<str>, Error> {
        self.not_lost()?;
        let random: [u8; 16] = rand::random();
        let pass: Box<str> = random.iter().map(|byte| format!("{byte:02x}")).collect();
        self.hearer.passed.set(None);
        *self.hearer.becomes.borrow_mut() = Some((pass.clone(), channels));
        match self.database.arrange().await {
            Ok(()) => Ok(pass),
            Err(error) => {
                *self.hearer.becomes.borrow_mut() = None;
                Err(error)
            }
        }
    }

    /// Waits until it has heard all that was committed before this.
    ///
    /// # Errors
    /// Waits until the session hears nothing any more: it has been asked to leave.
    pub async fn come_up(&self) -> Result<(), Error> {
        self.not_lost()?;
        self.database.come_up().await?;
        self.not_lost()
    }

    fn not_lost(&self) -> Result<(), Error> {
        let lost = || Error::Unreachable("the listening connection is lost".to_owned());
        if self.hearer.is_lost.get() { Err(lost()) } else { Ok(()) }
    }

    /// The session's connection received `before` up to the notification after which it switched; `pid` is
    /// that connection's. All of it waits now, once, and in its order, if the session listens to it still.
    /// The notifications that both have received, on `channels`, are the end of the one's and of the other's.
    pub fn passed(&self, before: Vec<Rc<Notification>>, channels: &Names, still: &Names, pid: i32) {
        let behind = {
            let mut waiting = self.hearer.waiting.borrow_mut();
            let passed = self.hearer.passed.take().unwrap_or(waiting.len());
            let behind = waiting.split_off(passed);
            let both = before.iter().filter(|notification| notification.is_among(channels)).count();
            let mut had = both.saturating_sub(waiting.len());
            let left = waiting.len().saturating_sub(both);
            waiting.truncate(left);
            waiting.retain(|(notification, _)| notification.is_among(still));
            // Others pass meanwhile.
            for notification in before.into_iter().filter(|notification| notification.is_among(still)) {
                if had > 0 && notification.is_among(channels) {
                    had -= 1;
                } else {
                    let is_own = notification.pid == pid;
                    waiting.push_back((notification, is_own));
                }
            }
            behind
        };
        self.hearer.waiting.borrow_mut().extend(behind);
        self.weigh();
        self.database.arrange_soon();
    }

    /// Adds more notifications of the session's connection on these channels, after all that wait.
    pub fn add(&self, more: Vec<Rc<Notification>>, channels: &Names, pid: i32) {
        for notification in more.into_iter().filter(|notification| notification.is_among(channels)) {
            let is_own = notification.pid == pid;
            self.hearer.push(notification, is_own);
        }
    }

    /// The last `count` that wait of process `pid` are the session's own.
    pub fn are_own(&self, count: usize, pid: i32) {
        let mut waiting = self.hearer.waiting.borrow_mut();
        let of_pid = waiting.iter_mut().rev().filter(|(notification, _)| notification.pid == pid);
        of_pid.take(count).for_each(|(_, is_own)| *is_own = true);
    }

    /// The notification that waits longest, and true if the session itself sent it.
    pub fn next(&self) -> Option<(Rc<Notification>, bool)> {
        let next = self.hearer.waiting.borrow_mut().pop_front()?;
        self.hearer.bytes.set(self.hearer.bytes.get() - next.0.bytes());
        Some(next)
    }

    /// Something waits.
    pub fn has_heard(&self) -> bool {
        !self.hearer.waiting.borrow().is_empty()
    }

    fn weigh(&self) {
        let bytes = self.hearer.waiting.borrow().iter().map(|(notification, _)| notification.bytes()).sum();
        self.hearer.bytes.set(bytes);
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let mut hearers = self.database.hearers.borrow_mut();
        // If its connection was lost, it is among them no more.
        if hearers.remove(&self.number).is_some() {
            drop(hearers);
            self.database.arrange_soon();
        }
    }
}
