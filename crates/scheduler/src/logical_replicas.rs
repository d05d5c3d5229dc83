//! Logical replicas: the writes of each database's commits by version, and, before a read runs at a replica,
//! the decision if the replica shows all that the read must see.
//!
//! # Why an answer is right that was proven before its statement ran
//!
//! A logical replica shows boundaries, each in one step, and every boundary is a state that the primary has
//! shown. The read arrived at `a` and is ready at `z`, when the replica shows boundary `p` or a later one.
//! Its snapshot, taken after `z`, shows a boundary `s` which is not earlier than `p`.
//!
//! - The primary showed `s` after `a`: the whole state is the primary's at that instant.
//! - The primary showed `s` before `a`. Let `g` be the snapshot probe that the read waited for, sent after
//!   `a`: all that the primary had shown at `a` is seen by `g`, and `g` has settled, so all of it has
//!   versions. Commits that overlap the read lie at or below `p`, which `s` includes. So for all that it
//!   reads `s` equals the primary's state at `a`.
//!
//! With writers through Consort and nothing in flight that overlaps at `z`, no probe is needed: overlapping
//! commits that the primary has shown at `z` are no longer in flight, so a settled probe has seen them. The
//! same holds with `z` in the place of `a`.
//!
//! A commit that came out and has no version is not asked for: no settled probe has seen it, and no replica
//! shows it.
//!
//! The replica's marks belong to an incarnation of it. In another incarnation, or when the connection was
//! lost over which they are heard, they are unknown. A read that ran in another incarnation than the one it
//! was proven for is thrown away.

use crate::bugs::Bug;
use crate::placed_commits::Fed;
use crate::question::{Proof, Ticket, Verdict};
use crate::scheduler::{Scheduler, Writers};
use crate::standby::Standby;
use crate::{Kind, Reason, StandbyId};
use history::{DatabaseId, Footprint, Incarnation, Lsn, RelationId, Version};
use order::{Boundary, RunNumber};
use std::collections::BTreeSet;

impl Scheduler {
    /// Adds a logical replica to the cluster. The replica takes no reads before it is
    /// [serving](Scheduler::standby_serving) and [shows](Scheduler::fed_shows) a boundary.
    pub fn fed_joined(&mut self, id: StandbyId, weight: u32) {
        self.standbys.all.insert(id, Standby::new(Kind::Fed, weight));
    }

    /// The replica is fed with this database: its commits are [placed](order::Order::place_commits), and its slot is
    /// confirmed no further than what the replica [keeps](Scheduler::fed_keeps). Say it before the slot is opened if the
    /// replica has been fed before; if it is said later, the replica is a copy that was made after the first boundary.
    pub fn fed_takes(&mut self, id: StandbyId, database: DatabaseId) {
        let Some(replica) = self.standbys.all.get_mut(&id) else { return };
        replica.keeps.entry(database).or_insert(None);
        self.order.place_commits(database);
        self.look(database);
    }

    /// Limits the replica to the rows of these tables of this database: it answers only reads of them. To be
    /// said before it [shows](Scheduler::fed_shows) anything of it, until it [leaves](Scheduler::fed_leaves).
    pub fn fed_holds(&mut self, id: StandbyId, database: DatabaseId, tables: BTreeSet<RelationId>) {
        if let Some(replica) = self.standbys.all.get_mut(&id) {
            replica.holds.insert(database, tables);
        }
    }

    /// Ends the feed of this database to the replica: the data there is dropped, or copied again, and no
    /// answer counts of a read that is under way there. When no replica is fed, the database's commits get no
    /// versions.
    pub fn fed_leaves(&mut self, id: StandbyId, database: DatabaseId) {
        let Some(replica) = self.standbys.all.get_mut(&id) else { return };
        replica.leaves(database);
        if !self.standbys.all.values().any(|replica| replica.keeps.contains_key(&database)) {
            self.order.place_no_commits(database);
            self.look(database);
        }
    }

    /// This life of the replica shows the boundary. One of an earlier run of the order says nothing.
    pub fn fed_shows(&mut self, id: StandbyId, incarnation: Incarnation, boundary: &Boundary) {
        let of_this_run = self.order.run(boundary.database) == Some(boundary.run);
        if let Some(replica) = self.standbys.all.get_mut(&id).filter(|_| of_this_run) {
            replica.shown(incarnation, boundary, self.options.bugs);
        }
    }

    /// The replica will always show everything that starts below `resume`: its position says so, and the
    /// transaction that wrote the position has been *flushed* there. A replica that applies without waiting
    /// for its disk shows more than it keeps.
    pub fn fed_keeps(&mut self, id: StandbyId, database: DatabaseId, resume: Lsn) {
        let replica = self.standbys.all.get_mut(&id);
        if let Some(keeps) = replica.and_then(|replica| replica.keeps.get_mut(&database)) {
            *keeps = (*keeps).max(Some(resume));
        }
    }

    /// The connection over which the replica is fed with this database was lost: its visible state is unknown
    /// until it is reported again.
    pub fn fed_lost(&mut self, id: StandbyId, database: DatabaseId) {
        let replica =
            self.standbys.all.get_mut(&id).filter(|_| !self.options.bugs.has(Bug::ReplicaForgetsCommits));
        if let Some(replica) = replica {
            replica.forget(database);
        }
    }

    /// The replica's rows of this database were found to differ from the primary's, and are being repaired
    /// while it is fed. No read runs there, and no answer counts of a read that is under way, until the
    /// replica is [trusted](Scheduler::fed_trusted) again, or was copied again.
    pub fn fed_distrusted(&mut self, id: StandbyId, database: DatabaseId) {
        if let Some(replica) = self.standbys.all.get_mut(&id) {
            replica.distrust(database);
        }
    }

    /// The replica was compared again, and has the primary's rows: it shows what it has said since.
    pub fn fed_trusted(&mut self, id: StandbyId, database: DatabaseId) {
        if let Some(replica) = self.standbys.all.get_mut(&id) {
            replica.trust(database);
        }
    }

    /// A replica of either kind is not in the cluster any more. Reads that are under way there end as they may.
    pub fn replica_left(&mut self, id: StandbyId) {
        let databases: Vec<DatabaseId> = self
            .standbys
            .all
            .get(&id)
            .into_iter()
            .flat_map(|replica| replica.keeps.keys().copied())
            .collect();
        databases.into_iter().for_each(|database| self.fed_leaves(id, database));
        self.standbys.all.remove(&id);
    }

    /// Boundaries that the primary has shown since the last call, in order, for the replication feeds. Ask
    /// after everything that may settle a snapshot probe. See
    /// [`Order::take_boundaries`](order::Order::take_boundaries).
    pub fn take_boundaries(&mut self) -> Vec<Boundary> {
        self.renew();
        let databases: Vec<DatabaseId> = self.databases.keys().copied().collect();
        databases.into_iter().for_each(|database| self.look(database));
        self.order.take_boundaries()
    }

    /// Decides, before the ticket's read is sent, if the replica shows all that it must see. A standby is
    /// judged afterwards, and the answer is always that it may run. A logical replica is chosen again here if
    /// another one has come further. After [`Verdict::Wait`] ask again when something has moved; may want a
    /// snapshot probe.
    pub fn ready(&mut self, ticket: &mut Ticket) -> Verdict {
        let Proof::Before(mut wanted) = ticket.proof else { return Verdict::Proven };
        let database = ticket.database;
        self.look(database);
        if let Some(reason) = self.outdated(ticket) {
            return Verdict::Refused(reason);
        }
        let plain =
            self.writers == Writers::ThroughConsort && self.undoubted(database, &ticket.footprint, Lsn::MAX);
        if wanted.is_none() && !plain {
            wanted = Some(self.order.want_gauge());
            ticket.proof = Proof::Before(wanted);
        }
        let settled = self.order.settled(database).map(|(number, _)| number);
        if wanted.is_some() && settled < wanted && !self.options.bugs.has(Bug::FedNoGauge) {
            return Verdict::Wait(Reason::GaugeNotSettled);
        }
        if self.aim(ticket) { Verdict::Proven } else { Verdict::Wait(Reason::ReplicasBehind) }
    }

    /// Aims the ticket at a replica that shows all that was placed and overlaps; it stays where it is if that one does.
    fn aim(&mut self, ticket: &mut Ticket) -> bool {
        let Some((run, newest)) = self.newest_version(ticket.database, &ticket.footprint) else {
            return false;
        };
        let epoch = self.order.incarnation().map(|incarnation| incarnation.epoch);
        let shows = |replica: &Standby| {
            replica.kind == Kind::Fed
                && replica.holds(ticket.database, &ticket.footprint)
                && replica.version(ticket.database, run) >= Some(newest)
        };
        let here = self.standbys.all.get(&ticket.standby);
        let fits = |here: &&Standby| shows(here) && here.eligible(epoch) == Some(ticket.incarnation);
        if let Some(here) = here.filter(fits) {
            ticket.given_up = here.given_up;
            return true;
        }
        let Some(place) = self.standbys.choose(epoch, None, |_, _, replica| shows(replica)) else {
            return false;
        };
        if let Some(before) = self.standbys.all.get_mut(&ticket.standby) {
            before.pending = before.pending.saturating_sub(1);
        }
        (ticket.standby, ticket.incarnation, ticket.given_up) = (place.id, place.incarnation, place.given_up);
        true
    }

    /// True if a logical replica shows all that was placed of the database and overlaps.
    pub(crate) fn shows(&self, replica: &Standby, database: DatabaseId, footprint: &Footprint) -> bool {
        self.newest_version(database, footprint)
            .is_some_and(|(run, newest)| replica.version(database, run) >= Some(newest))
    }

    /// The newest version that overlaps, or something later, in its run; `None` if the database has no versions now.
    pub(crate) fn newest_version(
        &self,
        database: DatabaseId,
        footprint: &Footprint,
    ) -> Option<(RunNumber, Version)> {
        let fed = self.databases.get(&database)?.fed.as_ref()?;
        if self.options.bugs.has(Bug::FedNoFreshness) {
            return Some((fed.run, Version::ZERO));
        }
        Some((fed.run, fed.freshness.newest(footprint, &self.versions)))
    }

    /// Notes what has got a version since the last look.
    pub(crate) fn look_at_versions(&mut self, database: DatabaseId) {
        let Some(followed) = self.databases.get_mut(&database) else { return };
        let run = self.order.run(database);
        if followed.fed.as_ref().map(|fed| fed.run) != run {
            followed.fed = run.map(|run| Fed::new(database, run, self.order.newest_version(database)));
        }
        let Some(fed) = &mut followed.fed else { return };
        let mine = |boundary: &&Boundary| boundary.database == database && boundary.run == fed.run;
        for commit in self.order.boundaries().iter().filter(mine).flat_map(|boundary| &boundary.commits) {
            if commit.version <= fed.placed {
                continue;
            }
            let placed = fed.unplaced.remove(&commit.end).expect("a placed commit has come out");
            fed.freshness.note(&placed.wrote, commit.version, &mut self.versions, self.options.max_tables);
            fed.placed = commit.version;
        }
        assert_eq!(
            fed.placed,
            self.order.newest_version(database),
            "boundaries are taken through the scheduler"
        );
    }

    /// Position up to which the slot may be confirmed for the sake of the logical replicas. `None` until each
    /// has reported.
    pub(crate) fn kept_by_all(&self, database: DatabaseId) -> Option<Lsn> {
        let keeps = self.standbys.all.values().filter_map(|replica| replica.keeps.get(&database));
        keeps.copied().min().unwrap_or(Some(Lsn::MAX))
    }
}
