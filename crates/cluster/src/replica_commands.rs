//! Commands of an operator for a logical replica while the process runs: pause, resume, rebuild.

use super::{Cluster, Stage, TO_BE_COPIED};
use scheduler::{Serving, StandbyId};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Maximum wait for a resumed replica: its server may be down.
const GOES_ON_LIMIT: Duration = Duration::from_secs(5);
/// Interval between checks for the end of the pause.
const GOES_ON_EVERY: Duration = Duration::from_millis(5);

impl Cluster {
    /// The logical replica of this name.
    pub fn fed_named(&self, name: &str) -> Option<StandbyId> {
        self.fed_ids().find(|id| self.standby(*id).name == name)
    }

    /// Pauses a replica: no new read runs there, it receives nothing, and a copy in progress is broken off.
    /// Missing boundaries are kept for it for as long as `replication_buffer_size` holds them.
    pub fn pause_replica(&self, id: StandbyId) {
        self.entry(id).paused.set(true);
        self.told(id);
    }

    /// Resumes the replica's feed where it was. If too much was written in the meantime, the replica is
    /// copied again.
    pub fn resume_replica(&self, id: StandbyId) {
        self.entry(id).paused.set(false);
        self.told(id);
    }

    /// Completes when none of the replica's databases is shown as paused any more, or at the limit.
    pub async fn goes_on(&self, id: StandbyId) {
        let is_held = || {
            let courses = self.courses();
            courses.iter().any(|course| course.replica == id && course.stage == Stage::Paused)
        };
        let all = async {
            while is_held() && self.is_here(id) && !self.is_paused(id) {
                sleep(GOES_ON_EVERY).await;
            }
        };
        let _ = timeout(GOES_ON_LIMIT, all).await;
    }

    /// Copies every database to the replica again, as soon as the replica may take anything. A copy in
    /// progress counts as one.
    pub fn rebuild_replica(&self, id: StandbyId) {
        for of in self.feeds().not_copied_now(id) {
            self.fed_leaves(id, of);
            self.feeds().copied_well(of, id, String::new());
            self.feeds().set_stage(of, id, Stage::Waiting(TO_BE_COPIED.to_owned()));
        }
        self.told(id);
    }

    /// Returns true if an operator has paused the replica: no reads, no writes.
    pub(crate) fn is_paused(&self, id: StandbyId) -> bool {
        self.entry(id).paused.get()
    }

    /// Completes when no write may go to the replica, because it is paused or leaves; at once if it is
    /// already.
    pub(crate) async fn replica_stopped(&self, id: StandbyId) {
        self.once_told(id, || self.is_paused(id) || !self.is_here(id)).await;
    }

    /// Completes when no work is done any more at a replica that has left.
    pub(crate) async fn until_gone(&self, id: StandbyId) {
        self.once_told(id, || self.is_gone(id)).await;
    }

    /// Completes when an operator has commanded the replica, and this condition holds.
    async fn once_told(&self, id: StandbyId, is_so: impl Fn() -> bool) {
        let entry = self.entry(id);
        loop {
            let told = entry.told.notified();
            if is_so() {
                return;
            }
            told.await;
        }
    }

    /// Completes when an operator has commanded the replica.
    pub(crate) async fn replica_told(&self, id: StandbyId) {
        self.entry(id).told.notified().await;
    }

    /// Notes that the replica's server is reachable: it takes reads unless it is paused, or leaves.
    pub(crate) fn replica_serves(&self, id: StandbyId) {
        if self.is_here(id) {
            let serving = if self.is_paused(id) { Serving::No("paused".into()) } else { Serving::Yes };
            self.scheduler().standby_serving(id, serving);
        }
        self.moved();
    }

    /// Wakes the tasks that apply the command.
    pub(super) fn told(&self, id: StandbyId) {
        if self.is_watched(id) {
            self.replica_serves(id);
        }
        self.entry(id).told.notify_waiters();
        self.feeds().changed();
    }
}
