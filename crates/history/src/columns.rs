//! A set of columns of one table.

use std::fmt;

/// Set of columns of a table, by attribute number (1 is the first). A column beyond the 128th, the whole row
/// (0) and system columns (negative) fold the set to *all*: a set is never too small.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnSet {
    /// Every column, also those added later.
    All,
    /// The columns whose bit is set; bit 0 is attribute 1.
    Some(u128),
}

impl ColumnSet {
    /// No column: a statement that only counts rows.
    pub const NONE: ColumnSet = ColumnSet::Some(0);

    /// The set of these attribute numbers.
    pub fn of(attributes: impl IntoIterator<Item = i16>) -> ColumnSet {
        attributes.into_iter().fold(ColumnSet::NONE, ColumnSet::with)
    }

    /// This set and one attribute more.
    #[must_use]
    pub fn with(self, attribute: i16) -> ColumnSet {
        match (self, attribute) {
            (ColumnSet::Some(bits), 1..=128) => ColumnSet::Some(bits | 1 << (attribute - 1)),
            _ => ColumnSet::All,
        }
    }

    /// Both sets.
    #[must_use]
    pub fn union(self, other: ColumnSet) -> ColumnSet {
        match (self, other) {
            (ColumnSet::Some(mine), ColumnSet::Some(theirs)) => ColumnSet::Some(mine | theirs),
            _ => ColumnSet::All,
        }
    }

    /// True if a column is in both. *All* meets everything but the empty set.
    pub fn intersects(self, other: ColumnSet) -> bool {
        match (self, other) {
            (ColumnSet::Some(mine), ColumnSet::Some(theirs)) => mine & theirs != 0,
            (ColumnSet::All, other) | (other, ColumnSet::All) => other != ColumnSet::NONE,
        }
    }

    /// True if every column of `other` is in this one.
    pub fn covers(self, other: ColumnSet) -> bool {
        match (self, other) {
            (ColumnSet::All, _) => true,
            (ColumnSet::Some(_), ColumnSet::All) => false,
            (ColumnSet::Some(mine), ColumnSet::Some(theirs)) => theirs & !mine == 0,
        }
    }

    /// The attribute numbers, ascending; `None` if it is *all*.
    pub fn attributes(self) -> Option<impl Iterator<Item = i16>> {
        match self {
            ColumnSet::All => None,
            ColumnSet::Some(mut bits) => Some(std::iter::from_fn(move || {
                let lowest = i16::try_from(bits.trailing_zeros()).ok().filter(|_| bits != 0)?;
                bits &= bits - 1;
                Some(lowest + 1)
            })),
        }
    }
}

/// `*`, or the attribute numbers: `1,3`.
impl fmt::Display for ColumnSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(attributes) = self.attributes() else { return f.write_str("*") };
        for (place, attribute) in attributes.enumerate() {
            write!(f, "{}{attribute}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for ColumnSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_held_folds_to_all() {
        for attribute in [0, -1, 129] {
            assert_eq!(ColumnSet::of([1, attribute]), ColumnSet::All);
        }
        assert_eq!(ColumnSet::of([1, 128]).to_string(), "1,128");
    }

    #[test]
    fn all_meets_everything_but_nothing() {
        assert!(ColumnSet::All.intersects(ColumnSet::of([7])));
        assert!(ColumnSet::All.intersects(ColumnSet::All));
        assert!(!ColumnSet::All.intersects(ColumnSet::NONE));
        assert!(!ColumnSet::of([1]).intersects(ColumnSet::of([2])));
    }

    #[test]
    fn covering() {
        assert!(ColumnSet::of([1, 2]).covers(ColumnSet::of([2])));
        assert!(!ColumnSet::of([1, 2]).covers(ColumnSet::of([3])));
        assert!(!ColumnSet::of([1, 2]).covers(ColumnSet::All));
        assert!(ColumnSet::All.covers(ColumnSet::All));
    }
}
