//! After a change of roles the replica's roles are brought in step, and what belongs to whom there, and may be used by whom, is
//! compared with the primary. Privileges travel as commands. So what the primary has granted may be on its way to the replica still;
//! and a command may name a role of which the replica has not heard, for what tells of roles is written behind them.
//!
//! What differs is compared again when the replica shows all that the primary had done when it differed: what then belongs to
//! somebody else still is given to whom it belongs (REASSIGN OWNED), and not before, for each command on the way is checked for whom
//! things belonged to when it ran. Until then nobody is told what it shows, and nobody reads there.

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

/// So often the same may differ behind what was on its way: it may be granted and revoked in turn.
const TRIES: u32 = 8;

/// What belongs to whom was found to differ.
pub(super) struct Unequal {
    /// What the primary shows to this gauge must be visible before it is compared again.
    behind: GaugeNumber,
    /// Where that ends, once the gauge has settled.
    until: Option<Place>,
    /// What differs, as the primary has it.
    what: BTreeSet<String>,
    /// So often something of it has differed before, when it was not on its way any more.
    tries: u32,
    /// What has become visible since, of which nobody was told.
    withheld: Option<Rc<Boundary>>,
}

impl Line<'_> {
    /// Brings the roles in step, and compares. Whatever changed while nobody was connected is marked too.
    pub(super) async fn step(&mut self) -> Result<(), Stop> {
        self.compare(false).await
    }

    /// `came`: the replica shows all that the primary had done when it was compared last.
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
            return Err(Stop::Anew("something belongs to somebody else than when it was copied".to_owned()));
        }
        cluster.scheduler().fed_lost(*id, *of);
        let behind = cluster.scheduler().order_mut().want_gauge();
        cluster.gauge_now();
        cluster.moved();
        self.unequal = Some(Unequal { behind, until: None, what, tries, withheld });
        Ok(())
    }

    /// Compares again what has differed, if the replica has been given by now what the primary had done then.
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

    /// This is visible: the others are told, unless they must not know yet.
    pub(super) fn shows(&mut self, last: Rc<Boundary>) {
        match &mut self.unequal {
            Some(unequal) => unequal.withheld = Some(last),
            None => self.by.cluster.scheduler().fed_shows(self.by.id, self.life, &last),
        }
    }
}

impl Feeding<'_> {
    /// DDL lacks a role, perhaps, or finds that of an owner what nothing on its way says to be another's. Roles and owners are brought
    /// in step, once for each such transaction, and it is tried again: how long to rest before that, or before a copy.
    pub(super) async fn lacks(&self, unrun: &Unrun, stepped_for: &mut Option<Xid>) -> Duration {
        if *stepped_for == Some(unrun.xid) {
            return self.anew(unrun.to_string());
        }
        let why = match clone::in_step(&self.primary, &self.replica, &Gives::All).await {
            // What differs, maybe, is on its way behind it, or is compared when roles change next.
            Ok(_) => {
                *stepped_for = Some(unrun.xid);
                format!("{unrun}; with the primary's roles it is tried again")
            }
            Err(error) => error.to_string(),
        };
        tracing::debug!(
            replica = self.setup.name,
            database = self.database.name(),
            why,
            "roles were brought in step"
        );
        self.cluster.feeds().set_stage(self.of, self.id, Stage::Waiting(why));
        RECONNECT_AFTER
    }
}
