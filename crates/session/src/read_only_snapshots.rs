//! REPEATABLE READ READ ONLY transactions that run at a standby as a whole, if the session allows that
//! (`consort.read_only_snapshots`). BEGIN runs at the primary, or is deferred (`deferred_begin.rs`); the
//! first statement decides. If it may be offloaded, and a standby's snapshot is proven for everything, the
//! primary's empty transaction is rolled back.
//!
//! From then on the standby is the client's server: for statements, savepoints and the session's transaction
//! status. A statement that the standby may not answer gets an error that says so, and fails the block as any
//! error does.

use super::Session;
use super::latest_state_reads::let_go;
use super::primary::Ended;
use super::request_analysis::{PARSED_OTHERWISE, Several, Todo, UNKNOWN_STATEMENT};
use super::txn::Origin;
use backend::batch;
use backend::prepared_statements::Statement as Prepared;
use backend::request::{Kind, Request};
use backend::split_batch::{self, Part};
use backend::standby::{Answer, CutOff, Failed, Form, Standby};
use cluster::Cluster;
use cluster::plan::{Leaving, Plan, Writing};
use cluster::routes::Went;
use history::Incarnation;
use scheduler::{Pass, Proof, Ran, Reason, StandbyId, Ticket};
use session_state::Answer as Said;
use session_state::utility::{Utility, What};
use statement_analysis::Stay;
use std::rc::Rc;
use std::time::Duration;
use transaction::{Pinned, Placed, StandbyFailed};
use wire::tag::front;
use wire::{Answers, Frame, Problem, Status, Step};

/// Time limit for a standby to show the required catalog, and for the statement's tree.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Reason why a statement cannot run in a transaction at a logical replica.
const NOT_EQUAL: &str = "a logical replica may answer the statement differently";

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A transaction at a standby.
pub(super) struct Snapshot {
    /// The connection; `None` while it is in use, and once it has failed.
    standby: Option<Box<Standby>>,
    /// The standby, and the proof of its snapshot.
    at: (StandbyId, Incarnation, Proof),
    /// Kind of the server: physical standby or logical replica.
    kind: scheduler::Kind,
    /// The client received an error from Consort, which the standby does not know.
    failed: bool,
    /// A cancel request may be on its way to the connection.
    cancelled: bool,
    /// The transaction delayed a refresh for the maximum time and has ended, unknown to the client.
    let_go: bool,
    /// In designs where reads wait for replicas: the transaction's share in the replica's pending work.
    ticket: Option<Pinned<Cluster>>,
}

impl Snapshot {
    /// Pass by which the transaction delays a refresh.
    pub(super) fn pass(&self) -> Option<Pass> {
        self.ticket.as_ref()?.ticket().pass()
    }
}

/// Outcome of a part of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The client received an error: the rest of its batch is skipped.
    Error,
}

impl Session {
    /// Runs the first statement of a transaction that may run at a standby as a whole.
    pub(super) async fn begin_snapshot(&mut self, leaving: &Leaving) -> Result<(), Ended> {
        let mut question = leaving.question.clone();
        if question.consistency != history::Consistency::Primary {
            // A hint concerns one statement; the snapshot is for all of them.
            question.consistency = self.state.consistency();
        }
        match self.open_for_all(&question).await {
            Ok(Placed::At(pinned)) => self.snapshot_opened(pinned),
            Ok(Placed::Primary(reason)) => {
                self.pay_begin().await?;
                self.quiet(reason).await;
                return Ok(());
            }
            Err(reason) => {
                let problem = self.waited_in_vain(reason);
                self.pay_begin().await?;
                self.fail_block(Some(problem)).await;
                return Ok(());
            }
        }
        let Some(request) = self.current.request else { return Ok(()) };
        let catalog_changed = self.database.version() != leaving.catalog;
        let answered = if catalog_changed { None } else { Some(self.at_snapshot(request).await) };
        let Some(Ok(answer)) = answered else {
            self.end_at_standby().await;
            self.pay_begin().await?;
            if let Some(Err(Failed::LetGo)) = answered {
                self.fail_block(Some(let_go())).await;
                return Ok(());
            }
            let reason = if catalog_changed { Reason::CatalogChanged } else { Reason::StandbyFailed };
            self.quiet(reason).await;
            return Ok(());
        };
        // From here on the transaction is the standby's: the primary's has done nothing, and ends.
        if let Some(Origin::AtPrimary(_)) = self.txn.stands() {
            self.line.primary.ask("ROLLBACK");
            self.line.primary.peer.send_now();
        }
        self.line.elsewhere = Some(Status::InBlock);
        let outcome = self.hand_out(answer).await?;
        self.learned(None, outcome);
        self.ready();
        Ok(())
    }

    /// Records that all reads from here on use this snapshot.
    fn snapshot_opened(&mut self, pinned: Pinned<Cluster>) {
        self.was_proven(pinned.ticket().proof());
        let waits = self.reads_wait();
        let Some(snapshot) = self.txn.snapshot_mut() else { return };
        let (standby, life, _) = snapshot.at;
        let seen = match snapshot.kind {
            scheduler::Kind::Standby => Some(pinned.ticket().low()),
            scheduler::Kind::Fed => {
                pinned.ticket().seen(&Ran { incarnation: life, replayed: None, locked: None })
            }
        };
        let marks = &mut self.reads.marks;
        if let Some(seen) = seen.filter(|seen| *seen > marks.last_seen) {
            marks.last_seen = seen;
            marks.seen_at = Some((standby, life));
        }
        snapshot.ticket = Some(pinned).filter(|_| waits);
    }

    /// Takes the snapshot for a ticket.
    pub(super) async fn begin_at_standby(&mut self, ticket: &Ticket) -> Result<Ran, StandbyFailed> {
        let (id, life) = (ticket.standby(), ticket.incarnation());
        let rooms = self.line.registry.rooms.clone();
        let service = self.service.clone();
        let shelf = self.shelf(id);
        let mut lent = service.lend(ticket, &shelf, &self.who.wish, &rooms).await.map_err(StandbyFailed)?;
        let Some(becomes) = self.becomes(&mut lent) else {
            return Err(StandbyFailed(Reason::NoConnection));
        };
        lent.ask_snapshot(becomes.as_deref());
        let answered = service.answer((id, life), lent).await;
        let answer = answered.map_err(|_| StandbyFailed(Reason::StandbyFailed))?;
        let replayed = answer.position();
        let standby = answer.discard();
        let at = (id, life, ticket.proof());
        let kind = ticket.kind();
        let (failed, cancelled, let_go) = (false, false, false);
        let snapshot = Snapshot { standby, at, kind, failed, cancelled, let_go, ticket: None };
        self.txn.opens(Box::new(snapshot));
        // In its transactions a server also shows the state of its snapshot, whatever was truncated since.
        Ok(Ran { incarnation: life, replayed, locked: replayed })
    }

    /// Ends the transaction, which has only read, at the standby.
    pub(super) async fn end_at_standby(&mut self) {
        let taken = self.txn.closes().map(|snapshot| *snapshot);
        let Some(Snapshot { standby: Some(standby), at: (id, ..), cancelled, ticket, .. }) = taken else {
            return;
        };
        let service = self.service.clone();
        let ended = tokio::select! {
            ended = standby.end() => ended,
            () = service.cluster.standby_lost(id) => None,
        };
        drop(ticket);
        if let Some(standby) = ended.filter(|_| !cancelled) {
            self.give_back(standby);
        }
    }

    /// Ends a transaction that delayed a refresh for too long. The next statement gets the error.
    pub(super) fn let_snapshot_go(&mut self) {
        if let Some(snapshot) = self.txn.snapshot_mut() {
            (snapshot.standby, snapshot.ticket, snapshot.let_go) = (None, None, true);
        }
    }

    /// Answers a request while the block is at a standby.
    pub(super) async fn answer_in_snapshot(&mut self, request: Request) -> Result<(), Ended> {
        match request.kind {
            Kind::Terminate => return Err(Ended::ClientLeft),
            Kind::Leftover => return self.line.drop_leftover(request),
            Kind::Query => {
                let todo = self.understand_in_snapshot(request).await?;
                if Self::ends_and_goes_on(&todo) {
                    self.end_at_primary(request, todo).await?;
                } else {
                    self.part_in_snapshot(request, todo).await?;
                    self.ready();
                }
            }
            Kind::Batch => self.batch_in_snapshot(request).await?,
            Kind::Flushed => self.skipping = self.control(request).await? == Outcome::Error,
            Kind::Begun => self.begun_in_snapshot(request).await?,
            Kind::Function => {
                self.fail(request, needs_the_primary("function_call"));
                self.ready();
            }
            Kind::Open => {
                self.fail(Request { bytes: 0, ..request }, needs_the_primary("open_pipeline"));
                self.skipping = true;
                return self.skip(request).await;
            }
        }
        self.line.send().await
    }

    /// Discards input after an error up to the Sync.
    pub(super) async fn skip(&mut self, request: Request) -> Result<(), Ended> {
        match request.kind {
            Kind::Batch => {
                self.line.client.consume(request.bytes);
                self.skipping = false;
                self.ready();
            }
            Kind::Leftover => self.line.drop_leftover(request)?,
            _ if request.bytes > 0 => self.line.client.consume(request.bytes),
            _ => {
                // The beginning of a message longer than the buffer: the rest is skipped.
                let (unread, splitter) = self.line.client.cut();
                let step = splitter.next(unread).map_err(Ended::Malformed)?;
                let of_its_own = [front::QUERY, front::FUNCTION_CALL];
                let is_whole = matches!(step, Step::Part(part) if of_its_own.contains(&part.tag));
                let length = step.len();
                self.line.client.consume(length);
                // No Sync follows.
                if is_whole {
                    self.skipping = false;
                    self.ready();
                }
            }
        }
        self.line.send().await
    }

    /// Runs a batch: its parts one by one, until one of them fails.
    async fn batch_in_snapshot(&mut self, request: Request) -> Result<(), Ended> {
        let mut left = request.bytes;
        loop {
            let splitter = self.line.client.splitter;
            let (part, bytes) =
                split_batch::first(&self.line.client.unread()[..left], splitter).map_err(Ended::Malformed)?;
            if part == Part::End {
                self.line.client.consume(bytes);
                break;
            }
            left -= bytes;
            if self.piece_in_snapshot(part, bytes).await? == Outcome::Error {
                self.line.client.consume(left);
                break;
            }
            if self.txn.snapshot().is_none()
                && split_batch::first(&self.line.client.unread()[..left], splitter) != Ok((Part::End, left))
            {
                // The transaction has ended; the rest is a request of its own.
                return Ok(());
            }
        }
        self.ready();
        Ok(())
    }

    /// Runs one part of a batch, of this length.
    pub(super) async fn piece_in_snapshot(&mut self, part: Part, bytes: usize) -> Result<Outcome, Ended> {
        let piece = Request { kind: Kind::Batch, bytes };
        self.current.request = Some(piece);
        Ok(match part {
            Part::Control => self.control(piece).await?,
            Part::Statement => {
                let todo = self.understand_in_snapshot(piece).await?;
                self.part_in_snapshot(piece, todo).await?
            }
            Part::End | Part::Odd => self.fail(piece, needs_the_primary("portal")),
        })
    }

    /// Parses, describes and closes statements, at the primary as everywhere.
    async fn control(&mut self, part: Request) -> Result<Outcome, Ended> {
        let refused = if self.line.status() == Status::Failed { self.refused_parse(part) } else { None };
        let Some(before) = refused else { return self.part_at_primary(part).await };
        let mut rest = Request { bytes: part.bytes - before, ..part };
        if before > 0 && self.part_at_primary(Request { bytes: before, ..part }).await? == Outcome::Error {
            self.line.client.consume(rest.bytes);
            return Ok(Outcome::Error);
        }
        rest.kind = Kind::Batch;
        Ok(self.fail(rest, in_failed_block()))
    }

    /// Length of the input before the first Parse that a failed block refuses, if there is one.
    fn refused_parse(&mut self, part: Request) -> Option<usize> {
        let bytes = self.line.bytes(part).to_vec();
        let mut splitter = self.line.client.splitter;
        let mut at = 0;
        while let Ok(Step::Whole(frame)) = splitter.next(&bytes[at..]) {
            if frame.tag() == front::PARSE
                && let Ok(parse) = wire::Parse::read(&frame)
                && !self.ends_a_failed_block(parse.text)
            {
                return Some(at);
            }
            at += frame.bytes().len();
        }
        None
    }

    /// Analyses a part. In a failed block there is no wait for the tree.
    async fn understand_in_snapshot(&mut self, part: Request) -> Result<Todo, Ended> {
        let failed = self.line.status() == Status::Failed;
        if part.kind == Kind::Query {
            if !failed {
                return self.understand_query(part).await;
            }
            let frame = Frame::new(self.line.bytes(part)).map_err(Ended::Malformed)?;
            let text = wire::query_text(&frame).map_err(Ended::Malformed)?.to_vec();
            return Ok(match self.understand_at_once(&text) {
                Todo::Utility(several) if several.len() > 1 => Todo::Several(Several::of_text(several)),
                todo => todo,
            });
        }
        let bytes = self.line.bytes(part).to_vec();
        let batch = batch::read(&bytes, self.line.client.splitter).map_err(Ended::Malformed)?;
        let Some(batch) = batch else { return Ok(Todo::Several(Several::anything(Reason::Stay("portal")))) };
        if !failed {
            return self.understand_one(&batch).await;
        }
        let prepared = match &batch.parse {
            Some(parse) => Some(self.prepared(parse)),
            None => self.line.statements.get(batch.bind.statement).cloned(),
        };
        self.current.statement.clone_from(&prepared);
        Ok(prepared.map_or(Todo::Quiet, |prepared| self.understand_at_once(&prepared.text)))
    }

    fn ends_a_failed_block(&mut self, text: &[u8]) -> bool {
        let todo = self.understand_at_once(text);
        matches!(
            utility_of(&todo),
            Some(Utility::Commit { .. } | Utility::Rollback { .. } | Utility::RollbackTo(_))
        )
    }

    /// Runs one statement.
    async fn part_in_snapshot(&mut self, part: Request, todo: Todo) -> Result<Outcome, Ended> {
        self.current.request = Some(part);
        self.current.template = None;
        let utility = utility_of(&todo).cloned();
        let failed = self.line.status() == Status::Failed;
        match (&utility, &todo) {
            (Some(Utility::Commit { chain: false } | Utility::PrepareTransaction(_)), _) if failed => {
                return self.end_snapshot(part, &Utility::Rollback { chain: false }).await;
            }
            (Some(Utility::Rollback { chain: false }), _) => {
                return self.end_snapshot(part, &Utility::Rollback { chain: false }).await;
            }
            (Some(Utility::RollbackTo(_)), _) => return self.read_in_snapshot(part, utility.as_ref()).await,
            (Some(end @ (Utility::Commit { chain: true } | Utility::Rollback { chain: true })), _) => {
                return self.chain_snapshot(part, end).await;
            }
            (_, Todo::Quiet) if part.kind == Kind::Query => return self.part_at_primary(part).await,
            _ if failed => return self.refused_in_failed(part).await,
            (Some(Utility::Commit { chain: false }), _) => {
                return self.end_snapshot(part, &Utility::Commit { chain: false }).await;
            }
            _ => {}
        }
        match todo {
            Todo::One(plan) => self.tree_in_snapshot(part, plan).await,
            Todo::Own(statements) => {
                let answer = self.own_setting(&statements).await;
                self.say(part, &answer);
                // An error fails the transaction, whichever server reports it.
                Ok(if answer.is_ok() { Outcome::Done } else { self.failed(Request { bytes: 0, ..part }) })
            }
            Todo::Refuse(problem) => Ok(self.fail(part, problem)),
            Todo::Utility(_) => match &utility {
                Some(
                    Utility::Begin(_)
                    | Utility::Savepoint(_)
                    | Utility::Release(_)
                    | Utility::SetTransaction(_),
                ) => self.read_in_snapshot(part, utility.as_ref()).await,
                Some(Utility::Show(name)) if name.starts_with("transaction_") => {
                    self.read_in_snapshot(part, None).await
                }
                Some(Utility::Show(_) | Utility::Deallocate) => self.part_at_primary(part).await,
                Some(Utility::Unknown) => self.unknown_in_snapshot(part, "unknown").await,
                Some(utility) => Ok(self.fail(part, needs_the_primary(utility.name()))),
                None => Ok(self.fail(part, needs_the_primary("several_statements"))),
            },
            Todo::Quiet => self.part_at_primary(part).await,
            Todo::Several(several) if several.reason == UNKNOWN_STATEMENT => {
                let error = self.error_of_describing(part).await?;
                Ok(error.unwrap_or_else(|| self.fail(part, needs_the_primary(UNKNOWN_STATEMENT.name()))))
            }
            Todo::Several(several) => Ok(self.fail(part, needs_the_primary(several.reason.name()))),
        }
    }

    /// Runs a statement that has a query tree.
    async fn tree_in_snapshot(&mut self, part: Request, plan: Plan) -> Result<Outcome, Ended> {
        let plan = match plan {
            Plan::Writes(Writing { unknown: true, .. }) => {
                if let Some(outcome) = self.error_of_parsing(part).await? {
                    return Ok(outcome);
                }
                self.current.meant.patient = true;
                let todo = self.understand_in_snapshot(part).await;
                self.current.meant.patient = false;
                match todo? {
                    Todo::One(plan) => plan,
                    _ => return Ok(self.fail(part, needs_the_primary("not_analysed_yet"))),
                }
            }
            plan => plan,
        };
        match plan {
            Plan::Leaves(leaving) if leaving.question.consistency == history::Consistency::Primary => {
                Ok(self.fail(part, needs_the_primary(Reason::AskedForPrimary.name())))
            }
            Plan::Leaves(leaving) if self.is_at_copy() && !leaving.question.at_copies => {
                Ok(self.fail(part, needs_the_primary(NOT_EQUAL)))
            }
            Plan::Leaves(leaving) => {
                self.current.template = Some(leaving.template);
                self.read_in_snapshot(part, None).await
            }
            // All servers refuse it in such a transaction, in the same words.
            Plan::Writes(Writing { reason: Reason::Stay(name), .. }) | Plan::Stays(Reason::Stay(name))
                if name == Stay::Writes.name() || name == Stay::LocksRows.name() =>
            {
                self.read_in_snapshot(part, None).await
            }
            Plan::Writes(Writing { reason, .. }) | Plan::Stays(reason) => Ok(self.fail(part, stays(reason))),
        }
    }

    fn is_at_copy(&self) -> bool {
        self.txn.snapshot().is_some_and(|snapshot| snapshot.kind == scheduler::Kind::Fed)
    }

    /// Refuses a statement in a failed block; one that does not exist has an error of its own.
    async fn refused_in_failed(&mut self, part: Request) -> Result<Outcome, Ended> {
        if part.kind == Kind::Batch
            && self.current.statement.is_none()
            && let Some(outcome) = self.error_of_describing(part).await?
        {
            return Ok(outcome);
        }
        Ok(self.fail(part, in_failed_block()))
    }

    /// Answers a text that the analysis does not understand: PostgreSQL's error, if it does not either.
    async fn unknown_in_snapshot(&mut self, part: Request, name: &str) -> Result<Outcome, Ended> {
        match self.error_of_parsing(part).await? {
            Some(outcome) => Ok(outcome),
            None => Ok(self.fail(part, needs_the_primary(name))),
        }
    }

    /// Answers with the error that the primary's parser finds in a statement, if it finds one.
    async fn error_of_parsing(&mut self, part: Request) -> Result<Option<Outcome>, Ended> {
        self.at_home().await?;
        let statement = match (&self.current.statement, part.kind) {
            (Some(statement), Kind::Batch) => statement.clone(),
            _ => {
                let frame = Frame::new(self.line.bytes(part)).map_err(Ended::Malformed)?;
                let text = wire::query_text(&frame).map_err(Ended::Malformed)?;
                Rc::new(Prepared::new(text, []))
            }
        };
        self.line.primary.ask_parse(&statement);
        self.own_error(part).await
    }

    /// Answers with the primary's error about a missing prepared statement, if it is missing.
    pub(super) async fn error_of_describing(&mut self, part: Request) -> Result<Option<Outcome>, Ended> {
        self.at_home().await?;
        let name = split_batch::bound(self.line.bytes(part), self.line.client.splitter);
        let name = name.map_err(Ended::Malformed)?.unwrap_or_default();
        self.line.primary.learn(&name, &mut self.line.statements);
        self.line.primary.ask_described(&name);
        self.own_error(part).await
    }

    /// Answers a part with the error of an internal query, if there is one.
    async fn own_error(&mut self, part: Request) -> Result<Option<Outcome>, Ended> {
        self.line.settled().await?;
        let Some(error) = self.line.primary.own_error() else { return Ok(None) };
        self.line.client.out().extend_from_slice(&error);
        Ok(Some(self.failed(part)))
    }

    /// Waits until the standby shows the primary's catalog. Returns the reason if it does not.
    pub(super) async fn catalog_behind(&self) -> Option<Reason> {
        let (id, life, proof) = self.txn.snapshot()?.at;
        let Some(database) = self.database.id() else { return Some(Reason::DatabaseNotFollowed) };
        if !matches!(proof, Proof::Plain | Proof::Positioned(_) | Proof::Before(_)) {
            return None;
        }
        let cluster = &self.service.cluster;
        transaction::catalog_shown(cluster, database, (id, life), PATIENCE).await.err()
    }

    /// Runs a part at the standby and delivers its answer.
    async fn read_in_snapshot(&mut self, part: Request, utility: Option<&Utility>) -> Result<Outcome, Ended> {
        let answered = self.at_snapshot(part).await;
        if let Some(ended) = self.ended.take() {
            return Err(ended);
        }
        let problem = match answered {
            Ok(answer) => {
                let outcome = self.hand_out(answer).await?;
                self.learned(utility, outcome);
                return Ok(outcome);
            }
            Err(_) if self.line.primary.has_said_farewell() => return Err(self.line.hear_farewell()),
            Err(Failed::LetGo) => {
                self.let_snapshot_go();
                let_go()
            }
            Err(Failed::Conflict(why)) => Problem::error("40001", why)
                .hint("The standby could not keep the transaction's snapshot. Run the transaction again."),
            Err(Failed::Gone(why) | Failed::Refused(_, why) | Failed::Broken(why)) => {
                tracing::debug!(why, "standby of a transaction failed");
                lost()
            }
        };
        Ok(self.fail(part, problem))
    }

    /// Runs a part at the standby and holds the beginning of its answer.
    async fn at_snapshot(&mut self, part: Request) -> Result<Answer, Failed> {
        self.current.request = Some(part);
        self.line.seat.running.clone().met().await;
        let gone = |why: &str| Failed::Gone(why.to_owned());
        let Some(snapshot) = self.txn.snapshot_mut() else { return Err(gone("the snapshot is closed")) };
        let (id, life, proof) = snapshot.at;
        let pass = snapshot.pass();
        self.current.there.pass = pass;
        if snapshot.let_go || pass.is_some_and(|pass| !self.service.cluster.scheduler().may_read(pass)) {
            return Err(Failed::LetGo);
        }
        let Some(mut standby) = snapshot.standby.take() else {
            return Err(gone("the standby failed earlier"));
        };
        self.current.there.ran_at = Some((id, life, proof));
        if let Some(failed) = standby.farewell() {
            return Err(failed);
        }
        if !self.ask(&mut standby, Form::Plain) {
            return Err(gone("the statement cannot be sent"));
        }
        self.answered((id, life), standby)
            .await
            .unwrap_or_else(|| Err(gone("the primary has ended the session")))
    }

    /// Delivers an answer. From here on the client has seen output of the standby.
    async fn hand_out(&mut self, mut answer: Answer) -> Result<Outcome, Ended> {
        answer.seen_by_client();
        self.note_statement(&answer);
        let part = self.current.request.take();
        self.line.client.consume(part.map_or(0, |part| part.bytes));
        let delivered = self.handed_out(answer).await;
        let running = self.line.seat.running.clone();
        let Some(snapshot) = self.txn.snapshot_mut() else { return Err(Ended::CutOff) };
        snapshot.cancelled |= running.is_cancelled();
        match delivered {
            Ok((standby, _)) => {
                let status = standby.status();
                snapshot.failed = status == Status::Failed;
                snapshot.standby = Some(standby);
                let (at, _, proof) = snapshot.at;
                self.line.elsewhere = Some(status);
                self.went(Went::Standby(at, proof.name()));
                Ok(if status == Status::Failed { Outcome::Error } else { Outcome::Done })
            }
            Err(CutOff::ClientGone) => Err(Ended::ClientGone),
            Err(CutOff::Ended) => Err(self.line.hear_farewell()),
            Err(CutOff::Inside) => Err(Ended::CutOff),
            Err(why @ (CutOff::Between | CutOff::LetGo)) => {
                self.service.cluster.metrics().results_cut_off.one();
                let problem = if why == CutOff::LetGo { let_go() } else { lost() };
                if why == CutOff::LetGo {
                    self.let_snapshot_go();
                }
                self.line.client.out().problem(&problem);
                Ok(self.failed(Request { kind: Kind::Batch, bytes: 0 }))
            }
        }
    }

    /// Ends the transaction.
    async fn end_snapshot(&mut self, part: Request, end: &Utility) -> Result<Outcome, Ended> {
        let at = self.txn.snapshot().map(|snapshot| snapshot.at);
        self.end_at_standby().await;
        self.line.settled().await?;
        if self.line.primary.status != Status::Idle {
            // A late cancel request has hit the end of the block there.
            self.line.ask("ROLLBACK").await?;
        }
        let tag = if matches!(end, Utility::Commit { .. }) { "COMMIT" } else { "ROLLBACK" };
        self.say(part, &Ok(Said::Tag(tag)));
        self.line.elsewhere = None;
        self.state.completed(end, &mut self.service.interner.borrow_mut());
        self.state.ready(Status::Idle.byte(), &mut self.service.interner.borrow_mut());
        self.current.there.ran_at = None;
        at.into_iter().for_each(|(at, _, proof)| self.went(Went::Standby(at, proof.name())));
        Ok(Outcome::Done)
    }

    /// Ends the transaction, AND CHAIN: the next one is the primary's, with the modes of the one that ended.
    async fn chain_snapshot(&mut self, part: Request, end: &Utility) -> Result<Outcome, Ended> {
        let failed = self.line.status() == Status::Failed;
        let commits = matches!(end, Utility::Commit { .. }) && !failed;
        self.back_to_primary().await?;
        if failed {
            // The server decides what the next one inherits of a failed one.
            self.fail_at_primary().await?;
            self.line.ask("ROLLBACK AND CHAIN").await?;
        }
        self.say(part, &Ok(Said::Tag(if commits { "COMMIT" } else { "ROLLBACK" })));
        let interner = &mut self.service.interner.borrow_mut();
        self.state.completed(end, interner);
        self.state.ready(self.line.primary.status.byte(), interner);
        self.current.there.ran_at = None;
        Ok(Outcome::Done)
    }

    /// True if a Query ends the transaction and has other statements after the end.
    fn ends_and_goes_on(todo: &Todo) -> bool {
        let Todo::Several(several) = todo else { return false };
        matches!(
            several.statements.first().map(|statement| &statement.what),
            Some(What::Utility(Utility::Commit { .. } | Utility::Rollback { .. }))
        )
    }

    /// Runs a Query that ends the transaction and goes on, at the primary: an equal transaction is begun
    /// there for it to end. If this one has failed, so does that.
    async fn end_at_primary(&mut self, request: Request, todo: Todo) -> Result<(), Ended> {
        let failed = self.line.status() == Status::Failed;
        self.back_to_primary().await?;
        if failed {
            self.fail_at_primary().await?;
        }
        self.current.request = Some(request);
        if let Todo::Several(several) = todo {
            self.several(several).await;
        }
        if let Some(ended) = self.ended.take() {
            return Err(ended);
        }
        self.settle().await;
        Ok(())
    }

    /// Begins an empty transaction of the same kind, at the primary.
    async fn back_to_primary(&mut self) -> Result<(), Ended> {
        self.end_at_standby().await;
        self.line.settled().await?;
        self.at_home().await?;
        self.line.ask(BEGIN).await?;
        self.line.elsewhere = None;
        self.state.ready(self.line.primary.status.byte(), &mut self.service.interner.borrow_mut());
        self.block_begins();
        Ok(())
    }

    /// Fails the transaction at the primary, as it has failed elsewhere.
    pub(super) async fn fail_at_primary(&mut self) -> Result<(), Ended> {
        self.fail_block(None).await;
        self.ended.take().map_or(Ok(()), Err)
    }

    /// Runs a part at the primary, outside a transaction.
    async fn part_at_primary(&mut self, part: Request) -> Result<Outcome, Ended> {
        self.current.request = None;
        self.current.columns_kept = false;
        self.at_home().await?;
        self.keep_columns_in(part).await?;
        self.line.run_part(part).await?;
        let seen = self.line.primary.seen();
        for (name, value) in &seen.reported {
            self.state.reported(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value));
        }
        if seen.failed {
            return Ok(self.failed(Request { bytes: 0, ..part }));
        }
        Ok(Outcome::Done)
    }

    /// Answers a part with an error of Consort's, and so fails the block.
    fn fail(&mut self, part: Request, problem: Problem) -> Outcome {
        self.line.client.out().problem(&problem);
        self.failed(part)
    }

    /// Records that the client received an error for this part.
    fn failed(&mut self, part: Request) -> Outcome {
        let parses = self.line.bytes(part).first() == Some(&front::PARSE);
        if part.kind == Kind::Query || parses {
            self.line.statements.query_ran_elsewhere();
        }
        self.line.client.consume(part.bytes);
        if let Some(snapshot) = self.txn.snapshot_mut() {
            snapshot.failed = true;
        }
        self.line.elsewhere = Some(Status::Failed);
        self.learned(None, Outcome::Error);
        Outcome::Error
    }

    /// Applies an answer to the session state.
    fn learned(&mut self, utility: Option<&Utility>, outcome: Outcome) {
        let interner = &mut self.service.interner.borrow_mut();
        match (utility, outcome) {
            (Some(utility), Outcome::Done) => self.state.completed(utility, interner),
            (Some(utility), Outcome::Error) => self.state.failed(utility),
            (None, Outcome::Error) => self.state.statement_failed(),
            (None, Outcome::Done) => {}
        }
        self.state.ready(self.line.status().byte(), interner);
    }

    fn ready(&mut self) {
        let status = self.line.status();
        self.line.client.out().ready(status);
    }

    /// The command that applies the session's settings; `None` if the connection's are unknown.
    pub(super) fn becomes(&self, lent: &mut Standby) -> Option<Option<String>> {
        let wanted = self.state.settings().for_reads();
        let becomes = lent.settings.as_ref()?.to_become(wanted);
        lent.settings = Some(wanted.clone());
        Some(becomes)
    }
}

/// The utility statement, if the request has exactly one.
fn utility_of(todo: &Todo) -> Option<&Utility> {
    let Todo::Utility(statements) = todo else { return None };
    match &**statements {
        [one] => match &one.what {
            What::Utility(utility) => Some(utility),
            What::Tree => None,
        },
        _ => None,
    }
}

fn in_failed_block() -> Problem {
    Problem::error("25P02", "current transaction is aborted, commands ignored until end of transaction block")
}

fn lost() -> Problem {
    Problem::error("08006", "the node that runs this transaction failed")
        .hint("Roll the transaction back and run it again.")
}

/// Error for a statement that needs the primary, for this reason.
fn needs_the_primary(name: &str) -> Problem {
    let why = Stay::ALL.iter().find(|stay| stay.name() == name).map_or(name, |stay| stay.sentence());
    let message = format!("cannot execute on a replica: {why}");
    Problem::error("0A000", message).hint(
        "Make it the first statement of the transaction, or SET consort.read_only_snapshots = off before \
         the transaction.",
    )
}

/// Error for a statement that may not run at the standby, or not yet.
fn stays(reason: Reason) -> Problem {
    if reason == PARSED_OTHERWISE {
        let message = "cannot execute on a replica: the prepared statement may have another meaning now \
                       than when it was prepared";
        return Problem::error("40001", message)
            .hint("Run the transaction again; it will run at the primary.");
    }
    if let Reason::Stay(name) = reason {
        return needs_the_primary(name);
    }
    let message = format!("the node that runs this transaction cannot answer: {reason}");
    Problem::error("40001", message).hint("Run the transaction again.")
}
