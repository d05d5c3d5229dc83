//! Where the design keeps reads from the primary: a BEGIN that declares its transaction to read only is answered here, and
//! owed to the primary. If the first statement runs at a replica, as the transaction then does, the primary never hears of it;
//! anything else has the BEGIN run there first.
//!
//! ```text
//!   BEGIN READ ONLY   answered here, owed
//!     a read          its snapshot at a replica: nothing is owed any more
//!     anything else   the BEGIN at the primary, then that
//!     cancelled       it has failed, and its end is answered here
//! ```
//!
//! What one server does otherwise: `now()` in a transaction that comes to run at the primary is the time of its first
//! statement. So the default design does not do it.

use super::request_analysis::Todo;
use super::txn::{Deferred, Txn};
use super::{Ended, Session};
use backend::request::{Kind, Request};
use cluster::plan::Plan;
use session_state::utility::{Statement, Utility, What};
use session_state::{Answer as Said, BlockStatus};
use transaction::{Block, Standing};
use wire::{Answers, Frame, Problem, Status};

impl Session {
    /// Answers a BEGIN without the primary, if its transaction may run at a replica as a whole, and without a connection there.
    /// `false`: it is another statement, or may not.
    pub(super) async fn owes_begin(&mut self, request: Request, todo: &Todo) -> Result<bool, Ended> {
        let Todo::Utility(statements) = todo else { return Ok(false) };
        let [Statement { what: What::Utility(utility @ Utility::Begin(_)), .. }] = &**statements else {
            return Ok(false);
        };
        let outside = self.state.block() == BlockStatus::Idle && self.database.id().is_some();
        if request.kind != Kind::Query || !outside || !self.reads_wait() || !matches!(self.txn, Txn::Idle) {
            return Ok(false);
        }
        self.ask_before_a_block(todo).await?;
        let mut interner = self.service.interner.borrow_mut();
        let mut begun = self.state.clone();
        begun.completed(utility, &mut interner);
        begun.ready(Status::InBlock.byte(), &mut interner);
        if !begun.read_only_snapshot() {
            return Ok(false);
        }
        self.state = begun;
        drop(interner);
        let frame = Frame::new(self.line.bytes(request)).map_err(Ended::Malformed)?;
        let text = wire::query_text(&frame).map_err(Ended::Malformed)?;
        let begin = String::from_utf8_lossy(text).into();
        self.txn.defers(begin);
        self.line.elsewhere = Some(Status::InBlock);
        self.say(request, &Ok(Said::Tag("BEGIN")));
        self.line.client.out().ready(Status::InBlock);
        Ok(true)
    }

    /// Whether a request may take the transaction to a replica, so that its BEGIN stays owed.
    pub(super) fn may_leave_whole(&self, todo: &Todo) -> bool {
        matches!(todo, Todo::One(Plan::Leaves(_))) && self.current.fresh && self.state.read_only_snapshot()
    }

    /// Has the primary run the BEGIN that is owed to it, before anything else of its transaction.
    pub(super) async fn pay_begin(&mut self) -> Result<(), Ended> {
        if !self.txn.is_owed() {
            return Ok(());
        }
        self.at_home().await?;
        let Some(Deferred { begin, .. }) = self.txn.pays() else { return Ok(()) };
        let has_failed = self.line.elsewhere.take() == Some(Status::Failed);
        self.line.ask_unreached(&begin).await?;
        if self.line.primary.status != Status::InBlock {
            let problem = Problem::fatal("08006", "the primary did not begin the transaction");
            self.line.client.out().problem(&problem);
            return Err(Ended::NoServer);
        }
        self.block_begins();
        let is_cancelled = self.line.seat.running.is_cancelled();
        if has_failed || is_cancelled {
            self.fail_at_primary().await?;
            if let Some(block) = &mut self.txn.begins().block {
                block.stands(Standing::Failed);
            }
        }
        if is_cancelled { Err(Ended::Cancelled) } else { Ok(()) }
    }

    /// The transaction whose BEGIN is owed fails, and the primary hears of it no earlier than it must.
    pub(super) fn fail_owed(&mut self) {
        let Txn::Deferred(deferred) = &mut self.txn else { return };
        deferred.fresh = false;
        self.line.elsewhere = Some(Status::Failed);
        self.state.statement_failed();
        self.state.ready(Status::Failed.byte(), &mut self.service.interner.borrow_mut());
    }

    /// Answers the end of such a transaction: there is nothing of it anywhere. `false`: it is another statement.
    pub(super) fn ends_failed(&mut self, request: Request, todo: &Todo) -> bool {
        let Todo::Utility(statements) = todo else { return false };
        let [Statement { what: What::Utility(utility), .. }] = &**statements else { return false };
        let is_end = matches!(utility, Utility::Commit { chain: false } | Utility::Rollback { chain: false });
        let is_whole = matches!(request.kind, Kind::Query | Kind::Batch);
        if !is_end || !is_whole || !self.txn.is_owed() || self.line.elsewhere != Some(Status::Failed) {
            return false;
        }
        self.txn.ends();
        self.line.elsewhere = None;
        self.say(request, &Ok(Said::Tag("ROLLBACK")));
        let interner = &mut self.service.interner.borrow_mut();
        self.state.completed(&Utility::Rollback { chain: false }, interner);
        self.state.ready(Status::Idle.byte(), interner);
        self.line.client.out().ready(Status::Idle);
        true
    }

    /// The primary has begun a transaction of the session, in which nothing has happened yet.
    pub(super) fn block_begins(&mut self) {
        let at = self.txn.begins();
        if let Some(database) = self.database.id() {
            let mut block = Block::new(&self.service.cluster, database);
            block.stands(Standing::Open);
            at.block = Some(block);
        }
    }
}
