//! One database whose transactions are ordered before they are executed: its participants, its lock queues,
//! and the moments in which nothing runs so that a replica may join.
//!
//! The order is that of [`scheduler::scheduled`]. The session of a transaction carries out the order's
//! actions: at the primary on its own connection, at replicas on connections that it borrows here
//! ([`Copy`](struct@Copy)). In designs with declared tables replicas may lag: each follows the transaction by
//! a task of its own ([`Following`]).
//!
//! ```text
//!   replica: copied and fed as in other designs --quiet: nothing is open, all is fed--> takes part
//!            takes part --> taken out --> copied again
//! ```

mod copy;
mod following;
mod machine;

pub use copy::{Copy, Did, Work};
pub use following::{Follow, Following};

use history::{Incarnation, RelationId};
use machine::Machine;
use scheduler::StandbyId;
use scheduler::scheduled::{Action, Place, Refused, Step, Tables, TransactionId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

/// The primary among those that execute. A read goes there last, if others have as little to do.
pub const PRIMARY: StandbyId = StandbyId::new(u32::MAX);

/// Relation that every statement reads, and that a statement with an unknown footprint writes.
pub const EVERYTHING: RelationId = RelationId::new(0);
/// Relation that every writing statement reads, and that a statement with an unknown read set writes.
pub const WRITERS: RelationId = RelationId::new(1);
/// Relation that every statement writes that moves a sequence.
pub const SEQUENCES: RelationId = RelationId::new(2);

/// Maximum number of idle connections that are kept to one replica as one role.
const IDLE_KEPT: usize = 64;

/// The locks of a statement that reads these tables.
pub fn reading(tables: impl IntoIterator<Item = RelationId>) -> Tables {
    let reads = tables.into_iter().chain([EVERYTHING]).collect();
    Tables { reads, ..Tables::default() }
}

/// Locks of a statement that writes nothing and has an unknown read set.
pub fn reading_everything() -> Tables {
    Tables { reads: [EVERYTHING].into(), writes: [WRITERS].into() }
}

/// The locks of a statement that reads and writes these tables, and perhaps moves sequences.
pub fn writing(
    reads: impl IntoIterator<Item = RelationId>,
    writes: impl IntoIterator<Item = RelationId>,
    sequences: bool,
) -> Tables {
    let reads = reads.into_iter().chain([EVERYTHING, WRITERS]).collect();
    let writes = writes.into_iter().chain(sequences.then_some(SEQUENCES)).collect();
    Tables { reads, writes }
}

/// Locks of a statement with an unknown footprint.
pub fn touching_everything() -> Tables {
    Tables { reads: Default::default(), writes: [EVERYTHING].into() }
}

/// Reason why a statement does not get its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLocks {
    /// The order refuses it.
    Refused(Refused),
    /// The locks did not come in time.
    Late,
    /// The wait was cancelled.
    Cancelled,
}

/// A replica that takes part.
#[derive(Clone, Copy, Debug)]
struct Member {
    life: Incarnation,
}

/// See the module documentation.
pub struct Scheduled {
    machine: RefCell<Machine>,
    members: RefCell<BTreeMap<StandbyId, Member>>,
    /// Nodes of a transaction's next step, until its session has received them.
    sent: RefCell<BTreeMap<TransactionId, Vec<StandbyId>>>,
    /// Replicas found useless, with the reason, until their feed's task has read it.
    found: RefCell<BTreeMap<StandbyId, String>>,
    idle: RefCell<BTreeMap<(StandbyId, String), Vec<Copy>>>,
    /// Following of transactions by replicas, until they have ended everywhere.
    follow: RefCell<BTreeMap<TransactionId, Follow>>,
    /// Channels to the tasks that follow a transaction at a replica.
    followers: RefCell<BTreeMap<(TransactionId, StandbyId), UnboundedSender<Step>>>,
    /// Number of requests for a moment in which nothing runs.
    holds: Cell<usize>,
    moved: Notify,
}

impl Scheduled {
    /// Creates the order with the primary as its only participant. `declares` is true if transactions declare
    /// their tables before they begin.
    pub(crate) fn new(declares: bool) -> Rc<Scheduled> {
        Rc::new(Scheduled {
            machine: RefCell::new(Machine::new(declares, PRIMARY)),
            members: RefCell::default(),
            sent: RefCell::default(),
            found: RefCell::default(),
            idle: RefCell::default(),
            follow: RefCell::default(),
            followers: RefCell::default(),
            holds: Cell::default(),
            moved: Notify::new(),
        })
    }

    fn act(self: &Rc<Self>, actions: Vec<Action>) {
        let mut sent = self.sent.borrow_mut();
        for action in actions {
            match action {
                Action::Send(to, id, step) => {
                    if !self.follows(to, id, step) {
                        sent.entry(id).or_default().push(to);
                    }
                }
                // Its session receives no node to run at.
                Action::Fail(id, _) => drop(sent.insert(id, Vec::new())),
                Action::TakeOut(replica, why) => {
                    self.found.borrow_mut().insert(replica, format!("{why:?}"));
                    self.leave(replica);
                }
                // Its session has the answer already.
                Action::Answer(..) => {}
            }
        }
        drop(sent);
        self.moved.notify_waiters();
    }

    /// Passes a step to the task that follows the transaction there, and starts the task if there is none.
    /// `false`: no task follows, and the session carries the step out.
    fn follows(self: &Rc<Self>, replica: StandbyId, id: TransactionId, step: Step) -> bool {
        let Some(follow) = self.follow.borrow().get(&id).filter(|_| replica != PRIMARY).cloned() else {
            return false;
        };
        let Some(life) = self.life(replica) else { return true };
        let mut followers = self.followers.borrow_mut();
        let follower = followers.entry((id, replica)).or_insert_with(|| {
            let (sender, steps) = unbounded_channel();
            follow(Following { of: self.clone(), id, steps, replica, life });
            sender
        });
        // A follower that has ended without an answer has taken the replica out.
        let _ = follower.send(step);
        true
    }

    /// Forgets a transaction that may have ended everywhere.
    fn forget(&self, id: TransactionId) {
        if !self.machine.borrow().knows(id) {
            self.follow.borrow_mut().remove(&id);
        }
    }

    /// Stops all sending to the replica.
    fn leave(&self, replica: StandbyId) {
        self.members.borrow_mut().remove(&replica);
        self.idle.borrow_mut().retain(|(id, _), _| *id != replica);
        self.followers.borrow_mut().retain(|(_, id), _| *id != replica);
        let machine = self.machine.borrow();
        self.follow.borrow_mut().retain(|id, _| machine.knows(*id));
    }

    /// Begins a transaction as soon as no task requests that nothing runs. In designs with declared tables it
    /// touches these, and a read-only one runs at this node.
    pub async fn begin(
        self: &Rc<Self>,
        (tables, place): (Tables, Place),
        limit: Instant,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Transaction, NoLocks> {
        let begun = async {
            loop {
                let moved = self.moved.notified();
                if self.holds.get() == 0 {
                    let begun = self.machine.borrow_mut().begin(tables.clone(), place);
                    let (id, actions) = begun.map_err(NoLocks::Refused)?;
                    self.act(actions);
                    return Ok(Transaction { of: self.clone(), id });
                }
                timeout_at(limit, moved).await.map_err(|_| NoLocks::Late)?;
            }
        };
        tokio::select! {
            begun = begun => begun,
            () = cancelled => Err(NoLocks::Cancelled),
        }
    }

    /// Completes when no transaction is open, and keeps it so. `None` if that does not come within `limit`.
    pub(crate) async fn quiet(self: &Rc<Self>, limit: Duration) -> Option<Quiet> {
        self.holds.set(self.holds.get() + 1);
        let (quiet, limit) = (Quiet(self.clone()), Instant::now() + limit);
        loop {
            let moved = self.moved.notified();
            if self.machine.borrow().open() == 0 {
                return Some(quiet);
            }
            timeout_at(limit, moved).await.ok()?;
        }
    }

    /// Adds a replica to the participants, in this incarnation of its server, until the returned value is
    /// dropped.
    pub(crate) fn join(self: &Rc<Self>, quiet: Quiet, replica: StandbyId, life: Incarnation) -> TakesPart {
        self.found.borrow_mut().remove(&replica);
        self.members.borrow_mut().insert(replica, Member { life });
        self.machine.borrow_mut().join(replica);
        drop(quiet);
        TakesPart { of: self.clone(), replica }
    }

    /// Takes the replica out: no transaction waits for it, and nothing is sent there. Its feed's task
    /// receives the reason.
    pub fn take_out(self: &Rc<Self>, replica: StandbyId, why: String) {
        if self.life(replica).is_none() {
            return;
        }
        self.found.borrow_mut().entry(replica).or_insert(why);
        let actions = self.machine.borrow_mut().replica_failed(replica);
        self.leave(replica);
        self.act(actions);
    }

    /// Incarnation of the server in which a replica takes part, if it does.
    pub fn life(&self, replica: StandbyId) -> Option<Incarnation> {
        self.members.borrow().get(&replica).map(|member| member.life)
    }

    /// The replicas that take part.
    pub fn members(&self) -> Vec<(StandbyId, Incarnation)> {
        self.members.borrow().iter().map(|(replica, member)| (*replica, member.life)).collect()
    }

    /// Lends an idle connection to this replica as this role.
    pub fn lend(&self, replica: StandbyId, user: &str) -> Option<Copy> {
        let mut idle = self.idle.borrow_mut();
        let kept = idle.get_mut(&(replica, user.to_owned()))?;
        loop {
            let mut copy = kept.pop()?;
            if !copy.is_gone() {
                return Some(copy);
            }
        }
    }

    /// Returns a connection that is not used any more. The connection is kept if its replica still takes
    /// part.
    pub fn give_back(&self, copy: Copy, user: &str) {
        if self.life(copy.replica) != Some(copy.life) {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let kept = idle.entry((copy.replica, user.to_owned())).or_default();
        if kept.len() < IDLE_KEPT {
            kept.push(copy);
        }
    }
}

/// A transaction among those that are ordered. Dropping it releases its locks: its end was answered
/// everywhere, or no session will commit it any more.
pub struct Transaction {
    of: Rc<Scheduled>,
    id: TransactionId,
}

impl Transaction {
    /// Sets the way in which replicas follow it, from its first statement on.
    pub fn followed_by(&self, follow: Follow) {
        self.of.follow.borrow_mut().insert(self.id, follow);
    }

    /// Gets the locks of the next statement. Returns the nodes that must run it.
    pub async fn statement(
        &self,
        tables: Tables,
        place: Place,
        limit: Instant,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Vec<StandbyId>, NoLocks> {
        let actions = self.of.machine.borrow_mut().statement(self.id, tables, place);
        self.of.act(actions.map_err(NoLocks::Refused)?);
        let granted = async {
            loop {
                let moved = self.of.moved.notified();
                if let Some(sent) = self.of.sent.borrow_mut().remove(&self.id) {
                    return Ok(sent);
                }
                timeout_at(limit, moved).await.map_err(|_| NoLocks::Late)?;
            }
        };
        // A granted lock is not released for a concurrent cancellation: the transaction may have done
        // something before.
        let granted = tokio::select! {
            biased;
            granted = granted => granted,
            () = cancelled => Err(NoLocks::Cancelled),
        };
        if granted.is_err() {
            let actions = self.of.machine.borrow_mut().withdraw(self.id);
            self.of.act(actions);
            // Locks that came in the last moment are not used.
            let sent = self.of.sent.borrow_mut().remove(&self.id);
            self.done(sent.into_iter().flatten());
        }
        granted
    }

    /// Goes back to a savepoint. Returns the nodes that must execute this.
    pub fn back_to_savepoint(&self) -> Result<Vec<StandbyId>, NoLocks> {
        let actions = self.of.machine.borrow_mut().back_to_savepoint(self.id);
        self.of.act(actions.map_err(NoLocks::Refused)?);
        Ok(self.of.sent.borrow_mut().remove(&self.id).unwrap_or_default())
    }

    /// Ends the transaction. Returns the nodes that must execute this, the primary first.
    pub fn end(&self, commit: bool) -> Result<Vec<StandbyId>, NoLocks> {
        let actions = self.of.machine.borrow_mut().end(self.id, commit);
        self.of.act(actions.map_err(NoLocks::Refused)?);
        Ok(self.of.sent.borrow_mut().remove(&self.id).unwrap_or_default())
    }

    /// Notes that these replicas have done its last step. A failure there is known to the primary's own
    /// block.
    pub fn done(&self, by: impl IntoIterator<Item = StandbyId>) {
        for replica in by {
            let actions = self.of.machine.borrow_mut().answered(replica, self.id);
            self.of.act(actions);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let actions = self.of.machine.borrow_mut().abandon(self.id);
        self.of.sent.borrow_mut().remove(&self.id);
        self.of.act(actions);
        self.of.forget(self.id);
    }
}

/// Holds up every new transaction as long as this lives.
pub(crate) struct Quiet(Rc<Scheduled>);

impl Drop for Quiet {
    fn drop(&mut self) {
        self.0.holds.set(self.0.holds.get() - 1);
        self.0.moved.notify_waiters();
    }
}

/// Keeps a replica among the participants while this lives, unless a transaction finds that the replica
/// cannot take part.
pub(crate) struct TakesPart {
    of: Rc<Scheduled>,
    replica: StandbyId,
}

impl TakesPart {
    /// Completes when it was taken out. Returns the reason.
    pub(crate) async fn taken_out(&self) -> String {
        loop {
            let moved = self.of.moved.notified();
            if let Some(why) = self.of.found.borrow_mut().remove(&self.replica) {
                return why;
            }
            moved.await;
        }
    }
}

impl Drop for TakesPart {
    fn drop(&mut self) {
        self.of.take_out(self.replica, "the replica no longer takes part".to_owned());
        self.of.found.borrow_mut().remove(&self.replica);
    }
}
