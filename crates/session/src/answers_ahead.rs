//! Answers ahead of the primary: Consort sends the BEGIN of a READ COMMITTED block to the primary and answers
//! it at once. The same holds for the COMMIT of a block that the primary knows by its BEGIN alone.
//!
//! ```text
//!   BEGIN      sent and answered
//!   a read     at a standby; its answer waits until the primary has begun the block
//!   the rest   waits until the primary has begun the block, and is sent then
//!   COMMIT     sent and answered, if the primary has received nothing but BEGIN; before the connection is
//!              used again, the primary's answer is read
//! ```

use super::Session;
use super::primary::{Ended, send_answered};
use backend::batch::{self, Batch};
use backend::prepared_statements::{Statement as Prepared, types};
use backend::request::{Kind, Request};
use session_state::utility::{Isolation, Modes, Statement, Utility, What};
use session_state::{Answer, BlockStatus};
use wire::{Answers, Problem, Status};

/// Tag of an answer ahead, and the session's transaction status after it.
pub(super) type Ahead = (&'static str, Status);

/// The answer to the current statement, which runs at the primary, if Consort may give it ahead in a design
/// whose blocks defer locks.
pub(super) fn ahead(session: &Session, request: Request) -> Option<Ahead> {
    let [Statement { what: What::Utility(utility), .. }] = &*session.current.statements else { return None };
    let ahead = match utility {
        Utility::Begin(modes) if begins_plainly(session, modes) => ("BEGIN", Status::InBlock),
        Utility::Commit { chain: false } if session.current.meant.is_unreached => ("COMMIT", Status::Idle),
        _ => return None,
    };
    let is_at_hand = !session.line.away && !session.line.primary_gone;
    // The end of a block would come before its notifications.
    let hears = session.line.primary.notified.listens || session.line.ear.is_some();
    let is_plain = session.words.text.is_ascii() && !session.words.text.is_empty();
    (is_alone(session, request) && is_at_hand && is_plain && !hears).then_some(ahead)
}

/// True if the request is one statement without parameters, and nothing else: all of it is answered.
fn is_alone(session: &Session, request: Request) -> bool {
    if request.kind != Kind::Batch {
        return request.kind == Kind::Query;
    }
    let batch = batch::read(session.line.bytes(request), session.line.client.splitter);
    let is_without = |batch: &Batch<'_>| batch.bind.parameters().next().is_none();
    let declares = |statement: &Prepared| !types(&statement.types).is_empty();
    batch.is_ok_and(|batch| batch.as_ref().is_some_and(is_without))
        && !session.current.statement.as_deref().is_some_and(declares)
}

/// True if a BEGIN with these modes begins a READ COMMITTED block, and no answer of the primary is missing.
fn begins_plainly(session: &Session, modes: &Modes) -> bool {
    let isolation = modes.isolation.unwrap_or_else(|| session.state.isolation());
    isolation == Isolation::ReadCommitted
        && modes.deferrable.is_none()
        && !session.state.wants_snapshots()
        && session.state.block() == BlockStatus::Idle
        && session.line.status() == Status::Idle
        && session.line.primary.is_settled()
}

/// Sends the current statement to the primary and answers it.
pub(super) fn answer_ahead(
    session: &mut Session,
    request: Request,
    (tag, status): Ahead,
) -> Result<(), Ended> {
    session.line.goes_on()?;
    session.line.primary.begin(request.kind);
    send_answered(&mut session.line.primary, session.words.text.as_bytes(), status);
    session.txn.begins().is_unheard = status == Status::InBlock;
    session.say(request, &Ok(Answer::Tag(tag)));
    session.line.client.out().ready(status);
    Ok(())
}

/// Waits until the session's connection is ready for the current statement.
pub(super) async fn is_ready_for(session: &mut Session, request: Request) -> Result<(), Ended> {
    has_begun(session).await?;
    session.keep_columns_in(request).await
}

/// Waits until the primary has begun the session's block, if its BEGIN was answered ahead. Otherwise the
/// session ends: what follows would run outside the block.
pub(super) async fn has_begun(session: &mut Session) -> Result<(), Ended> {
    if !session.txn.at_primary().is_some_and(|at| std::mem::take(&mut at.is_unheard)) {
        return Ok(());
    }
    session.line.settled().await?;
    // A statement that Consort has prepared again meanwhile may have failed the block.
    if session.line.primary.status != Status::Idle {
        return Ok(());
    }
    Err(has_not_begun(session))
}

/// Tells the client that the block whose BEGIN was answered ahead does not exist.
pub(super) fn has_not_begun(session: &mut Session) -> Ended {
    session.line.client.out().problem(&Problem::fatal("08006", "the primary did not begin the transaction"));
    Ended::NoServer
}
