//! One client's session: its requests, one after the other, the data that each of them may touch, and the
//! server where it runs.
//!
//! The path of a request: `relay` cuts it out of the client's stream, and `request_analysis` analyses it.
//! `Session::answer` passes it to the flow of its kind (`transaction::read`, `transaction::write`, the flows
//! of a block). `flows` carries out the flow's decisions: at a standby, or over the line to the primary.

mod answers_ahead;
mod attach_commands;
mod batch_head;
mod client_wait;
mod commit_turns;
mod configuration_reload;
mod consort_settings;
mod created_tables;
mod current;
mod deferred_begin;
mod deferred_locks;
mod flows;
mod handover;
mod idle_connection;
mod latest_state_reads;
mod mode;
mod notifications;
mod pending_analysis;
pub mod primary;
mod probe;
mod read_only_snapshots;
mod reads_in_block;
mod relay;
mod repeated_parse;
mod reported_statements;
mod request_analysis;
pub(crate) mod request_text;
mod role_names;
mod scheduled;
mod session_end;
mod session_parts;
mod shadow_reads;
mod sql_prepare;
mod statement_columns;
mod statement_log;
mod statement_pooling;
mod transaction_pooling;
mod txn;
mod unfollowed_writes;

pub use handover::{CARRIED_VERSION, Carried};
pub use relay::Line;

use answers_ahead::{has_begun, has_not_begun};
use backend::request::{Kind, Request};
use backend::request_text::Words;
use backend::servers::Member;
use backend::service::Service;
use cluster::barrier;
use cluster::barrier::{Change, Everywhere};
use cluster::plan::{Plan, Writing};
use cluster::{Cluster, Database, Hold};
use commit_turns::Way;
use conn::log_in::Wish;
use conn::registry::Moved;
use current::Current;
use deferred_locks::{
    DeferredReads, defers_locks, defers_locks_of, heeds_lock, may_defer_locks, opens_block, read_unlocked,
};
use history::Footprint;
use mode::Mode;
use pending_analysis::Unjudged;
use primary::Ended;
use read_only_snapshots::Snapshot;
use request_analysis::{PARSED_OTHERWISE, Several, Todo};
use scheduler::{Reason, Writers};
use session_parts::{First, Reads, Times, Who};
use session_state::utility::{Name, Statement, Utility, What};
use session_state::{BlockStatus, SessionState, Startup, not_before};
use std::rc::Rc;
use tokio::time::Instant;
use transaction::{Backend, Block, Standing};
use txn::Txn;
use unfollowed_writes::Early;
use wire::tag::front;
use wire::{Answers, Problem, Status, Step};

/// A read inside a block stays with the block.
const IN_BLOCK: Reason = Reason::Stay("in_block");
/// A role of the session, or its database, has been renamed, and a standby would take another for it.
const RENAMED: Reason = Reason::Stay("session_renamed");
/// The names of the session's roles are not checked yet, and inside a block no query can do that.
const NAMES_UNCHECKED: Reason = Reason::Stay("names_unchecked");
/// A block that could have run at a standby has begun at the primary.
const ISOLATION: Reason = Reason::Stay("isolation");
/// The commits of the database are not followed: writes there are not recorded.
const NOT_FOLLOWED: Reason = Reason::DatabaseNotFollowed;

/// One client's session.
pub struct Session {
    line: Line,
    service: Rc<Service>,
    database: Rc<Database>,
    who: Who,
    state: SessionState,
    /// The place of the session's transaction.
    txn: Txn,
    /// The current request.
    current: Current,
    mode: Mode,
    reads: Reads,
    first: First,
    unjudged: Unjudged,
    shares: transaction_pooling::Shares,
    times: Times,
    /// An error was answered: input up to the Sync is discarded.
    skipping: bool,
    words: Rc<Words>,
    ended: Option<Ended>,
}

impl Session {
    /// Creates the session of a client that was admitted.
    pub fn new(line: Line, service: Rc<Service>, startup: &Startup, wish: Wish) -> Session {
        let state = SessionState::new(startup, &mut service.interner.borrow_mut());
        let backend = Backend { pid: line.primary.key.pid, started_us: 0 };
        let pool = service.servers.member(&wish.database, &wish.user);
        let mut session = Session {
            database: service.cluster.database(&wish.database),
            mode: Mode::of(&service.cluster),
            line,
            service,
            who: Who { wish, backend, pool, named: None },
            state,
            txn: Txn::default(),
            current: Current::default(),
            reads: Reads::default(),
            first: First::default(),
            unjudged: Unjudged::default(),
            shares: transaction_pooling::Shares::default(),
            times: Times { came: Some(Instant::now()), began: None },
            skipping: false,
            words: Rc::default(),
            ended: None,
        };
        for (name, value) in session.line.reported().0.iter() {
            session.state.reported(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value));
        }
        session
    }

    /// Creates a session that needs no connection at the primary to begin: earlier log-ins have shown its
    /// initial state.
    pub fn greeted(
        line: Line,
        service: Rc<Service>,
        startup: &Startup,
        wish: Wish,
        known: &SessionState,
    ) -> Session {
        let session = Session::new(line, service, startup, wish);
        Session { state: known.another(startup), ..session }
    }

    /// Runs the session: requests until one side ends it.
    pub async fn run(mut self: Box<Self>) {
        let mut request = None;
        let ended = loop {
            // The future of an answer has its own allocation: a waiting session has none.
            if let Err(ended) = Box::pin(self.answer_and_rest(request.take())).await {
                break ended;
            }
            self.line.outlives_primary = self.can_go_on_alone();
            let pass = self.txn.snapshot().and_then(Snapshot::pass);
            let (idle_limit, is_idle) = (self.state.idle_limit(), !self.is_amid_a_batch());
            let asked = tokio::select! {
                biased;
                () = self.service.cluster.reader_let_go(pass) => None,
                () = transaction_pooling::comes(self.shares.asked_again) => continue,
                asked = self.line.next_request(idle_limit, is_idle) => Some(asked),
            };
            match asked {
                Some(Ok(asked)) => request = Some(asked),
                Some(Err(Ended::Moves)) => {
                    if Box::pin(self.moves()).await == Moved::There {
                        return self.has_moved();
                    }
                }
                Some(Err(ended)) => break ended,
                None => self.let_snapshot_go(),
            }
        };
        let (line, _counted) = self.leave();
        Box::pin(line.end(ended)).await;
    }

    /// Drops the session except for its line, and its membership in the pool, which ends with the line.
    fn leave(self: Box<Self>) -> (Line, Member) {
        let Session { line, txn, who: Who { pool, .. }, .. } = *self;
        // An in-flight write set stays until the backend has ended, and the commit turn as well.
        drop(txn);
        (line, pool)
    }

    /// Answers a request, if there is one, and frees everything that the session does not need until the next
    /// one.
    async fn answer_and_rest(&mut self, request: Option<Request>) -> Result<(), Ended> {
        if let Some(request) = request {
            let request = self.as_it_has_come(request)?;
            // No result admitted earlier can follow this: sessions end before another Consort trusts its own.
            if self.service.cluster.serves_nobody() {
                return Err(Ended::MayNotLead);
            }
            let answered = match self.mode.is_ordered() {
                _ if self.skipping && request.kind != Kind::Terminate => self.skip(request).await,
                true => Box::pin(self.answer_ordered(request)).await,
                false => self.answer(request).await,
            };
            match answered {
                Err(Ended::Cancelled) => self.cancelled(request).await?,
                answered => answered?,
            }
            self.hear_and_be_ready().await?;
            if self.line.status() != Status::Idle && self.stands_alone() {
                return Err(Ended::NoBlocks);
            }
        }
        if self.current.meant.is_unreached {
            // A COMMIT that was answered ahead.
            self.line.settled().await?;
        }
        self.rest().await?;
        self.take_name().await
    }

    /// True if a part of a batch has run, or has failed, and its Sync is still to come.
    fn is_amid_a_batch(&self) -> bool {
        self.skipping || self.current.flushed
    }

    /// True if reads of this session may be proven while the primary is unreachable: no state of the session
    /// lives there alone.
    fn can_go_on_alone(&self) -> bool {
        self.state.block() == BlockStatus::Idle
            && self.state.may_leave().is_ok()
            && self.service.cluster.scheduler().writers() == Writers::ThroughConsort
    }

    /// Answers one request, from its first byte to its last answer.
    async fn answer(&mut self, request: Request) -> Result<(), Ended> {
        self.begin_request(request);
        if self.txn.snapshot().is_some() {
            return self.answer_in_snapshot(request).await;
        }
        if request.kind == Kind::Batch
            && let Some(head) = self.head_apart(request)?
        {
            self.pay_begin().await?;
            self.current.fresh = true;
            return self.run_head(request, head).await;
        }
        if let Some(came) = self.times.came.take() {
            self.service.cluster.lead().until_needless(came).await;
        }
        self.database.no_more_awaited(&self.service.cluster).await;
        self.heed_reloads();
        self.judge();
        let stays_fresh = self.state.block() == BlockStatus::Idle || self.txn.is_fresh();
        let todo = match request.kind {
            Kind::Terminate => return Err(Ended::ClientLeft),
            Kind::Leftover => return self.line.drop_leftover(request),
            Kind::Query => self.understand_query(request).await?,
            Kind::Batch | Kind::Flushed => self.understand_batch(request).await?,
            Kind::Begun | Kind::Open | Kind::Function => {
                Todo::Several(Several::anything(Reason::Stay(request.kind.name())))
            }
        };
        let todo = todo.unless_lost(&self.service.cluster, not_before(&self.state));
        if self.stands_alone() && todo.is_begin() {
            return Err(Ended::NoBlocks);
        }
        self.current.fresh = stays_fresh && todo.leaves_block_fresh();
        self.current.meant.defers_on = todo.only_reads() && may_defer_locks(self);
        if is_answered_here(self, request, &todo).await? {
            return self.line.send().await;
        }
        if !self.may_leave_whole(&todo) {
            self.pay_begin().await?;
        }
        if let Some(bytes) = self.current.meant.head.take() {
            return self.run_head(request, Request { bytes, ..request }).await;
        }
        self.come_home_for(request, &todo).await?;
        let made = created_tables::made(&todo);
        let _alone = self.before_commands(&todo, &made).await;
        self.before_a_change_of_ours(request, &todo).await;
        let reload = self.begin_reload();
        self.ask_before_a_block(&todo).await?;
        let under = self.parses_under(&todo);
        self.line.statements.parses_under(under, std::mem::take(&mut self.current.meant.meanings));
        run(self, request, todo).await?;
        if let Some(ended) = self.ended.take() {
            return Err(ended);
        }
        if let Some(reload) = reload {
            reload.answered(&self.service.cluster, self.current.said.failed);
        }
        self.give_identities(&made).await?;
        if self.txn.snapshot().is_none() {
            self.settle().await;
        }
        self.line.send().await
    }

    /// Begins the next request. Its content is read later; the content of the request before no longer
    /// counts.
    fn begin_request(&mut self, request: Request) {
        self.current.begin(request, self.line.seat.held());
        // The notifying session may have written before: reads from now on must show that.
        self.reads.behind |= std::mem::take(&mut self.line.has_heard);
        self.says_nothing();
    }

    /// Runs the internal queries that must precede a block: inside it there is no room for them.
    async fn ask_before_a_block(&mut self, todo: &Todo) -> Result<(), Ended> {
        if !matches!(todo, Todo::Utility(_)) || self.state.block() != BlockStatus::Idle {
            return Ok(());
        }
        let reads_there = self.state.wants_snapshots() || defers_locks(self);
        if std::mem::take(&mut self.first.probe) || reads_there {
            self.probe().await?;
        }
        if std::mem::take(&mut self.first.names) || reads_there {
            self.keeps_its_names().await?;
        }
        Ok(())
    }

    /// Prepares for DDL commands that fire no event trigger, or that need a database for themselves.
    async fn before_commands(&mut self, todo: &Todo, made: &[Name]) -> Vec<Hold> {
        let (Todo::Utility(statements) | Todo::Several(Several { statements, .. })) = todo else {
            return Vec::new();
        };
        if !made.is_empty() {
            self.txn.begins().changes_everywhere = true;
        }
        let mut holds = Vec::new();
        for statement in statements.iter() {
            let What::Utility(Utility::Ddl { everywhere, alone, .. }) = &statement.what else { continue };
            if *everywhere {
                self.txn.begins().changes_everywhere = true;
            }
            for database in self.service.cluster.databases() {
                if alone.iter().any(|name| name == database.name()) {
                    self.service.servers.let_go(Some(database.name()));
                    holds.push(Box::pin(barrier::let_go(&self.service.cluster, &database)).await);
                }
            }
        }
        // Inside a block, other sessions see nothing of it before the commit.
        let may_commit = self.may_commit(todo);
        if let Some(at) = self.txn.at_primary()
            && at.changes_everywhere
            && at.everywhere.is_none()
            && may_commit
        {
            let backend = Some(self.who.backend);
            at.everywhere = Some(Everywhere::begin(&self.service.cluster, Change::Roles, backend));
        }
        holds
    }

    /// True if the request may end a transaction with a commit.
    fn may_commit(&self, todo: &Todo) -> bool {
        let block = self.state.block();
        match todo {
            Todo::Several(several) => block == BlockStatus::Idle || several.may_end_block,
            Todo::Utility(statements) => statements.iter().any(|statement| match &statement.what {
                What::Utility(utility) => utility.may_commit(block),
                What::Tree => true,
            }),
            Todo::Quiet | Todo::Own(_) | Todo::Refuse(_) | Todo::One(_) => false,
        }
    }

    /// Runs a statement that has a query tree.
    async fn one(&mut self, plan: Plan) -> Result<(), Ended> {
        self.current.is_read = matches!(plan, Plan::Leaves(_) | Plan::Stays(_));
        let in_block = self.state.block() != BlockStatus::Idle;
        let first = std::mem::take(&mut self.current.fresh);
        if !in_block && self.takes_turns() {
            self.current.commits.way = Way::InOurBlock;
        }
        if let Plan::Writes(writing) = &plan
            && !in_block
        {
            self.tells(writing);
        }
        if let Plan::Leaves(leaving) = &plan {
            self.current.template = Some(leaving.template.clone());
            if !in_block {
                self.hear_before_it_reads().await?;
            }
            self.current.waits.since = Some(std::time::Instant::now());
        }
        match plan {
            Plan::Leaves(leaving) if !self.keeps_its_names().await? => {
                self.pay_begin().await?;
                // During that wait, the read may have become a statement that writes.
                if leaving.catalog == self.database.version() {
                    self.stays(if self.first.names { NAMES_UNCHECKED } else { RENAMED }).await;
                } else {
                    self.writes(Writing::everything(Reason::CatalogChanged)).await;
                }
            }
            Plan::Leaves(_)
                if first && self.state.read_only_snapshot() && self.line.statements.any_otherwise() =>
            {
                // A standby would refuse that statement, and the block is likely to use it again.
                self.pay_begin().await?;
                self.quiet(PARSED_OTHERWISE).await;
            }
            Plan::Leaves(leaving) if first && self.state.read_only_snapshot() => {
                return self.begin_snapshot(&leaving).await;
            }
            Plan::Leaves(_) if self.state.read_only_snapshot() => self.quiet(ISOLATION).await,
            Plan::Leaves(leaving) if in_block && defers_locks_of(self, &leaving) => {
                read_unlocked(self, &leaving).await
            }
            Plan::Leaves(leaving) if in_block => self.read_in_block(&leaving).await,
            Plan::Leaves(mut leaving) => {
                if leaving.catalog == self.database.version() {
                    self.ask_before(&mut leaving).await;
                }
                if leaving.catalog != self.database.version() {
                    self.writes(Writing::everything(Reason::CatalogChanged)).await;
                    return Ok(());
                }
                if self.reads_wait() {
                    self.read_whole(&leaving).await;
                    return Ok(());
                }
                let cluster = self.service.cluster.clone();
                let ended = transaction::read(&cluster, self, &leaving.question).await;
                self.read_ended(ended, &leaving);
            }
            Plan::Stays(reason) => self.stays(reason).await,
            Plan::Writes(writing) => self.writes(writing).await,
        }
        Ok(())
    }

    /// Runs at the primary a statement that is proven to write nothing.
    async fn quiet(&mut self, reason: Reason) {
        if !opens_block(self).await {
            return;
        }
        transaction::Session::at_primary(self, reason).await;
    }

    /// Runs at the primary a statement whose tree shows that it writes nothing.
    async fn stays(&mut self, reason: Reason) {
        self.draws_there(reason);
        match (self.txn.block(), self.database.id()) {
            (None, Some(database)) => {
                let cluster = self.service.cluster.clone();
                let understood = cluster.scheduler().catalog(database);
                transaction::quiet(&cluster, self, database, understood, reason).await;
            }
            _ => self.quiet(reason).await,
        }
    }

    /// Runs at the primary a statement that may write: outside a block it may commit at once.
    async fn writes(&mut self, mut writing: Writing) {
        self.writes_there();
        self.still_understood(&mut writing.footprint, writing.catalog);
        if let Some(dirt) = writing.dirties {
            self.state.dirtied(dirt);
        }
        self.current.reason = writing.reason;
        match (self.txn.takes_block(), self.database.id()) {
            (Some(mut block), _) => {
                let rerun = self.txn.telling().is_some().then(|| self.rerun_of(&writing));
                if let Some(Ok(_)) = &rerun {
                    self.ask_what_is_seen();
                }
                block.write(self, &writing.footprint, writing.locks_out_readers, writing.reason).await;
                if let Some(rerun) = rerun {
                    self.ran_in_block(rerun);
                }
                self.txn.begins().block = Some(block);
            }
            (None, Some(database)) => {
                let cluster = self.service.cluster.clone();
                let outcome = transaction::write(&cluster, self, database, writing.footprint).await;
                self.committed(outcome).await;
            }
            (None, None) => self.unnoted(writing.reason).await,
        }
    }

    /// Puts a block back that a flow has held.
    fn keep_block(&mut self, block: Option<Block<Cluster>>) {
        if let Some(block) = block {
            self.txn.begins().block = Some(block);
        }
    }

    /// Widens the write set to everything if the catalog has changed since the analysis. No await stands
    /// between this and the start of the in-flight write set.
    fn still_understood(&self, footprint: &mut Footprint, catalog: u64) {
        if catalog != self.database.version() {
            *footprint = Footprint::Everything;
        }
    }

    /// Runs a write in a database that is not followed. The write set is not recorded, so reads stay at the
    /// primary until it is over.
    async fn unnoted(&mut self, reason: Reason) {
        let backend = self.who.backend;
        let begin = || Early::begin(&self.service.cluster, &self.database, backend);
        self.txn.begins().early.get_or_insert_with(begin);
        self.quiet(reason).await;
    }

    /// Runs a statement without a query tree: the end of a block, a setting, DDL.
    async fn utility(&mut self, statements: Rc<[Statement]>) {
        self.current.statements = statements.clone();
        let Some(Statement { what: What::Utility(utility), .. }) = statements.first() else {
            return self.quiet(NOT_FOLLOWED).await;
        };
        let reason = Reason::Stay(utility.name());
        self.current.reason = reason;
        self.told_beside(utility);
        let mut block = self.txn.takes_block();
        if let (Utility::RollbackTo(_), Some(block)) = (utility, &mut block) {
            block.goes_back();
        }
        heeds_lock(self, utility, block.as_mut());
        match (utility, block) {
            (Utility::Commit { .. }, Some(block)) if self.line.primary.status == Status::InBlock => {
                self.current.meant.is_unreached = !block.has_reached_primary();
                self.commit_block(block, reason).await;
            }
            (Utility::PrepareTransaction(_), Some(block)) if self.line.primary.status == Status::InBlock => {
                block.commit(self, reason).await;
            }
            (
                Utility::Commit { .. } | Utility::PrepareTransaction(_) | Utility::Rollback { .. },
                Some(block),
            ) => {
                block.roll_back(self, reason).await;
            }
            (utility, block) => {
                self.keep_block(block);
                match cluster::plan::utility(self.asker(), utility) {
                    Plan::Writes(writing) => self.writes(writing).await,
                    Plan::Stays(reason) => self.quiet(reason).await,
                    Plan::Leaves(_) => unreachable!("no utility statement leaves"),
                }
            }
        }
    }

    /// Runs several statements in one request, or a text that is not understood: they may end a block and
    /// begin another.
    async fn several(&mut self, mut several: Several) {
        if let Some(dirt) = several.dirt {
            self.state.dirtied(dirt);
        }
        self.told_no_more("several_statements");
        self.current.reason = several.reason;
        self.current.statements = several.statements;
        let mut block = self.txn.takes_block();
        // One of the statements may be a ROLLBACK TO.
        block.iter_mut().for_each(Block::goes_back);
        match block {
            Some(mut block) if several.may_end_block => {
                self.current.commits.locks_out = several.locks_out_readers;
                self.still_understood(&mut several.footprint, several.catalog);
                self.note(&mut block, &several.footprint, false).await;
                block.commit(self, several.reason).await;
            }
            mut block => {
                match &mut block {
                    Some(block) if several.locks_out_readers => block.locks_by_command(),
                    _ => self.current.commits.locks_out = several.locks_out_readers,
                }
                self.keep_block(block);
                self.writes(Writing {
                    footprint: several.footprint,
                    locks_out_readers: several.locks_out_readers,
                    unknown: false,
                    dirties: None,
                    reason: several.reason,
                    catalog: several.catalog,
                    again: Err("several_statements"),
                })
                .await;
            }
        }
    }

    /// Records in a block a past or future write set, without sending anything.
    async fn note(&mut self, block: &mut Block<Cluster>, footprint: &Footprint, locks_out_readers: bool) {
        let request = self.current.request.take();
        block.write(self, footprint, locks_out_readers, self.current.reason).await;
        self.current.request = request;
    }

    /// Updates the block after the last answer: the one that the session is in now, if any.
    async fn settle(&mut self) {
        self.current.request = None;
        let standing = match self.line.primary.status {
            Status::Idle => {
                if self.txn.at_primary().is_some_and(|at| at.is_unheard) {
                    self.ended = Some(has_not_begun(self));
                }
                return self.txn.ends_at_primary();
            }
            Status::InBlock => Standing::Open,
            Status::Failed => Standing::Failed,
        };
        let at = self.txn.begins();
        at.fresh = self.current.fresh;
        if at.block.is_none() {
            let Some(database) = self.database.id() else { return };
            let mut block = Block::new(&self.service.cluster, database);
            // AND CHAIN: the reads of the block before hold no locks.
            at.deferred = DeferredReads::default();
            if self.current.begins_block() {
                self.block_is_told();
            } else {
                // The block began among other statements: its write set so far is unknown.
                let locks_out = self.current.may_have_locked_out();
                self.note(&mut block, &Footprint::Everything, locks_out).await;
            }
            self.txn.begins().block = Some(block);
        }
        if let Some(block) = &mut self.txn.begins().block {
            block.stands(standing);
            if self.current.meant.defers_on {
                block.defers_again();
            }
        }
    }

    /// Answers a request that was cancelled before any part of it was done. A transaction with a deferred
    /// BEGIN fails with it.
    async fn cancelled(&mut self, request: Request) -> Result<(), Ended> {
        self.current.meant.meanings.clear();
        self.fail_owed();
        if self.line.status() == Status::Idle {
            self.txn.ends_at_primary();
        }
        self.refuse(request, &consort_settings::cancelled());
        self.line.send().await
    }

    /// Refuses a request that would have to be split between Consort and the primary.
    fn refuse(&mut self, request: Request, problem: &Problem) {
        if self.replaces_unnamed(request) {
            // The client would not mean an earlier unnamed statement either.
            self.line.statements.query_ran_elsewhere();
        }
        self.line.client.consume(request.bytes);
        let status = self.line.status();
        let out = self.line.client.out();
        out.problem(problem);
        if request.kind.goes_on() {
            // The Sync is still to come, or the rest of a message longer than the buffer.
            (self.skipping, self.current.flushed) = (true, false);
        } else {
            out.ready(status);
        }
    }
    /// True if the client has another unnamed statement after this request, or none.
    fn replaces_unnamed(&self, request: Request) -> bool {
        let (bytes, mut splitter) = (self.line.bytes(request), self.line.client.splitter);
        let mut at = 0;
        while let Ok(Step::Whole(frame)) = splitter.next(&bytes[at..]) {
            if frame.tag() == front::QUERY || frame.tag() == front::PARSE && frame.body().first() == Some(&0)
            {
                return true;
            }
            at += frame.bytes().len();
        }
        false
    }
}

/// Runs what is understood of the request.
async fn run(session: &mut Session, request: Request, todo: Todo) -> Result<(), Ended> {
    match todo {
        Todo::Quiet => session.quiet(Reason::Stay("nothing")).await,
        Todo::Own(statements) => {
            has_begun(session).await?;
            session.answer_own(request, &statements).await;
        }
        Todo::Refuse(problem) if session.line.primary.status == Status::InBlock => {
            session.fail_block(Some(problem)).await;
        }
        Todo::Refuse(problem) => session.refuse(request, &problem),
        Todo::One(plan) => session.one(plan).await?,
        Todo::Utility(statements) => session.utility_or_prepare(statements).await,
        Todo::Several(several) => session.several(several).await,
    }
    Ok(())
}

/// True if this request is sent to the primary and needs the block's locks: all but a read that may defer
/// its own, and the end of the block.
fn needs_open_block(todo: &Todo) -> bool {
    match todo {
        Todo::Own(_) | Todo::Refuse(_) | Todo::One(Plan::Leaves(_)) => false,
        Todo::Utility(statements) => {
            let ends = |statement: &Statement| {
                matches!(statement.what, What::Utility(Utility::Commit { .. } | Utility::Rollback { .. }))
            };
            !statements.iter().all(ends)
        }
        Todo::Quiet | Todo::One(Plan::Stays(_) | Plan::Writes(_)) | Todo::Several(_) => true,
    }
}

/// True if Consort has answered the request: a BEGIN that it defers, the end of a failed block with such a
/// BEGIN, or a statement whose block could not be opened at the primary.
async fn is_answered_here(session: &mut Session, request: Request, todo: &Todo) -> Result<bool, Ended> {
    if session.ends_failed(request, todo) || session.owes_begin(request, todo).await? {
        return Ok(true);
    }
    if !needs_open_block(todo) || opens_block(session).await {
        return Ok(false);
    }
    if let Some(ended) = session.ended.take() {
        return Err(ended);
    }
    session.settle().await;
    Ok(true)
}
