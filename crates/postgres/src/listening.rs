//! A connection that listens to channels of one database (PostgreSQL's documentation, LISTEN and NOTIFY), for many who want to
//! hear. What was committed comes out in the server's own order.

use crate::Error;
use crate::address::{Address, Control};
use crate::sql::quoted;
use std::cell::RefCell;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;
pub use tokio_postgres::Notification;

/// Nothing, as `pg_stat_activity` shows it while the connection waits.
const NOTHING: &str = "-- LISTEN for clients that share connections";

/// A connection that listens. It ends when dropped.
pub struct Listening {
    control: Control,
    pid: i32,
    since: Instant,
    heard: RefCell<UnboundedReceiver<Notification>>,
}

impl Listening {
    /// Connects, and listens to nothing yet.
    ///
    /// # Errors
    /// As [`Control::connect`].
    pub async fn connect(address: &Address) -> Result<Listening, Error> {
        let (say, heard) = unbounded_channel();
        let control = Control::hearing(address, say).await?;
        let pid = control.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await?.get(0);
        Ok(Listening { control, pid, since: Instant::now(), heard: RefCell::new(heard) })
    }

    /// Its process at the server.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// When it was opened.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Listens to some channels from now on, and to others no more.
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

    /// Waits until all has been heard that was committed before this, if the server has said so to who committed it: it tells
    /// its listeners before, and they hear it before they answer anything else.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn come_up(&self) -> Result<(), Error> {
        Ok(self.control.batch_execute(NOTHING).await?)
    }

    /// The next notification that has been heard already, if there is one.
    pub fn heard(&self) -> Option<Notification> {
        self.heard.borrow_mut().try_recv().ok()
    }

    /// The next notification; `None`: there will be no more, the connection has ended.
    pub fn poll_heard(&self, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        self.heard.borrow_mut().poll_recv(cx)
    }
}
