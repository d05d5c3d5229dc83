//! The life of a transaction block at READ COMMITTED: its writes stay at the primary and become doubtful at COMMIT; a
//! read that they do not touch may leave.

use crate::bugs::Bug;
use crate::read::{at_primary, deliver, proven, ready, verdict};
use crate::{AtPrimary, Cluster, Ended, InDoubt, Locks, Pinned, Session, StandbyFailed};
use history::{Consistency, DatabaseId, Footprint, RelationId};
use scheduler::{
    CatalogMark, DeferredLocks, LOCKED_OUT, Question, Reason, Route, Verdict, hold_locks, is_locked_out,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// The block has failed, or its state is not known: every statement belongs to the primary.
pub const BLOCK_NOT_OPEN: Reason = Reason::Stay("block_not_open");
/// The block has written what the statement reads.
pub const OWN_WRITES: Reason = Reason::Stay("own_writes");
/// The locks that an offloaded read needs were refused: the client has the primary's error.
pub const LOCK_REFUSED: Reason = Reason::Stay("lock_refused");

/// A read below the level `strong` holds its locks at the primary: nothing is proven there.
pub const UNPROVEN_IN_BLOCK: Reason = Reason::Stay("unproven_in_block");
/// The block has read so much elsewhere that its locks are taken now.
pub const MANY_READS: Reason = Reason::Stay("many_reads_in_block");

/// The client has cancelled the statement while the block waited for its locks to be judged.
const CANCELLED: Reason = Reason::Stay("cancelled");

/// Time limit of a block's first statement at the primary for the proof that it could have held its locks.
const OPENING_LIMIT: Duration = Duration::from_secs(1);

/// State of a block at the primary, by its last ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// `T`: the next statement runs.
    Open,
    /// `E`: everything but its end is refused.
    Failed,
    /// Something was sent whose ReadyForQuery has not come yet.
    Unknown,
}

/// A read-write block in progress. If it is dropped without an end (the session is gone), its in-flight write
/// sets stay open and its backend is watched.
#[derive(Debug)]
pub struct Block<C: Cluster> {
    cluster: C,
    database: DatabaseId,
    standing: Standing,
    wrote: Footprint,
    /// The catalog under which the block began: none of its statements was understood under an earlier one.
    understood: CatalogMark,
    /// Footprints that it has locked readers out of, each in flight from then on.
    locks_out: Vec<(Footprint, InDoubt<C>)>,
    /// The relations that reads have locked at the primary: these locks last until the block ends, or goes back. `None`: no
    /// read has asked for locks, and the primary does not know that the block has read.
    read_locks: Option<BTreeSet<RelationId>>,
    /// Locks of reads that ran at replicas before the block's first statement at the primary.
    deferred: Option<DeferredLocks>,
    /// A statement that does more than read has been sent to the primary: locks are not deferred any more.
    opened: bool,
    /// A statement of the block has been sent to the primary, or is about to be.
    reached: bool,
    /// A command of the block locks readers out, and no decoder reports that: LOCK, or one that ROLLBACK TO
    /// has undone.
    locks_by_command: bool,
}

impl<C: Cluster> Block<C> {
    /// A block that was just begun in this database.
    pub fn new(cluster: &C, database: DatabaseId) -> Block<C> {
        Block {
            cluster: cluster.clone(),
            database,
            standing: Standing::Unknown,
            wrote: Footprint::NOTHING,
            understood: cluster.scheduler().catalog(database),
            locks_out: Vec::new(),
            read_locks: None,
            deferred: None,
            opened: false,
            reached: false,
            locks_by_command: false,
        }
    }

    /// True if the next read may run at a replica and defer its locks: the primary has received nothing but
    /// BEGIN and reads.
    pub fn may_defer_locks(&self) -> bool {
        !self.opened && self.standing == Standing::Open
    }

    /// True if reads of the block have run at replicas, and the primary holds no locks for them yet.
    pub fn defers_locks(&self) -> bool {
        self.deferred.is_some()
    }

    /// True if the primary has received more of the block than BEGIN.
    pub fn has_reached_primary(&self) -> bool {
        self.reached
    }

    /// A LOCK command of the block has locked readers out, or may have.
    pub fn locks_by_command(&mut self) {
        self.locks_by_command = true;
    }

    /// Opens the block at the primary, before its first statement there. The primary takes the locks of the
    /// reads so far. Then the block must find that no relation of them was locked against readers since the
    /// first one. The error is the end of the current statement.
    pub async fn open<S: Session>(&mut self, session: &mut S) -> Result<(), Ended> {
        (self.opened, self.reached) = (true, true);
        // A failed block holds nothing, and no savepoint precedes its reads.
        let stands = self.standing != Standing::Failed;
        let Some(mut deferred) = self.deferred.take().filter(|_| stands) else { return Ok(()) };
        match session.take_deferred_locks().await {
            Locks::Granted => {}
            Locks::ConnectionLost => return Err(Ended::PrimaryLost),
            Locks::Refused => {
                self.standing = Standing::Failed;
                return Err(Ended::Primary(LOCK_REFUSED));
            }
        }
        deferred.judge_from_now(&mut self.cluster.scheduler());
        self.cluster.gauge_wanted();
        let cluster = self.cluster.clone();
        let judged = verdict(&cluster, OPENING_LIMIT, || match session.is_cancelled() {
            true => Verdict::Refused(CANCELLED),
            false => deferred.judge(&cluster.scheduler()),
        });
        if judged.await.is_err() || session.is_cancelled() {
            return Err(self.fail(session).await);
        }
        self.read_locks = Some(deferred.into_relations());
        Ok(())
    }

    /// Fails the block whose deferred locks cannot be taken any more.
    async fn fail<S: Session>(&mut self, session: &mut S) -> Ended {
        (self.standing, self.opened, self.deferred) = (Standing::Failed, true, None);
        match session.fail_unlocked_block().await {
            AtPrimary::Answered => Ended::Primary(LOCKED_OUT),
            AtPrimary::ConnectionLost => Ended::PrimaryLost,
        }
    }

    /// Runs a read before the block's first statement at the primary. The read defers its locks if it runs at
    /// a replica; otherwise it opens the block. `locks` as for [`Block::read`].
    pub async fn read_unlocked<S: Session>(
        &mut self,
        session: &mut S,
        question: &Question,
        locks: Option<&BTreeSet<RelationId>>,
    ) -> Ended {
        // What locks readers out from here on counts.
        let mut deferred = match &self.deferred {
            Some(deferred) => deferred.clone(),
            None => DeferredLocks::begin(&self.cluster.scheduler(), self.database),
        };
        let keeps = !deferred.cover(locks);
        let mut pinned = match self.route_unlocked(session, question, keeps) {
            Route::Standby(ticket) => Pinned::new(&self.cluster, ticket),
            Route::Primary(reason) => return self.read_opened(session, reason).await,
        };
        if self.deferred.is_some() {
            deferred.judge_from_now(&mut self.cluster.scheduler());
        }
        self.cluster.gauge_wanted();
        if let Err(reason) = ready(&self.cluster, &mut pinned).await {
            drop(pinned);
            return self.read_opened(session, reason).await;
        }
        let (answer, ran) = match session.at_standby(pinned.ticket()).await {
            Ok(held) => held,
            Err(StandbyFailed(reason)) => {
                pinned.failed(reason);
                drop(pinned);
                return self.read_opened(session, reason).await;
            }
        };
        let mut judged = proven(&self.cluster, &mut pinned, &ran).await;
        // The first read has no locks of others to be judged.
        if judged.is_ok() && self.deferred.is_some() {
            let cluster = self.cluster.clone();
            let limit = cluster.proof_timeout();
            judged = verdict(&cluster, limit, || deferred.judge(&cluster.scheduler())).await;
        }
        match judged {
            Ok(()) => {
                deferred.add(&question.footprint, locks);
                self.deferred = Some(deferred);
                if keeps {
                    session.defer_locks();
                }
                deliver(&self.cluster, session, pinned, &ran, answer).await
            }
            Err(reason) => {
                session.discard(answer).await;
                drop(pinned);
                match reason {
                    LOCKED_OUT => self.fail(session).await,
                    reason => self.read_opened(session, reason).await,
                }
            }
        }
    }

    fn route_unlocked<S: Session>(&mut self, session: &S, question: &Question, keeps: bool) -> Route {
        if question.consistency != Consistency::Strong {
            return Route::Primary(UNPROVEN_IN_BLOCK);
        }
        if keeps && !session.has_room_for_locks() {
            return Route::Primary(MANY_READS);
        }
        if is_locked_out(&mut self.cluster.scheduler(), self.database, &question.footprint) {
            return Route::Primary(LOCKED_OUT);
        }
        self.route(question)
    }

    /// Runs a read at the primary, after the block has been opened there.
    async fn read_opened<S: Session>(&mut self, session: &mut S, reason: Reason) -> Ended {
        if let Err(ended) = self.open(session).await {
            return ended;
        }
        self.defers_again();
        at_primary(session, reason).await
    }

    /// The statement that has opened the block only reads, or only parses: later reads may defer their locks
    /// again, from their own arrival on.
    pub fn defers_again(&mut self) {
        self.opened = false;
    }

    /// The primary's last word on it.
    pub fn stands(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// Everything that it may have written so far.
    pub fn wrote(&self) -> &Footprint {
        &self.wrote
    }

    /// Runs a read inside the block. The read may be offloaded if the block stands and has not written what
    /// it reads. Locks taken at the primary ensure that its tables change only as they could while one server
    /// reads them. As a server locks before it looks, the answer is proven for an instant after the locks: a
    /// table that another transaction has emptied by then is seen empty. `locks`: the relations that it
    /// locks, whatever its values are, if known. Relations that an earlier read of the block has locked need
    /// not be locked again.
    pub async fn read<S: Session>(
        &mut self,
        session: &mut S,
        question: &Question,
        locks: Option<&BTreeSet<RelationId>>,
    ) -> Ended {
        if let Err(ended) = self.open(session).await {
            return ended;
        }
        let mut pinned = match self.route(question) {
            Route::Standby(ticket) => Pinned::new(&self.cluster, ticket),
            Route::Primary(reason) => return at_primary(session, reason).await,
        };
        let locked = matches!((locks, &self.read_locks), (Some(locks), Some(held)) if locks.is_subset(held));
        if !locked && !self.cluster.bugs().has(Bug::NoAccessShare) {
            if let Err(ended) = self.lock(session).await {
                return ended;
            }
            self.read_locks.get_or_insert_default().extend(locks.into_iter().flatten());
        }
        pinned.prove_anew();
        // The snapshot probe travels while the standby works.
        self.cluster.gauge_wanted();
        if let Err(reason) = ready(&self.cluster, &mut pinned).await {
            drop(pinned);
            return at_primary(session, reason).await;
        }
        let (answer, ran) = match session.at_standby(pinned.ticket()).await {
            Ok(held) => held,
            Err(StandbyFailed(reason)) => {
                pinned.failed(reason);
                drop(pinned);
                return at_primary(session, reason).await;
            }
        };
        match proven(&self.cluster, &mut pinned, &ran).await {
            Ok(()) => deliver(&self.cluster, session, pinned, &ran, answer).await,
            Err(reason) => {
                session.discard(answer).await;
                drop(pinned);
                at_primary(session, reason).await
            }
        }
    }

    /// A ROLLBACK TO goes to the primary, or may: it gives back locks of reads. (A statement that may hide one
    /// counts as writing everything, and no read is offloaded after that.) A TRUNCATE or DDL command that it
    /// undoes does not come out of the decoder, so that COMMIT must mark what has locked readers out.
    pub fn goes_back(&mut self) {
        self.read_locks = None;
        self.locks_by_command |= !self.locks_out.is_empty();
    }

    /// Takes the locks that the current statement would take. Not granted: the client already has the primary's error, or
    /// nothing more to expect.
    async fn lock<S: Session>(&mut self, session: &mut S) -> Result<(), Ended> {
        if session.ask_locks().await == AtPrimary::ConnectionLost {
            return Err(Ended::PrimaryLost);
        }
        match session.locks_granted().await {
            Locks::Granted => Ok(()),
            Locks::ConnectionLost => Err(Ended::PrimaryLost),
            Locks::Refused => {
                self.standing = Standing::Failed;
                Err(Ended::Primary(LOCK_REFUSED))
            }
        }
    }

    /// Runs a statement inside the block that is not proven read-only. `locks_out_readers`: LOCK, TRUNCATE or
    /// DDL, which makes readers elsewhere wait from now on, so that its tables are in flight from now on.
    pub async fn write<S: Session>(
        &mut self,
        session: &mut S,
        footprint: &Footprint,
        locks_out_readers: bool,
        reason: Reason,
    ) -> AtPrimary {
        if let Err(ended) = self.open(session).await {
            return ended.at_primary();
        }
        self.wrote.union(footprint);
        self.catch_up();
        let known = self.locks_out.iter().any(|(known, _)| known.covers(footprint));
        if locks_out_readers && !known {
            let doubt = InDoubt::begin(&self.cluster, session.backend(), self.database, footprint.clone());
            hold_locks(&mut self.cluster.scheduler(), doubt.id(), self.database, footprint.clone());
            self.locks_out.push((footprint.clone(), doubt));
        }
        session.at_primary(reason).await
    }

    /// COMMIT. The block's possible writes are in flight before its first byte is sent.
    pub async fn commit<S: Session>(mut self, session: &mut S, reason: Reason) -> AtPrimary {
        self.catch_up();
        for (footprint, _) in self.locks_out.iter().filter(|_| self.locks_by_command) {
            self.cluster.scheduler().lock_marks.mark(self.database, footprint);
        }
        if self.wrote.is_nothing() {
            return crate::quiet(&self.cluster, session, self.database, self.understood, reason).await;
        }
        let outcome = crate::write(&self.cluster, session, self.database, self.wrote).await;
        answered(self.locks_out, outcome);
        outcome
    }

    /// ROLLBACK, or the end of a block that has failed. The block commits nothing; in-flight write sets of
    /// locks that kept readers out end with it.
    pub async fn roll_back<S: Session>(self, session: &mut S, reason: Reason) -> AtPrimary {
        let outcome = session.at_primary(reason).await;
        answered(self.locks_out, outcome);
        outcome
    }

    /// If the catalog has changed since the block began, its writes are unknown: a change that had not come
    /// out of the decoder then may have been visible already, and a trigger of its making may have fired.
    fn catch_up(&mut self) {
        let now = self.cluster.scheduler().catalog(self.database);
        if self.understood != now && !self.cluster.bugs().has(Bug::BlockOutlivesDdl) {
            self.wrote = Footprint::Everything;
        }
    }

    fn route(&mut self, question: &Question) -> Route {
        self.catch_up();
        let bugs = self.cluster.bugs();
        if self.standing != Standing::Open && !bugs.has(Bug::OffloadInFailedBlock) {
            return Route::Primary(BLOCK_NOT_OPEN);
        }
        // At a lower level nothing is proven, and nothing would tell that a trigger has written more than was understood.
        let unproven = question.consistency != Consistency::Strong && !self.wrote.is_nothing();
        if (unproven || self.wrote.overlaps(&question.footprint)) && !bugs.has(Bug::OwnWritesIgnored) {
            return Route::Primary(OWN_WRITES);
        }
        self.cluster.scheduler().route(question)
    }
}

fn answered<C: Cluster>(doubts: Vec<(Footprint, InDoubt<C>)>, outcome: AtPrimary) {
    if outcome == AtPrimary::Answered {
        doubts.into_iter().for_each(|(_, doubt)| doubt.answered());
    }
}
