//! Old versions in memory, as intervals of timestamps (Coelho and others, section IV.C: the non-persistent version
//! store).
//!
//! ```text
//!    timestamps      0 ........ 812 ........ 815 .......... flushed
//!    key "a"         [absent   )[ value x   )[ value y: the store's cell
//!    kept here       -----------------------|               closed intervals
//!    weak reads      -------------------------------------- the last one too, until the store has settled
//! ```
//!
//! A version is kept before the store's cell is overwritten. Closed intervals are evicted when no active transaction
//! starts in or before them, or when memory is short, the oldest first.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use stores::{Cell, KeyRange, KeyedCell};

/// Bytes that a version takes besides its key and its value, roughly.
const OVERHEAD: usize = 96;
/// The end of a version that is not overwritten.
const OPEN: u64 = u64::MAX;

/// The answer for one key at one timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The value at that timestamp; `None`: absent.
    Version(Option<Bytes>),
    /// Older versions were evicted.
    Evicted,
    /// Nothing is kept: the store's cell decides.
    Nothing,
}

#[derive(Clone, Debug)]
struct Interval {
    /// The commit that wrote the version; 0: the key was absent since the beginning.
    from: u64,
    /// The commit that overwrote it, or [`OPEN`].
    until: u64,
    value: Option<Bytes>,
}

/// The versions of all keys. Invariants: a key's intervals are in order and do not overlap, and only the last may be
/// open; `closed` has each closed interval once, in the order of ends; `bytes` is their sum.
#[derive(Debug)]
pub(crate) struct Versions {
    keys: BTreeMap<Bytes, VecDeque<Interval>>,
    /// End and key of each closed interval.
    closed: VecDeque<(u64, Bytes)>,
    /// Keys whose last interval is open: the store has not settled.
    unsettled: BTreeMap<Bytes, u64>,
    bytes: usize,
    limit: usize,
    evicted: u64,
    /// Versions of a store with weak reads stay until they are settled.
    keeps_open: bool,
}

impl Versions {
    pub(crate) fn new(limit: usize, keeps_open: bool) -> Versions {
        let (keys, closed, unsettled) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        Versions { keys, closed, unsettled, bytes: 0, limit, evicted: 0, keeps_open }
    }

    /// Keeps the versions that these cells are about to overwrite. `old` has the store's cell of each key, in their
    /// order; no cell means that the key was absent since the beginning.
    pub(crate) fn keep(&mut self, cells: &[KeyedCell], old: Vec<Option<Cell>>) {
        let mut ends: Vec<(u64, Bytes)> = Vec::with_capacity(cells.len());
        for ((key, cell), old) in cells.iter().zip(old) {
            let old = old.unwrap_or(Cell::tombstone(0));
            if self.close(key, old, cell.timestamp) {
                ends.push((cell.timestamp, key.clone()));
            }
            if self.keeps_open {
                self.push(key, Interval { from: cell.timestamp, until: OPEN, value: cell.value.clone() });
                self.unsettled.insert(key.clone(), cell.timestamp);
            }
        }
        ends.sort_unstable();
        self.closed.extend(ends);
        self.evict_above_limit();
    }

    /// Keeps cells that recovery has put, as the only versions of their keys. No transaction is older.
    pub(crate) fn recovered(&mut self, cells: &[KeyedCell]) {
        if !self.keeps_open {
            return;
        }
        for (key, cell) in cells {
            if let Some(intervals) = self.keys.remove(key) {
                self.bytes -= intervals.iter().map(|interval| size(key, interval)).sum::<usize>();
            }
            self.push(key, Interval { from: cell.timestamp, until: OPEN, value: cell.value.clone() });
            self.unsettled.insert(key.clone(), cell.timestamp);
        }
    }

    /// Ends the key's newest version at a timestamp; returns whether an interval was closed.
    fn close(&mut self, key: &Bytes, old: Cell, end: u64) -> bool {
        let last = self.keys.get_mut(key).and_then(VecDeque::back_mut);
        match last {
            // A weak read may have answered an older cell.
            Some(last) if last.until == OPEN => last.until = end,
            Some(last) if last.until > old.timestamp => return false,
            _ => self.push(key, Interval { from: old.timestamp, until: end, value: old.value }),
        }
        true
    }

    fn push(&mut self, key: &Bytes, interval: Interval) {
        self.bytes += size(key, &interval);
        self.keys.entry(key.clone()).or_default().push_back(interval);
    }

    /// The version of a key that a snapshot shows.
    pub(crate) fn at(&self, key: &[u8], start: u64) -> Known {
        self.keys.get(key).map_or(Known::Nothing, |intervals| known(intervals, start))
    }

    /// Versions of all keys in a range that a snapshot shows.
    pub(crate) fn in_range(&self, range: &KeyRange, start: u64) -> BTreeMap<Bytes, Known> {
        if range.is_empty() {
            return BTreeMap::new();
        }
        let all = self.keys.range(range.bounds());
        all.map(|(key, intervals)| (key.clone(), known(intervals, start))).collect()
    }

    /// Drops intervals that end at or before the oldest start of an active transaction.
    pub(crate) fn evict(&mut self, oldest_start: u64) {
        while self.closed.front().is_some_and(|(end, _)| *end <= oldest_start) {
            self.pop();
        }
    }

    fn evict_above_limit(&mut self) {
        while self.bytes > self.limit && !self.closed.is_empty() {
            self.evicted += 1;
            self.pop();
        }
    }

    /// Drops the closed interval with the lowest end.
    fn pop(&mut self) {
        let Some((end, key)) = self.closed.pop_front() else { return };
        let Some(intervals) = self.keys.get_mut(&key) else { return };
        let first = intervals.pop_front().expect("a key with a closed interval has one");
        assert_eq!(first.until, end, "intervals are closed in the order of ends");
        if intervals.is_empty() {
            self.keys.remove(&key);
        }
        self.bytes -= size(&key, &first);
    }

    /// Keys with open versions, and the timestamps of these.
    pub(crate) fn unsettled(&self) -> Vec<(Bytes, u64)> {
        self.unsettled.iter().map(|(key, timestamp)| (key.clone(), *timestamp)).collect()
    }

    /// Drops open versions that the store has settled, unless they were overwritten since.
    pub(crate) fn settled(&mut self, keys: &[(Bytes, u64)]) {
        for (key, timestamp) in keys {
            if self.unsettled.get(key) != Some(timestamp) {
                continue;
            }
            self.unsettled.remove(key);
            let Some(intervals) = self.keys.get_mut(key) else { continue };
            if let Some(open) = intervals.pop_back_if(|last| last.until == OPEN) {
                self.bytes -= size(key, &open);
            }
            if intervals.is_empty() {
                self.keys.remove(key);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether memory is short though nothing closed is left.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes > self.limit
    }

    /// Intervals, open and closed.
    pub(crate) fn count(&self) -> usize {
        self.closed.len() + self.unsettled.len()
    }

    /// Intervals that were evicted because memory was short.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }
}

fn size(key: &Bytes, interval: &Interval) -> usize {
    OVERHEAD + key.len() + interval.value.as_ref().map_or(0, Bytes::len)
}

fn known(intervals: &VecDeque<Interval>, start: u64) -> Known {
    let after = intervals.partition_point(|interval| interval.from <= start);
    match after.checked_sub(1).map(|at| &intervals[at]) {
        None => Known::Evicted,
        Some(interval) if start < interval.until => Known::Version(interval.value.clone()),
        // The end of the last closed interval is a version that the store has.
        Some(_) if after == intervals.len() => Known::Nothing,
        Some(_) => Known::Evicted,
    }
}
