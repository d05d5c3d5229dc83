//! One COMMIT at a time at the primary, so that the order of commits is known by their sending (Plattner and Alonso,
//! 2004, section 4.3).
//!
//! A turn is over when it is known what became of the commit: with its answer; or, where the connection was lost, when
//! the backend is gone. A lost connection ends nothing: the backend may wait for a flush, and commit after the next. For
//! the same reason nobody has a turn as long as backends of an earlier Consort may be left.
//!
//! Contract: who has the turn sends a COMMIT that waits for nobody else. An autocommit statement waits for rows, so it is
//! sent as a block whose COMMIT alone has the turn; deferred constraints wait for others' rows, so `SET CONSTRAINTS ALL
//! IMMEDIATE` is sent before the turn is asked for. Else the holder waits for one who waits for the turn.

use crate::Reason;
use crate::scheduler::Scheduler;
use history::DatabaseId;
use order::{DoubtId, DoubtState};
use std::collections::{BTreeSet, VecDeque};

/// One commit's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnId(u64);

/// Who has the turn, and who waits.
///
/// Invariants: the turn is had by one or by none; who waits came in the order of the queue, and gets the turn in it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    next: u64,
    has: Option<TurnId>,
    /// The holder's connection was lost: the doubts that were lost by then, one of which is its own.
    lost: BTreeSet<DoubtId>,
    waiting: VecDeque<(TurnId, DatabaseId)>,
}

impl Scheduler {
    /// A commit in this database asks for the turn.
    ///
    /// Errors: [`Reason::TimedOut`]: as many wait as may ([`max_turns`](crate::Options::max_turns)).
    pub fn turn_asked(&mut self, database: DatabaseId) -> Result<TurnId, Reason> {
        if self.turns.waiting.len() >= self.options.max_turns {
            return Err(Reason::TimedOut);
        }
        self.turns.next += 1;
        let id = TurnId(self.turns.next);
        self.turns.waiting.push_back((id, database));
        self.pass_turn();
        Ok(id)
    }

    /// Whether this one has the turn. If not, ask again when something has moved.
    pub fn has_turn(&mut self, id: TurnId) -> bool {
        let order = &self.order;
        self.turns.lost.retain(|doubt| order.doubt_state(*doubt) == Some(DoubtState::Lost));
        self.pass_turn();
        self.turns.has == Some(id)
    }

    /// Its commit was answered, or it commits nothing, or it waits no more.
    pub fn turn_ended(&mut self, id: TurnId) {
        self.turns.waiting.retain(|(waiting, _)| *waiting != id);
        self.turns.has.take_if(|has| *has == id);
        self.pass_turn();
    }

    /// Its connection was lost with the commit unanswered: say it when the doubt is said to be lost. The turn goes on until
    /// the backend is gone.
    pub fn turn_lost(&mut self, id: TurnId) {
        let lost = self.order.doubts().filter(|doubt| doubt.state == DoubtState::Lost);
        let doubts: BTreeSet<DoubtId> = lost.map(|doubt| doubt.id).collect();
        if self.turns.has == Some(id) && !self.options.bugs.turn_ends_with_connection {
            self.turns.lost = doubts;
        }
        self.turn_ended(id);
    }

    /// How many wait for the turn.
    pub fn turns_waiting(&self) -> usize {
        self.turns.waiting.len()
    }

    fn pass_turn(&mut self) {
        let (order, turns) = (&self.order, &mut self.turns);
        if turns.has.is_none() && turns.lost.is_empty() {
            let first = turns.waiting.pop_front_if(|(_, database)| order.clear(*database));
            turns.has = first.map(|(id, _)| id);
        }
    }
}
