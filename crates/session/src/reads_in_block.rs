//! A read that leaves a read-write block. On one server it would lock what it reads until the block ends, so that nobody
//! empties or alters it meanwhile. So the primary is given the statement too, to be bound and no more: that takes the very
//! locks that running it would take, in its savepoint and by its role, or fails as it would have failed. It costs the primary
//! what planning costs, unless it has the statement under a name or the block has locked these relations already; only
//! statements that are known to take longer leave.

use super::Session;
use super::primary::{Ended, ToBind};
use backend::batch;
use backend::prepared_statements::Statement as Prepared;
use backend::request::Kind;
use cluster::plan::{Leaving, Writing};
use scheduler::Reason;
use statement_analysis::shape::Shape;
use std::rc::Rc;
use std::time::Duration;
use transaction::{AtPrimary, Locks};
use wire::{Answers, Frame, Malformed, Problem, Status};

/// A statement that takes less than this on average stays with its block: to lock what it reads costs about as much.
const WORTH: Duration = Duration::from_millis(2);

/// A read inside a block that takes less time than its way to a standby is worth.
const SHORT_IN_BLOCK: Reason = Reason::Stay("short_in_block");
/// Its next rows must come from the same portal.
const IN_PARTS: Reason = Reason::Stay("rows_in_parts");

/// What makes the primary's block fail, because a statement of it failed elsewhere.
const FAIL: &str = "DO LANGUAGE plpgsql $consort$BEGIN \
                    RAISE EXCEPTION 'a statement of this transaction failed at a standby'; END$consort$";

impl Session {
    /// A read inside a block that stands.
    pub(super) async fn read_in_block(&mut self, leaving: &Leaving) {
        if self.asks_for_a_part() {
            return self.quiet(IN_PARTS).await;
        }
        let block_stays = !self.service.cluster.setup().reads_in_blocks && !self.state.block_reads_only();
        if block_stays || self.reads_wait() {
            // A transaction that may write is the primary's.
            return self.quiet(super::IN_BLOCK).await;
        }
        let Some(mut block) = self.txn.takes_block() else { return self.quiet(super::IN_BLOCK).await };
        if !self.takes_long(&self.words.shape) {
            self.keep_block(Some(block));
            return self.quiet(SHORT_IN_BLOCK).await;
        }
        if leaving.catalog != self.database.version() {
            self.keep_block(Some(block));
            return self.writes(Writing::everything(Reason::CatalogChanged)).await;
        }
        let ended = block.read(self, &leaving.question, leaving.template.depends_on.locks.as_ref()).await;
        self.keep_block(Some(block));
        if matches!(ended, transaction::Ended::Standby { .. }) {
            self.line.primary.read_ran_elsewhere();
        }
        self.read_ended(ended, leaving);
    }

    /// Whether the client wants some rows now and the others later: they must come from the same portal.
    fn asks_for_a_part(&self) -> bool {
        self.current.request.filter(|request| request.kind == Kind::Batch).is_some_and(|request| {
            let batch = batch::read(self.line.bytes(request), self.line.client.splitter);
            batch.is_ok_and(|batch| batch.is_some_and(|batch| batch.execute.max_rows != 0))
        })
    }

    /// Statements of this shape are known to take long.
    pub(super) fn takes_long(&self, shape: &Shape) -> bool {
        let routes = self.service.cluster.routes();
        routes.mean(self.database.name(), shape).is_some_and(|mean| mean >= WORTH)
    }

    /// Gives the primary the current statement to be bound, and parsed if it has none of that name, without waiting for its
    /// answer.
    pub(super) fn lock_at_primary(&mut self) -> AtPrimary {
        let Some(request) = self.current.request else { return AtPrimary::Answered };
        let bytes = self.line.bytes(request).to_vec();
        let batch = match request.kind {
            Kind::Batch => batch::read(&bytes, self.line.client.splitter),
            _ => Ok(None),
        };
        match (batch, &self.current.statement) {
            (Ok(Some(batch)), Some(statement)) => {
                let what = match batch.bind.statement {
                    [] => ToBind::Text { statement, describes: batch.describes_statement },
                    name => ToBind::Named(name),
                };
                if let ToBind::Named(name) = what {
                    self.line.primary.learn(name, &mut self.line.statements);
                }
                self.line.primary.ask_bound(&what, Some(batch.bind.rest));
            }
            _ => {
                let text =
                    Frame::new(&bytes).and_then(|frame| wire::query_text(&frame).map(Box::<[u8]>::from));
                let Ok(text) = text else {
                    self.ended = Some(Ended::Malformed(Malformed::Body));
                    return AtPrimary::ConnectionLost;
                };
                let statement = Prepared::new(text, []);
                self.line.primary.ask_bound(&ToBind::Text { statement: &statement, describes: false }, None);
            }
        }
        self.line.primary.peer.send_now();
        AtPrimary::Answered
    }

    /// Waits for the primary's answer. An error is what the client would have got there.
    pub(super) async fn locked_at_primary(&mut self) -> Locks {
        let running = self.line.seat.running.clone();
        let settled = if running.is_cancelled() {
            // The request went to the standby; what waits now is the primary.
            tokio::join!(self.line.settled(), Box::pin(running.cancel_at_home())).0
        } else {
            self.line.settled().await
        };
        if let Err(ended) = settled {
            self.ended = Some(ended);
            return Locks::ConnectionLost;
        }
        let Some(error) = self.line.primary.own_error() else { return Locks::Granted };
        let parsed = self.was_parsed();
        self.failed_in_block(&error);
        if let Some(statement) = parsed {
            self.line.statements.parsed_at_standby(statement);
        }
        Locks::Refused
    }

    /// The statement that the client parses with the current request, if only what comes behind it failed at the primary:
    /// the client hears so, and the statement stays.
    fn was_parsed(&mut self) -> Option<Rc<Prepared>> {
        let heard = self.line.primary.aside();
        let request = self.current.request?;
        let parses = self.line.bytes(request).first() == Some(&wire::tag::front::PARSE);
        if !parses || heard.is_empty() {
            return None;
        }
        self.line.client.out().extend_from_slice(&heard);
        self.current.statement.clone()
    }

    /// The current statement failed; the primary's block has failed already.
    pub(super) fn failed_in_block(&mut self, error: &[u8]) {
        self.fails_with(error);
        let status = self.line.primary.status;
        self.line.client.out().ready(status);
    }

    /// The same of a batch whose Sync is still to come.
    pub(super) fn fails_with(&mut self, error: &[u8]) {
        self.line.client.out().extend_from_slice(error);
        self.forget_unnamed();
        self.block_failed();
    }

    /// The current request is done with, and left no unnamed statement behind.
    fn forget_unnamed(&mut self) {
        let Some(request) = self.current.request.take() else { return };
        if self.line.bytes(request).first() != Some(&wire::tag::front::BIND) {
            self.line.statements.query_ran_elsewhere();
        }
        self.line.client.consume(request.bytes);
    }

    /// What the session knows of its block now.
    fn block_failed(&mut self) {
        self.state.statement_failed();
        self.state.ready(self.line.primary.status.byte(), &mut self.service.interner.borrow_mut());
    }

    /// The client got an error from a standby, or gets this one: the primary's block fails too.
    pub(super) async fn fail_block(&mut self, problem: Option<Problem>) {
        if let Err(ended) = self.line.ask(FAIL).await {
            self.ended = Some(ended);
            return;
        }
        if self.line.primary.status == Status::InBlock {
            // It cannot be made to fail, so it must not go on.
            self.ended = Some(Ended::BlockCutOff);
            return;
        }
        if let Some(problem) = problem {
            self.line.client.out().problem(&problem);
            self.forget_unnamed();
            let status = self.line.primary.status;
            self.line.client.out().ready(status);
        }
        self.block_failed();
    }
}
