//! Deferred BEGIN, for designs that keep reads from the primary. Consort answers a BEGIN that declares its
//! transaction READ ONLY, and defers sending it to the primary. If the first statement runs at a replica, the
//! whole transaction does, and the primary never receives the BEGIN. Otherwise the BEGIN runs at the primary
//! before that statement.
//!
//! ```text
//!   BEGIN READ ONLY   answered by Consort, deferred
//!     a read          its snapshot at a replica: the BEGIN is dropped
//!     anything else   the BEGIN at the primary, then the statement
//!     cancelled       the transaction has failed, and Consort answers its end
//! ```
//!
//! One difference from a single server remains: `now()` in a transaction that runs at the primary after all
//! is the time of its first statement. So the default design does not defer BEGIN.

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
    /// Answers a BEGIN without the primary and without a connection there, if its transaction may run at a
    /// replica as a whole. `false`: the statement is no BEGIN, or its transaction may not.
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

    /// True if a request may take the transaction to a replica, so that its BEGIN stays deferred.
    pub(super) fn may_leave_whole(&self, todo: &Todo) -> bool {
        matches!(todo, Todo::One(Plan::Leaves(_))) && self.current.fresh && self.state.read_only_snapshot()
    }

    /// Runs the deferred BEGIN at the primary, before any other statement of its transaction.
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

    /// Fails the transaction with the deferred BEGIN. The primary receives the failure as late as possible.
    pub(super) fn fail_owed(&mut self) {
        let Txn::Deferred(deferred) = &mut self.txn else { return };
        deferred.fresh = false;
        self.line.elsewhere = Some(Status::Failed);
        self.state.statement_failed();
        self.state.ready(Status::Failed.byte(), &mut self.service.interner.borrow_mut());
    }

    /// Answers the end of a failed transaction with a deferred BEGIN: no server has any part of it. `false`:
    /// the statement does not end the transaction.
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

    /// Records that the primary has begun a transaction of the session, in which no statement has run yet.
    pub(super) fn block_begins(&mut self) {
        let at = self.txn.begins();
        if let Some(database) = self.database.id() {
            let mut block = Block::new(&self.service.cluster, database);
            block.stands(Standing::Open);
            at.block = Some(block);
        }
    }
}
