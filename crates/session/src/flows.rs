//! Execution of the flows' decisions: a statement at a standby or at the primary, and an answer that is held,
//! delivered or discarded.

use super::Session;
use super::answers_ahead::{ahead, answer_ahead, has_begun, is_ready_for};
use super::commit_turns::Way;
use super::consort_settings::cancelled;
use super::deferred_locks::{
    bind_kept_reads, defers_locks, fail_locked_out, has_room, keep_read, locks_everything_out,
};
use super::latest_state_reads::let_go;
use super::primary::{Ended, Seen};
use super::reads_in_block::lock_at_primary;
use backend::batch;
use backend::request::Kind;
use backend::request_text::KeptParameter;
use backend::standby::pool;
use backend::standby::pool::Shelf;
use backend::standby::{Answer, CutOff, Ending, Failed, Form, Standby, Work};
use cluster::plan::Leaving;
use cluster::routes::Went;
use cluster::understanding;
use cluster::understanding::Statement as Asked;
use order::DoubtId;
use scheduler::{Proof, Ran, Reason, StandbyId, Ticket};
use session_state::utility::What;
use statement_analysis::Values;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;
use transaction::{AtPrimary, Backend, Delivered, Locks, StandbyFailed};
use wire::tag::front;
use wire::{Answers, Frame, Problem, Status};

/// Time in whole microseconds.
fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Time after which a late tree no longer narrows an in-flight write set.
const NARROW_LIMIT: Duration = Duration::from_secs(1);

impl transaction::Session for Session {
    type Answer = Answer;

    fn backend(&self) -> Backend {
        self.who.backend
    }

    async fn at_standby(&mut self, ticket: &Ticket) -> Result<(Answer, Ran), StandbyFailed> {
        if self.ended.is_some() {
            return Err(StandbyFailed(Reason::PrimaryLost));
        }
        self.current.waits.is_fresh();
        let (id, life) = (ticket.standby(), ticket.incarnation());
        self.current.there.ran_at = Some((id, life, ticket.proof()));
        self.current.there.pass = ticket.pass();
        if self.reads_wait() {
            self.service.cluster.metrics().replica_wait.took(self.current.waits.came.elapsed());
        }
        let rooms = self.line.registry.rooms.clone();
        let service = self.service.clone();
        let shelf = self.shelf(id);
        let mut lent = service.lend(ticket, &shelf, &self.who.wish, &rooms).await.map_err(StandbyFailed)?;
        let form = if ticket.asks_position() { Form::Positioned } else { Form::Plain };
        if self.line.seat.running.is_cancelled() {
            pool::give_back(lent);
            return Err(StandbyFailed(Reason::StandbyRefused));
        }
        let in_block = self.line.status() != Status::Idle;
        // In designs where a read waits for the whole state, all rows on which it may fail are proven.
        let template = self.current.template.as_ref();
        let elsewhere = !self.reads_wait() && template.is_some_and(|template| template.may_fail_elsewhere());
        // Planning alone may call a function that reads tables, if one was declared replica-safe.
        let planning_reads = template.is_none_or(|template| template.random);
        lent.for_block(in_block);
        if !self.ask(&mut lent, form) {
            return Err(StandbyFailed(Reason::NoConnection));
        }
        let Some(answered) = self.answered((id, life), lent).await else {
            if self.ended.is_some() {
                // No client waits for the answer: the statement runs nowhere else.
                self.current.request = None;
            }
            return Err(StandbyFailed(Reason::PrimaryLost));
        };
        match answered {
            // A read by key may have failed on another row, which is not proven.
            Ok(answer) if elsewhere && answer.is_error() => {
                self.discard(answer).await;
                Err(StandbyFailed(Reason::StandbyRefused))
            }
            Ok(answer) => {
                let replayed = answer.position();
                // A statement that fails while it is parsed or planned has read no row that its locks could
                // have waited for.
                let unread = replayed.filter(|_| answer.is_error() && !planning_reads);
                let locked = answer.locked().or(unread);
                self.current.there.held = Some(Instant::now());
                Ok((answer, Ran { incarnation: life, replayed, locked }))
            }
            Err(Failed::Gone(why) | Failed::Conflict(why)) => {
                tracing::debug!(why, "standby failed");
                Err(StandbyFailed(Reason::StandbyFailed))
            }
            Err(Failed::LetGo) => Err(StandbyFailed(Reason::LetGo)),
            Err(Failed::Broken(_)) => Err(StandbyFailed(Reason::StandbyFailed)),
            Err(Failed::Refused(standby, why)) => {
                tracing::debug!(why, "standby refused the statement");
                self.give_back(standby);
                Err(StandbyFailed(Reason::StandbyRefused))
            }
        }
    }

    async fn deliver(&mut self, answer: Answer) -> Delivered {
        if let Err(ended) = has_begun(self).await {
            self.ended = Some(ended);
            return Delivered::CutOff;
        }
        if let Some(before) = self.current.there.before.take()
            && self.compare(&before, &answer).await.is_err()
        {
            return Delivered::ClientGone;
        }
        self.note_statement(&answer);
        if let Some(held) = self.current.there.held.take() {
            let waited = held.elapsed();
            self.service.cluster.metrics().proof_wait.took(waited);
            self.current.waits.and_for(waited);
        }
        if let Some(request) = self.current.request.take() {
            self.line.client.consume(request.bytes);
        }
        match self.handed_out(answer).await {
            Ok((standby, ending)) => {
                self.give_back(standby);
                self.current.said.failed |= ending == Ending::Error;
                if ending == Ending::Error && self.line.status() != Status::Idle {
                    self.fail_block(None).await;
                }
                Delivered::Whole
            }
            Err(CutOff::ClientGone) => {
                self.ended = Some(Ended::ClientGone);
                Delivered::ClientGone
            }
            Err(CutOff::Ended) => {
                self.ended = Some(self.line.hear_farewell());
                Delivered::CutOff
            }
            Err(CutOff::Inside) => {
                self.ended = Some(Ended::CutOff);
                Delivered::CutOff
            }
            Err(CutOff::Between | CutOff::LetGo) if self.line.status() != Status::Idle => {
                self.ended = Some(Ended::BlockCutOff);
                Delivered::CutOff
            }
            Err(why @ (CutOff::Between | CutOff::LetGo)) => {
                let problem = if why == CutOff::LetGo {
                    let_go()
                } else {
                    Problem::error("08006", "the standby failed while it sent the result")
                        .hint("The rows received so far are correct. Run the statement again.")
                };
                let out = self.line.client.out();
                out.problem(&problem);
                out.ready(Status::Idle);
                Delivered::CutOff
            }
        }
    }

    async fn discard(&mut self, answer: Answer) {
        if let Some(standby) = answer.discard() {
            self.give_back(standby);
        }
    }

    async fn at_primary(&mut self, reason: Reason) -> AtPrimary {
        let Some(request) = self.current.request.take() else { return AtPrimary::Answered };
        self.current.reason = reason;
        self.current.waits.is_fresh();
        if let Some(held) = self.current.there.held.take() {
            self.current.waits.and_for(held.elapsed());
        }
        if self.line.seat.running.is_cancelled() && self.line.status() == Status::Idle {
            // The request was cancelled during its analysis, or at a standby before its answer was proven.
            self.refuse(request, &cancelled());
            return AtPrimary::Answered;
        }
        if self.line.seat.running.is_cancelled() && self.current.there.ran_at.is_some() {
            self.current.request = Some(request);
            self.fail_block(Some(cancelled())).await;
            return AtPrimary::Answered;
        }
        let mut ready = self.at_home().await;
        let ahead = ahead(self, request).filter(|_| ready.is_ok() && defers_locks(self));
        if ready.is_ok() && ahead.is_none() {
            ready = is_ready_for(self, request).await;
        }
        match ready {
            Ok(()) => {}
            Err(Ended::Cancelled) => {
                self.refuse(request, &cancelled());
                return AtPrimary::Answered;
            }
            Err(ended) => {
                self.ended = Some(ended);
                return AtPrimary::ConnectionLost;
            }
        }
        let ran = match (ahead, self.current.commits.way) {
            (Some(ahead), _) => answer_ahead(self, request, ahead),
            _ if request.kind == Kind::Flushed => self.line.run_part(request).await,
            (_, Way::Withheld) => self.line.run_withheld(request).await,
            (_, Way::AsItIs | Way::InOurBlock | Way::Told | Way::ToldCommit) => self.line.run(request).await,
        };
        let mut seen = self.line.primary.seen();
        if self.current.commits.way == Way::Withheld {
            self.current.commits.withheld = Some(std::mem::take(&mut seen.withheld));
        }
        self.learn_from(&seen);
        if let Err(ended) = ran {
            self.ended = Some(ended);
            return AtPrimary::ConnectionLost;
        }
        if request.kind == Kind::Flushed && seen.failed {
            (self.skipping, self.current.flushed) = (true, false);
        }
        self.fell_behind();
        self.went(Went::Primary(reason));
        AtPrimary::Answered
    }

    async fn commit_at_primary(&mut self, doubt: DoubtId) -> AtPrimary {
        if let Some(narrow) = self.current.commits.narrow.take() {
            narrow(doubt);
        }
        if self.current.commits.locks_out {
            locks_everything_out(self, doubt);
        }
        let reason = self.current.reason;
        match self.current.commits.way {
            Way::AsItIs | Way::Withheld => self.at_primary(reason).await,
            Way::InOurBlock => self.run_in_our_block().await,
            Way::Told => self.run_told().await,
            Way::ToldCommit => self.commit_told(reason).await,
        }
    }

    async fn ask_locks(&mut self) -> AtPrimary {
        lock_at_primary(self).await
    }

    async fn locks_granted(&mut self) -> Locks {
        self.locked_at_primary().await
    }

    fn has_room_for_locks(&self) -> bool {
        has_room(self)
    }

    fn defer_locks(&mut self) {
        keep_read(self);
    }

    async fn take_deferred_locks(&mut self) -> Locks {
        bind_kept_reads(self).await
    }

    fn is_cancelled(&self) -> bool {
        self.line.seat.running.is_cancelled()
    }

    async fn fail_unlocked_block(&mut self) -> AtPrimary {
        fail_locked_out(self).await
    }

    async fn open_snapshot(&mut self, ticket: &Ticket) -> Result<Ran, StandbyFailed> {
        self.current.waits.is_fresh();
        self.begin_at_standby(ticket).await
    }

    async fn close_snapshot(&mut self) {
        self.end_at_standby().await;
    }
}

impl Session {
    /// The session's idle connections at this standby, looked up once.
    pub(super) fn shelf(&mut self, standby: StandbyId) -> Rc<Shelf> {
        if let Some((_, shelf)) = self.reads.shelves.iter().find(|(id, _)| *id == standby) {
            return shelf.clone();
        }
        let shelf = self.service.shelf(standby, &self.who.wish);
        self.reads.shelves.push((standby, shelf.clone()));
        shelf
    }

    /// Returns a connection to the pool, unless a cancel request may still be on its way to it.
    pub(super) fn give_back(&self, standby: Box<Standby>) {
        if !self.line.seat.running.is_cancelled() {
            pool::give_back(standby);
        }
    }

    /// Sends the current request to a standby, with the session's settings. `false`: the request cannot be
    /// sent.
    pub(super) fn ask(&self, lent: &mut Standby, form: Form) -> bool {
        // A transaction that runs there as a whole goes on as it began: its end would take back a setting.
        let becomes = if self.txn.snapshot().is_some() { Some(None) } else { self.becomes(lent) };
        let (Some(request), Some(becomes)) = (self.current.request, becomes) else { return false };
        let bytes = self.line.bytes(request);
        lent.told_by(self.current.template.as_ref());
        if request.kind == Kind::Query {
            let Ok(text) = Frame::new(bytes).and_then(|frame| wire::query_text(&frame)) else { return false };
            lent.ask(&Work::Simple(text), form, becomes.as_deref());
            return true;
        }
        let (Ok(Some(batch)), Some(statement)) =
            (batch::read(bytes, self.line.client.splitter), &self.current.statement)
        else {
            return false;
        };
        let is_new = lent.ask(&Work::Batch(&batch, statement.clone()), form, becomes.as_deref());
        if is_new && !batch.bind.statement.is_empty() {
            self.database.traffic().count(|counts| counts.server_parses += 1);
        }
        true
    }

    /// Records the client's unnamed statement after a standby's answer.
    pub(super) fn note_statement(&mut self, answer: &Answer) {
        let Some(request) = self.current.request else { return };
        let statements = &mut self.line.statements;
        if request.kind == Kind::Query {
            return statements.query_ran_elsewhere();
        }
        // A parsing batch begins with Parse (`batch`), and binds the unnamed statement.
        let parses = self.line.client.unread().first() == Some(&front::PARSE);
        statements.counted.binds += u64::from(!parses && batch::binds_named(self.line.client.unread()));
        match &self.current.statement {
            Some(statement) if parses && answer.is_parsed() => {
                statements.parsed_at_standby(statement.clone())
            }
            _ if parses => statements.query_ran_elsewhere(),
            _ => {}
        }
    }

    /// Applies the primary's answers to the session state.
    pub(super) fn learn(&mut self) {
        let seen = self.line.primary.seen();
        self.learn_from(&seen);
    }

    /// Applies these answers of the primary to the session state.
    pub(super) fn learn_from(&mut self, seen: &Seen) {
        let interner = &mut *self.service.interner.borrow_mut();
        for (name, value) in &seen.reported {
            self.state.reported(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value));
        }
        let statements = self.current.statements.clone();
        let utility =
            |at: usize| match statements.get(at).or(statements.last()).map(|statement| &statement.what) {
                Some(What::Utility(utility)) => Some(utility),
                Some(What::Tree) | None => None,
            };
        for at in 0..seen.completed {
            if let Some(utility) = utility(at) {
                self.state.completed(utility, interner);
            }
        }
        self.current.said.failed |= seen.failed;
        self.current.said.rows = seen.rows;
        self.current.said.answer = seen.answers.first().cloned().flatten();
        if seen.failed {
            self.line.statements.names_may_be_unlooked();
            match utility(seen.completed) {
                Some(utility) => self.state.failed(utility),
                None => self.state.statement_failed(),
            }
        }
        self.state.ready(self.line.primary.status.byte(), interner);
    }

    /// Counts the request by the place where it ran.
    pub(super) fn went(&mut self, went: Went) {
        let cluster = &self.service.cluster;
        let took = self.current.waits.came.elapsed();
        match went {
            Went::Primary(reason) => {
                cluster.metrics().statements_at_primary.one(reason.name());
                cluster.metrics().reads_at_primary.add(u64::from(self.current.is_read));
            }
            Went::Standby(_, proof) => cluster.metrics().reads_at_standbys.one(proof),
        }
        let held = self.line.seat.take_held();
        if !self.words.text.is_empty() {
            let times = (took, self.current.waits.parts(took, held).1);
            cluster.routes().went(self.database.name(), &self.words.shape, &self.words.text, went, times);
        }
        let ended = self.line.status() == Status::Idle;
        let transaction = ended.then(|| {
            let before = self.times.began.map_or(Duration::ZERO, |began| self.current.waits.came - began);
            before + took
        });
        self.times.began = if ended { None } else { self.times.began.or(Some(self.current.waits.came)) };
        let moved = self.line.client.take_moved();
        let named = std::mem::take(&mut self.line.statements.counted);
        if self.service.statement_log.get().is_on() {
            self.log_statement(went, took, held);
        }
        self.database.traffic().count(|counts| {
            counts.statements += 1;
            counts.transactions += u64::from(transaction.is_some());
            counts.statement_us += us(took);
            counts.transaction_us += us(transaction.unwrap_or_default());
            counts.received_bytes += moved.received;
            counts.sent_bytes += moved.sent;
            counts.wait_us += us(held);
            counts.client_parses += named.client_parses;
            counts.server_parses += named.server_parses;
            counts.binds += named.binds;
        });
    }

    /// Records that a read, or a snapshot, was proven in this way.
    pub(super) fn was_proven(&mut self, proof: Proof) {
        if !matches!(proof, Proof::Session | Proof::Unproven) {
            self.line.statements.proven(self.database.names());
        }
    }

    /// Records the end of a read, with its effect on the session.
    pub(super) fn read_ended(&mut self, ended: transaction::Ended, leaving: &Leaving) {
        match ended {
            transaction::Ended::Standby { seen } => {
                let Some((standby, life, proof)) = self.current.there.ran_at else { return };
                self.was_proven(proof);
                let marks = &mut self.reads.marks;
                if let Some(seen) = seen.filter(|seen| *seen > marks.last_seen) {
                    marks.last_seen = seen;
                    marks.seen_at = Some((standby, life));
                }
                if leaving.template.chance.is_some() {
                    self.reads.home = Some(standby);
                }
                self.went(Went::Standby(standby, proof.name()));
            }
            transaction::Ended::CutOff => self.service.cluster.metrics().results_cut_off.one(),
            transaction::Ended::Primary(_)
            | transaction::Ended::ClientGone
            | transaction::Ended::PrimaryLost => {}
        }
    }

    /// Narrows the statement's in-flight write set to the tables that it may write, when its tree arrives.
    pub(super) fn narrow_later(&mut self, statement: Asked<'_>, values: &Values<'_>) {
        let (cluster, database) = (self.service.cluster.clone(), self.database.clone());
        let (shape, text) = (statement.shape.clone(), statement.text.to_owned());
        let (types, settings) = (statement.parameters.to_vec(), statement.settings.clone());
        let parameters: Vec<KeptParameter> = values.parameters.iter().map(KeptParameter::of).collect();
        let utf8 = values.utf8;
        self.current.commits.narrow = Some(Box::new(move |doubt| {
            let fill = (shape.clone(), text.clone());
            let statement = Asked { shape: &shape, text: &text, parameters: &types, settings: &settings };
            understanding::narrow_when_known(
                &cluster,
                &database,
                statement,
                NARROW_LIMIT,
                move |cluster, template| {
                    let (shape, text) = fill;
                    let mut literals = Vec::new();
                    shape.texts(&text, &mut literals);
                    let parameters: Vec<_> = parameters.iter().map(KeptParameter::parameter).collect();
                    let values = Values { literals: &literals, parameters: &parameters, utf8 };
                    let writes = template.writes.fill(&values);
                    cluster.scheduler().order_mut().narrow(doubt, writes);
                },
            );
        }));
    }
}
