//! Notifications for sessions that run LISTEN under transaction pooling. In each database one connection of
//! Consort listens for all of them, with the role of the snapshot probe there. Consort opens it for the first
//! session and closes it after the last. PostgreSQL gives all notifications of a database one order, and all
//! listeners receive them in it. So the session's own connection and this one agree, and the session switches
//! from one to the other at a notification of its own:
//!
//! ```text
//!   the session's connection   n1  n2  pass  (nothing)     what comes before `pass` is from here,
//!   the listening connection   n1  n2  pass  n3  n4        what comes behind it from there
//! ```
//!
//! When this connection is lost, its sessions end, as they would with a server of their own: the
//! notifications that they have missed are unknown.

mod subscriber;

pub use subscriber::{Ear, PASS, WAITING_BYTES};

use cluster::Cluster;
use conn::registry::Seat;
use postgres::listening::Notification as Told;
use postgres::{Address, Error, Listening};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::time::Duration;
use subscriber::Hearer;
use tokio::sync::Mutex;
use tokio::time::Instant;
use wire::Answers;

/// Time limit of the listening connection's answers, after which it counts as lost.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Names of channels.
pub type Names = BTreeSet<Box<str>>;

/// A notification.
#[derive(Debug, PartialEq, Eq)]
pub struct Notification {
    /// The process at the primary that has notified.
    pub pid: i32,
    /// The channel's name.
    pub channel: Box<[u8]>,
    /// Payload of the notification.
    pub payload: Box<[u8]>,
}

impl Notification {
    /// Memory of the notification, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Notification>() + self.channel.len() + self.payload.len()
    }

    /// True if the channel of the notification is one of these.
    pub fn is_among(&self, channels: &Names) -> bool {
        std::str::from_utf8(&self.channel).is_ok_and(|channel| channels.contains(channel))
    }

    /// Writes it for a client that received this number as that of its process.
    pub fn write(&self, out: &mut Vec<u8>, is_own: bool, told: i32) {
        let pid = pid_for(self.pid, is_own, told);
        out.notification(&wire::Notification { pid, channel: &self.channel, payload: &self.payload });
    }
}

impl From<wire::Notification<'_>> for Notification {
    fn from(frame: wire::Notification<'_>) -> Notification {
        Notification { pid: frame.pid, channel: frame.channel.into(), payload: frame.payload.into() }
    }
}

impl From<&Told> for Notification {
    fn from(told: &Told) -> Notification {
        let (channel, payload) = (told.channel().as_bytes().into(), told.payload().as_bytes().into());
        Notification { pid: told.process_id(), channel, payload }
    }
}

/// The process number in a client's notification: its own if it has notified itself, else that of the
/// server's process. The number of a pooled client is that of no process.
pub fn pid_for(pid: i32, is_own: bool, told: i32) -> i32 {
    if is_own { told } else { pid }
}

/// The listening connections of a process.
pub struct Listeners {
    primary: Address,
    databases: RefCell<BTreeMap<String, Rc<Database>>>,
}

impl Listeners {
    /// None yet.
    pub(crate) fn new(cluster: &Cluster) -> Listeners {
        Listeners { primary: cluster.setup().primary.clone(), databases: RefCell::default() }
    }

    /// For a session that is to listen in this database: no channels yet.
    pub fn ear(&self, database: &str, seat: &Rc<Seat>) -> Rc<Ear> {
        let mut databases = self.databases.borrow_mut();
        let database = databases
            .entry(database.to_owned())
            .or_insert_with(|| Rc::new(Database::new(self.primary.with_database(database))));
        Ear::new(database.clone(), seat.clone())
    }

    /// Open listening connections: the database, the process, and the time of opening.
    pub fn open(&self) -> Vec<(String, i32, Instant)> {
        let databases = self.databases.borrow();
        let open = databases.iter().filter_map(|(name, database)| {
            let connection = database.connection.borrow();
            let connection = connection.as_ref()?;
            Some((name.clone(), connection.pid(), connection.since()))
        });
        open.collect()
    }
}

/// The listening connection of a database, and who hears over it.
///
/// Invariant: a session's wanted channels are listened to from the end of the first [`Database::arrange`]
/// after its request on.
pub(super) struct Database {
    address: Address,
    connection: RefCell<Option<Rc<Listening>>>,
    hearers: RefCell<BTreeMap<u64, Rc<Hearer>>>,
    next: Cell<u64>,
    /// Channels that the connection listens to. A change of them holds this lock.
    listened: Mutex<Names>,
}

impl Database {
    fn new(address: Address) -> Database {
        Database {
            address,
            connection: RefCell::default(),
            hearers: RefCell::default(),
            next: Cell::default(),
            listened: Mutex::default(),
        }
    }

    /// Listens to what the hearers want, and to nothing else; without any there is no connection.
    ///
    /// # Errors
    /// The connection cannot be opened, or is lost.
    async fn arrange(self: &Rc<Database>) -> Result<(), Error> {
        let mut listened = self.listened.lock().await;
        let wanted = self.wanted();
        if wanted.is_empty() {
            listened.clear();
            *self.connection.borrow_mut() = None;
            return Ok(());
        }
        let open = self.connection.borrow().clone();
        let connection = match open {
            Some(connection) => connection,
            None => {
                listened.clear();
                self.open().await?
            }
        };
        if wanted != *listened {
            let new = wanted.difference(&listened).map(|name| &**name);
            let old = listened.difference(&wanted).map(|name| &**name);
            answered(connection.change(new, old)).await?;
            *listened = wanted;
        }
        Ok(())
    }

    async fn open(self: &Rc<Database>) -> Result<Rc<Listening>, Error> {
        let connection = Rc::new(Listening::connect(&self.address).await?);
        answered(connection.change(std::iter::once(PASS), std::iter::empty())).await?;
        *self.connection.borrow_mut() = Some(connection.clone());
        tokio::task::spawn_local(listen(Rc::downgrade(self), Rc::downgrade(&connection)));
        Ok(connection)
    }

    fn wanted(&self) -> Names {
        self.hearers.borrow().values().flat_map(|hearer| hearer.wanted()).collect()
    }

    /// The same as [`Database::arrange`], without waiting for it.
    fn arrange_soon(self: &Rc<Database>) {
        let database = self.clone();
        tokio::task::spawn_local(async move {
            if let Err(error) = database.arrange().await {
                tracing::debug!(%error, "cannot change the channels of the listening connection");
            }
        });
    }

    /// Waits until all has been heard that was committed before this.
    ///
    /// # Errors
    /// The connection is lost.
    async fn come_up(&self) -> Result<(), Error> {
        let open = self.connection.borrow().clone();
        let lost = || Error::Unreachable("the listening connection is lost".to_owned());
        let connection = open.ok_or_else(lost)?;
        let answer = answered(connection.come_up()).await;
        while let Some(told) = connection.heard() {
            self.hear(&told);
        }
        if answer.is_err() {
            self.lost(&connection);
        }
        answer
    }

    fn hear(&self, told: &Told) {
        let notification = Rc::new(Notification::from(told));
        for hearer in self.hearers.borrow().values() {
            hearer.hear(&notification);
        }
    }

    /// Ends the notifications of all sessions of this connection.
    fn lost(&self, connection: &Rc<Listening>) {
        let is_current =
            self.connection.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, connection));
        if !is_current {
            return;
        }
        *self.connection.borrow_mut() = None;
        let hearers = self.hearers.take();
        tracing::warn!(
            database = self.address.database,
            sessions = hearers.len(),
            "listening connection lost; disconnecting its sessions"
        );
        hearers.values().for_each(|hearer| hearer.lost());
    }
}

/// The answer of a listening connection, or an error when it hangs.
async fn answered(question: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let late = |_| Err(Error::Unreachable(format!("no answer within {} s", ANSWER_LIMIT.as_secs())));
    tokio::time::timeout(ANSWER_LIMIT, question).await.unwrap_or_else(late)
}

/// Hands out what is heard, until the connection ends.
async fn listen(database: Weak<Database>, connection: Weak<Listening>) {
    loop {
        let told = poll_fn(|cx| match connection.upgrade() {
            Some(connection) => connection.poll_heard(cx),
            None => std::task::Poll::Ready(None),
        })
        .await;
        let (Some(database), Some(connection)) = (database.upgrade(), connection.upgrade()) else { return };
        match told {
            Some(told) => database.hear(&told),
            None => return database.lost(&connection),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_anothers_notification_for_its_own() {
        assert_eq!(pid_for(4711, true, 7), 7);
        assert_eq!(pid_for(4711, false, 7), 4711);
        assert_eq!(pid_for(7, true, 7), 7);
    }
}
