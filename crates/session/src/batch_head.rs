//! The head of a batch that is sent on alone, because the rest may run elsewhere. Drivers send the BEGIN of a
//! transaction, or the Parse of a named statement, together with the messages after it; only those show where
//! the batch runs.

use super::Session;
use super::answers_ahead::has_begun;
use super::deferred_locks::defers_locks;
use super::primary::Ended;
use super::request_analysis::Todo;
use backend::batch;
use backend::batch::Batch;
use backend::prepared_statements::not_alone;
use backend::request::{Kind, Request};
use backend::split_batch::{self, Part};
use session_state::BlockStatus;
use session_state::utility::{Statement, Utility, What};
use wire::Answers;

impl Session {
    /// Returns the head of a batch that must run before it is known if the rest runs at a standby: the BEGIN
    /// of a block that might, or statements that are parsed in such a block.
    pub(super) fn head_apart(&mut self, request: Request) -> Result<Option<Request>, Ended> {
        let reads_there = self.state.wants_snapshots() || defers_locks(self);
        let begins = self.state.block() == BlockStatus::Idle && reads_there;
        if self.stands_alone() || !begins && !self.may_be_first_of_snapshot() {
            return Ok(None);
        }
        let bytes = self.line.bytes(request).to_vec();
        let splitter = self.line.client.splitter;
        let first = |at| split_batch::first(&bytes[at..], splitter).map_err(Ended::Malformed);
        let (part, length) = first(0)?;
        if part == Part::End || length == bytes.len() || first(length)?.0 == Part::End {
            return Ok(None);
        }
        let head = Request { kind: Kind::Batch, bytes: length };
        match part {
            Part::Control if !begins => Ok(Some(head)),
            Part::Statement if begins => Ok(self.is_begin(&bytes[..length])?.then_some(head)),
            _ => Ok(None),
        }
    }

    /// True if this statement of a batch is a BEGIN, which is then the current statement.
    fn is_begin(&mut self, bytes: &[u8]) -> Result<bool, Ended> {
        let batch = batch::read(bytes, self.line.client.splitter).map_err(Ended::Malformed)?;
        let prepared = match batch {
            Some(Batch { parse: Some(parse), .. }) => Some(self.prepared(&parse)),
            Some(Batch { bind, .. }) => self.line.statements.get(bind.statement).cloned(),
            None => None,
        };
        let Some(prepared) = prepared else { return Ok(false) };
        if let Todo::Utility(statements) = self.understand_at_once(&prepared.text) {
            self.current.statements = statements;
        }
        let one = |statement: &Statement| matches!(statement.what, What::Utility(Utility::Begin(_)));
        Ok(self.current.statements.len() == 1 && self.current.statements.iter().all(one))
    }

    /// Runs the head of a batch alone. The rest is the next request, unless the head fails.
    pub(super) async fn run_head(&mut self, request: Request, head: Request) -> Result<(), Ended> {
        has_begun(self).await?;
        self.probe().await?;
        self.ask_before_a_block(&Todo::Utility(self.current.statements.clone())).await?;
        self.at_home().await?;
        let under = self.parses_under(&Todo::Quiet);
        self.line.statements.parses_under(under, Vec::new());
        self.keep_columns_in(head).await?;
        self.line.run_part(head).await?;
        self.learn();
        let failed = self.current.said.failed;
        self.current.fresh &= !failed;
        if failed {
            self.line.client.consume(request.bytes - head.bytes);
            self.line.client.out().ready(self.line.primary.status);
        }
        self.settle().await;
        self.line.send().await
    }

    /// True if the next statement would be the first of a block that may run at a standby.
    pub(super) fn may_be_first_of_snapshot(&self) -> bool {
        self.txn.is_fresh() && self.state.read_only_snapshot()
    }
}

/// Treatment of a batch of several statements, one of them about a setting of Consort's. A BEGIN before it, or statements
/// that are parsed before it, are the head of the batch.
pub(super) fn own_apart(session: &mut Session, todo: Todo, bytes: &[u8]) -> Result<Todo, Ended> {
    if !matches!(todo, Todo::Own(_)) {
        return Ok(todo);
    }
    let splitter = session.line.client.splitter;
    let (part, length) = split_batch::first(bytes, splitter).map_err(Ended::Malformed)?;
    let idle = session.state.block() == BlockStatus::Idle;
    if part == Part::Control || part == Part::Statement && idle && session.is_begin(&bytes[..length])? {
        session.current.meant.head = Some(length);
        return Ok(Todo::Quiet);
    }
    Ok(Todo::Refuse(not_alone()))
}
