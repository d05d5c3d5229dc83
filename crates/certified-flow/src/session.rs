//! A session's transaction at its node, as the flows see it.

use crate::{Claim, CommitOrder, Conflict, Order, Site, WriteSet};
use history::Version;
use std::rc::Rc;
use std::time::Duration;

/// End of a flow: done, refused with an answer for the client, or the session is gone.
pub type Run<S, T = ()> = Result<Result<T, <S as Session>::Refusal>, <S as Session>::Gone>;

/// Why a session could not commit a transaction that has its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCommitted {
    /// The server has refused it.
    Refused(String),
    /// The connection is lost, or gives no answer: the COMMIT may still be on its way.
    Lost(String),
}

/// A clock, with which a wait has an end.
#[expect(async_fn_in_trait, reason = "one thread: no future has to be Send")]
pub trait Timer {
    /// Waits for a future, at most so long: `None` afterwards.
    async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T>;
}

/// A session with one transaction at its node. A flow may be dropped at any `await`: what has a version is durable or is lost
/// with the process, and the applier commits what its session does not.
#[expect(async_fn_in_trait, reason = "one thread: no future has to be Send")]
pub trait Session {
    /// Effects of a transaction.
    type WriteSet: WriteSet;
    /// Knowledge of one life of a server.
    type Life: Default;
    /// An error for the client.
    type Refusal;
    /// Why a session ends.
    type Gone;
    /// The clock.
    type Timer: Timer;

    /// The clock.
    fn timer(&self) -> Self::Timer;

    /// The order of its database.
    fn order(&self) -> &Order<Self::WriteSet, Self::Life>;

    /// The database at its node.
    fn site(&self) -> &Rc<Site<Self::Life>>;

    /// The session's transaction, as others see it.
    fn claim(&self) -> &Rc<Claim>;

    /// Executes what was deferred, and returns the write set; `None`: nothing was written or locked. Where locks keep the
    /// order of commits the transaction takes its own here, and its claim says so. The inner error is the server's.
    ///
    /// # Errors
    /// The session is gone.
    async fn capture(&mut self) -> Run<Self, Option<Self::WriteSet>>;

    /// Dooms the claim if the transaction must give way to another one now.
    fn gives_way(&self);

    /// Commits the transaction without a version. The inner error is the server's.
    ///
    /// # Errors
    /// The session is gone.
    async fn commit(&mut self) -> Run<Self>;

    /// The keeper of the order of its node's COMMITs.
    fn commit_order(&self) -> CommitOrder {
        CommitOrder::Sessions
    }

    /// Commits the transaction with its version in it. `follows` is the number of the transaction of the version before,
    /// if that is open: the server commits after that one, and only if that one has committed.
    ///
    /// # Errors
    /// The applier has to do it.
    async fn commit_at(&mut self, version: Version, follows: Option<u64>) -> Result<(), NotCommitted>;

    /// Brings commits in memory to the node's disk, where the design says so.
    async fn flush(&mut self);

    /// Undoes the transaction, if one is open.
    ///
    /// # Errors
    /// The session is gone.
    async fn undo(&mut self) -> Result<(), Self::Gone>;

    /// No transaction is open any more.
    fn ended(&mut self);

    /// The next transaction of the session sees this version.
    fn promises(&mut self, version: Version);

    /// The node has gone: the session ends after its answer.
    fn loses_node(&mut self, why: String);

    /// Notes that the applier commits this version, and why.
    fn given_up(&self, version: Version, why: &str);

    /// The error for a transaction that was ended for another one.
    fn doomed(&self) -> Self::Refusal;

    /// The error for a transaction that is refused.
    fn refused(&self, conflict: Conflict) -> Self::Refusal;

    /// The end of a session whose ledger has failed.
    fn ledger_failed(&self, error: &ledger::Error) -> Self::Gone;
}
