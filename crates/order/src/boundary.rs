//! A state that the primary has shown of one database, and the commits that it has more than the one before.

use crate::{Gauge, GaugeNumber};
use history::{DatabaseId, Lsn, Shown, Version, Xid};
use std::fmt;
use std::sync::Arc;

/// A run of the order without a gap: it begins with an incarnation of the primary, after a gap in the slot,
/// or when [`place_commits`](crate::Order::place_commits) is said. A mark that was reached in one run says
/// nothing in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunNumber(u64);

impl RunNumber {
    /// The number of the run that begins after this one, in whatever database.
    #[must_use]
    pub(crate) const fn next(self) -> RunNumber {
        RunNumber(self.0 + 1)
    }
}

impl fmt::Display for RunNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A commit that has its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its place.
    pub version: Version,
    /// Its identity.
    pub xid: Xid,
    /// Start of its commit record in the WAL.
    pub start: Lsn,
    /// End of its commit record.
    pub end: Lsn,
}

/// A state that one snapshot probe of the primary saw whole: a settled probe, and the commits that had come
/// out by then.
///
/// A replica shows a boundary in one step: the primary need never have shown a state between two boundaries.
///
/// Invariants: the versions of `commits` follow each other without a gap and end at `reached`; their
/// positions ascend and lie at or below `decoded`; every commit of the database that the probe sees is in
/// this boundary or in an earlier one, if its record starts at or above `since`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// The database.
    pub database: DatabaseId,
    /// In which run.
    pub run: RunNumber,
    /// The number of the snapshot probe.
    pub number: GaugeNumber,
    /// The snapshot probe.
    pub gauge: Arc<Gauge>,
    /// Decoded position of the slot when the probe settled.
    pub decoded: Lsn,
    /// Every commit whose record starts below is in this boundary, in an earlier one, or older than the run.
    pub resume: Lsn,
    /// Start of the run: no boundary of it has a commit whose record starts below.
    pub since: Lsn,
    /// The newest version that it shows; the version of the boundary before if it has no commits of its own.
    pub reached: Version,
    /// The commits that no earlier boundary shows, in the order of their versions, which here is that of the log.
    pub commits: Vec<Placed>,
}

impl Boundary {
    /// Position of a replica that shows this boundary.
    pub fn position(&self) -> Shown {
        Shown::new(self.gauge.snapshot.clone(), self.decoded, self.resume)
    }

    /// Position of a replica at `at` when it has also the [missing](Boundary::missing) commits. A replica may
    /// have come further than the boundary: a copy that was made while the boundary was on its way has, and a
    /// replica that comes back. Its position stays then, for to move it back would be to give it commits
    /// twice. From here on it is known to lack nothing of the boundary.
    pub fn after(&self, at: &Shown) -> Shown {
        let further = self.missing(at).next().is_none() && !self.holds(at);
        if further { at.resumed(self.resume) } else { self.position() }
    }

    /// True if it is sure to show everything that a replica at this position shows. If it is not, and the
    /// replica lacks some of it, the replica shows no state between this boundary and one before: it left the
    /// primary's WAL in between ([`Shown::of_log`]), and waits for a boundary that holds it.
    pub fn holds(&self, at: &Shown) -> bool {
        // A record that ends at or below `resume` starts below.
        self.position().covers(at) || at.decoded() <= self.resume
    }

    /// True if a replica at this position lacks nothing that lies before the run. Otherwise it must be copied
    /// again.
    pub fn feeds(&self, at: &Shown) -> bool {
        at.resume() >= self.since
    }

    /// The commits that a replica at this position lacks. In a run that [feeds](Boundary::feeds) it, boundary after
    /// boundary, nothing is given twice and nothing is left out.
    pub fn missing<'a>(&'a self, at: &'a Shown) -> impl Iterator<Item = &'a Placed> {
        self.commits.iter().filter(|commit| !at.shows(commit.xid, commit.end))
    }

    /// True if a replica at this position shows none of its commits. Then it shows none of a later boundary
    /// either, for a replica that has seen one of those has seen this one whole: commits are given in the
    /// order of versions, with nothing ahead. A replica that shows some of it has been given a state between
    /// two boundaries.
    pub fn is_missing_whole(&self, at: &Shown) -> bool {
        self.missing(at).count() == self.commits.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{Incarnation, Snapshot};

    #[test]
    fn a_stretch_of_the_log_is_held_when_nothing_in_it_hangs() {
        // The commit that ends at 15 hangs: it is in the log, and the boundary does not show it.
        let incarnation =
            Incarnation { epoch: Default::default(), timeline: Default::default(), started_us: 0 };
        let boundary = |running: &[u64], resume: u64| {
            let running = running.iter().copied().map(Xid::new).collect();
            let snapshot = Snapshot::new(Xid::new(3), running);
            let (decoded, end) = (Lsn::new(30), Lsn::new(25));
            let seen = Placed { version: Version::new(1), xid: Xid::new(2), start: Lsn::new(20), end };
            Boundary {
                database: DatabaseId::new(5),
                run: RunNumber::default(),
                number: GaugeNumber::default(),
                gauge: Arc::new(Gauge { incarnation, snapshot, insert_lsn: decoded }),
                decoded,
                resume: Lsn::new(resume),
                since: Lsn::ZERO,
                reached: Version::new(1),
                commits: vec![seen],
            }
        };
        let at = |end: u64| Shown::of_log(Lsn::new(end));
        let hangs = boundary(&[1], 10);
        assert!(!hangs.holds(&at(15)) && !hangs.holds(&at(30)));
        assert_eq!(hangs.after(&at(30)), at(30), "to move it back would be to give it commits twice");
        assert!(hangs.holds(&at(10)), "it ends where the one that hangs begins");
        let shown = boundary(&[], 30);
        assert!(shown.holds(&at(15)) && shown.holds(&at(30)) && !shown.holds(&at(31)));
        assert_eq!(shown.after(&at(30)), shown.position());
        assert_eq!(shown.missing(&at(24)).count(), 1);
        assert_eq!(shown.missing(&at(25)).count(), 0);
    }

    #[test]
    fn what_is_shown_in_part_is_not_missing_whole() {
        let commit = |number: u64| Placed {
            version: Version::new(number),
            xid: Xid::new(number),
            start: Lsn::new(10 * number),
            end: Lsn::new(10 * number + 5),
        };
        let incarnation =
            Incarnation { epoch: Default::default(), timeline: Default::default(), started_us: 0 };
        let (snapshot, decoded) = (Snapshot::new(Xid::new(3), Vec::new()), Lsn::new(30));
        let boundary = Boundary {
            database: DatabaseId::new(5),
            run: RunNumber::default(),
            number: GaugeNumber::default(),
            gauge: Arc::new(Gauge { incarnation, snapshot: snapshot.clone(), insert_lsn: decoded }),
            decoded,
            resume: decoded,
            since: Lsn::ZERO,
            reached: Version::new(2),
            commits: vec![commit(1), commit(2)],
        };
        let at = |xmax, running: &[u64]| {
            let running = running.iter().copied().map(Xid::new).collect();
            Shown::new(Snapshot::new(Xid::new(xmax), running), decoded, Lsn::ZERO)
        };
        assert!(boundary.is_missing_whole(&at(1, &[])));
        assert!(!boundary.is_missing_whole(&at(2, &[])));
        assert!(!boundary.is_missing_whole(&at(3, &[1])), "the later one alone: a copy was made then");
        assert!(!boundary.is_missing_whole(&Shown::new(snapshot, decoded, decoded)));
    }
}
