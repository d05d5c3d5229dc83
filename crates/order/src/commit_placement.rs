//! The place of a commit in the order: the first settled snapshot probe which sees it, and inside one probe
//! the WAL position.
//!
//! ```text
//!   decoded --> waiting (by the WAL) --a settled probe sees it--> its version, in that probe's boundary
//! ```
//!
//! The WAL alone does not decide: the primary shows commits in another order than it logs them. Nor does the
//! longest prefix of the WAL that is visible: one commit that hangs (it waits for a synchronous standby)
//! would stop all that follow. A commit that overtook another does not depend on it, for locks are released
//! only after a commit is visible; so it can be applied without it.

use crate::bugs::{Bug, Bugs, any_of_placing};
use crate::{Boundary, Gauge, GaugeNumber, Placed, RunNumber};
use history::{Commit, DatabaseId, Lsn, Snapshot, Version, Xid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The versions of one database.
///
/// Invariants: versions are given without a gap, and never twice in one process of Consort; waiting commits
/// came out in this run, and no boundary of it has them.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    /// True if commits get versions.
    pub(crate) on: bool,
    /// The newest that was given.
    pub(crate) newest: Version,
    pub(crate) run: Option<Run>,
    /// Commits in boundaries that were not taken yet.
    pub(crate) untaken: usize,
    /// The newest identity that came out of the slot in this life.
    pub(crate) newest_xid: Option<Xid>,
}

/// A run of the order.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: RunNumber,
    pub(crate) since: Lsn,
    /// Commits that came out before the run began are not known one by one: its first boundary is a snapshot
    /// probe that sees all up to this identity.
    behind: Option<Xid>,
    /// The `resume` of the newest boundary.
    pub(crate) resume: Option<Lsn>,
    /// Commits that no boundary shows, by the ends of the records.
    pub(crate) waiting: BTreeMap<Lsn, (Xid, Lsn)>,
}

impl Placing {
    /// Begins a run: commits at or above `since` come out, or have come out and are seen by the first
    /// boundary.
    pub(crate) fn begin(&mut self, number: RunNumber, since: Lsn) {
        let behind = self.newest_xid;
        self.run = Some(Run { number, since, behind, resume: None, waiting: BTreeMap::new() });
    }

    /// A commit came out for the first time.
    pub(crate) fn came_out(&mut self, commit: &Commit) {
        self.newest_xid = self.newest_xid.max(Some(commit.xid));
        if let Some(run) = &mut self.run {
            run.waiting.insert(commit.end, (commit.xid, commit.start));
        }
    }

    /// Number of commits that wait for a snapshot probe or for their boundary to be taken.
    pub(crate) fn kept(&self) -> usize {
        self.untaken + self.run.as_ref().map_or(0, |run| run.waiting.len())
    }

    /// A snapshot probe has settled: the boundary that it ends in.
    pub(crate) fn settled(
        &mut self,
        database: DatabaseId,
        settled: (GaugeNumber, &Arc<Gauge>),
        decoded: Lsn,
        bugs: &Bugs,
    ) -> Vec<Boundary> {
        let (number, gauge) = settled;
        let Some(run) = &mut self.run else { return Vec::new() };
        if run.behind.is_some_and(|xid| gauge.snapshot.xmin() <= xid) {
            return Vec::new();
        }
        run.behind = None;
        let seen = |xid: Xid| gauge.snapshot.sees(xid);
        let parts = cut(&run.waiting, seen, bugs);
        parts.into_iter().map(|ends| self.boundary(database, (number, gauge), decoded, &ends)).collect()
    }

    /// The planted bug `publish_any_prefix`: commits that came out are shown at once.
    pub(crate) fn at_once(
        &mut self,
        commit: &Commit,
        (number, gauge): (GaugeNumber, &Gauge),
    ) -> Option<Boundary> {
        self.run.as_ref().filter(|run| run.waiting.contains_key(&commit.end))?;
        let xmax = self.newest_xid?.next();
        let gauge = Arc::new(Gauge { snapshot: Snapshot::new(xmax, Vec::new()), ..gauge.clone() });
        Some(self.boundary(commit.database, (number, &gauge), commit.end, &[commit.end]))
    }

    fn boundary(
        &mut self,
        database: DatabaseId,
        (number, gauge): (GaugeNumber, &Arc<Gauge>),
        decoded: Lsn,
        ends: &[Lsn],
    ) -> Boundary {
        let run = self.run.as_mut().expect("a boundary lies in a run");
        let mut commits = Vec::with_capacity(ends.len());
        for end in ends {
            let (xid, start) = run.waiting.remove(end).expect("a placed commit has waited");
            assert!(*end <= decoded, "a placed commit has come out");
            self.newest = self.newest.next();
            commits.push(Placed { version: self.newest, xid, start, end: *end });
        }
        let resume = run.waiting.values().next().map_or(decoded, |(_, start)| (*start).min(decoded));
        assert!(run.resume <= Some(resume), "the resume position never moves back");
        run.resume = Some(resume);
        self.untaken += commits.len();
        Boundary {
            database,
            run: run.number,
            number,
            gauge: without(gauge, run.waiting.values().map(|(xid, _)| *xid)),
            decoded,
            resume,
            since: run.since,
            reached: self.newest,
            commits,
        }
    }

    pub(crate) fn audit(&self, settled: Option<&Gauge>, decoded: Option<Lsn>, bugs: &Bugs) {
        let Some(run) = &self.run else { return };
        assert!(self.on, "commits are placed only on demand");
        assert!(run.waiting.iter().all(|(end, (_, start))| start < end && Some(*end) <= decoded));
        let starts = || run.waiting.values().map(|(_, start)| *start);
        assert!(starts().zip(starts().skip(1)).all(|(one, next)| one < next), "the log's order");
        assert!(run.waiting.values().all(|(_, start)| *start >= run.since || run.behind.is_some()));
        if run.behind.is_none() && !any_of_placing(*bugs) && !bugs.has(Bug::ProofBeforeSettled) {
            let unseen = |xid: Xid| settled.is_none_or(|gauge| !gauge.snapshot.sees(xid));
            assert!(
                run.waiting.values().all(|(xid, _)| unseen(*xid)),
                "a commit that a settled gauge sees has a version"
            );
        }
    }
}

/// Commits of the probe's boundary among those that wait: all that it sees. Planted bugs make other
/// boundaries of it.
fn cut(waiting: &BTreeMap<Lsn, (Xid, Lsn)>, seen: impl Fn(Xid) -> bool, bugs: &Bugs) -> Vec<Vec<Lsn>> {
    let all: Vec<Lsn> = waiting.iter().filter(|(_, (xid, _))| seen(*xid)).map(|(end, _)| *end).collect();
    let prefix = waiting.values().take_while(|(xid, _)| seen(*xid)).count();
    if bugs.has(Bug::HangOneCommitter) && prefix < all.len() {
        return Vec::new();
    }
    if bugs.has(Bug::PublishWhenAllVisible) {
        return vec![all[..prefix].to_vec()];
    }
    if bugs.has(Bug::ProofSuperset) && !all.is_empty() {
        return all.into_iter().map(|end| vec![end]).collect();
    }
    vec![all]
}

/// Keeps a boundary until it is taken. One without commits takes the place of another without.
pub(crate) fn keep(boundaries: &mut Vec<Boundary>, boundary: Boundary) {
    let last = boundaries.iter_mut().rev().find(|last| last.database == boundary.database);
    match last {
        Some(last) if last.commits.is_empty() && boundary.commits.is_empty() && last.run == boundary.run => {
            *last = boundary;
        }
        _ => boundaries.push(boundary),
    }
}

/// The snapshot probe, as if it did not see the waiting commits. Without planted bugs it does not see them.
fn without(gauge: &Arc<Gauge>, waiting: impl Iterator<Item = Xid>) -> Arc<Gauge> {
    let hidden: Vec<Xid> = waiting.filter(|xid| gauge.snapshot.sees(*xid)).collect();
    if hidden.is_empty() {
        return gauge.clone();
    }
    let running = gauge.snapshot.running().iter().copied().chain(hidden).collect();
    Arc::new(Gauge { snapshot: Snapshot::new(gauge.snapshot.xmax(), running), ..(**gauge).clone() })
}
