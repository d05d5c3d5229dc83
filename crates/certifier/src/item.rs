//! Items, and the modes in which write sets claim them.

/// The mode in which a write set claims an item. Two claims agree if both are [`Mode::Intent`] or both are [`Mode::Share`]; all other
/// pairs conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A part of the item is written. A write to a row claims its table so.
    Intent,
    /// The item must stay as it is. A new child claims its parent's key so.
    Share,
    /// The item itself is written.
    Write,
}

impl Mode {
    /// Two write sets that ran at the same time may both have claimed an item, one so and the other so.
    #[must_use]
    pub const fn agrees(self, other: Mode) -> bool {
        matches!((self, other), (Mode::Intent, Mode::Intent) | (Mode::Share, Mode::Share))
    }
}

/// A thing that a write set claims: a row, a unique value, a parent's key, a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// The thing's number: a stable, well mixed hash of the database, the kind, the table and the key.
    pub id: u64,
    /// The mode of the claim.
    pub mode: Mode,
}

impl Item {
    /// The item with this number, claimed in this way.
    #[must_use]
    pub const fn new(id: u64, mode: Mode) -> Item {
        Item { id, mode }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_agree_with_themselves_but_for_write() {
        const ALL: [Mode; 3] = [Mode::Intent, Mode::Share, Mode::Write];
        for one in ALL {
            for other in ALL {
                assert_eq!(one.agrees(other), one == other && one != Mode::Write, "{one:?} {other:?}");
                assert_eq!(one.agrees(other), other.agrees(one), "symmetric");
            }
        }
    }
}
