//! One look of one backend at which transactions have finished.

use crate::Xid;
use std::fmt;
use std::str::FromStr;

/// Result of `pg_current_snapshot()` at the *primary*: every transaction below `xmax` that is not in
/// `running` has finished and, if it committed, is visible. (On a standby the function omits running
/// transactions: never use it there.)
///
/// Invariants: `running` is sorted, without repetition, and lies in `xmin..xmax`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    xmin: Xid,
    xmax: Xid,
    running: Vec<Xid>,
}

impl Snapshot {
    /// A snapshot in which everything below `xmax` but `running` has finished.
    ///
    /// # Panics
    /// If an identity in `running` is not below `xmax`.
    pub fn new(xmax: Xid, mut running: Vec<Xid>) -> Snapshot {
        running.sort_unstable();
        running.dedup();
        assert!(running.last().is_none_or(|last| *last < xmax), "a running transaction lies below xmax");
        let xmin = running.first().copied().unwrap_or(xmax);
        Snapshot { xmin, xmax, running }
    }

    /// Everything below this has finished.
    pub fn xmin(&self) -> Xid {
        self.xmin
    }

    /// Nothing at or above this has finished.
    pub fn xmax(&self) -> Xid {
        self.xmax
    }

    /// The transactions below `xmax` that have not finished, ascending.
    pub fn running(&self) -> &[Xid] {
        &self.running
    }

    /// True if the transaction had finished: if it committed, this snapshot sees it.
    pub fn sees(&self, xid: Xid) -> bool {
        xid < self.xmax && (xid < self.xmin || self.running.binary_search(&xid).is_err())
    }

    /// True if it is sure to see all that `other` sees, both of one incarnation of one server.
    pub fn covers(&self, other: &Snapshot) -> bool {
        self.xmax >= other.xmax && self.running.iter().all(|xid| !other.sees(*xid))
    }

    /// The transactions that have finished here and had not in `earlier`, ascending. For a server that only
    /// moves forward: nothing that `earlier` sees is unseen here.
    pub fn finished_since<'a>(&'a self, earlier: &'a Snapshot) -> impl Iterator<Item = Xid> + 'a {
        let still = earlier.running.iter().copied();
        let fresh = (earlier.xmax.get()..self.xmax.get()).map(Xid::new);
        still.chain(fresh).filter(|xid| self.sees(*xid))
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (place, xid) in self.running.iter().enumerate() {
            write!(f, "{}{xid}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// The text was not of the form `10:20:10,14,15`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseSnapshotError;

impl fmt::Display for ParseSnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a snapshot of the form 10:20:10,14,15")
    }
}

impl std::error::Error for ParseSnapshotError {}

impl FromStr for Snapshot {
    type Err = ParseSnapshotError;

    fn from_str(text: &str) -> Result<Snapshot, ParseSnapshotError> {
        let mut parts = text.splitn(3, ':');
        let mut next = || parts.next().ok_or(ParseSnapshotError);
        let (xmin, xmax, list) = (next()?, next()?, next()?);
        let xmin: Xid = xmin.parse().map_err(|_| ParseSnapshotError)?;
        let xmax: Xid = xmax.parse().map_err(|_| ParseSnapshotError)?;
        let running: Vec<Xid> = list
            .split(',')
            .filter(|xid| !xid.is_empty())
            .map(|xid| xid.parse().map_err(|_| ParseSnapshotError))
            .collect::<Result<_, _>>()?;
        let ordered = running.windows(2).all(|two| two[0] < two[1]);
        let inside = running.iter().all(|xid| xmin <= *xid && *xid < xmax);
        if xmin > xmax || !ordered || !inside {
            return Err(ParseSnapshotError);
        }
        // The server's xmin may lie below the first running transaction that it lists (a sub-transaction holds it
        // back); everything unlisted below xmax has finished all the same.
        Ok(Snapshot::new(xmax, running))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        text.parse().unwrap()
    }

    #[test]
    fn sees_what_has_finished() {
        let seen = snapshot("10:20:10,14,15");
        for (xid, sees) in
            [(9, true), (10, false), (11, true), (15, false), (19, true), (20, false), (21, false)]
        {
            assert_eq!(seen.sees(Xid::new(xid)), sees, "{xid}");
        }
        assert_eq!(seen.to_string(), "10:20:10,14,15");
        assert_eq!(snapshot("20:20:").to_string(), "20:20:");
    }

    #[test]
    fn bad_texts_are_refused() {
        for wrong in ["", "1:2", "3:2:", "1:5:7", "1:5:3,2", "a:b:", "1:5:x", "2:5:1"] {
            assert!(wrong.parse::<Snapshot>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_later_one_covers_an_earlier_one() {
        let earlier = snapshot("10:20:10,14");
        for (text, covers) in
            [("10:20:10,14", true), ("14:25:14,22", true), ("10:19:10,14", false), ("10:25:10,11", false)]
        {
            assert_eq!(snapshot(text).covers(&earlier), covers, "{text}");
        }
    }

    #[test]
    fn finished_since_is_the_difference() {
        let finished: Vec<u64> =
            snapshot("14:23:14,21").finished_since(&snapshot("10:20:10,14,15")).map(Xid::get).collect();
        assert_eq!(finished, [10, 15, 20, 22]);
    }
}
