//! One state machine of one primary: snapshot probes, slots and settled positions. In-flight write sets are
//! in [`crate::in_flight_writes`].

use crate::bugs::{Bug, Bugs};
use crate::commit_placement::keep;
use crate::database::{Database, Newborn};
use crate::finished_transactions::{Limits, Owed};
use crate::in_flight_write::Doubt;
use crate::snapshot_probe::Gauging;
use crate::{Boundary, Counts, DoubtId, Gauge, GaugeNumber, RunNumber, Void};
use history::{Commit, DatabaseId, Incarnation, Lsn, Watermark};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bounds of an [`Order`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum number of snapshot probes that are answered and not settled everywhere. Beyond it, the one
    /// before the newest is never a candidate: the oldest settle one after the other, and the newest is
    /// always kept.
    pub max_unsettled_gauges: usize,
    /// Maximum number of finished transactions that have not come out. Beyond it, databases settle by
    /// position once.
    pub max_owed_xids: usize,
    /// Maximum number of transactions that came out and that no snapshot probe has seen finished. Beyond it,
    /// the same.
    pub max_out_xids: usize,
    /// Maximum number of in-flight write sets of one database that only wait for their snapshot probe. Beyond
    /// it, they fold into one: everything of that database is in flight until the last one's probe has
    /// settled.
    pub max_ending_doubts: usize,
    /// Maximum number of commits of one database that wait for their version, or whose boundary was not
    /// taken. Beyond it, the run of the order ends: see [`Order::run`].
    pub max_waiting_commits: usize,
    /// For the simulator's tests of its checkers.
    pub bugs: Bugs,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_unsettled_gauges: 256,
            max_owed_xids: 65_536,
            max_out_xids: 65_536,
            max_ending_doubts: 4_096,
            max_waiting_commits: 1 << 20,
            bugs: Bugs::default(),
        }
    }
}

/// The order in which one primary has shown its commits.
///
/// Invariants:
/// - Snapshot probes are sent one at a time; a caller that wants one gets one that is sent later than the
///   wish.
/// - Answered probes of one incarnation are ordered: each sees all that the one before it saw, and its
///   position is not lower.
/// - A probe is settled for a database only if every commit of that database which it sees was given to
///   [`decoded`](Order::decoded) in this incarnation, or had been shown before the slot's first position.
/// - An in-flight write set ends only when a probe has settled for its database that was wanted after its
///   answer (or after its backend was gone); until then [`in_flight`](Order::in_flight) finds it.
/// - Until [`orphans_gone`](Order::orphans_gone) was said in this incarnation, and a probe wanted after it
///   has settled, all of a database is in flight: backends of an earlier Consort may still be committing.
/// - If commits are placed, each probe that settles ends in a boundary: commits that it sees and no earlier
///   one saw get their versions, in the order of the WAL.
/// - A new incarnation voids probes, positions, settled state, and commits that had not been placed.
///
/// Bounds: those of [`Options`]; open write sets are as many as sessions that write, lost ones as many as
/// backends that live; databases are as many as the primary has.
#[derive(Debug)]
pub struct Order {
    pub(crate) options: Options,
    incarnation: Option<Incarnation>,
    life: u64,
    here: bool,
    pub(crate) gauging: Gauging,
    /// Answered snapshot probes that are not yet settled for every followed database, ascending.
    answered: VecDeque<(GaugeNumber, Arc<Gauge>)>,
    owed: Owed,
    pub(crate) databases: BTreeMap<DatabaseId, Database>,
    pub(crate) doubts: BTreeMap<DoubtId, Doubt>,
    pub(crate) last_doubt: u64,
    /// Wanted when the orphans were said to be gone.
    pub(crate) without_orphans: Option<GaugeNumber>,
    /// Boundaries that were not taken yet.
    pub(crate) boundaries: Vec<Boundary>,
    pub(crate) last_run: RunNumber,
    pub(crate) counts: Counts,
}

impl Order {
    /// Nothing is known: no primary, no slot, and everything is in flight.
    pub fn new(options: Options) -> Order {
        Order {
            options,
            incarnation: None,
            life: 0,
            here: false,
            gauging: Gauging::new(options.bugs),
            answered: VecDeque::new(),
            owed: Owed::new(),
            databases: BTreeMap::new(),
            doubts: BTreeMap::new(),
            last_doubt: 0,
            without_orphans: None,
            boundaries: Vec::new(),
            last_run: RunNumber::default(),
            counts: Counts::default(),
        }
    }

    /// The primary is connected, and this is its incarnation. If it is another one than before, probes,
    /// positions and settled state are void: a crashed primary gives identities and positions of unflushed
    /// commits a second time. Slots must be opened again, and everything is in flight until
    /// [`orphans_gone`](Order::orphans_gone).
    ///
    /// Open and lost write sets stay: one may have been begun on a connection to the new incarnation before
    /// it was reported to us. Their sessions report the loss and the end of their backends as ever, and a
    /// probe of the new incarnation ends them.
    pub fn incarnate(&mut self, incarnation: Incarnation) {
        self.here = true;
        if self.incarnation.replace(incarnation) == Some(incarnation) {
            return;
        }
        self.lose_in_flight();
        if self.options.bugs.has(Bug::KeepProofsOverRestart) && self.life > 0 {
            return;
        }
        self.life += 1;
        self.answered.clear();
        self.counts.quick_rule_lost += self.owed.lost;
        self.owed = Owed::new();
        self.without_orphans = None;
        let next = self.gauging.sent().next();
        for database in self.databases.values_mut() {
            database.void(next);
        }
        self.boundaries.clear();
        self.drop_all_ending();
        self.check();
    }

    /// The connections to the primary are lost. The probe in flight will not be answered and none can be sent
    /// until [`incarnate`](Order::incarnate); settled state stays, and so does every in-flight write set.
    pub fn primary_lost(&mut self) {
        self.here = false;
        self.lose_in_flight();
    }

    /// The life of the primary that everything here is about.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// Number that changes whenever all settled state became void: state derived under an earlier number is
    /// void too.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// True if snapshot probes can be sent.
    pub fn primary_here(&self) -> bool {
        self.here
    }

    /// Wants a snapshot probe that is sent after this call: it joins the waiting one, never the one in
    /// flight. Any settled probe whose number is not lower serves.
    pub fn want_gauge(&mut self) -> GaugeNumber {
        self.gauging.want()
    }

    /// The snapshot probe that must be sent now: one is wanted, and none is in flight. The probe counts as
    /// sent from here on.
    pub fn gauge_to_send(&mut self) -> Option<GaugeNumber> {
        if !self.here {
            return None;
        }
        let number = self.gauging.next_to_send()?;
        self.counts.gauges_sent += 1;
        Some(number)
    }

    /// The primary answered the snapshot probe in flight.
    ///
    /// # Errors
    /// The probe is void and proves nothing; it is wanted again. See [`Void`] for the caller's reaction.
    pub fn gauge_answered(&mut self, number: GaugeNumber, gauge: Gauge) -> Result<(), Void> {
        if let Err(void) = self.admit(number, &gauge) {
            self.counts.gauges_void += 1;
            return Err(void);
        }
        let gauge = Arc::new(gauge);
        self.owed.gauge(number, &gauge, self.limits());
        for database in self.databases.values_mut() {
            database.look(number, &gauge);
        }
        if self.answered.len() >= self.options.max_unsettled_gauges {
            self.answered.pop_back();
            self.counts.gauges_dropped += 1;
        }
        self.answered.push_back((number, gauge));
        self.settle();
        Ok(())
    }

    /// The snapshot probe in flight will not be answered. Callers that waited for it wait for the next.
    /// Nothing happens if it is not the one in flight.
    pub fn gauge_lost(&mut self, number: GaugeNumber) {
        if self.gauging.in_flight() == Some(number) {
            self.lose_in_flight();
        }
    }

    /// The snapshot probe that was answered last. Alone it proves nothing.
    pub fn newest_gauge(&self) -> Option<(GaugeNumber, &Gauge)> {
        self.owed.newest()
    }

    /// The decoder of a database begins at `from`, in a slot that was used before.
    ///
    /// Contract: every commit whose record starts below `from` had been shown by the primary. (Confirm to the
    /// slot no position above a decoded commit that no settled probe has seen.) If positions are missing
    /// between the earlier decoded position and `from`, this is as if the slot had been
    /// [created](Order::slot_created).
    pub fn slot_opened(&mut self, database: DatabaseId, from: Lsn) {
        match self.position(database) {
            Some(decoded) if decoded < from => self.begin(database, from, true),
            Some(_) => self.go_on(database),
            None => self.begin(database, from, false),
        }
    }

    /// The decoder of a database begins at `from`, in a slot that was made just now, or after a gap. Nothing settles for
    /// the database until all that runs at the primary now has finished: a commit record before `from` may belong to a
    /// transaction that is shown later.
    pub fn slot_created(&mut self, database: DatabaseId, from: Lsn) {
        match self.position(database) {
            Some(decoded) if decoded >= from => self.go_on(database),
            _ => self.begin(database, from, true),
        }
    }

    /// Decoding starts at `from`, above what had been decoded.
    fn begin(&mut self, database: DatabaseId, from: Lsn, newborn: bool) {
        let next = self.gauging.want();
        self.begin_run(database, from);
        let database = self.databases.entry(database).or_default();
        database.open = true;
        database.decoded = Some(Watermark::new(from));
        database.settled = None;
        database.newborn = if newborn { Newborn::Since(next) } else { Newborn::No };
        database.in_doubt_until = database.in_doubt_until.max(next);
        self.settle();
    }

    /// Decoding goes on where it was, or repeats a part.
    fn go_on(&mut self, database: DatabaseId) {
        self.gauging.want();
        if let Some(database) = self.databases.get_mut(&database) {
            database.open = true;
        }
        self.settle();
    }

    /// The decoder's connection has ended. Decoded commits stay decoded.
    pub fn slot_closed(&mut self, database: DatabaseId) {
        if let Some(database) = self.databases.get_mut(&database) {
            database.open = false;
        }
        self.settle();
    }

    /// The database is gone, with its slot and its in-flight write sets.
    pub fn database_dropped(&mut self, database: DatabaseId) {
        self.databases.remove(&database);
        self.boundaries.retain(|boundary| boundary.database != database);
        self.doubts.retain(|_, doubt| doubt.database != database);
        self.settle();
    }

    /// A commit came out of its database's slot. Returns true if it is new: a commit that came out before, or
    /// of a database without a slot, changes nothing. (A slot that is opened again repeats what was not
    /// confirmed.)
    pub fn decoded(&mut self, commit: &Commit) -> bool {
        let limits = self.limits();
        let Some(database) = self.databases.get_mut(&commit.database) else { return false };
        let Some(decoded) = &mut database.decoded else { return false };
        if commit.end <= decoded.get() {
            return false;
        }
        decoded.advance(commit.end);
        database.commits += 1;
        database.placing.came_out(commit);
        self.owed.came_out(commit.xid, limits);
        if self.options.bugs.has(Bug::SettledByFinishedWithoutFallback) {
            self.owed.guess_below(commit.xid);
        }
        self.settle();
        self.bound_waiting(commit);
        true
    }

    /// Every commit record of the database that starts below `to` has been given to [`decoded`](Order::decoded).
    pub fn decoded_to(&mut self, database: DatabaseId, to: Lsn) {
        let Some(database) = self.databases.get_mut(&database) else { return };
        let Some(decoded) = &mut database.decoded else { return };
        if to > decoded.get() {
            decoded.advance(to);
            self.settle();
        }
    }

    /// Decoded position of the database's slot; `None` if it had no slot in this incarnation.
    pub fn position(&self, database: DatabaseId) -> Option<Lsn> {
        Some(self.databases.get(&database)?.decoded?.get())
    }

    /// Number of commits of the database that came out in this incarnation.
    pub fn commits(&self, database: DatabaseId) -> u64 {
        self.databases.get(&database).map_or(0, |database| database.commits)
    }

    /// True if every commit that a snapshot probe with this position can see has come out of the database's
    /// slot.
    pub fn decoded_past(&self, database: DatabaseId, insert_lsn: Lsn) -> bool {
        self.databases.get(&database).is_some_and(|database| database.decoded_past(insert_lsn))
    }

    /// True if the database's decoder is connected.
    pub fn followed(&self, database: DatabaseId) -> bool {
        self.databases.get(&database).is_some_and(|database| database.open)
    }

    /// The newest snapshot probe that is settled for the database: all that it sees there has come out.
    pub fn settled(&self, database: DatabaseId) -> Option<(GaugeNumber, &Gauge)> {
        let (number, gauge) = self.databases.get(&database)?.settled.as_ref()?;
        Some((*number, gauge))
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        Counts { quick_rule_lost: self.counts.quick_rule_lost + self.owed.lost, ..self.counts }
    }

    /// Checks every invariant that can be checked, at a cost proportional to what is kept. For tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.check();
        self.owed.audit();
        for (id, database) in &self.databases {
            let mine = || self.doubts.iter().filter(|(_, doubt)| doubt.database == *id);
            database.doubts.audit(mine().map(|(id, doubt)| (*id, &doubt.footprint)));
            assert!(database.ending.iter().zip(database.ending.iter().skip(1)).all(|(a, b)| a.0 <= b.0));
            assert!(database.ending.iter().all(|(_, doubt)| self.doubts.contains_key(doubt)));
        }
        self.audit_versions();
    }

    fn limits(&self) -> Limits {
        Limits { owed: self.options.max_owed_xids, out: self.options.max_out_xids }
    }

    fn lose_in_flight(&mut self) {
        self.counts.gauges_lost += u64::from(self.gauging.lost());
    }

    /// Checks that this answer is a snapshot probe of this incarnation that follows the one before it.
    fn admit(&mut self, number: GaugeNumber, gauge: &Gauge) -> Result<(), Void> {
        if !self.gauging.came(number) {
            return Err(Void::NotInFlight);
        }
        if self.options.bugs.has(Bug::ZombiePrimaryGauge) || self.options.bugs.has(Bug::KeepProofsOverRestart)
        {
            return Ok(());
        }
        if self.incarnation != Some(gauge.incarnation) {
            self.gauging.again();
            return Err(Void::OtherIncarnation);
        }
        if self.owed.newest().is_some_and(|(_, newest)| !gauge.follows(newest)) {
            self.gauging.again();
            return Err(Void::Backwards);
        }
        Ok(())
    }

    /// Moves each database's settled snapshot probe as far as it goes, and ends the in-flight write sets that
    /// waited for it.
    fn settle(&mut self) {
        let bugs = self.options.bugs;
        let furthest =
            self.databases.values().filter_map(|database| database.decoded).map(Watermark::get).max();
        let past = bugs.has(Bug::OtherDatabaseCountsAsOut).then_some(furthest).flatten();
        let mut ended = Vec::new();
        for (id, database) in &mut self.databases {
            // Once more after each step: a probe that settled by position may let the quick rule go on from
            // there.
            while let Some((place, quick)) = candidate(&self.answered, &self.owed, database, &bugs, past) {
                let (number, gauge) = &self.answered[place];
                if !database.grown_up(*number, gauge) {
                    break;
                }
                if quick {
                    self.counts.settled_quick += 1;
                } else {
                    self.counts.settled_by_lsn += 1;
                    let before = database.settled_number().unwrap_or(*number);
                    self.counts.xids_never_out += self.owed.count(before, *number);
                }
                assert!(database.settled_number() < Some(*number), "the settled gauge moves forward");
                database.settled = Some((*number, gauge.clone()));
                let decoded = database.decoded.map_or(Lsn::ZERO, Watermark::get);
                for boundary in database.placing.settled(*id, (*number, gauge), decoded, &bugs) {
                    self.counts.placed += boundary.commits.len() as u64;
                    keep(&mut self.boundaries, boundary);
                }
                while database.ending.front().is_some_and(|(ticket, _)| ticket <= number) {
                    ended.extend(database.ending.pop_front().map(|(_, doubt)| doubt));
                }
            }
        }
        ended.into_iter().for_each(|doubt| self.end(doubt));
        self.forget_settled();
        self.check();
    }

    /// Forgets snapshot probes that every followed database has settled, and the transactions that finished
    /// before them.
    fn forget_settled(&mut self) {
        let mut followed = self.databases.values().filter(|database| database.open).peekable();
        if followed.peek().is_none() {
            return;
        }
        let slowest =
            followed.map(|database| database.settled_number().unwrap_or_default()).min().unwrap_or_default();
        if slowest == GaugeNumber::default() {
            return;
        }
        while self.answered.front().is_some_and(|(number, _)| *number <= slowest) {
            self.answered.pop_front();
        }
        self.owed.forget_to(slowest);
    }

    /// The invariants that cost nothing to check.
    pub(crate) fn check(&self) {
        let newest = self.owed.newest().map(|(number, _)| number);
        let (owed, out) = self.owed.len();
        assert!(
            newest.is_none_or(|newest| newest <= self.gauging.sent()),
            "a gauge is sent before it is answered"
        );
        assert!(self.answered.len() <= self.options.max_unsettled_gauges, "bound of unsettled gauges");
        assert!(
            owed <= self.options.max_owed_xids && out <= self.options.max_out_xids,
            "bound of identities"
        );
        for database in self.databases.values() {
            assert!(database.settled_number() <= newest, "a settled gauge was answered");
            assert!(database.ending.len() <= self.options.max_ending_doubts, "bound of ending doubts");
        }
    }
}

/// The newest answered snapshot probe that is settled for the database and newer than the last one, and
/// whether the quick rule alone would have said so.
fn candidate(
    answered: &VecDeque<(GaugeNumber, Arc<Gauge>)>,
    owed: &Owed,
    database: &Database,
    bugs: &Bugs,
    past: Option<Lsn>,
) -> Option<(usize, bool)> {
    let decoded = database.decoded?;
    if bugs.has(Bug::ProofBeforeSettled) {
        let newest = answered.len().checked_sub(1)?;
        return (database.settled_number() < Some(answered[newest].0)).then_some((newest, true));
    }
    let quick = database
        .settled_number()
        .and_then(|settled| owed.quick_below(settled))
        .map_or(0, |below| answered.partition_point(|(number, _)| *number < below));
    let mut decoded = decoded.get();
    decoded = decoded.max(past.unwrap_or(decoded)).next_record_start();
    let by_lsn = answered.partition_point(|(_, gauge)| gauge.insert_lsn <= decoded);
    let place = quick.max(by_lsn).checked_sub(1)?;
    (database.settled_number() < Some(answered[place].0)).then_some((place, quick >= by_lsn))
}
