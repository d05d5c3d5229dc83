//! One transaction at one replica that goes on alone: it executes what the primary has executed, step by
//! step, when the order says so.

use super::Scheduled;
use history::Incarnation;
use scheduler::StandbyId;
use scheduler::scheduled::{Step, TransactionId};
use std::rc::Rc;
use tokio::sync::mpsc::UnboundedReceiver;

/// Begins to follow a transaction at a replica.
pub type Follow = Rc<dyn Fn(Following)>;

/// See the module documentation. If this is dropped before the transaction's end, the replica must have been
/// taken out.
pub struct Following {
    pub(super) of: Rc<Scheduled>,
    pub(super) id: TransactionId,
    pub(super) steps: UnboundedReceiver<Step>,
    /// Number of the replica.
    pub replica: StandbyId,
    /// Incarnation of the replica.
    pub life: Incarnation,
}

impl Following {
    /// Next step of the replica. `None`: it is no longer a participant.
    pub async fn next(&mut self) -> Option<Step> {
        self.steps.recv().await
    }

    /// Completes when the replica is no longer a participant. Until a step is done there is no other.
    pub async fn left(&mut self) {
        while self.steps.recv().await.is_some() {}
    }

    /// Notes that the replica has done a step.
    pub fn done(&self, step: Step) {
        if matches!(step, Step::Commit | Step::Rollback) {
            self.of.followers.borrow_mut().remove(&(self.id, self.replica));
        }
        let actions = self.of.machine.borrow_mut().answered(self.replica, self.id);
        self.of.act(actions);
        self.of.forget(self.id);
    }
}
