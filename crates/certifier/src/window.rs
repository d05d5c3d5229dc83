//! The window of the newest records, with the items of each, so that the oldest record can be forgotten.

use std::collections::VecDeque;

use history::Version;

use crate::Item;

/// The newest records, oldest first. Invariants: `counts` adds up to `ids`; the versions of the records are those that
/// follow the floor, one each.
#[derive(Debug)]
pub(crate) struct Window {
    floor: Version,
    /// The number of items of each record.
    counts: VecDeque<u32>,
    /// The items of all records, one record after the other.
    ids: VecDeque<u64>,
    /// The items that `pop` returns: the buffer is kept, so that no call allocates.
    popped: Vec<u64>,
    record_limit: usize,
    item_limit: usize,
}

impl Window {
    pub(crate) fn new(floor: Version, record_limit: usize, item_limit: usize) -> Window {
        let (counts, ids, popped) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Window { floor, counts, ids, popped, record_limit, item_limit }
    }

    pub(crate) fn limit_items(&mut self, items: usize) {
        self.item_limit = items;
    }

    /// The version before the oldest record.
    pub(crate) fn floor(&self) -> Version {
        self.floor
    }

    pub(crate) fn items(&self) -> usize {
        self.ids.len()
    }

    /// Adds the newest record.
    pub(crate) fn push(&mut self, items: &[Item]) {
        self.counts.push_back(u32::try_from(items.len()).expect("a write set has fewer than 2^32 items"));
        self.ids.extend(items.iter().map(|item| item.id));
    }

    /// The window holds more than one of its limits allows.
    pub(crate) fn is_over(&self) -> bool {
        self.counts.len() > self.record_limit || self.ids.len() > self.item_limit
    }

    /// Takes the oldest record away: the new floor, and the items that the record has claimed.
    pub(crate) fn pop(&mut self) -> (Version, &[u64]) {
        let count = self.counts.pop_front().expect("a window that is over its limits has a record");
        self.popped.clear();
        self.popped.extend(self.ids.drain(..count as usize));
        self.floor = self.floor.next();
        (self.floor, &self.popped)
    }
}
