//! Newest cells of keys that were written lately: the old versions that the next flush needs, without a read of the store.
//!
//! One database writes a store, and one driver flushes, so that the cell of the last flush is the store's. Without it the
//! store is asked. Two generations bound the memory: when the younger is full, the older is dropped.

use std::collections::HashMap;

use bytes::Bytes;
use stores::{Cell, KeyedCell};

use crate::bugs::{Bug, Bugs};

/// Bytes that a cell takes besides its key and its value, roughly.
const OVERHEAD: usize = 96;

/// The cells. Invariant: a cell here is the newest of its key in the store.
#[derive(Debug)]
pub(crate) struct NewestCells {
    young: HashMap<Bytes, Cell>,
    old: HashMap<Bytes, Cell>,
    /// Size of the younger generation, and its limit.
    bytes: usize,
    limit: usize,
    bugs: Bugs,
}

impl NewestCells {
    /// Room for so many bytes, half of them for each generation.
    pub(crate) fn new(size: usize, bugs: Bugs) -> NewestCells {
        let (young, old) = (HashMap::new(), HashMap::new());
        NewestCells { young, old, bytes: 0, limit: size / 2, bugs }
    }

    /// The newest cell of a key, if it is known.
    pub(crate) fn get(&self, key: &Bytes) -> Option<Cell> {
        self.young.get(key).or_else(|| self.old.get(key)).cloned()
    }

    /// Takes in cells that the store has now.
    pub(crate) fn flushed(&mut self, cells: &[KeyedCell]) {
        for (key, cell) in cells {
            if self.bugs.has(Bug::NewestCellNotReplaced) && self.get(key).is_some() {
                continue;
            }
            let size = key.len() + cell.value.as_ref().map_or(0, Bytes::len) + OVERHEAD;
            if self.bytes + size > self.limit {
                (self.old, self.bytes) = (std::mem::take(&mut self.young), 0);
            }
            if size <= self.limit {
                self.bytes += size;
                self.young.insert(key.clone(), cell.clone());
            } else {
                // The cell of before is no longer the newest.
                self.young.remove(key);
                self.old.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(keys: std::ops::Range<u64>, timestamp: u64, bytes: usize) -> Vec<KeyedCell> {
        keys.map(|key| (key.to_string().into(), Cell::put(timestamp, vec![0; bytes]))).collect()
    }

    #[test]
    fn newest_cells_are_bounded_and_never_old() {
        let mut newest = NewestCells::new(4_000, Bugs::default());
        for timestamp in 1..100 {
            newest.flushed(&cells(timestamp..timestamp + 4, timestamp, 100));
            for key in 0..100 {
                // The last timestamp that wrote the key.
                let last = timestamp.min(key);
                let found = newest.get(&key.to_string().into());
                assert!(found.is_none_or(|cell| cell.timestamp == last), "{key} at {timestamp}");
            }
            assert!(newest.young.len() + newest.old.len() <= 20);
        }
        assert!(newest.get(&"99".into()).is_some(), "the newest are known");
        newest.flushed(&cells(99..100, 200, 5_000));
        assert_eq!(newest.get(&"99".into()), None, "a large cell is read again");
    }
}
