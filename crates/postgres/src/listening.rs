//! A connection that listens to channels of one database (PostgreSQL's documentation, LISTEN and NOTIFY), for
//! many listeners. Notifications come out in the server's own order.

use crate::Error;
use crate::address::{Address, Control};
use crate::sql::quoted;
use std::cell::RefCell;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;
pub use tokio_postgres::Notification;

/// An empty statement that `pg_stat_activity` shows while the connection waits.
const NOTHING: &str = "-- LISTEN for clients that share connections";

/// A connection that listens. The connection ends when this is dropped.
pub struct Listening {
    control: Control,
    pid: i32,
    since: Instant,
    heard: RefCell<UnboundedReceiver<Notification>>,
}

impl Listening {
    /// Connects, without channels yet.
    ///
    /// # Errors
    /// As [`Control::connect`].
    pub async fn connect(address: &Address) -> Result<Listening, Error> {
        let (say, heard) = unbounded_channel();
        let control = Control::hearing(address, say).await?;
        let pid = control.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await?.get(0);
        Ok(Listening { control, pid, since: Instant::now(), heard: RefCell::new(heard) })
    }

    /// Pid of the connection's backend at the server.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Time at which it was opened.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Listens to some channels from now on, and stops listening to others.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn change(
        &self,
        listens: impl Iterator<Item = &str>,
        unlistens: impl Iterator<Item = &str>,
    ) -> Result<(), Error> {
        let mut commands = String::new();
        listens.for_each(|channel| commands.push_str(&format!("LISTEN {};", quoted(channel))));
        unlistens.for_each(|channel| commands.push_str(&format!("UNLISTEN {};", quoted(channel))));
        Ok(self.control.batch_execute(&commands).await?)
    }

    /// Waits until all notifications of earlier commits have arrived, if the server has reported these
    /// commits as done. The server notifies its listeners before, and the listener receives them before any
    /// other answer.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn come_up(&self) -> Result<(), Error> {
        Ok(self.control.batch_execute(NOTHING).await?)
    }

    /// Returns the next notification that has already arrived, if there is one.
    pub fn heard(&self) -> Option<Notification> {
        self.heard.borrow_mut().try_recv().ok()
    }

    /// Returns the next notification. `None`: the connection has ended.
    pub fn poll_heard(&self, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        self.heard.borrow_mut().poll_recv(cx)
    }
}
