//! The transactions that came out of one database's slot for its logical replicas, until each of them has
//! flushed them.
//!
//! ```text
//!   slot  --came_out--> rows of each commit --\
//!   order --extend----> boundaries            5 6 7 8 9        each replica takes them from its own place on
//!                                             ^   ^   ^
//!                              all keep it: cut  kept  next
//! ```
//!
//! The oldest rows lie in files when they exceed the memory bound.
//!
//! The buffer knows neither servers nor the content of rows: it counts their bytes.

use super::arrival_rate::Pace;
use history::Lsn;
use order::{Boundary, RunNumber};
use replica_apply::apply::Part;
use scheduler::StandbyId;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Averaging window of the arrival rate of rows. Writers that have ended hold up other writers no longer than
/// this.
const ARRIVALS_WINDOW: Duration = Duration::from_secs(1);

/// The position of a boundary among those of its database, counted from the start of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Place {
    /// Returns the position `count` boundaries further.
    pub(crate) fn behind(self, count: usize) -> Place {
        Place(self.0 + count as u64)
    }
}

/// The rows of one commit.
#[derive(Clone, Debug)]
pub(crate) struct Rows<R> {
    /// Content of the rows.
    pub(crate) part: R,
    /// True if the transaction ran DDL, or marks a change that has no event trigger.
    pub(crate) ddl: bool,
    /// Bytes that the boundary occupies.
    pub(crate) bytes: u64,
}

/// A boundary in the buffer.
#[derive(Debug)]
struct Taken {
    boundary: Rc<Boundary>,
    /// Bytes of the rows of its commits, and of those in files.
    bytes: u64,
    filed: u64,
    /// True if one of its commits ran DDL, or marks a change that has no event trigger.
    ddl: bool,
    /// Time of the entry, since the start.
    at: Duration,
}

/// Progress of a replica.
///
/// Invariant: both lie between the feed's first position and its end.
#[derive(Clone, Copy, Debug)]
struct Taker {
    /// Position below which the replica keeps all boundaries, even after a crash.
    kept: Place,
    /// Next boundary that it receives.
    next: Place,
}

/// An apply batch: whole boundaries that follow each other.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// Boundaries of the batch, at least one.
    pub(crate) boundaries: Vec<Rc<Boundary>>,
    /// Position after the last boundary.
    pub(crate) end: Place,
    /// Bytes of the rows of all their commits.
    pub(crate) bytes: u64,
}

impl Stretch {
    /// Returns this batch followed by another one.
    pub(crate) fn with(mut self, next: Stretch) -> Stretch {
        self.boundaries.extend(next.boundaries);
        Stretch { boundaries: self.boundaries, end: next.end, bytes: self.bytes + next.bytes }
    }

    /// Last boundary of the batch.
    pub(crate) fn last(&self) -> &Rc<Boundary> {
        self.boundaries.last().expect("a stretch has at least one boundary")
    }
}

/// Boundaries that a replica does not show yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Number of commits.
    pub commits: u64,
    /// Bytes of the commits' rows.
    pub bytes: u64,
    /// Number of their bytes that lie in files.
    pub filed: u64,
    /// Time at which the oldest boundary was taken, since the start.
    pub since: Option<Duration>,
}

/// The buffer of one database.
///
/// Invariants: all boundaries are of `run`, and the rows of all their commits are here; rows that no boundary
/// has are of commits that came out in it. Nothing is kept when no replica is fed.
#[derive(Debug)]
pub(crate) struct Feed<R = Part> {
    run: Option<RunNumber>,
    /// Rows by the ends of their commit records.
    rows: BTreeMap<Lsn, Rows<R>>,
    /// Bytes of the rows without a boundary, and the number of their commits.
    unplaced: (u64, usize),
    /// Bytes of the rows with a boundary, and of those in files.
    placed: u64,
    filed: u64,
    taken: VecDeque<Taken>,
    /// Position of the first kept boundary.
    first: Place,
    /// Position below which the rows of all boundaries lie in files.
    put_away: Place,
    /// Arrival rate of rows, and the time up to which it was counted.
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
    /// Follows the order into this run. If it is another one, every missing boundary comes out (again).
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

    /// Feeds a replica from here on. Changes nothing for one that is fed already.
    pub(crate) fn joins(&mut self, replica: StandbyId) {
        let end = self.end();
        self.takers.entry(replica).or_insert(Taker { kept: end, next: end });
    }

    /// Feeds a replica with everything that may have to be sent to another one again, and with all that
    /// follows: the new replica has what the other one keeps. Returns true if the other one is fed.
    pub(crate) fn joins_beside(&mut self, replica: StandbyId, other: StandbyId) -> bool {
        let Some(Taker { kept, .. }) = self.takers.get(&other).copied() else { return false };
        self.takers.insert(replica, Taker { kept, next: kept });
        true
    }

    /// Notes that a replica is fed no more, or from another position on.
    pub(crate) fn leaves(&mut self, replica: StandbyId) {
        self.takers.remove(&replica);
        self.cut();
    }

    /// Returns true if any replica is fed.
    pub(crate) fn is_taken(&self) -> bool {
        !self.takers.is_empty()
    }

    /// Returns true if this replica is fed.
    pub(crate) fn is_taken_by(&self, replica: StandbyId) -> bool {
        self.takers.contains_key(&replica)
    }

    /// Adds a commit that came out for the first time in this run.
    pub(crate) fn came_out(&mut self, end: Lsn, rows: Rows<R>) {
        if self.takers.is_empty() || self.run.is_none() {
            return;
        }
        self.unplaced.0 += rows.bytes;
        self.unplaced.1 += 1;
        self.rows.insert(end, rows);
    }

    /// Changes the form in which a commit without a boundary travels. The new form may need more memory.
    pub(crate) fn change(&mut self, end: Lsn, change: impl FnOnce(&mut Rows<R>)) {
        if let Some(rows) = self.rows.get_mut(&end) {
            let before = rows.bytes;
            change(rows);
            self.unplaced.0 += rows.bytes - before;
        }
    }

    /// Adds a boundary. A boundary of another run is dropped. Among several ones without commits the newest
    /// is kept.
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

    /// Returns the boundaries that a replica receives next: one, and more as long as their bytes stay within
    /// `most` and only the last contains DDL. (An object that DDL makes may have to be committed before it is
    /// used, such as a new label of an enum.) `None`: there is no boundary yet. The next call continues after
    /// the returned batch.
    ///
    /// # Errors
    /// The replica is not fed any more.
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

    /// Position after everything that was sent to a replica. `None`: it is not fed.
    pub(crate) fn given(&self, replica: StandbyId) -> Option<Place> {
        self.takers.get(&replica).map(|taker| taker.next)
    }

    /// Notes that the replica is connected. Boundaries that it need not have kept are sent again, and the
    /// newest boundary in any case, because that one reports the replica's position.
    ///
    /// # Errors
    /// The replica is not fed any more.
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

    /// Notes that the replica has all boundaries below this position, even after a crash.
    pub(crate) fn kept(&mut self, replica: StandbyId, below: Place) {
        if let Some(taker) = self.takers.get_mut(&replica) {
            taker.kept = taker.kept.max(below.min(taker.next));
            self.cut();
        }
    }

    /// Boundaries at or after this position.
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

    /// Moves the oldest rows into files until at most `memory` bytes of boundaries remain in memory. `put`
    /// moves the rows of one boundary, and returns the number of their bytes that then lie in files.
    ///
    /// # Errors
    /// Those of `put`: the rows of that boundary and of later ones are here still.
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

    /// Returns the replicas that must be given up so that at most `memory` bytes are kept in memory and
    /// `files` bytes in files. Replicas with the largest lag come first, until the bounds hold. No replica is
    /// given up because of the newest boundary alone, nor because of a single commit, however large.
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

    /// Bytes of rows that arrive per second.
    pub(crate) fn arrivals(&self, now: Duration) -> f64 {
        let (mut pace, counted) = self.arrivals;
        pace.add(0, now.saturating_sub(counted));
        pace.per_second()
    }

    /// Position after everything that was taken.
    pub(crate) fn end(&self) -> Place {
        self.first.behind(self.taken.len())
    }

    /// Forgets the boundaries that all replicas keep. The newest boundary stays: a replica that connects
    /// learns its position from it.
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

/// Error: the replica was given up in the meantime, and must be copied again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotFed;

#[cfg(test)]
mod tests;
