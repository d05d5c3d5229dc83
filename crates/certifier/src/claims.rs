//! The newest version that has claimed each item, by mode: a hash table with linear probing.

use history::Version;

use crate::{Item, Mode};

/// Slots of the first table.
const FIRST_SLOTS: usize = 1024;
/// Slots that move from the old table to the new one with each claim while the table grows.
const MOVED_AT_ONCE: usize = 8;
/// Odd, and its bits are well mixed (2^64 divided by the golden ratio): the upper bits of a product spread the items.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// An item's number, and the newest version that claims it as intent, as share, and as write. Zero: no version. A
/// slot whose versions are all zero is free. An array and no struct, since a vector of zeros is then given by the
/// system without being written.
type Slot = [u64; 4];

/// The index of an item's number in its slot.
const ID: usize = 0;

const FREE: Slot = [0; 4];

const fn place(mode: Mode) -> usize {
    match mode {
        Mode::Intent => 1,
        Mode::Share => 2,
        Mode::Write => 3,
    }
}

const fn is_free(slot: &Slot) -> bool {
    slot[1] | slot[2] | slot[3] == 0
}

/// The newest version in a slot.
fn newest(slot: &Slot) -> u64 {
    slot[1].max(slot[2]).max(slot[3])
}

/// The newest version in a slot that does not agree with a claim in this mode.
fn newest_against(slot: &Slot, mode: Mode) -> u64 {
    match mode {
        Mode::Intent => slot[2].max(slot[3]),
        Mode::Share => slot[1].max(slot[3]),
        Mode::Write => newest(slot),
    }
}

/// Slots, a power of two of them, at most half of them used. An item lies in the first slot from its home on (round the
/// end) that was free when it came; no slot between an item and its home is free.
#[derive(Debug)]
struct Table {
    slots: Vec<Slot>,
    used: usize,
}

impl Table {
    fn with_slots(slots: usize) -> Table {
        assert!(slots.is_power_of_two() && slots > 1);
        Table { slots: vec![FREE; slots], used: 0 }
    }

    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// The slot where an item would lie if it were free.
    fn home(&self, id: u64) -> usize {
        let shift = u64::BITS - self.slots.len().trailing_zeros();
        usize::try_from(id.wrapping_mul(SPREAD) >> shift).expect("an index into slots in memory")
    }

    /// The slot of an item, or the free one where it would lie.
    fn find(&self, id: u64) -> usize {
        let mut at = self.home(id);
        loop {
            let slot = &self.slots[at];
            if is_free(slot) || slot[ID] == id {
                return at;
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Raises the versions of an item to at least those of `slot`, which is not free.
    fn merge(&mut self, slot: Slot) {
        let at = self.find(slot[ID]);
        let here = &mut self.slots[at];
        self.used += usize::from(is_free(here));
        *here = [slot[ID], here[1].max(slot[1]), here[2].max(slot[2]), here[3].max(slot[3])];
    }

    /// Frees a slot, and moves items after it back, as far as their homes allow.
    fn free(&mut self, at: usize) {
        let (mut hole, mut next) = (at, at);
        loop {
            next = (next + 1) & self.mask();
            let slot = self.slots[next];
            if is_free(&slot) {
                break;
            }
            // The item may lie in the hole if its home is not between the two.
            let (from_home, from_hole) = (next.wrapping_sub(self.home(slot[ID])), next.wrapping_sub(hole));
            if from_home & self.mask() >= from_hole & self.mask() {
                self.slots[hole] = slot;
                hole = next;
            }
        }
        self.slots[hole] = FREE;
        self.used -= 1;
    }
}

/// A table that is replaced by a larger one, slot by slot, so that no claim waits for all of it.
#[derive(Debug)]
struct Old {
    table: Table,
    /// Slots before this one are in the new table too.
    moved: usize,
}

/// The newest claims of all items. Invariants: every version above the floor that is the newest of its item in its mode
/// is in the table, or in the part of the old table that has not moved; versions at or below the floor may be in the
/// old table only, and count as the floor there.
#[derive(Debug)]
pub(crate) struct Claims {
    table: Table,
    old: Option<Old>,
}

impl Default for Claims {
    fn default() -> Claims {
        Claims { table: Table::with_slots(FIRST_SLOTS), old: None }
    }
}

impl Claims {
    /// The newest version that has claimed one of the items in a mode that does not agree, and that item; at least the
    /// floor.
    pub(crate) fn newest_against(&self, items: &[Item], floor: Version) -> (Version, u64) {
        let (mut newest, mut id) = (floor.get(), 0);
        for item in items {
            let found = self.newest_of(*item);
            if found > newest {
                (newest, id) = (found, item.id);
            }
        }
        (Version::new(newest), id)
    }

    fn newest_of(&self, item: Item) -> u64 {
        let of = |table: &Table| newest_against(&table.slots[table.find(item.id)], item.mode);
        of(&self.table).max(self.old.as_ref().map_or(0, |old| of(&old.table)))
    }

    /// Notes that a version, newer than all before, has claimed an item. What lies at or below the floor is forgotten.
    pub(crate) fn claim(&mut self, item: Item, version: Version, floor: Version) {
        let mut slot = FREE;
        slot[ID] = item.id;
        slot[place(item.mode)] = version.get();
        self.table.merge(slot);
        self.move_some(floor);
        if self.table.used * 2 > self.table.slots.len() {
            self.grow();
        }
    }

    /// Forgets those of the items that no version above the floor has claimed.
    pub(crate) fn forget(&mut self, ids: &[u64], floor: Version) {
        for id in ids {
            let at = self.table.find(*id);
            let slot = &self.table.slots[at];
            if !is_free(slot) && newest(slot) <= floor.get() {
                self.table.free(at);
            }
        }
    }

    /// Begins to replace the table by one of twice the size.
    fn grow(&mut self) {
        // A new table of 2n slots takes n items: at most n / 2 of the old one, which has moved after n / 8 claims.
        assert!(self.old.is_none(), "a table grows when the table before has moved");
        let larger = Table::with_slots(self.table.slots.len() * 2);
        self.old = Some(Old { table: std::mem::replace(&mut self.table, larger), moved: 0 });
    }

    /// Moves a few slots of the old table, if there is one.
    fn move_some(&mut self, floor: Version) {
        let Some(old) = &mut self.old else { return };
        let to = (old.moved + MOVED_AT_ONCE).min(old.table.slots.len());
        for slot in &old.table.slots[old.moved..to] {
            // Versions below the floor were not freed here, and nothing would free them there.
            if newest(slot) > floor.get() {
                self.table.merge(*slot);
            }
        }
        old.moved = to;
        if to == old.table.slots.len() {
            self.old = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims one item in each of `versions`, and forgets all of them again.
    #[test]
    fn forgotten_items_leave_no_slot() {
        let mut claims = Claims::default();
        let id = |version: u64| version.wrapping_mul(SPREAD) ^ (version >> 3);
        for version in 1..=10_000_u64 {
            let floor = Version::new(version.saturating_sub(3_000));
            claims.claim(Item::new(id(version), Mode::Write), Version::new(version), floor);
            if version > 3_000 {
                claims.forget(&[id(version - 3_000)], Version::new(version - 3_000));
            }
        }
        for version in 7_001..=10_000 {
            assert_eq!(claims.newest_of(Item::new(id(version), Mode::Share)), version);
            claims.forget(&[id(version)], Version::new(version));
        }
        assert_eq!((claims.table.used, claims.old.is_none()), (0, true));
        assert!(claims.table.slots.iter().all(is_free));
        assert!(claims.table.slots.len() <= 8_192, "{}", claims.table.slots.len());
    }

    /// Items that lie in the old table alone when they fall below the floor do not come into the new one.
    #[test]
    fn growing_table_leaves_forgotten_items_out() {
        let mut claims = Claims::default();
        let mut version = 0_u64;
        while claims.old.is_none() {
            version += 1;
            claims.claim(
                Item::new(version.wrapping_mul(SPREAD), Mode::Write),
                Version::new(version),
                Version::ZERO,
            );
        }
        let floor = Version::new(version);
        let all: Vec<u64> = (1..=version).map(|version| version.wrapping_mul(SPREAD)).collect();
        claims.forget(&all, floor);
        while claims.old.is_some() {
            version += 1;
            claims.claim(Item::new(7, Mode::Write), Version::new(version), floor);
        }
        assert_eq!(claims.table.used, 1);
    }

    /// Items whose home is the last slot lie there and in the first ones; freeing one keeps the others in reach.
    #[test]
    fn items_at_the_end_wrap_round() {
        let mut table = Table::with_slots(8);
        let at_the_end: Vec<u64> = (1..10_000).filter(|id| table.home(*id) == 7).take(3).collect();
        for id in &at_the_end {
            table.merge([*id, 0, 0, *id]);
        }
        table.free(table.find(at_the_end[0]));
        for id in &at_the_end[1..] {
            assert_eq!(table.slots[table.find(*id)][3], *id);
        }
        assert_eq!(table.used, 2);
    }
}
