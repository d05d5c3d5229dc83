//! A node of the tier: a process with the whole database in memory. Each connection has a thread of its own.
//!
//! ```text
//!   front ---- session.rs ---- Reader     at a slave: reads at the version that the front says
//!         |               `--- line.rs    at the master: commits, one after the other
//!         `--- control.rs                 the node's part in an epoch
//!   slave ---- subscriber.rs              at the master: ships write sets, hears what is received
//!   slave.rs                              at a slave: subscribes at the master, copies changed pages
//! ```
//!
//! # Invariants
//!
//! - A write set is shown at the master, and acknowledged, only when every member has received it.
//! - Versions have no gaps. A node drops versions above the decided one when an epoch begins.
//! - A node takes write sets only from the master of its epoch.

mod control;
mod engine;
mod line;
mod row_capture;
mod sequences;
mod session;
mod slave;
mod subscriber;
mod transaction;
mod writer_queue;

use crate::links::NodeTls;
use crate::message::{self, Hello, Purpose, Report};
use engine::Engine;
pub use pages::Policy;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Connections that have not shown the secret yet are at most so many.
const UNKNOWN_LIMIT: usize = 64;
/// Pause of the thread that applies diffs in the background.
const EXAMINE_EVERY: Duration = Duration::from_millis(100);

/// Settings of a node.
#[derive(Clone)]
pub struct Options {
    /// Address to listen at; port 0: any that is free.
    pub listen: SocketAddr,
    /// The tier's secret.
    pub secret: Vec<u8>,
    /// Encryption. Without it the node listens on loopback only.
    pub tls: Option<NodeTls>,
    /// Bytes that pages and diffs may take. Above it the oldest reader is aborted.
    pub max_bytes: usize,
    /// Whether old versions of pages are kept for their readers.
    pub policy: Policy,
    /// Limits of connections and commits.
    pub limits: Limits,
}

/// Limits of a node.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A connection says within this time what it is for.
    pub hello: Duration,
    /// Bytes of a commit's changed pages. They travel in one frame.
    pub write_set_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        // Around a write set a frame has a few bytes more.
        Limits { hello: Duration::from_secs(5), write_set_bytes: message::FRAME_LIMIT - (1 << 10) }
    }
}

/// A node that listens, and serves no connection yet.
pub struct Node {
    /// Where connections come in that are not encrypted.
    listener: TcpListener,
    encrypted: Option<(TcpListener, NodeTls)>,
    engine: Arc<Engine>,
}

impl Node {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use, or needs TLS.
    pub fn bind(options: &Options) -> io::Result<Node> {
        if options.tls.is_none() && !options.listen.ip().is_loopback() {
            let why = format!(
                "{}: connections that do not come from this machine need TLS: give --tls-cert-file, \
                 --tls-key-file and --tls-ca-file",
                options.listen
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut listener = TcpListener::bind(options.listen)?;
        let mut encrypted = None;
        if let Some(tls) = &options.tls {
            let near = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
            encrypted = Some((std::mem::replace(&mut listener, near), tls.clone()));
        }
        Ok(Node { listener, encrypted, engine: Arc::new(Engine::new(options)) })
    }

    /// The address that it listens at.
    ///
    /// # Errors
    /// As of the socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.encrypted.as_ref().map_or(&self.listener, |(listener, _)| listener).local_addr()
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn run(self) -> io::Result<()> {
        let examined = self.engine.clone();
        thread::Builder::new().name("examiner".to_owned()).spawn(move || {
            loop {
                thread::sleep(EXAMINE_EVERY);
                examined.store.examine();
            }
        })?;
        if let Some((listener, tls)) = self.encrypted {
            tls.accept(listener, self.listener.local_addr()?, UNKNOWN_LIMIT, self.engine.limits.hello)?;
        }
        let unknown = Arc::new(AtomicUsize::new(0));
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let engine = self.engine.clone();
                    if unknown.fetch_add(1, Ordering::Relaxed) >= UNKNOWN_LIMIT {
                        unknown.fetch_sub(1, Ordering::Relaxed);
                        continue;
                    }
                    let known = unknown.clone();
                    let connection = thread::Builder::new().name("connection".to_owned()).spawn(move || {
                        let hello = greet(&engine, &stream);
                        known.fetch_sub(1, Ordering::Relaxed);
                        if let Err(error) = hello.and_then(|hello| serve(&engine, stream, hello)) {
                            tracing::debug!(%error, "a connection has ended");
                        }
                    });
                    if let Err(error) = connection {
                        unknown.fetch_sub(1, Ordering::Relaxed);
                        tracing::warn!(%error, "no thread for a connection; closing it");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    thread::sleep(EXAMINE_EVERY);
                }
            }
        }
    }
}

/// The first frame of a connection, which shows the secret.
fn greet(engine: &Engine, mut stream: &TcpStream) -> io::Result<Purpose> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(engine.limits.hello))?;
    let hello: Hello = message::read_within(message::HELLO_LIMIT, &mut stream)?;
    if !engine.is_secret(&hello.secret) {
        let why = "the secret is another (tier_secret_file)";
        if matches!(hello.purpose, Purpose::Control) {
            message::write(&mut stream, &Report::Refused(why.to_owned()))?;
        }
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    stream.set_read_timeout(None)?;
    Ok(hello.purpose)
}

/// Serves one connection to its end.
fn serve(engine: &Arc<Engine>, stream: TcpStream, purpose: Purpose) -> io::Result<()> {
    match purpose {
        Purpose::Session => session::serve(engine, stream),
        Purpose::Control => control::serve(engine, stream),
        Purpose::Subscription { name, has, epoch } => subscriber::serve(engine, &stream, name, has, epoch),
        Purpose::Pages { newer_than, at_least } => subscriber::copy(engine, &stream, newer_than, at_least),
    }
}
