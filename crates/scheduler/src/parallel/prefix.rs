//! Up to which version everything is done.

use history::{Version, Watermark};
use std::collections::BTreeSet;

/// Completed versions: everything to the watermark, and some beyond a gap.
///
/// Invariant: all of `beyond` lies above `to`, and the one following `to` is not in it.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    to: Watermark<Version>,
    beyond: BTreeSet<Version>,
}

impl Prefix {
    /// Everything up to and including `to` is done.
    pub(crate) fn new(to: Version) -> Prefix {
        Prefix { to: Watermark::new(to), beyond: BTreeSet::new() }
    }

    /// The newest version up to which there is no gap.
    pub(crate) fn get(&self) -> Version {
        self.to.get()
    }

    /// This one is done, too. The prefix, if it has moved.
    pub(crate) fn done(&mut self, version: Version) -> Option<Version> {
        let fresh = !self.to.reached(version) && self.beyond.insert(version);
        assert!(fresh, "version {version} is done once");
        let before = self.to;
        while self.beyond.remove(&self.to.get().next()) {
            self.to.advance(self.to.get().next());
        }
        (self.to != before).then_some(self.to.get())
    }

    /// The newest that is done, whatever lies before it.
    pub(crate) fn newest(&self) -> Version {
        self.beyond.last().copied().unwrap_or(self.to.get())
    }

    /// Number of versions that are done beyond the first gap.
    pub(crate) fn beyond(&self) -> usize {
        self.beyond.len()
    }
}
