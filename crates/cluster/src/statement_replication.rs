//! Where the design has statements travel: which commits do.
//!
//! ```text
//! session   started v7 | the statement runs | its transaction is 4711 --tell--\
//! slot      4711 wrote these rows          --came_out-------------------------+--> boundary: 4711 is v12
//!                                                                                 v8..v11 overlap what it touched? rows
//!                                                                                 else the statement stands for them
//! ```
//!
//! A statement stands for its rows at every replica or at none. Its rows are kept all the same.

use super::Cluster;
use history::{DatabaseId, Footprint, Lsn, Snapshot, Version, Xid};
use order::{Boundary, RunNumber};
use replica_apply::apply::Rerun;
use scheduler::parallel::Guard;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many commits are remembered by what they wrote: who began before the oldest of them travels as rows.
const MAX_WINDOW: usize = 4096;
/// Statements of transactions that have not come out yet take no more than this, in each database.
const MAX_TOLD_BYTES: u64 = 8 * 1024 * 1024;

/// Nobody has told what the transaction ran, or not in time.
const NOT_TOLD: &str = "not_told";
/// Something that it read or wrote was committed since it began.
const OVERLAPPED: &str = "overlapped";
/// Other rows came out than those that its statements say they wrote.
const OTHER_ROWS: &str = "other_rows";

/// All that a transaction ran that may have written.
#[derive(Clone, Debug)]
pub struct Told {
    /// Every commit up to this one had been shown when it began, and its statements see it.
    pub started: Version,
    /// In which run.
    pub run: RunNumber,
    /// What each of its statements has seen at least.
    pub saw: Snapshot,
    /// What it read and wrote.
    pub touched: Footprint,
    /// Its statements.
    pub reruns: Arc<[Rerun]>,
}

impl Told {
    fn bytes(&self) -> u64 {
        self.reruns.iter().map(Rerun::bytes).sum()
    }
}

/// One database's.
///
/// Invariants: the guard knows every commit of `run` below `next` that it has not forgotten; `bytes` is what is in `told`.
#[derive(Debug)]
struct Of {
    run: Option<RunNumber>,
    guard: Guard,
    next: Version,
    /// Who they were.
    xids: BTreeMap<Version, Xid>,
    /// What commits wrote that no boundary has, by the ends of their records.
    wrote: BTreeMap<Lsn, Arc<Footprint>>,
    told: BTreeMap<Xid, Told>,
    bytes: u64,
}

impl Of {
    fn new(run: Option<RunNumber>, next: Version) -> Of {
        let before = Version::new(next.get().saturating_sub(1));
        let guard = Guard::new(before, MAX_WINDOW);
        Of {
            run,
            guard,
            next,
            xids: BTreeMap::new(),
            wrote: BTreeMap::new(),
            told: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn take(&mut self, xid: Xid) -> Option<Told> {
        let told = self.told.remove(&xid)?;
        self.bytes -= told.bytes();
        Some(told)
    }

    fn tell(&mut self, xid: Xid, told: Told) {
        self.take(xid);
        self.bytes += told.bytes();
        self.told.insert(xid, told);
        while self.bytes > MAX_TOLD_BYTES
            && let Some(oldest) = self.told.keys().next().copied()
        {
            self.take(oldest);
        }
    }

    /// Commits get their versions. What each ran, if that may be executed again; else why not.
    fn place(&mut self, boundary: &Boundary) -> Vec<(Lsn, Result<Told, &'static str>)> {
        let mut placed = Vec::with_capacity(boundary.commits.len());
        for commit in &boundary.commits {
            let wrote = self.wrote.remove(&commit.end);
            let told = self.take(commit.xid).ok_or(NOT_TOLD).and_then(|told| {
                let saw = |version| self.xids.get(&version).is_some_and(|xid| told.saw.sees(*xid));
                let stands = self.guard.stands_seeing(told.started, &told.touched, saw);
                if stands { Ok(told) } else { Err(OVERLAPPED) }
            });
            self.xids.insert(commit.version, commit.xid);
            if self.xids.len() > MAX_WINDOW {
                self.xids.pop_first();
            }
            self.guard.placed(wrote.unwrap_or_else(|| Arc::new(Footprint::Everything)));
            self.next = commit.version.next();
            placed.push((commit.end, told));
        }
        placed
    }
}

/// All databases'.
#[derive(Debug, Default)]
pub(crate) struct Reruns {
    of: RefCell<BTreeMap<DatabaseId, Of>>,
}

impl Reruns {
    /// The order goes on in this run: what was told in another one says nothing.
    fn follow(&self, of: DatabaseId, run: Option<RunNumber>) {
        let mut all = self.of.borrow_mut();
        if all.get(&of).is_none_or(|known| known.run != run) {
            all.insert(of, Of::new(run, Version::ZERO));
        }
    }

    fn place(&self, boundary: &Boundary) -> Vec<(Lsn, Result<Told, &'static str>)> {
        let Some(first) = boundary.commits.first() else { return Vec::new() };
        self.follow(boundary.database, Some(boundary.run));
        let mut all = self.of.borrow_mut();
        let Some(of) = all.get_mut(&boundary.database) else { return Vec::new() };
        if of.next != first.version {
            // What was placed meanwhile is not known one by one.
            let fresh = Of::new(of.run, first.version);
            (of.guard, of.next, of.xids) = (fresh.guard, fresh.next, fresh.xids);
        }
        of.place(boundary)
    }
}

impl Cluster {
    /// Statements travel to replicas, where they may.
    pub fn statements_travel(&self) -> bool {
        self.setup().design.effects.are_statements()
    }

    /// From when on a transaction that begins now counts; `None`: whatever it runs, nobody wants to hear of it.
    pub fn started(&self, of: DatabaseId) -> Option<(RunNumber, Version)> {
        if !self.statements_travel() || !self.is_fed(of) {
            return None;
        }
        let scheduler = self.scheduler();
        Some((scheduler.order().run(of)?, scheduler.order().newest_version(of)))
    }

    /// A transaction that has not been sent its COMMIT, or has not carried it out yet, has run this and nothing else.
    pub fn tell(&self, of: DatabaseId, xid: Xid, told: Told) {
        let mut all = self.reruns().of.borrow_mut();
        if let Some(of) = all.get_mut(&of).filter(|known| known.run == Some(told.run)) {
            of.tell(xid, told);
        }
    }

    /// That transaction was rolled back.
    pub fn take_back(&self, of: DatabaseId, xid: Xid) {
        if let Some(of) = self.reruns().of.borrow_mut().get_mut(&of) {
            of.take(xid);
        }
    }

    /// The order of the database goes on in its run, if in any.
    pub(super) fn reruns_follow(&self, of: DatabaseId, run: Option<RunNumber>) {
        if self.statements_travel() {
            self.reruns().follow(of, run);
        }
    }

    /// A commit came out that wrote this.
    pub(crate) fn rerun_came_out(&self, of: DatabaseId, end: Lsn, wrote: Arc<Footprint>) {
        let mut all = self.reruns().of.borrow_mut();
        if let Some(of) = all.get_mut(&of).filter(|known| known.run.is_some()) {
            of.wrote.insert(end, wrote);
        }
    }

    /// The commits of a boundary that is about to be kept: their statements stand for their rows where they may.
    pub(super) fn stand(&self, boundary: &Boundary) {
        if !self.statements_travel() {
            return;
        }
        for (end, told) in self.reruns().place(boundary) {
            self.feeds().change(boundary.database, end, |rows| {
                let stands = told.and_then(|told| {
                    let same = rows.part.is_written_by(&told.reruns);
                    if same { Ok(told) } else { Err(OTHER_ROWS) }
                });
                match stands {
                    Ok(told) => {
                        rows.bytes += told.bytes();
                        rows.part.set_reruns(told.reruns);
                        self.metrics().commits_as_statements.one();
                    }
                    Err(_) if rows.part.changes().count() == 0 => {}
                    Err(why) => self.metrics().commits_as_rows.one(why),
                }
            });
        }
    }
}
