//! The life of a doubt: begun before the first byte that may commit, ended only by a settled gauge.
//!
//! ```text
//!   doubt --> Open ---answered---> Ending(ticket) --settled gauge >= ticket--> ended
//!               \--connection_lost--> Lost --backend_gone--^
//! ```

use crate::bugs::Bug;
use crate::in_flight_write::{Doubt, DoubtView};
use crate::{DoubtId, DoubtState, Order};
use history::{Commit, DatabaseId, Footprint};

impl Order {
    /// What may commit is about to be sent: `footprint` of the database is in doubt from now on.
    ///
    /// Call it before the first byte leaves, for everything that is not proven read-only: COMMIT, a statement outside a
    /// block, CALL, DO, several statements in one query, the Sync that closes an implicit transaction, PREPARE
    /// TRANSACTION (its doubt goes on until COMMIT or ROLLBACK PREPARED is answered), and inside a block LOCK, TRUNCATE
    /// and DDL.
    pub fn doubt(&mut self, database: DatabaseId, footprint: Footprint) -> DoubtId {
        self.last_doubt += 1;
        let id = DoubtId::new(self.last_doubt);
        self.databases.entry(database).or_default().doubts.insert(id, &footprint);
        self.doubts.insert(id, Doubt { database, footprint, state: DoubtState::Open, outdated: false });
        self.counts.doubts_begun += 1;
        id
    }

    /// It is known now that the doubt touches only `footprint`. What was not in it before is not taken out of anything:
    /// a footprint that is not covered by the earlier one is added to it.
    pub fn narrow(&mut self, id: DoubtId, footprint: Footprint) {
        let Some(doubt) = self.doubts.get(&id).filter(|doubt| !doubt.outdated) else { return };
        if doubt.footprint.covers(&footprint) {
            self.replace(id, footprint);
        } else {
            self.widen(id, &footprint);
        }
    }

    /// The doubt touches `footprint` too.
    pub fn widen(&mut self, id: DoubtId, footprint: &Footprint) {
        let Some(doubt) = self.doubts.get(&id) else { return };
        let mut wider = doubt.footprint.clone();
        wider.union(footprint);
        self.replace(id, wider);
    }

    /// A change of the catalog came out of the database's slot: every doubt that has not ended, answered or not, is
    /// about everything from now on and cannot be narrowed any more.
    ///
    /// Why: what a statement touches was understood before the change came out, and it may have run behind it: a trigger
    /// that the change made has fired. Until now the change's own doubt, which began before its first byte and is about
    /// everything, stood before the statement; it may end now. A doubt that has ended already had its commit come out.
    pub fn catalog_changed(&mut self, database: DatabaseId) {
        let Some(of) = self.databases.get_mut(&database) else { return };
        for (id, doubt) in self.doubts.iter_mut().filter(|(_, doubt)| doubt.database == database) {
            of.doubts.remove(*id, &doubt.footprint);
            doubt.footprint = Footprint::Everything;
            doubt.outdated = true;
            of.doubts.insert(*id, &doubt.footprint);
        }
    }

    /// The server answered: with success or with an error, which does not mean that nothing was committed. The doubt
    /// ends when a gauge has settled that is sent after now.
    pub fn answered(&mut self, id: DoubtId) {
        if self.options.bugs.has(Bug::DoubtUntilAck) {
            return self.take(id);
        }
        self.ends_by_a_gauge(id);
    }

    /// The server answered what was proven to write nothing when its doubt, about nothing, began. If nobody may have
    /// changed the catalog meanwhile it was so, and the doubt ends at once; else it ends like every other.
    pub fn answered_quietly(&mut self, id: DoubtId) {
        let Some(doubt) = self.doubts.get(&id) else { return };
        let wrote_nothing = doubt.footprint.is_nothing() && !doubt.outdated;
        let of = &self.databases[&doubt.database].doubts;
        if wrote_nothing && !of.any_everything() { self.take(id) } else { self.answered(id) }
    }

    /// The connection was lost before the answer. The backend may wait for a flush or a standby, and its commit appear
    /// later: the doubt stays until [`backend_gone`](Order::backend_gone).
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

    /// The backend (by process and start time) is no more in `pg_stat_activity`: what it committed is visible. The
    /// doubt ends when a gauge has settled that is sent after now.
    pub fn backend_gone(&mut self, id: DoubtId) {
        self.ends_by_a_gauge(id);
    }

    /// No backend is left that an earlier Consort used, or, where all writers must go through Consort, that is not
    /// ours. Everything stays in doubt until a gauge has settled that is sent after now.
    pub fn orphans_gone(&mut self) {
        if self.without_orphans.is_none() {
            self.without_orphans = Some(self.gauging.want());
        }
    }

    /// Everything is in doubt again until [`orphans_gone`](Order::orphans_gone) and a settled gauge: for a while we did
    /// not see all writers.
    pub fn distrust(&mut self) {
        self.without_orphans = None;
    }

    /// Whether doubts tell the whole truth about the database: no orphan, no unknown commit is left.
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

    /// Whether a commit that touches `footprint` may or may not be visible at the primary now.
    pub fn in_doubt(&self, database: DatabaseId, footprint: &Footprint) -> bool {
        if !self.clear(database) {
            return true;
        }
        self.databases.get(&database).is_some_and(|database| database.doubts.overlaps(footprint))
    }

    /// Whether a doubt covers the tables that the commit wrote. If none does, somebody writes without us. Ask before
    /// the commit is given to [`decoded`](Order::decoded): its doubt cannot have ended before.
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

    /// Whether what may be committing now may be anything, in some database: also a change of roles, which no slot gives.
    /// A gauge that is sent then should look at them too.
    pub fn anything_in_doubt(&self) -> bool {
        self.databases.keys().any(|id| self.everything_in_doubt(*id))
    }

    /// Whether what may be committing now in the database may be anything.
    pub fn everything_in_doubt(&self, database: DatabaseId) -> bool {
        let any = self.databases.get(&database).is_some_and(|database| database.doubts.any_everything());
        any || !self.clear(database)
    }

    /// How far a doubt has come; `None` once it has ended.
    pub fn doubt_state(&self, id: DoubtId) -> Option<DoubtState> {
        self.doubts.get(&id).map(|doubt| doubt.state)
    }

    /// All doubts that are about anything, the earliest first.
    pub fn doubts(&self) -> impl Iterator<Item = DoubtView<'_>> {
        self.doubts.iter().filter(|(_, doubt)| !doubt.footprint.is_nothing()).map(|(id, doubt)| DoubtView {
            id: *id,
            database: doubt.database,
            footprint: &doubt.footprint,
            state: doubt.state,
        })
    }

    /// The doubt's gauge has settled.
    pub(crate) fn end(&mut self, id: DoubtId) {
        self.take(id);
        self.counts.doubts_ended += 1;
    }

    /// Doubts whose answer has come are part of what everything is in doubt for after a new life began.
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
        // Without a slot nothing settles, everything is in doubt, and will be until a gauge sent after the slot opened.
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
