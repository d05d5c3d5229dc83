//! One COMMIT at a time at the primary, so that the order of commits is known by their sending (Plattner and
//! Alonso, 2004, section 4.3).
//!
//! A turn is over when the result of the commit is known: with its answer, or, if the connection was lost,
//! when the backend is gone. A lost connection ends nothing: the backend may wait for a flush, and commit
//! after the next. For the same reason no commit has a turn as long as backends of an earlier Consort may be
//! left.
//!
//! Contract: the holder of the turn sends a COMMIT that waits for no other transaction. An autocommit
//! statement waits for rows, so it is sent as a block whose COMMIT alone has the turn. Deferred constraints
//! wait for others' rows, so `SET CONSTRAINTS ALL IMMEDIATE` is sent before the turn is asked for. Else the
//! holder waits for a transaction that waits for the turn.

use crate::Reason;
use history::DatabaseId;
use order::{DoubtId, DoubtState, Order};
use std::collections::{BTreeSet, VecDeque};

/// One commit's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnId(u64);

/// Holder of the turn, and the queue.
///
/// Invariants: at most one has the turn. Waiting commits came in the order of the queue, and get the turn in
/// it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    next: u64,
    has: Option<TurnId>,
    /// Lost in-flight write sets at the time when the holder's connection was lost, one of which is its own.
    lost: BTreeSet<DoubtId>,
    waiting: VecDeque<(TurnId, DatabaseId)>,
}

impl Turns {
    /// A commit in this database waits for the turn; an error if `most` wait already.
    pub(crate) fn ask(&mut self, database: DatabaseId, most: usize, order: &Order) -> Result<TurnId, Reason> {
        if self.waiting.len() >= most {
            return Err(Reason::TimedOut);
        }
        self.next += 1;
        let id = TurnId(self.next);
        self.waiting.push_back((id, database));
        self.pass(order);
        Ok(id)
    }

    /// True if this one has the turn, after backends that have gone gave theirs back.
    pub(crate) fn has(&mut self, id: TurnId, order: &Order) -> bool {
        self.lost.retain(|doubt| order.doubt_state(*doubt) == Some(DoubtState::Lost));
        self.pass(order);
        self.has == Some(id)
    }

    pub(crate) fn end(&mut self, id: TurnId, order: &Order) {
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.has.take_if(|has| *has == id);
        self.pass(order);
    }

    /// The holder's connection was lost: the turn goes on until the backends of all in-flight write sets that
    /// are lost now are gone.
    pub(crate) fn lose(&mut self, id: TurnId, order: &Order) {
        if self.has == Some(id) {
            let lost = order.doubts().filter(|doubt| doubt.state == DoubtState::Lost);
            self.lost = lost.map(|doubt| doubt.id).collect();
        }
        self.end(id, order);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn pass(&mut self, order: &Order) {
        if self.has.is_none() && self.lost.is_empty() {
            let first = self.waiting.pop_front_if(|(_, database)| order.clear(*database));
            self.has = first.map(|(id, _)| id);
        }
    }
}
