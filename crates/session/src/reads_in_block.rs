//! Reads that are offloaded from a read-write block. At one server the read would lock its tables until the
//! block ends, so that no other session truncates or alters them meanwhile. So the primary also binds the
//! statement, without executing it. The Bind takes the locks of an execution, in its savepoint and by its
//! role, or fails as an execution would.
//!
//! The cost for the primary is that of planning. There is none if the primary has the statement under a name,
//! or the block has locked these relations already. Only statements that are known to take longer are
//! offloaded.

use super::Session;
use super::answers_ahead::has_begun;
use super::primary::{Ended, ToBind};
use backend::batch;
use backend::prepared_statements::{Statement as Prepared, is_lacked};
use backend::request::Kind;
use cluster::plan::{Leaving, Writing};
use config::OffloadInTransactions;
use scheduler::Reason;
use statement_analysis::shape::Shape;
use std::rc::Rc;
use std::time::Duration;
use transaction::{AtPrimary, Locks};
use wire::{Answers, Frame, Problem, Status};

/// Average time at the server below which a statement stays with its block: locking its tables costs about as much.
const WORTH: Duration = Duration::from_millis(2);

/// The read takes less time than its offload is worth, inside a block.
const SHORT_IN_BLOCK: Reason = Reason::Stay("short_in_block");
/// The next rows must come from the same portal.
pub(super) const IN_PARTS: Reason = Reason::Stay("rows_in_parts");

/// Command that makes the primary's block fail, because a statement of it failed elsewhere.
const FAIL: &str = "DO LANGUAGE plpgsql $consort$BEGIN \
                    RAISE EXCEPTION 'a statement of this transaction failed at a standby'; END$consort$";

impl Session {
    /// Runs a read inside a read-write block.
    pub(super) async fn read_in_block(&mut self, leaving: &Leaving) {
        if self.asks_for_a_part() {
            return self.quiet(IN_PARTS).await;
        }
        let setup = self.service.cluster.setup();
        let block_stays =
            setup.offload_in_transactions == OffloadInTransactions::Off && !self.state.block_reads_only();
        if block_stays || self.reads_wait() {
            // A transaction that may write is the primary's.
            return self.quiet(super::IN_BLOCK).await;
        }
        let Some(mut block) = self.txn.takes_block() else { return self.quiet(super::IN_BLOCK).await };
        if !takes_long(self, &self.words.shape) {
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

    /// True if the client fetches the rows in parts: all must come from the same portal.
    pub(super) fn asks_for_a_part(&self) -> bool {
        self.current.request.filter(|request| request.kind == Kind::Batch).is_some_and(|request| {
            let batch = batch::read(self.line.bytes(request), self.line.client.splitter);
            batch.is_ok_and(|batch| batch.is_some_and(|batch| batch.execute.max_rows != 0))
        })
    }

    /// Waits for the primary's answer. An error is the one that the client would have received there.
    pub(super) async fn locked_at_primary(&mut self) -> Locks {
        if !bound_at_primary(self).await {
            return Locks::ConnectionLost;
        }
        let Some(error) = self.line.primary.own_error() else { return Locks::Granted };
        let parsed = was_parsed(self);
        self.failed_in_block(&error);
        if let Some(statement) = parsed {
            self.line.statements.parsed_at_standby(statement);
        }
        Locks::Refused
    }

    /// Answers the current statement with an error; the primary's block has failed already.
    pub(super) fn failed_in_block(&mut self, error: &[u8]) {
        self.fails_with(error);
        let status = self.line.primary.status;
        self.line.client.out().ready(status);
    }

    /// Answers a batch whose Sync is still to come with an error; the primary's block has failed already.
    pub(super) fn fails_with(&mut self, error: &[u8]) {
        self.line.client.out().extend_from_slice(error);
        forget_unnamed(self);
        block_failed(self);
    }

    /// Fails the primary's block too: the client received an error from a standby, or receives this one.
    pub(super) async fn fail_block(&mut self, problem: Option<Problem>) {
        let asked = match has_begun(self).await {
            Ok(()) => self.line.ask(FAIL).await.map(drop),
            lost => lost,
        };
        if let Err(ended) = asked {
            self.ended = Some(ended);
            return;
        }
        if self.line.primary.status == Status::InBlock {
            // The block cannot be made to fail, so it must not go on.
            self.ended = Some(Ended::BlockCutOff);
            return;
        }
        if let Some(problem) = problem {
            self.line.client.out().problem(&problem);
            let goes_on = self.current.request.is_some_and(|request| request.kind.goes_on());
            forget_unnamed(self);
            if goes_on {
                // The Sync is still to come.
                (self.skipping, self.current.flushed) = (true, false);
            } else {
                let status = self.line.primary.status;
                self.line.client.out().ready(status);
            }
        }
        block_failed(self);
    }
}

/// Has the primary bind the current statement, without waiting for the answer.
pub(super) async fn lock_at_primary(session: &mut Session) -> AtPrimary {
    let Some(request) = session.current.request else { return AtPrimary::Answered };
    let bytes = session.line.bytes(request).to_vec();
    let statement = session.current.statement.clone();
    let bound = match has_begun(session).await {
        Ok(()) => bind_at_primary(session, request.kind, &bytes, statement.as_ref()),
        lost => lost,
    };
    if let Err(ended) = bound {
        session.ended = Some(ended);
        return AtPrimary::ConnectionLost;
    }
    session.line.primary.peer.send_now();
    AtPrimary::Answered
}

/// Waits until the primary has bound all reads, or has answered with an error. `false`: the session ends.
pub(super) async fn bound_at_primary(session: &mut Session) -> bool {
    let running = session.line.seat.running.clone();
    let settled = if running.is_cancelled() {
        // The request went to the standby; the pending work is at the primary.
        tokio::join!(session.line.settled(), Box::pin(running.cancel_at_home())).0
    } else {
        session.line.settled().await
    };
    session.ended = settled.err();
    session.ended.is_none()
}

/// Has the primary bind this read, without waiting for the answer. A named statement that the connection lacks
/// is bound by its text: the client receives one error if the primary refuses it.
pub(super) fn bind_at_primary(
    session: &mut Session,
    kind: Kind,
    bytes: &[u8],
    statement: Option<&Rc<Prepared>>,
) -> Result<(), Ended> {
    let batch = match kind {
        Kind::Batch => batch::read(bytes, session.line.client.splitter).map_err(Ended::Malformed)?,
        _ => None,
    };
    let primary = &mut session.line.primary;
    let (Some(batch), Some(statement)) = (batch, statement) else {
        let frame = Frame::new(bytes).map_err(Ended::Malformed)?;
        let text = Box::<[u8]>::from(wire::query_text(&frame).map_err(Ended::Malformed)?);
        let statement = Prepared::new(text, []);
        primary.ask_bound(&ToBind::Text { statement: &statement, describes: false }, None);
        return Ok(());
    };
    let name = batch.bind.statement;
    let what = if name.is_empty() || is_lacked(&session.line.statements, name) {
        ToBind::Text { statement, describes: batch.describes_statement }
    } else {
        ToBind::Named(name)
    };
    primary.ask_bound(&what, Some(batch.bind.rest));
    Ok(())
}

/// True if statements of this shape are known to take long at the server.
pub(super) fn takes_long(session: &Session, shape: &Shape) -> bool {
    let routes = session.service.cluster.routes();
    routes.cost(session.database.name(), shape).is_some_and(|cost| cost >= WORTH)
}

/// The statement that the client parses with the current request, if only the rest of the request failed
/// at the primary. The client receives its ParseComplete, and the statement stays.
fn was_parsed(session: &mut Session) -> Option<Rc<Prepared>> {
    let heard = session.line.primary.aside();
    let request = session.current.request?;
    let parses = session.line.bytes(request).first() == Some(&wire::tag::front::PARSE);
    if !parses || heard.is_empty() {
        return None;
    }
    session.line.client.out().extend_from_slice(&heard);
    session.current.statement.clone()
}

/// Consumes the current request, which left no unnamed statement.
fn forget_unnamed(session: &mut Session) {
    let Some(request) = session.current.request.take() else { return };
    if session.line.bytes(request).first() != Some(&wire::tag::front::BIND) {
        session.line.statements.query_ran_elsewhere();
    }
    session.line.client.consume(request.bytes);
}

/// Records that the block has failed.
fn block_failed(session: &mut Session) {
    session.state.statement_failed();
    session.state.ready(session.line.primary.status.byte(), &mut session.service.interner.borrow_mut());
}
