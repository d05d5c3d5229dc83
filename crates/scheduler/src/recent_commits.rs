//! The recent commits of one database, in the order of the log, and those that the primary has not been seen to show.

use history::{Commit, Footprint, Lsn, Xid};
use order::{Gauge, GaugeNumber};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Bounds of [`Recent`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) recent: usize,
    pub(crate) unseen: usize,
}

/// Commits as long as a proof may have to compare them one by one.
///
/// Invariants: `commits` ascend by their ends; every decoded commit that ends above `dropped_to` is in
/// `commits`; every decoded commit that the snapshot probe `looked_at` does not see is in `unseen`, or its
/// identity lies in `folded`.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    commits: VecDeque<Arc<Commit>>,
    dropped_to: Lsn,
    /// By their ends.
    unseen: BTreeMap<Lsn, Arc<Commit>>,
    folded: Option<Folded>,
    looked_at: Option<GaugeNumber>,
    /// Commits given so far.
    pub(crate) given: u64,
}

/// Range that replaces too many commits that no snapshot probe has seen. As long as a probe does not see
/// everything in this range, anything may be unseen.
#[derive(Clone, Copy, Debug)]
struct Folded {
    lowest: Xid,
    highest: Xid,
    start: Lsn,
}

impl Folded {
    fn seen_by(self, gauge: &Gauge) -> bool {
        let snapshot = &gauge.snapshot;
        snapshot.sees(self.highest)
            && !snapshot.running().iter().any(|xid| (self.lowest..=self.highest).contains(xid))
    }
}

impl Recent {
    /// Commits at or below `floor` are not known.
    pub(crate) fn raise_floor(&mut self, floor: Lsn) {
        self.dropped_to = self.dropped_to.max(floor);
    }

    pub(crate) fn push(&mut self, commit: &Arc<Commit>, settled: Option<&Gauge>, limits: Limits) {
        assert!(
            self.commits.back().is_none_or(|last| last.end < commit.end),
            "commits come in the log's order"
        );
        self.given += 1;
        self.commits.push_back(commit.clone());
        if self.commits.len() > limits.recent {
            self.drop_first();
        }
        if !settled.is_some_and(|gauge| gauge.snapshot.sees(commit.xid)) {
            self.unseen.insert(commit.end, commit.clone());
        }
        if self.unseen.len() > limits.unseen {
            self.fold();
        }
    }

    /// Commits that end at or below `horizon` are in every standby's snapshot: they need no comparing.
    pub(crate) fn prune(&mut self, horizon: Lsn) {
        while self.commits.front().is_some_and(|commit| commit.end <= horizon) {
            self.drop_first();
        }
    }

    /// Settles this snapshot probe: commits that it sees are not unseen any more.
    pub(crate) fn look(&mut self, number: GaugeNumber, gauge: &Gauge) {
        if self.looked_at == Some(number) {
            return;
        }
        self.looked_at = Some(number);
        self.unseen.retain(|_, commit| !gauge.snapshot.sees(commit.xid));
        self.folded = self.folded.filter(|folded| !folded.seen_by(gauge));
    }

    /// True if a decoded commit that ends at or below `upto`, and that the newest settled snapshot probe does
    /// not see, overlaps `footprint`.
    pub(crate) fn unseen_overlaps(&self, footprint: &Footprint, upto: Lsn) -> bool {
        self.folded.is_some()
            || self.unseen.range(..=upto).any(|(_, commit)| commit.wrote.overlaps(footprint))
    }

    /// True if a decoded commit that starts at or below `beyond`, and that the newest settled snapshot probe
    /// does not see, overlaps `footprint`.
    pub(crate) fn unseen_starts_by(&self, footprint: &Footprint, beyond: Lsn) -> bool {
        self.folded.is_some_and(|folded| folded.start <= beyond)
            || self.unseen.values().any(|commit| commit.start <= beyond && commit.wrote.overlaps(footprint))
    }

    /// Start of the first commit that the newest settled snapshot probe does not see.
    pub(crate) fn first_unseen(&self) -> Option<Lsn> {
        let listed = self.unseen.values().next().map(|commit| commit.start);
        listed.into_iter().chain(self.folded.map(|folded| folded.start)).min()
    }

    /// The commits that end above `above`, newest first; `None` if some of them are not kept.
    pub(crate) fn above(&self, above: Lsn) -> Option<impl Iterator<Item = &Commit>> {
        let first = self.commits.partition_point(|commit| commit.end <= above);
        (self.dropped_to <= above).then(|| self.commits.range(first..).rev().map(|commit| &**commit))
    }

    /// Commits that end at or below are not kept one by one.
    pub(crate) fn dropped_to(&self) -> Lsn {
        self.dropped_to
    }

    pub(crate) fn unseen(&self) -> usize {
        self.unseen.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.commits.len()
    }

    fn drop_first(&mut self) {
        if let Some(commit) = self.commits.pop_front() {
            self.dropped_to = self.dropped_to.max(commit.end);
        }
    }

    fn fold(&mut self) {
        let identities = || self.unseen.values().map(|commit| commit.xid);
        let (Some(lowest), Some(highest)) = (identities().min(), identities().max()) else { return };
        let start = self.first_unseen().unwrap_or_default();
        let before = self.folded.unwrap_or(Folded { lowest, highest, start });
        self.folded = Some(Folded {
            lowest: lowest.min(before.lowest),
            highest: highest.max(before.highest),
            start: start.min(before.start),
        });
        self.unseen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{Access, DatabaseId, Incarnation, RelationId, Snapshot};
    use history::{Epoch, Timeline};

    const LIMITS: Limits = Limits { recent: 8, unseen: 4 };

    fn commit(n: u64) -> Arc<Commit> {
        let wrote = Footprint::of(RelationId::new(1), Access::WHOLE);
        let (start, end) = (Lsn::new(n * 100), Lsn::new(n * 100 + 50));
        Arc::new(Commit { database: DatabaseId::new(1), xid: Xid::new(n), start, end, wrote })
    }

    fn gauge(snapshot: &str) -> Gauge {
        let incarnation = Incarnation { epoch: Epoch::new(1), timeline: Timeline::new(1), started_us: 1 };
        let snapshot: Snapshot = snapshot.parse().unwrap();
        Gauge { incarnation, snapshot, insert_lsn: Lsn::MAX }
    }

    #[test]
    fn too_many_commits_are_dropped_and_said_so() {
        let mut recent = Recent::default();
        (1..=20).for_each(|n| recent.push(&commit(n), Some(&gauge("99:99:")), LIMITS));
        assert_eq!(recent.len(), LIMITS.recent);
        assert!(recent.above(commit(11).end).is_none());
        assert_eq!(recent.above(commit(12).end).unwrap().count(), 8);
        recent.prune(commit(15).end);
        assert_eq!(recent.len(), 5);
        assert!(recent.above(commit(14).end).is_none());
    }

    #[test]
    fn too_many_unseen_commits_fold_to_everything_until_a_gauge_sees_all() {
        let mut recent = Recent::default();
        (1..=5).for_each(|n| recent.push(&commit(n), Some(&gauge("1:1:")), LIMITS));
        let other = Footprint::of(RelationId::new(2), Access::WHOLE);
        assert_eq!(recent.unseen(), 0);
        assert!(recent.unseen_overlaps(&other, Lsn::MAX), "which tables they wrote is forgotten");
        assert_eq!(recent.first_unseen(), Some(commit(1).start));
        recent.look(GaugeNumber::new(1), &gauge("3:9:3"));
        assert!(recent.unseen_overlaps(&other, Lsn::MAX), "one of them runs still");
        recent.look(GaugeNumber::new(2), &gauge("8:9:8"));
        assert!(!recent.unseen_overlaps(&other, Lsn::MAX));
        assert_eq!(recent.first_unseen(), None);
    }
}
