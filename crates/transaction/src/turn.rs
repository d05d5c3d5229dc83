//! A turn at the primary that is passed on exactly once, also when its flow is dropped half-way.

use crate::{AtPrimary, Cluster};
use history::DatabaseId;
use scheduler::{Reason, TurnId};
use std::time::Duration;

/// The turn to commit. Dropped without an outcome, it is passed on when nothing is under way any more.
#[derive(Debug)]
pub struct Turn<C: Cluster> {
    cluster: C,
    id: TurnId,
    outcome: AtPrimary,
}

/// Waits for the turn, at most for `limit`. Work in the turn waits for no other transaction: see the
/// scheduler's `turns`.
///
/// Errors: [`Reason::TimedOut`]: the turn did not come in time, or too many wait for it.
pub async fn turn<C: Cluster>(cluster: &C, database: DatabaseId, limit: Duration) -> Result<Turn<C>, Reason> {
    let id = cluster.scheduler().turn_asked(database)?;
    let turn = Turn { cluster: cluster.clone(), id, outcome: AtPrimary::ConnectionLost };
    let mut left = limit;
    while !cluster.scheduler().has_turn(id) {
        left = cluster.changed(left).await.ok_or(Reason::TimedOut)?;
    }
    Ok(turn)
}

impl<C: Cluster> Turn<C> {
    /// Ends the turn with the outcome of its work.
    pub fn over(mut self, outcome: AtPrimary) {
        self.outcome = outcome;
    }
}

impl<C: Cluster> Drop for Turn<C> {
    fn drop(&mut self) {
        match self.outcome {
            AtPrimary::Answered => self.cluster.scheduler().turn_ended(self.id),
            AtPrimary::ConnectionLost => self.cluster.scheduler().turn_lost(self.id),
        }
        self.cluster.moved();
    }
}
