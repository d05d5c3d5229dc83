//! Clients' actions and results: the only input of the checkers, besides the ghost.

use crate::executor::Micros;
use crate::model::request::{Fact, Isolation};
use crate::model::schema::{Cell, Table};
use crate::model::statement::{Select, Surroundings};
use history::DatabaseId;

/// Server that answered a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// By a standby.
    Standby,
    /// By the primary.
    Primary,
}

/// A moment: the time, and the number of the newest state that the primary had shown of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Virtual time.
    pub at: Micros,
    /// Number of the state.
    pub shown: usize,
}

/// One answered query.
#[derive(Clone, Debug)]
pub struct Read {
    /// Whose.
    pub client: u32,
    /// The database.
    pub database: DatabaseId,
    /// The query.
    pub select: Select,
    /// Its result.
    pub result: Vec<u32>,
    /// Time of its arrival.
    pub arrived: Moment,
    /// Time at which its answer was whole.
    pub answered: Moment,
    /// The server that answered.
    pub place: Where,
    /// Its surroundings, on one server.
    pub around: Surroundings,
    /// Earlier writes of its own block.
    pub own: Vec<(Cell, u32)>,
    /// Its block, if it ran in one.
    pub block: Option<usize>,
    /// True if the client asked for an answer as from one server (else for less).
    pub strong: bool,
}

/// One block.
#[derive(Clone, Debug)]
pub struct Block {
    /// The pid of its backend.
    pub pid: i32,
    /// The database.
    pub database: DatabaseId,
    /// The client's isolation level (its default included).
    pub isolation: Isolation,
    /// The interval of its first statement: where its snapshot lies, if it has one for all.
    pub first: Option<(Moment, Moment)>,
    /// Time at which its end was sent.
    pub ending: Option<Micros>,
    /// Time at which its end was answered.
    pub ended: Option<Micros>,
    /// Tables that it read or locked, and the time from which on no other session may lock them exclusively.
    pub holds: Vec<(Table, Micros)>,
    /// True if it may defer its locks: they are held up to its last statement, not up to its end.
    pub defers: bool,
    /// Arrivals of its successful statements but its end.
    pub statements: Vec<Micros>,
    /// True if it tried to write.
    pub wrote: bool,
}

/// One statement that may commit, as its client saw it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The backend.
    pub pid: i32,
    /// The database.
    pub database: DatabaseId,
    /// Time at which it was sent.
    pub sent: Micros,
    /// Time at which it was answered; `None` if never.
    pub answered: Option<Micros>,
}

/// A commit whose client heard of it when so many replicas had shown it.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    /// The backend.
    pub pid: i32,
    /// The database.
    pub database: DatabaseId,
    /// Time at which it was sent.
    pub sent: Micros,
    /// Time at which it was acknowledged.
    pub at: Micros,
}

/// Something that a client got and must never get, or had to wait for too long: found while it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// An answer began a second time.
    AnsweredTwice,
    /// A statement in a failed block was executed.
    RanInFailedBlock,
    /// An operation took longer than its bound.
    WaitedTooLong(&'static str, Micros),
    /// At the end, when everything was at rest, this had not come to rest.
    NotLive(&'static str),
}

/// Everything of one run.
#[derive(Debug, Default)]
pub struct Record {
    /// Queries.
    pub reads: Vec<Read>,
    /// Blocks.
    pub blocks: Vec<Block>,
    /// Statements that may commit.
    pub sent: Vec<Sent>,
    /// Commits that were acknowledged by replicas.
    pub acknowledged: Vec<Acknowledged>,
    /// Commits.
    pub facts: Vec<Fact>,
    /// Breaches of the wire's rules and of bounds.
    pub breaches: Vec<Breach>,
    /// The server lost commits: what was shown went back.
    pub went_back: bool,
    /// Reads that a standby answered, and why others were not.
    pub offloaded: u64,
    /// Reads that a replica answered which joined meanwhile.
    pub at_joined: u64,
    /// Reads that could have left.
    pub candidates: u64,
    /// Reasons of reads at the primary.
    pub reasons: std::collections::BTreeMap<&'static str, u64>,
}
