//! A model of one node: a snapshot-isolation engine with versions of rows, row locks, transactions of backends, and a crash
//! that loses the unflushed end of its commits.

use super::check::Record;
use super::order::{Admission, OrderOfLife, Turn};
use crate::bugs::Bug;
use crate::env::Env;
use crate::executor::{Give, Micros, Signal, Take, once};
use certified_flow::CommitOrder;
use history::Version;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A row.
pub(crate) type Row = u8;
/// Rows of the database.
pub(crate) const ROWS: usize = 6;
/// Rows with their new values.
pub(crate) type Writes = BTreeMap<Row, u32>;
/// Values of all rows; zero is the initial one.
pub(crate) type State = [u32; ROWS];

/// The group of tasks of the node with this number.
pub(crate) fn group(number: usize) -> u32 {
    700 + u32::try_from(number).expect("few nodes")
}

/// Why an operation at a node has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection is lost.
    Lost,
    /// The transaction has failed: cancelled, or changed rows that a later commit has changed.
    Failed,
}

/// The result of an attempt to write a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// Done.
    Yes,
    /// This backend has locked the row.
    Blocked(i32),
}

/// A transaction waits so long for its turn.
const TURN_LIMIT_US: Micros = 4_000_000;
/// Where the node keeps the order so many commits in a thousand fail in their turn, as a serialization failure does.
const FAILING: u64 = 15;

/// One version at the node, with the rows that it has written.
type Applied = (Version, Writes);

/// A commit, as it lies in the node's WAL.
#[derive(Clone, Debug)]
struct Commit {
    applied: Vec<Applied>,
    state: State,
    /// The number of its transaction, if that was a link of the chain.
    link: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Backend {
    /// The process of Consort that has connected, and whether it is an applier's.
    process: u64,
    is_applier: bool,
    /// Number of commits that the transaction's snapshot shows.
    snapshot: Option<usize>,
    writes: Writes,
    failed: bool,
    /// The client's side of the connection is lost; the server has not noticed.
    cut: bool,
    /// A statement runs.
    runs: bool,
    /// The number of the transaction, which holds its lock of the chain.
    link: Option<u64>,
}

#[derive(Debug, Default)]
struct Server {
    commits: Vec<Commit>,
    flushed: usize,
    backends: BTreeMap<i32, Backend>,
    locks: BTreeMap<Row, i32>,
    next_pid: i32,
    pruned: Version,
    order: OrderOfLife,
}

/// See the file's first lines.
pub(crate) struct Engine {
    pub(crate) number: usize,
    pub(crate) env: Rc<Env>,
    /// Each commit is on the disk before it is visible.
    pub(crate) is_durable: bool,
    /// The keeper of the order of commits.
    pub(crate) keeps_order: CommitOrder,
    life: Cell<u64>,
    up: Cell<bool>,
    hung: Cell<bool>,
    server: RefCell<Server>,
    changed: Signal,
    record: Rc<RefCell<Record>>,
}

impl Engine {
    pub(crate) fn new(
        number: usize,
        env: &Rc<Env>,
        is_durable: bool,
        keeps_order: CommitOrder,
        record: &Rc<RefCell<Record>>,
    ) -> Rc<Engine> {
        Rc::new(Engine {
            number,
            env: env.clone(),
            is_durable,
            keeps_order,
            life: Cell::new(1),
            up: Cell::new(true),
            hung: Cell::new(false),
            server: RefCell::default(),
            changed: env.executor.signal(),
            record: record.clone(),
        })
    }

    /// The life of the server, as its incarnation tells it.
    pub(crate) fn life(&self) -> String {
        self.life.get().to_string()
    }

    /// A new backend; nothing if the server is down.
    pub(crate) fn connect(&self, process: u64, is_applier: bool) -> Option<i32> {
        if !self.up.get() {
            return None;
        }
        let mut server = self.server.borrow_mut();
        server.next_pid += 1;
        let pid = server.next_pid;
        server.backends.insert(pid, Backend { process, is_applier, ..Backend::default() });
        Some(pid)
    }

    /// One way over the network to the server, or back.
    pub(crate) async fn network(&self) {
        self.env.step(|delays| delays.network).await;
        while self.hung.get() {
            self.changed.wait().await;
        }
    }

    /// Waits for a change at the server, at most so long.
    pub(crate) async fn changes(&self, micros: Micros) {
        self.changed.wait_within(micros).await;
    }

    /// Waits for a change at the server.
    pub(crate) async fn change(&self) {
        self.changed.wait().await;
    }

    /// Whether the connection of a backend is there.
    pub(crate) fn is_connected(&self, pid: i32) -> bool {
        self.server.borrow().backends.get(&pid).is_some_and(|backend| !backend.cut)
    }

    fn with<T>(&self, pid: i32, act: impl FnOnce(&mut Server, Backend) -> T) -> Result<T, Trouble> {
        let mut server = self.server.borrow_mut();
        match server.backends.get(&pid).cloned() {
            None => Err(Trouble::Lost),
            Some(backend) if backend.cut => Err(Trouble::Lost),
            Some(backend) if backend.failed => Err(Trouble::Failed),
            Some(backend) => Ok(act(&mut server, backend)),
        }
    }

    /// Says whether a statement of the backend runs: a cancellation reaches no other.
    pub(crate) fn runs(&self, pid: i32, runs: bool) {
        if let Some(backend) = self.server.borrow_mut().backends.get_mut(&pid) {
            backend.runs = runs;
        }
    }

    /// Takes the transaction's snapshot. Returns the newest version in it.
    pub(crate) fn snapshot(&self, pid: i32) -> Result<Version, Trouble> {
        self.with(pid, |server, _| {
            let count = server.commits.len();
            server.backends.get_mut(&pid).expect("the backend is there").snapshot = Some(count);
            newest(&server.commits)
        })
    }

    /// Reads a row in the transaction's snapshot.
    pub(crate) fn read(&self, pid: i32, row: Row) -> Result<u32, Trouble> {
        self.with(pid, |server, backend| {
            let shown = backend.snapshot.and_then(|count| count.checked_sub(1));
            let committed = shown.map_or(0, |at| server.commits[at].state[usize::from(row)]);
            backend.writes.get(&row).copied().unwrap_or(committed)
        })
    }

    /// Locks a row, and writes it if there is a value. The first updater wins, but an applier writes over what is committed.
    pub(crate) fn write(&self, pid: i32, row: Row, value: Option<u32>) -> Result<Wrote, Trouble> {
        let wrote = self.with(pid, |server, backend| {
            if let Some(other) = server.locks.get(&row).copied().filter(|other| *other != pid) {
                return Some(Wrote::Blocked(other));
            }
            let later = &server.commits[backend.snapshot.unwrap_or(server.commits.len())..];
            let is_changed =
                later.iter().flat_map(|commit| &commit.applied).any(|one| one.1.contains_key(&row));
            if is_changed && !backend.is_applier {
                return None;
            }
            server.locks.insert(row, pid);
            let backend = server.backends.get_mut(&pid).expect("the backend is there");
            backend.writes.extend(value.map(|value| (row, value)));
            Some(Wrote::Yes)
        })?;
        if wrote.is_none() {
            self.fail(pid);
        }
        wrote.ok_or(Trouble::Failed)
    }

    /// The transaction of a backend fails: its locks are free.
    fn fail(&self, pid: i32) {
        let mut server = self.server.borrow_mut();
        server.locks.retain(|_, holder| *holder != pid);
        if let Some(backend) = server.backends.get_mut(&pid) {
            backend.failed = true;
            backend.writes.clear();
            backend.link = None;
        }
        drop(server);
        self.changed.notify();
    }

    /// Cancels the statement that a backend runs, if it runs one.
    pub(crate) fn cancel(&self, pid: i32) {
        if self.server.borrow().backends.get(&pid).is_some_and(|backend| backend.runs) {
            self.fail(pid);
        }
    }

    /// Ends the transaction of a backend without a commit.
    pub(crate) fn roll_back(&self, pid: i32) -> Result<(), Trouble> {
        if !self.is_connected(pid) {
            return Err(Trouble::Lost);
        }
        self.fail(pid);
        if let Some(backend) = self.server.borrow_mut().backends.get_mut(&pid) {
            (backend.failed, backend.snapshot) = (false, None);
        }
        Ok(())
    }

    /// Ends a backend.
    pub(crate) fn terminate(&self, pid: i32) {
        self.fail(pid);
        self.server.borrow_mut().backends.remove(&pid);
        self.changed.notify();
    }

    /// Ends all backends that are meant.
    pub(crate) fn terminate_all(&self, meant: impl Fn(u64, bool, bool) -> bool) {
        let server = self.server.borrow();
        let is_meant = |one: &Backend| meant(one.process, one.is_applier, !one.writes.is_empty());
        let pids: BTreeSet<i32> =
            server.backends.iter().filter(|(_, one)| is_meant(one)).map(|(pid, _)| *pid).collect();
        drop(server);
        pids.into_iter().for_each(|pid| self.terminate(pid));
    }

    /// Cuts the connection of some backend that has written something: the server goes on with what it has begun.
    pub(crate) fn cut_one(&self, which: u64) {
        let mut server = self.server.borrow_mut();
        let mut writers: Vec<_> =
            server.backends.values_mut().filter(|one| !one.is_applier && !one.writes.is_empty()).collect();
        let count = writers.len() as u64;
        if let Some(which) = which.checked_rem(count).and_then(|which| usize::try_from(which).ok()) {
            writers[which].cut = true;
        }
        drop(server);
        self.changed.notify();
    }

    /// Sends COMMIT with what it shows: versions with what each has written; none: a transaction without a version. What is
    /// returned comes when the server has answered. The COMMIT goes on whatever becomes of the one who waits.
    pub(crate) fn commits(
        self: &Rc<Engine>,
        pid: i32,
        applied: Option<Vec<Applied>>,
        turn: Turn,
    ) -> Take<Result<(), Trouble>> {
        let (give, take) = once(&self.env.executor);
        let engine = self.clone();
        let commit = async move { engine.commit(pid, applied, turn, give).await };
        self.env.executor.spawn(group(self.number), commit);
        take
    }

    async fn commit(
        &self,
        pid: i32,
        applied: Option<Vec<Applied>>,
        turn: Turn,
        give: Give<Result<(), Trouble>>,
    ) {
        self.network().await;
        self.runs(pid, true);
        let versions = applied.clone().unwrap_or_default();
        let mut done = self.waits_for_turn(turn, pid, &versions).await;
        if done.is_ok() {
            self.env.step(|delays| delays.record).await;
            if self.is_durable {
                self.env.step(|delays| delays.fsync).await;
            }
            self.becomes_visible(turn, pid, &versions).await;
            done = self.commit_now(pid, applied);
            if done.is_ok() || self.env.bugs.has(Bug::TurnPassedByAbort) {
                self.passes_turn(turn, &versions);
            }
        } else {
            self.fail(pid);
        }
        self.runs(pid, false);
        self.network().await;
        if self.is_connected(pid) {
            give.give(done);
        }
    }

    fn commit_now(&self, pid: i32, applied: Option<Vec<Applied>>) -> Result<(), Trouble> {
        let mut server = self.server.borrow_mut();
        let backend = server.backends.get(&pid).ok_or(Trouble::Lost)?.clone();
        if backend.failed {
            return Err(Trouble::Failed);
        }
        if let Some(applied) = applied {
            let is_there = |version: &Version| *version >= server.pruned && has(&server.commits, *version);
            let is_twice = applied.iter().any(|(version, _)| is_there(version));
            if is_twice && !self.env.bugs.has(Bug::VersionTwice) {
                drop(server);
                self.fail(pid);
                return Err(Trouble::Failed);
            }
            let mut state = server.commits.last().map_or(State::default(), |last| last.state);
            backend.writes.iter().for_each(|(row, value)| state[usize::from(*row)] = *value);
            let mut before = newest(&server.commits);
            for (version, _) in &applied {
                if *version != before.next() {
                    let node = self.number;
                    self.record.borrow_mut().breach(format!("node {node} commits {version} after {before}"));
                }
                before = *version;
            }
            server.commits.push(Commit { applied, state, link: backend.link });
            if self.is_durable {
                server.flushed = server.commits.len();
            }
        }
        let backend = server.backends.get_mut(&pid).expect("the backend is there");
        *backend = Backend { process: backend.process, is_applier: backend.is_applier, ..Backend::default() };
        server.locks.retain(|_, holder| *holder != pid);
        drop(server);
        self.changed.notify();
        Ok(())
    }

    /// The transaction takes its lock of the chain. Returns its number.
    pub(crate) fn link(&self, pid: i32) -> Option<u64> {
        let mut server = self.server.borrow_mut();
        let link = server.order.number();
        server.backends.get_mut(&pid)?.link = Some(link);
        Some(link)
    }

    /// Opens the gate: the node shows this version.
    pub(crate) fn opens_gate(&self, shown: Version) {
        if !self.is_open_for_all() {
            self.server.borrow_mut().order.moves_gate(shown.next());
            self.changed.notify();
        }
    }

    fn is_open_for_all(&self) -> bool {
        self.env.bugs.has(Bug::GateOpenAfterCrash) && self.life.get() > 1
    }

    /// Waits for the turn of a COMMIT.
    async fn waits_for_turn(&self, turn: Turn, pid: i32, applied: &[Applied]) -> Result<(), Trouble> {
        let end = self.env.now() + TURN_LIMIT_US;
        loop {
            match self.admission(turn, pid, applied)? {
                Admission::Admitted => return Ok(()),
                Admission::Early if self.env.now() < end => self.changes(end - self.env.now()).await,
                Admission::Early | Admission::Refused => return Err(Trouble::Failed),
            }
        }
    }

    fn admission(&self, turn: Turn, pid: i32, applied: &[Applied]) -> Result<Admission, Trouble> {
        let server = self.server.borrow();
        if turn == Turn::Sent {
            return Ok(Admission::Admitted);
        }
        if server.backends.get(&pid).ok_or(Trouble::Lost)?.failed {
            return Err(Trouble::Failed);
        }
        let is_open = |link| server.backends.values().any(|backend| backend.link == Some(link));
        let has_committed = |link| server.commits.iter().any(|commit| commit.link == Some(link));
        Ok(match (turn, applied.first()) {
            (Turn::Gate, Some((first, _))) if !self.is_open_for_all() => server.order.at_gate(*first),
            (Turn::After(link), _) if is_open(link) => Admission::Early,
            (Turn::After(link), _) if !has_committed(link) && !self.env.bugs.has(Bug::LinkNotChecked) => {
                Admission::Refused
            }
            _ => Admission::Admitted,
        })
    }

    /// From the record in the WAL to its visibility. Instead, the transaction may fail.
    async fn becomes_visible(&self, turn: Turn, pid: i32, applied: &[Applied]) {
        if self.keeps_order != CommitOrder::Sessions {
            if self.env.bugs.has(Bug::TurnPassedBeforeVisible) {
                self.passes_turn(turn, applied);
            }
            self.env.step(|delays| delays.visible).await;
            if self.env.random.borrow_mut().chance(FAILING) {
                self.fail(pid);
            }
        }
    }

    /// The transaction of a COMMIT has ended: the next version has its turn.
    fn passes_turn(&self, turn: Turn, applied: &[Applied]) {
        let mut server = self.server.borrow_mut();
        if let Some((last, _)) = applied.last().filter(|_| turn == Turn::Gate && server.order.next.is_some())
        {
            server.order.moves_gate(last.next());
            drop(server);
            self.changed.notify();
        }
    }

    /// The version that the node shows.
    pub(crate) fn shown(&self) -> Version {
        newest(&self.server.borrow().commits)
    }

    /// Brings all commits to the disk.
    pub(crate) fn flush(&self) {
        let mut server = self.server.borrow_mut();
        server.flushed = server.commits.len();
    }

    /// Versions before this one are dropped from the table of versions, whose key keeps each from being committed twice.
    pub(crate) fn prune(&self, version: Version) {
        let mut server = self.server.borrow_mut();
        server.pruned = server.pruned.max(version);
    }

    /// The server dies; so many commits in a thousand of those in memory were written already.
    pub(crate) fn crash(&self, written: u64) {
        self.up.set(false);
        self.env.executor.kill(group(self.number));
        let mut server = self.server.borrow_mut();
        let in_memory = (server.commits.len() - server.flushed) as u64;
        let kept = server.flushed + usize::try_from(in_memory * written / 1000).expect("few commits");
        server.commits.truncate(kept);
        server.flushed = kept;
        server.backends.clear();
        server.locks.clear();
        let newest = server.commits.iter().filter_map(|commit| commit.link).max();
        server.order = OrderOfLife::after_crash(newest);
        drop(server);
        self.hung.set(false);
        self.changed.notify();
    }

    /// The server starts, and has recovered.
    pub(crate) fn restart(&self) {
        self.life.set(self.life.get() + 1);
        self.up.set(true);
        self.changed.notify();
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.get()
    }

    /// The server stops for a while, or goes on.
    pub(crate) fn hangs(&self, hung: bool) {
        self.hung.set(hung);
        self.changed.notify();
    }

    /// All versions that are committed here, with what each has written.
    pub(crate) fn log(&self) -> Vec<Applied> {
        self.server.borrow().commits.iter().flat_map(|commit| commit.applied.clone()).collect()
    }

    /// The rows as the newest snapshot shows them.
    pub(crate) fn state(&self) -> State {
        self.server.borrow().commits.last().map_or(State::default(), |last| last.state)
    }
}

fn has(commits: &[Commit], version: Version) -> bool {
    commits.iter().rev().flat_map(|commit| &commit.applied).any(|one| one.0 == version)
}

fn newest(commits: &[Commit]) -> Version {
    commits.iter().rev().flat_map(|commit| commit.applied.last()).next().map_or(Version::ZERO, |last| last.0)
}
