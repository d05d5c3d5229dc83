//! Between clients and replicas: carries out what the scheduler says, over the model's network.

use super::engine::{Engine, Statement};
use crate::env::Env;
use crate::executor::{Micros, Signal};
use scheduler::StandbyId;
use scheduler::scheduled::{Action, Holding, Locking, Outcome, Refused, Step, Tables, TransactionId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The group of the tasks of replicas.
const REPLICAS: u32 = 800;
/// New transactions wait no longer for a moment in which a replica can join.
const HOLD: Micros = 30_000;

/// Algorithm that makes the order.
pub enum Machine {
    /// By declared tables.
    Holding(Holding),
    /// By table locks.
    Locking(Locking),
}

/// A client's answer to its last step.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A replica's answer.
    Answer(Outcome, Vec<u64>),
    /// The transaction is lost.
    Lost,
}

#[derive(Default)]
struct Session {
    statements: Vec<Statement>,
    /// Last answer of each replica.
    results: BTreeMap<StandbyId, (Outcome, Vec<u64>)>,
    heard: Option<Heard>,
}

/// See the file's first lines.
pub struct Middle {
    /// Time, random numbers, delays.
    pub env: Rc<Env>,
    /// The replicas.
    pub engines: Vec<Rc<Engine>>,
    machine: RefCell<Machine>,
    sessions: RefCell<BTreeMap<TransactionId, Session>>,
    heard: Signal,
    /// New transactions wait.
    held: Cell<bool>,
}

impl Middle {
    /// These replicas, ordered so.
    pub fn new(env: &Rc<Env>, engines: Vec<Rc<Engine>>, machine: Machine) -> Rc<Middle> {
        Rc::new(Middle {
            env: env.clone(),
            engines,
            machine: RefCell::new(machine),
            sessions: RefCell::default(),
            heard: env.executor.signal(),
            held: Cell::new(false),
        })
    }

    /// True if tables must be declared before a transaction begins.
    pub fn declares(&self) -> bool {
        matches!(*self.machine.borrow(), Machine::Holding(_))
    }

    /// Waits until a transaction may begin.
    pub async fn admitted(&self) {
        loop {
            let wait = self.heard.wait();
            if !self.held.get() {
                return;
            }
            wait.await;
        }
    }

    /// A replica joins, in a moment in which nothing is open, as a copy of one that takes part. `false`: there was no such
    /// moment, or there is no such replica.
    pub async fn join(&self, engine: &Engine) -> bool {
        self.held.set(true);
        let mut left = Some(HOLD);
        while let Some(micros) = left
            && self.open() > 0
        {
            left = self.heard.wait_within(micros).await;
        }
        let joins = self.open() == 0 && self.takes_part(engine);
        self.held.set(false);
        self.heard.notify();
        joins
    }

    fn open(&self) -> usize {
        match &*self.machine.borrow() {
            Machine::Holding(holding) => holding.open(),
            Machine::Locking(locking) => locking.open(),
        }
    }

    fn takes_part(&self, engine: &Engine) -> bool {
        let ids: Vec<StandbyId> = match &*self.machine.borrow() {
            Machine::Holding(holding) => holding.replicas().map(|(id, _)| id).collect(),
            Machine::Locking(locking) => locking.replicas().map(|(id, _)| id).collect(),
        };
        let mut others = ids.into_iter().map(|id| &self.engines[id.get() as usize - 1]);
        let Some(other) = others.find(|other| other.up.get()) else { return false };
        engine.copy(other);
        match &mut *self.machine.borrow_mut() {
            Machine::Holding(holding) => holding.join(engine.id),
            Machine::Locking(locking) => locking.join(engine.id),
        }
        engine.out.set(false);
        true
    }

    /// A transaction begins.
    pub fn begin(self: &Rc<Self>, tables: Tables) -> Result<TransactionId, Refused> {
        let (id, actions) = match &mut *self.machine.borrow_mut() {
            Machine::Holding(holding) => holding.begin(tables)?,
            Machine::Locking(locking) => (locking.begin()?, Vec::new()),
        };
        self.sessions.borrow_mut().insert(id, Session::default());
        self.act(actions);
        Ok(id)
    }

    /// One statement, and what comes of it.
    pub async fn statement(
        self: &Rc<Self>,
        id: TransactionId,
        statement: &Statement,
    ) -> Result<Heard, Refused> {
        if let Some(session) = self.sessions.borrow_mut().get_mut(&id) {
            session.statements.push(statement.clone());
        }
        let tables = statement.tables();
        let actions = match &mut *self.machine.borrow_mut() {
            Machine::Holding(holding) => holding.statement(id, &tables),
            Machine::Locking(locking) => locking.statement(id, tables),
        }?;
        self.act(actions);
        Ok(self.hear(id).await)
    }

    /// The end of a transaction, and what comes of it.
    pub async fn end(self: &Rc<Self>, id: TransactionId, commit: bool) -> Result<Heard, Refused> {
        let actions = match &mut *self.machine.borrow_mut() {
            Machine::Holding(holding) => holding.end(id, commit),
            Machine::Locking(locking) => locking.end(id, commit),
        }?;
        self.act(actions);
        Ok(self.hear(id).await)
    }

    /// A replica is dead.
    pub fn replica_failed(self: &Rc<Self>, replica: StandbyId) {
        let actions = match &mut *self.machine.borrow_mut() {
            Machine::Holding(holding) => holding.replica_failed(replica),
            Machine::Locking(locking) => locking.replica_failed(replica),
        };
        self.act(actions);
    }

    async fn hear(&self, id: TransactionId) -> Heard {
        loop {
            let wait = self.heard.wait();
            let heard = self.sessions.borrow_mut().get_mut(&id).and_then(|session| session.heard.take());
            if let Some(heard) = heard {
                return heard;
            }
            wait.await;
        }
    }

    fn act(self: &Rc<Self>, actions: Vec<Action>) {
        match &*self.machine.borrow() {
            Machine::Holding(holding) => holding.audit(),
            Machine::Locking(locking) => locking.audit(),
        }
        for action in actions {
            match action {
                Action::Send(to, id, step) => {
                    let run = self.clone();
                    let engine = self.engines[to.get() as usize - 1].clone();
                    self.env.executor.spawn(REPLICAS, async move { run.run(&engine, id, step).await });
                }
                Action::Answer(id, from) => {
                    if let Some(session) = self.sessions.borrow_mut().get_mut(&id) {
                        let answer = session.results.get(&from).cloned();
                        session.heard = answer.map(|(outcome, result)| Heard::Answer(outcome, result));
                    }
                }
                Action::Fail(id, _) => {
                    if let Some(session) = self.sessions.borrow_mut().get_mut(&id) {
                        session.heard = Some(Heard::Lost);
                    }
                }
                Action::TakeOut(replica, _) => self.engines[replica.get() as usize - 1].out.set(true),
            }
        }
        self.heard.notify();
    }

    async fn run(self: &Rc<Self>, engine: &Engine, id: TransactionId, step: Step) {
        self.env.step(|d| d.network).await;
        self.env.step(|d| d.work).await;
        self.env.executor.sleep(engine.slow.get()).await;
        if !engine.up.get() {
            return;
        }
        let statement = match step {
            Step::Statement(number) => self.sessions.borrow()[&id].statements.get(number).cloned(),
            Step::Commit | Step::Rollback => None,
        };
        let (outcome, result) = engine.execute(id, step, statement.as_ref());
        self.env.step(|d| d.network).await;
        if !engine.up.get() {
            return;
        }
        if let Some(session) = self.sessions.borrow_mut().get_mut(&id) {
            session.results.insert(engine.id, (outcome, result));
        }
        let actions = match &mut *self.machine.borrow_mut() {
            Machine::Holding(holding) => holding.answered(engine.id, id, outcome),
            Machine::Locking(locking) => locking.answered(engine.id, id, outcome),
        };
        self.act(actions);
    }
}
