//! State of one database: the decoded position of its slot, its settled snapshot probe, its in-flight write
//! sets.

use crate::commit_placement::Placing;
use crate::in_flight_write::ByTable;
use crate::{DoubtId, Gauge, GaugeNumber};
use history::{Lsn, Watermark, Xid};
use std::collections::VecDeque;
use std::sync::Arc;

/// One database of the primary.
///
/// Invariants: the settled probe's number never goes down within one run of the slot; the tickets in `ending`
/// ascend; a database without a slot in this incarnation has no settled probe.
#[derive(Debug, Default)]
pub(crate) struct Database {
    /// Every commit record of this database that starts below has been given. `None`: no slot in this life.
    pub(crate) decoded: Option<Watermark<Lsn>>,
    /// Commits given to us in this life.
    pub(crate) commits: u64,
    /// The slot's connection is there.
    pub(crate) open: bool,
    pub(crate) settled: Option<(GaugeNumber, Arc<Gauge>)>,
    pub(crate) newborn: Newborn,
    /// Everything of this database is in flight until a snapshot probe with this number or a higher one has
    /// settled.
    pub(crate) in_doubt_until: GaugeNumber,
    pub(crate) doubts: ByTable,
    pub(crate) ending: VecDeque<(GaugeNumber, DoubtId)>,
    pub(crate) placing: Placing,
}

/// Tracks commits that are not visible and may lie before the slot's beginning. A slot is made while
/// transactions run. A commit whose record was written before the slot's first position, and that waits for a
/// synchronous standby, is shown later and never comes out of this slot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Newborn {
    /// None can.
    #[default]
    No,
    /// Transactions that run in the first snapshot probe with this number or a higher one may be such
    /// commits.
    Since(GaugeNumber),
    /// Nothing settles until a snapshot probe with this number or a higher one sees all of these finished.
    WaitsFor(GaugeNumber, Vec<Xid>),
}

impl Database {
    /// True if every commit record that ends at or below `lsn`, as the primary's insert position, has been
    /// given.
    pub(crate) fn decoded_past(&self, lsn: Lsn) -> bool {
        // The insert position at a page boundary lies after the page's header, the end of the last record
        // before it.
        self.decoded.is_some_and(|decoded| decoded.get().next_record_start() >= lsn)
    }

    pub(crate) fn settled_number(&self) -> Option<GaugeNumber> {
        self.settled.as_ref().map(|(number, _)| *number)
    }

    /// A snapshot probe was answered: a new slot learns from it which transactions it has to wait for.
    pub(crate) fn look(&mut self, number: GaugeNumber, gauge: &Gauge) {
        if matches!(self.newborn, Newborn::Since(first) if number >= first) {
            self.newborn = Newborn::WaitsFor(number, gauge.snapshot.running().to_vec());
        }
    }

    /// True if a snapshot probe may settle as far as the slot's creation is concerned.
    pub(crate) fn grown_up(&mut self, number: GaugeNumber, gauge: &Gauge) -> bool {
        let grown_up = match &self.newborn {
            Newborn::No => true,
            Newborn::Since(_) => false,
            Newborn::WaitsFor(first, running) => {
                number >= *first && running.iter().all(|xid| gauge.snapshot.sees(*xid))
            }
        };
        if grown_up {
            self.newborn = Newborn::No;
        }
        grown_up
    }

    /// A new incarnation of the primary, or a new start: only in-flight write sets and versions are left, and
    /// everything is in flight until a probe of this incarnation says otherwise.
    pub(crate) fn void(&mut self, next: GaugeNumber) {
        self.decoded = None;
        self.commits = 0;
        self.open = false;
        self.settled = None;
        self.newborn = Newborn::No;
        self.placing.run = None;
        self.placing.untaken = 0;
        self.placing.newest_xid = None;
        self.in_doubt_until = self.in_doubt_until.max(next);
    }
}
