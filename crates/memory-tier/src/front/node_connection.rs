//! A session's connection to a node, and the idle ones of each node.

use super::tier_state::Tier;
use crate::message::{HEADER, Hello, Purpose, Reply, Request, body_length, frame, parse};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Idle connections that are kept for each node.
const MAX_IDLE: usize = 64;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// The role, database and settings of transactions, as a node gets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) user: String,
    pub(super) database: String,
    pub(super) settings: Vec<(String, String)>,
    /// Maximum wait for the writer, in milliseconds; 0: no limit.
    pub(super) lock_timeout_ms: u64,
}

/// Frames over TCP. Reading may be dropped at any moment, and goes on where it was.
struct Line {
    stream: TcpStream,
    input: Vec<u8>,
    start: usize,
    output: Vec<u8>,
}

impl Line {
    async fn open(tier: &Tier, node: usize, hello: &Hello) -> io::Result<Line> {
        let stream = tier.options.connect(node).await?;
        let mut line = Line { stream, input: Vec::new(), start: 0, output: frame(hello) };
        line.send().await?;
        Ok(line)
    }

    fn write(&mut self, message: &impl Serialize) {
        self.output.extend_from_slice(&frame(message));
    }

    async fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }

    async fn read<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        loop {
            let unread = &self.input[self.start..];
            if let Some((header, rest)) = unread.split_first_chunk::<HEADER>()
                && let Some(body) = rest.get(..body_length(header)?)
            {
                let message = parse(header, body)?;
                self.start += HEADER + body.len();
                if self.start == self.input.len() {
                    self.input.clear();
                    self.start = 0;
                }
                return Ok(message);
            }
            if self.start > 0 {
                self.input.drain(..self.start);
                self.start = 0;
            }
            self.input.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Whether the other end is still there, and has said nothing unasked.
    fn is_quiet(&self) -> bool {
        let mut byte = [0];
        self.input.is_empty()
            && matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A connection to a node for one session at a time.
pub(super) struct NodeConnection {
    line: Line,
    /// Which node.
    pub(super) node: usize,
    /// The connection's number at the node.
    pub(super) session: u64,
    identity: Option<Rc<Identity>>,
    /// Requests whose last answer has not come yet.
    owed: usize,
    tier: Rc<Tier>,
    /// Times that the node had been given up when the connection began.
    given_up: u64,
}

impl NodeConnection {
    pub(super) async fn open(tier: &Rc<Tier>, node: usize) -> io::Result<NodeConnection> {
        let hello = Hello { secret: tier.options.secret.clone(), purpose: Purpose::Session };
        let (tier, given_up) = (tier.clone(), tier.given_up(node));
        let attempt = async {
            let mut line = Line::open(&tier, node, &hello).await?;
            match line.read().await? {
                Reply::Welcome { session } => Ok((line, session)),
                _ => Err(io::Error::other("the node does not welcome the connection")),
            }
        };
        let (line, session) = timeout(tier.options.limits.connect, attempt)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(NodeConnection { line, node, session, identity: None, owed: 0, tier, given_up })
    }

    /// Transactions and statements to come are of this identity.
    pub(super) fn is_for(&mut self, identity: &Rc<Identity>) {
        if self.identity.as_ref().is_some_and(|known| Rc::ptr_eq(known, identity) || known == identity) {
            return;
        }
        let Identity { user, database, settings, lock_timeout_ms } = (**identity).clone();
        self.line.write(&Request::Client { user, database, settings, lock_timeout_ms });
        self.identity = Some(identity.clone());
    }

    /// Adds a request to what is sent next.
    pub(super) fn ask(&mut self, request: &Request) {
        self.line.write(request);
        self.owed += 1;
    }

    /// Sends what was added.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        self.line.send().await
    }

    /// The next answer.
    ///
    /// # Errors
    /// The connection has ended, or membership has given the node up: it may hang, and its answers do not count any more.
    pub(super) async fn reply(&mut self) -> io::Result<Reply> {
        let (node, given_up) = (self.node, self.given_up);
        let answer = async {
            loop {
                match self.line.read().await? {
                    Reply::Seen(version) => self.tier.acknowledged(version),
                    reply => return Ok(reply),
                }
            }
        };
        tokio::select! {
            biased;
            reply = answer => reply,
            () = self.tier.until(|tier| tier.given_up(node) != given_up) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the node gives no answer"))
            }
        }
    }

    fn is_usable(&self) -> bool {
        self.given_up == self.tier.given_up(self.node) && self.line.is_quiet()
    }

    /// The last answer to a request has come.
    pub(super) fn is_answered(&mut self) {
        self.owed -= 1;
    }
}

/// Idle connections of each node.
pub(super) struct Connections {
    idle: Vec<RefCell<Vec<NodeConnection>>>,
}

impl Connections {
    pub(super) fn new(nodes: usize) -> Connections {
        Connections { idle: (0..nodes).map(|_| RefCell::default()).collect() }
    }

    /// A connection to the node, an idle one if there is one.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub(super) async fn take(&self, tier: &Rc<Tier>, node: usize) -> io::Result<NodeConnection> {
        loop {
            let Some(idle) = self.idle[node].borrow_mut().pop() else { break };
            if idle.is_usable() {
                return Ok(idle);
            }
        }
        NodeConnection::open(tier, node).await
    }

    /// Takes a connection back without a transaction. One that still owes an answer is closed.
    pub(super) fn give_back(&self, connection: NodeConnection) {
        let mut idle = self.idle[connection.node].borrow_mut();
        if connection.owed == 0 && connection.line.output.is_empty() && idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }

    /// Closes the idle connections of a node.
    pub(super) fn close(&self, node: usize) {
        self.idle[node].borrow_mut().clear();
    }
}

/// Connections for cancel requests, by node.
pub(super) struct Controls(Vec<tokio::sync::Mutex<Option<Line>>>);

impl Controls {
    pub(super) fn new(nodes: usize) -> Controls {
        Controls((0..nodes).map(|_| tokio::sync::Mutex::default()).collect())
    }

    /// Ends the statement that a session runs at a node. Completes when the node has taken the order; a node that cannot be
    /// reached runs nothing.
    pub(super) async fn cancel(&self, tier: &Tier, node: usize, session: u64) {
        let mut control = self.0[node].lock().await;
        let mut line = control.take();
        let order = async {
            let mut line = match line.take().filter(Line::is_quiet) {
                Some(line) => line,
                None => {
                    let hello = Hello { secret: tier.options.secret.clone(), purpose: Purpose::Control };
                    Line::open(tier, node, &hello).await?
                }
            };
            line.write(&crate::message::Order::Cancel { session });
            line.send().await?;
            line.read::<crate::message::Report>().await?;
            Ok::<Line, io::Error>(line)
        };
        match timeout(tier.options.limits.connect, order).await {
            Ok(Ok(line)) => *control = Some(line),
            Ok(Err(error)) => tracing::debug!(%error, "a cancel request did not reach its node"),
            Err(_) => tracing::debug!("a cancel request was not taken in time"),
        }
    }
}
