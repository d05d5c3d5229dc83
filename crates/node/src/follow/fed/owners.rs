//! After a change of roles the replica's roles are brought in step, and what belongs to whom there, and may be used by whom, is
//! compared with the primary. Privileges travel as commands. So what the primary has granted may be on its way to the replica still;
//! and a command may name a role of which the replica has not heard, for what tells of roles is written behind them.
//!
//! What differs is compared again when the replica shows all that the primary had done when it differed. Until then nobody is told
//! what it shows: who must read behind the change of roles does so elsewhere.

use super::{Feeding, Line, Stop};
use history::Xid;
use order::{Boundary, GaugeNumber};
use postgres::Error;
use postgres::apply::Unrun;
use postgres::clone;
use std::rc::Rc;

/// So often it may differ: while privileges are changed all the time one comparison says little.
const TRIES: u32 = 8;

/// What belongs to whom was found to differ.
pub(super) struct Unequal {
    /// What the primary shows to this gauge must be visible before it is compared again.
    behind: GaugeNumber,
    /// So often it has differed.
    tries: u32,
    /// What has become visible since, of which nobody was told.
    withheld: Option<Rc<Boundary>>,
}

impl Line<'_> {
    /// Brings the roles in step, and compares. Whatever changed while nobody was connected is marked too.
    pub(super) async fn step(&mut self) -> Result<(), Stop> {
        let Feeding { cluster, id, of, primary, replica, .. } = self.by;
        let (tries, withheld) =
            self.unequal.take().map_or((0, None), |before| (before.tries, before.withheld));
        if clone::in_step(primary, replica).await? {
            cluster.feeds().set_owners_differ(*of, *id, false);
            if let Some(boundary) = withheld {
                cluster.scheduler().fed_shows(*id, self.life, &boundary);
                cluster.moved();
            }
            return Ok(());
        }
        cluster.feeds().set_owners_differ(*of, *id, true);
        if tries == TRIES {
            return Err(Stop::Anew("something belongs to somebody else than when it was copied".to_owned()));
        }
        let behind = cluster.scheduler().order_mut().want_gauge();
        cluster.gauge_now();
        self.unequal = Some(Unequal { behind, tries: tries + 1, withheld });
        Ok(())
    }

    /// Compares again what has differed, if the replica shows by now what the primary had done then.
    pub(super) async fn step_again(&mut self) -> Result<(), Stop> {
        let Feeding { cluster, id, of, .. } = *self.by;
        let Some(unequal) = self.unequal.as_ref().filter(|_| self.sent.is_empty()) else { return Ok(()) };
        let settled = cluster.scheduler().order().settled(of).map(|(number, _)| number);
        if settled.is_none_or(|number| number < unequal.behind) {
            return Ok(());
        }
        cluster.take_boundaries();
        let feeds = cluster.feeds();
        if feeds.given(of, id) != Some(feeds.end(of)) {
            return Ok(());
        }
        self.step().await
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
    /// DDL names what is not there: a role, perhaps. Roles are brought in step, once for each such transaction; then it is tried
    /// again.
    pub(super) async fn lacks(&self, unrun: Unrun, stepped_for: &mut Option<Xid>) -> Stop {
        if stepped_for.replace(unrun.xid) == Some(unrun.xid) {
            return Stop::Anew(unrun.to_string());
        }
        match clone::roles_in_step(&self.primary, &self.replica).await {
            Ok(()) => {
                Stop::Again(Error::NotReady(format!("{unrun}; with the primary's roles it is tried again")))
            }
            Err(error) => Stop::Again(error),
        }
    }
}
