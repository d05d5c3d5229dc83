//! The newest records of a database in memory, within a bound; older ones are in the ledger.

use history::Version;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of records that are kept, as the ledger holds them.
const LIMIT_BYTES: usize = 128 << 20;

/// The newest records.
#[derive(Debug)]
pub(crate) struct Recent<W> {
    records: BTreeMap<Version, (Rc<W>, usize)>,
    bytes: usize,
}

impl<W> Default for Recent<W> {
    fn default() -> Recent<W> {
        Recent { records: BTreeMap::new(), bytes: 0 }
    }
}

impl<W> Recent<W> {
    /// Keeps a record, of which the ledger holds so many bytes; the oldest ones go where there are too many.
    pub(crate) fn keep(&mut self, version: Version, record: W, bytes: usize) {
        self.records.insert(version, (Rc::new(record), bytes));
        self.bytes += bytes;
        while self.bytes > LIMIT_BYTES && self.records.len() > 1 {
            self.drop_oldest();
        }
    }

    /// The record of a version, and its bytes.
    pub(crate) fn get(&self, version: Version) -> Option<(Rc<W>, usize)> {
        self.records.get(&version).cloned()
    }

    /// Forgets all before this version.
    pub(crate) fn forget_below(&mut self, version: Version) {
        while self.records.first_key_value().is_some_and(|(oldest, _)| *oldest < version) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, (_, bytes))) = self.records.pop_first() {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_records_go_and_the_newest_stays() {
        let mut recent = Recent::default();
        for version in 1..=3 {
            recent.keep(Version::new(version), "one", LIMIT_BYTES / 2);
        }
        assert!(recent.get(Version::new(1)).is_none() && recent.get(Version::new(2)).is_some());
        recent.keep(Version::new(4), "one", 2 * LIMIT_BYTES);
        assert!(recent.get(Version::new(3)).is_none() && recent.get(Version::new(4)).is_some());
        recent.forget_below(Version::new(5));
        assert!(recent.get(Version::new(4)).is_none() && recent.bytes == 0);
    }
}
