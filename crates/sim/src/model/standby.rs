//! A standby: it replays the primary's flushed log in order, shows a commit before the primary may have, and before its
//! own position moves past it. Or a replica that is fed: it has what it was given, and the same faults.

use super::fed::Store;
use super::primary::{Primary, Record, SERVERS};
use super::schema::{Cell as Value, DATABASES, SERVED, State, Table, database, number};
use crate::bugs::Bug;
use crate::env::Env;
use crate::executor::{Micros, Signal, either};
use history::{DatabaseId, Epoch, Incarnation, Lsn, Shown, Timeline, TimelineHistory};
use scheduler::StandbyId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Wait for a standby's answer before its watcher reports it as lost.
pub const HANG_LIMIT: Micros = 10_000;

/// A standby server.
pub struct Standby {
    env: Rc<Env>,
    /// Its name.
    pub id: StandbyId,
    primary: RefCell<Rc<Primary>>,
    states: RefCell<Vec<State>>,
    log: RefCell<Vec<Record>>,
    /// The timelines that it has replayed.
    history: RefCell<TimelineHistory>,
    position: Cell<u64>,
    origin: u64,
    shown: Cell<u64>,
    newest_shown_xid: Cell<u64>,
    up: Cell<bool>,
    life: Cell<u64>,
    started_us: Cell<i64>,
    /// Replay stands still.
    pub paused: Cell<bool>,
    /// True while it answers nothing (SIGSTOP).
    pub hangs: Cell<bool>,
    moved: Signal,
    store: Option<Store>,
    /// Time at which it joins as a logical replica.
    pub joins: Micros,
}

impl Standby {
    /// A standby of this primary, at the begin of the WAL.
    pub fn start(env: &Rc<Env>, id: u32, primary: &Rc<Primary>) -> Rc<Standby> {
        let standby = Rc::new(Standby::at_the_beginning(env, id, primary, None));
        env.executor.spawn(SERVERS, standby.clone().replay());
        standby
    }

    /// A logical replica, at the begin of the WAL; or one that is empty and joins at this time.
    pub fn start_fed(env: &Rc<Env>, id: u32, primary: &Rc<Primary>, joins: Option<Micros>) -> Rc<Standby> {
        let begin = primary.flush_lsn();
        let snapshot = primary.snapshot().expect("the primary has just started");
        let whole = Shown::new(snapshot, begin, begin);
        let store = Store::new(joins.is_none().then_some(whole));
        let mut replica = Standby::at_the_beginning(env, id, primary, Some(store));
        replica.joins = joins.unwrap_or_default();
        let replica = Rc::new(replica);
        env.executor.spawn(SERVERS, replica.clone().flush_now_and_then());
        replica
    }

    fn at_the_beginning(env: &Rc<Env>, id: u32, primary: &Rc<Primary>, store: Option<Store>) -> Standby {
        Standby {
            env: env.clone(),
            id: StandbyId::new(id),
            primary: RefCell::new(primary.clone()),
            states: RefCell::new(vec![State::default(); DATABASES]),
            log: RefCell::new(Vec::new()),
            history: RefCell::new(primary.history()),
            position: Cell::new(primary.flush_lsn().get()),
            origin: primary.flush_lsn().get(),
            shown: Cell::new(0),
            newest_shown_xid: Cell::new(0),
            up: Cell::new(true),
            life: Cell::new(0),
            started_us: Cell::new(1),
            paused: Cell::new(false),
            hangs: Cell::new(false),
            moved: env.executor.signal(),
            store,
            joins: 0,
        }
    }

    /// True if it is fed.
    pub fn is_fed(&self) -> bool {
        self.store.is_some()
    }

    /// Data of a logical replica.
    ///
    /// # Panics
    /// If it is a standby.
    pub fn store(&self) -> &Store {
        self.store.as_ref().expect("only fed replicas have one")
    }

    /// A database is copied from the primary.
    pub fn copy(&self, of: DatabaseId, at: Shown, state: &State) {
        self.store().copy(number(of), at, state.without(Table::Outside), self.env.now());
        self.states.borrow_mut()[number(of)] = self.store().state(number(of));
    }

    /// True if a logical replica shows the primary's present state, in every database that has a slot.
    pub fn has_come(&self, primary: &Primary) -> bool {
        (0..SERVED).map(database).all(|of| {
            let newest = primary.states(of).pop().expect("never empty").1;
            self.look(of).without(Table::Outside) == newest.without(Table::Outside)
        })
    }

    /// One transaction of a replication feed: see [`Store::apply`]. Returns true if it has committed.
    pub fn apply(&self, of: DatabaseId, effects: &[(Value, u32)], from: &Shown, to: Option<Shown>) -> bool {
        let done = self.store().apply(number(of), effects, from, to, self.env.now());
        self.states.borrow_mut()[number(of)] = self.store().state(number(of));
        done
    }

    async fn flush_now_and_then(self: Rc<Standby>) {
        loop {
            self.env.step(|d| (d.wal_writer.0.max(200), d.wal_writer.1.max(200))).await;
            if self.up.get() {
                self.store().flush();
            }
        }
    }

    async fn replay(self: Rc<Standby>) {
        loop {
            let primary = self.primary.borrow().clone();
            let (flushed, moved) = (primary.flushed_on.wait(), self.moved.wait());
            let next = primary.records_after(Lsn::new(self.position.get())).into_iter().next();
            let life = self.life.get();
            match next {
                Some(record) if self.up.get() && !self.paused.get() && self.can_follow(&primary) => {
                    self.env.step(|d| d.replay).await;
                    if self.life.get() == life && self.up.get() && !self.paused.get() {
                        self.redo(record, life).await;
                    }
                }
                _ => either(flushed, moved).await,
            }
        }
    }

    /// "new timeline 2 forked off current database system timeline 1 before current recovery point": then it stands still.
    fn can_follow(&self, primary: &Primary) -> bool {
        self.is_on(&primary.history())
    }

    /// True if it has replayed only WAL that a primary with this history has written.
    pub fn is_on(&self, history: &TimelineHistory) -> bool {
        history.has(&self.history.borrow(), self.replayed()).is_ok()
    }

    async fn redo(&self, record: Record, life: u64) {
        if let Some(commit) = &record.commit {
            self.states.borrow_mut()[number(commit.database)].apply(&commit.effects);
            self.newest_shown_xid.set(self.newest_shown_xid.get().max(commit.xid));
        }
        self.shown.set(record.end);
        self.env.step(|d| d.gap).await;
        if self.life.get() == life {
            self.position.set(record.end);
            *self.history.borrow_mut() = self.primary.borrow().history();
            self.log.borrow_mut().push(record);
        }
    }

    /// Its life, if it answers.
    pub fn incarnation(&self) -> Option<Incarnation> {
        let upstream = self.primary.borrow().incarnation();
        let epoch = upstream.map_or(Epoch::new(1), |up| up.epoch);
        let timeline = upstream.map_or(Timeline::new(1), |up| up.timeline);
        self.up.get().then(|| Incarnation { epoch, timeline, started_us: self.started_us.get() })
    }

    /// `pg_last_wal_replay_lsn()`.
    pub fn replayed(&self) -> Lsn {
        Lsn::new(self.position.get())
    }

    /// Position that `pg_current_snapshot()` there suggests: it names no running transaction, so everything
    /// that has an identity below its xmax seems to be shown.
    pub fn seems_replayed(&self) -> Lsn {
        let newest = self.newest_shown_xid.get();
        let records = self.primary.borrow().records_after(Lsn::ZERO);
        let mut seen =
            records.iter().filter(|record| record.commit.as_ref().is_some_and(|commit| commit.xid <= newest));
        seen.next_back().map_or(self.replayed(), |record| Lsn::new(record.end))
    }

    /// State that a snapshot taken now sees.
    pub fn look(&self, database: DatabaseId) -> State {
        self.states.borrow()[number(database)].clone()
    }

    /// Number of its present life.
    pub fn life(&self) -> u64 {
        self.life.get()
    }

    /// True if it runs.
    pub fn is_up(&self) -> bool {
        self.up.get()
    }

    /// WAL that it has replayed: the one that it would be promoted with.
    pub fn log(&self) -> Vec<Record> {
        self.log.borrow().clone()
    }

    /// Stops or resumes replay.
    pub fn pause(&self, paused: bool) {
        self.paused.set(paused);
        self.moved.notify();
    }

    /// Crashes after this time, and returns where it was.
    pub async fn dies_soon(&self, after: Micros) {
        self.env.executor.sleep(after).await;
        self.crash(500, 0).await;
    }

    /// Crashes, and returns after this time at an older position: `records` fewer than it had.
    pub async fn crash(&self, down: Micros, records: usize) {
        self.up.set(false);
        self.life.set(self.life.get() + 1);
        self.env.executor.sleep(down).await;
        if let Some(store) = &self.store {
            store.crash(records, self.env.now());
            *self.states.borrow_mut() = (0..DATABASES).map(|place| store.state(place)).collect();
            return self.comes_up();
        }
        let keep = self.log.borrow().len().saturating_sub(records);
        self.log.borrow_mut().truncate(keep);
        let position = self.log.borrow().last().map_or(self.origin, |record| record.end);
        self.position.set(position);
        let log = self.log.borrow();
        *self.states.borrow_mut() =
            (0..DATABASES).map(|place| super::primary::replayed(&log, place)).collect();
        self.newest_shown_xid.set(0);
        drop(log);
        self.comes_up();
    }

    fn comes_up(&self) {
        if !self.env.bugs.has(Bug::IncarnationOfPostmaster) {
            self.started_us.set(i64::try_from(self.env.now()).expect("a run is short") + 2);
        }
        self.up.set(true);
        self.moved.notify();
    }

    /// Follows another primary from here on.
    pub fn follow(&self, primary: &Rc<Primary>) {
        *self.primary.borrow_mut() = primary.clone();
        self.life.set(self.life.get() + 1);
        self.moved.notify();
    }
}
