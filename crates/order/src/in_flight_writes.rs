//! An in-flight write set from begin to end: begun before the first byte that may commit, ended only by a
//! settled snapshot probe.
//!
//! ```text
//!   doubt --> Open ---answered---> Ending(ticket) --settled probe >= ticket--> ended
//!               \--connection_lost--> Lost --backend_gone--^
//! ```

use crate::bugs::Bug;
use crate::in_flight_write::{Doubt, DoubtView};
use crate::{DoubtId, DoubtState, Order};
use history::{Commit, DatabaseId, Footprint};

impl Order {
    /// Begins an in-flight write set, before a statement that may commit is sent: `footprint` of the database
    /// is in flight from now on.
    ///
    /// Call it before the first byte leaves, for everything that is not proven read-only: COMMIT, a statement
    /// outside a block, CALL, DO, several statements in one query, the Sync that closes an implicit
    /// transaction, PREPARE TRANSACTION (its write set goes on until COMMIT or ROLLBACK PREPARED is
    /// answered), and inside a block LOCK, TRUNCATE and DDL.
    pub fn doubt(&mut self, database: DatabaseId, footprint: Footprint) -> DoubtId {
        self.last_doubt += 1;
        let id = DoubtId::new(self.last_doubt);
        self.databases.entry(database).or_default().doubts.insert(id, &footprint);
        self.doubts.insert(id, Doubt { database, footprint, state: DoubtState::Open, outdated: false });
        self.counts.doubts_begun += 1;
        id
    }

    /// Narrows the write set to `footprint`, which is known now. Tables that were not in it before are not
    /// taken out of anything: a footprint that is not covered by the earlier one is added to it.
    pub fn narrow(&mut self, id: DoubtId, footprint: Footprint) {
        let Some(doubt) = self.doubts.get(&id).filter(|doubt| !doubt.outdated) else { return };
        if doubt.footprint.covers(&footprint) {
            self.replace(id, footprint);
        } else {
            self.widen(id, &footprint);
        }
    }

    /// Adds `footprint` to the write set.
    pub fn widen(&mut self, id: DoubtId, footprint: &Footprint) {
        let Some(doubt) = self.doubts.get(&id) else { return };
        let mut wider = doubt.footprint.clone();
        wider.union(footprint);
        self.replace(id, wider);
    }

    /// A change of the catalog came out of the database's slot: every write set that has not ended, answered
    /// or not, is about everything from now on and cannot be narrowed any more.
    ///
    /// Why: the footprint of a statement was analysed before the change came out, and the statement may have
    /// run after the change: a trigger that the change made has fired. Until now the change's own write set,
    /// which began before its first byte and is about everything, stood before the statement; it may end now.
    /// A write set that has ended already had its commit come out.
    pub fn catalog_changed(&mut self, database: DatabaseId) {
        let Some(of) = self.databases.get_mut(&database) else { return };
        for (id, doubt) in self.doubts.iter_mut().filter(|(_, doubt)| doubt.database == database) {
            of.doubts.remove(*id, &doubt.footprint);
            doubt.footprint = Footprint::Everything;
            doubt.outdated = true;
            of.doubts.insert(*id, &doubt.footprint);
        }
    }

    /// The server answered: with success or with an error, which does not mean that nothing was committed.
    /// The write set ends when a snapshot probe has settled that is sent after now.
    pub fn answered(&mut self, id: DoubtId) {
        if self.options.bugs.has(Bug::DoubtUntilAck) {
            return self.take(id);
        }
        self.ends_by_a_gauge(id);
    }

    /// The server answered a statement that was proven to write nothing when its write set, about nothing,
    /// began. If no session may have changed the catalog meanwhile it was so, and the write set ends at once;
    /// else it ends like every other.
    pub fn answered_quietly(&mut self, id: DoubtId) {
        let Some(doubt) = self.doubts.get(&id) else { return };
        let wrote_nothing = doubt.footprint.is_nothing() && !doubt.outdated;
        let of = &self.databases[&doubt.database].doubts;
        if wrote_nothing && !of.any_everything() { self.take(id) } else { self.answered(id) }
    }

    /// The connection was lost before the answer. The backend may wait for a flush or a standby, and its
    /// commit appear later: the write set stays until [`backend_gone`](Order::backend_gone).
    pub fn connection_lost(&mut self, id: DoubtId) {
        if self.options.bugs.has(Bug::ForgetDeadCommit) {
            return self.take(id);
        }
        if let Some(doubt) = self.doubts.get_mut(&id)
            && doubt.state == DoubtState::Open
        {
            doubt.state = DoubtState::Lost;
        }
    }

    /// The backend (by process and start time) is gone from `pg_stat_activity`: its commits are visible. The
    /// write set ends when a snapshot probe has settled that is sent after now.
    pub fn backend_gone(&mut self, id: DoubtId) {
        self.ends_by_a_gauge(id);
    }

    /// No backend is left that an earlier Consort used, or, if all writers must go through Consort, that is
    /// not ours. Everything stays in flight until a snapshot probe has settled that is sent after now.
    pub fn orphans_gone(&mut self) {
        if self.without_orphans.is_none() {
            self.without_orphans = Some(self.gauging.want());
        }
    }

    /// Everything is in flight again until [`orphans_gone`](Order::orphans_gone) and a settled snapshot
    /// probe: for a while we did not see all writers.
    pub fn distrust(&mut self) {
        self.without_orphans = None;
    }

    /// True if the in-flight write sets of the database are complete: no orphan, no unknown commit is left.
    pub fn clear(&self, database: DatabaseId) -> bool {
        if self.options.bugs.has(Bug::RestartWithoutFloor) {
            return true;
        }
        let (Some(without_orphans), Some(database)) = (self.without_orphans, self.databases.get(&database))
        else {
            return false;
        };
        database.settled_number() >= Some(without_orphans.max(database.in_doubt_until))
    }

    /// True if a commit that touches `footprint` may or may not be visible at the primary now.
    pub fn in_flight(&self, database: DatabaseId, footprint: &Footprint) -> bool {
        if !self.clear(database) {
            return true;
        }
        self.databases.get(&database).is_some_and(|database| database.doubts.overlaps(footprint))
    }

    /// True if an in-flight write set covers the tables that the commit wrote. If none does, a session writes
    /// without us. Ask before the commit is given to [`decoded`](Order::decoded): its write set cannot have
    /// ended before.
    pub fn explained(&self, commit: &Commit) -> bool {
        if !self.clear(commit.database) || commit.wrote.is_nothing() {
            return true;
        }
        let Some(database) = self.databases.get(&commit.database) else { return true };
        if database.doubts.any_everything() {
            return true;
        }
        let Footprint::Tables(wrote) = &commit.wrote else { return false };
        let covers = |id: DoubtId| match &self.doubts[&id].footprint {
            Footprint::Everything => true,
            Footprint::Tables(mine) => wrote.keys().all(|table| mine.contains_key(table)),
        };
        wrote.keys().next().is_none_or(|first| database.doubts.of(*first).any(covers))
    }

    /// True if an unlimited change may be committing now, in some database: also a change of roles, which no
    /// slot gives. A snapshot probe that is sent then should look at roles too.
    pub fn anything_in_doubt(&self) -> bool {
        self.databases.keys().any(|id| self.everything_in_doubt(*id))
    }

    /// True if an unlimited change may be committing now in the database.
    pub fn everything_in_doubt(&self, database: DatabaseId) -> bool {
        let any = self.databases.get(&database).is_some_and(|database| database.doubts.any_everything());
        any || !self.clear(database)
    }

    /// State of an in-flight write set; `None` once it has ended.
    pub fn doubt_state(&self, id: DoubtId) -> Option<DoubtState> {
        self.doubts.get(&id).map(|doubt| doubt.state)
    }

    /// All in-flight write sets that are about anything, the earliest first.
    pub fn doubts(&self) -> impl Iterator<Item = DoubtView<'_>> {
        self.doubts.iter().filter(|(_, doubt)| !doubt.footprint.is_nothing()).map(|(id, doubt)| DoubtView {
            id: *id,
            database: doubt.database,
            footprint: &doubt.footprint,
            state: doubt.state,
        })
    }

    /// The write set's snapshot probe has settled.
    pub(crate) fn end(&mut self, id: DoubtId) {
        self.take(id);
        self.counts.doubts_ended += 1;
    }

    /// Drops write sets whose answer has come: after a new incarnation began, everything is in flight, which
    /// includes them.
    pub(crate) fn drop_all_ending(&mut self) {
        let all: Vec<_> =
            self.databases.values_mut().flat_map(|database| database.ending.drain(..)).collect();
        all.into_iter().for_each(|(_, id)| self.fold(id));
    }

    fn ends_by_a_gauge(&mut self, id: DoubtId) {
        let Some(doubt) = self.doubts.get_mut(&id) else { return };
        if matches!(doubt.state, DoubtState::Ending(_)) {
            return;
        }
        let ticket = self.gauging.want();
        doubt.state = DoubtState::Ending(ticket);
        let database = self.databases.get_mut(&doubt.database).expect("a doubt has its database");
        database.ending.push_back((ticket, id));
        let too_many = database.ending.len() > self.options.max_ending_doubts;
        // Without a slot nothing settles, everything is in flight, and will be until a probe sent after the
        // slot opened.
        if too_many || database.decoded.is_none() {
            database.in_doubt_until = database.in_doubt_until.max(ticket);
            let all: Vec<_> = database.ending.drain(..).collect();
            all.into_iter().for_each(|(_, id)| self.fold(id));
        }
        self.check();
    }

    pub(crate) fn fold(&mut self, id: DoubtId) {
        self.take(id);
        self.counts.doubts_folded += 1;
    }

    fn replace(&mut self, id: DoubtId, footprint: Footprint) {
        let Some(doubt) = self.doubts.get_mut(&id) else { return };
        let database = self.databases.get_mut(&doubt.database).expect("a doubt has its database");
        database.doubts.remove(id, &doubt.footprint);
        database.doubts.insert(id, &footprint);
        doubt.footprint = footprint;
    }

    fn take(&mut self, id: DoubtId) {
        let Some(doubt) = self.doubts.remove(&id) else { return };
        if let Some(database) = self.databases.get_mut(&doubt.database) {
            database.doubts.remove(id, &doubt.footprint);
        }
    }
}
