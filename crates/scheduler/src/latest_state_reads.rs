//! Reads that see the whole latest state of a database: at a logical replica, for which they wait, and never
//! at the primary (RSI-PC: Plattner and Alonso, 2004, sections 3.4 and 4.3; the highest freshness of Röhm et
//! al., 2002).
//!
//! # Why a whole read is right
//!
//! The read arrived at `a`. A client may have seen and passed on all that the primary had shown by then: an
//! update transaction reads at the primary what was committed there and *not yet answered*. So "the newest
//! version that was acknowledged" is too old: a commit in flight counts from its sending, until it is known
//! whether the primary had shown it at `a`.
//!
//! - With writers through Consort and nothing in flight at `a`: every commit that the primary had shown has
//!   ended its in-flight write set by a settled snapshot probe, so it has a version, which the newest version
//!   at `a` is not below.
//! - Else let `g` be a snapshot probe sent after `a`. All that the primary had shown at `a` is seen by `g`,
//!   and when `g` has settled it has a version, which the newest version *then* is not below. A commit in
//!   flight that `g` does not see is not required.
//!
//! Either way there is one version that the read needs. A replica that shows it shows a boundary `p` which has all that was
//! shown at `a`. If the primary showed `p` after `a`, the read is put at that instant. If it did so before, nothing was
//! shown between `p` and `a`, and the read is put at `a`. The whole state is the primary's, so a snapshot that is taken
//! there is right for every statement of a transaction: strong snapshot isolation for transactions that only read.
//!
//! # A refresh that locks
//!
//! If a replica's engine keeps no versions, a refresh locks the whole database there:
//! [`Options::refresh_locks`] (Manassiev and Amza, "DMV", section V.B). Readers share the lock, a refresh has
//! it alone. However old the state that a read may see, it is one state, and stays so for its transaction
//! (Röhm et al., 2002: reads within a transaction are consistent, independent of their freshness). Neither
//! paper says who comes first. Here readers and refreshes alternate (a phase-fair lock: Brandenburg and
//! Anderson, 2009):
//!
//! ```text
//!   readers     -----====------------====----          a reader waits for one refresh at most
//!   a refresh   ...........=======.........=====       a refresh waits only for the readers that it finds
//! ```
//!
//! - A refresh that comes lets in all reads that wait for the state that the replica shows now, then none,
//!   and begins when the last reader has ended. So reads do not starve it.
//! - Reads that come meanwhile are let in after that refresh and before the next one. So refreshes do not
//!   starve reads.
//! - A reader that reads for longer than a refresh waits is [let go](Scheduler::let_go): the lock is the
//!   refresh's, and the rows read are discarded. So no reader that hangs stops a replica.
//!
//! [`Options::refresh_locks`]: crate::Options::refresh_locks

use crate::bugs::Bug;
use crate::question::{Pass, Proof, Question, Ticket, Verdict};
use crate::scheduler::{Scheduler, Writers};
use crate::standby::{Place, Standby};
use crate::waiting_reads::{Arrival, Waiter, WholeId};
use crate::{Kind, Reason, StandbyId};
use history::{Consistency, DatabaseId, Footprint, Incarnation, Lsn, Version};
use order::RunNumber;
use std::sync::Arc;

/// Place of a whole-state read.
#[derive(Debug)]
#[must_use]
pub enum Whole {
    /// Here and now: the replica shows what it must see. The read does not wait any more.
    At(Ticket),
    /// Not yet, for this reason: ask again when something has moved.
    Wait(Reason),
    /// At the primary: no replica could run it as the primary would, now or soon. The read does not wait any
    /// more.
    Primary(Reason),
}

impl Scheduler {
    /// The present instant: commits must be shown, or a read must see, all that the primary has shown by now.
    /// May want a snapshot probe.
    pub fn arrival(&mut self, database: DatabaseId) -> Arrival {
        self.look(database);
        let plain = self.writers == Writers::ThroughConsort
            && self.undoubted(database, &Footprint::Everything, Lsn::MAX);
        let answered_only = self.options.bugs.has(Bug::InFlightNotCounted);
        let wanted = (!plain && !answered_only).then(|| self.order.want_gauge());
        let run = self.order.run(database).filter(|_| wanted.is_none());
        let needs = run.map(|run| (run, self.order.newest_version(database)));
        Arrival { database, life: self.order.life(), wanted, needs }
    }

    /// A read arrived that must see the whole state, as fresh as its question says. The read waits until it
    /// is [placed](Scheduler::whole_place) or [leaves](Scheduler::whole_leaves). May want a snapshot probe.
    ///
    /// Errors: [`Reason::TimedOut`]: the maximum number of reads wait already
    /// ([`max_whole_reads`](crate::Options::max_whole_reads)).
    pub fn whole_arrives(&mut self, question: &Question) -> Result<WholeId, Reason> {
        if self.waiters.all.len() >= self.options.max_whole_reads {
            return Err(Reason::TimedOut);
        }
        let arrival = self.arrival(question.database);
        Ok(self.waiters.add(Waiter { question: question.clone(), arrival, admitted: None }))
    }

    /// Place of the read, as things stand now: of the replicas that show what it must see, the one with the
    /// least pending. May want a snapshot probe.
    ///
    /// # Panics
    /// If the read does not wait.
    pub fn whole_place(&mut self, id: WholeId) -> Whole {
        let mut waiter = self.waiters.all.remove(&id).expect("a whole read is asked for as long as it waits");
        let admitted = waiter.admitted.take();
        let placed = match admitted {
            Some(ticket) if ticket.pass().is_none_or(|pass| self.may_read(pass)) => Whole::At(ticket),
            outdated => {
                if let Some(ticket) = outdated {
                    self.finish(ticket, crate::End::Refused(Reason::LetGo));
                }
                self.place_whole(&mut waiter, None)
            }
        };
        if let Whole::Wait(_) = placed {
            self.waiters.all.insert(id, waiter);
        }
        placed
    }

    /// The read waits no more: its client has gone, or its limit has passed.
    pub fn whole_leaves(&mut self, id: WholeId) {
        let admitted = self.waiters.all.remove(&id).and_then(|waiter| waiter.admitted);
        if let Some(ticket) = admitted {
            self.finish(ticket, crate::End::Refused(Reason::TimedOut));
        }
    }

    /// Decides if at least this number of replicas show all that the primary had shown at this instant. A
    /// commit that was answered before the instant is shown by them. After [`Verdict::Wait`] ask again when
    /// something has moved.
    pub fn shown_by(&mut self, arrival: &mut Arrival, replicas: usize) -> Verdict {
        let Some((run, version)) = self.needs(arrival) else { return Verdict::Wait(Reason::GaugeNotSettled) };
        let shows = |replica: &&Standby| replica.version(arrival.database, run) >= Some(version);
        let showing = self.standbys.all.values().filter(shows).count();
        if showing >= replicas { Verdict::Proven } else { Verdict::Wait(Reason::ReplicasBehind) }
    }

    /// Requests the lock for a refresh of a replica's database. First the reads are let in that wait for the
    /// state shown now. `true`: the database is locked until [`refreshed`](Scheduler::refreshed). `false`:
    /// readers are there; ask again when one has finished, and [let them go](Scheduler::let_go) if that takes
    /// too long.
    pub fn refresh(&mut self, id: StandbyId, database: DatabaseId) -> bool {
        if !self.options.refresh_locks {
            return true;
        }
        let waiting: Vec<WholeId> = self.waiters.all.keys().copied().collect();
        for whole in waiting {
            let Some(mut waiter) = self.waiters.all.remove(&whole) else { continue };
            if waiter.admitted.is_none() && waiter.question.database == database {
                match self.place_whole(&mut waiter, Some(id)) {
                    Whole::At(ticket) => waiter.admitted = Some(ticket),
                    Whole::Wait(_) | Whole::Primary(_) => {}
                }
            }
            self.waiters.all.insert(whole, waiter);
        }
        let gate = self.waiters.gates.entry((id, database)).or_default();
        gate.refreshing = gate.reading == 0 || self.options.bugs.has(Bug::RefreshPassesReaders);
        gate.asked = !gate.refreshing;
        gate.refreshing
    }

    /// Lets go of readers that have held a refresh back for as long as they may: it no longer waits for them,
    /// and they [may not read](Scheduler::may_read) there any more. Returns their number.
    pub fn let_go(&mut self, id: StandbyId, database: DatabaseId) -> usize {
        let Some(gate) = self.waiters.gates.get_mut(&(id, database)) else { return 0 };
        gate.era += 1;
        std::mem::take(&mut gate.reading)
    }

    /// True if the holder of this pass was not let go: its reads from its replica are still of one state.
    pub fn may_read(&self, pass: Pass) -> bool {
        let gate = self.waiters.gates.get(&(pass.standby, pass.database));
        self.options.bugs.has(Bug::LetGoReadsOn) || gate.is_some_and(|gate| gate.era == pass.era)
    }

    /// Ends a refresh, successful or not: readers may come.
    pub fn refreshed(&mut self, id: StandbyId, database: DatabaseId) {
        if let Some(gate) = self.waiters.gates.get_mut(&(id, database)) {
            (gate.refreshing, gate.asked) = (false, false);
        }
    }

    /// A ticket's read has ended at a replica whose refreshes lock.
    pub(crate) fn leaves_gate(&mut self, ticket: &Ticket) {
        let gate = self.waiters.gates.get_mut(&(ticket.standby, ticket.database));
        if let Some(gate) = gate.filter(|gate| ticket.era == Some(gate.era)) {
            gate.reading -= 1;
        }
    }

    /// Places a read, at this replica if one is named.
    fn place_whole(&mut self, waiter: &mut Waiter, only: Option<StandbyId>) -> Whole {
        self.renew();
        let question = &waiter.question;
        if question.consistency == Consistency::Primary {
            return Whole::Primary(Reason::AskedForPrimary);
        }
        if !question.at_copies {
            return Whole::Primary(Reason::NotAtCopies);
        }
        if self.closed.now > 0 && question.consistency != Consistency::Weak {
            return Whole::Wait(Reason::RolesChanged);
        }
        let epoch = self.order.incarnation().map(|incarnation| incarnation.epoch);
        let database = question.database;
        let serves = |replica: &Standby| {
            replica.kind == Kind::Fed
                && replica.eligible(epoch).is_some()
                && replica.holds(database, &question.footprint)
                && replica.surely(database).is_some()
        };
        if !self.standbys.all.values().any(serves) {
            return Whole::Primary(Reason::NoneServing);
        }
        let fresh = match self.fresh(waiter) {
            Ok(fresh) => fresh,
            Err(reason) => return Whole::Wait(reason),
        };
        let gates = &self.waiters.gates;
        let passes = self.options.bugs.has(Bug::ReadPassesRefresh);
        let open = |id: StandbyId| gates.get(&(id, database)).is_none_or(|gate| passes || gate.is_open());
        let place = self.standbys.choose(epoch, waiter.question.prefer, |id, incarnation, replica| {
            replica.kind == Kind::Fed
                && replica.holds(database, &waiter.question.footprint)
                && only.is_none_or(|only| only == id)
                && fresh.holds(id, incarnation, replica, &waiter.question)
                && open(id)
        });
        match place {
            Some(place) => Whole::At(self.whole_ticket(waiter, place)),
            None => Whole::Wait(Reason::ReplicasBehind),
        }
    }

    /// State that a replica must have for the read, if that is known yet.
    fn fresh(&mut self, waiter: &mut Waiter) -> Result<Fresh, Reason> {
        Ok(match waiter.question.consistency {
            Consistency::Primary | Consistency::Strong => {
                let (run, version) = self.needs(&mut waiter.arrival).ok_or(Reason::GaugeNotSettled)?;
                Fresh::Version(run, version)
            }
            Consistency::Session => Fresh::Session,
            Consistency::Bounded(bound) => {
                let now = waiter.question.now;
                if self.ages.stale(now, bound) {
                    self.order.want_gauge();
                }
                Fresh::Position(self.ages.within(now, bound).ok_or(Reason::NoRecentGauge)?)
            }
            Consistency::Weak => Fresh::Position(Lsn::ZERO),
        })
    }

    /// The version that a replica must show, when it is known. If the order began again meanwhile, the
    /// required commits have other versions, and a snapshot probe that is sent now sees all of them.
    fn needs(&mut self, arrival: &mut Arrival) -> Option<(RunNumber, Version)> {
        self.look(arrival.database);
        let (life, run) = (self.order.life(), self.order.run(arrival.database)?);
        let other_run = arrival.needs.is_some_and(|(of, _)| of != run);
        if arrival.life != life || other_run {
            *arrival = Arrival { life, wanted: Some(self.order.want_gauge()), needs: None, ..*arrival };
        }
        if arrival.needs.is_none() {
            let settled = self.order.settled(arrival.database).map(|(number, _)| number);
            let known = arrival.wanted.is_some() && settled >= arrival.wanted;
            arrival.needs = known.then(|| (run, self.order.newest_version(arrival.database)));
            if arrival.wanted.is_none() {
                arrival.wanted = Some(self.order.want_gauge());
            }
        }
        arrival.needs
    }

    fn whole_ticket(&mut self, waiter: &Waiter, place: Place) -> Ticket {
        let (question, database) = (&waiter.question, waiter.question.database);
        self.pin(place.low);
        let any = self.order.settled(database).filter(|_| self.options.bugs.has(Bug::InFlightNotCounted));
        let wanted = waiter.arrival.wanted.or(any.map(|(number, _)| number));
        let era = self.options.refresh_locks.then(|| {
            let gate = self.waiters.gates.entry((place.id, database)).or_default();
            gate.reading += 1;
            gate.era
        });
        Ticket {
            database,
            footprint: Arc::new(Footprint::Everything),
            standby: place.id,
            incarnation: place.incarnation,
            low: place.low,
            proof: match question.consistency {
                Consistency::Primary | Consistency::Strong => Proof::Before(wanted),
                Consistency::Session => Proof::Session,
                Consistency::Bounded(_) | Consistency::Weak => Proof::Unproven,
            },
            given_up: place.given_up,
            barriers: self.barriers(database),
            life: self.order.life(),
            closings: (question.consistency != Consistency::Weak).then_some(self.closed.begun),
            after: None,
            kind: place.kind,
            seen: Lsn::MAX,
            era,
        }
    }

    /// Checks the invariants of whole reads; for tests. Panics if one does not hold.
    pub fn audit_whole(&self) {
        for ((id, database), gate) in &self.waiters.gates {
            assert!(!gate.refreshing || gate.reading == 0, "{id} is refreshed in {database} and read");
            assert!(!(gate.refreshing && gate.asked), "a refresh has begun or waits");
        }
        assert!(self.waiters.all.len() <= self.options.max_whole_reads, "bound of whole reads");
    }
}

/// State that a replica must have.
enum Fresh {
    /// This version, in this run of the order.
    Version(RunNumber, Version),
    /// All that ends at or below.
    Position(Lsn),
    /// All that the session has written and seen.
    Session,
}

impl Fresh {
    fn holds(&self, id: StandbyId, incarnation: Incarnation, replica: &Standby, question: &Question) -> bool {
        let mark = replica.surely(question.database);
        if question.session.not_before > Lsn::ZERO && mark < Some(question.session.not_before) {
            return false;
        }
        match self {
            Fresh::Version(run, version) => replica.version(question.database, *run) >= Some(*version),
            Fresh::Position(needed) => mark >= Some(*needed),
            Fresh::Session => {
                let marks = question.session;
                mark >= Some(marks.own_commit)
                    && (mark >= Some(marks.last_seen) || marks.seen_at == Some((id, incarnation)))
            }
        }
    }
}
