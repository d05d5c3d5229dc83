//! The registry of snapshots: which versions are read, and which snapshots were ended before their owners ended them.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Ended;
use crate::write_set::Version;

/// A registered snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Snapshot {
    pub(crate) at: Version,
    pub(crate) owner: u64,
}

/// All snapshots. Invariants:
///
/// - An owner is in `registered` or in `ended`, not in both, until it ends its snapshot.
/// - `copies` are registered owners that read each page once, whatever the policy.
/// - `pinned` has the pages that registered owners have read (policy `Single`).
#[derive(Default)]
pub(crate) struct Snapshots {
    registered: BTreeSet<Snapshot>,
    copies: BTreeSet<u64>,
    ended: BTreeMap<u64, Ended>,
    pinned: BTreeMap<u64, Vec<u32>>,
    owners: u64,
}

impl Snapshots {
    pub(crate) fn register(&mut self, at: Version) -> Snapshot {
        self.owners += 1;
        let snapshot = Snapshot { at, owner: self.owners };
        self.registered.insert(snapshot);
        snapshot
    }

    pub(crate) fn register_copy(&mut self, at: Version) -> Snapshot {
        let copy = self.register(at);
        self.copies.insert(copy.owner);
        copy
    }

    /// The cause if the snapshot was ended by another.
    pub(crate) fn check(&self, snapshot: Snapshot) -> Result<(), Ended> {
        self.ended.get(&snapshot.owner).map_or(Ok(()), |cause| Err(*cause))
    }

    /// Notes that the snapshot has read a page.
    pub(crate) fn pin(&mut self, snapshot: Snapshot, number: u32) {
        self.pinned.entry(snapshot.owner).or_default().push(number);
    }

    /// Ends the snapshot for its owner. Returns the pages that it had pinned.
    pub(crate) fn end(&mut self, snapshot: Snapshot) -> Vec<u32> {
        self.ended.remove(&snapshot.owner);
        self.release(snapshot)
    }

    /// Ends the snapshot before its owner does: its next read fails. Returns the pages that it had pinned.
    pub(crate) fn cut(&mut self, snapshot: Snapshot, cause: Ended) -> Vec<u32> {
        self.ended.insert(snapshot.owner, cause);
        self.release(snapshot)
    }

    fn release(&mut self, snapshot: Snapshot) -> Vec<u32> {
        self.registered.remove(&snapshot);
        self.copies.remove(&snapshot.owner);
        self.pinned.remove(&snapshot.owner).unwrap_or_default()
    }

    /// The oldest snapshot.
    pub(crate) fn oldest(&self) -> Option<Snapshot> {
        self.registered.first().copied()
    }

    /// Whether a snapshot is at a version from `from` on and below `to`.
    pub(crate) fn any_between(&self, from: Version, to: Version) -> bool {
        let first = |at| Snapshot { at, owner: 0 };
        self.registered.range(first(from)..first(to)).next().is_some()
    }

    /// Snapshots above a version.
    pub(crate) fn above(&self, version: Version) -> Vec<Snapshot> {
        self.registered.range(Snapshot { at: version + 1, owner: 0 }..).copied().collect()
    }

    pub(crate) fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Registered snapshots of readers.
    pub(crate) fn readers(&self) -> usize {
        self.registered.len() - self.copies.len()
    }

    /// Version of the oldest reader.
    pub(crate) fn oldest_reader(&self) -> Option<Version> {
        self.registered.iter().find(|snapshot| !self.copies.contains(&snapshot.owner)).map(|oldest| oldest.at)
    }

    #[cfg(test)]
    pub(crate) fn has_pinned(&self, owner: u64, number: u32) -> bool {
        self.pinned.get(&owner).is_some_and(|pages| pages.contains(&number))
    }
}
