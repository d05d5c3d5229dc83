//! One life of one server.

use std::fmt;

/// A period with one primary. Everything said in an earlier epoch is void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch with this number.
    pub const fn new(number: u64) -> Epoch {
        Epoch(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// A PostgreSQL timeline: a new one begins with each promotion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeline(u32);

impl Timeline {
    /// The timeline with this number.
    pub const fn new(number: u32) -> Timeline {
        Timeline(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// One incarnation of a server. Positions, snapshot probes, in-flight write sets and proofs count only within
/// it: after a crash a primary gives transaction identities and positions of unflushed commits a second time,
/// and a standby answers an older position than it did before.
///
/// A crashed backend makes the server recover *under the same postmaster*, so the start is that of the
/// checkpointer (at a standby: of the startup process), read at every connect, not
/// `pg_postmaster_start_time()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// The period with one primary.
    pub epoch: Epoch,
    /// The server's timeline.
    pub timeline: Timeline,
    /// The start of the checkpointer or of the startup process, microseconds since 1970 by the server's clock: compared
    /// for equality only.
    pub started_us: i64,
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch.0, self.timeline.0, self.started_us)
    }
}
