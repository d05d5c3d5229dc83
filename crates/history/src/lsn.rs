//! A position in the write-ahead log of one PostgreSQL timeline.

use std::fmt;
use std::str::FromStr;

/// A byte position in the write-ahead log (PostgreSQL's `pg_lsn`). Zero stands for "nothing yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

/// Bytes of a WAL page (`XLOG_BLCKSZ` as Debian and everybody else builds it).
const PAGE_BYTES: u64 = 8192;
/// The longest page header: the one of a segment's first page (`SizeOfXLogLongPHD`).
const LONGEST_PAGE_HEADER_BYTES: u64 = 40;

impl Lsn {
    /// Before every record.
    pub const ZERO: Lsn = Lsn(0);
    /// After every record; the floor of what is not known.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// The position `bytes` bytes after the log's beginning.
    pub const fn new(bytes: u64) -> Lsn {
        Lsn(bytes)
    }

    /// Bytes since the log's beginning.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The highest position at which the record that follows a record ending here can start. Redo shows a commit
    /// before the replay position moves past it, so a record that starts at or below this may be visible at a standby
    /// that answers `self`. At a page boundary a page header lies between.
    pub const fn next_record_start(self) -> Lsn {
        if self.0.is_multiple_of(PAGE_BYTES) {
            Lsn(self.0.saturating_add(LONGEST_PAGE_HEADER_BYTES))
        } else {
            self
        }
    }
}

/// PostgreSQL's own form: `16/B374D848`.
impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// The text was not of the form `16/B374D848`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLsnError;

impl fmt::Display for ParseLsnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a log position of the form 16/B374D848")
    }
}

impl std::error::Error for ParseLsnError {}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Lsn, ParseLsnError> {
        let (high, low) = text.split_once('/').ok_or(ParseLsnError)?;
        let high = u32::from_str_radix(high, 16).map_err(|_| ParseLsnError)?;
        let low = u32::from_str_radix(low, 16).map_err(|_| ParseLsnError)?;
        Ok(Lsn(u64::from(high) << 32 | u64::from(low)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_postgresqls_own() {
        let lsn: Lsn = "16/B374D848".parse().unwrap();
        assert_eq!(lsn.get(), 0x16_B374_D848);
        assert_eq!(lsn.to_string(), "16/B374D848");
        for wrong in ["", "16", "16/", "/1", "x/1", "1/100000000", "1/2/3"] {
            assert_eq!(wrong.parse::<Lsn>(), Err(ParseLsnError), "{wrong}");
        }
    }

    #[test]
    fn a_record_after_a_page_boundary_starts_behind_the_header() {
        assert_eq!(Lsn::new(8192 * 5).next_record_start(), Lsn::new(8192 * 5 + 40));
        assert_eq!(Lsn::new(8192 * 5 + 8).next_record_start(), Lsn::new(8192 * 5 + 8));
    }
}
