//! The session of one client: which transaction its commands belong to.
//!
//! ```text
//!             BEGIN                          COMMIT, ROLLBACK
//! Autocommit ------> Block ---------------------------------> Autocommit
//!     |                | its snapshot or its time is over         ^
//!     |                +--------> Aborted ------------------------+
//!     | MULTI                                EXEC, DISCARD        |
//!     +------------> Queue ---------------------------------------+
//! ```
//!
//! In `Autocommit` each command is a transaction of its own, which is repeated after a conflict.

use crate::command::{Action, Command, Connection, Control};
use crate::problem::Problem;
use crate::reply::{Protocol, Reply};
use crate::shared::Shared;
use crate::transaction::{Keys, Level};
use crate::watched_keys::Watched;
use bytes::Bytes;
use std::rc::Rc;

/// Maximum bytes of the queued commands of MULTI.
const MAX_QUEUE: usize = 64 << 20;
/// Maximum queued commands of MULTI.
const MAX_QUEUED: usize = 100_000;

/// The transaction that the next command belongs to.
pub(crate) enum State {
    /// Each command is a transaction of its own.
    Autocommit,
    /// Between BEGIN and COMMIT.
    Block(Box<Keys>),
    /// Between BEGIN and COMMIT, after the transaction was rolled back; with the reason.
    Aborted(String),
    /// Between MULTI and EXEC.
    Queue(Queue),
}

/// Commands that wait for EXEC.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) calls: Vec<(&'static Command, Vec<Bytes>)>,
    bytes: usize,
    /// A command was refused: EXEC runs none.
    pub(crate) is_refused: bool,
}

/// One client's session.
pub(crate) struct Session {
    pub(crate) shared: Rc<Shared>,
    /// Number of the connection.
    pub(crate) id: u64,
    pub(crate) protocol: Protocol,
    /// The user, after authentication.
    pub(crate) user: Option<String>,
    /// The client needs no password.
    pub(crate) is_trusted: bool,
    pub(crate) level: Level,
    /// Timestamp of the newest commit that the client knows of.
    pub(crate) token: u64,
    pub(crate) state: State,
    pub(crate) watched: Watched,
    /// The connection closes after the reply.
    pub(crate) is_closing: bool,
}

impl Session {
    pub(crate) fn new(shared: Rc<Shared>, id: u64, is_trusted: bool) -> Session {
        Session {
            shared,
            id,
            protocol: Protocol::default(),
            user: None,
            is_trusted,
            level: Level::Session,
            token: 0,
            state: State::Autocommit,
            watched: Watched::default(),
            is_closing: false,
        }
    }

    /// The client may run commands.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_trusted || self.user.is_some()
    }

    /// No transaction is open, and no command waits for EXEC.
    pub(crate) fn is_between_transactions(&self) -> bool {
        matches!(self.state, State::Autocommit)
    }

    /// A transaction is open, which holds old versions.
    pub(crate) fn is_in_block(&self) -> bool {
        matches!(self.state, State::Block(_))
    }

    /// Rolls the open transaction back. Later commands of the block learn the reason.
    pub(crate) fn abort(&mut self, why: &str) {
        if let State::Block(keys) = std::mem::replace(&mut self.state, State::Aborted(why.to_owned())) {
            keys.roll_back();
        }
    }

    /// The client has seen this state: its later transactions see it, too.
    pub(crate) fn knows(&mut self, timestamp: u64) {
        self.token = self.token.max(timestamp);
    }
}

impl Queue {
    /// Queues a command.
    pub(crate) fn take(&mut self, command: &'static Command, words: Vec<Bytes>) -> Result<Reply, Problem> {
        let not_here = match command.action {
            Action::Control(control) => control != Control::Unwatch,
            Action::Connection(connection) => {
                matches!(connection, Connection::Auth | Connection::Hello)
            }
            Action::Data(_) => false,
        };
        if not_here {
            return Err(Problem::new(format!(
                "{} is not allowed inside MULTI",
                command.name.to_ascii_uppercase()
            )));
        }
        self.bytes += words.iter().map(Bytes::len).sum::<usize>();
        if self.bytes > MAX_QUEUE || self.calls.len() >= MAX_QUEUED {
            return Err(Problem::new(format!(
                "MULTI takes at most {MAX_QUEUED} commands and {} MB: use several transactions",
                MAX_QUEUE >> 20
            )));
        }
        self.calls.push((command, words));
        Ok(Reply::Status("QUEUED"))
    }
}
