//! Before a read runs: whether a standby's answer is likely to be proven, and which standby shall give it.

use crate::question::{Consistency, Proof, Question, Route, Ticket};
use crate::scheduler::{Scheduler, Writers};
use crate::{Reason, StandbyId};
use history::{DatabaseId, Epoch, Footprint, Incarnation, Lsn};
use std::time::Duration;

/// The standby, its life and its mark.
type Place = (StandbyId, Incarnation, Lsn);

impl Scheduler {
    /// Where a read goes that has just arrived. A ticket counts as pending until it is
    /// [finished](Scheduler::finish). May want a gauge.
    pub fn route(&mut self, question: &Question) -> Route {
        match self.place(question) {
            Err(reason) => Route::Primary(reason),
            Ok(((standby, incarnation, low), proof)) => {
                self.pin(low);
                Route::Standby(Ticket {
                    database: question.database,
                    footprint: question.footprint.clone(),
                    standby,
                    incarnation,
                    low,
                    proof,
                    barriers: self.barriers(question.database),
                    life: self.order.life(),
                    closings: (question.consistency != Consistency::Weak).then_some(self.closings),
                    after: None,
                })
            }
        }
    }

    fn place(&mut self, question: &Question) -> Result<(Place, Proof), Reason> {
        if question.consistency == Consistency::Primary {
            return Err(Reason::AskedForPrimary);
        }
        if self.closed > 0 && question.consistency != Consistency::Weak {
            return Err(Reason::RolesChanged);
        }
        self.renew();
        let epoch = self.order.incarnation().map(|incarnation| incarnation.epoch);
        self.standbys.any(epoch)?;
        match question.consistency {
            Consistency::Primary | Consistency::Strong => self.strong(question, epoch),
            Consistency::Session => self.session(question, epoch),
            Consistency::Bounded(bound) => self.bounded(question, bound, epoch),
            Consistency::Weak => {
                let place = self.standbys.choose(epoch, question.prefer, |_, _, _| true);
                place.map(|place| (place, Proof::Unproven)).ok_or(Reason::NoneServing)
            }
        }
    }

    /// As from one server: where the newest commit that the read must see is known to be replayed.
    fn strong(&mut self, question: &Question, epoch: Option<Epoch>) -> Result<(Place, Proof), Reason> {
        let database = question.database;
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
        let trusting = plain && self.options.bugs.closed_no_freshness;
        let place = self
            .standbys
            .choose(epoch, question.prefer, |_, _, mark| mark >= newest || trusting)
            .ok_or(Reason::StandbysBehind)?;
        let proof = if plain { Proof::Plain } else { Proof::Positioned(self.order.want_gauge()) };
        Ok((place, proof))
    }

    /// Where all is replayed that the session wrote and saw; or where it saw it, for a life's snapshots do not go back.
    fn session(&mut self, question: &Question, epoch: Option<Epoch>) -> Result<(Place, Proof), Reason> {
        let marks = question.session;
        let fits = |id: StandbyId, incarnation: Incarnation, mark: Lsn| {
            mark >= marks.own_commit && (mark >= marks.last_seen || marks.seen_at == Some((id, incarnation)))
        };
        let place = self.standbys.choose(epoch, question.prefer, fits).ok_or(Reason::SessionAhead)?;
        Ok((place, Proof::Session))
    }

    /// Where all is replayed that a gauge can have seen which was sent at most `bound` ago.
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
        let place = self
            .standbys
            .choose(epoch, question.prefer, |_, _, mark| mark >= needed)
            .ok_or(Reason::OlderThanBound)?;
        Ok((place, Proof::Unproven))
    }

    /// How often the catalog has changed, as far as it came out of the decoder.
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
        if self.order.in_doubt(database, footprint) {
            return false;
        }
        // A decoded commit that no settled gauge has seen is covered by its doubt. Should a doubt have been too small,
        // the commit counts as newer than every standby all the same.
        let followed = self.databases.get(&database);
        followed.is_some_and(|followed| !followed.recent.unseen_overlaps(footprint, newest))
    }
}
