//! What came out of one database's slot for the replicas that Consort feeds, until every one of them keeps it.
//!
//! ```text
//!   slot  --came_out--> rows of each commit --\
//!   order --extend----> boundaries            5 6 7 8 9        each replica takes them from its own place on
//!                                             ^   ^   ^
//!                              all keep it: cut  kept  next
//! ```
//!
//! The oldest rows lie in files when there are more than memory has room for.
//!
//! It does not know what a server is, nor what rows are: it counts their bytes.

use super::arrival_rate::Pace;
use history::Lsn;
use order::{Boundary, RunNumber};
use replica_apply::apply::Part;
use scheduler::StandbyId;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Writers who have ended hold up nobody for longer: how quickly rows arrive is how quickly they did in so much time.
const ARRIVALS_WINDOW: Duration = Duration::from_secs(1);

/// The place of a boundary among those of its database, counted from the start of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Place {
    /// So many further.
    pub(crate) fn behind(self, count: usize) -> Place {
        Place(self.0 + count as u64)
    }
}

/// The rows of one commit.
#[derive(Clone, Debug)]
pub(crate) struct Rows<R> {
    /// The rows.
    pub(crate) part: R,
    /// It ran DDL, or marks a change that has no event trigger.
    pub(crate) ddl: bool,
    /// What keeping them costs.
    pub(crate) bytes: u64,
}

/// A boundary that was taken.
#[derive(Debug)]
struct Taken {
    boundary: Rc<Boundary>,
    /// Of the rows of its commits, and so many of them lie in files.
    bytes: u64,
    filed: u64,
    /// One of its commits ran DDL, or marks a change that has no event trigger.
    ddl: bool,
    /// When, since the start.
    at: Duration,
}

/// How far a replica has come.
///
/// Invariant: both lie between the feed's first place and its end.
#[derive(Clone, Copy, Debug)]
struct Taker {
    /// It keeps all boundaries below, whatever becomes of it.
    kept: Place,
    /// The next one that it is given.
    next: Place,
}

/// Whole boundaries that follow each other.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// At least one.
    pub(crate) boundaries: Vec<Rc<Boundary>>,
    /// The place behind the last.
    pub(crate) end: Place,
    /// Of the rows of all their commits.
    pub(crate) bytes: u64,
}

impl Stretch {
    /// These, and those that follow.
    pub(crate) fn with(mut self, next: Stretch) -> Stretch {
        self.boundaries.extend(next.boundaries);
        Stretch { boundaries: self.boundaries, end: next.end, bytes: self.bytes + next.bytes }
    }

    /// The last one.
    pub(crate) fn last(&self) -> &Rc<Boundary> {
        self.boundaries.last().expect("a stretch has at least one boundary")
    }
}

/// What a replica does not show yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Commits.
    pub commits: u64,
    /// Bytes of their rows.
    pub bytes: u64,
    /// So many of them lie in files.
    pub filed: u64,
    /// When the oldest boundary was taken, since the start.
    pub since: Option<Duration>,
}

/// One database's.
///
/// Invariants: all boundaries are of `run`, and the rows of all their commits are here; rows that no boundary has are of
/// commits that came out in it. Nothing is kept when nobody takes it.
#[derive(Debug)]
pub(crate) struct Feed<R = Part> {
    run: Option<RunNumber>,
    /// By the ends of their records.
    rows: BTreeMap<Lsn, Rows<R>>,
    /// Bytes of what no boundary has, and how many commits that is.
    unplaced: (u64, usize),
    /// Bytes of what one has, and how many of them lie in files.
    placed: u64,
    filed: u64,
    taken: VecDeque<Taken>,
    /// The place of the first one that is kept.
    first: Place,
    /// The rows of all boundaries below lie in files.
    put_away: Place,
    /// How quickly rows arrive, and up to when that was counted.
    arrivals: (Pace, Duration),
    takers: BTreeMap<StandbyId, Taker>,
}

impl<R> Default for Feed<R> {
    fn default() -> Self {
        Feed {
            run: None,
            rows: BTreeMap::new(),
            unplaced: (0, 0),
            placed: 0,
            filed: 0,
            taken: VecDeque::new(),
            first: Place::default(),
            put_away: Place::default(),
            arrivals: (Pace::over(ARRIVALS_WINDOW), Duration::ZERO),
            takers: BTreeMap::new(),
        }
    }
}

impl<R: Clone> Feed<R> {
    /// The order goes on in this run. If it is another one, everything that it does not have yet comes out (again).
    pub(crate) fn follow(&mut self, run: Option<RunNumber>) {
        if self.run == run {
            return;
        }
        self.run = run;
        self.clear();
    }

    fn clear(&mut self) {
        let end = self.end();
        self.rows.clear();
        self.taken.clear();
        (self.unplaced, self.placed, self.filed, self.first) = ((0, 0), 0, 0, end);
        self.takers.values_mut().for_each(|taker| *taker = Taker { kept: end, next: end });
    }

    /// A replica is fed from here on; nothing changes for one that is.
    pub(crate) fn joins(&mut self, replica: StandbyId) {
        let end = self.end();
        self.takers.entry(replica).or_insert(Taker { kept: end, next: end });
    }

    /// A replica is to be given all that another one may have to be given once more, and what follows: it has what that one
    /// keeps. Whether that one is fed.
    pub(crate) fn joins_beside(&mut self, replica: StandbyId, other: StandbyId) -> bool {
        let Some(Taker { kept, .. }) = self.takers.get(&other).copied() else { return false };
        self.takers.insert(replica, Taker { kept, next: kept });
        true
    }

    /// A replica is fed no more, or from another place on.
    pub(crate) fn leaves(&mut self, replica: StandbyId) {
        self.takers.remove(&replica);
        self.cut();
    }

    /// Whether anybody is fed.
    pub(crate) fn is_taken(&self) -> bool {
        !self.takers.is_empty()
    }

    /// Whether this replica is.
    pub(crate) fn is_taken_by(&self, replica: StandbyId) -> bool {
        self.takers.contains_key(&replica)
    }

    /// A commit came out, for the first time in this run.
    pub(crate) fn came_out(&mut self, end: Lsn, rows: Rows<R>) {
        if self.takers.is_empty() || self.run.is_none() {
            return;
        }
        self.unplaced.0 += rows.bytes;
        self.unplaced.1 += 1;
        self.rows.insert(end, rows);
    }

    /// Changes how a commit travels that no boundary has. It may cost more to keep afterwards.
    pub(crate) fn change(&mut self, end: Lsn, change: impl FnOnce(&mut Rows<R>)) {
        if let Some(rows) = self.rows.get_mut(&end) {
            let before = rows.bytes;
            change(rows);
            self.unplaced.0 += rows.bytes - before;
        }
    }

    /// A boundary was taken. One of another run is nobody's. Of several without commits the newest is kept.
    pub(crate) fn extend(&mut self, boundary: Boundary, now: Duration) {
        if self.run != Some(boundary.run) || self.takers.is_empty() {
            return;
        }
        let end = self.end();
        let last = self.taken.back_mut().filter(|last| last.boundary.commits.is_empty());
        if let Some(last) = last.filter(|_| boundary.commits.is_empty()) {
            last.boundary = Rc::new(boundary);
            let given = self.takers.values_mut().filter(|taker| taker.next == end);
            for taker in given {
                taker.next = Place(end.0 - 1);
                taker.kept = taker.kept.min(taker.next);
            }
            return;
        }
        let mine = boundary.commits.iter().filter_map(|commit| self.rows.get(&commit.end));
        let (bytes, commits, ddl) = mine.fold((0, 0, false), |(bytes, count, ddl), rows| {
            (bytes + rows.bytes, count + 1, ddl || rows.ddl)
        });
        self.unplaced.0 -= bytes;
        self.unplaced.1 -= commits;
        let (pace, counted) = &mut self.arrivals;
        pace.add(bytes, now.saturating_sub(*counted));
        *counted = now;
        self.placed += bytes;
        self.taken.push_back(Taken { boundary: Rc::new(boundary), bytes, filed: 0, ddl, at: now });
        self.cut();
    }

    /// The boundaries that a replica is given next: one, and more as long as they are no more bytes than `most` and DDL is in
    /// none but the last. (What it makes may have to be committed before it is used: a new label of an enum.) Then it is given
    /// what follows. `None`: there is nothing yet.
    ///
    /// # Errors
    /// It is not fed any more.
    pub(crate) fn next(&mut self, replica: StandbyId, most: u64) -> Result<Option<Stretch>, NotFed> {
        let taker = self.takers.get_mut(&replica).ok_or(NotFed)?;
        let skipped = usize::try_from(taker.next.0 - self.first.0).expect("no further than the end");
        let (mut bytes, mut ddl) = (0, false);
        let fits = |taken: &&Taken| {
            bytes += taken.bytes;
            let behind_ddl = std::mem::replace(&mut ddl, taken.ddl);
            !behind_ddl && (bytes == taken.bytes || bytes <= most)
        };
        let stretch: Vec<_> = self.taken.iter().skip(skipped).take_while(fits).collect();
        let bytes = stretch.iter().map(|taken| taken.bytes).sum();
        let boundaries: Vec<_> = stretch.into_iter().map(|taken| taken.boundary.clone()).collect();
        taker.next = taker.next.behind(boundaries.len());
        let end = taker.next;
        Ok((!boundaries.is_empty()).then_some(Stretch { boundaries, end, bytes }))
    }

    /// The place behind all that a replica was given; `None`: it is not fed.
    pub(crate) fn given(&self, replica: StandbyId) -> Option<Place> {
        self.takers.get(&replica).map(|taker| taker.next)
    }

    /// The replica is connected: it is given again what it need not have kept, and the newest boundary in any case, to be
    /// told by it where it stands.
    ///
    /// # Errors
    /// It is not fed any more.
    pub(crate) fn connected(&mut self, replica: StandbyId) -> Result<(), NotFed> {
        let newest = Place(self.end().0.saturating_sub(1)).max(self.first);
        let taker = self.takers.get_mut(&replica).ok_or(NotFed)?;
        taker.next = taker.kept.min(newest);
        Ok(())
    }

    /// The rows of a commit that a boundary has.
    pub(crate) fn rows(&self, end: Lsn) -> Option<Rows<R>> {
        self.rows.get(&end).cloned()
    }

    /// Whatever becomes of the replica, it has all boundaries below this place.
    pub(crate) fn kept(&mut self, replica: StandbyId, below: Place) {
        if let Some(taker) = self.takers.get_mut(&replica) {
            taker.kept = taker.kept.max(below.min(taker.next));
            self.cut();
        }
    }

    /// What lies at or behind this place.
    pub(crate) fn pending(&self, from: Place) -> Pending {
        let skipped = usize::try_from(from.0.saturating_sub(self.first.0)).unwrap_or(usize::MAX);
        let mut pending = Pending::default();
        for taken in self.taken.iter().skip(skipped) {
            pending.since.get_or_insert(taken.at);
            pending.commits += taken.boundary.commits.len() as u64;
            pending.bytes += taken.bytes;
            pending.filed += taken.filed;
        }
        pending
    }

    /// Puts the oldest rows into files until no more than `memory` bytes of what boundaries have are here. `put` does it for
    /// those of one boundary, and says how many bytes of them lie in files then.
    ///
    /// # Errors
    /// Those of `put`: the rows of that boundary and of those behind it are here still.
    pub(crate) fn put_away(
        &mut self,
        memory: u64,
        mut put: impl FnMut(&mut [R]) -> io::Result<u64>,
    ) -> io::Result<()> {
        self.put_away = self.put_away.max(self.first);
        while self.placed - self.filed > memory {
            let next = usize::try_from(self.put_away.0 - self.first.0).expect("no further than the end");
            let Some(taken) = self.taken.get_mut(next) else { break };
            let ends = || taken.boundary.commits.iter().map(|commit| commit.end);
            let (ends, mut parts): (Vec<_>, Vec<_>) =
                ends().filter_map(|end| Some((end, self.rows.get(&end)?.part.clone()))).unzip();
            taken.filed = put(&mut parts)?;
            self.filed += taken.filed;
            for (end, part) in ends.into_iter().zip(parts) {
                self.rows.entry(end).and_modify(|rows| rows.part = part);
            }
            self.put_away = self.put_away.behind(1);
        }
        Ok(())
    }

    /// Who must be given up so that no more than `memory` bytes are kept in memory and `files` bytes in files: those who are
    /// furthest behind, until it is enough. Nobody is for the sake of the newest boundary alone, nor of a single commit, however
    /// large.
    pub(crate) fn too_far_behind(&self, memory: u64, files: u64) -> Vec<StandbyId> {
        let newest = self.taken.back().map_or(0, |taken| taken.bytes);
        let (unplaced, commits) = self.unplaced;
        if unplaced > memory && commits > 1 {
            return self.takers.keys().copied().collect();
        }
        let fits = self.placed - self.filed <= memory && self.filed <= files;
        if fits || self.placed == newest {
            return Vec::new();
        }
        let last = self.takers.values().map(|taker| taker.kept).min();
        self.takers.iter().filter(|(_, taker)| Some(taker.kept) == last).map(|(id, _)| *id).collect()
    }

    /// Bytes of rows that arrive in a second.
    pub(crate) fn arrivals(&self, now: Duration) -> f64 {
        let (mut pace, counted) = self.arrivals;
        pace.add(0, now.saturating_sub(counted));
        pace.per_second()
    }

    /// The place behind all that was taken.
    pub(crate) fn end(&self) -> Place {
        self.first.behind(self.taken.len())
    }

    /// Forgets what everybody keeps. The newest boundary stays: who connects is told by it where it stands.
    fn cut(&mut self) {
        let Some(kept) = self.takers.values().map(|taker| taker.kept).min() else { return self.clear() };
        while self.first < kept && self.taken.len() > 1 {
            let Some(taken) = self.taken.pop_front() else { return };
            self.first = self.first.behind(1);
            self.placed -= taken.bytes;
            self.filed -= taken.filed;
            for commit in &taken.boundary.commits {
                self.rows.remove(&commit.end);
            }
        }
    }
}

/// The replica was given up meanwhile: it must be copied anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotFed;

#[cfg(test)]
mod tests;
