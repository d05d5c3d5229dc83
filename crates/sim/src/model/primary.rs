//! A primary. A commit's record in the log, its flush, its visibility and its answer are four events; what dies between
//! them goes on, or not, as in PostgreSQL.
//!
//! The list of states that it has shown is the *ghost*: the truth that the checkers compare with, which no part of
//! Consort sees.

pub use super::request::*;
use super::schema::{Cell, DATABASES, State, Table, number};
use super::serial::{SerialTransaction, has_cycle};
use super::server::{Server, Transaction, serial_of};
use super::statement::{Change, Select, Surroundings};
use crate::bugs::Bug;
use crate::env::Env;
use crate::executor::{Micros, Signal, Take, once};
use history::{DatabaseId, Epoch, Footprint, Incarnation, Lsn, Snapshot, Timeline, TimelineHistory, Xid};
use std::cell::{Cell as Var, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The group of tasks that are the servers.
pub const SERVERS: u32 = 0;
/// PostgreSQL's `lock_timeout` here.
pub const LOCK_TIMEOUT: Micros = 5_000;
/// Start of the WAL.
const LOG_BEGIN: u64 = 1 << 20;

/// One client's process at the primary.
pub struct BackendProcess {
    /// Its pid; never used again here.
    pub pid: i32,
    database: DatabaseId,
    life: u64,
    tenant: Var<usize>,
    transaction: RefCell<Option<Transaction>>,
    busy: Var<u32>,
    closed: Var<bool>,
}

impl BackendProcess {
    /// Writes of its open block.
    pub fn own_effects(&self) -> Vec<(Cell, u32)> {
        self.transaction.borrow().as_ref().map(|transaction| transaction.effects.clone()).unwrap_or_default()
    }
}

/// A primary server.
pub struct Primary {
    env: Rc<Env>,
    server: RefCell<Server>,
    /// The log was flushed further, or the server went down or came up.
    pub flushed_on: Signal,
    flush_wanted: Signal,
    sync_waiting: Var<u32>,
    unlocked: Signal,
    refused: Var<u32>,
    /// Signals a crash, or the restart after it.
    pub life_changed: Signal,
}

/// The connection broke: the server is gone.
#[derive(Debug)]
struct Broken;

impl Primary {
    /// A server with empty log, and its flusher.
    pub fn start(env: &Rc<Env>) -> Rc<Primary> {
        let incarnation = Incarnation { epoch: Epoch::new(1), timeline: Timeline::new(1), started_us: 1 };
        let history = TimelineHistory::first(incarnation.timeline);
        let shown = vec![vec![(0, Rc::new(State::default()))]; DATABASES];
        Primary::with(env, (incarnation, history), Vec::new(), shown)
    }

    /// The server that a standby becomes which has replayed `log`: the states shown go on from `shown`.
    pub fn promoted(self: &Rc<Primary>, env: &Rc<Env>, log: Vec<Record>) -> Rc<Primary> {
        let old = self.server.borrow().incarnation;
        let fork = log.last().map_or(LOG_BEGIN, |record| record.end);
        let history = self.history().promoted(Lsn::new(fork));
        let timeline = history.current();
        let started_us = i64::try_from(env.now()).expect("a run is short") + 2;
        let mut shown = self.server.borrow().shown.clone();
        for (place, states) in shown.iter_mut().enumerate() {
            states.push((env.now(), Rc::new(replayed(&log, place))));
        }
        let promoted = Primary::with(
            env,
            (Incarnation { epoch: old.epoch.next(), timeline, started_us }, history),
            log,
            shown,
        );
        promoted.server.borrow_mut().went_back = true;
        promoted
    }

    fn with(
        env: &Rc<Env>,
        (incarnation, history): (Incarnation, TimelineHistory),
        log: Vec<Record>,
        shown: Vec<Vec<(Micros, Rc<State>)>>,
    ) -> Rc<Primary> {
        let signal = || env.executor.signal();
        let end = log.last().map_or(LOG_BEGIN, |record| record.end);
        let next_xid = log.iter().map(|record| record.xid).max().unwrap_or(99) + 1;
        let server = Server {
            incarnation,
            history,
            up: true,
            life: 0,
            next_xid,
            latest: next_xid - 1,
            insert: end,
            flushed: end,
            log,
            running: BTreeSet::new(),
            shown,
            rows: BTreeMap::new(),
            tables: BTreeMap::new(),
            backends: BTreeSet::new(),
            held: Vec::new(),
            serial: Vec::new(),
            facts: Vec::new(),
            went_back: false,
            committing: false,
            next: 1,
        };
        let primary = Rc::new(Primary {
            env: env.clone(),
            server: RefCell::new(server),
            flushed_on: signal(),
            flush_wanted: signal(),
            sync_waiting: Var::new(0),
            unlocked: signal(),
            refused: Var::new(0),
            life_changed: signal(),
        });
        env.executor.spawn(SERVERS, primary.clone().flush_in_turn());
        env.executor.spawn(SERVERS, primary.clone().write_in_background());
        primary
    }

    // State that Consort and the standbys can see.

    /// Its life, if it answers at all.
    pub fn incarnation(&self) -> Option<Incarnation> {
        let server = self.server.borrow();
        server.up.then_some(server.incarnation)
    }

    /// The timelines of its WAL.
    pub fn history(&self) -> TimelineHistory {
        self.server.borrow().history.clone()
    }

    /// `pg_current_snapshot()`; `None` if it is down.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let server = self.server.borrow();
        let running = server.running.iter().filter(|xid| **xid <= server.latest).map(|xid| Xid::new(*xid));
        server.up.then(|| Snapshot::new(Xid::new(server.latest + 1), running.collect()))
    }

    /// `pg_current_wal_insert_lsn()`.
    pub fn insert_lsn(&self) -> Lsn {
        Lsn::new(self.server.borrow().insert)
    }

    /// `pg_current_wal_flush_lsn()`.
    pub fn flush_lsn(&self) -> Lsn {
        Lsn::new(self.server.borrow().flushed)
    }

    /// The flushed records that end after `after`.
    pub fn records_after(&self, after: Lsn) -> Vec<Record> {
        let server = self.server.borrow();
        let begin = server.log.partition_point(|record| record.end <= after.get());
        server.log[begin..].iter().take_while(|record| record.end <= server.flushed).cloned().collect()
    }

    /// True if the backend is in `pg_stat_activity`.
    pub fn has_backend(&self, pid: i32) -> bool {
        self.server.borrow().backends.contains(&pid)
    }

    /// Every backend.
    pub fn backends(&self) -> BTreeSet<i32> {
        self.server.borrow().backends.clone()
    }

    // The ghost.

    /// The number of the newest state shown of a database.
    pub fn shown_now(&self, database: DatabaseId) -> usize {
        self.server.borrow().shown[number(database)].len() - 1
    }

    /// All states shown of a database, oldest first.
    pub fn states(&self, database: DatabaseId) -> Vec<(Micros, Rc<State>)> {
        self.server.borrow().shown[number(database)].clone()
    }

    /// The commits that it has shown.
    pub fn facts(&self) -> Vec<Fact> {
        self.server.borrow().facts.clone()
    }

    /// The SERIALIZABLE transactions that it let commit.
    pub fn serial_facts(&self) -> Vec<SerialFact> {
        self.server.borrow().serial.clone()
    }

    /// True if a crash took back, or brought, a commit: the order of its shown states is not that of its
    /// commits.
    pub fn went_back(&self) -> bool {
        self.server.borrow().went_back
    }

    /// The exclusive locks that were held.
    pub fn held(&self) -> Vec<HeldLock> {
        self.server.borrow().held.clone()
    }

    /// Number of changes that it has refused only because they are published.
    pub fn refused(&self) -> u32 {
        self.refused.get()
    }

    // Connections.

    /// Opens a connection; `None` if the server is down.
    pub fn connect(&self, database: DatabaseId, pid: i32) -> Option<Rc<BackendProcess>> {
        let mut server = self.server.borrow_mut();
        server.up.then(|| server.backends.insert(pid))?;
        Some(Rc::new(BackendProcess {
            pid,
            database,
            life: server.life,
            tenant: Var::new(0),
            transaction: RefCell::new(None),
            busy: Var::new(0),
            closed: Var::new(false),
        }))
    }

    /// The client's end of the connection is closed. The running statement goes on to its end.
    pub fn close(&self, backend: &BackendProcess) {
        backend.closed.set(true);
        if backend.busy.get() == 0 {
            self.end_of(backend);
        }
    }

    fn end_of(&self, backend: &BackendProcess) {
        if self.alive(backend.life).is_err() {
            return;
        }
        if let Some(transaction) = backend.transaction.borrow_mut().take() {
            self.abort(transaction);
        }
        self.server.borrow_mut().backends.remove(&backend.pid);
    }

    /// Sends a request that has just arrived at the backend. The answer is `None` if the server breaks.
    pub fn submit(self: &Rc<Primary>, backend: &Rc<BackendProcess>, request: Request) -> Take<Reply> {
        let (give, take) = once(&self.env.executor);
        let (primary, backend) = (self.clone(), backend.clone());
        let life = backend.life;
        backend.busy.set(backend.busy.get() + 1);
        self.env.executor.spawn(SERVERS, async move {
            let reply = primary.serve(&backend, request, life).await;
            backend.busy.set(backend.busy.get() - 1);
            if let Ok(reply) = reply {
                if backend.closed.get() && backend.busy.get() == 0 {
                    primary.end_of(&backend);
                }
                give.give(reply);
            }
        });
        take
    }

    async fn serve(&self, backend: &BackendProcess, request: Request, life: u64) -> Result<Reply, Broken> {
        self.alive(life)?;
        self.env.step(|d| d.work).await;
        self.alive(life)?;
        let taken = backend.transaction.borrow_mut().take();
        if let Request::Tenant(tenant) = request {
            backend.tenant.set(tenant);
        }
        let (reply, transaction) = match (taken, request) {
            (None, Request::Begin(isolation)) => (Reply::Done, Some(self.begin(isolation))),
            (None, Request::Read(select)) => self.read_alone(backend, &select, life).await?,
            (None, Request::Auto { transactions, pace, savepoint, fails }) => {
                (self.auto(backend, transactions, pace, savepoint, fails, life).await?, None)
            }
            (Some(transaction), Request::Commit(pace)) => {
                (self.commit(backend, transaction, pace, life).await?, None)
            }
            (Some(transaction), Request::Rollback) => {
                self.abort(transaction);
                (Reply::Done, None)
            }
            (Some(transaction), _) if transaction.failed => (Reply::InFailedBlock, Some(transaction)),
            (Some(transaction), request) => self.in_block(backend, transaction, request, life).await?,
            (None, _) => (Reply::Done, None),
        };
        *backend.transaction.borrow_mut() = transaction;
        Ok(reply)
    }

    async fn in_block(
        &self,
        backend: &BackendProcess,
        mut transaction: Transaction,
        request: Request,
        life: u64,
    ) -> Result<(Reply, Option<Transaction>), Broken> {
        let reply = match request {
            Request::Read(select) => self.read(backend, &mut transaction, &select, life).await?,
            Request::Write { changes, savepoint } => {
                self.write(backend, &mut transaction, &changes, savepoint, life).await?
            }
            Request::LockShared(tables) => {
                let mut reply = Reply::Done;
                for table in tables {
                    if !self.lock_table(backend, &transaction, table, false, life).await? {
                        reply = Reply::Failed;
                    }
                }
                reply
            }
            Request::Fail => Reply::Failed,
            _ => Reply::Done,
        };
        transaction.failed |= reply == Reply::Failed;
        Ok((reply, Some(transaction)))
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        let mut server = self.server.borrow_mut();
        server.next += 1;
        Transaction {
            id: server.next,
            xid: None,
            newest_xid: 0,
            effects: Vec::new(),
            wrote: Some(Footprint::NOTHING),
            ddl: false,
            failed: false,
            isolation,
            snapshot: None,
            reads: BTreeSet::new(),
        }
    }

    async fn read_alone(
        &self,
        backend: &BackendProcess,
        select: &Select,
        life: u64,
    ) -> Result<(Reply, Option<Transaction>), Broken> {
        let mut transaction = self.begin(Isolation::Committed);
        let reply = self.read(backend, &mut transaction, select, life).await?;
        self.unlock(&transaction);
        Ok((reply, None))
    }

    async fn read(
        &self,
        backend: &BackendProcess,
        transaction: &mut Transaction,
        select: &Select,
        life: u64,
    ) -> Result<Reply, Broken> {
        for table in select.tables() {
            if !self.lock_table(backend, transaction, table, false, life).await? {
                return Ok(Reply::Failed);
            }
        }
        let mut state = (*self.view(backend.database, transaction)).clone();
        state.apply(&transaction.effects);
        if transaction.isolation == Isolation::Serializable {
            transaction.reads.extend(select.tables().iter().flat_map(|table| cells(*table)));
        }
        let around =
            Surroundings { tenant: backend.tenant.get(), clock: self.env.now(), ..Surroundings::default() };
        Ok(Reply::Rows(select.run(&state, around)))
    }

    /// The state that the transaction's next statement sees, its own effects apart.
    fn view(&self, database: DatabaseId, transaction: &mut Transaction) -> Rc<State> {
        let server = self.server.borrow();
        let shown = &server.shown[number(database)];
        let newest = (shown.len() - 1, shown[shown.len() - 1].1.clone());
        match transaction.isolation {
            Isolation::Committed => newest.1,
            _ => transaction.snapshot.get_or_insert(newest).1.clone(),
        }
    }

    async fn write(
        &self,
        backend: &BackendProcess,
        transaction: &mut Transaction,
        changes: &[Change],
        savepoint: bool,
        life: u64,
    ) -> Result<Reply, Broken> {
        for change in changes {
            let table = change.table();
            if !self.lock_table(backend, transaction, table, change.locks_table(), life).await?
                || !self.lock_rows(backend.database, transaction, *change, life).await?
            {
                return Ok(Reply::Failed);
            }
            let seen = self.view(backend.database, transaction);
            let newest =
                self.server.borrow().shown[number(backend.database)].last().expect("never empty").1.clone();
            let mut state = (*newest).clone();
            state.apply(&transaction.effects);
            if change.lacks_identity(&state) {
                self.refused.set(self.refused.get() + 1);
                return Ok(Reply::Failed);
            }
            let mut effects = change.effects(&state, || self.env.fresh());
            effects.extend(change.event_trigger(&self.env.bugs, || self.env.fresh()));
            // First updater wins: what this transaction's snapshot does not see must not be written over.
            if effects.iter().any(|(cell, _)| seen.get(*cell) != newest.get(*cell)) {
                return Ok(Reply::Failed);
            }
            self.record_change(transaction, *change, effects, savepoint);
        }
        Ok(Reply::Done)
    }

    fn record_change(
        &self,
        transaction: &mut Transaction,
        change: Change,
        effects: Vec<(Cell, u32)>,
        savepoint: bool,
    ) {
        if matches!(change, Change::Lock(_)) {
            return;
        }
        let mut server = self.server.borrow_mut();
        if transaction.xid.is_none() {
            transaction.xid = Some(server.take_xid());
            server.running.insert(transaction.xid.expect("just set"));
            transaction.newest_xid = transaction.xid.expect("just set");
        }
        if savepoint {
            transaction.newest_xid = server.take_xid();
        }
        let xid = transaction.newest_xid;
        server.append(48, xid, None);
        let fired = change.fired(&effects, &self.env.bugs);
        transaction.effects.extend(effects);
        transaction.ddl |= change.is_ddl();
        let wrote = transaction.wrote.get_or_insert(Footprint::NOTHING);
        for more in change.in_stream(&self.env.bugs).iter().chain(&fired) {
            wrote.union(more);
        }
    }

    async fn auto(
        &self,
        backend: &BackendProcess,
        transactions: Vec<Vec<Change>>,
        pace: Pace,
        savepoint: bool,
        fails: bool,
        life: u64,
    ) -> Result<Reply, Broken> {
        let last = transactions.len() - 1;
        for (place, changes) in transactions.into_iter().enumerate() {
            let mut transaction = self.begin(Isolation::Committed);
            let reply = self.write(backend, &mut transaction, &changes, savepoint, life).await?;
            if reply != Reply::Done || (fails && place == last) {
                self.abort(transaction);
                return Ok(Reply::Failed);
            }
            self.commit(backend, transaction, pace, life).await?;
        }
        Ok(Reply::Done)
    }

    async fn commit(
        &self,
        backend: &BackendProcess,
        transaction: Transaction,
        pace: Pace,
        life: u64,
    ) -> Result<Reply, Broken> {
        if transaction.failed || !self.serializable(backend.database, &transaction) {
            self.abort(transaction);
            return Ok(Reply::Failed);
        }
        let Some(xid) = transaction.xid else {
            let at = self.shown_now(backend.database);
            self.server.borrow_mut().note_serial(
                self.env.now(),
                backend.pid,
                backend.database,
                &transaction,
                at,
            );
            self.unlock(&transaction);
            return Ok(Reply::Done);
        };
        self.pause(pace.record, |d| d.record).await;
        self.alive(life)?;
        let committed = Rc::new(Committed {
            database: backend.database,
            xid,
            effects: transaction.effects.clone(),
            wrote: transaction.wrote.clone().filter(|wrote| !wrote.is_nothing()),
            ddl: transaction.ddl,
        });
        let end = self.server.borrow_mut().append(40, transaction.newest_xid, Some(committed));
        if !pace.asynchronous {
            self.flushed_to(end, life).await?;
        }
        self.pause(pace.visible, |d| d.visible).await;
        self.alive(life)?;
        self.show(backend.pid, backend.database, &transaction);
        self.unlock(&transaction);
        self.pause(pace.answer, |d| d.answer).await;
        self.alive(life)?;
        Ok(Reply::Done)
    }

    async fn flushed_to(&self, end: u64, life: u64) -> Result<(), Broken> {
        self.sync_waiting.set(self.sync_waiting.get() + 1);
        self.flush_wanted.notify();
        while self.server.borrow().flushed < end && self.alive(life).is_ok() {
            self.flushed_on.wait().await;
        }
        self.sync_waiting.set(self.sync_waiting.get() - 1);
        self.alive(life)
    }

    async fn pause(&self, named: Option<Micros>, range: impl Fn(&crate::env::Delays) -> crate::env::Range) {
        match named {
            Some(micros) => self.env.executor.sleep(micros).await,
            None => self.env.step(range).await,
        }
    }

    /// The transaction is visible from here on.
    fn show(&self, pid: i32, database: DatabaseId, transaction: &Transaction) {
        let mut server = self.server.borrow_mut();
        let shown = &mut server.shown[number(database)];
        let mut state = (*shown.last().expect("never empty").1).clone();
        state.apply(&transaction.effects);
        shown.push((self.env.now(), Rc::new(state)));
        let at = shown.len() - 1;
        let effects = transaction.effects.clone();
        server.facts.push(Fact { pid, database, effects, shown: at, at: self.env.now() });
        server.note_serial(self.env.now(), pid, database, transaction, at);
        server.finished(transaction);
    }

    fn serializable(&self, database: DatabaseId, transaction: &Transaction) -> bool {
        if transaction.isolation != Isolation::Serializable {
            return true;
        }
        // One commits at a time, else neither is in the other's list: the second is a serialization failure.
        let mut server = self.server.borrow_mut();
        if server.committing {
            return false;
        }
        let at = server.shown[number(database)].len();
        let mut all: Vec<SerialTransaction> = server
            .serial
            .iter()
            .filter(|fact| fact.database == database)
            .map(|fact| fact.transaction.clone())
            .collect();
        all.push(serial_of(transaction, at));
        server.committing = !has_cycle(&all);
        server.committing
    }

    fn abort(&self, transaction: Transaction) {
        let mut server = self.server.borrow_mut();
        if let Some(xid) = transaction.xid {
            server.append(40, xid, None);
        }
        server.finished(&transaction);
        drop(server);
        self.unlock(&transaction);
    }

    fn alive(&self, life: u64) -> Result<(), Broken> {
        let server = self.server.borrow();
        if server.up && server.life == life { Ok(()) } else { Err(Broken) }
    }

    // Locks.

    async fn lock_table(
        &self,
        backend: &BackendProcess,
        transaction: &Transaction,
        table: Table,
        exclusive: bool,
        life: u64,
    ) -> Result<bool, Broken> {
        let key = (backend.database, table.storage());
        let mut left = LOCK_TIMEOUT;
        loop {
            self.alive(life)?;
            if self.server.borrow_mut().take_table(
                key,
                transaction.id,
                exclusive,
                backend.pid,
                self.env.now(),
            ) {
                return Ok(true);
            }
            match self.unlocked.wait_within(left).await {
                Some(rest) => left = rest,
                None => return Ok(false),
            }
        }
    }

    async fn lock_rows(
        &self,
        database: DatabaseId,
        transaction: &Transaction,
        change: Change,
        life: u64,
    ) -> Result<bool, Broken> {
        let mut left = LOCK_TIMEOUT;
        for row in change.rows() {
            let key = (database, change.table(), row);
            loop {
                self.alive(life)?;
                let owner = *self.server.borrow_mut().rows.entry(key).or_insert(transaction.id);
                if owner == transaction.id {
                    break;
                }
                match self.unlocked.wait_within(left).await {
                    Some(rest) => left = rest,
                    None => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    fn unlock(&self, transaction: &Transaction) {
        let now = self.env.now();
        let mut server = self.server.borrow_mut();
        server.rows.retain(|_, owner| *owner != transaction.id);
        let mut freed = Vec::new();
        for (key, lock) in &mut server.tables {
            lock.shared.remove(&transaction.id);
            if lock.exclusive == Some(transaction.id) {
                lock.exclusive = None;
                freed.push(*key);
            }
        }
        for held in &mut server.held {
            if held.until.is_none() && freed.contains(&(held.database, held.table)) {
                held.until = Some(now);
            }
        }
        drop(server);
        self.unlocked.notify();
    }

    // Flushing, crashing.

    async fn flush_in_turn(self: Rc<Primary>) {
        loop {
            let wanted = self.flush_wanted.wait();
            if self.sync_waiting.get() > 0 {
                self.flush().await;
            } else {
                wanted.await;
            }
        }
    }

    async fn write_in_background(self: Rc<Primary>) {
        loop {
            self.env.step(|d| (d.wal_writer.0.max(200), d.wal_writer.1)).await;
            self.flush().await;
        }
    }

    async fn flush(&self) {
        let (target, life) = (self.server.borrow().insert, self.server.borrow().life);
        self.env.step(|d| d.fsync).await;
        let mut server = self.server.borrow_mut();
        if server.life == life && server.up && target > server.flushed {
            server.flushed = target;
            drop(server);
            self.flushed_on.notify();
        }
    }

    /// A backend is killed: the server loses what was not flushed, and recovers under the same postmaster.
    pub async fn crash(self: &Rc<Primary>, recovery: Micros) {
        self.go_down();
        self.env.executor.sleep(recovery).await;
        self.come_up();
    }

    /// Goes down at once.
    pub fn go_down(&self) {
        let mut server = self.server.borrow_mut();
        server.up = false;
        server.life += 1;
        server.backends.clear();
        server.rows.clear();
        server.tables.clear();
        server.running.clear();
        server.committing = false;
        let flushed = server.flushed;
        server.log.retain(|record| record.end <= flushed);
        server.insert = flushed;
        let now = self.env.now();
        server.held.iter_mut().filter(|held| held.until.is_none()).for_each(|held| held.until = Some(now));
        drop(server);
        self.flushed_on.notify();
        self.unlocked.notify();
        self.life_changed.notify();
    }

    /// Comes up again with the content of its WAL.
    pub fn come_up(&self) {
        let mut server = self.server.borrow_mut();
        server.next_xid = server.log.iter().map(|record| record.xid).max().unwrap_or(99) + 1;
        server.latest = server.next_xid - 1;
        server.up = true;
        if !self.env.bugs.has(Bug::IncarnationOfPostmaster) {
            server.incarnation.started_us = i64::try_from(self.env.now()).expect("a run is short") + 2;
        }
        for place in 0..DATABASES {
            let state = Rc::new(replayed(&server.log, place));
            let now = self.env.now();
            server.went_back |= server.shown[place].last().expect("never empty").1 != state;
            server.shown[place].push((now, state));
        }
        drop(server);
        self.life_changed.notify();
    }
}

/// Every cell of a table.
pub fn cells(table: Table) -> Vec<Cell> {
    let parts = |row| [Cell::live(table, row), Cell::a(table, row), Cell::b(table, row)];
    (0..super::schema::ROWS).flat_map(parts).collect()
}

/// The state after these commits, in the order of the WAL.
pub fn replayed(log: &[Record], place: usize) -> State {
    let mut state = State::default();
    for commit in log.iter().filter_map(|record| record.commit.as_ref()) {
        if number(commit.database) == place {
            state.apply(&commit.effects);
        }
    }
    state
}
