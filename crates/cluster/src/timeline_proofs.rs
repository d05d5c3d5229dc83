//! Proofs that standbys are on the history of the primary, in its present incarnation.

use super::Cluster;
use history::Incarnation;
use postgres::timelines::{PrimaryHistory, Proof};
use scheduler::{Kind, StandbyId};
use std::rc::Rc;

/// Reason that the console shows for a standby that must be compared with a new incarnation of the primary.
const COMPARED_AGAIN: &str = "the primary has restarted: comparing its timeline history with the standby's";

/// Incarnations with which a standby was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proven {
    primary: Incarnation,
    /// True if the primary was reachable, and WAL was compared.
    is_whole: bool,
}

/// Notes a log-in at the primary. One that was lost, and takes log-ins before its incarnation is known, may have another
/// history: everything is in flight until it is known.
pub fn primary_took_log_in(cluster: &Cluster) {
    if !cluster.scheduler().order().primary_here() {
        cluster.scheduler().order_mut().distrust();
        cluster.backends().distrust();
        cluster.moved();
    }
}

impl Cluster {
    /// Notes the incarnation of the connected primary. A standby that was compared with another one serves
    /// nothing until it was compared with this one: a server with another history may have the same address.
    pub(crate) fn primary_lives(&self, life: Incarnation) {
        self.scheduler().order_mut().incarnate(life);
        let standbys = self.0.standbys.borrow().clone();
        for (place, standby) in standbys.iter().enumerate() {
            let Some(proven) = standby.proven.get() else { continue };
            if proven != (Proven { primary: life, is_whole: true }) {
                standby.proven.set(None);
                self.scheduler().standby_unproven(super::numbered(place), COMPARED_AGAIN);
                standby.ask.notify_one();
            }
        }
    }

    /// Notes that a standby is on the history of the primary. Returns `false` if the proof was for another
    /// incarnation of the primary than the current one.
    pub(crate) fn standby_proven(&self, id: StandbyId, proof: &Proof) -> bool {
        debug_assert_eq!(self.standby(id).kind, Kind::Standby, "a logical replica has no common history");
        let known = self.scheduler().order().incarnation();
        let holds = known.is_none_or(|known| known == proof.primary);
        let proven = Proven { primary: proof.primary, is_whole: proof.compared_wal };
        self.entry(id).proven.set(holds.then_some(proven));
        holds
    }

    /// Returns true if a standby is known to be on the history of the primary.
    pub(crate) fn is_proven(&self, id: StandbyId) -> bool {
        self.entry(id).proven.get().is_some()
    }

    /// History of the primary at the last comparison with a standby.
    pub(crate) fn primary_history(&self) -> Option<Rc<PrimaryHistory>> {
        self.0.primary_history.borrow().clone()
    }

    pub(crate) fn set_primary_history(&self, history: Rc<PrimaryHistory>) {
        *self.0.primary_history.borrow_mut() = Some(history);
    }
}
