//! Reads of the whole latest state that wait for a replica, and the gates of replicas whose refreshes lock.

use crate::StandbyId;
use crate::question::{Question, Ticket};
use history::{DatabaseId, Version};
use order::{GaugeNumber, RunNumber};
use std::collections::BTreeMap;

/// An instant, and what a replica must show to have all that the primary had shown by then.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub(crate) database: DatabaseId,
    pub(crate) life: u64,
    /// The snapshot probe sent after it that says what is needed. `None`: nothing was in flight.
    pub(crate) wanted: Option<GaugeNumber>,
    pub(crate) needs: Option<(RunNumber, Version)>,
}

/// The number of a whole read that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WholeId(u64);

/// A whole read that waits, with what it asked.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) question: Question,
    pub(crate) arrival: Arrival,
    /// Ticket of a read that was let in before a refresh, and has not been reported yet.
    pub(crate) admitted: Option<Ticket>,
}

/// Readers of one database of one replica, if a refresh locks.
///
/// Invariants: no read runs during a refresh; `reading` counts the readers that came in this `era`.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) reading: usize,
    pub(crate) refreshing: bool,
    /// A refresh waits for the readers.
    pub(crate) asked: bool,
    /// Number of times readers were let go.
    pub(crate) era: u64,
}

impl Gate {
    pub(crate) fn is_open(&self) -> bool {
        !self.refreshing && !self.asked
    }
}

/// All whole reads that wait, and the gates of those who are refreshed.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: u64,
    pub(crate) all: BTreeMap<WholeId, Waiter>,
    pub(crate) gates: BTreeMap<(StandbyId, DatabaseId), Gate>,
}

impl Waiters {
    /// Adds a read that waits from now on, and returns its number.
    pub(crate) fn add(&mut self, waiter: Waiter) -> WholeId {
        self.next += 1;
        let id = WholeId(self.next);
        self.all.insert(id, waiter);
        id
    }
}
