//! One client's session: a connection at the primary, and standby connections borrowed per statement. It is what
//! `node` is in production: it carries out what the flows decide.

use crate::bugs::Bug;
use crate::consort::Consort;
use crate::executor::{Micros, Take};
use crate::model::primary::{BackendProcess, Primary, Reply, Request};
use crate::model::schema::Table;
use crate::model::standby::{HANG_LIMIT, Standby};
use crate::model::statement::{Select, Surroundings};
use crate::record::{Breach, Where};
use history::{DatabaseId, Footprint};
use order::DoubtId;
use scheduler::{Ran, Reason, Ticket};
use std::rc::Rc;
use transaction::{AtPrimary, Backend, Delivered, Locks, Session as Flow, StandbyFailed};

/// Lag of the standby's clock.
const CLOCK_BEHIND: Micros = 2_000;

/// Result of the current statement for the client.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// Number of answers that began.
    pub begun: u32,
    /// The whole answer.
    pub reply: Option<Reply>,
    /// The server that gave it.
    pub place: Option<Where>,
}

/// A standby's answer, held.
pub struct Held {
    result: Vec<u32>,
    standby: Rc<Standby>,
    life: u64,
}

/// The session.
pub struct Session {
    /// Its Consort.
    pub consort: Rc<Consort>,
    /// The server that it is connected to.
    pub primary: Rc<Primary>,
    /// Its connection there.
    pub backend: Rc<BackendProcess>,
    /// Its database.
    pub database: DatabaseId,
    /// Request of the current statement at the primary.
    pub request: Request,
    /// The current query.
    pub select: Option<Select>,
    /// A setting made by plain SET: mirrored at standbys.
    pub known_tenant: usize,
    /// The client's connection breaks this long after the next statement that may commit was sent.
    pub dies_after: Option<Micros>,
    /// The narrower in-flight write set of a statement whose tree came late.
    pub narrow: Option<Footprint>,
    /// Result for the client.
    pub wire: Wire,
    snapshot: Option<(Rc<Standby>, u64, crate::model::schema::State)>,
    locks: Option<Take<Reply>>,
    /// Tables whose locks the block has deferred.
    deferred: Vec<Table>,
}

impl Session {
    /// A session over this connection.
    pub fn new(
        consort: &Rc<Consort>,
        primary: Rc<Primary>,
        backend: Rc<BackendProcess>,
        database: DatabaseId,
    ) -> Session {
        Session {
            consort: consort.clone(),
            primary,
            backend,
            database,
            request: Request::Rollback,
            select: None,
            known_tenant: 0,
            dies_after: None,
            narrow: None,
            wire: Wire::default(),
            snapshot: None,
            locks: None,
            deferred: Vec::new(),
        }
    }

    /// A query is next.
    pub fn query(&mut self, select: &Select) {
        self.wire = Wire::default();
        self.request = Request::Read(select.clone());
        self.select = Some(select.clone());
    }

    /// Something else is next.
    pub fn command(&mut self, request: Request) {
        self.wire = Wire::default();
        self.request = request;
        self.select = None;
    }

    /// Reads in the snapshot that was opened at a standby; `None` if that standby is gone.
    pub async fn in_snapshot(&mut self, select: &Select) -> Option<Vec<u32>> {
        let env = self.consort.world.env.clone();
        env.step(|d| d.network).await;
        let (standby, life, state) = self.snapshot.as_ref()?;
        // An engine that keeps no versions shows what is there by now.
        let locking = self.consort.world.ways.get().locking;
        let by_now = locking.then(|| standby.look(self.database));
        let state = by_now.as_ref().unwrap_or(state);
        let answer = (standby.life() == *life).then(|| select.run(state, self.around(standby)));
        env.step(|d| d.network).await;
        answer
    }

    fn around(&self, standby: &Standby) -> Surroundings {
        let (env, bugs) = (&self.consort.world.env, &self.consort.world.env.bugs);
        Surroundings {
            tenant: if bugs.has(Bug::TenantGuc) { 0 } else { self.known_tenant },
            clock: env.now().saturating_sub(CLOCK_BEHIND),
            node: standby.id.get(),
            restored: standby.is_fed(),
        }
    }

    fn begins(&mut self) {
        self.wire.begun += 1;
        if self.wire.begun > 1 {
            self.consort.world.record.borrow_mut().breaches.push(Breach::AnsweredTwice);
        }
    }

    /// Sends the current request and waits for its answer, or until the connection dies.
    async fn exchange(&mut self, dies_after: Option<Micros>) -> AtPrimary {
        let env = self.consort.world.env.clone();
        env.step(|d| d.network).await;
        let pending = self.primary.submit(&self.backend, self.request.clone());
        let reply = match dies_after {
            Some(micros) => pending.take_within(micros).await,
            None => pending.take().await,
        };
        env.step(|d| d.network).await;
        let Some(reply) = reply else {
            self.primary.close(&self.backend);
            return AtPrimary::ConnectionLost;
        };
        self.begins();
        self.wire.reply = Some(reply);
        self.wire.place = Some(Where::Primary);
        AtPrimary::Answered
    }

    /// Sends to the ticket's standby; what it is when the request arrives there.
    async fn reach(&self, ticket: &Ticket) -> Result<(Rc<Standby>, u64, Ran), StandbyFailed> {
        let world = &self.consort.world;
        let standby = world.standby(ticket.standby());
        let incarnation = standby.incarnation().ok_or(StandbyFailed(Reason::NoConnection))?;
        let life = standby.life();
        world.env.step(|d| d.network).await;
        if standby.hangs.get() {
            world.env.executor.sleep(HANG_LIMIT).await;
            return Err(StandbyFailed(Reason::TimedOut));
        }
        world.env.step(|d| d.work).await;
        if standby.life() != life || !standby.is_up() {
            return Err(StandbyFailed(Reason::StandbyFailed));
        }
        Ok((standby, life, Ran { incarnation, replayed: None, locked: None }))
    }

    async fn position(&self, standby: &Standby, ticket: &Ticket, ran: &mut Ran) {
        let world = &self.consort.world;
        world.env.step(|d| d.position).await;
        if ticket.asks_position() {
            let lying = world.planted.model.has(Bug::StandbySnapshotFunction);
            ran.replayed = Some(if lying { standby.seems_replayed() } else { standby.replayed() });
            // The model has no locks at standbys: nothing is waited for.
            ran.locked = ran.replayed;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.primary.close(&self.backend);
    }
}

impl Flow for Session {
    type Answer = Held;

    fn backend(&self) -> Backend {
        Backend { pid: self.backend.pid, started_us: 1 }
    }

    async fn at_standby(&mut self, ticket: &Ticket) -> Result<(Held, Ran), StandbyFailed> {
        let env = self.consort.world.env.clone();
        let (standby, life, mut ran) = self.reach(ticket).await?;
        let state = standby.look(self.database);
        self.position(&standby, ticket, &mut ran).await;
        let select = self.select.as_ref().expect("only queries run at standbys");
        let mut result = select.run(&state, self.around(&standby));
        env.step(|d| d.work).await;
        if self.consort.world.ways.get().locking {
            // The engine keeps no versions: what it reads last, it reads as it is by then.
            let later = select.run(&standby.look(self.database), self.around(&standby));
            let half = result.len() / 2;
            result[half..].copy_from_slice(&later[half..]);
        }
        if standby.life() != life || !standby.is_up() {
            return Err(StandbyFailed(Reason::StandbyFailed));
        }
        env.step(|d| d.network).await;
        Ok((Held { result, standby, life }, ran))
    }

    async fn deliver(&mut self, answer: Held) -> Delivered {
        self.begins();
        self.consort.world.env.step(|d| d.deliver).await;
        if answer.standby.life() != answer.life {
            return Delivered::CutOff;
        }
        let joined = answer.standby.joins > 0;
        self.consort.world.record.borrow_mut().at_joined += u64::from(joined);
        self.wire.reply = Some(Reply::Rows(answer.result));
        self.wire.place = Some(Where::Standby);
        Delivered::Whole
    }

    async fn discard(&mut self, answer: Held) {
        drop(answer);
    }

    async fn at_primary(&mut self, reason: Reason) -> AtPrimary {
        if self.select.is_some() {
            let mut record = self.consort.world.record.borrow_mut();
            *record.reasons.entry(reason.name()).or_default() += 1;
        }
        self.exchange(None).await
    }

    async fn commit_at_primary(&mut self, doubt: DoubtId) -> AtPrimary {
        if let Some(footprint) = self.narrow.take() {
            let (consort, env) = (self.consort.clone(), self.consort.world.env.clone());
            self.consort.spawn(async move {
                env.step(|d| d.network).await;
                env.executor.sleep(consort.world.analysis.get()).await;
                env.step(|d| d.network).await;
                transaction::Cluster::scheduler(&crate::consort::Handle(consort))
                    .order_mut()
                    .narrow(doubt, footprint);
            });
        }
        let dies_after = self.dies_after.take();
        self.exchange(dies_after).await
    }

    async fn ask_locks(&mut self) -> AtPrimary {
        let tables: Vec<Table> = self.select.as_ref().map(Select::tables).unwrap_or_default();
        let (give, take) = crate::executor::once(&self.consort.world.env.executor);
        let (env, primary, backend) =
            (self.consort.world.env.clone(), self.primary.clone(), self.backend.clone());
        // Pipelined: it travels while the standby works.
        self.consort.spawn(async move {
            env.step(|d| d.network).await;
            let reply = primary.submit(&backend, Request::LockShared(tables)).take().await;
            env.step(|d| d.network).await;
            if let Some(reply) = reply {
                give.give(reply);
            }
        });
        self.locks = Some(take);
        AtPrimary::Answered
    }

    async fn locks_granted(&mut self) -> Locks {
        let asked = self.locks.take().expect("asked before");
        match asked.take().await {
            Some(Reply::Done) => Locks::Granted,
            Some(reply) => {
                self.begins();
                self.wire.reply = Some(reply);
                self.wire.place = Some(Where::Primary);
                Locks::Refused
            }
            None => Locks::ConnectionLost,
        }
    }

    fn has_room_for_locks(&self) -> bool {
        true
    }

    fn defer_locks(&mut self) {
        self.deferred.extend(self.select.as_ref().map(Select::tables).unwrap_or_default());
    }

    async fn take_deferred_locks(&mut self) -> Locks {
        let tables = std::mem::take(&mut self.deferred);
        let env = self.consort.world.env.clone();
        env.step(|d| d.network).await;
        let reply = self.primary.submit(&self.backend, Request::LockShared(tables)).take().await;
        env.step(|d| d.network).await;
        match reply {
            Some(Reply::Done) => Locks::Granted,
            Some(reply) => {
                self.begins();
                self.wire.reply = Some(reply);
                self.wire.place = Some(Where::Primary);
                Locks::Refused
            }
            None => Locks::ConnectionLost,
        }
    }

    async fn fail_unlocked_block(&mut self) -> AtPrimary {
        self.request = Request::Fail;
        self.exchange(None).await
    }

    async fn open_snapshot(&mut self, ticket: &Ticket) -> Result<Ran, StandbyFailed> {
        let env = self.consort.world.env.clone();
        let (standby, life, mut ran) = self.reach(ticket).await?;
        let state = standby.look(self.database);
        self.position(&standby, ticket, &mut ran).await;
        env.step(|d| d.network).await;
        if standby.life() != life || !standby.is_up() {
            return Err(StandbyFailed(Reason::StandbyFailed));
        }
        self.snapshot = Some((standby, life, state));
        Ok(ran)
    }

    async fn close_snapshot(&mut self) {
        self.snapshot = None;
    }
}
