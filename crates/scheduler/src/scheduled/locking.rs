//! Order by table locks in the scheduler: a statement runs when it has its locks, writes run everywhere, and locks end when
//! every replica has committed.

use super::bugs::Bug;
use super::{Action, Options, Outcome, Place, Refused, Step, Tables, TransactionId, Why};
use crate::StandbyId;
use history::RelationId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Table locks in front of all replicas.
///
/// ```text
///   statement ---> waits for its locks ---> sent: a write to all, a read to any ---applied by all---> answered
///   COMMIT -------------------------------> sent to all ---------------------------committed by all-> answered, locks end
/// ```
///
/// # Why it is one copy
///
/// Locks are taken as statements come and are held to the end: strict two-phase locking. The later of two
/// transactions that touch a table which one writes gets its lock when the earlier has ended *at every
/// replica*. So all replicas execute conflicting statements in the order of the locks, a table that is not
/// locked by a writer is the same everywhere, and a read may run at any replica. The order of the ends is an
/// order in which all could have run alone, and each end lies between the last statement and the answer. Were
/// locks to end when the first replica has committed, a reader there and then a reader elsewhere would go
/// backwards.
///
/// Waiting transactions get their locks in the order of their coming, but one that holds a table's lock and
/// wants more of it goes first: those before it wait for it anyway. A transaction that would wait in a circle
/// is refused.
///
/// Invariants: a table is locked by one writer or by readers; no transaction waits whose locks are free; no
/// transactions wait in a circle; a step that runs is awaited from at least one replica, and only from those
/// in the cluster; bounds are those of [`Options`].
#[derive(Debug)]
pub struct Locking {
    options: Options,
    next: u64,
    /// The reads that run at each replica.
    replicas: BTreeMap<StandbyId, usize>,
    locks: BTreeMap<RelationId, Lock>,
    open: BTreeMap<TransactionId, Open>,
    /// Transactions that wait for locks, in the order of their coming.
    waiting: VecDeque<TransactionId>,
}

#[derive(Debug, Default)]
struct Lock {
    writer: Option<TransactionId>,
    readers: BTreeSet<TransactionId>,
}

#[derive(Debug, Default)]
struct Open {
    statements: usize,
    failed: bool,
    /// The locks that its statement waits for.
    wants: Option<Tables>,
    /// Place of the running step.
    place: Place,
    runs: Option<Running>,
}

#[derive(Debug)]
struct Running {
    step: Step,
    /// A read runs at one replica.
    reads: bool,
    awaited: BTreeSet<StandbyId>,
    outcomes: BTreeMap<StandbyId, Outcome>,
}

impl Locking {
    /// These replicas, all in the same state.
    pub fn new(options: Options, replicas: impl IntoIterator<Item = StandbyId>) -> Locking {
        Locking {
            options,
            next: 0,
            replicas: replicas.into_iter().map(|id| (id, 0)).collect(),
            locks: BTreeMap::new(),
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// A transaction begins.
    ///
    /// Errors: [`Refused::NoReplica`], [`Refused::Full`].
    pub fn begin(&mut self) -> Result<TransactionId, Refused> {
        if self.replicas.is_empty() {
            return Err(Refused::NoReplica);
        }
        if self.open.len() >= self.options.max_open {
            return Err(Refused::Full);
        }
        self.next += 1;
        self.open.insert(TransactionId(self.next), Open::default());
        Ok(TransactionId(self.next))
    }

    /// The next statement of a transaction, which touches these tables. The statement is sent when it has
    /// their locks, which may be now.
    ///
    /// Errors: [`Refused::Unknown`], [`Refused::Failed`], [`Refused::Busy`], [`Refused::Full`],
    /// [`Refused::Deadlock`].
    pub fn statement(&mut self, id: TransactionId, used: Tables) -> Result<Vec<Action>, Refused> {
        let place = if used.writes.is_empty() { Place::Anywhere } else { Place::Everywhere };
        self.statement_at(id, used, place)
    }

    /// The same, at a place that the caller names: for statements that only one replica may answer, or that
    /// all must have done although they write no table.
    ///
    /// Errors: as [`Locking::statement`].
    pub fn statement_at(
        &mut self,
        id: TransactionId,
        used: Tables,
        place: Place,
    ) -> Result<Vec<Action>, Refused> {
        let options = self.options;
        let open = self.idle(id)?;
        if open.failed {
            return Err(Refused::Failed);
        }
        if open.statements >= options.max_statements {
            return Err(Refused::Full);
        }
        (open.wants, open.place) = (Some(used), place);
        self.waiting.push_back(id);
        if self.waits_for_itself(id) && !options.bugs.has(Bug::DeadlockUnnoticed) {
            self.waits_no_more(id);
            if let Some(open) = self.open.get_mut(&id) {
                open.failed = true;
            }
            return Err(Refused::Deadlock);
        }
        Ok(self.grant())
    }

    /// The transaction's end. The COMMIT of one that has failed is a ROLLBACK; a ROLLBACK may come while its statement waits
    /// for locks.
    ///
    /// Errors: [`Refused::Unknown`], [`Refused::Busy`].
    pub fn end(&mut self, id: TransactionId, commit: bool) -> Result<Vec<Action>, Refused> {
        if !commit {
            self.waits_no_more(id);
        }
        let open = self.idle(id)?;
        let step = if commit && !open.failed { Step::Commit } else { Step::Rollback };
        let mut actions = self.send(id, step, Place::Everywhere);
        actions.extend(self.grant());
        Ok(actions)
    }

    /// Drops the transaction, whatever it waited for or ran; its locks go to others. The caller ensures that
    /// no replica in the cluster will commit it any more, or that all have.
    pub fn abandon(&mut self, id: TransactionId) -> Vec<Action> {
        self.waits_no_more(id);
        let Some(open) = self.open.remove(&id) else { return Vec::new() };
        if let Some(running) = open.runs.filter(|running| running.reads) {
            running.awaited.iter().for_each(|replica| self.reads_less(*replica));
        }
        self.unlock(id);
        self.grant()
    }

    /// The transaction waits for no locks any more; it has those that it had.
    pub fn withdraw(&mut self, id: TransactionId) -> Vec<Action> {
        self.waits_no_more(id);
        self.grant()
    }

    /// The transaction goes back to a savepoint, everywhere: it has not failed any more. Its locks stay.
    ///
    /// Errors: as [`Locking::statement`].
    pub fn back_to_savepoint(&mut self, id: TransactionId) -> Result<Vec<Action>, Refused> {
        self.idle(id)?.failed = false;
        self.statement_at(id, Tables::default(), Place::Everywhere)
    }

    /// A replica takes part from now on; it is in the state of the others. To be said while no transaction is open: one that
    /// is would not have run there from its beginning.
    ///
    /// Panics if one is.
    pub fn join(&mut self, replica: StandbyId) {
        assert!(self.open.is_empty(), "a replica joins when nothing is open");
        self.replicas.insert(replica, 0);
    }

    /// Number of transactions that have begun and not ended.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// A replica has answered the step that was sent to it last for this transaction.
    pub fn answered(&mut self, from: StandbyId, id: TransactionId, outcome: Outcome) -> Vec<Action> {
        let Some(running) = self.open.get_mut(&id).and_then(|open| open.runs.as_mut()) else {
            return Vec::new();
        };
        if !running.awaited.remove(&from) {
            return Vec::new();
        }
        running.outcomes.insert(from, outcome);
        if running.reads {
            self.reads_less(from);
        }
        self.conclude(id)
    }

    /// A replica is lost: it is not in the cluster any more, and no transaction waits for it. Reads there run
    /// again elsewhere; if a part of the answer was sent, the caller ends its client's connection instead.
    pub fn replica_failed(&mut self, replica: StandbyId) -> Vec<Action> {
        if self.options.bugs.has(Bug::FailedReplicaWaitedFor) {
            return Vec::new();
        }
        self.replicas.remove(&replica);
        let mut actions = Vec::new();
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            let running = self.open.get_mut(&id).and_then(|open| open.runs.as_mut());
            let Some(running) = running else { continue };
            if !running.awaited.remove(&replica) {
                continue;
            }
            if running.reads && !self.replicas.is_empty() {
                let step = running.step;
                actions.extend(self.send(id, step, Place::Anywhere));
            } else if running.outcomes.is_empty() && running.awaited.is_empty() && !self.replicas.is_empty() {
                actions.push(Action::Fail(id, Why::ReplicaGone));
                actions.extend(self.abandon(id));
            } else {
                actions.extend(self.conclude(id));
            }
        }
        if self.replicas.is_empty() {
            let left = std::mem::take(&mut self.open);
            (self.locks, self.waiting) = (BTreeMap::new(), VecDeque::new());
            actions.extend(left.into_keys().map(|id| Action::Fail(id, Why::ReplicaGone)));
        }
        actions
    }

    /// The replicas that are in the cluster, with how many reads run at each.
    pub fn replicas(&self) -> impl Iterator<Item = (StandbyId, usize)> {
        self.replicas.iter().map(|(id, reads)| (*id, *reads))
    }

    /// Transactions that wait for locks, in the order of their coming.
    pub fn waiting(&self) -> impl Iterator<Item = TransactionId> {
        self.waiting.iter().copied()
    }

    /// Checks the invariants; for tests. Panics if one does not hold.
    pub fn audit(&self) {
        if !self.options.bugs.is_empty() {
            return;
        }
        for (table, lock) in &self.locks {
            let readers = lock.readers.iter().filter(|reader| Some(**reader) != lock.writer).count();
            assert!(lock.writer.is_none() || readers == 0, "{table} is locked by a writer or by readers");
            assert!(lock.writer.iter().chain(&lock.readers).all(|id| self.open.contains_key(id)));
        }
        for id in &self.waiting {
            assert!(self.blockers(*id).next().is_some(), "{id} waits for a transaction");
            assert!(!self.waits_for_itself(*id), "{id} does not wait for itself");
            assert!(self.open[id].wants.is_some() && self.open[id].runs.is_none());
        }
        for (id, open) in &self.open {
            let Some(running) = &open.runs else { continue };
            assert!(!running.awaited.is_empty(), "{id} is awaited from a replica");
            assert!(running.awaited.iter().all(|replica| self.replicas.contains_key(replica)));
        }
        assert!(self.open.len() <= self.options.max_open, "bound of the open");
    }

    /// The transaction, if it neither waits nor runs.
    fn idle(&mut self, id: TransactionId) -> Result<&mut Open, Refused> {
        let open = self.open.get_mut(&id).ok_or(Refused::Unknown)?;
        if open.wants.is_some() || open.runs.is_some() { Err(Refused::Busy) } else { Ok(open) }
    }

    /// Transactions that this one waits for: holders of what it wants, and those that came before it and want
    /// the same.
    fn blockers(&self, id: TransactionId) -> impl Iterator<Item = TransactionId> {
        let nothing = Tables::default();
        let wants = self.open[&id].wants.as_ref().unwrap_or(&nothing).clone();
        let mut blockers = BTreeSet::new();
        for table in wants.all() {
            let writes = wants.writes.contains(&table);
            let lock = self.locks.get(&table);
            blockers.extend(lock.and_then(|lock| lock.writer));
            blockers.extend(lock.filter(|_| writes).into_iter().flat_map(|lock| &lock.readers));
            let holds = lock.is_some_and(|lock| lock.writer == Some(id) || lock.readers.contains(&id));
            if !holds {
                let before = self.waiting.iter().take_while(|other| **other != id);
                blockers.extend(before.filter(|other| self.wants(**other, table, writes)));
            }
        }
        blockers.remove(&id);
        blockers.into_iter()
    }

    /// True if a waiting transaction wants a table in a way that conflicts with another that writes it, or
    /// reads it.
    fn wants(&self, id: TransactionId, table: RelationId, other_writes: bool) -> bool {
        let wants = self.open[&id].wants.as_ref();
        wants.is_some_and(|wants| {
            wants.writes.contains(&table) || (other_writes && wants.reads.contains(&table))
        })
    }

    fn waits_for_itself(&self, id: TransactionId) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![id]);
        while let Some(one) = next.pop() {
            for blocker in self.blockers(one) {
                if blocker == id {
                    return true;
                }
                if seen.insert(blocker) {
                    next.push(blocker);
                }
            }
        }
        false
    }

    /// Gives locks to all that wait and can have them, and sends their statements.
    fn grant(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for id in self.waiting.clone() {
            if self.blockers(id).next().is_some() {
                continue;
            }
            let Some(wants) = self.waits_no_more(id) else { continue };
            let reads_lock = !self.options.bugs.has(Bug::ReadsUnlocked);
            for table in wants.reads.iter().filter(|_| reads_lock) {
                self.locks.entry(*table).or_default().readers.insert(id);
            }
            for table in &wants.writes {
                self.locks.entry(*table).or_default().writer = Some(id);
            }
            let (number, place) = self.open.get_mut(&id).map_or((0, Place::Everywhere), |open| {
                open.statements += 1;
                (open.statements - 1, open.place)
            });
            actions.extend(self.send(id, Step::Statement(number), place));
        }
        actions
    }

    fn waits_no_more(&mut self, id: TransactionId) -> Option<Tables> {
        self.waiting.retain(|other| *other != id);
        self.open.get_mut(&id)?.wants.take()
    }

    /// Sends a step to every replica, to the one that is named, or to the one with the fewest reads.
    fn send(&mut self, id: TransactionId, step: Step, place: Place) -> Vec<Action> {
        let idlest =
            || self.replicas.iter().min_by_key(|(_, running)| **running).map(|(replica, _)| *replica);
        let one = match place {
            Place::Anywhere => idlest(),
            Place::At(replica) => Some(replica),
            Place::Everywhere => None,
        };
        let awaited: BTreeSet<StandbyId> = match one {
            Some(replica) => BTreeSet::from([replica]),
            None => self.replicas.keys().copied().collect(),
        };
        // A statement that only one replica can answer is not sent to another when that fails.
        let reads = place == Place::Anywhere;
        if let Some(running) = one.filter(|_| reads).and_then(|replica| self.replicas.get_mut(&replica)) {
            *running += 1;
        }
        let actions = awaited.iter().map(|replica| Action::Send(*replica, id, step)).collect();
        if let Some(open) = self.open.get_mut(&id) {
            open.runs = Some(Running { step, reads, awaited, outcomes: BTreeMap::new() });
        }
        actions
    }

    fn reads_less(&mut self, replica: StandbyId) {
        if let Some(running) = self.replicas.get_mut(&replica) {
            *running -= 1;
        }
    }

    /// If all have answered: the answer goes to the client, who answered otherwise is taken out, and at the end of the
    /// transaction its locks go to others.
    fn conclude(&mut self, id: TransactionId) -> Vec<Action> {
        let bugs = self.options.bugs;
        let Some(open) = self.open.get_mut(&id) else { return Vec::new() };
        let complete = |running: &mut Running| running.awaited.is_empty() || bugs.has(Bug::AppliedByOne);
        let Some(running) = open.runs.take_if(complete) else { return Vec::new() };
        let Some((first, outcome)) = running.outcomes.iter().next() else { return Vec::new() };
        open.failed |= *outcome == Outcome::Failed;
        let mut actions = vec![Action::Answer(id, *first)];
        if matches!(running.step, Step::Commit | Step::Rollback) {
            self.open.remove(&id);
            self.unlock(id);
        }
        let odd = running
            .outcomes
            .iter()
            .filter(|(_, other)| *other != outcome && !bugs.has(Bug::DivergenceUnnoticed));
        for (replica, _) in odd {
            actions.push(Action::TakeOut(*replica, Why::Diverged));
            actions.extend(self.replica_failed(*replica));
        }
        actions.extend(self.grant());
        actions
    }

    fn unlock(&mut self, id: TransactionId) {
        for lock in self.locks.values_mut() {
            lock.writer.take_if(|writer| *writer == id);
            lock.readers.remove(&id);
        }
        self.locks.retain(|_, lock| lock.writer.is_some() || !lock.readers.is_empty());
    }
}
