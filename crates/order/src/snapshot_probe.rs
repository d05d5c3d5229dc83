//! Snapshot probes and their numbers: one is in flight, one is waiting, and no wish joins the one in flight.

use crate::bugs::{Bug, Bugs};
use history::{Incarnation, Lsn, Snapshot};
use std::fmt;

/// One snapshot probe of the primary:
/// `SELECT pg_current_snapshot(), pg_current_wal_insert_lsn(), pg_is_in_recovery()`. The answer of a server
/// in recovery is never a probe: its snapshot omits running transactions.
///
/// The position is evaluated after the snapshot, so the record of every commit that the snapshot sees ends at
/// or below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// The life of the server that answered.
    pub incarnation: Incarnation,
    /// Snapshot: the transactions that had finished.
    pub snapshot: Snapshot,
    /// End of the WAL, flushed or not.
    pub insert_lsn: Lsn,
}

impl Gauge {
    /// True if this probe can have been taken after `earlier` at the same server: nothing that was finished
    /// is unfinished, and the WAL has not become shorter.
    pub(crate) fn follows(&self, earlier: &Gauge) -> bool {
        let (before, now) = (&earlier.snapshot, &self.snapshot);
        self.insert_lsn >= earlier.insert_lsn
            && now.xmax() >= before.xmax()
            && now.running().iter().all(|xid| !before.sees(*xid))
    }
}

/// The place of a snapshot probe in the order of sending. A caller that wants a probe gets the number of one
/// that is sent after the wish; any settled probe with this number or a higher one serves the wish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GaugeNumber(u64);

impl GaugeNumber {
    /// The number with this value.
    pub const fn new(number: u64) -> GaugeNumber {
        GaugeNumber(number)
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of the snapshot probe sent after this one.
    #[must_use]
    pub(crate) const fn next(self) -> GaugeNumber {
        GaugeNumber(self.0 + 1)
    }
}

impl fmt::Display for GaugeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

/// Reason why an answered snapshot probe was thrown away. The probe is wanted again automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// The answer is not of the probe in flight: its loss was reported before, or its server's.
    NotInFlight,
    /// The answer came from another incarnation of the server than the one that we are connected to: read the
    /// incarnation again.
    OtherIncarnation,
    /// The answer saw less than a probe before it: this cannot be the same server. Read the incarnation
    /// again.
    Backwards,
}

impl fmt::Display for Void {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Void::NotInFlight => "the probe is not the one in flight",
            Void::OtherIncarnation => "another incarnation of the primary answered the probe",
            Void::Backwards => "the probe saw less than the one before it",
        })
    }
}

impl std::error::Error for Void {}

/// Probe that is under way.
///
/// Invariant: the probe in flight is the one sent last.
#[derive(Debug, Default)]
pub(crate) struct Gauging {
    sent: GaugeNumber,
    in_flight: bool,
    wanted: bool,
    bugs: Bugs,
}

impl Gauging {
    pub(crate) fn new(bugs: Bugs) -> Gauging {
        Gauging { bugs, ..Gauging::default() }
    }

    /// The number of a snapshot probe that will be sent after now.
    pub(crate) fn want(&mut self) -> GaugeNumber {
        if self.bugs.has(Bug::JoinGaugeInFlight) && self.in_flight {
            return self.sent;
        }
        self.wanted = true;
        self.sent.next()
    }

    pub(crate) fn next_to_send(&mut self) -> Option<GaugeNumber> {
        if !self.wanted || self.in_flight {
            return None;
        }
        (self.wanted, self.in_flight) = (false, true);
        self.sent = self.sent.next();
        Some(self.sent)
    }

    /// An answer came for this number. Returns true if it was the one in flight.
    pub(crate) fn came(&mut self, number: GaugeNumber) -> bool {
        let expected = self.in_flight && number == self.sent;
        if expected {
            self.in_flight = false;
        }
        expected
    }

    /// The probe in flight will not come; callers that waited for it wait for the next. Returns true if there
    /// was one.
    pub(crate) fn lost(&mut self) -> bool {
        let was = std::mem::take(&mut self.in_flight);
        self.wanted |= was;
        was
    }

    pub(crate) fn again(&mut self) {
        self.wanted = true;
    }

    pub(crate) fn sent(&self) -> GaugeNumber {
        self.sent
    }

    pub(crate) fn in_flight(&self) -> Option<GaugeNumber> {
        self.in_flight.then_some(self.sent)
    }
}
