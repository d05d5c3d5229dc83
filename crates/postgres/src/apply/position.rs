//! What a fed replica shows, and where that is written down: one row beside the data, changed in the transaction that
//! changes the data.

use crate::Error;
use crate::address::Control;
use history::{Commit, Lsn, Snapshot, Xid};

/// What a replica shows of the primary's commits: those whose end had been decoded and that the snapshot sees. (The log
/// position guards against identities that a crashed primary gives a second time.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// A snapshot of the primary.
    pub snapshot: Snapshot,
    /// How far the primary's log had been decoded.
    pub decoded: Lsn,
}

impl Position {
    /// Whether the replica shows this commit.
    pub fn shows(&self, commit: &Commit) -> bool {
        self.shows_at(commit.xid, commit.end)
    }

    /// Whether it shows everything that `other` shows.
    pub(super) fn covers(&self, other: &Position) -> bool {
        let unseen = other.snapshot.xmax() > self.snapshot.xmax()
            || self.snapshot.running().iter().any(|xid| other.snapshot.sees(*xid));
        !unseen && other.decoded <= self.decoded
    }

    pub(super) fn shows_at(&self, xid: Xid, end: Lsn) -> bool {
        end <= self.decoded && self.snapshot.sees(xid)
    }
}

/// The table of the position at a replica.
pub(super) const TABLE: &str = "consort.position";

/// Writes down where a replica that was just made stands: the feeder goes on from there. Whatever was written before goes.
///
/// # Errors
/// As every query.
pub async fn settle(replica: &Control, position: &Position) -> Result<(), Error> {
    let sql = format!(
        "BEGIN; CREATE SCHEMA IF NOT EXISTS consort; \
         CREATE TABLE IF NOT EXISTS {TABLE} (snapshot text NOT NULL, decoded pg_lsn NOT NULL); \
         TRUNCATE {TABLE}; INSERT INTO {TABLE} VALUES ('{}', '{}'); COMMIT",
        position.snapshot, position.decoded
    );
    Ok(replica.batch_execute(&sql).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_covers_what() {
        let position = |snapshot: &str, decoded| Position {
            snapshot: snapshot.parse().unwrap(),
            decoded: Lsn::new(decoded),
        };
        let middle = position("10:20:10,14", 100);
        for (other, below, above) in [
            (position("10:20:10,14", 100), true, true),
            (position("10:20:10,14,15", 99), true, false),
            (position("10:18:10,14", 100), true, false),
            (position("14:20:14", 100), false, true),
            (position("14:20:14", 99), false, false),
            (position("10:21:10", 101), false, true),
        ] {
            assert_eq!((middle.covers(&other), other.covers(&middle)), (below, above), "{other:?}");
        }
    }

    #[test]
    fn what_is_shown() {
        let position = Position { snapshot: "10:20:10,14".parse().unwrap(), decoded: Lsn::new(100) };
        for (xid, end, shown) in [
            (9, 50, true),
            (9, 100, true),
            (9, 101, false),
            (10, 50, false),
            (14, 50, false),
            (20, 50, false),
        ] {
            assert_eq!(position.shows_at(Xid::new(xid), Lsn::new(end)), shown, "{xid} {end}");
        }
    }
}
