//! An in-flight write set that outlives its session.

use crate::bugs::Bug;
use crate::{Backend, Cluster};
use history::{DatabaseId, Footprint};
use order::DoubtId;

/// A write set that a backend may commit at any moment from now on. The write set begins before the first
/// byte that may commit and ends only by a settled snapshot probe that was sent after the answer, or after
/// the backend is known to be gone.
///
/// If it is dropped without an answer (the connection broke, the client went away, the flow was cut off), it
/// stays open, and the cluster watches the backend.
#[derive(Debug)]
pub struct InDoubt<C: Cluster> {
    cluster: C,
    doubt: DoubtId,
    backend: Backend,
    answered: bool,
}

impl<C: Cluster> InDoubt<C> {
    /// From here on whoever reads `footprint` stays at the primary.
    pub(crate) fn begin(
        cluster: &C,
        backend: Backend,
        database: DatabaseId,
        footprint: Footprint,
    ) -> InDoubt<C> {
        let doubt = cluster.scheduler().order_mut().doubt(database, footprint);
        InDoubt { cluster: cluster.clone(), doubt, backend, answered: false }
    }

    /// Its name in the order: for `narrow`, when the statement's tree arrives.
    pub fn id(&self) -> DoubtId {
        self.doubt
    }

    /// The primary has answered, with a result or an error: the next snapshot probe that is sent may end the
    /// write set.
    pub(crate) fn answered(mut self) {
        self.answered = true;
        self.cluster.scheduler().order_mut().answered(self.doubt);
        self.cluster.gauge_wanted();
    }

    /// The primary has answered what was proven to write nothing.
    pub(crate) fn answered_quietly(mut self) {
        self.answered = true;
        self.cluster.scheduler().order_mut().answered_quietly(self.doubt);
        self.cluster.gauge_wanted();
    }
}

impl<C: Cluster> Drop for InDoubt<C> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        if self.cluster.bugs().has(Bug::ForgetDeadCommit) {
            self.cluster.scheduler().order_mut().answered(self.doubt);
            self.cluster.gauge_wanted();
            return;
        }
        self.cluster.scheduler().order_mut().connection_lost(self.doubt);
        self.cluster.orphaned(self.doubt, self.backend);
    }
}
