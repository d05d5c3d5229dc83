//! What an operator says of a replica that Consort feeds while the process runs: paused, resumed, made anew.

use super::{Cluster, Stage, TO_BE_COPIED};
use scheduler::{Serving, StandbyId};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A replica that was resumed is waited for no longer: its server may be away.
const GOES_ON_LIMIT: Duration = Duration::from_secs(5);
/// How often is looked whether it goes on.
const GOES_ON_EVERY: Duration = Duration::from_millis(5);

impl Cluster {
    /// The replica of this name that Consort feeds.
    pub fn fed_named(&self, name: &str) -> Option<StandbyId> {
        self.fed_ids().find(|id| self.standby(*id).name == name)
    }

    /// From here on no read begins at the replica, and it takes nothing; a copy that is being made is broken off. What it
    /// lacks is kept for it for as long as `fed_buffer` holds it.
    pub fn pause_replica(&self, id: StandbyId) {
        self.entry(id).paused.set(true);
        self.told(id);
    }

    /// The replica goes on where it was, or is copied anew if too much was written meanwhile.
    pub fn resume_replica(&self, id: StandbyId) {
        self.entry(id).paused.set(false);
        self.told(id);
    }

    /// Completes when none of the replica's databases is shown as paused any more, or at last when that has lasted too long.
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

    /// Every database is copied to the replica anew, as soon as it may take anything. A copy that is being made is one.
    pub fn rebuild_replica(&self, id: StandbyId) {
        for of in self.feeds().not_copied_now(id) {
            self.fed_leaves(id, of);
            self.feeds().copied_well(of, id, String::new());
            self.feeds().set_stage(of, id, Stage::Waiting(TO_BE_COPIED.to_owned()));
        }
        self.told(id);
    }

    /// Whether an operator wants nothing to be read or written there.
    pub(crate) fn is_paused(&self, id: StandbyId) -> bool {
        self.entry(id).paused.get()
    }

    /// Completes when nothing may be written at the replica, for it is paused or leaves; at once if that is so.
    pub(crate) async fn replica_stopped(&self, id: StandbyId) {
        self.once_told(id, || self.is_paused(id) || !self.is_here(id)).await;
    }

    /// Completes when nothing is done any more at a replica that has left.
    pub(crate) async fn until_gone(&self, id: StandbyId) {
        self.once_told(id, || self.is_gone(id)).await;
    }

    /// Completes when an operator has said something of the replica, and this is so.
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

    /// Completes when an operator has said something else of the replica.
    pub(crate) async fn replica_told(&self, id: StandbyId) {
        self.entry(id).told.notified().await;
    }

    /// The replica's server is there: it takes reads unless it is paused, or leaves.
    pub(crate) fn replica_serves(&self, id: StandbyId) {
        if self.is_here(id) {
            let serving = if self.is_paused(id) { Serving::No("paused".into()) } else { Serving::Yes };
            self.scheduler().standby_serving(id, serving);
        }
        self.moved();
    }

    /// Wakes whoever heeds it.
    pub(super) fn told(&self, id: StandbyId) {
        if self.is_watched(id) {
            self.replica_serves(id);
        }
        self.entry(id).told.notify_waiters();
        self.feeds().changed();
    }
}
