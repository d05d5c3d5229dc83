//! Commits that travel as statements, where the design replicates statements.
//!
//! ```text
//! session   started v7 | the statement runs | its transaction is 4711 --tell--\
//! slot      4711 wrote these rows          --came_out-------------------------+--> boundary: 4711 is v12
//!                                                        v8..v11 overlap what it touched? rows
//!                                                        else the statement stands for them
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

/// Number of commits whose write sets are remembered. A transaction that began before the oldest of them
/// travels as rows.
const MAX_WINDOW: usize = 4096;
/// Maximum bytes of the statements of transactions that have not come out yet, in each database.
const MAX_TOLD_BYTES: u64 = 8 * 1024 * 1024;

/// Reason: the statements of the transaction were not reported, or not in time.
const NOT_REPORTED: &str = "not_reported";
/// Reason: a concurrent commit wrote to the footprint of the transaction.
const OVERLAPPED: &str = "overlapped";
/// Reason: the rows that came out differ from the rows that its statements report.
const OTHER_ROWS: &str = "other_rows";

/// All statements of a transaction that may have written.
#[derive(Clone, Debug)]
pub struct Told {
    /// Version of its start: every commit up to this one was visible then, and its statements see it.
    pub started: Version,
    /// Run of that version.
    pub run: RunNumber,
    /// Oldest snapshot that each of its statements has seen.
    pub saw: Snapshot,
    /// Footprint of its reads and writes.
    pub touched: Footprint,
    /// Statements of the transaction.
    pub reruns: Arc<[Rerun]>,
}

impl Told {
    fn bytes(&self) -> u64 {
        self.reruns.iter().map(Rerun::bytes).sum()
    }
}

/// State of one database.
///
/// Invariants: the guard knows every commit of `run` below `next` that it has not forgotten; `bytes` is what
/// is in `told`.
#[derive(Debug)]
struct Of {
    run: Option<RunNumber>,
    guard: Guard,
    next: Version,
    /// Transaction numbers of the versions.
    xids: BTreeMap<Version, Xid>,
    /// Write sets of commits without a boundary, by the ends of their records.
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

    /// Gives commits their versions. Returns the statements of each, if they may be executed again; else the
    /// reason against it.
    fn place(&mut self, boundary: &Boundary) -> Vec<(Lsn, Result<Told, &'static str>)> {
        let mut placed = Vec::with_capacity(boundary.commits.len());
        for commit in &boundary.commits {
            let wrote = self.wrote.remove(&commit.end);
            let told = self.take(commit.xid).ok_or(NOT_REPORTED).and_then(|told| {
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

/// States of all databases.
#[derive(Debug, Default)]
pub(crate) struct Reruns {
    of: RefCell<BTreeMap<DatabaseId, Of>>,
}

impl Reruns {
    /// Follows the order into this run: statements reported in another run are void.
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
            // Commits placed in the meantime are not known one by one.
            let fresh = Of::new(of.run, first.version);
            (of.guard, of.next, of.xids) = (fresh.guard, fresh.next, fresh.xids);
        }
        of.place(boundary)
    }
}

impl Cluster {
    /// Returns true if statements travel to replicas, where they may.
    pub fn statements_travel(&self) -> bool {
        self.setup().design.effects.are_statements()
    }

    /// Version from which a transaction that begins now counts. `None`: its statements are not wanted.
    pub fn started(&self, of: DatabaseId) -> Option<(RunNumber, Version)> {
        if !self.statements_travel() || !self.is_fed(of) {
            return None;
        }
        let scheduler = self.scheduler();
        Some((scheduler.order().run(of)?, scheduler.order().newest_version(of)))
    }

    /// Notes all statements of a transaction that has not been sent its COMMIT, or has not carried it out
    /// yet.
    pub fn tell(&self, of: DatabaseId, xid: Xid, told: Told) {
        let mut all = self.reruns().of.borrow_mut();
        if let Some(of) = all.get_mut(&of).filter(|known| known.run == Some(told.run)) {
            of.tell(xid, told);
        }
    }

    /// Notes that this transaction was rolled back.
    pub fn take_back(&self, of: DatabaseId, xid: Xid) {
        if let Some(of) = self.reruns().of.borrow_mut().get_mut(&of) {
            of.take(xid);
        }
    }

    /// Follows the order of the database into its run, if any.
    pub(super) fn reruns_follow(&self, of: DatabaseId, run: Option<RunNumber>) {
        if self.statements_travel() {
            self.reruns().follow(of, run);
        }
    }

    /// Notes the write set of a commit that came out.
    pub(crate) fn rerun_came_out(&self, of: DatabaseId, end: Lsn, wrote: Arc<Footprint>) {
        let mut all = self.reruns().of.borrow_mut();
        if let Some(of) = all.get_mut(&of).filter(|known| known.run.is_some()) {
            of.wrote.insert(end, wrote);
        }
    }

    /// Takes the commits of a boundary that is about to be kept: their statements stand for their rows where
    /// they may.
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
