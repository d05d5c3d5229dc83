//! A session in designs that order transactions before they execute them. A request first gets its locks,
//! then all servers execute it. The client receives the result of COMMIT when all have committed.
//!
//! ```text
//!   request --its tables?--> locks --> the primary, whose answer goes to the client
//!                                 \--> each replica, whose result must be the same
//!   COMMIT  --> the primary --committed--> each replica --all have--> the client gets it, the locks go
//! ```
//!
//! A statement outside a block that writes runs in Consort's own block everywhere, so that no replica commits
//! a transaction that the primary has not. A read outside a block runs at the least busy server. Inside a
//! block reads are the primary's.
//!
//! If transactions declare their tables, they get these tables' versions instead of locks. The client
//! receives the result of a COMMIT when the primary has committed. Replicas follow on their own (`follow`),
//! and a read waits at its replica for its versions.
//!
//! All servers run all transactions at READ COMMITTED. Table locks that are held to the end make that
//! serializable; a snapshot older than a lock would not be.

mod declared_tables;
mod execution_log;
mod partial_batch;
mod procedure_calls;
mod replica_execution;
mod statement_tables;

use super::Session;
use super::consort_settings::cancelled;
use super::mode::Commits;
use super::primary::{Ended, Seen, Told};
use super::txn::Txn;
use backend::request::{Kind, Request};
use cluster::routes::Went;
use cluster::scheduled::{Copy, NoLocks, PRIMARY, Scheduled, Transaction, touching_everything};
use conn::registry::Spared;
use execution_log::{Script, Writes};
use replica_execution::LeftOut;
use scheduler::scheduled::{Place, Refused, Tables};
use scheduler::{Reason, StandbyId};
use session_state::instant::Instant;
use session_state::utility::Isolation;
use session_state::{BlockStatus, Dirt};
use statement_analysis::declared_tables::Declaration;
use statement_tables::{Does, Meant, Use};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant as Time, timeout_at};
use wire::{Answers, Problem, Status};

/// Command that begins a transaction at every server.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Command that begins a transaction of which it is unknown if it only reads.
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";
/// Command that sets the level, whichever one the client has requested.
const LEVEL: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
/// Command that makes the primary's block fail.
const FAIL: &str = "DO LANGUAGE plpgsql $consort$BEGIN RAISE EXCEPTION 'refused'; END$consort$";
/// Maximum number of times that a request is analysed again because the catalog has changed while it waited
/// for its locks.
const AGAIN: usize = 8;
/// Time limit for the catalog after DDL: after that, all replicas are taken out.
const CATALOG_LIMIT: Duration = Duration::from_secs(10);

/// The design orders all transactions.
const ORDERED: Reason = Reason::Stay("ordered");

/// An ordered transaction of this session.
pub(super) struct Open {
    transaction: Transaction,
    /// The replicas in which the transaction has begun.
    copies: Vec<Copy>,
    /// The log of the transaction, for the replicas that follow it.
    writes: Option<Writes>,
    /// True if the transaction has declared that it writes nothing.
    only_reads: bool,
    /// True if the transaction has declared that it may write everything.
    declares_all: bool,
    /// Instant at which the transaction began, once a statement has needed it.
    instant: Option<Instant>,
    /// True if the transaction changes the catalog.
    makes: bool,
    /// Columns that replicas held differently when the transaction began to change the catalog.
    left_out: Option<LeftOut>,
    /// True if the transaction may have a savepoint, to which it may go back after a failure.
    marked: bool,
}

impl Open {
    /// Records that the primary, and the replicas that received the last step with it, have executed that
    /// step.
    fn step_done(&mut self, by: impl IntoIterator<Item = StandbyId>) {
        if let Some(writes) = &mut self.writes {
            writes.step();
        }
        self.transaction.done(by);
    }
}

/// Reason why a transaction does not begin.
enum NotBegun {
    NoLocks(NoLocks),
    Undeclared(Problem),
}

impl Session {
    fn scheduled(&self) -> Rc<Scheduled> {
        self.database.scheduled().clone()
    }

    /// Answers one request, from its first byte to its last answer.
    pub(super) async fn answer_ordered(&mut self, request: Request) -> Result<(), Ended> {
        self.line.primary.keeps_tags = true;
        self.begin_request(request);
        self.database.no_more_awaited(&self.service.cluster).await;
        self.heed_reloads();
        match request.kind {
            Kind::Terminate => return Err(Ended::ClientLeft),
            Kind::Leftover => return self.line.drop_leftover(request),
            Kind::Flushed | Kind::Open | Kind::Function => return self.refuse_open(request).await,
            Kind::Query | Kind::Batch | Kind::Begun => {}
        }
        if !self.state.knows_names() && self.state.block() == BlockStatus::Idle {
            self.probe().await?;
        }
        if request.kind == Kind::Begun {
            self.look_into_begun(request).await?;
        } else if self.line.primary.status == Status::Failed {
            self.in_failed_block(request).await?;
        } else {
            self.ask_ordered(request).await?;
        }
        if let Some(ended) = self.ended.take() {
            return Err(ended);
        }
        self.current.request = None;
        // As at a server, a failed transaction holds no locks, unless a savepoint may save it.
        if self.line.primary.status == Status::Failed
            && let Txn::Ordered(Open { marked: false, .. }) = self.txn
            && let Some(open) = self.txn.takes_open()
        {
            self.roll_back_copies(open).await;
        }
        self.line.send().await
    }

    /// Runs a request that is understood, in a session whose block has not failed.
    async fn ask_ordered(&mut self, request: Request) -> Result<(), Ended> {
        let version = self.database.version();
        let meant = self.asks(request).await?;
        let under = self.database.names().now(None);
        let settings = self
            .state
            .knows_names()
            .then(|| backend::prepared_statements::SettingsAt::of(self.state.settings()));
        let meanings = std::mem::take(&mut self.current.meant.meanings);
        let under = backend::prepared_statements::Under { settings, names: under, ..Default::default() };
        self.line.statements.parses_under(under, meanings);
        match meant {
            Meant::Nothing => self.at_primary_alone(request).await,
            Meant::Own(statements) => {
                self.answer_own(request, &statements).await;
                Ok(())
            }
            Meant::Refused(name, problem) => self.refuse_ordered(request, name, problem).await,
            Meant::Failed(error) => {
                self.failed_in_block(&error);
                Ok(())
            }
            Meant::NotUnderstood(why) => {
                let problem = Problem::error(
                    "0A000",
                    format!("cannot execute the statement on every server: its tables are unknown ({why})"),
                )
                .hint("docs/designs.md lists what this design does not execute.");
                self.refuse_ordered(request, why, problem).await
            }
            Meant::Statements(uses) => {
                self.current.statements = statement_tables::statements(&uses);
                self.statements_ordered(request, uses, version).await
            }
        }
    }

    async fn statements_ordered(
        &mut self,
        request: Request,
        uses: Vec<Use>,
        version: u64,
    ) -> Result<(), Ended> {
        if uses.iter().any(|used| used.dirties) {
            self.state.dirtied(Dirt::Function);
        }
        let in_block = self.line.primary.status == Status::InBlock;
        match &uses[..] {
            [Use { does: Does::Begins, declares, .. }] => {
                self.begin_block(request, in_block).await?;
                self.block_declares(declares.as_ref());
                Ok(())
            }
            [Use { does: Does::Ends { commits }, .. }] => self.end_block(request, *commits).await,
            [Use { does: Does::GoesBack | Does::Marks, .. }] if !in_block => {
                self.at_primary_alone(request).await
            }
            [used @ Use { does: Does::GoesBack, .. }] => self.go_back(request, used).await,
            _ if uses.iter().all(|used| matches!(used.does, Does::AtPrimary)) => {
                self.at_primary_alone(request).await?;
                self.keep_level().await
            }
            _ => self.execute(request, uses, version).await,
        }
    }

    /// Runs at the primary a request that concerns no other server.
    async fn at_primary_alone(&mut self, request: Request) -> Result<(), Ended> {
        self.current.request = None;
        self.line.run(request).await?;
        self.learn();
        self.went(Went::Primary(ORDERED));
        Ok(())
    }

    /// Runs BEGIN: the block is the primary's until a statement in it is to be executed by all servers.
    async fn begin_block(&mut self, request: Request, in_block: bool) -> Result<(), Ended> {
        self.at_primary_alone(request).await?;
        if in_block { Ok(()) } else { self.keep_level().await }
    }

    /// Sets the level at which the servers execute, whichever one the client has requested.
    async fn keep_level(&mut self) -> Result<(), Ended> {
        let is_so = matches!(self.state.isolation(), Isolation::ReadCommitted | Isolation::ReadUncommitted);
        if self.line.primary.status == Status::InBlock && !matches!(self.txn, Txn::Ordered(_)) && !is_so {
            self.line.ask(LEVEL).await?;
        }
        Ok(())
    }

    /// Answers a request in a failed block, in which the primary refuses all statements except its end.
    async fn in_failed_block(&mut self, request: Request) -> Result<(), Ended> {
        // The primary executes the statements after the end of a block: a text that is not understood is not
        // sent.
        let uses = match self.asks(request).await? {
            Meant::Statements(uses) => uses,
            Meant::Nothing => return self.at_primary_alone(request).await,
            Meant::Own(statements) => {
                self.answer_own(request, &statements).await;
                return Ok(());
            }
            Meant::Failed(error) => {
                self.failed_in_block(&error);
                return Ok(());
            }
            Meant::Refused(name, problem) => return self.refuse_ordered(request, name, problem).await,
            Meant::NotUnderstood(why) => {
                let aborted =
                    "current transaction is aborted, commands ignored until end of transaction block";
                return self.refuse_ordered(request, why, Problem::error("25P02", aborted)).await;
            }
        };
        self.current.statements = statement_tables::statements(&uses);
        match &uses[..] {
            [Use { does: Does::Ends { .. }, .. }] => self.end_block(request, false).await,
            [used @ Use { does: Does::GoesBack, .. }] => self.go_back(request, used).await,
            _ => self.at_primary_alone(request).await,
        }
    }

    /// Gets the locks, has all required servers execute the request, and commits it if it is outside a block.
    async fn execute(&mut self, request: Request, mut uses: Vec<Use>, mut version: u64) -> Result<(), Ended> {
        let in_block = self.line.primary.status == Status::InBlock;
        if in_block && uses.iter().any(|used| used.declares.is_some()) {
            return self.refuse_ordered(request, "declared_late", declared_tables::late()).await;
        }
        for _ in 0..AGAIN {
            let (place, mut locks) =
                (self.place_of(&uses, in_block), declared_tables::without_catalogs(locks_of(&uses)));
            let open = match self.txn.takes_open() {
                Some(open) => Ok(open),
                None => self.begin_ordered(&locks, declared_by(&uses), place).await,
            };
            let mut open = match open {
                Ok(open) => open,
                Err(NotBegun::NoLocks(no)) => return self.no_locks(request, no).await,
                Err(NotBegun::Undeclared(problem)) => {
                    return self.refuse_ordered(request, "undeclared", problem).await;
                }
            };
            if open.declares_all {
                locks = touching_everything();
            }
            let begun = Time::now();
            let limit = begun + self.service.cluster.setup().replica_wait_timeout;
            let cancelled = self.line.seat.running.clone();
            let granted = open.transaction.statement(locks, place, limit, cancelled.cancelled()).await;
            self.service.cluster.metrics().lock_wait.took(begun.elapsed());
            let sent = match granted {
                Ok(sent) => sent,
                Err(no) => {
                    let goes_on = matches!(no, NoLocks::Refused(_)) || !self.declares();
                    if in_block && goes_on {
                        self.txn.orders(open);
                    }
                    return self.no_locks(request, no).await;
                }
            };
            if self.database.version() == version {
                return self.run_ordered(request, uses, open, sent).await;
            }
            // During the wait, the catalog has changed: the request may touch other tables.
            open.step_done(sent);
            if in_block {
                self.txn.orders(open);
            }
            version = self.database.version();
            match self.asks(request).await? {
                Meant::Statements(again) => uses = again,
                Meant::Refused(name, problem) => return self.refuse_ordered(request, name, problem).await,
                _ => break,
            }
        }
        let problem = Problem::error("40001", "the catalog keeps changing").hint("Run it again.");
        self.refuse_ordered(request, "catalog_changed", problem).await
    }

    /// Begins a transaction. With declared tables, a block uses the session's declaration, and a statement
    /// outside uses that of its comment, or else its own tables.
    async fn begin_ordered(
        &self,
        locks: &Tables,
        declared: Option<Declaration>,
        mut place: Place,
    ) -> Result<Open, NotBegun> {
        let declares = self.declares();
        let mut tables = Tables::default();
        if declares {
            tables = match (self.line.primary.status, declared) {
                (Status::InBlock, declared) | (_, declared @ Some(_)) => {
                    self.declared_tables(declared.unwrap_or_default()).await.map_err(NotBegun::Undeclared)?
                }
                _ => locks.clone(),
            };
            if place != Place::Anywhere {
                place = Place::At(PRIMARY);
            }
        }
        let only_reads = declares && tables.writes.is_empty();
        let declares_all = declares && tables == touching_everything();
        let limit = Time::now() + self.service.cluster.setup().replica_wait_timeout;
        let cancelled = self.line.seat.running.cancelled();
        let begun = self.scheduled().begin((tables, place), limit, cancelled).await;
        let transaction = begun.map_err(NotBegun::NoLocks)?;
        let mut writes = None;
        if declares && !only_reads {
            let (ground, script) = (Rc::new(self.ground()), Rc::<Script>::default());
            writes = Some(Writes::new(script.clone()));
            transaction.followed_by(Rc::new(move |following| {
                tokio::task::spawn_local(execution_log::follow(ground.clone(), script.clone(), following));
            }));
        }
        let copies = Vec::new();
        let (instant, left_out) = (None, None);
        let (makes, marked) = (false, false);
        Ok(Open { transaction, copies, writes, only_reads, declares_all, instant, makes, left_out, marked })
    }

    /// True if transactions declare their tables before they begin.
    fn declares(&self) -> bool {
        matches!(self.mode.commits, Commits::Ordered { declares: true })
    }

    /// Servers where the statements run.
    fn place_of(&self, uses: &[Use], in_block: bool) -> Place {
        match uses {
            _ if uses.iter().any(Use::is_everywhere) => Place::Everywhere,
            [Use { does: Does::ReadsAnywhere(_), .. }] if !in_block && !self.current.stays => Place::Anywhere,
            _ => Place::At(PRIMARY),
        }
    }

    /// Runs a request that has its locks.
    async fn run_ordered(
        &mut self,
        request: Request,
        uses: Vec<Use>,
        mut open: Open,
        sent: Vec<StandbyId>,
    ) -> Result<(), Ended> {
        let in_block = self.line.primary.status == Status::InBlock;
        let version = self.database.version();
        if let [Use { does: Does::ReadsAnywhere(template), .. }] = &uses[..]
            && sent != [PRIMARY]
        {
            if let [at] = sent[..] {
                self.current.template = Some(template.clone());
                if self.read_at_copy(at).await? {
                    return Ok(());
                }
            }
            // The client has received no part of an answer: the primary answers, under the same locks.
            self.current.request = Some(request);
            if self.declares() {
                // With declared tables, it begins again with versions of its own.
                drop(open);
                self.current.stays = true;
                return Box::pin(self.execute(request, uses, version)).await;
            }
        }
        if uses.iter().any(|used| matches!(used.does, Does::Makes)) && !open.makes {
            open.makes = true;
            open.left_out = self.database.loaded().map(|loaded| replica_execution::left_out(&loaded.catalog));
        }
        open.marked |= uses.iter().any(|used| matches!(used.does, Does::Marks));
        let everywhere = uses.iter().any(Use::is_everywhere);
        let seems = uses.iter().any(|used| matches!(used.does, Does::SeemsToRead));
        if !in_block && (everywhere || seems) {
            let begin = if everywhere { BEGIN } else { BEGIN_READING };
            return self.run_in_block_of_ours(request, &uses, open, begin).await;
        }
        let ran = match everywhere {
            true => self.everywhere_in_block(request, &uses, &mut open).await,
            false => self.at_primary_alone(request).await,
        };
        // Also if the client has disconnected meanwhile: sequences stay advanced.
        open.step_done(sent);
        ran?;
        if self.line.primary.status != Status::Idle {
            self.txn.orders(open);
        }
        Ok(())
    }

    /// Runs a statement inside the client's block at all servers.
    async fn everywhere_in_block(
        &mut self,
        request: Request,
        uses: &[Use],
        open: &mut Open,
    ) -> Result<(), Ended> {
        if let Some(problem) = self.ask_instant(uses, open).await? {
            return self.refuse_ordered(request, "clock", problem).await;
        }
        let _spared = self.spare_draws(uses).await?;
        let work = self.begin_at_copies(uses, open).await;
        self.current.request = None;
        let copies = replica_execution::finish(&self.service.cluster, &mut open.copies, &work);
        let (ran, did) = tokio::join!(self.line.run(request), copies);
        let gone = self.ran_out(ran, uses, open).await?;
        let seen = self.line.primary.seen();
        self.compare_copies(uses, &seen, did, open);
        self.learn_from(&seen);
        self.went(Went::Primary(ORDERED));
        gone.map_or(Ok(()), Err)
    }

    /// Protects the next statements from termination: the replicas that execute them would be lost too.
    fn spare(&self) -> Result<(), Ended> {
        self.line.seat.spare().map_err(Ended::SentAway)
    }

    /// Protects statements that advance sequences, which no ROLLBACK takes back. Cancel requests do nothing
    /// until the returned value is dropped either. A COMMIT may be cancelled: the primary decides its outcome
    /// for all.
    async fn spare_draws(&self, uses: &[Use]) -> Result<Option<Spared>, Ended> {
        if !uses.iter().any(|used| used.moves_sequences) {
            return Ok(None);
        }
        self.spare()?;
        Ok(Some(self.line.seat.running.clone().spare().await))
    }

    /// Waits until the primary has executed its request, also if the client has disconnected meanwhile: then
    /// returns that end.
    ///
    /// # Errors
    /// The primary was lost: the outcome of the request is unknown.
    async fn ran_out(
        &mut self,
        ran: Result<(), Ended>,
        uses: &[Use],
        open: &mut Open,
    ) -> Result<Option<Ended>, Ended> {
        let lost = match ran {
            Ok(()) => return Ok(None),
            Err(lost @ Ended::PrimaryLost(_)) => lost,
            Err(gone) => match self.line.settled_alone().await {
                Ok(()) => return Ok(Some(gone)),
                Err(lost) => lost,
            },
        };
        if uses.iter().any(|used| used.moves_sequences) {
            // An uncommitted transaction is rolled back; sequences stay advanced.
            self.lose_all(open, "the primary was lost while it advanced a sequence");
        }
        Err(lost)
    }

    /// Runs a request outside a block: BEGIN, the request, COMMIT.
    async fn run_in_block_of_ours(
        &mut self,
        request: Request,
        uses: &[Use],
        mut open: Open,
        begin: &str,
    ) -> Result<(), Ended> {
        let mut begin = Some(begin);
        if uses.iter().any(|used| used.instants > 0) {
            self.line.ask(begin.take().unwrap_or(BEGIN)).await?;
            if let Some(problem) = self.ask_instant(uses, &mut open).await? {
                self.line.ask("ROLLBACK").await?;
                return self.refuse_ordered(request, "clock", problem).await;
            }
        }
        let spared = self.spare_draws(uses).await?;
        let work = self.begin_at_copies(uses, &mut open).await;
        // In the middle of a text a completion cannot be kept back.
        let alone = request.kind == Kind::Batch || uses.len() == 1;
        self.current.request = None;
        let copies = replica_execution::finish(&self.service.cluster, &mut open.copies, &work);
        let (ran, did) = tokio::join!(self.line.run_within(begin, request, alone), copies);
        let gone = self.ran_out(ran, uses, &mut open).await?;
        drop(spared);
        let mut seen = self.line.primary.seen();
        self.compare_copies(uses, &seen, did, &mut open);
        let by: Vec<StandbyId> = open.copies.iter().map(|copy| copy.replica).chain([PRIMARY]).collect();
        open.step_done(by);
        if let Some(gone) = gone {
            return Err(gone);
        }
        let mut end = std::mem::take(&mut seen.withheld);
        if seen.failed {
            procedure_calls::explained(uses, &seen, self.line.client.out());
            self.line.ask("ROLLBACK").await?;
            self.roll_back_copies(open).await;
        } else {
            self.spare()?;
            self.line.primary.own_error();
            self.line.primary.ask_aloud("COMMIT");
            let settled = self.line.settled().await;
            let error = self.commit_ordered(settled, open, None).await?;
            if let Some(error) = error {
                seen.failed = true;
                end = error;
            }
        }
        self.learn_from(&seen);
        self.went(Went::Primary(ORDERED));
        let status = self.line.primary.status;
        let out = self.line.client.out();
        out.extend_from_slice(&end);
        out.ready(status);
        Ok(())
    }

    /// Runs COMMIT or ROLLBACK of the client's block.
    async fn end_block(&mut self, request: Request, commits: bool) -> Result<(), Ended> {
        let Some(open) = self.txn.takes_open() else {
            self.at_primary_alone(request).await?;
            return self.keep_level().await;
        };
        self.current.request = None;
        if !commits {
            let ran = self.line.run(request).await;
            self.learn();
            self.roll_back_copies(open).await;
            ran?;
            self.went(Went::Primary(ORDERED));
            return self.keep_level().await;
        }
        self.spare()?;
        let ran = self.line.run_withheld(request).await;
        let seen = self.line.primary.seen();
        let error = self.commit_ordered(ran, open, Some(has_committed(&seen))).await?;
        debug_assert!(error.is_none(), "the client has got the error itself");
        self.learn_from(&seen);
        self.went(Went::Primary(ORDERED));
        let status = self.line.primary.status;
        let out = self.line.client.out();
        out.extend_from_slice(&seen.withheld);
        out.ready(status);
        self.keep_level().await
    }

    /// Handles the primary's answer to a COMMIT: the replicas do the same. Returns the error for the client.
    /// `committed`: true if the client's own COMMIT was completed as such; `None`: the COMMIT was Consort's.
    async fn commit_ordered(
        &mut self,
        settled: Result<(), Ended>,
        open: Open,
        committed: Option<bool>,
    ) -> Result<Option<Vec<u8>>, Ended> {
        let gone = match settled {
            Ok(()) => None,
            Err(ended @ Ended::PrimaryLost(_)) => {
                self.take_out_all(open, "the primary was lost during a commit: the outcome is unknown");
                return Err(ended);
            }
            // The client disconnected: its commit goes on.
            Err(ended) => match self.line.settled_alone().await {
                Ok(()) => Some(ended),
                Err(lost) => {
                    self.take_out_all(open, "the primary was lost during a commit: the outcome is unknown");
                    return Err(lost);
                }
            },
        };
        let error = self.line.primary.own_error();
        let committed = match committed {
            Some(committed) => committed || gone.is_some() && has_committed(&self.line.primary.seen()),
            None => error.is_none(),
        };
        if committed {
            self.commit_copies(open).await;
        } else {
            self.roll_back_copies(open).await;
        }
        gone.map_or(Ok(error), Err)
    }

    /// Runs ROLLBACK TO SAVEPOINT.
    async fn go_back(&mut self, request: Request, used: &Use) -> Result<(), Ended> {
        let Some(mut open) = self.txn.takes_open() else { return self.at_primary_alone(request).await };
        let Ok(sent) = open.transaction.back_to_savepoint() else {
            return Err(Ended::PrimaryLost(Told::NotYet));
        };
        let done = self.everywhere_in_block(request, std::slice::from_ref(used), &mut open).await;
        for copy in &mut open.copies {
            // Settings changed in between are back at their earlier values.
            copy.settings = copy.settings.take().filter(|_| !copy.has_set);
        }
        open.step_done(sent);
        self.txn.orders(open);
        done
    }

    /// Queries the instant at which the transaction began, if a statement needs it. Returns the problem if
    /// the statement's words for the current time are not understood.
    async fn ask_instant(&mut self, uses: &[Use], open: &mut Open) -> Result<Option<Problem>, Ended> {
        if uses.iter().all(|used| used.instants == 0) {
            return Ok(None);
        }
        // Each time: the time zone may have changed, and days and local times with it.
        let row = self.line.ask(Instant::QUESTION).await?.unwrap_or_default();
        open.instant = Instant::of_row(&row);
        let understood = open.instant.as_ref().is_some_and(|instant| {
            let words =
                |used: &Use| used.instants == 0 || instant.put_into(&used.text, used.instants).is_some();
            uses.iter().all(words)
        });
        Ok((!understood).then(|| {
            let message =
                "cannot execute the statement on every server: unsupported expression of the current time";
            Problem::error("0A000", message)
                .hint("Write now() or CURRENT_TIMESTAMP, or send the value itself.")
        }))
    }

    /// Waits for the new catalog after DDL has committed everywhere and before its locks are released, so
    /// that later statements are analysed under it.
    async fn catalog_comes(&self) -> bool {
        let cluster = &self.service.cluster;
        let wanted = cluster.scheduler().order_mut().want_gauge();
        cluster.gauge_now();
        let limit = Time::now() + CATALOG_LIMIT;
        loop {
            let moved = cluster.next_move();
            let is_settled = self.database.id().is_some_and(|database| {
                cluster.scheduler().order().settled(database).is_some_and(|(number, _)| number >= wanted)
            });
            if is_settled && self.database.loaded().is_some() {
                return true;
            }
            if timeout_at(limit, moved).await.is_err() {
                return false;
            }
        }
    }

    /// Answers a statement that did not get its locks.
    async fn no_locks(&mut self, request: Request, no: NoLocks) -> Result<(), Ended> {
        let (name, problem) = match no {
            NoLocks::Refused(Refused::Deadlock) => (
                "deadlock",
                Problem::error("40P01", "deadlock detected").hint(
                    "Two transactions wait for tables that the other one has used. Run this one again. \
                     Use tables in the same order everywhere, written tables first.",
                ),
            ),
            NoLocks::Refused(Refused::Undeclared(table)) => ("undeclared", self.undeclared(table)),
            NoLocks::Refused(Refused::Full) => (
                "full",
                Problem::error(
                    "54000",
                    "too many transactions are open, or this one has too many statements",
                ),
            ),
            NoLocks::Refused(refused) => (
                "refused",
                Problem::error("40001", format!("the transaction cannot continue: {refused}"))
                    .hint("Run it again."),
            ),
            NoLocks::Late => (
                "replica_wait_timeout",
                Problem::error("40001", "timed out waiting for table locks (replica_wait_timeout)").hint(
                    "Another transaction that uses these tables did not end in time. Run this one again.",
                ),
            ),
            NoLocks::Cancelled => ("cancelled", cancelled()),
        };
        self.refuse_ordered(request, name, problem).await
    }

    /// Answers a request with this error, and fails its block.
    async fn refuse_ordered(
        &mut self,
        request: Request,
        name: &'static str,
        problem: Problem,
    ) -> Result<(), Ended> {
        self.service.cluster.metrics().scheduled_refused.one(name);
        self.current.request = Some(request);
        if self.line.primary.status == Status::InBlock {
            self.fail_block(Some(problem)).await;
        } else {
            self.refuse(request, &problem);
        }
        self.ended.take().map_or(Ok(()), Err)
    }

    /// Refuses a request whose end has not come: it cannot be analysed before it is executed.
    async fn refuse_open(&mut self, request: Request) -> Result<(), Ended> {
        let what = if request.kind == Kind::Function { "function_call" } else { "open_pipeline" };
        self.service.cluster.metrics().scheduled_refused.one(what);
        let problem = Problem::error(
            "0A000",
            "cannot execute an incomplete request: it is flushed before its Sync, or exceeds the size limit",
        )
        .hint("docs/designs.md lists what this design does not execute.");
        self.line.client.out().problem(&problem);
        if self.line.primary.status == Status::InBlock {
            self.line.ask(FAIL).await?;
            self.state.statement_failed();
            self.state.ready(self.line.primary.status.byte(), &mut self.service.interner.borrow_mut());
        }
        if request.kind == Kind::Function {
            self.line.client.consume(request.bytes);
            let status = self.line.primary.status;
            self.line.client.out().ready(status);
            return self.line.send().await;
        }
        self.skipping = true;
        self.skip(request).await
    }
}

/// True if a COMMIT was completed, and not as a ROLLBACK.
fn has_committed(seen: &Seen) -> bool {
    seen.tags.iter().any(|tag| **tag == *b"COMMIT")
}

/// The declaration in the comments of a request.
fn declared_by(uses: &[Use]) -> Option<Declaration> {
    uses.iter().find_map(|used| used.declares.clone())
}

/// All locks that the statements need.
fn locks_of(uses: &[Use]) -> Tables {
    let mut all = Tables::default();
    for used in uses {
        match &used.locks {
            Some(locks) => {
                all.reads.extend(&locks.reads);
                all.writes.extend(&locks.writes);
            }
            None if matches!(used.does, Does::AlonePrimary | Does::AtPrimary | Does::Marks) => {}
            None => return touching_everything(),
        }
    }
    all
}
