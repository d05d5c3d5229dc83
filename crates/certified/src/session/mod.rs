//! The session of a client: its requests go to one node, and each of its commits through the certifier.
//!
//! ```text
//!    client -> request -> simple.rs, extended.rs      statements, by class
//!                      -> commit.rs                   capture, decide, make durable, predecessors, commit
//!                      -> relay.rs                    answers pass, held back while the request may be repeated
//! ```

mod commit;
mod extended;
mod node_session;
mod relay;
mod simple;

use crate::database::Database;
use crate::database::Site;
use crate::engine::{Engine, LONGEST};
use crate::statement::{Class, Statement};
use certified_flow::{Cancellation, State};
use conn::peer::{Peer, malformation};
use conn::registry::{Leave, Registry, Seat};
use history::Consistency;
use node_session::NodeSession;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use wire::tag::{back, front};
use wire::{Answers, Complaint, Frame, Problem, Severity, Status, query_text};

/// A statement that is repeated inside Consort is repeated so often.
const REPEATS: usize = 20;
/// SQLSTATE of a conflict, which takes back its transaction alone.
const SERIALIZATION_FAILURE: &str = "40001";

/// Why a session ends.
#[derive(Debug)]
pub(crate) enum Gone {
    /// Its client has gone.
    Client,
    /// Its node has gone.
    Node(String),
    /// Its client must leave.
    Away(Leave),
    /// Its client does not follow the protocol.
    Broken(String),
}

/// End of a step of a session.
pub(crate) type Run<T> = Result<T, Gone>;
/// End of a statement: an ErrorResponse, as it is sent.
pub(crate) type Done = Result<(), Vec<u8>>;

impl From<io::Error> for Gone {
    fn from(error: io::Error) -> Gone {
        Gone::Node(error.to_string())
    }
}

/// Which transaction is open at the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// None.
    None,
    /// One that the request's end commits.
    Implicit,
    /// The client's own.
    Explicit,
}

/// Statements and portals of the extended protocol, by name.
#[derive(Default)]
struct Names {
    statements: HashMap<Vec<u8>, Rc<Statement>>,
    portals: HashMap<Vec<u8>, Rc<Statement>>,
}

/// A message of the client.
struct Message {
    tag: u8,
    bytes: Vec<u8>,
    /// The statement of a Parse.
    parsed: Option<Rc<Statement>>,
}

/// The session of a client.
pub(crate) struct Session {
    client: Peer,
    node: NodeSession,
    registry: Rc<Registry>,
    seat: Rc<Seat>,
    names: Names,
    batch: Vec<Message>,
    /// Messages are skipped up to the next Sync.
    skips: bool,
    /// The request ends with a Flush: its Sync is still to come.
    flushes: bool,
    /// The request is one statement, which is a transaction of its own.
    is_whole_transaction: bool,
    /// No cancellation by Consort reaches what comes after the request.
    outlives_cancellation: bool,
    held: relay::Held,
}

/// Parts with which a session begins.
pub(crate) struct Beginning {
    pub(crate) client: Peer,
    pub(crate) engine: Engine,
    pub(crate) registry: Rc<Registry>,
    pub(crate) seat: Rc<Seat>,
    pub(crate) database: Rc<Database>,
    pub(crate) site: Rc<Site>,
    pub(crate) consistency: Consistency,
}

impl Session {
    /// A session at its node.
    pub(crate) fn new(beginning: Beginning) -> Session {
        let Beginning { client, engine, registry, seat, database, site, consistency } = beginning;
        Session {
            client,
            node: NodeSession::new(engine, database, site, consistency),
            registry,
            seat,
            names: Names::default(),
            batch: Vec::new(),
            skips: false,
            flushes: false,
            is_whole_transaction: false,
            outlives_cancellation: false,
            held: relay::Held::default(),
        }
    }

    /// Serves the client until one of the two goes.
    pub(crate) async fn run(mut self) {
        let (site, claim) = (self.node.site.clone(), self.node.claim.clone());
        let gone = loop {
            // A commit that has a version has bounds of its own.
            let ends = |site: &Site| site.is_silent() && !claim.is_certified();
            let silent = site.until_state(|site| ends(site) || site.is_leaving() && claim.is_at_rest());
            let done = tokio::select! {
                done = self.request() => done,
                () = silent => Err(Gone::Node(match site.state() {
                    State::Down(why) => why,
                    State::Up => "the node does not answer".to_owned(),
                })),
            };
            if let Err(gone) = done {
                break gone;
            }
        };
        self.node.site.leaves(&self.node.claim);
        let word = match gone {
            Gone::Client => None,
            Gone::Away(why) => Some(why.word()),
            Gone::Broken(why) => Some(Problem::fatal("08P01", why)),
            Gone::Node(why) => {
                let node = &self.node.database.nodes.get(self.node.site.number).name;
                let why = format!("terminating connection: node {node} is down: {why}");
                Some(Problem::fatal("57P01", why).hint("Connect again: another node takes the session."))
            }
        };
        if let Some(word) = word {
            self.client.out().problem(&word);
        }
        let Session { registry, seat, client, node, .. } = self;
        let mut engine = node.engine;
        use wire::Asks;
        engine.peer.out().terminate();
        engine.peer.send_now();
        registry.leave(&seat);
        registry.farewell(client).await;
    }

    /// Takes one message of the client.
    async fn request(&mut self) -> Run<()> {
        if let Some(why) = self.node.node_lost.take() {
            return Err(Gone::Node(why));
        }
        let message = self.next_message().await?;
        let frame = Frame::new(&message.bytes).map_err(|why| Gone::Broken(why.to_string()))?;
        match frame.tag() {
            front::QUERY => {
                self.begin_request().await?;
                let text = query_text(&frame).map_err(|why| Gone::Broken(why.to_string()))?;
                let text = String::from_utf8_lossy(text).into_owned();
                self.simple(&text).await?;
                self.ready();
            }
            front::TERMINATE => return Err(Gone::Client),
            front::SYNC => {
                self.begin_request().await?;
                self.flushes = false;
                self.run_batch(false).await?;
                self.ready();
            }
            front::FLUSH => {
                self.begin_request().await?;
                self.flushes = true;
                self.run_batch(true).await?;
            }
            front::PARSE | front::BIND | front::DESCRIBE | front::EXECUTE | front::CLOSE => {
                self.batch.push(message)
            }
            front::FUNCTION_CALL => {
                let problem = Problem::error(
                    "0A000",
                    "function calls by the protocol are not supported by this design",
                );
                self.client.out().problem(&problem.hint("Call the function in a SELECT."));
                self.ready();
            }
            _ => {}
        }
        Ok(())
    }

    /// The request is over.
    fn ready(&mut self) {
        self.node.claim.runs.set(false);
        if self.outlives_cancellation {
            self.node.claim.outlives_cancellation();
        }
        let status = self.node.status();
        let aside = std::mem::take(&mut self.node.engine.aside);
        self.client.out().extend_from_slice(&aside);
        self.client.out().ready(status);
        self.seat.idle(status);
    }

    async fn begin_request(&mut self) -> Run<()> {
        self.seat.active();
        self.seat.running.forget();
        self.held.begin(false);
        // It was meant for an earlier transaction: a ROLLBACK that follows must not end in its error.
        self.node.claim.cancellation_is_sent().await;
        self.outlives_cancellation = self.node.claim.cancellation.get() == Cancellation::Sent;
        if !self.node.has_joined {
            self.node.joins().await?;
        }
        if self.node.claim.is_doomed() {
            match self.node.status() {
                Status::Idle => self.node.claim.end(),
                Status::InBlock | Status::Failed if self.node.transaction.lost.is_none() => {
                    self.node.lose().await?
                }
                Status::InBlock | Status::Failed => {}
            }
        }
        self.node.claim.runs.set(true);
        Ok(())
    }

    /// Waits for a message of the client; meanwhile the transaction may be lost, or the session must go.
    async fn next_message(&mut self) -> Run<Message> {
        self.client.send().await.map_err(|_| Gone::Client)?;
        loop {
            let status = self.node.engine.status;
            let outside = status == Status::Idle;
            let in_block = !outside && self.node.transaction.lost.is_none();
            let heard = tokio::select! {
                length = self.client.whole_frame(LONGEST) => Heard::Client(length),
                why = poll_fn(|cx| self.seat.must_leave(outside, cx).map_or(Poll::Pending, Poll::Ready)) => Heard::Away(why),
                () = self.node.claim.doomed(), if in_block => Heard::Doomed,
                come = self.node.engine.peer.fill() => Heard::Node(come),
            };
            match heard {
                Heard::Client(Ok(length)) => {
                    let bytes = self.client.unread()[..length].to_vec();
                    self.client.consume(length);
                    self.client.rest();
                    return Ok(Message { tag: bytes[0], bytes, parsed: None });
                }
                Heard::Client(Err(error)) => {
                    return Err(
                        malformation(&error).map_or(Gone::Client, |why| Gone::Broken(why.to_string()))
                    );
                }
                Heard::Away(why) => return Err(Gone::Away(why)),
                Heard::Doomed => self.node.lose().await?,
                Heard::Node(come) => {
                    come?;
                    self.unasked()?;
                    self.client.send().await.map_err(|_| Gone::Client)?;
                }
            }
        }
    }

    /// Messages of the server between requests: notifications, settings, notices, or that it ends.
    fn unasked(&mut self) -> Run<()> {
        loop {
            let unread = self.node.engine.peer.unread();
            let Some(header) = unread.get(1..5) else { return Ok(()) };
            let length = u32::from_be_bytes(header.try_into().expect("four bytes")) as usize + 1;
            if unread.len() < length {
                return Ok(());
            }
            let bytes = unread[..length].to_vec();
            self.node.engine.peer.consume(length);
            let frame = Frame::new(&bytes).map_err(|why| Gone::Node(why.to_string()))?;
            if frame.tag() == back::ERROR {
                let complaint = Complaint::read(&frame);
                return Err(Gone::Node(String::from_utf8_lossy(complaint.message()).into_owned()));
            }
            self.client.out().extend_from_slice(&bytes);
        }
    }

    /// Says once that the isolation level is another.
    fn note_raised(&mut self) {
        if self.node.promise.told {
            return;
        }
        self.node.promise.told = true;
        let text =
            "READ COMMITTED is raised to REPEATABLE READ: this design gives each transaction one snapshot";
        self.client.out().problem(&Problem { severity: Severity::Notice, ..Problem::error("00000", text) });
    }

    /// Writes an error. One that says that the statement was cancelled for another transaction says so.
    async fn complain(&mut self, error: &[u8]) -> Run<()> {
        let bytes = self.node.said(error.to_vec());
        self.emit(&bytes).await
    }

    /// After a statement that has run: what it means for the session.
    fn notes(&mut self, statement: &Statement) {
        match &statement.class {
            Class::Sets(level) => {
                let promise = &mut self.node.promise;
                promise.consistency = level.unwrap_or(promise.default);
            }
            Class::Forgets => {
                // DISCARD ALL has reset what the connection was given.
                self.node.has_joined &= self.node.status() != Status::Idle;
                if !statement.text.to_ascii_lowercase().contains("temp") {
                    self.names.statements.retain(|name, _| name.is_empty());
                }
            }
            Class::Locks { tables, shared } => self.node.transaction.locks.push((tables.clone(), *shared)),
            _ => {}
        }
        if statement.raised {
            self.note_raised();
        }
    }
}

/// Event while a session waits for its client.
enum Heard {
    Client(io::Result<usize>),
    Away(Leave),
    Doomed,
    Node(io::Result<()>),
}

/// Error for the client of a transaction that was ended for another one.
fn lost() -> Problem {
    Problem::error(
        SERIALIZATION_FAILURE,
        "could not serialize access: another node has committed a conflicting change",
    )
    .hint("The transaction was ended. Run it again.")
}

/// The problem as it is sent.
fn framed(problem: &Problem) -> Vec<u8> {
    let mut out = Vec::new();
    out.problem(problem);
    out
}

/// The SQLSTATE of an error as it was sent.
fn sqlstate(error: &[u8]) -> String {
    let Ok(frame) = Frame::new(error) else { return String::new() };
    String::from_utf8_lossy(Complaint::read(&frame).sqlstate()).into_owned()
}

/// Whether the same statement may succeed when it is run again.
fn may_repeat(error: &[u8]) -> bool {
    matches!(sqlstate(error).as_str(), "40001" | "40P01")
}
