//! The lock of a replica during a refresh that locks. The lock is kept from the wait for it on, and given
//! back also when its flow is dropped half-way. The scheduler decides who goes first: see
//! its `latest_state_reads`.

use crate::Cluster;
use history::DatabaseId;
use scheduler::StandbyId;
use std::time::Duration;

/// Lock of one database of a replica: no read runs there, and new reads wait. A drop opens it again: report
/// before the drop what it shows by then, or that this is unknown.
#[derive(Debug)]
#[must_use]
pub struct Refresh<C: Cluster> {
    cluster: C,
    at: (StandbyId, DatabaseId),
}

/// Locks the database as soon as its readers have ended; after `limit` they are let go. Returns the number of
/// readers that were let go.
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
