//! A place in the order of one database.

use std::fmt;

/// A place in the order in which the primary showed the commits of one database: the first commit has version
/// 1, and there are no gaps. Versions are given again in each process of Consort: a position that is kept for
/// longer is a [`crate::Shown`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// Before the first: a replica that has come to here shows no commit that has a version.
    pub const ZERO: Version = Version(0);

    /// The version with this number.
    pub const fn new(number: u64) -> Version {
        Version(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one following.
    #[must_use]
    pub const fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

/// `v812`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_follows_zero() {
        assert_eq!(Version::ZERO.next(), Version::new(1));
        assert!(Version::ZERO < Version::new(1));
        assert_eq!(Version::new(812).to_string(), "v812");
    }
}
