//! Knowledge of one row, shared by all sessions of a run. The row holds a counter that every write raises by
//! one, so a read proves its age by its value.
//!
//! A read must not be older than the knowledge before it began: the last acknowledged write (else it is
//! *stale*) and the newest value that another read returned (else the row went *backwards*). Both are taken
//! before the read's first byte is sent, so a read that runs alongside a write is never blamed.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

/// The newest that is known of one row.
#[derive(Debug, Default)]
pub struct Knowledge {
    acknowledged: AtomicI64,
    seen: AtomicI64,
}

/// Knowledge at the beginning of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    acknowledged: i64,
    seen: i64,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} acknowledged, {} seen", self.acknowledged, self.seen)
    }
}

impl Fault {
    /// True if anything is.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.stale || self.backwards
    }
}

/// Faults of a read; both may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Lower than a write that had been acknowledged.
    pub stale: bool,
    /// Lower than a value that a read had returned.
    pub backwards: bool,
}

impl Knowledge {
    /// The present knowledge: to be called before a read is sent.
    #[must_use]
    pub fn now(&self) -> Known {
        Known {
            acknowledged: self.acknowledged.load(Ordering::SeqCst),
            seen: self.seen.load(Ordering::SeqCst),
        }
    }

    /// A write was acknowledged.
    pub fn acknowledged(&self, value: i64) {
        self.acknowledged.fetch_max(value, Ordering::SeqCst);
    }

    /// A read came back: what is wrong with it, given what was known when it began.
    pub fn read(&self, known: Known, value: i64) -> Fault {
        self.seen.fetch_max(value, Ordering::SeqCst);
        Fault { stale: value < known.acknowledged, backwards: value < known.seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_judged_by_what_was_known_when_it_began() {
        let row = Knowledge::default();
        let early = row.now();
        row.acknowledged(5);
        assert_eq!(row.read(early, 4), Fault::default(), "it ran beside the write");
        assert_eq!(row.read(row.now(), 4), Fault { stale: true, backwards: false });
        assert_eq!(row.read(row.now(), 6), Fault::default(), "seen before it is acknowledged");
        assert_eq!(row.read(row.now(), 5), Fault { stale: false, backwards: true });
        assert_eq!(row.read(row.now(), 3), Fault { stale: true, backwards: true });
    }
}
