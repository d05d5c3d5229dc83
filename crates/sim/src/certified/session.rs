//! A session at the model: what `certified::session` does at PostgreSQL, around [`certified_flow::commit_certified`].

use super::engine::{Engine, Row, Trouble, Wrote};
use super::order::Turn;
use super::process::{Life, Process, Site};
use super::timer::VirtualTimer;
use super::write_set::Effects;
use crate::bugs::Bug;
use certified_flow::{Behind, Claim, CommitOrder, Conflict, NotCommitted, Order, Run, Session, Timer, start};
use history::{Consistency, Version};
use std::rc::Rc;
use std::time::Duration;

/// A node that gives no answer for so long has lost the session's commit.
const HANG_LIMIT: Duration = certified_flow::HANG_LIMIT;
/// How long a session waits for a version to be shown at its node.
const WAIT_TIMEOUT: Duration = Duration::from_secs(2);
/// A row lock is waited for so long at most; then the transaction is given up, as one in a deadlock is.
const LOCK_TIMEOUT_US: u64 = 20_000;

/// The session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// Why a transaction was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The transaction was ended for another one.
    Doomed,
    /// The certifier has refused the transaction.
    Conflict(Conflict),
    /// The server has refused the transaction.
    Server,
    /// The node is behind.
    Behind,
}

/// See the file's first lines.
pub(crate) struct SimSession {
    pub(crate) process: Rc<Process>,
    pub(crate) engine: Rc<Engine>,
    site: Rc<Site>,
    claim: Rc<Claim>,
    consistency: Consistency,
    last: Version,
    effects: Effects,
    node_lost: bool,
}

impl SimSession {
    /// A session enters a node. Nothing if the node is not there, or has restarted unnoticed.
    pub(crate) async fn enter(
        process: &Rc<Process>,
        number: usize,
        consistency: Consistency,
    ) -> Option<SimSession> {
        let (engine, site) = (process.engines[number].clone(), process.site(number).clone());
        let pid = engine.connect(process.number, false)?;
        let claim = Rc::new(Claim::default());
        claim.pid.set(pid);
        site.enters(&claim);
        let (last, effects) = (process.order.promised(), Effects::default());
        let process = process.clone();
        let session =
            SimSession { process, engine, site, claim, consistency, last, effects, node_lost: false };
        session.engine.network().await;
        let knows_life = session.site.is_life(&session.engine.life());
        session.engine.network().await;
        let has_functions = session.site.of_life.borrow().commit_order.is_some();
        let is_there = knows_life && has_functions && session.engine.is_connected(pid);
        if !is_there {
            session.leaves();
        }
        is_there.then_some(session)
    }

    /// The session leaves its node. The server ends its backend when it hears of it.
    pub(crate) fn leaves(&self) {
        self.site.leaves(&self.claim);
        let (engine, pid) = (self.engine.clone(), self.pid());
        let group = super::engine::group(engine.number);
        engine.env.clone().executor.spawn(group, async move {
            engine.network().await;
            engine.terminate(pid);
        });
    }

    fn pid(&self) -> i32 {
        self.claim.pid.get()
    }

    /// Whether the session ends after its answer.
    pub(crate) fn is_over(&self) -> bool {
        self.node_lost || !self.engine.is_connected(self.pid())
    }

    /// Completes when the node is silent and the session has no commit with bounds of its own.
    pub(crate) async fn silence(site: Rc<Site>, claim: Rc<Claim>) {
        site.until(|site| site.is_silent() && !claim.is_certified()).await;
    }

    /// The site and the claim, for [`SimSession::silence`].
    pub(crate) fn watched(&self) -> (Rc<Site>, Rc<Claim>) {
        (self.site.clone(), self.claim.clone())
    }

    /// Begins a transaction: the version of its snapshot, as the model knows it.
    pub(crate) async fn begins(&mut self) -> Run<Self, Version> {
        self.effects = Effects::default();
        if let Err(Behind(_)) = start(self, self.consistency, self.last, WAIT_TIMEOUT).await {
            return Ok(Err(Refusal::Behind));
        }
        self.engine.network().await;
        let snapshot = match self.engine.snapshot(self.pid()) {
            Ok(snapshot) => snapshot,
            Err(trouble) => return self.troubled(trouble).await,
        };
        self.engine.network().await;
        if self.process.env.bugs.has(Bug::LabelAfterSnapshot) {
            self.claim.begin(self.site.visible());
        }
        Ok(Ok(snapshot))
    }

    /// Reads a row.
    pub(crate) async fn reads(&mut self, row: Row) -> Run<Self, u32> {
        self.engine.network().await;
        let read = self.engine.read(self.pid(), row);
        self.engine.network().await;
        match read {
            Ok(value) => Ok(Ok(value)),
            Err(trouble) => self.troubled(trouble).await,
        }
    }

    /// Locks a row, and writes it if there is a value.
    pub(crate) async fn writes(&mut self, row: Row, value: Option<u32>) -> Run<Self> {
        self.claim.runs.set(true);
        self.engine.network().await;
        self.engine.runs(self.pid(), true);
        let end = self.engine.env.now() + LOCK_TIMEOUT_US;
        let wrote = loop {
            match self.engine.write(self.pid(), row, value) {
                Ok(Wrote::Blocked(_)) if self.engine.env.now() < end => {
                    self.engine.changes(LOCK_TIMEOUT_US).await
                }
                Ok(Wrote::Blocked(_)) => break Err(Trouble::Failed),
                Ok(Wrote::Yes) => break Ok(()),
                Err(trouble) => break Err(trouble),
            }
        };
        self.engine.runs(self.pid(), false);
        self.engine.network().await;
        self.claim.runs.set(false);
        if let Err(trouble) = wrote {
            return self.troubled(trouble).await;
        }
        match value {
            Some(value) => drop(self.effects.writes.insert(row, value)),
            None => drop(self.effects.locks.insert(row)),
        }
        Ok(Ok(()))
    }

    /// The client thinks; meanwhile the transaction may be lost.
    pub(crate) async fn thinks(&mut self, micros: u64) -> Run<Self> {
        let claim = self.claim.clone();
        let timer = self.timer();
        if timer.within(Duration::from_micros(micros), claim.doomed()).await.is_none() {
            return Ok(Ok(()));
        }
        self.gives_up(Refusal::Doomed).await
    }

    /// Ends the transaction without a commit.
    pub(crate) async fn gives_up<T>(&mut self, refusal: Refusal) -> Run<Self, T> {
        self.undo().await?;
        self.ended();
        Ok(Err(refusal))
    }

    async fn troubled<T>(&mut self, trouble: Trouble) -> Run<Self, T> {
        match trouble {
            Trouble::Lost => Err(Gone),
            Trouble::Failed => {
                let refusal = if self.claim.is_doomed() { Refusal::Doomed } else { Refusal::Server };
                self.gives_up(refusal).await
            }
        }
    }
}

impl Session for SimSession {
    type WriteSet = Effects;
    type Life = Life;
    type Refusal = Refusal;
    type Gone = Gone;
    type Timer = VirtualTimer;

    fn timer(&self) -> VirtualTimer {
        VirtualTimer(self.process.env.executor.clone())
    }

    fn order(&self) -> &Order<Effects, Life> {
        &self.process.order
    }

    fn site(&self) -> &Rc<Site> {
        &self.site
    }

    fn claim(&self) -> &Rc<Claim> {
        &self.claim
    }

    async fn capture(&mut self) -> Run<Self, Option<Effects>> {
        self.engine.network().await;
        self.process.env.step(|delays| delays.work).await;
        let found = self.engine.read(self.pid(), 0);
        if found.is_ok() && self.commit_order() == CommitOrder::Chain {
            self.claim.link.set(self.engine.link(self.pid()));
        }
        self.engine.network().await;
        match found {
            Err(Trouble::Lost) => Err(Gone),
            Err(Trouble::Failed) => Ok(Err(Refusal::Doomed)),
            Ok(_) if self.effects == Effects::default() => Ok(Ok(None)),
            Ok(_) => Ok(Ok(Some(self.effects.clone()))),
        }
    }

    /// No command changes the catalog here. The ledger's writer hears that a record may follow at once.
    fn gives_way(&self) {
        self.process.appends();
    }

    async fn commit(&mut self) -> Run<Self> {
        match self.engine.commits(self.pid(), None, Turn::Sent).take().await {
            None | Some(Err(Trouble::Lost)) => Err(Gone),
            Some(Err(Trouble::Failed)) => Ok(Err(Refusal::Server)),
            Some(Ok(())) => Ok(Ok(())),
        }
    }

    fn commit_order(&self) -> CommitOrder {
        self.site.of_life.borrow().commit_order.unwrap_or_default()
    }

    async fn commit_at(&mut self, version: Version, follows: Option<u64>) -> Result<(), NotCommitted> {
        let turn = match self.commit_order() {
            CommitOrder::Gate => Turn::Gate,
            CommitOrder::Sessions | CommitOrder::Chain => follows.map_or(Turn::Sent, Turn::After),
        };
        let applied = vec![(version, self.effects.writes.clone())];
        let (pid, engine) = (self.pid(), self.engine.clone());
        let answer = engine.commits(pid, Some(applied), turn);
        // A connection that is cut is heard of before the end of the limit.
        let lost = async {
            while engine.is_connected(pid) {
                engine.change().await;
            }
        };
        let mut found = None;
        let answered = async { found = answer.take().await };
        let _ = self.timer().within(HANG_LIMIT, crate::executor::either(answered, lost)).await;
        match found {
            Some(Ok(())) => Ok(()),
            Some(Err(Trouble::Failed)) => Err(NotCommitted::Refused("the transaction has failed".to_owned())),
            Some(Err(Trouble::Lost)) | None => Err(NotCommitted::Lost("the connection is lost".to_owned())),
        }
    }

    async fn flush(&mut self) {
        if self.process.mix.flushes {
            self.engine.network().await;
            self.process.env.step(|delays| delays.fsync).await;
            match self.engine.is_connected(self.pid()) {
                true => self.engine.flush(),
                false => self.node_lost = true,
            }
            self.engine.network().await;
        }
    }

    async fn undo(&mut self) -> Result<(), Gone> {
        self.engine.network().await;
        let undone = self.engine.roll_back(self.pid());
        self.engine.network().await;
        undone.map_err(|_| Gone)
    }

    fn ended(&mut self) {
        self.claim.end();
        self.claim.outlives_cancellation();
    }

    fn promises(&mut self, version: Version) {
        self.last = self.last.max(version);
    }

    fn loses_node(&mut self, _why: String) {
        self.node_lost = true;
    }

    fn given_up(&self, _version: Version, _why: &str) {}

    fn doomed(&self) -> Refusal {
        Refusal::Doomed
    }

    fn refused(&self, conflict: Conflict) -> Refusal {
        Refusal::Conflict(conflict)
    }

    fn ledger_failed(&self, _error: &ledger::Error) -> Gone {
        Gone
    }
}
