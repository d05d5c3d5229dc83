//! The transaction of a session at its node: what is open there, what it was promised, and how it ends without a commit.

use super::{Block, Done, Gone, Run, framed, lost, sqlstate};
use crate::database::Database;
use crate::database::Site;
use crate::engine::{Answer, Command, Engine};
use crate::options::Engines;
use crate::statement::{Class, Refusal, Statement};
use certified_flow::{Behind, Claim};
use history::{Consistency, Version};
use std::rc::Rc;
use wire::{Problem, Status};

/// A ROLLBACK is sent so often at most.
const UNDO_TIMES: usize = 5;

/// Where the session's transaction stands.
pub(super) struct Transaction {
    pub(super) block: Block,
    /// No statement has run in it yet.
    pub(super) is_fresh: bool,
    /// Error of a transaction that was ended for another one, not yet sent to the client.
    pub(super) lost: Option<Problem>,
    /// Tables that it has locked, and whether others may lock them so.
    pub(super) locks: Vec<(Vec<String>, bool)>,
    /// True while no other transaction is certified.
    pub(super) is_alone: bool,
    /// The answer of a capture that was sent together with the statement.
    pub(super) captured: Option<Answer>,
}

/// Consistency of the session, and the version it has seen.
pub(super) struct Promise {
    pub(super) consistency: Consistency,
    /// With which the session began.
    pub(super) default: Consistency,
    /// The version of its last commit.
    pub(super) last: Version,
    /// True after the notice that READ COMMITTED is raised.
    pub(super) told: bool,
}

/// The session's side of its node.
pub(super) struct NodeSession {
    pub(super) engine: Engine,
    pub(super) database: Rc<Database>,
    pub(super) site: Rc<Site>,
    pub(super) claim: Rc<Claim>,
    pub(super) transaction: Transaction,
    pub(super) promise: Promise,
    /// The node has gone while a commit was on its way: the session ends after its answer.
    pub(super) node_lost: Option<String>,
    /// True if the connection is ready for the next request.
    pub(super) has_joined: bool,
    /// True while the answer to a flush, which was sent together with the COMMIT, is to come.
    pub(super) flushes: bool,
}

impl NodeSession {
    /// A session enters its node.
    pub(super) fn new(
        engine: Engine,
        database: Rc<Database>,
        site: Rc<Site>,
        consistency: Consistency,
    ) -> NodeSession {
        let claim = Rc::new(Claim::default());
        claim.pid.set(engine.key.pid);
        site.enters(&claim);
        let transaction = Transaction {
            block: Block::None,
            is_fresh: true,
            lost: None,
            locks: Vec::new(),
            is_alone: false,
            captured: None,
        };
        // A new session sees every commit that was acknowledged before its log-in.
        let last = database.order.promised();
        let promise = Promise { consistency, default: consistency, last, told: false };
        NodeSession {
            engine,
            database,
            site,
            claim,
            transaction,
            promise,
            node_lost: None,
            has_joined: false,
            flushes: false,
        }
    }

    /// Makes the connection ready, once and after the client has discarded its settings. The version that the site shows
    /// must be of the same life of the server: a new session may reach a server that has restarted before the applier has
    /// noticed.
    pub(super) async fn joins(&mut self) -> Run<()> {
        self.engine.knows(self.site.of_life.borrow().functions.clone());
        let commits = match self.database.options.engines {
            Engines::DurableOneByOne => Command::on_disk(),
            Engines::InMemory | Engines::FlushedTogether => Command::in_memory(),
        };
        let answer = self.engine.ask(&[commits, Command::incarnation()]).await?;
        let life = answer.values.into_iter().next_back().flatten();
        self.has_joined = life.is_some_and(|life| self.site.is_life(&life));
        if self.has_joined { Ok(()) } else { Err(Gone::Node("the node has restarted".to_owned())) }
    }

    pub(super) fn status(&self) -> Status {
        self.engine.status
    }

    /// Returns the error for the client: one that Consort has caused says so.
    pub(super) fn said(&self, error: Vec<u8>) -> Vec<u8> {
        if self.claim.has_caused(&sqlstate(&error)) { framed(&lost()) } else { error }
    }

    /// The transaction has to go for another one: its locks are released, and the server refuses what comes in it.
    pub(super) async fn lose(&mut self) -> Run<()> {
        self.transaction.lost = Some(lost());
        self.roll_back_open().await?;
        self.engine.ask(&[Command::begin(), Command::fail()]).await?;
        self.claim.end();
        Ok(())
    }

    /// No transaction is open any more.
    pub(super) fn forget_transaction(&mut self) {
        self.transaction.block = Block::None;
        self.transaction.is_fresh = true;
        self.transaction.locks.clear();
        self.transaction.lost = None;
        self.transaction.captured = None;
        self.claim.end();
    }

    /// The block follows from what the server says.
    pub(super) fn follow(&mut self) {
        match (self.engine.status, self.transaction.block) {
            (Status::Idle, Block::Implicit | Block::Explicit) => self.forget_transaction(),
            (Status::InBlock | Status::Failed, Block::None) => {
                self.transaction.block = Block::Explicit;
                self.claim.begin(self.site.visible());
            }
            _ => {}
        }
    }

    /// A snapshot will be taken now: waits for what the session was promised to see in it, and notes what the node shows.
    pub(super) async fn starts(&mut self) -> Run<Done> {
        if !self.transaction.is_alone {
            // Nothing is locked yet: a command that changes the catalog goes first.
            drop(self.database.catalog.read().await);
        }
        let Promise { consistency, last, .. } = self.promise;
        let limit = self.database.options.replica_wait_timeout;
        if let Err(Behind(wanted)) = certified_flow::start(self, consistency, last, limit).await {
            let why =
                format!("timed out waiting for {wanted} at the node of the session (replica_wait_timeout)");
            return Ok(Err(framed(
                &Problem::error("57014", why)
                    .hint("The node is behind. Try again, or set consort.consistency = weak."),
            )));
        }
        self.transaction.is_fresh = false;
        Ok(Ok(()))
    }

    /// A statement that is refused fails its transaction.
    pub(super) async fn refuse(&mut self, refusal: Refusal) -> Run<Vec<u8>> {
        if self.status() == Status::InBlock {
            self.engine.ask(&[Command::fail()]).await?;
        }
        Ok(framed(&Problem::error(refusal.sqlstate, refusal.message).hint(refusal.hint)))
    }

    /// Ends what is open without a commit.
    pub(super) async fn roll_back(&mut self) -> Run<()> {
        self.roll_back_open().await?;
        self.forget_transaction();
        Ok(())
    }

    /// Sends ROLLBACK until nothing is open: a cancel request that comes late may meet it.
    pub(super) async fn roll_back_open(&mut self) -> Run<()> {
        for _ in 0..UNDO_TIMES {
            if self.status() == Status::Idle {
                return Ok(());
            }
            self.engine.ask(&[Command::roll_back()]).await?;
        }
        match self.status() {
            Status::Idle => Ok(()),
            Status::InBlock | Status::Failed => {
                Err(Gone::Node("its transaction cannot be undone".to_owned()))
            }
        }
    }

    /// The client hears that its transaction was lost, once. A ROLLBACK needs no such word, and after a COMMIT nothing is open.
    pub(super) async fn told_of_loss(&mut self, class: &Class) -> Run<Option<Vec<u8>>> {
        let Some(problem) = self.transaction.lost.take() else { return Ok(None) };
        match class {
            Class::Rollback(_) => return Ok(None),
            Class::Commit(_) => self.roll_back().await?,
            _ => {}
        }
        Ok(Some(framed(&problem)))
    }

    /// Opens a transaction that the request's end commits.
    pub(super) async fn open(&mut self) -> Run<()> {
        self.engine.ask(&[Command::begin()]).await?;
        self.transaction.block = Block::Implicit;
        self.transaction.is_fresh = true;
        Ok(())
    }

    /// Returns the commands before a statement of this class.
    pub(super) async fn prepare_for(&mut self, class: &Class) -> Run<()> {
        if self.status() != Status::InBlock {
            return Ok(());
        }
        match class {
            Class::Catalog { .. } => {
                self.engine.ask(&[Command::permits_ddl()]).await?;
            }
            Class::Constraints => {
                self.engine.ask(&[Command::certifies()]).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the commands after a statement of this class.
    pub(super) async fn conclude(&mut self, statement: &Statement, done: Done) -> Run<Done> {
        if done.is_err() || self.status() != Status::InBlock {
            return Ok(done);
        }
        let note = match &statement.class {
            Class::Catalog { silent: true } => Command::note_statement(&statement.text),
            Class::Catalog { silent: false } => Command::no_permit(),
            Class::Notify => Command::note_notify(&statement.text),
            Class::Sequences => Command::note_sequences(),
            Class::Constraints => {
                let answer = self.engine.ask(&[Command::deferred(), Command::renews()]).await?;
                return Ok(answer.error.map_or(done, Err));
            }
            _ => return Ok(done),
        };
        let answer = self.engine.ask(&[note]).await?;
        Ok(answer.error.map_or(done, Err))
    }

    /// Waits until all that was certified is shown here, while no other transaction is certified.
    pub(super) async fn alone_in_the_order<'a>(
        &self,
        database: &'a Database,
    ) -> tokio::sync::RwLockWriteGuard<'a, ()> {
        let alone = database.catalog.write().await;
        let newest = database.order.newest();
        let shown = self.site.until(|site| site.visible() >= newest);
        let _ = tokio::time::timeout(database.options.replica_wait_timeout, shown).await;
        alone
    }
}
