//! Inside a transaction whose snapshot is a standby's the data stand still, and the catalog goes on: on one server a
//! statement there sees every change of the catalog that was committed before it arrived, a REVOKE for example.

use crate::question::Verdict;
use crate::scheduler::{Scheduler, Writers};
use crate::standby::Standby;
use crate::{Kind, Reason, StandbyId};
use history::{Access, ColumnSet, DatabaseId, Footprint, Incarnation, RelationId, Rows};
use order::GaugeNumber;

/// `pg_class`. No commit names it: a catalog change writes everything, and so overlaps it.
const CATALOG: RelationId = RelationId::new(1259);

impl Scheduler {
    /// Decides if this incarnation of a standby shows every change of the catalog that the primary had shown
    /// when `wanted` was first given: `None` at a statement's arrival, and the same place again after
    /// [`Verdict::Wait`]. May want a snapshot probe.
    pub fn catalog_shown(
        &mut self,
        database: DatabaseId,
        (standby, incarnation): (StandbyId, Incarnation),
        wanted: &mut Option<GaugeNumber>,
    ) -> Verdict {
        self.look(database);
        if self.closed.now > 0 {
            // A mark will follow the change of roles: the standby must show that mark.
            *wanted = None;
            return Verdict::Wait(Reason::RolesChanged);
        }
        let Some(life) = self.standbys.all.get(&standby).and_then(Standby::life) else {
            return Verdict::Refused(Reason::StandbyFailed);
        };
        if life != incarnation {
            return Verdict::Refused(Reason::StandbyRestarted);
        }
        let catalog = Footprint::of(CATALOG, Access::read(ColumnSet::All, Rows::All));
        let Some(newest) = self.newest(database, &catalog) else {
            return Verdict::Refused(Reason::DatabaseNotFollowed);
        };
        let plain = wanted.is_none()
            && self.writers == Writers::ThroughConsort
            && self.undoubted(database, &catalog, newest);
        if !plain {
            let wanted = *wanted.get_or_insert_with(|| self.order.want_gauge());
            if self.order.settled(database).is_none_or(|(number, _)| number < wanted) {
                return Verdict::Wait(Reason::GaugeNotSettled);
            }
        }
        // A settled commit has been placed, so a logical replica's mark may be asked now.
        let shown = self.standbys.all.get(&standby).is_some_and(|replica| match replica.kind {
            Kind::Standby => replica.mark() >= Some(newest),
            Kind::Fed => self.shows(replica, database, &catalog),
        });
        if shown { Verdict::Proven } else { Verdict::Wait(Reason::StandbyBehind) }
    }
}
