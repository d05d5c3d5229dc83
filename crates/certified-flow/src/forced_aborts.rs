//! Aborts that an experiment forces: a share of the write sets is refused after its check (section 9.6).

use crate::WriteSet;
use std::cell::Cell;

/// Write sets with more items or more bytes, and those that change the catalog, count as loads of tables, which pass. A load
/// of a table without a key claims one item.
const LOAD_ITEMS: usize = 100;
const LOAD_BYTES: usize = 16 << 10;

/// The share, and the number of write sets so far. Evenly mixed, the same in each run.
#[derive(Debug, Default)]
pub(crate) struct ForcedAborts {
    pub(crate) percent: Cell<u64>,
    write_sets: Cell<u64>,
}

impl ForcedAborts {
    /// Whether this write set is to be refused.
    pub(crate) fn refuses<W: WriteSet>(&self, write_set: &W) -> bool {
        let is_load = || write_set.items().len() > LOAD_ITEMS || write_set.bytes().len() > LOAD_BYTES;
        if self.percent.get() == 0 || write_set.changes_the_catalog() || is_load() {
            return false;
        }
        let number = self.write_sets.replace(self.write_sets.get() + 1);
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed >> 32) % 100 < self.percent.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_item::One;

    #[test]
    fn forced_aborts_are_the_share_of_all() {
        let forced = ForcedAborts::default();
        let refused = || (0..1000).filter(|_| forced.refuses(&One(1))).count();
        assert_eq!(refused(), 0);
        forced.percent.set(40);
        assert!((350..450).contains(&refused()));
    }
}
