//! Judges a read after it ran at a standby: decides if its answer is one that the primary would have given.
//!
//! # Why a proven answer is right
//!
//! The read arrived at `a`; its answer is judged at `z`. The standby's snapshot is of an instant between.
//! Commits are compared by the rows that they wrote and the rows that the read reads; only those that overlap
//! count.
//!
//! **Positioned.** The snapshot probe was sent after `a` and answered before `z`, and is settled: every
//! commit that it sees is decoded. Let `low` be the replay position heard before the read was sent and `q`
//! the one in the read's snapshot. Replay is in the order of the WAL, and redo shows a commit before the
//! position moves past it:
//!
//! ```text
//!                 low             q
//!   --------------|---------------|------------------->  WAL
//!    surely shown |  possibly shown, and one that starts at q  |  surely not shown
//! ```
//!
//! If each commit that overlaps is surely shown and seen by the probe, or surely not shown and not seen, then
//! for all that the read reads, the snapshot equals the primary at the probe's instant. A commit that is not
//! decoded yet is not seen. Such a commit must be known not to be shown: the decoder is past `q`, or it has
//! come to the position of a probe that was sent after `q` was read, and that lies not above `q`: then
//! nothing was there to be shown.
//!
//! **Its locks.** The snapshot of a positioned read is older than its locks, which it may have waited for. A
//! replayed command that emptied a table of it meanwhile has taken the rows that the snapshot would show, and
//! the rows that came instead are newer. So the position is asked once more when the statement is bound and
//! has its locks: all up to there must be decoded, and no TRUNCATE or DDL among it may meet the read.
//!
//! **Plain** (writers through Consort only). At `a` nothing that overlaps was in flight, at `z` nothing is,
//! and no decoded commit that overlaps ends above `low`. Take a commit that overlaps, with its in-flight
//! write set from `b`, before it was sent, to `e`, after it was visible and decoded. If `e` is before `a`,
//! the commit was visible at `a`, and it ends at or below `low`: it is shown. `b` before `a` and `e` after it
//! was ruled out at `a`. If `b` is after `a`, its record was written after `low` was heard and so ends above
//! `low`. Were the commit decoded at `z`, the index would say so; were it not, its write set would be open at
//! `z`. Both were ruled out, so `b` is after `z`, and the snapshot cannot have it. So nothing that the read
//! reads changed between `a` and `z`, and the answer is right at every instant between. A write set that
//! began and ended in between needs no remembering: its writes are in the index, above `low`.
//!
//! **The catalog.** The read's footprint was analysed just before its ticket was made, from a catalog that
//! had every change that had come out of the decoder. A change that the standby had replayed by then, and the
//! decoder had not given yet, ends below `low` and would pass for shown and seen: the footprint itself may be
//! wrong. So a change that came out since ends the proof.
//!
//! **Roles.** A change of roles comes out of no slot. Reads are kept at the primary ([`Scheduler::close`])
//! from before it is sent, or from when it is found and before the probe that saw it counts, until a mark
//! after it is visible. A read that begins then is proven by a probe that sees the mark, or after the mark's
//! write set has ended. Either way the mark is decoded, it wrote everything, and only a standby that has
//! replayed it, and so the change, can serve.

use crate::bugs::Bug;
use crate::question::{Proof, Ran, Ticket, Verdict};
use crate::scheduler::{Followed, Scheduler, Writers};
use crate::{Kind, Reason};
use history::{Commit, Lsn};
use order::{Gauge, GaugeNumber};

impl Scheduler {
    /// Decides if the answer may be handed on. The read's snapshot must have been taken: ask when its first
    /// bytes, or its position, are here. After [`Verdict::Wait`] ask again when a snapshot probe was answered
    /// or something was decoded. May want a snapshot probe.
    pub fn judge(&mut self, ticket: &mut Ticket, ran: &Ran) -> Verdict {
        self.look(ticket.database);
        if self.options.bugs.has(Bug::StandbyLive) {
            return Verdict::Proven;
        }
        let any_life = match ticket.kind {
            Kind::Standby => self.options.bugs.has(Bug::BackendCrashKeepsLow),
            Kind::Fed => self.options.bugs.has(Bug::ReplicaForgetsCommits),
        };
        if ran.incarnation != ticket.incarnation && !any_life {
            return Verdict::Refused(Reason::StandbyRestarted);
        }
        if self.given_up_since(ticket) {
            return Verdict::Refused(Reason::StandbyRestarted);
        }
        if ticket.pass().is_some_and(|pass| !self.may_read(pass)) {
            return Verdict::Refused(Reason::LetGo);
        }
        if self.kept_in_since(ticket) {
            return Verdict::Refused(Reason::RolesChanged);
        }
        let settled = self.order.settled(ticket.database).map(|(_, gauge)| gauge.insert_lsn);
        ticket.seen = settled.unwrap_or(Lsn::MAX);
        match ticket.proof {
            Proof::Unproven => Verdict::Proven,
            // The position was late enough when the read was sent, and positions do not go back.
            Proof::Session if self.options.by_position => match ran.replayed.and(ran.locked) {
                Some(_) => Verdict::Proven,
                None => Verdict::Refused(Reason::NoPosition),
            },
            Proof::Session if ticket.kind == Kind::Fed && settled.is_some() => Verdict::Proven,
            Proof::Session => match self.emptied(ticket, ran) {
                Err(verdict) => verdict,
                Ok(replayed) => self.for_the_session(ticket, replayed),
            },
            _ if let Some(reason) = self.outdated(ticket) => Verdict::Refused(reason),
            Proof::Before(None) if self.writers != Writers::ThroughConsort => {
                Verdict::Refused(Reason::WritersSwitched)
            }
            Proof::Before(_) => Verdict::Proven,
            Proof::Plain => self.plain(ticket),
            Proof::Positioned(wanted) => match self.emptied(ticket, ran) {
                Err(verdict) => verdict,
                Ok(replayed) => self.positioned(ticket, wanted, replayed),
            },
        }
    }

    /// True if a logical replica was given up, to be copied again, after the ticket was made ready: the read
    /// may have seen a half of a copy. Also true if a standby may have left the primary's history since.
    fn given_up_since(&self, ticket: &Ticket) -> bool {
        let replica = self.standbys.all.get(&ticket.standby);
        replica.map_or(ticket.kind == Kind::Fed, |replica| replica.given_up != ticket.given_up)
    }

    /// True if reads were kept at the primary after the ticket was made.
    fn kept_in_since(&self, ticket: &Ticket) -> bool {
        ticket.closings.is_some_and(|closings| closings != self.closed.begun)
            && !self.options.bugs.has(Bug::ClosedDoorAjar)
    }

    /// Why a proof that began with the ticket would be void.
    pub(crate) fn outdated(&self, ticket: &Ticket) -> Option<Reason> {
        if self.kept_in_since(ticket) {
            return Some(Reason::RolesChanged);
        }
        if ticket.barriers != self.barriers(ticket.database) && !self.options.bugs.has(Bug::StaleAnalysis) {
            return Some(Reason::CatalogChanged);
        }
        (ticket.life != self.order.life()).then_some(Reason::PrimaryRestarted)
    }

    fn plain(&self, ticket: &Ticket) -> Verdict {
        let (database, bugs) = (ticket.database, self.options.bugs);
        if self.writers != Writers::ThroughConsort {
            return Verdict::Refused(Reason::WritersSwitched);
        }
        let Some(newest) = self.newest(database, &ticket.footprint) else {
            return Verdict::Refused(Reason::DatabaseNotFollowed);
        };
        if newest > ticket.low && !bugs.has(Bug::ClosedNoFreshness) {
            return Verdict::Refused(Reason::WrittenMeanwhile);
        }
        if !bugs.has(Bug::ClosedDoubtAtArrivalOnly) && !self.undoubted(database, &ticket.footprint, newest) {
            return Verdict::Refused(Reason::InDoubt);
        }
        Verdict::Proven
    }

    /// The position in the read's snapshot. The verdict instead if what it reads was emptied between its snapshot and its locks,
    /// or may have been: rows of that time are gone, and those that came are newer than the snapshot.
    fn emptied(&mut self, ticket: &mut Ticket, ran: &Ran) -> Result<Lsn, Verdict> {
        let (Some(replayed), Some(locked)) = (ran.replayed, ran.locked) else {
            return Err(Verdict::Refused(Reason::NoPosition));
        };
        if locked == replayed || self.options.bugs.has(Bug::LocksUnheeded) {
            return Ok(replayed);
        }
        if !self.decoded_past(ticket, locked) {
            return Err(Verdict::Wait(Reason::DecoderBehind));
        }
        // DDL among it counts as writing everything.
        self.emptied_by(ticket, locked).map_or(Ok(replayed), |reason| Err(Verdict::Refused(reason)))
    }

    /// A reason if a commit that may have been replayed by then has emptied a table of the read, or may have.
    fn emptied_by(&self, ticket: &Ticket, locked: Lsn) -> Option<Reason> {
        let followed = self.databases.get(&ticket.database)?;
        let Some(mut above) = followed.recent.above(ticket.low) else {
            return Some(Reason::HistoryForgotten);
        };
        let emptied = above.any(|commit| {
            commit.start <= locked.next_record_start() && commit.wrote.may_empty(&ticket.footprint)
        });
        emptied.then_some(Reason::Between)
    }

    fn positioned(&mut self, ticket: &mut Ticket, wanted: GaugeNumber, replayed: Lsn) -> Verdict {
        if let Some(reason) = self.written_between(ticket, replayed) {
            return Verdict::Refused(reason);
        }
        let bugs = self.options.bugs;
        let gauge = if bugs.has(Bug::StandbyUnsettled) {
            self.order.newest_gauge()
        } else {
            self.order.settled(ticket.database)
        };
        let gauge = gauge.filter(|(number, _)| *number >= wanted || bugs.has(Bug::StandbyOldGauge));
        let Some((_, gauge)) = gauge else { return Verdict::Wait(Reason::GaugeNotSettled) };
        let gauge = gauge.clone();
        if !self.decoded_past(ticket, replayed) && !bugs.has(Bug::StandbyUnsettled) {
            return Verdict::Wait(Reason::DecoderBehind);
        }
        self.compare(ticket, replayed, &gauge).map_or(Verdict::Proven, Verdict::Refused)
    }

    /// Checks that the snapshot is not ahead of the primary, where the session may read next: a standby may
    /// show for long what the primary does not show yet, while a commit waits there for another standby. The
    /// snapshot's age was checked before.
    fn for_the_session(&mut self, ticket: &mut Ticket, replayed: Lsn) -> Verdict {
        if !self.decoded_past(ticket, replayed) {
            return Verdict::Wait(Reason::DecoderBehind);
        }
        let beyond = replayed.next_record_start();
        let Some(followed) = self.databases.get(&ticket.database) else {
            return Verdict::Refused(Reason::DatabaseNotFollowed);
        };
        if followed.recent.unseen_starts_by(&ticket.footprint, beyond) {
            ticket.after.get_or_insert_with(|| self.order.want_gauge());
            return Verdict::Wait(Reason::StandbyAhead);
        }
        Verdict::Proven
    }

    /// A decoded commit that may or may not be in the snapshot decides without any snapshot probe.
    fn written_between(&self, ticket: &Ticket, replayed: Lsn) -> Option<Reason> {
        let bugs = self.options.bugs;
        let followed = self.databases.get(&ticket.database)?;
        if self.newest(ticket.database, &ticket.footprint)? <= ticket.low {
            return None;
        }
        let Some(mut above) = followed.recent.above(ticket.low) else {
            return Some(Reason::HistoryForgotten);
        };
        let between = above
            .any(|commit| commit.wrote.overlaps(&ticket.footprint) && self.possibly_shown(commit, replayed));
        (between && !bugs.has(Bug::StandbyBetweenCounts) && !bugs.has(Bug::StandbyHoldOnly))
            .then_some(Reason::Between)
    }

    /// True if a commit above `low` may be in a snapshot in which the position was `replayed`.
    fn possibly_shown(&self, commit: &Commit, replayed: Lsn) -> bool {
        if self.options.bugs.has(Bug::StandbyNoPlusOne) {
            return commit.end <= replayed;
        }
        commit.start <= replayed.next_record_start()
    }

    /// True if every commit that the snapshot can have is decoded. Wants a snapshot probe if only that can
    /// decide: nothing may ever come after the position.
    fn decoded_past(&mut self, ticket: &mut Ticket, replayed: Lsn) -> bool {
        let beyond = replayed.next_record_start();
        if self.order.position(ticket.database).is_some_and(|decoded| decoded > beyond) {
            return true;
        }
        if !self.order.decoded_past(ticket.database, replayed) {
            return false;
        }
        let after = *ticket.after.get_or_insert_with(|| self.order.want_gauge());
        self.order.newest_gauge().is_some_and(|(number, gauge)| {
            number >= after
                && gauge.insert_lsn <= beyond
                && self.order.decoded_past(ticket.database, gauge.insert_lsn)
        })
    }

    /// Each commit that overlaps must be surely shown and seen, or surely not shown and not seen. All that can be shown
    /// or seen are decoded. The reason if one is neither.
    fn compare(&self, ticket: &Ticket, replayed: Lsn, gauge: &Gauge) -> Option<Reason> {
        let Some(followed) = self.databases.get(&ticket.database) else {
            return Some(Reason::DatabaseNotFollowed);
        };
        let bugs = self.options.bugs;
        if bugs.has(Bug::StandbyUnsettled)
            || bugs.has(Bug::StandbyBetweenCounts)
            || bugs.has(Bug::StandbyHoldOnly)
            || bugs.has(Bug::StandbyOldGauge)
        {
            return self.compare_wrongly(followed, ticket, replayed, gauge);
        }
        // The newest settled probe is the one that `unseen` is about.
        let newest = followed.freshness.newest(&ticket.footprint, &self.rows);
        if newest <= ticket.low {
            return followed
                .recent
                .unseen_overlaps(&ticket.footprint, newest)
                .then_some(Reason::StandbyAhead);
        }
        let Some(above) = followed.recent.above(ticket.low) else { return Some(Reason::HistoryForgotten) };
        for commit in above.filter(|commit| commit.wrote.overlaps(&ticket.footprint)) {
            if self.possibly_shown(commit, replayed) {
                return Some(Reason::Between);
            }
            if gauge.snapshot.sees(commit.xid) {
                return Some(Reason::StandbyBehind);
            }
        }
        // A commit that is not shown is unseen, and may be. A commit that is shown must be seen.
        let ahead = followed.recent.unseen_overlaps(&ticket.footprint, ticket.low);
        ahead.then_some(Reason::StandbyAhead)
    }

    /// For the planted bugs: the comparison with one rule left out.
    fn compare_wrongly(
        &self,
        followed: &Followed,
        ticket: &Ticket,
        replayed: Lsn,
        gauge: &Gauge,
    ) -> Option<Reason> {
        let bugs = self.options.bugs;
        let Some(all) = followed.recent.above(followed.recent.dropped_to()) else {
            return Some(Reason::HistoryForgotten);
        };
        for commit in all.filter(|commit| commit.wrote.overlaps(&ticket.footprint)) {
            let seen = gauge.snapshot.sees(commit.xid);
            let surely = commit.end <= ticket.low;
            let shown = surely || self.possibly_shown(commit, replayed);
            if shown && !surely && !bugs.has(Bug::StandbyBetweenCounts) && !bugs.has(Bug::StandbyHoldOnly) {
                return Some(Reason::Between);
            }
            if shown && !seen {
                return Some(Reason::StandbyAhead);
            }
            if !shown && seen && !bugs.has(Bug::StandbyHoldOnly) {
                return Some(Reason::StandbyBehind);
            }
        }
        None
    }
}
