//! The two orders under one interface.

use scheduler::StandbyId;
use scheduler::scheduled::{
    Action, Holding, Locking, Options, Outcome, Place, Refused, Tables, TransactionId,
};

/// The order: by table locks, statement by statement, or by the tables that a transaction declares.
pub(super) enum Machine {
    Locking(Locking),
    Holding(Holding),
}

impl Machine {
    /// Creates the order of a cluster with this one participant.
    pub(super) fn new(declares: bool, alone: StandbyId) -> Machine {
        if declares {
            Machine::Holding(Holding::new(Options::default(), [alone]))
        } else {
            Machine::Locking(Locking::new(Options::default(), [alone]))
        }
    }

    /// Begins a transaction. In designs with declared tables it touches these, and runs at this node if it
    /// only reads.
    pub(super) fn begin(
        &mut self,
        tables: Tables,
        place: Place,
    ) -> Result<(TransactionId, Vec<Action>), Refused> {
        match self {
            Machine::Locking(locking) => Ok((locking.begin()?, Vec::new())),
            Machine::Holding(holding) => holding.begin_at(tables, place),
        }
    }

    pub(super) fn statement(
        &mut self,
        id: TransactionId,
        tables: Tables,
        place: Place,
    ) -> Result<Vec<Action>, Refused> {
        match self {
            Machine::Locking(locking) => locking.statement_at(id, tables, place),
            Machine::Holding(holding) => holding.statement(id, &tables),
        }
    }

    /// Stops waiting for the transaction's last request. A transaction that has declared its tables has done
    /// nothing yet, and ends here.
    pub(super) fn withdraw(&mut self, id: TransactionId) -> Vec<Action> {
        match self {
            Machine::Locking(locking) => locking.withdraw(id),
            Machine::Holding(holding) => holding.abandon(id),
        }
    }

    pub(super) fn back_to_savepoint(&mut self, id: TransactionId) -> Result<Vec<Action>, Refused> {
        match self {
            Machine::Locking(locking) => locking.back_to_savepoint(id),
            Machine::Holding(holding) => holding.back_to_savepoint(id),
        }
    }

    pub(super) fn end(&mut self, id: TransactionId, commit: bool) -> Result<Vec<Action>, Refused> {
        match self {
            Machine::Locking(locking) => locking.end(id, commit),
            Machine::Holding(holding) => holding.end(id, commit),
        }
    }

    pub(super) fn abandon(&mut self, id: TransactionId) -> Vec<Action> {
        match self {
            Machine::Locking(locking) => locking.abandon(id),
            Machine::Holding(holding) => holding.abandon(id),
        }
    }

    pub(super) fn answered(&mut self, from: StandbyId, id: TransactionId) -> Vec<Action> {
        match self {
            Machine::Locking(locking) => locking.answered(from, id, Outcome::Done),
            Machine::Holding(holding) => holding.answered(from, id, Outcome::Done),
        }
    }

    pub(super) fn replica_failed(&mut self, replica: StandbyId) -> Vec<Action> {
        match self {
            Machine::Locking(locking) => locking.replica_failed(replica),
            Machine::Holding(holding) => holding.replica_failed(replica),
        }
    }

    pub(super) fn join(&mut self, replica: StandbyId) {
        match self {
            Machine::Locking(locking) => locking.join(replica),
            Machine::Holding(holding) => holding.join(replica),
        }
    }

    /// Number of transactions that have not ended everywhere.
    pub(super) fn open(&self) -> usize {
        match self {
            Machine::Locking(locking) => locking.open(),
            Machine::Holding(holding) => holding.open(),
        }
    }

    /// Returns true if replicas still have steps of a transaction to do.
    pub(super) fn knows(&self, id: TransactionId) -> bool {
        match self {
            Machine::Locking(_) => false,
            Machine::Holding(holding) => holding.knows(id),
        }
    }
}
