//! Transactions that are ordered before anything is executed, and are then executed by every replica: no rows
//! travel, and every replica is an engine of its own.
//!
//! [`Holding`] orders by *declared tables*: a transaction says before it begins which tables it will touch,
//! and gets their versions. Each replica goes on alone, in the order of the versions, and holds what cannot
//! run yet (Amza et al., 2003; section V.A of Manassiev and Amza). [`Locking`] orders by *table locks* that
//! are taken statement by statement and held until every replica has committed (C-JDBC: Cecchet, 2004). Both
//! give one-copy serializability, in an order in which each transaction lies between its beginning and its
//! answer; the arguments stand at the types.
//!
//! # Duties of the caller
//!
//! - *Statements are deterministic*: clocks, random values, sequences and physical order are rewritten to
//!   values, or refused, before a statement comes here. A replica that answers otherwise than the others is
//!   taken out.
//! - *An outcome is the statement's own*: a failure for the replica's sake (no disk, no memory, no
//!   connection) is no outcome but a replica that has [failed](Holding::replica_failed). A leader's would
//!   take out all others.
//! - *Tables are closed over*: views, triggers, rules, foreign keys (a child that comes reads its parent). A footprint of
//!   everything is a table that every transaction names.
//! - *Steps of one transaction* go to a replica over one connection, in their order; each is answered before the next is
//!   sent. A replica whose connection is lost is [failed](Holding::replica_failed): its transactions may be half done.
//! - *The engine's own locks*: transactions that run at the same time at one replica share no table of which one is written.

mod bugs;
mod holding;
mod locking;

pub use bugs::{Bug, Bugs};
pub use holding::Holding;
pub use locking::Locking;

use crate::StandbyId;
use history::RelationId;
use std::collections::BTreeSet;
use std::fmt;

/// One transaction. The numbers ascend in the order of their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionId(u64);

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

/// The tables that a transaction or a statement touches. Written tables count as read too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Read.
    pub reads: BTreeSet<RelationId>,
    /// Written.
    pub writes: BTreeSet<RelationId>,
}

impl Tables {
    /// Every table of them, once.
    fn all(&self) -> BTreeSet<RelationId> {
        self.reads.union(&self.writes).copied().collect()
    }

    /// A table that `used` touches in a way that is not declared here.
    fn lacks(&self, used: &Tables) -> Option<RelationId> {
        let unread = |table: &&RelationId| !self.reads.contains(table) && !self.writes.contains(table);
        let unwritten = |table: &&RelationId| !self.writes.contains(table);
        used.writes.iter().find(unwritten).or_else(|| used.reads.iter().find(unread)).copied()
    }

    /// True if one must come after the other.
    fn conflicts(&self, other: &Tables) -> bool {
        let meets = |one: &Tables, other: &Tables| {
            one.writes.iter().any(|table| other.writes.contains(table) || other.reads.contains(table))
        };
        meets(self, other) || meets(other, self)
    }
}

/// Place of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// At one replica, whichever has the least to do.
    Anywhere,
    /// At this one.
    At(StandbyId),
    /// At all.
    #[default]
    Everywhere,
}

/// Bounds and behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Transactions that have begun and not ended.
    pub max_open: usize,
    /// Transactions that a replica may still lack of those that have ended; one that lacks more is taken out.
    pub max_held: usize,
    /// Statements of one transaction.
    pub max_statements: usize,
    /// For the simulator's tests of its checkers.
    pub bugs: Bugs,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_open: 4_096, max_held: 4_096, max_statements: 65_536, bugs: Bugs::default() }
    }
}

/// Answer of a replica to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The step is done.
    Done,
    /// An error of the statement's own: the transaction can only be rolled back.
    Failed,
}

/// Step that is sent to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The transaction's statement of this number, from 0.
    Statement(usize),
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
}

/// Why a replica is taken out, or a transaction cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The replica answered otherwise than the others.
    Diverged,
    /// The replica lacks more transactions than [`Options::max_held`].
    TooFarBehind,
    /// The replica that ran it is gone.
    ReplicaGone,
}

/// Action that the caller must take now, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the step; its answer is [reported](Holding::answered).
    Send(StandbyId, TransactionId, Step),
    /// Hand on to the client what this replica answered to its last step.
    Answer(TransactionId, StandbyId),
    /// The transaction is dropped; its client gets an error. If its COMMIT was under way, its result is
    /// unknown.
    Fail(TransactionId, Why),
    /// The replica is not in the cluster any more: nothing is sent there, and its answers are not reported.
    TakeOut(StandbyId, Why),
}

/// Why a step is refused. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The table was not declared. The transaction can only be rolled back.
    Undeclared(RelationId),
    /// The transaction would wait for one that waits for it. Only a rollback is possible.
    Deadlock,
    /// The transaction has failed before.
    Failed,
    /// As many are open as may be, or it has as many statements as it may have.
    Full,
    /// No replica is left.
    NoReplica,
    /// Its last step is not answered.
    Busy,
    /// There is no such transaction.
    Unknown,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Undeclared(table) => write!(f, "table {table} was not declared"),
            Refused::Deadlock => f.write_str("deadlock"),
            Refused::Failed => f.write_str("the transaction has failed"),
            Refused::Full => f.write_str("too many transactions are open"),
            Refused::NoReplica => f.write_str("no replica is left"),
            Refused::Busy => f.write_str("the last step is not answered"),
            Refused::Unknown => f.write_str("no such transaction"),
        }
    }
}

impl std::error::Error for Refused {}
