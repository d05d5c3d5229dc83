//! Runs statements of one session at nodes, and hands their rows to the client.

use super::answers::{failure, write_columns};
use super::block::{Block, for_client};
use super::node_connection::Identity;
use super::scheduler::{Placed, Scheduler, Work, silent};
use super::settings::Settings;
use super::{Gone, Outcome, Step};
use crate::message::{Begin, Column, ELSEWHERE, Failure, Reply, Request, Run, Version};
use conn::peer::{GATHERED_BYTES, Peer};
use conn::random;
use conn::registry::Seat;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until, timeout};
use wire::Answers;

/// A cancel request is sent again after this time: it may come before its statement.
const CANCEL_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// A statement whose client has gone is waited for so long.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);
/// SQLSTATE of a statement that was cancelled.
const CANCELED: &str = "57014";
/// Hint of an error that leaves the outcome of a transaction open.
pub(super) const UNKNOWN_HINT: &str =
    "The transaction may or may not have been committed: look for its changes before you run it again.";
/// SQLSTATE of a write in a read-only transaction.
pub(super) const READ_ONLY: &str = "25006";
/// SQLSTATE of a transaction that may succeed when it is run again.
pub(super) const SERIALIZATION_FAILURE: &str = "40001";

/// Rows of a statement on their way.
#[derive(Default)]
pub(super) struct Rows {
    /// The description that the client gets before them.
    head: Vec<u8>,
    /// DataRow messages.
    pub(super) messages: Vec<u8>,
    /// Number of those that are held.
    pub(super) count: u64,
    /// A statement without rows is told by NoData, if its columns are asked for.
    pub(super) tells_no_data: bool,
    /// All rows stay here, up to this number of bytes.
    pub(super) holds: Option<usize>,
    /// Some have left: the statement cannot be run again.
    left: bool,
    /// More came than may be held.
    overflows: bool,
}

impl Rows {
    /// Rows that are held, up to a number of bytes.
    pub(super) fn held(limit: usize) -> Rows {
        Rows { holds: Some(limit), ..Rows::default() }
    }

    /// Takes rows that no node has given.
    pub(super) fn take(&mut self, head: Vec<u8>, messages: Vec<u8>, count: usize) {
        (self.head, self.messages, self.count) = (head, messages, count as u64);
    }

    /// Whether nothing has left yet.
    pub(super) fn is_whole(&self) -> bool {
        !self.left
    }

    pub(super) fn forget(&mut self) {
        *self = Rows { holds: self.holds, tells_no_data: self.tells_no_data, ..Rows::default() };
    }
}

/// Answer to a statement.
pub(super) enum Answer {
    /// Its tag, and the version of its commit or read if it was a transaction.
    Done(String, Option<Version>),
    /// The failure of the statement.
    Failed(Failure),
    /// The node has gone: why.
    Lost(String),
}

/// The session's side of the nodes.
pub(super) struct Executor {
    pub(super) client: Peer,
    pub(super) seat: Rc<Seat>,
    pub(super) scheduler: Rc<Scheduler>,
    pub(super) settings: Settings,
    pub(super) block: Option<Block>,
    /// The client was asked for data of a COPY.
    pub(super) has_copied: bool,
    identity: Rc<Identity>,
    /// Settings that the identity was made of.
    identified: Settings,
    /// End of the time that the statement may take.
    deadline: Option<Instant>,
}

impl Executor {
    pub(super) fn new(
        client: Peer,
        seat: Rc<Seat>,
        scheduler: Rc<Scheduler>,
        settings: Settings,
    ) -> Executor {
        let identity = Rc::new(identity(&seat, &settings));
        let identified = settings.clone();
        Executor {
            client,
            seat,
            scheduler,
            settings,
            block: None,
            has_copied: false,
            identity,
            identified,
            deadline: None,
        }
    }

    /// A statement begins: its time limit runs.
    pub(super) fn begin_statement(&mut self) {
        let limit = self.settings.limit("statement_timeout");
        self.deadline = limit.map(|limit| Instant::now() + limit);
    }

    /// The identity of the session's transactions now.
    pub(super) fn identity(&mut self) -> Rc<Identity> {
        if self.identified != self.settings {
            let new = identity(&self.seat, &self.settings);
            if new != *self.identity {
                self.identity = Rc::new(new);
            }
            self.identified = self.settings.clone();
        }
        self.identity.clone()
    }

    /// Beginning of a transaction at the newest acknowledged version. A node must have been found before: a Consort that has just
    /// started knows of no version until then.
    pub(super) fn begin_at(&self, writes: bool, time_us: i64, seed: u64) -> Begin {
        let tier = &self.scheduler.tier;
        let wait_ms = u32::try_from(tier.options.limits.replica_wait.as_millis()).unwrap_or(u32::MAX);
        Begin { at: tier.newest(), wait_ms, writes, time_us, seed }
    }

    /// Latest moment at which a node for a transaction that begins now must have been found.
    pub(super) fn place_by(&self) -> Instant {
        Instant::now() + self.scheduler.tier.options.limits.master_wait
    }

    /// A connection to a node for this work.
    pub(super) async fn place(&self, work: Work, avoided: &[usize], by: Instant) -> Outcome<Placed> {
        tokio::select! {
            placed = self.scheduler.place(work, self.scheduler.tier.newest(), avoided, by) => Ok(placed),
            why = self.seat.sent_away() => Err(Gone::Away(why)),
            () = self.seat.running.cancelled() => Ok(Err(failure_of(CANCELED, "canceling statement due to user request"))),
        }
    }

    /// Runs a statement that is a transaction of its own.
    ///
    /// A read that cannot run at one node runs at another; a write runs once.
    pub(super) async fn once(&mut self, work: Work, run: &Run, rows: &mut Rows) -> Outcome<String> {
        let by = self.place_by();
        let mut avoided = Vec::new();
        let seed = seed();
        loop {
            let mut placed = match self.place(work, &avoided, by).await? {
                Ok(placed) => placed,
                Err(failure) => return Ok(Err(failure)),
            };
            let begin = self.begin_at(work == Work::Writes, run.time_us, seed);
            placed.connection.is_for(&self.identity());
            placed.connection.ask(&Request::Once(begin, run.clone()));
            let node = placed.connection.node;
            let commits = work == Work::Writes;
            match self.answer(&mut placed, run, rows, Wait { commits, ..Wait::of_statement() }).await? {
                Answer::Done(tag, version) => {
                    if let Some(version) = version {
                        self.scheduler.tier.acknowledged(version);
                    }
                    self.scheduler.give_back(placed);
                    return Ok(Ok(tag));
                }
                Answer::Failed(failure) if failure.sqlstate == ELSEWHERE && !rows.left => {
                    self.scheduler.give_back(placed);
                    rows.forget();
                    avoided.push(node);
                    if let Err(failure) = self.elsewhere(work, &failure, by).await? {
                        return Ok(Err(failure));
                    }
                }
                Answer::Failed(failure) => {
                    self.scheduler.give_back(placed);
                    return Ok(Err(for_client(failure)));
                }
                Answer::Lost(why) => {
                    drop(placed);
                    self.scheduler.lost(node, &why);
                    if work == Work::Writes {
                        return Ok(Err(self.unknown_outcome().await));
                    }
                    if rows.left {
                        return Ok(Err(node_is_gone()));
                    }
                    rows.forget();
                    avoided.push(node);
                    if let Err(failure) = self.elsewhere(work, &gone_before(), by).await? {
                        return Ok(Err(failure));
                    }
                }
            }
        }
    }

    /// The answer to a commit was lost. Waits until the client's next read shows what became of it, if that is soon.
    pub(super) async fn unknown_outcome(&self) -> Failure {
        let tier = &self.scheduler.tier;
        tokio::select! {
            _ = timeout(tier.options.limits.master_wait, tier.until_settled()) => {}
            _ = self.seat.sent_away() => {}
            () = self.seat.running.cancelled() => {}
        }
        failure("08007", "the master is gone, and the transaction's outcome is unknown", UNKNOWN_HINT)
    }

    /// A node does not take the work: waits a little if no other one does.
    pub(super) async fn elsewhere(&self, work: Work, failure: &Failure, by: Instant) -> Outcome<()> {
        if Instant::now() >= by {
            let hint = "Try again. SHOW NODES in Consort's console shows the nodes.";
            return Ok(Err(super::answers::failure("57P03", failure.message.clone(), hint)));
        }
        tracing::debug!(why = failure.message, ?work, "a node does not take a transaction");
        if work == Work::Writes || self.scheduler.tier.options.nodes.len() == 1 {
            let again = Instant::now() + CANCEL_AGAIN_AFTER;
            tokio::select! {
                () = self.scheduler.tier.until_changed() => {}
                () = sleep_until(again) => {}
                why = self.seat.sent_away() => return Err(Gone::Away(why)),
            }
        }
        Ok(Ok(()))
    }

    /// Types of a statement: of its parameters and its result.
    pub(super) async fn described(&mut self, work: Work, text: &str, types: &[u32]) -> Outcome<Described> {
        let (by, mut avoided) = (self.place_by(), Vec::new());
        loop {
            let own = self.block.as_mut().and_then(|block| block.placed.take());
            let is_own = own.is_some();
            let mut placed = match own {
                Some(placed) => placed,
                None => match self.place(work, &avoided, by).await? {
                    Ok(placed) => placed,
                    Err(failure) => return Ok(Err(failure)),
                },
            };
            let node = placed.connection.node;
            let at = self.scheduler.tier.newest();
            let request = Request::Describe { at, text: text.to_owned(), types: types.to_vec() };
            placed.connection.is_for(&self.identity());
            placed.connection.ask(&request);
            let reply = self.reply(&mut placed, &mut Wait::default()).await?;
            let described = match reply {
                Ok(Reply::Described { parameters, columns }) => Ok(Described { parameters, columns }),
                Ok(Reply::Failed(failure)) => Err(failure),
                Ok(_) => return self.described_nowhere(node, is_own, "an answer out of order"),
                Err(why) if is_own => return self.described_nowhere(node, is_own, &why),
                Err(why) => {
                    self.scheduler.lost(node, &why);
                    avoided.push(node);
                    match self.elsewhere(work, &gone_before(), by).await? {
                        Ok(()) => continue,
                        Err(failure) => return Ok(Err(failure)),
                    }
                }
            };
            placed.connection.is_answered();
            match self.block.as_mut().filter(|_| is_own) {
                Some(block) => block.placed = Some(placed),
                None => self.scheduler.give_back(placed),
            }
            return Ok(described);
        }
    }

    fn described_nowhere(&mut self, node: usize, is_own: bool, why: &str) -> Outcome<Described> {
        self.scheduler.lost(node, why);
        if is_own {
            self.lose_block();
        }
        Ok(Err(node_is_gone()))
    }

    /// Takes the answer to one statement. Rows that are not held go to the client as soon as more follow.
    pub(super) async fn answer(
        &mut self,
        placed: &mut Placed,
        run: &Run,
        rows: &mut Rows,
        mut wait: Wait,
    ) -> Step<Answer> {
        loop {
            match self.reply(placed, &mut wait).await? {
                Ok(Reply::Described { columns, .. }) => match columns {
                    Some(columns) => write_columns(&mut rows.head, &columns, &run.result_formats),
                    None if rows.tells_no_data => rows.head.no_data(),
                    None => {}
                },
                Ok(Reply::Rows { messages, count }) => {
                    if rows.holds.is_none() && !rows.messages.is_empty() {
                        self.release(rows).await?;
                    }
                    match rows.holds {
                        Some(limit) if rows.messages.len() + messages.len() > limit => {
                            rows.overflows = true;
                            wait.cancels();
                        }
                        _ => rows.messages.extend_from_slice(&messages),
                    }
                    rows.count += u64::from(count);
                }
                Ok(Reply::Done { tag, version, .. }) => {
                    placed.connection.is_answered();
                    if rows.overflows {
                        return Ok(Answer::Failed(too_large()));
                    }
                    if rows.holds.is_none() {
                        self.release(rows).await?;
                    }
                    return Ok(Answer::Done(tag, version));
                }
                Ok(Reply::Failed(failure)) => {
                    placed.connection.is_answered();
                    return Ok(Answer::Failed(match failure.sqlstate.as_str() {
                        CANCELED if rows.overflows => too_large(),
                        _ => wait.explain(failure),
                    }));
                }
                Ok(_) => return Ok(Answer::Lost("an answer out of order".to_owned())),
                Err(why) => return Ok(Answer::Lost(why)),
            }
        }
    }

    /// The node's next answer. A cancel request, the statement's time limit and the session's end are obeyed meanwhile.
    pub(super) async fn reply(
        &mut self,
        placed: &mut Placed,
        wait: &mut Wait,
    ) -> Step<Result<Reply, String>> {
        let connection = &mut placed.connection;
        let node = connection.node;
        let is_silent = self.scheduler.tier.until(|tier| tier.is_silent(node));
        tokio::pin!(is_silent);
        tokio::select! {
            sent = connection.send() => if let Err(error) = sent {
                return Ok(Err(error.to_string()));
            },
            () = &mut is_silent => return Ok(Err(silent().to_string())),
            why = self.seat.sent_away() => return Err(Gone::Away(why)),
        }
        loop {
            let limit = self.deadline.filter(|_| wait.may_begin_to_cancel());
            tokio::select! {
                biased;
                reply = connection.reply() => return Ok(reply.map_err(|error| error.to_string())),
                () = &mut is_silent => return Ok(Err(silent().to_string())),
                why = self.seat.sent_away() => {
                    let (scheduler, session) = (self.scheduler.clone(), connection.session);
                    spawn_local(async move { scheduler.cancel(node, session).await });
                    return Err(if wait.commits { Gone::AwayInCommit(why) } else { Gone::Away(why) });
                }
                () = poll_fn(|cx| self.client.poll_closed(cx)), if wait.may_leave() => {
                    wait.leaves();
                }
                () = until(wait.leave_by), if wait.leave_by.is_some() => return Err(Gone::Client),
                () = self.seat.running.cancelled(), if wait.may_begin_to_cancel() => wait.cancels(),
                () = until(limit), if limit.is_some() => {
                    wait.timed_out = true;
                    wait.cancels();
                }
                () = until(wait.cancel_at), if wait.cancel_at.is_some() => {
                    self.scheduler.cancel(connection.node, connection.session).await;
                    wait.cancel_at = Some(Instant::now() + CANCEL_AGAIN_AFTER);
                }
            }
        }
    }

    /// Hands held rows to the client.
    pub(super) async fn release(&mut self, rows: &mut Rows) -> Step<()> {
        rows.left = true;
        let out = self.client.out();
        out.append(&mut rows.head);
        out.append(&mut rows.messages);
        self.relieve().await
    }

    /// Sends what the client gets, if it is much.
    pub(super) async fn relieve(&mut self) -> Step<()> {
        if self.client.unsent() <= GATHERED_BYTES {
            return Ok(());
        }
        tokio::select! {
            sent = self.client.send() => sent.map_err(|_| Gone::Client),
            why = self.seat.sent_away() => Err(Gone::Away(why)),
        }
    }
}

/// Types of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Described {
    /// OIDs of its parameters.
    pub(super) parameters: Vec<u32>,
    /// Columns of its result, if it returns rows.
    pub(super) columns: Option<Vec<Column>>,
}

/// A wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Wait {
    /// The statement may be cancelled.
    cancellable: bool,
    /// The statement ends when its client goes.
    leaves_with_client: bool,
    /// The answer tells the outcome of a commit.
    commits: bool,
    timed_out: bool,
    /// Moment of the next cancel request.
    cancel_at: Option<Instant>,
    /// The client has gone: the answer is waited for until then, so that the cancel requests meet their statement.
    leave_by: Option<Instant>,
}

impl Wait {
    /// The wait for a statement's answer.
    pub(super) fn of_statement() -> Wait {
        Wait { cancellable: true, leaves_with_client: true, ..Wait::default() }
    }

    /// The wait for a commit's answer. A client that has sent COMMIT may go: it commits.
    pub(super) fn of_commit() -> Wait {
        Wait { cancellable: true, commits: true, ..Wait::default() }
    }

    /// The failure as the client gets it: a node does not know why it was asked to cancel a statement.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match failure.sqlstate.as_str() {
            CANCELED if self.timed_out => {
                failure_of(CANCELED, "canceling statement due to statement timeout")
            }
            CANCELED => failure_of(CANCELED, "canceling statement due to user request"),
            _ => failure,
        }
    }

    fn may_leave(&self) -> bool {
        self.leaves_with_client && self.leave_by.is_none()
    }

    fn may_begin_to_cancel(&self) -> bool {
        self.cancellable && self.cancel_at.is_none()
    }

    fn cancels(&mut self) {
        self.cancel_at.get_or_insert_with(Instant::now);
    }

    fn leaves(&mut self) {
        self.leave_by = Some(Instant::now() + LEAVE_LIMIT);
        self.cancels();
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn identity(seat: &Seat, settings: &Settings) -> Identity {
    let lock_timeout = settings.limit("lock_timeout").unwrap_or_default();
    Identity {
        user: seat.user.clone(),
        database: seat.database.clone(),
        settings: settings.for_nodes(),
        lock_timeout_ms: u64::try_from(lock_timeout.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Now, in microseconds since 1970.
pub(super) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A seed of `random()`.
pub(super) fn seed() -> u64 {
    let secret = random::secret();
    u64::from_be_bytes(*secret.first_chunk().expect("32 bytes"))
}

fn failure_of(sqlstate: &str, message: &str) -> Failure {
    failure(sqlstate, message, "")
}

fn too_large() -> Failure {
    let hint = "Fetch all rows at once (no row limit), or read in smaller pieces with LIMIT.";
    failure("54000", "the rest of the result is larger than a portal may hold", hint)
}

/// The node has gone before anything of a result has left: another one may do better.
pub(super) fn gone_before() -> Failure {
    failure(ELSEWHERE, "the nodes that were asked are gone", "")
}

/// The node has gone in the middle of a transaction or a result.
pub(super) fn node_is_gone() -> Failure {
    let hint = "Nothing of the transaction was committed. Run it again.";
    failure(SERIALIZATION_FAILURE, "the node that ran the transaction is gone", hint)
}
