//! After a change of roles, the replica's roles are synchronised. Then the owners and privileges of its
//! objects are compared with the primary. Privileges travel as commands. So a grant of the primary may still
//! be on its way to the replica. A command may also name a role that the replica lacks, because the mark of a
//! role change is written after the change.
//!
//! A difference is compared again when the replica shows everything that the primary had done when the
//! difference was found. An object that then still has another owner is given to the right one (REASSIGN
//! OWNED). This happens no sooner, because each command on the way is checked against the owners of the
//! moment when it ran. Until then the replica's progress is not reported, and no read runs there.

use super::{Feeding, Line, Stop};
use crate::trouble::RECONNECT_AFTER;
use crate::{Place, Stage};
use history::Xid;
use order::{Boundary, GaugeNumber};
use replica_apply::apply::Unrun;
use replica_apply::clone::{self, Gives};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Maximum number of times that the same difference may be found again after pending changes are applied: a
/// privilege may be granted and revoked in turn.
const TRIES: u32 = 8;

/// A difference of owners or privileges between replica and primary.
pub(super) struct Unequal {
    /// The primary's state at this probe must be visible before the next comparison.
    behind: GaugeNumber,
    /// Position where that state ends, once the probe has settled.
    until: Option<Place>,
    /// Objects that differ, as the primary has them.
    what: BTreeSet<String>,
    /// Number of times that a part of it has still differed after all pending changes were applied.
    tries: u32,
    /// Last boundary that has become visible since, and is not reported yet.
    withheld: Option<Rc<Boundary>>,
}

impl Line<'_> {
    /// Synchronises the roles, and compares owners. Changes made while no connection existed are marked too.
    pub(super) async fn step(&mut self) -> Result<(), Stop> {
        self.compare(false).await
    }

    /// Compares owners and privileges. `came`: the replica shows all that the primary had done at the last
    /// comparison.
    async fn compare(&mut self, came: bool) -> Result<(), Stop> {
        let Feeding { cluster, id, of, primary, replica, .. } = self.by;
        let before = self.unequal.take();
        let nothing = BTreeSet::new();
        let still = before.as_ref().filter(|_| came).map_or(&nothing, |before| &before.what);
        let what = clone::in_step(primary, replica, &Gives::Still(still)).await?;
        cluster.feeds().set_owners_differ(*of, *id, !what.is_empty());
        let stays = came && before.as_ref().is_some_and(|before| !before.what.is_disjoint(&what));
        let (mut tries, withheld) = before.map_or((0, None), |before| (before.tries, before.withheld));
        if what.is_empty() {
            if let Some(boundary) = withheld {
                cluster.scheduler().fed_shows(*id, self.life, &boundary);
                cluster.moved();
            }
            return Ok(());
        }
        tries += u32::from(stays);
        if tries == TRIES {
            return Err(Stop::Anew("an object has another owner than when it was copied".to_owned()));
        }
        cluster.scheduler().fed_lost(*id, *of);
        let behind = cluster.scheduler().order_mut().want_gauge();
        cluster.gauge_now();
        cluster.moved();
        self.unequal = Some(Unequal { behind, until: None, what, tries, withheld });
        Ok(())
    }

    /// Repeats the comparison of differing objects, if the replica has received by now what the primary had
    /// done then.
    pub(super) async fn step_again(&mut self) -> Result<(), Stop> {
        let Feeding { cluster, id, of, .. } = *self.by;
        let Some(unequal) = &mut self.unequal else { return Ok(()) };
        let feeds = cluster.feeds();
        if unequal.until.is_none() {
            let settled = cluster.scheduler().order().settled(of).map(|(number, _)| number);
            if settled.is_none_or(|number| number < unequal.behind) {
                return Ok(());
            }
            cluster.take_boundaries();
            unequal.until = Some(feeds.end(of));
        }
        if feeds.given(of, id) < unequal.until {
            return Ok(());
        }
        self.finish().await?;
        self.compare(true).await
    }

    /// Notes that this boundary is visible. Reports it, unless it must be withheld.
    pub(super) fn shows(&mut self, last: Rc<Boundary>) {
        match &mut self.unequal {
            Some(unequal) => unequal.withheld = Some(last),
            None => self.by.cluster.scheduler().fed_shows(self.by.id, self.life, &last),
        }
    }
}

impl Feeding<'_> {
    /// Handles DDL that may lack a role, or that finds an owner which no pending change explains. Roles and
    /// owners are synchronised, once for each such transaction, and the DDL is retried. Returns the pause
    /// before that, or before a copy.
    pub(super) async fn lacks(&self, unrun: &Unrun, stepped_for: &mut Option<Xid>) -> Duration {
        if *stepped_for == Some(unrun.xid) {
            return self.anew(unrun.to_string());
        }
        let why = match clone::in_step(&self.primary, &self.replica, &Gives::All).await {
            // A remaining difference is either on its way, or is compared at the next change of roles.
            Ok(_) => {
                *stepped_for = Some(unrun.xid);
                format!("{unrun}; retrying with the primary's roles")
            }
            Err(error) => error.to_string(),
        };
        tracing::debug!(
            replica = self.setup.name,
            database = self.database.name(),
            why,
            "synchronized roles"
        );
        self.cluster.feeds().set_stage(self.of, self.id, Stage::Waiting(why));
        RECONNECT_AFTER
    }
}
