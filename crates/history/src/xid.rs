//! A transaction's identity.

use std::fmt;
use std::str::FromStr;

/// A 64-bit transaction identity, as `pg_current_snapshot()` prints it (PostgreSQL's `xid8`): the epoch of
/// the 32-bit counter in the upper half. An identity belongs to the whole server, not to one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(u64);

impl Xid {
    /// The identity with this full value.
    pub const fn new(full: u64) -> Xid {
        Xid(full)
    }

    /// The full value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one following.
    pub const fn next(self) -> Xid {
        Xid(self.0 + 1)
    }

    /// The full identity of a 32-bit one (as the replication stream gives it): the one nearest to `near`,
    /// which is a recent full identity of the same server. Correct as long as the two lie less than 2^31
    /// transactions apart, which PostgreSQL itself demands of all current identities.
    pub const fn widen(short: u32, near: Xid) -> Xid {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
        let distance = short.wrapping_sub(near.0 as u32).cast_signed();
        Xid(near.0.saturating_add_signed(distance as i64))
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Xid {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Xid, Self::Err> {
        text.parse().map(Xid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_takes_the_nearest() {
        let near = Xid::new((7 << 32) + 10);
        assert_eq!(Xid::widen(12, near), Xid::new((7 << 32) + 12));
        assert_eq!(Xid::widen(u32::MAX, near), Xid::new((7 << 32) - 1));
        assert_eq!(Xid::widen(3, Xid::new((7 << 32) - 2)), Xid::new((7 << 32) + 3));
        assert_eq!(Xid::widen(5, Xid::new(4)), Xid::new(5));
    }
}
