//! Which standbys are proven to be on the history of the primary, in the life that it has now.

use super::Cluster;
use history::Incarnation;
use postgres::timelines::{PrimaryHistory, Proof};
use scheduler::{Kind, StandbyId};
use std::rc::Rc;

/// What the console says of a standby that is to be compared with a new life of the primary.
const COMPARED_AGAIN: &str = "the primary has restarted: its history is compared with the standby's again";

/// What a standby was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proven {
    primary: Incarnation,
    /// The primary was there, and WAL was compared.
    is_whole: bool,
}

impl Cluster {
    /// The primary is connected, and this is its life. A standby that was compared with another life of it serves nothing
    /// until it was compared with this one: at the same address may be a server with another history.
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

    /// A standby was found to be on the history of the primary. `false`: that was another life of the primary than the one that
    /// is known by now.
    pub(crate) fn standby_proven(&self, id: StandbyId, proof: &Proof) -> bool {
        debug_assert_eq!(self.standby(id).kind, Kind::Standby, "what is fed has no history in common");
        let known = self.scheduler().order().incarnation();
        let holds = known.is_none_or(|known| known == proof.primary);
        let proven = Proven { primary: proof.primary, is_whole: proof.compared_wal };
        self.entry(id).proven.set(holds.then_some(proven));
        holds
    }

    /// Whether a standby is on the history of the primary, as far as is known.
    pub(crate) fn is_proven(&self, id: StandbyId) -> bool {
        self.entry(id).proven.get().is_some()
    }

    /// The primary's history when a standby was compared with it last.
    pub(crate) fn primary_history(&self) -> Option<Rc<PrimaryHistory>> {
        self.0.primary_history.borrow().clone()
    }

    pub(crate) fn set_primary_history(&self, history: Rc<PrimaryHistory>) {
        *self.0.primary_history.borrow_mut() = Some(history);
    }
}
