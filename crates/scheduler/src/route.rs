//! Before a read runs: whether a standby's answer is likely to be proven, and which standby shall give it.

use crate::bugs::Bug;
use crate::question::{Proof, Question, Route, Ticket};
use crate::scheduler::{Scheduler, Writers};
use crate::standby::{Place, Standby};
use crate::{Kind, Reason, StandbyId};
use history::{Consistency, DatabaseId, Epoch, Footprint, Incarnation, Lsn};
use std::time::Duration;

impl Scheduler {
    /// Destination of a read that has just arrived. A ticket counts as pending until it is
    /// [finished](Scheduler::finish). May want a snapshot probe.
    pub fn route(&mut self, question: &Question) -> Route {
        match self.place(question) {
            Err(reason) => Route::Primary(reason),
            Ok((place, proof)) => {
                self.pin(place.low);
                Route::Standby(Ticket {
                    database: question.database,
                    footprint: question.footprint.clone(),
                    standby: place.id,
                    incarnation: place.incarnation,
                    low: place.low,
                    proof,
                    given_up: place.given_up,
                    barriers: self.barriers(question.database),
                    life: self.order.life(),
                    closings: (question.consistency != Consistency::Weak).then_some(self.closed.begun),
                    after: None,
                    kind: place.kind,
                    seen: Lsn::MAX,
                    era: None,
                })
            }
        }
    }

    fn place(&mut self, question: &Question) -> Result<(Place, Proof), Reason> {
        if question.consistency == Consistency::Primary {
            return Err(Reason::AskedForPrimary);
        }
        if self.closed.now > 0 && question.consistency != Consistency::Weak {
            return Err(Reason::RolesChanged);
        }
        self.renew();
        let epoch = self.order.incarnation().map(|incarnation| incarnation.epoch);
        let bugs = self.options.bugs;
        self.standbys.any(epoch, |replica| question.is_equal_at(replica, bugs))?;
        match question.consistency {
            Consistency::Primary | Consistency::Strong => self.strong(question, epoch),
            Consistency::Session => self.session(question, epoch),
            Consistency::Bounded(bound) => self.bounded(question, bound, epoch),
            Consistency::Weak => {
                let has = |replica: &Standby| replica.surely(question.database).is_some();
                let place = self.choose(question, epoch, |_, _, replica| has(replica));
                place.map(|place| (place, Proof::Unproven)).ok_or(Reason::NoneServing)
            }
        }
    }

    /// The one that shall run it, of those that `fits` says can prove it, and whose answer would be the primary's.
    fn choose(
        &mut self,
        question: &Question,
        epoch: Option<Epoch>,
        fits: impl Fn(StandbyId, Incarnation, &Standby) -> bool,
    ) -> Option<Place> {
        let bugs = self.options.bugs;
        self.standbys.choose(epoch, question.prefer, |id, incarnation, replica| {
            question.is_equal_at(replica, bugs)
                && (question.session.not_before == Lsn::ZERO
                    || replica.surely(question.database) >= Some(question.session.not_before))
                && fits(id, incarnation, replica)
        })
    }

    /// As from one server: where the newest commit that the read must see is known to be replayed.
    fn strong(&mut self, question: &Question, epoch: Option<Epoch>) -> Result<(Place, Proof), Reason> {
        let database = question.database;
        if self.options.by_position {
            return Err(Reason::DatabaseNotFollowed);
        }
        self.look(database);
        let newest = self.newest(database, &question.footprint).ok_or(Reason::DatabaseNotFollowed)?;
        let plain =
            self.writers == Writers::ThroughConsort && self.undoubted(database, &question.footprint, newest);
        if !plain && !self.order.followed(database) {
            return Err(Reason::DatabaseNotFollowed);
        }
        if !plain && !self.order.primary_here() {
            return Err(Reason::PrimaryLost);
        }
        let trusting = plain && self.options.bugs.has(Bug::ClosedNoFreshness);
        let version = self.newest_version(database, &question.footprint);
        let shows = |replica: &Standby| {
            version.is_some_and(|(run, newest)| replica.version(database, run) >= Some(newest))
        };
        let fits = |_: StandbyId, _: Incarnation, replica: &Standby| match replica.kind {
            Kind::Standby => replica.mark() >= Some(newest) || trusting,
            Kind::Fed => shows(replica),
        };
        let place = self.choose(question, epoch, fits).ok_or(Reason::StandbysBehind)?;
        let wanted = (!plain).then(|| self.order.want_gauge());
        let proof = match (place.kind, wanted) {
            (Kind::Fed, wanted) => Proof::Before(wanted),
            (Kind::Standby, None) => Proof::Plain,
            (Kind::Standby, Some(wanted)) => Proof::Positioned(wanted),
        };
        Ok((place, proof))
    }

    /// A standby that has replayed all that the session wrote and saw, or the one where it saw it, for the
    /// snapshots of one incarnation do not go back.
    fn session(&mut self, question: &Question, epoch: Option<Epoch>) -> Result<(Place, Proof), Reason> {
        let marks = question.session;
        let fits = |id: StandbyId, incarnation: Incarnation, replica: &Standby| {
            let mark = replica.surely(question.database);
            mark >= Some(marks.own_commit)
                && (mark >= Some(marks.last_seen) || marks.seen_at == Some((id, incarnation)))
        };
        let place = self.choose(question, epoch, fits).ok_or(Reason::SessionAhead)?;
        Ok((place, Proof::Session))
    }

    /// A standby that has replayed all that a snapshot probe sent at most `bound` ago can have seen.
    fn bounded(
        &mut self,
        question: &Question,
        bound: Duration,
        epoch: Option<Epoch>,
    ) -> Result<(Place, Proof), Reason> {
        if self.ages.stale(question.now, bound) {
            self.order.want_gauge();
        }
        let needed = self.ages.within(question.now, bound).ok_or(Reason::NoRecentGauge)?;
        let within = |replica: &Standby| replica.surely(question.database) >= Some(needed);
        let place = self.choose(question, epoch, |_, _, replica| within(replica));
        let place = place.ok_or(Reason::OlderThanBound)?;
        Ok((place, Proof::Unproven))
    }

    /// Number of catalog changes that came out of the decoder.
    pub(crate) fn barriers(&self, database: DatabaseId) -> u64 {
        self.databases.get(&database).map_or(0, |followed| followed.barriers)
    }

    /// The end of the newest decoded commit that overlaps, or something later; `None` if the database's commits are
    /// not known.
    pub(crate) fn newest(&self, database: DatabaseId, footprint: &Footprint) -> Option<Lsn> {
        Some(self.databases.get(&database)?.freshness.newest(footprint, &self.rows))
    }

    /// With writers through Consort: whether the primary has shown all commits that overlap, and only decoded ones, the
    /// newest of which ends at or below `newest`.
    pub(crate) fn undoubted(&self, database: DatabaseId, footprint: &Footprint, newest: Lsn) -> bool {
        if self.order.in_flight(database, footprint) {
            return false;
        }
        // A decoded commit that no settled probe has seen is covered by its in-flight write set. If that was
        // too small, the commit counts as newer than every standby all the same.
        let followed = self.databases.get(&database);
        followed.is_some_and(|followed| !followed.recent.unseen_overlaps(footprint, newest))
    }
}
