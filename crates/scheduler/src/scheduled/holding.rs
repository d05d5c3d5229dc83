//! Order by declared tables: versions are handed out before a transaction begins, and each replica holds what its tables
//! have not come to.

use super::bugs::Bug;
use super::{Action, Options, Outcome, Place, Refused, Step, Tables, TransactionId, Why};
use crate::StandbyId;
use history::{RelationId, Version};
use std::collections::BTreeMap;

/// Per-table versions, and a holding queue in front of each replica.
///
/// ```text
///   begin: versions handed out ---> held at each replica ---tables have come to the versions---> runs ---> produced
///                                   (a read: at one)                                         COMMIT: the leader first
/// ```
///
/// # Why it is one copy
///
/// Transactions are ordered by their beginning. The later of two that conflict (a table of both, written by
/// one) runs at a replica only when the earlier has ended there. A writer's version of a table is produced by
/// its end, a transaction that touches the table later needs just that version, and a later writer waits also
/// for readers of the version before. So at every replica conflicting transactions run one after the other in
/// the order of their beginning, and a transaction reads what it would read if all ran alone in that order. A
/// version counts from when it is handed out: a write that is shown by one replica and not yet by another is
/// waited for at the other. The order lies within each transaction's own interval.
///
/// A read needs *just* its versions, and later writers wait for it at its replica. If it took later ones too,
/// one reader could see x without y, and another, elsewhere, y without x.
///
/// # The leader
///
/// The first replica decides: its answers go to the client, and the others commit only what it has committed.
/// A replica that answers otherwise is taken out. When the leader fails, the next one decides; the others
/// have committed only what the leader had committed.
///
/// Invariants: of two that conflict, at most one has begun and not ended at a replica; one that has begun needs just the
/// versions that are produced there; `produced <= handed`, per table; the oldest that a replica holds can run; one that is
/// open is held by a replica; bounds are those of [`Options`].
#[derive(Debug)]
pub struct Holding {
    options: Options,
    next: u64,
    /// The newest version of each table that was handed out.
    handed: BTreeMap<RelationId, Version>,
    /// Whose answers decide, if there is a replica.
    leader: Option<StandbyId>,
    replicas: BTreeMap<StandbyId, Replica>,
    open: BTreeMap<TransactionId, Open>,
}

#[derive(Debug, Default)]
struct Replica {
    /// The version of each table that ended transactions have produced.
    produced: BTreeMap<RelationId, Version>,
    /// In the order of their beginning.
    held: BTreeMap<TransactionId, Held>,
}

/// A transaction at one replica.
#[derive(Debug, Default)]
struct Held {
    sent: usize,
    /// Its answers, step by step.
    outcomes: Vec<Outcome>,
}

impl Held {
    fn has_begun(&self) -> bool {
        self.sent > 0
    }
}

#[derive(Debug)]
struct Open {
    tables: Tables,
    needs: BTreeMap<RelationId, Version>,
    steps: Vec<Step>,
    /// Replica that runs it, if it only reads.
    at: Option<StandbyId>,
    /// Answers of the leader, step by step; the client has heard all of it.
    decided: Vec<Outcome>,
    failed: bool,
    /// True if no client has heard what the leader did: the transaction is rolled back, and nothing is
    /// compared.
    abandoned: bool,
}

impl Open {
    fn has_ended(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Commit | Step::Rollback))
    }

    /// True if the leader has done all, the end too.
    fn is_decided(&self) -> bool {
        self.has_ended() && self.decided.len() == self.steps.len()
    }
}

impl Holding {
    /// These replicas, all in the same state; the first is the leader.
    pub fn new(options: Options, replicas: impl IntoIterator<Item = StandbyId>) -> Holding {
        let order: Vec<StandbyId> = replicas.into_iter().collect();
        let leader = order.first().copied();
        let replicas = order.into_iter().map(|id| (id, Replica::default())).collect();
        Holding { options, next: 0, handed: BTreeMap::new(), leader, replicas, open: BTreeMap::new() }
    }

    /// A replica takes part from now on; it is in the state of the others. To be said while no transaction is open: one that
    /// is would not have run there from its beginning.
    ///
    /// Panics if one is.
    pub fn join(&mut self, replica: StandbyId) {
        assert!(self.open.is_empty(), "a replica joins when nothing is open");
        let produced = self.handed.clone();
        self.replicas.insert(replica, Replica { produced, held: BTreeMap::new() });
        self.leader.get_or_insert(replica);
    }

    /// True if the transaction has not ended at every replica yet.
    pub fn knows(&self, id: TransactionId) -> bool {
        self.open.contains_key(&id)
    }

    /// Number of transactions that have begun and not ended at every replica.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// A transaction that will touch these tables gets its versions. If it writes, every replica will execute it; if not,
    /// the one does that has its versions, or the one with the least to do.
    ///
    /// Errors: [`Refused::NoReplica`], [`Refused::Full`].
    pub fn begin(&mut self, tables: Tables) -> Result<(TransactionId, Vec<Action>), Refused> {
        self.begin_at(tables, Place::Anywhere)
    }

    /// The same, of one that runs at this replica alone if it only reads: no other can answer what it will ask.
    ///
    /// Errors: as [`Holding::begin`].
    pub fn begin_at(
        &mut self,
        tables: Tables,
        place: Place,
    ) -> Result<(TransactionId, Vec<Action>), Refused> {
        let leader = self.leader().ok_or(Refused::NoReplica)?;
        if let Place::At(replica) = place
            && !self.replicas.contains_key(&replica)
        {
            return Err(Refused::NoReplica);
        }
        let undecided = self.open.values().filter(|open| !open.is_decided()).count();
        if undecided >= self.options.max_open {
            return Err(Refused::Full);
        }
        self.next += 1;
        let id = TransactionId(self.next);
        let needs: BTreeMap<_, _> =
            tables.all().into_iter().map(|table| (table, self.newest(table))).collect();
        let at = tables.writes.is_empty().then(|| match place {
            Place::At(replica) => replica,
            Place::Anywhere | Place::Everywhere => self.place(&needs).unwrap_or(leader),
        });
        for table in &tables.writes {
            let handed = self.handed.entry(*table).or_default();
            *handed = handed.next();
        }
        for (replica, state) in &mut self.replicas {
            if at.is_none_or(|at| at == *replica) {
                state.held.insert(id, Held::default());
            }
        }
        let (steps, decided) = (Vec::new(), Vec::new());
        let open = Open { tables, needs, steps, at, decided, failed: false, abandoned: false };
        self.open.insert(id, open);
        Ok((id, self.take_out_the_slow()))
    }

    /// The next statement of a transaction, which touches these tables. The statement is sent to replicas
    /// where it can run now; elsewhere it is held.
    ///
    /// Errors: [`Refused::Unknown`], [`Refused::Failed`], [`Refused::Busy`], [`Refused::Full`],
    /// [`Refused::Undeclared`].
    pub fn statement(&mut self, id: TransactionId, used: &Tables) -> Result<Vec<Action>, Refused> {
        let options = self.options;
        let open = self.idle(id)?;
        if open.failed {
            return Err(Refused::Failed);
        }
        if open.steps.len() >= options.max_statements {
            return Err(Refused::Full);
        }
        if let Some(table) = open.tables.lacks(used).filter(|_| !options.bugs.has(Bug::UndeclaredRuns)) {
            open.failed = true;
            return Err(Refused::Undeclared(table));
        }
        open.steps.push(Step::Statement(open.steps.len()));
        Ok(self.send_all())
    }

    /// The transaction goes back to a savepoint, everywhere: it has not failed any more.
    ///
    /// Errors: as [`Holding::statement`].
    pub fn back_to_savepoint(&mut self, id: TransactionId) -> Result<Vec<Action>, Refused> {
        self.idle(id)?.failed = false;
        self.statement(id, &Tables::default())
    }

    /// Drops the transaction, whatever it waited for or ran where its answers come from; elsewhere it is
    /// rolled back. The caller ensures that no replica will commit it there any more, or that no other
    /// replica in the cluster has it.
    pub fn abandon(&mut self, id: TransactionId) -> Vec<Action> {
        let leader = self.leader();
        let Some(open) = self.open.get_mut(&id).filter(|open| !open.is_decided()) else { return Vec::new() };
        // The COMMIT of an undecided transaction was sent to no other replica.
        open.steps.pop_if(|step| *step == Step::Commit);
        if open.steps.last() != Some(&Step::Rollback) {
            open.steps.push(Step::Rollback);
        }
        open.decided.resize(open.steps.len(), Outcome::Failed);
        (open.failed, open.abandoned) = (true, true);
        if let Some(decides) = open.at.or(leader) {
            self.produce(decides, id);
        }
        self.send_all()
    }

    /// The transaction's end. The COMMIT of one that has failed is a ROLLBACK.
    ///
    /// Errors: [`Refused::Unknown`], [`Refused::Busy`].
    pub fn end(&mut self, id: TransactionId, commit: bool) -> Result<Vec<Action>, Refused> {
        let open = self.idle(id)?;
        open.steps.push(if commit && !open.failed { Step::Commit } else { Step::Rollback });
        Ok(self.send_all())
    }

    /// A replica has answered the step that was sent to it last for this transaction.
    pub fn answered(&mut self, from: StandbyId, id: TransactionId, outcome: Outcome) -> Vec<Action> {
        let held = self.replicas.get_mut(&from).and_then(|replica| replica.held.get_mut(&id));
        let Some(held) = held.filter(|held| held.outcomes.len() < held.sent) else { return Vec::new() };
        held.outcomes.push(outcome);
        let mut actions = self.decide(id);
        actions.extend(self.compare(id));
        self.finish(from, id);
        actions.extend(self.send_all());
        actions
    }

    /// A replica is lost: it is not in the cluster any more, and no transaction waits for it. A transaction
    /// that only it ran fails.
    pub fn replica_failed(&mut self, replica: StandbyId) -> Vec<Action> {
        if self.options.bugs.has(Bug::FailedReplicaWaitedFor) {
            return Vec::new();
        }
        let mut actions = self.take_out(replica);
        actions.extend(self.send_all());
        actions
    }

    /// The replicas that are in the cluster, with how many transactions each holds.
    pub fn replicas(&self) -> impl Iterator<Item = (StandbyId, usize)> {
        self.replicas.iter().map(|(id, replica)| (*id, replica.held.len()))
    }

    /// The version of a table that a replica has come to.
    pub fn produced(&self, replica: StandbyId, table: RelationId) -> Version {
        let replica = self.replicas.get(&replica);
        replica.and_then(|replica| replica.produced.get(&table)).copied().unwrap_or_default()
    }

    /// Whose answers decide.
    pub fn leader(&self) -> Option<StandbyId> {
        self.leader
    }

    /// Checks the invariants; for tests. Panics if one does not hold.
    pub fn audit(&self) {
        if !self.options.bugs.is_empty() {
            return;
        }
        for (name, replica) in &self.replicas {
            let begun: Vec<_> = replica.held.iter().filter(|(_, held)| held.has_begun()).collect();
            for (place, (id, _)) in begun.iter().enumerate() {
                let open = &self.open[*id];
                for (table, needed) in &open.needs {
                    assert_eq!(
                        self.produced(*name, *table),
                        *needed,
                        "{id} runs at {name} with its versions"
                    );
                }
                for (other, _) in &begun[..place] {
                    let apart = !open.tables.conflicts(&self.open[*other].tables);
                    assert!(apart, "{id} and {other} run at {name} and conflict");
                }
            }
            for (table, produced) in &replica.produced {
                assert!(*produced <= self.newest(*table), "produced at {name} was handed out");
            }
            if let Some(oldest) = replica.held.keys().next() {
                assert!(self.may_run(*name, *oldest), "{oldest}, the oldest at {name}, can run");
            }
            assert!(replica.held.len() <= self.options.max_held + self.options.max_open, "bound of the held");
        }
        for (id, open) in &self.open {
            assert!(self.replicas.values().any(|replica| replica.held.contains_key(id)), "{id} is held");
            assert!(open.decided.len() <= open.steps.len(), "a decided step was a step");
        }
    }

    fn newest(&self, table: RelationId) -> Version {
        self.handed.get(&table).copied().unwrap_or_default()
    }

    /// The replica for a read: of those that have its versions, or else of all, the one with the least to do.
    fn place(&self, needs: &BTreeMap<RelationId, Version>) -> Option<StandbyId> {
        let lacks = |id: StandbyId| needs.iter().any(|(table, needed)| self.produced(id, *table) != *needed);
        let all = self.replicas.iter();
        all.min_by_key(|(id, replica)| (lacks(**id), replica.held.len())).map(|(id, _)| *id)
    }

    /// The transaction, if its last step is answered and it has not ended.
    fn idle(&mut self, id: TransactionId) -> Result<&mut Open, Refused> {
        let open = self.open.get_mut(&id).filter(|open| !open.has_ended()).ok_or(Refused::Unknown)?;
        if open.decided.len() < open.steps.len() { Err(Refused::Busy) } else { Ok(open) }
    }

    /// True if the versions that it needs have been produced there, and no transaction is in its way.
    fn may_run(&self, at: StandbyId, id: TransactionId) -> bool {
        let (replica, open, bugs) = (&self.replicas[&at], &self.open[&id], self.options.bugs);
        if replica.held[&id].has_begun() {
            return true;
        }
        let reads = open.at.is_some();
        if (reads && bugs.has(Bug::VersionsNotAsked)) || (!reads && bugs.has(Bug::WritersNotOrdered)) {
            return true;
        }
        let come = |(table, needed): (&RelationId, &Version)| {
            let produced = self.produced(at, *table);
            if reads && bugs.has(Bug::VersionsAtLeast) { produced >= *needed } else { produced == *needed }
        };
        let mut earlier = replica.held.keys().take_while(|other| **other < id);
        let ignored = |other: &TransactionId| bugs.has(Bug::VersionsAtLeast) && self.open[other].at.is_some();
        let passes = |other: &TransactionId| {
            let theirs = &self.open[other].tables;
            ignored(other) || !open.tables.writes.iter().any(|table| theirs.reads.contains(table))
        };
        open.needs.iter().all(come) && earlier.all(passes)
    }

    /// The step that can be sent for it now.
    fn next_step(&self, at: StandbyId, id: TransactionId) -> Option<Step> {
        let (held, open) = (&self.replicas[&at].held[&id], &self.open[&id]);
        let step = *open.steps.get(held.sent).filter(|_| held.outcomes.len() == held.sent)?;
        let decides = open.at.is_some() || self.leader() == Some(at) || open.is_decided();
        let ends = matches!(step, Step::Commit | Step::Rollback);
        ((decides || !ends) && self.may_run(at, id)).then_some(step)
    }

    /// Sends all that can be sent.
    fn send_all(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for at in self.replicas.keys().copied().collect::<Vec<_>>() {
            for id in self.replicas[&at].held.keys().copied().collect::<Vec<_>>() {
                if let Some(step) = self.next_step(at, id)
                    && let Some(held) =
                        self.replicas.get_mut(&at).and_then(|replica| replica.held.get_mut(&id))
                {
                    held.sent += 1;
                    actions.push(Action::Send(at, id, step));
                }
            }
        }
        actions
    }

    /// Answers of the deciding replica that the client has not heard.
    fn decide(&mut self, id: TransactionId) -> Vec<Action> {
        let leader = self.leader();
        let Some(open) = self.open.get_mut(&id) else { return Vec::new() };
        let Some(decides) = open.at.or(leader) else { return Vec::new() };
        let Some(held) = self.replicas.get(&decides).and_then(|replica| replica.held.get(&id)) else {
            return Vec::new();
        };
        let new = held.outcomes.get(open.decided.len()..).unwrap_or_default();
        let actions = new.iter().map(|_| Action::Answer(id, decides)).collect();
        open.failed |= new.contains(&Outcome::Failed);
        open.decided.extend(new);
        actions
    }

    /// Takes out who answered otherwise than was decided.
    fn compare(&mut self, id: TransactionId) -> Vec<Action> {
        let noticed = |open: &&Open| !open.abandoned && !self.options.bugs.has(Bug::DivergenceUnnoticed);
        let Some(open) = self.open.get(&id).filter(noticed) else { return Vec::new() };
        let differs = |replica: &Replica| {
            let held = replica.held.get(&id);
            held.is_some_and(|held| {
                held.outcomes.iter().zip(&open.decided).any(|(mine, theirs)| mine != theirs)
            })
        };
        let odd: Vec<StandbyId> =
            self.replicas.iter().filter(|(_, replica)| differs(replica)).map(|(id, _)| *id).collect();
        odd.into_iter().flat_map(|replica| self.taken_out(replica, Why::Diverged)).collect()
    }

    /// If its end is done there, it is held there no more, and its versions are produced.
    fn finish(&mut self, at: StandbyId, id: TransactionId) {
        let Some(open) = self.open.get(&id).filter(|open| open.has_ended()) else { return };
        let held = self.replicas.get(&at).and_then(|replica| replica.held.get(&id));
        if held.is_some_and(|held| held.outcomes.len() == open.steps.len()) {
            self.produce(at, id);
        }
    }

    /// The transaction has ended there.
    fn produce(&mut self, at: StandbyId, id: TransactionId) {
        if let (Some(open), Some(replica)) = (self.open.get(&id), self.replicas.get_mut(&at))
            && replica.held.remove(&id).is_some()
        {
            for table in &open.tables.writes {
                let produced = replica.produced.entry(*table).or_default();
                *produced = produced.next();
            }
        }
        self.forget_the_finished();
    }

    fn forget_the_finished(&mut self) {
        let replicas = &self.replicas;
        self.open.retain(|id, _| replicas.values().any(|replica| replica.held.contains_key(id)));
    }

    /// Takes out replicas that lack too many of the leader's transactions.
    fn take_out_the_slow(&mut self) -> Vec<Action> {
        let decided = |id: &&TransactionId| self.open[*id].is_decided();
        let behind = |replica: &Replica| replica.held.keys().filter(decided).count() > self.options.max_held;
        let slow: Vec<StandbyId> =
            self.replicas.iter().filter(|(_, replica)| behind(replica)).map(|(id, _)| *id).collect();
        let mut actions: Vec<Action> =
            slow.into_iter().flat_map(|replica| self.taken_out(replica, Why::TooFarBehind)).collect();
        actions.extend(self.send_all());
        actions
    }

    fn taken_out(&mut self, replica: StandbyId, why: Why) -> Vec<Action> {
        let mut actions = vec![Action::TakeOut(replica, why)];
        actions.extend(self.take_out(replica));
        actions
    }

    fn take_out(&mut self, replica: StandbyId) -> Vec<Action> {
        let led = self.leader == Some(replica);
        self.replicas.remove(&replica);
        if led {
            self.leader = self.replicas.keys().next().copied();
        }
        let lost = |open: &Open| open.at == Some(replica) || self.replicas.is_empty();
        let lost: Vec<TransactionId> =
            self.open.iter().filter(|(_, open)| lost(open)).map(|(id, _)| *id).collect();
        let mut actions = Vec::new();
        for id in lost {
            let open = self.open.remove(&id).expect("the transaction was found above");
            if !open.is_decided() {
                actions.push(Action::Fail(id, Why::ReplicaGone));
            }
        }
        self.forget_the_finished();
        if led {
            let all: Vec<TransactionId> = self.open.keys().copied().collect();
            for id in all {
                actions.extend(self.decide(id));
                actions.extend(self.compare(id));
            }
        }
        actions
    }
}
