//! Requests to a primary and its answers; the content of its WAL; the ghost's memory of locks and of
//! SERIALIZABLE transactions.

use super::schema::{Cell, Table};
use super::serial::SerialTransaction;
use super::statement::{Change, Select};
use crate::executor::Micros;
use history::{DatabaseId, Footprint};
use std::rc::Rc;

/// A committed transaction.
#[derive(Debug)]
pub struct Committed {
    /// The database.
    pub database: DatabaseId,
    /// Its identity.
    pub xid: u64,
    /// Changes of the commit.
    pub effects: Vec<(Cell, u32)>,
    /// The stream's record of its writes; `None` if it does not come out.
    pub wrote: Option<Footprint>,
    /// True if it changed the catalog.
    pub ddl: bool,
}

/// One record of the WAL.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its start.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Whose it is.
    pub xid: u64,
    /// The commit, if it is a commit's.
    pub commit: Option<Rc<Committed>>,
}

/// The isolation of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// READ COMMITTED.
    Committed,
    /// REPEATABLE READ.
    Repeatable,
    /// SERIALIZABLE.
    Serializable,
}

/// Pace of a commit: unset steps are drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// `synchronous_commit = off`.
    pub asynchronous: bool,
    /// From its record to its visibility, the flush apart.
    pub visible: Option<Micros>,
    /// From its visibility to its answer.
    pub answer: Option<Micros>,
    /// From COMMIT to its record.
    pub record: Option<Micros>,
}

/// Request of a client to its backend.
#[derive(Clone, Debug)]
pub enum Request {
    /// BEGIN.
    Begin(Isolation),
    /// A query.
    Read(Select),
    /// Changes inside a block.
    Write {
        /// The changes.
        changes: Vec<Change>,
        /// True if in a sub-transaction, whose identity never comes out.
        savepoint: bool,
    },
    /// COMMIT.
    Commit(Pace),
    /// ROLLBACK.
    Rollback,
    /// Outside a block: an autocommit statement, or CALL with COMMITs inside.
    Auto {
        /// The transactions, in their order.
        transactions: Vec<Vec<Change>>,
        /// Pace of each commit.
        pace: Pace,
        /// True if each works in a sub-transaction.
        savepoint: bool,
        /// True if the last ends in an error.
        fails: bool,
    },
    /// A read that is parsed and bound and no more: it takes ACCESS SHARE locks.
    LockShared(Vec<Table>),
    /// A command that fails, in a block.
    Fail,
    /// A function that calls `set_config`.
    Tenant(usize),
}

/// Answer of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A result; the number of the state that it shows.
    Rows(Vec<u32>),
    /// Done.
    Done,
    /// An error: in a block, the block has failed.
    Failed,
    /// 25P02: the block has failed before.
    InFailedBlock,
}

/// A commit, as a fact.
#[derive(Clone, Debug)]
pub struct Fact {
    /// By which backend.
    pub pid: i32,
    /// The database.
    pub database: DatabaseId,
    /// Changes of the commit.
    pub effects: Vec<(Cell, u32)>,
    /// The number of the first state that shows it.
    pub shown: usize,
    /// Time of the commit.
    pub at: Micros,
}

/// A SERIALIZABLE transaction that the primary let commit.
#[derive(Clone, Debug)]
pub struct SerialFact {
    /// Time of the commit.
    pub at: Micros,
    /// By which backend.
    pub pid: i32,
    /// The database.
    pub database: DatabaseId,
    /// Its reads and writes there.
    pub transaction: SerialTransaction,
}

/// An ACCESS EXCLUSIVE lock, as it was held.
#[derive(Clone, Debug)]
pub struct HeldLock {
    /// In which database.
    pub database: DatabaseId,
    /// On which table.
    pub table: Table,
    /// By the backend with this pid.
    pub pid: i32,
    /// From when.
    pub from: Micros,
    /// Until when; `None` if it is still held.
    pub until: Option<Micros>,
}
