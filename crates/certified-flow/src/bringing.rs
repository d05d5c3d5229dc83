//! Versions that an applier brings to its node, and backends that may still commit them.

use history::Version;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// See the file's first lines.
#[derive(Debug, Default)]
pub struct Bringing {
    /// The first version of the transaction that applies, until it has committed or another applier has begun.
    first: Cell<Option<Version>>,
    /// Backends that may still commit what the applier is to bring.
    suspects: RefCell<BTreeSet<i32>>,
}

impl Bringing {
    /// The applier begins to bring versions from this one on.
    pub fn begins(&self, first: Version) {
        self.first.set(Some(first));
    }

    /// Nothing is being brought: it is committed, or its applier has ended.
    pub fn ends(&self) {
        self.first.set(None);
    }

    /// Versions before this one may be dropped from the table whose key keeps each from being committed twice. `shown` is
    /// what the node shows. A session whose answer was lost may have committed what the applier is bringing.
    pub fn prunable(&self, shown: Version) -> Version {
        self.first.get().map_or(shown, |first| shown.min(first))
    }

    /// This backend must be gone before anything more is applied.
    pub fn suspects(&self, pid: i32) {
        self.suspects.borrow_mut().insert(pid);
    }

    /// Backends that must be gone before anything more is applied; they count as gone from now on.
    pub fn take_suspects(&self) -> BTreeSet<i32> {
        self.suspects.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_being_brought_are_not_pruned() {
        let bringing = Bringing::default();
        let shown = Version::new(19);
        assert_eq!(bringing.prunable(shown), shown);
        bringing.begins(Version::new(18));
        assert_eq!(bringing.prunable(shown), Version::new(18));
        bringing.ends();
        assert_eq!(bringing.prunable(shown), shown);
    }
}
