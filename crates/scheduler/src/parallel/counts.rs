//! A multiset: how often each item is in it.

use std::collections::BTreeMap;

/// Number of occurrences of each item.
///
/// Invariant: no count is zero. So items that were added and taken again leave no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts<T>(BTreeMap<T, usize>);

impl<T> Default for Counts<T> {
    fn default() -> Self {
        Counts(BTreeMap::new())
    }
}

impl<T: Ord> Counts<T> {
    /// Once more.
    pub(crate) fn add(&mut self, item: T) {
        *self.0.entry(item).or_default() += 1;
    }

    /// Once less.
    pub(crate) fn take(&mut self, item: &T) {
        let count = self.0.get_mut(item).expect("a taken item was added");
        *count -= 1;
        if *count == 0 {
            self.0.remove(item);
        }
    }

    /// However often it is in, it is not in any more (for a planted bug).
    pub(crate) fn forget(&mut self, item: &T) {
        self.0.remove(item);
    }

    pub(crate) fn has(&self, item: &T) -> bool {
        self.0.contains_key(item)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The items without their counts, ascending.
    pub(crate) fn items(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.0.keys()
    }
}
