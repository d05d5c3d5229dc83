//! The world as the flows see it: the cluster that decides, and one client's session with the nodes that it can run on.
//! `cluster` and `session` implement these traits over sockets, `sim` over a model; the flows are the same.
//!
//! Everything runs in one thread: futures need not be `Send`, and a borrow of the scheduler never lives across an
//! `await`.

use crate::bugs::Bugs;
use order::DoubtId;
use scheduler::{Ran, Reason, Scheduler, Ticket};
use std::cell::RefMut;
use std::time::Duration;

/// The cluster: the one scheduler, and the clock that shows when it has moved. A handle: cheap to clone, so
/// that the clean-up of a flow that is dropped half-way does happen.
#[expect(async_fn_in_trait, reason = "one thread: no future has to be Send")]
pub trait Cluster: Clone {
    /// The scheduler. The borrow must end before the next `await`.
    fn scheduler(&self) -> RefMut<'_, Scheduler>;

    /// Waits until something moved in the scheduler (a snapshot probe settled, a decoder came further, an
    /// in-flight write set ended, a mark moved), at most for `within`. Returns the rest of `within`, or
    /// `None` when it has passed. A move between the last look at the scheduler and the first poll of this
    /// future must not be missed; moves that change nothing for the caller may wake it all the same.
    async fn changed(&self, within: Duration) -> Option<Duration>;

    /// The order may have a snapshot probe to send (`Scheduler::gauge_to_send`): called after everything that
    /// may want one. Must not wait.
    fn gauge_wanted(&self);

    /// Something ended in the scheduler for which others may wait: a turn at the primary, a whole read. Clusters whose
    /// sessions take turns, or whose refreshes lock, wake those who wait in `changed`. Must not wait.
    fn moved(&self) {}

    /// Readers of a replica were [let go](Scheduler::let_go). Clusters whose refreshes lock wake the sessions that wait for
    /// something else meanwhile, so that each looks whether it [may read](Scheduler::may_read) on. Must not wait.
    fn let_go(&self) {
        self.moved();
    }

    /// The connection to this backend is lost, or its session is, while `doubt` may still commit. From here
    /// on the cluster watches the primary until that backend is gone, and then says
    /// `Order::backend_gone(doubt)`; it does so although the session is gone. Must not wait.
    fn orphaned(&self, doubt: DoubtId, backend: Backend);

    /// Maximum time that an unproven answer is held before the statement runs at the primary.
    fn proof_timeout(&self) -> Duration;

    /// True if no other Consort can have taken over from this one: its knowledge of the primary's commits may
    /// be complete. Asked when an answer is to be handed out that did not come from the primary.
    fn leads(&self) -> bool {
        true
    }

    /// Planted bugs, for the tests of the tests. Only `sim` overrides this.
    fn bugs(&self) -> Bugs {
        Bugs::default()
    }
}

/// A backend at the primary. The pid alone is not enough: pids come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend {
    /// Its process, as in BackendKeyData and `pg_stat_activity.pid`.
    pub pid: i32,
    /// `pg_stat_activity.backend_start`, microseconds since 1970: compared for equality only.
    pub started_us: i64,
}

/// One client's current statement, and the nodes that it can run on. The statement itself stays the session's
/// knowledge; the flow decides where it runs and which answer is sent.
///
/// Every method that waits for a node must end when that node is known to be lost: the bound of such a wait
/// is the watcher's, not the flow's.
#[expect(async_fn_in_trait, reason = "one thread: no future has to be Send")]
pub trait Session {
    /// A standby's answer, held: its first bytes, or all of it. Nothing of it has left yet. To drop it is to throw it
    /// away; `discard` also brings its connection back into order.
    type Answer;

    /// The backend at the primary that this session owns.
    fn backend(&self) -> Backend;

    /// Runs the statement at the ticket's standby, in the form that `ticket.asks_position` names: plain, or positioned (one
    /// pipeline `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_last_wal_replay_lsn(); <statement>;
    /// COMMIT`, the position once more when the statement has its locks). Returns when the answer is whole, or its first 64 kB are here. An error that is the statement's own is
    /// an answer; only what happened for the standby's sake (connection lost, recovery conflict, starting up, an
    /// incarnation that is not the ticket's) is a [`StandbyFailed`].
    async fn at_standby(&mut self, ticket: &Ticket) -> Result<(Self::Answer, Ran), StandbyFailed>;

    /// Hands the held answer to the client and streams the rest. From its first byte on nothing is repeated: if the
    /// standby fails now, the client gets a connection failure (08006).
    async fn deliver(&mut self, answer: Self::Answer) -> Delivered;

    /// Throws the held answer away, unseen, and gives the standby's connection back, or closes it.
    async fn discard(&mut self, answer: Self::Answer);

    /// Runs the statement at the primary and streams its answer to the client. The statement is proven
    /// read-only, or runs inside a block and cannot commit.
    async fn at_primary(&mut self, reason: Reason) -> AtPrimary;

    /// Runs at the primary a statement that may commit, and streams its answer to the client. `doubt` covers
    /// it already: nothing of it was sent before. The write set may be narrowed (`Order::narrow`) while this
    /// waits, when the statement's tree arrives.
    async fn commit_at_primary(&mut self, doubt: DoubtId) -> AtPrimary;

    /// In a block: has the primary take the locks that running the statement there would take, without running it (it is
    /// parsed and bound there), and does not wait for the answer.
    async fn ask_locks(&mut self) -> AtPrimary;

    /// Waits for the answer to [`Session::ask_locks`]. A refusal (a lock time-out, a cancel, a deadlock) is
    /// the answer that the statement itself would have got on one server: the session has handed it to the
    /// client as the statement's answer.
    async fn locks_granted(&mut self) -> Locks;

    /// True if the session has room to [keep](Session::defer_locks) the current statement.
    fn has_room_for_locks(&self) -> bool;

    /// Keeps what the primary needs to take the locks of the current statement, until the block ends.
    fn defer_locks(&mut self);

    /// Has the primary take the locks of all kept statements, and waits for the answers. After a refusal the
    /// client has an error as the answer to its current statement, and the block has failed.
    async fn take_deferred_locks(&mut self) -> Locks;

    /// True if the client has requested to cancel the current statement.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Fails the block, with 40001 as the answer to the current statement: a relation that the block has read
    /// was locked against readers meanwhile, or may have been. If the client has cancelled the statement, with
    /// 57014.
    async fn fail_unlocked_block(&mut self) -> AtPrimary;

    /// Begins `REPEATABLE READ READ ONLY` at the ticket's standby and takes its snapshot with
    /// `SELECT pg_last_wal_replay_lsn()`, if the ticket asks for a position; at a logical replica with any
    /// query. The transaction stays open.
    async fn open_snapshot(&mut self, ticket: &Ticket) -> Result<Ran, StandbyFailed>;

    /// Rolls back what [`Session::open_snapshot`] opened.
    async fn close_snapshot(&mut self);
}

/// The standby did not answer the statement, for this reason of its own. The client has seen nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbyFailed(pub Reason);

/// Result of the delivery of a held answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The client has it all.
    Whole,
    /// The standby failed in the middle of the result: the client got a part, and then a connection failure.
    CutOff,
    /// The client is gone.
    ClientGone,
}

/// Result of work at the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtPrimary {
    /// The primary answered, with a result or an error, up to its ReadyForQuery.
    Answered,
    /// The connection to the primary broke, or was closed because the client is gone, before the answer was whole. The
    /// backend may go on.
    ConnectionLost,
}

/// Result of the locks that stand for an offloaded read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// No other transaction can empty or change the tables until the block ends.
    Granted,
    /// The primary answered with an error; the client has it, and the block has failed.
    Refused,
    /// The connection to the primary broke.
    ConnectionLost,
}
