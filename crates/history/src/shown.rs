//! Visible state of a logical replica.

use crate::{Lsn, Snapshot, Xid};
use std::fmt;
use std::str::FromStr;

/// No transaction has so high an identity.
const EVERYTHING: Xid = Xid::new(u64::MAX);

/// The position of a logical replica: a state that the primary has shown, written so that it still means the
/// same after a restart of whatever server. The position is kept at the replica, in the transaction that made
/// the state.
///
/// A commit is shown if the snapshot sees its identity *and* its record ends at or below `decoded`. The
/// snapshot alone would not do: a primary that crashes gives the identities of transactions that it never
/// flushed a second time. Commits that came out of a slot were flushed, so the second owner's record lies
/// above `decoded`.
///
/// ```text
///            resume                          decoded
///   ---------|-------------------------------|----------->  WAL
///    all shown    those that the snapshot sees    none shown
/// ```
///
/// The text form reads back exactly: `16/B374D848 16/B374D800 10:20:10,14` is decoded, resume, snapshot.
///
/// Invariant: `resume <= decoded`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    snapshot: Snapshot,
    decoded: Lsn,
    resume: Lsn,
}

impl Shown {
    /// The state that `snapshot` saw, when everything up to `decoded` had come out of the slot. Every commit
    /// whose record starts below `resume` must be in it.
    ///
    /// A copy made under an exported snapshot of the primary has as `decoded` the insert position read after
    /// the snapshot was taken, and as `resume` the order's position from before it was taken. The copy has
    /// this state only when the primary has flushed its WAL to `decoded` in the same incarnation: a crash
    /// before takes back what the snapshot saw.
    ///
    /// # Panics
    /// If `resume` lies above `decoded`.
    pub fn new(snapshot: Snapshot, decoded: Lsn, resume: Lsn) -> Shown {
        assert!(resume <= decoded, "the resume position is decoded");
        Shown { snapshot, decoded, resume }
    }

    /// State of a server that left the primary's WAL at `end`: every commit whose record ends at or below,
    /// and no other.
    ///
    /// The primary need never have shown it, for it shows commits in another order than it logs them: no read
    /// may run there before it has come to a boundary that
    /// [holds](../order/struct.Boundary.html#method.holds) all of it.
    pub fn of_log(end: Lsn) -> Shown {
        Shown::new(Snapshot::new(EVERYTHING, Vec::new()), end, end)
    }

    /// True if it is a prefix of the WAL, and need not be a state that the primary has shown.
    pub fn is_of_log(&self) -> bool {
        self.snapshot.xmax() == EVERYTHING
    }

    /// True if a commit with this identity, whose record ends at `end`, is in it.
    pub fn shows(&self, xid: Xid, end: Lsn) -> bool {
        end <= self.decoded && self.snapshot.sees(xid)
    }

    /// True if it is sure to show everything that `other` shows. Between two incarnations of the primary it
    /// need not be: a transaction that an earlier one rolled back and never flushed may have had a higher
    /// identity.
    pub fn covers(&self, other: &Shown) -> bool {
        self.decoded >= other.decoded && self.snapshot.covers(&other.snapshot)
    }

    /// The same state, when it is known that every commit which starts below `resume` is in it.
    #[must_use]
    pub fn resumed(&self, resume: Lsn) -> Shown {
        Shown { resume: resume.min(self.decoded).max(self.resume), ..self.clone() }
    }

    /// Transactions that it sees among those below [`decoded`](Shown::decoded).
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// No commit is shown that ends above.
    pub fn decoded(&self) -> Lsn {
        self.decoded
    }

    /// Every commit whose record starts below is shown: a slot that gives all that starts here or above gives
    /// everything that this replica lacks.
    pub fn resume(&self) -> Lsn {
        self.resume
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.decoded, self.resume, self.snapshot)
    }
}

/// The text was not of the form `16/B374D848 16/B374D800 10:20:10,14`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseShownError;

impl fmt::Display for ParseShownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a position of a logical replica of the form 16/B374D848 16/B374D800 10:20:10,14")
    }
}

impl std::error::Error for ParseShownError {}

impl FromStr for Shown {
    type Err = ParseShownError;

    fn from_str(text: &str) -> Result<Shown, ParseShownError> {
        let mut parts = text.splitn(3, ' ');
        let mut next = || parts.next().ok_or(ParseShownError);
        let (decoded, resume, snapshot) = (next()?, next()?, next()?);
        let decoded: Lsn = decoded.parse().map_err(|_| ParseShownError)?;
        let resume: Lsn = resume.parse().map_err(|_| ParseShownError)?;
        let snapshot: Snapshot = snapshot.parse().map_err(|_| ParseShownError)?;
        if resume > decoded {
            return Err(ParseShownError);
        }
        Ok(Shown { snapshot, decoded, resume })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Shown {
        text.parse().unwrap()
    }

    #[test]
    fn an_identity_that_was_given_twice_is_shown_once() {
        let shown = shown("0/100 0/80 10:20:10,14");
        for (xid, end, shows) in
            [(9, 0x90, true), (11, 0x100, true), (10, 0x90, false), (20, 0x90, false), (11, 0x101, false)]
        {
            assert_eq!(shown.shows(Xid::new(xid), Lsn::new(end)), shows, "{xid} at {end:x}");
        }
    }

    #[test]
    fn the_text_form_reads_back_exactly() {
        let texts = ["16/B374D848 16/B374D800 10:20:10,14", "0/0 0/0 20:20:", "FFFFFFFF/FFFFFFFF 0/1 3:9:3"];
        for text in texts {
            assert_eq!(shown(text).to_string(), text);
            assert_eq!(shown(&shown(text).to_string()), shown(text));
        }
        // A server may say a lower xmin than the first that it lists; the text that is read back shows the
        // same.
        let held_back = shown("0/9 0/9 10:20:14");
        assert_eq!(shown(&held_back.to_string()), held_back);
    }

    #[test]
    fn one_covers_another_if_it_sees_all_that_the_other_sees() {
        let middle = shown("0/100 0/80 10:20:10,14");
        for (text, covers) in [
            ("0/100 0/80 10:20:10,14", true),
            ("0/100 0/90 20:20:", true),
            ("0/101 0/80 10:30:10,25", true),
            ("0/FF 0/80 20:20:", false),
            ("0/100 0/80 10:19:10,14", false),
            ("0/100 0/80 10:30:10,11", false),
        ] {
            assert_eq!(shown(text).covers(&middle), covers, "{text}");
        }
        assert_eq!(middle.resumed(Lsn::new(0x90)), shown("0/100 0/90 10:20:10,14"));
        assert_eq!(middle.resumed(Lsn::new(0x70)), middle);
        assert_eq!(middle.resumed(Lsn::new(0x190)), shown("0/100 0/100 10:20:10,14"));
    }

    #[test]
    fn a_stretch_of_the_log_ends_where_it_ends() {
        let stretch = Shown::of_log(Lsn::new(0x100));
        for (xid, end, shows) in [(1, 0x100, true), (1, 0x101, false), (u64::MAX - 1, 0x100, true)] {
            assert_eq!(stretch.shows(Xid::new(xid), Lsn::new(end)), shows, "{xid} at {end:x}");
        }
        assert_eq!((stretch.decoded(), stretch.resume()), (Lsn::new(0x100), Lsn::new(0x100)));
        assert!(stretch.is_of_log() && shown(&stretch.to_string()).is_of_log());
        assert!(!shown("0/100 0/80 10:20:10,14").is_of_log());
        assert!(!shown("0/100 0/80 10:20:").covers(&stretch), "what hangs in the log may be in it");
    }

    #[test]
    fn bad_texts_are_refused() {
        for wrong in ["", "0/1", "0/1 0/1", "0/1 0/2 3:3:", "0/1 0/1 3", "x 0/1 3:3:", "0/1 0/1 3:3: "] {
            assert_eq!(wrong.parse::<Shown>(), Err(ParseShownError), "{wrong}");
        }
    }
}
