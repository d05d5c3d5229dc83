//! Deferred locks of blocks. A read of a block that runs at a replica takes no lock at the primary, where it
//! would have kept out TRUNCATE, ALTER and DROP until the block ends. The block takes these locks later, and
//! until then must find that no transaction has locked its readers out.
//!
//! ```text
//!      first read                         locks granted     probe sent      settled
//!   -------|------ marks that count ------------|---------------|--------------|---->
//! ```
//!
//! A transaction that held ACCESS EXCLUSIVE on a table and has ended before the locks were granted was visible
//! then. So a probe sent afterwards sees it, and once that probe has settled, its commit is decoded. A decoded
//! TRUNCATE or DDL command is a mark. LOCK TABLE is not in the stream: a transaction that runs one through
//! Consort is marked before its COMMIT is sent, and readers stay away while it may hold the lock.

use crate::Reason;
use crate::bugs::Bug;
use crate::question::Verdict;
use crate::scheduler::{Scheduler, Writers};
use history::{Access, DatabaseId, Footprint, RelationId};
use order::{DoubtId, GaugeNumber};
use std::collections::BTreeSet;

/// A relation that the block has read was locked against readers since.
pub const LOCKED_OUT: Reason = Reason::Stay("locked_out");

/// The locks that a block has deferred.
#[derive(Clone, Debug)]
pub struct DeferredLocks {
    database: DatabaseId,
    /// The newest mark when the first read arrived.
    since: u64,
    /// The life of the primary at that time.
    life: u64,
    /// All that the reads have read, and the relations that they would have locked.
    footprint: Footprint,
    /// Relations that are known to be locked once the locks are taken.
    relations: BTreeSet<RelationId>,
    /// The probe that ends the wait for the decoder.
    wanted: Option<GaugeNumber>,
}

impl DeferredLocks {
    /// Adds the locks of one read. `locks`: the relations that it locks, if known whatever its values are.
    pub fn add(&mut self, reads: &Footprint, locks: Option<&BTreeSet<RelationId>>) {
        self.footprint.union(reads);
        for relation in locks.into_iter().flatten() {
            self.footprint.add(*relation, Access::WHOLE);
            self.relations.insert(*relation);
        }
    }

    /// True if the locks of earlier reads are those of this one too.
    pub fn cover(&self, locks: Option<&BTreeSet<RelationId>>) -> bool {
        locks.is_some_and(|locks| locks.is_subset(&self.relations))
    }

    /// The relations that are known to be locked once the locks are taken.
    pub fn into_relations(self) -> BTreeSet<RelationId> {
        self.relations
    }
}

impl DeferredLocks {
    /// Begins to defer the locks of a block, whose first read has just arrived.
    pub fn begin(scheduler: &Scheduler, database: DatabaseId) -> DeferredLocks {
        DeferredLocks {
            database,
            since: scheduler.lock_marks.newest(database),
            life: scheduler.order.life(),
            footprint: Footprint::NOTHING,
            relations: BTreeSet::new(),
            wanted: None,
        }
    }

    /// Begins a judgement: it counts for all that ends before this call.
    pub fn judge_from_now(&mut self, scheduler: &mut Scheduler) {
        self.wanted = Some(scheduler.order_mut().want_gauge());
    }

    /// Decides if the locks could have been held since the first read. Ask after
    /// [`judge_from_now`](DeferredLocks::judge_from_now), and again when something has changed.
    pub fn judge(&self, scheduler: &Scheduler) -> Verdict {
        let bugs = scheduler.options.bugs;
        if bugs.has(Bug::LocksNeverJudged) {
            return Verdict::Proven;
        }
        if self.life != scheduler.order.life() {
            return Verdict::Refused(Reason::PrimaryRestarted);
        }
        if scheduler.lock_marks.any_since(self.database, self.since, &self.footprint) {
            return Verdict::Refused(LOCKED_OUT);
        }
        let settled = scheduler.order.settled(self.database).map(|(number, _)| number);
        if settled >= self.wanted || bugs.has(Bug::LocksJudgedAtOnce) || self.nothing_in_flight(scheduler) {
            return Verdict::Proven;
        }
        Verdict::Wait(Reason::GaugeNotSettled)
    }

    /// With writers through Consort: true if all that may have locked readers out is decoded, or not sent.
    fn nothing_in_flight(&self, scheduler: &Scheduler) -> bool {
        let (database, footprint) = (self.database, &self.footprint);
        let newest = || scheduler.newest(database, footprint);
        scheduler.writers == Writers::ThroughConsort
            && newest().is_some_and(|newest| scheduler.undoubted(database, footprint, newest))
    }
}

/// True if a transaction of this Consort may hold a lock against readers on what a read reads.
pub fn is_locked_out(scheduler: &mut Scheduler, database: DatabaseId, footprint: &Footprint) -> bool {
    let Scheduler { lock_marks, order, options, .. } = scheduler;
    !options.bugs.has(Bug::HeldLocksIgnored) && lock_marks.is_held(database, footprint, order)
}

/// Records that the transaction of this in-flight write set may hold ACCESS EXCLUSIVE locks on these tables
/// until the write set ends.
pub fn hold_locks(scheduler: &mut Scheduler, doubt: DoubtId, database: DatabaseId, footprint: Footprint) {
    scheduler.lock_marks.hold(doubt, database, footprint, &scheduler.order);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use history::{Epoch, Incarnation, Lsn, Timeline};

    const DATABASE: DatabaseId = DatabaseId::new(5);

    fn life(epoch: u32) -> Incarnation {
        Incarnation { epoch: Epoch::new(epoch.into()), timeline: Timeline::new(1), started_us: 1 }
    }

    fn followed() -> Scheduler {
        let mut scheduler = Scheduler::new(Options::default());
        scheduler.order_mut().incarnate(life(1));
        scheduler.slot_opened(DATABASE, Lsn::new(100));
        scheduler
    }

    fn of(table: u32) -> Footprint {
        Footprint::of(RelationId::new(table), Access::WHOLE)
    }

    fn deferred(scheduler: &mut Scheduler, table: u32) -> DeferredLocks {
        let mut deferred = DeferredLocks::begin(scheduler, DATABASE);
        deferred.add(&of(table), None);
        deferred.judge_from_now(scheduler);
        deferred
    }

    #[test]
    fn deferred_locks_end_with_the_primary() {
        let mut scheduler = followed();
        let deferred = deferred(&mut scheduler, 1);
        assert_eq!(deferred.judge(&scheduler), Verdict::Wait(Reason::GaugeNotSettled));
        scheduler.order_mut().incarnate(life(2));
        assert_eq!(deferred.judge(&scheduler), Verdict::Refused(Reason::PrimaryRestarted));
    }

    #[test]
    fn later_marks_of_its_tables_count() {
        let mut scheduler = followed();
        scheduler.lock_marks.mark(DATABASE, &of(1));
        let (one, two) = (deferred(&mut scheduler, 1), deferred(&mut scheduler, 2));
        scheduler.lock_marks.mark(DATABASE, &of(2));
        assert_eq!(one.judge(&scheduler), Verdict::Wait(Reason::GaugeNotSettled));
        assert_eq!(two.judge(&scheduler), Verdict::Refused(LOCKED_OUT));
        scheduler.lock_marks.mark(DATABASE, &Footprint::Everything);
        assert_eq!(one.judge(&scheduler), Verdict::Refused(LOCKED_OUT));
    }

    #[test]
    fn held_locks_end_with_their_write_set() {
        let mut scheduler = followed();
        let doubt = scheduler.order_mut().doubt(DATABASE, of(1));
        hold_locks(&mut scheduler, doubt, DATABASE, of(1));
        assert!(
            is_locked_out(&mut scheduler, DATABASE, &of(1))
                && !is_locked_out(&mut scheduler, DATABASE, &of(2))
        );
        scheduler.order_mut().incarnate(life(2));
        scheduler.order_mut().answered(doubt);
        let open = scheduler.order().doubt_state(doubt).is_some();
        assert_eq!(is_locked_out(&mut scheduler, DATABASE, &of(1)), open);
    }
}
