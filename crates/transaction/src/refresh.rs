//! The lock of a replica that is brought further, where a refresh locks; kept from the wait for it on, and given back also when
//! its flow is dropped half-way. Who goes first is the scheduler's to say: see its `whole`.

use crate::Cluster;
use history::DatabaseId;
use scheduler::StandbyId;
use std::time::Duration;

/// One database of a replica is locked: nobody reads there, and who comes waits. Dropped, it is open again: say before what it
/// shows by then, or that this is unknown.
#[derive(Debug)]
#[must_use]
pub struct Refresh<C: Cluster> {
    cluster: C,
    at: (StandbyId, DatabaseId),
}

/// Locks it, as soon as those who read there have ended; after `limit` they are let go. How many those were.
pub async fn refresh<C: Cluster>(
    cluster: &C,
    at: (StandbyId, DatabaseId),
    limit: Duration,
) -> (Refresh<C>, usize) {
    let locked = Refresh { cluster: cluster.clone(), at };
    let (mut left, mut let_go) = (limit, 0);
    while !cluster.scheduler().refresh(at.0, at.1) {
        match cluster.changed(left).await {
            Some(rest) => left = rest,
            None => {
                let_go += cluster.scheduler().let_go(at.0, at.1);
                cluster.let_go();
            }
        }
    }
    (locked, let_go)
}

impl<C: Cluster> Drop for Refresh<C> {
    fn drop(&mut self) {
        self.cluster.scheduler().refreshed(self.at.0, self.at.1);
        self.cluster.moved();
    }
}
