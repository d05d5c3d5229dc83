//! Counters of a ledger, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters since the ledger was opened, and gauges of its present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records that have become durable.
    pub records: u64,
    /// Syncs of groups: `records / syncs` is the mean size of a group.
    pub syncs: u64,
    /// Bytes that were written for these records, with their headers.
    pub bytes: u64,
    /// Time in syncs of groups, in microseconds.
    pub sync_time_us: u64,
    /// The longest sync of a group, in microseconds.
    pub longest_sync_us: u64,
    /// Segments that could not be removed when they were to be forgotten, counted each time.
    pub unforgotten: u64,
    /// Segments that lie in the folder.
    pub segments: u64,
    /// Bytes that wait for the writer.
    pub pending_bytes: u64,
}

/// The cells, which the writer counts up. No two of them are read as of one moment.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    records: AtomicU64,
    syncs: AtomicU64,
    bytes: AtomicU64,
    sync_time_us: AtomicU64,
    longest_sync_us: AtomicU64,
    unforgotten: AtomicU64,
}

impl Tally {
    pub(crate) fn synced(&self, records: u64, bytes: usize, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.records.fetch_add(records, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.sync_time_us.fetch_add(micros, Ordering::Relaxed);
        self.longest_sync_us.fetch_max(micros, Ordering::Relaxed);
    }

    pub(crate) fn not_forgotten(&self) {
        self.unforgotten.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self, segments: usize, pending_bytes: usize) -> Counters {
        let of = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        Counters {
            records: of(&self.records),
            syncs: of(&self.syncs),
            bytes: of(&self.bytes),
            sync_time_us: of(&self.sync_time_us),
            longest_sync_us: of(&self.longest_sync_us),
            unforgotten: of(&self.unforgotten),
            segments: segments as u64,
            pending_bytes: pending_bytes as u64,
        }
    }
}
