//! The Redis protocol over transactions on a key-value store: listeners, sessions, commands.
//!
//! A command outside of a block is a transaction of its own. BEGIN .. COMMIT is a transaction with snapshot isolation. WATCH, MULTI and EXEC
//! have the meaning that Redis gives them. One thread serves all clients; a database does the work.
//!
//! # Absent knowledge
//!
//! This crate knows no file, no store's kind and no certification: a database has them.

mod clients;
mod command;
mod connection;
mod connection_commands;
mod dispatch;
mod execute;
mod glob;
mod information;
mod integer;
mod problem;
mod reply;
mod request;
mod scan;
mod session;
mod shared;
mod tls;
mod transaction;
mod watched_keys;

pub use tls::ServerTls;

use bytes::BytesMut;
use cells::Database;
use reply::{Protocol, Reply};
use shared::Shared;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

/// Pause after an error of the listening socket, as when no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Interval of the check that the last client has left.
const LEFT_EVERY: Duration = Duration::from_millis(10);
/// Clients that are cut off have so long to leave.
const FAREWELL_LIMIT: Duration = Duration::from_secs(3);

/// Checks passwords.
pub trait Passwords {
    /// True if this is the password of this user.
    fn are_right<'a>(&'a self, user: &'a str, password: &'a str) -> Pin<Box<dyn Future<Output = bool> + 'a>>;
}

/// Options of a server.
pub struct Options {
    /// Maximum number of clients. 0: none.
    pub max_clients: usize,
    /// A transaction between BEGIN and COMMIT without a command for so long is rolled back. Zero: never.
    pub idle_transaction: Duration,
    /// A client without a command for so long, outside of a transaction, is disconnected. Zero: never.
    pub client_idle: Duration,
    /// Maximum duration of a log-in. Zero: no limit.
    pub login_time: Duration,
    /// Clients of this machine need no password.
    pub trusts_loopback: bool,
    /// Passwords of the users. `None`: AUTH is refused.
    pub passwords: Option<Rc<dyn Passwords>>,
    /// Certificate for clients that use TLS.
    pub tls: Option<ServerTls>,
    /// Clients without TLS are refused.
    pub tls_required: bool,
}

/// Part of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// Open transactions may end; clients without one are disconnected.
    Draining,
    /// Every client is disconnected.
    Ended,
}

/// A server of the Redis protocol. It runs in a `LocalSet`.
pub struct Server {
    shared: Rc<Shared>,
    phase: watch::Sender<Phase>,
}

impl Server {
    /// A server without listeners.
    pub fn new(database: Database, options: Options) -> Rc<Server> {
        Rc::new(Server {
            shared: Rc::new(Shared::new(database, options)),
            phase: watch::Sender::new(Phase::Serving),
        })
    }

    /// Accepts clients until the server ends.
    pub async fn serve(&self, listener: TcpListener) {
        let mut phase = self.phase.subscribe();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => self.admit(stream, address.to_string()),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a client");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
            }
        }
    }

    fn admit(&self, stream: TcpStream, address: String) {
        let shared = self.shared.clone();
        let max_clients = shared.options.max_clients;
        if max_clients > 0 && shared.clients.count() >= max_clients {
            shared.counters.rejected.add(1);
            spawn_local(reject(stream, max_clients));
            return;
        }
        shared.counters.connections.add(1);
        let id = shared.counters.connections.get();
        shared.clients.enter(id, address);
        let phase = self.phase.subscribe();
        spawn_local(async move {
            if let Err(error) = connection::serve(stream, shared.clone(), id, phase).await {
                tracing::debug!(%error, connection = id, "connection ended");
            }
            shared.clients.leave(id);
        });
    }

    /// Lets open transactions end, at most for this time, and disconnects all clients.
    pub async fn end(&self, limit: Duration) {
        self.phase.send_replace(Phase::Draining);
        self.until_empty(limit).await;
        self.phase.send_replace(Phase::Ended);
        self.until_empty(FAREWELL_LIMIT).await;
    }

    async fn until_empty(&self, limit: Duration) {
        let deadline = Instant::now().checked_add(limit);
        while self.clients() > 0 && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            sleep(LEFT_EVERY).await;
        }
    }

    /// Number of connected clients.
    pub fn clients(&self) -> usize {
        self.shared.clients.count()
    }

    /// Metrics in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        information::metrics(&self.shared)
    }
}

async fn reject(mut stream: TcpStream, max_clients: usize) {
    let mut output = BytesMut::new();
    let why = format!(
        "ERR max number of clients reached (max_clients = {max_clients}); close connections, or increase it"
    );
    Reply::Error(why).write(Protocol::default(), &mut output);
    // The client may be gone.
    let _ = stream.write_all(&output).await;
}
