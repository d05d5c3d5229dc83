//! Deferred locks: a read of a block that runs at a standby before the block's first other statement at the
//! primary. The session keeps the read, and has the primary bind it before that statement, which takes the
//! read's locks (`transaction::Block::open`).

use super::consort_settings::cancelled;
use super::reads_in_block::{IN_PARTS, bind_at_primary, bound_at_primary};
use super::{Mode, Session};
use backend::prepared_statements::Statement as Prepared;
use backend::request::{Kind, Request};
use cluster::Cluster;
use cluster::plan::{Leaving, Writing};
use config::OffloadInTransactions;
use history::{Consistency, Footprint};
use order::DoubtId;
use scheduler::Reason;
use session_state::utility::Utility;
use std::rc::Rc;
use transaction::{AtPrimary, Locks};
use wire::{Answers, Complaint, Frame, Problem, Status};

/// Maximum number of kept reads of a block.
const READS_KEPT: usize = 16;
/// Maximum total size of the kept reads of a block, in bytes.
const READS_KEPT_BYTES: usize = 64 * 1024;

/// SQLSTATEs by which one server refuses a lock: a timeout, a cancel, a deadlock, a shutdown.
const LOCK_ERRORS: [&[u8]; 5] = [b"55P03", b"57014", b"40P01", b"57P01", b"25P03"];

/// The reads of a block whose locks are deferred.
#[derive(Default)]
pub(super) struct DeferredReads {
    kept: Vec<DeferredRead>,
    bytes: usize,
}

/// A read as the client sent it.
struct DeferredRead {
    kind: Kind,
    bytes: Box<[u8]>,
    statement: Option<Rc<Prepared>>,
}

/// True if the read may run at a standby and defer its locks.
pub(super) fn may_defer_locks(session: &Session) -> bool {
    defers_locks(session) && session.txn.block().is_some_and(transaction::Block::may_defer_locks)
}

/// True if this read may run at a standby and defer its locks. Below `strong` nothing would prove that the locks
/// could have been held.
pub(super) fn defers_locks_of(session: &Session, leaving: &Leaving) -> bool {
    leaving.question.consistency == Consistency::Strong && may_defer_locks(session)
}

/// True if blocks of the session may defer locks.
pub(super) fn defers_locks(session: &Session) -> bool {
    let setting = session.service.cluster.setup().offload_in_transactions;
    setting == OffloadInTransactions::On && session.mode.defers_locks()
}

/// Opens the session's block at the primary before a statement that runs there, if the block defers locks.
/// `false`: the block has failed, and the client has the error.
pub(super) async fn opens_block(session: &mut Session) -> bool {
    if !session.txn.block().is_some_and(transaction::Block::may_defer_locks) {
        return true;
    }
    let Some(mut block) = session.txn.takes_block() else { return true };
    let opened = block.open(session).await;
    session.txn.begins().block = Some(block);
    opened.is_ok()
}

/// Runs a read that may defer its locks.
pub(super) async fn read_unlocked(session: &mut Session, leaving: &Leaving) {
    if session.asks_for_a_part() {
        return session.quiet(IN_PARTS).await;
    }
    if leaving.catalog != session.database.version() {
        return session.writes(Writing::everything(Reason::CatalogChanged)).await;
    }
    let Some(mut block) = session.txn.takes_block() else { return session.quiet(super::IN_BLOCK).await };
    let locks = leaving.template.depends_on.locks.as_ref();
    let ended = block.read_unlocked(session, &leaving.question, locks).await;
    session.txn.begins().block = Some(block);
    if matches!(ended, transaction::Ended::Standby { .. }) {
        session.line.primary.read_ran_elsewhere();
    }
    session.read_ended(ended, leaving);
}

/// True if the block has room for another read.
pub(super) fn has_room(session: &Session) -> bool {
    let next = session.current.request.map_or(0, |request| request.bytes);
    session
        .txn
        .deferred()
        .is_some_and(|reads| reads.kept.len() < READS_KEPT && reads.bytes + next <= READS_KEPT_BYTES)
}

/// Keeps the current statement.
pub(super) fn keep_read(session: &mut Session) {
    let Some(request) = session.current.request else { return };
    let read = DeferredRead {
        kind: request.kind,
        bytes: session.line.bytes(request).into(),
        statement: session.current.statement.clone(),
    };
    let reads = &mut session.txn.begins().deferred;
    reads.bytes += read.bytes.len();
    reads.kept.push(read);
}

/// Has the primary bind all kept reads. An error of a lock is the one that the client would have received
/// there; any other one shows that a relation has changed.
pub(super) async fn bind_kept_reads(session: &mut Session) -> Locks {
    let reads = std::mem::take(&mut session.txn.begins().deferred);
    for read in &reads.kept {
        if let Err(ended) = bind_at_primary(session, read.kind, &read.bytes, read.statement.as_ref()) {
            session.ended = Some(ended);
            return Locks::ConnectionLost;
        }
    }
    session.line.primary.peer.send_now();
    if !bound_at_primary(session).await {
        return Locks::ConnectionLost;
    }
    let Some(error) = session.line.primary.own_error() else { return Locks::Granted };
    let sqlstate = Frame::new(&error).map(|frame| Complaint::read(&frame).sqlstate().to_vec());
    let is_lock = sqlstate.is_ok_and(|code| LOCK_ERRORS.contains(&code.as_slice()));
    let mut changed = Vec::new();
    changed.problem(&locked_out());
    answer_failed_block(session, if is_lock { &error } else { &changed });
    Locks::Refused
}

/// Records that a request may lock readers out and commit, and that no decoder reports the lock: several
/// statements in one, or the commit of a prepared transaction.
pub(super) fn locks_everything_out(session: &Session, doubt: DoubtId) {
    let Some(database) = session.database.id() else { return };
    let mut scheduler = session.service.cluster.scheduler();
    scheduler.lock_marks.mark(database, &Footprint::Everything);
    scheduler::hold_locks(&mut scheduler, doubt, database, Footprint::Everything);
}

/// Records a command that locks readers out, or may.
pub(super) fn heeds_lock(
    session: &mut Session,
    utility: &Utility,
    block: Option<&mut transaction::Block<Cluster>>,
) {
    let locks = match utility {
        Utility::Lock { exclusive, .. } => *exclusive,
        Utility::Maintain | Utility::Unknown => true,
        // No event trigger fires: REASSIGN OWNED locks tables.
        Utility::Ddl { everywhere, .. } => *everywhere,
        Utility::CommitPrepared(_) => {
            session.current.commits.locks_out = true;
            return;
        }
        _ => false,
    };
    match block {
        Some(block) if locks => block.locks_by_command(),
        // VACUUM FULL and the like write nothing else in their transaction.
        None => session.current.commits.locks_out |= matches!(utility, Utility::Unknown),
        Some(_) => {}
    }
}

/// Fails the block whose locks cannot be taken any more.
pub(super) async fn fail_locked_out(session: &mut Session) -> AtPrimary {
    session.fail_block(None).await;
    if session.ended.is_some() {
        return AtPrimary::ConnectionLost;
    }
    let is_cancelled = session.line.seat.running.is_cancelled();
    let mut error = Vec::new();
    error.problem(&if is_cancelled { cancelled() } else { locked_out() });
    answer_failed_block(session, &error);
    AtPrimary::Answered
}

/// Answers the current request with an error; the primary's block has failed already.
fn answer_failed_block(session: &mut Session, error: &[u8]) {
    let goes_on = session.current.request.is_some_and(|request: Request| request.kind.goes_on());
    session.current.said.failed = true;
    session.fails_with(error);
    if goes_on {
        (session.skipping, session.current.flushed) = (true, false);
    } else {
        session.line.client.out().ready(Status::Failed);
    }
}

impl Mode {
    /// True if blocks of this design may defer locks: their statements are not replicated, and no turn
    /// precedes their commits.
    fn defers_locks(&self) -> bool {
        !self.reads_wait && matches!(self.commits, super::mode::Commits::Plain)
    }
}

fn locked_out() -> Problem {
    let message =
        "could not serialize access due to a concurrent change of a relation that the transaction has read";
    Problem::error("40001", message).hint(
        "Run the transaction again. Its reads before the first write held no locks at the primary \
         (offload_in_transactions).",
    )
}
