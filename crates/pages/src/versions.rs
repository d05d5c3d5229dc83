//! The versions of all pages, and the snapshots that are read: decisions without a lock, a clock or a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::bugs::{Bug, Bugs};
use crate::error::{Ended, Error, Gap};
use crate::page::{Page, size_in_pages};
use crate::slot::Slot;
use crate::snapshots::{Snapshot, Snapshots};
use crate::write_set::{Version, WriteSet};

/// How readers of different versions share pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// A page has as many images as snapshots need. Readers never wait for each other and never conflict.
    #[default]
    Keep,
    /// A page has a single image, but for page 1. A reader of a newer version waits, up to
    /// [`CONFLICT_WAIT`](crate::CONFLICT_WAIT), for readers of the older one; a reader of an older version fails with
    /// [`Error::Conflict`] (Manassiev and Amza, "DMV", section III.A).
    Single,
}

/// Behaviour of a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How readers share pages.
    pub policy: Policy,
    /// Bytes of images and diffs above which the oldest readers are evicted. A database that is larger is kept.
    pub max_bytes: usize,
}

/// Page number, the version that made the page, its content.
pub type PageImage = (u32, Version, Arc<Page>);

/// The answer to a read of a page.
pub(crate) enum Read {
    Page(Option<Arc<Page>>),
    /// Readers of an older version have the page (policy `Single`): ask again when a snapshot has ended.
    Wait,
}

/// All pages. Invariants:
///
/// - `horizon <= acknowledged <= received`, and no snapshot is below `horizon`. The horizon only rises.
/// - A diff leaves a queue only when the horizon has passed it; what is above `acknowledged` can be discarded.
/// - `loaded`: no version below it was received diff by diff; new snapshots begin at it or later.
/// - `unsettled` names each slot with a diff or with more than one image.
pub(crate) struct Versions {
    options: Options,
    bugs: Bugs,
    pub(crate) received: Version,
    acknowledged: Version,
    horizon: Version,
    loaded: Version,
    /// Rises when versions are discarded or loaded: a version may then have another content than before.
    pub(crate) generation: u64,
    size: u32,
    slots: BTreeMap<u32, Slot>,
    unsettled: BTreeSet<u32>,
    pub(crate) snapshots: Snapshots,
    pub(crate) bytes: usize,
    pub(crate) waits: u64,
    /// Bytes below which a further eviction would free nothing.
    bound: usize,
}

impl Versions {
    pub(crate) fn new(options: Options, bugs: Bugs) -> Versions {
        Versions {
            options,
            bugs,
            received: 0,
            acknowledged: 0,
            horizon: 0,
            loaded: 0,
            generation: 0,
            size: 0,
            slots: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            snapshots: Snapshots::default(),
            bytes: 0,
            waits: 0,
            bound: 0,
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        self.options.policy
    }

    /// Queues the diffs of the next version.
    pub(crate) fn receive(&mut self, set: WriteSet) -> Result<(), Gap> {
        let expected = self.received + 1;
        if set.version != expected {
            return Err(Gap { expected, got: set.version });
        }
        if set.size < self.size {
            self.clear_above(set.size, expected);
        }
        for page in set.pages {
            self.push(page.number, expected, page.runs);
        }
        (self.received, self.size) = (expected, set.size);
        self.keep_bound();
        Ok(())
    }

    /// Makes the pages above the database's end pages of zeros, so that they are that in every store when it grows again.
    fn clear_above(&mut self, size: u32, version: Version) {
        let above: Vec<u32> =
            self.slots.range((Excluded(size), Unbounded)).map(|(number, _)| *number).collect();
        above.into_iter().for_each(|number| self.push(number, version, Box::default()));
    }

    fn push(&mut self, number: u32, version: Version, runs: Box<[u8]>) {
        let has_diff = self.unsettled.contains(&number);
        if has_diff && self.bugs.has(Bug::LostDiff) {
            return;
        }
        self.bytes += self.slots.entry(number).or_default().push(version, runs);
        self.unsettled.insert(number);
    }

    /// Registers a snapshot at `at`, or at the oldest version that is held when that one has gone.
    pub(crate) fn register(&mut self, at: Version) -> Result<Snapshot, Error> {
        if at > self.received {
            return Err(Error::Unreceived { at, received: self.received });
        }
        Ok(self.snapshots.register(at.max(self.oldest())))
    }

    /// Registers a snapshot exactly at `at` that reads pages without regard to the policy.
    pub(crate) fn register_copy(&mut self, at: Version) -> Result<Snapshot, Error> {
        if at > self.received {
            return Err(Error::Unreceived { at, received: self.received });
        }
        if !self.holds(at) {
            return Err(Error::Gone { at, oldest: self.oldest() });
        }
        Ok(self.snapshots.register_copy(at))
    }

    /// The oldest version at which a snapshot may begin.
    fn oldest(&self) -> Version {
        self.horizon.max(self.loaded)
    }

    /// Whether every page can be composed at `at`.
    fn holds(&self, at: Version) -> bool {
        at >= self.oldest()
            && (self.policy() == Policy::Keep || self.slots.values().all(|slot| slot.floor <= at))
    }

    /// Nothing up to `version` will be discarded: diffs may be folded.
    pub(crate) fn acknowledge(&mut self, version: Version) {
        self.acknowledged = self.acknowledged.max(version.min(self.received));
        self.advance();
    }

    pub(crate) fn end(&mut self, snapshot: Snapshot) {
        let pinned = self.snapshots.end(snapshot);
        self.release(snapshot, &pinned);
    }

    /// Ends a snapshot whose owner has not: its next read fails.
    fn cut(&mut self, snapshot: Snapshot, cause: Ended) {
        let pinned = self.snapshots.cut(snapshot, cause);
        self.release(snapshot, &pinned);
    }

    fn release(&mut self, snapshot: Snapshot, pinned: &[u32]) {
        for number in pinned {
            if let Some(slot) = self.slots.get_mut(number) {
                slot.pins.retain(|owner| *owner != snapshot.owner);
            }
        }
        self.advance();
    }

    fn advance(&mut self) {
        let reader = self.snapshots.oldest().filter(|_| !self.bugs.has(Bug::HorizonPassesReaders));
        let oldest = reader.map_or(self.acknowledged, |oldest| oldest.at.min(self.acknowledged));
        self.horizon = self.horizon.max(oldest);
    }

    /// Page `number` as the snapshot sees it.
    pub(crate) fn read(&mut self, snapshot: Snapshot, number: u32) -> Result<Read, Ended> {
        self.snapshots.check(snapshot)?;
        let Some(slot) = self.slots.get_mut(&number) else { return Ok(Read::Page(None)) };
        if self.options.policy == Policy::Single && number != 1 {
            if snapshot.at > self.acknowledged {
                // The version may be discarded: the single image stays as it is.
                return Ok(Read::Page(slot.compose(snapshot.at).map(|(_, page)| page)));
            }
            if slot.floor > snapshot.at {
                self.cut(snapshot, Ended::Conflict);
                return Err(Ended::Conflict);
            }
            if slot.is_behind(snapshot.at) && slot.pins.iter().any(|owner| *owner != snapshot.owner) {
                return Ok(Read::Wait);
            }
            if !slot.pins.contains(&snapshot.owner) {
                slot.pins.push(snapshot.owner);
                self.snapshots.pin(snapshot, number);
            }
        }
        let page = self.build(number, snapshot.at);
        self.keep_bound();
        self.snapshots.check(snapshot).map(|()| Read::Page(page))
    }

    /// Ends a reader that has waited too long.
    pub(crate) fn give_up(&mut self, snapshot: Snapshot) -> Ended {
        self.cut(snapshot, Ended::Conflict);
        Ended::Conflict
    }

    /// Page `number` at the newest version, for the writer.
    pub(crate) fn newest(&mut self, number: u32) -> Option<Arc<Page>> {
        match self.policy() {
            Policy::Keep => self.build(number, self.received),
            Policy::Single => Some(self.slots.get(&number)?.compose(self.received)?.1),
        }
    }

    fn build(&mut self, number: u32, at: Version) -> Option<Arc<Page>> {
        let (page, added) = self.slots.get_mut(&number)?.build(at);
        if added > 0 {
            self.bytes += added;
            self.unsettled.insert(number);
            self.trim(number);
        }
        page
    }

    /// Drops images and diffs of a page that no snapshot reads.
    fn trim(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let single = self.options.policy == Policy::Single && number != 1 && !self.snapshots.has_copies();
        self.bytes -= if single {
            slot.keep_newest()
        } else {
            slot.trim(self.horizon, |from, to| self.snapshots.any_between(from, to))
        };
        if slot.is_settled() {
            self.unsettled.remove(&number);
        }
    }

    /// Folds the diffs up to the horizon, for the next `limit` pages after `after`. Returns the last of them, or `None`
    /// when no page is left.
    pub(crate) fn settle(&mut self, after: u32, limit: usize) -> Option<u32> {
        let numbers: Vec<u32> =
            self.unsettled.range((Excluded(after), Unbounded)).take(limit).copied().collect();
        for &number in &numbers {
            let slot = self.slots.entry(number).or_default();
            self.bytes += slot.build(self.horizon).1;
            self.trim(number);
        }
        numbers.last().copied()
    }

    /// Above the byte bound: folds what can be folded, then evicts readers, the oldest first. A reader of the newest
    /// version holds nothing that its end would free.
    fn keep_bound(&mut self) {
        let max = self.options.max_bytes;
        while self.bytes > max.max(self.bound) {
            self.settle(0, usize::MAX);
            let oldest = self.snapshots.oldest();
            match oldest.filter(|oldest| oldest.at < self.received && self.bytes > max) {
                Some(oldest) => self.cut(oldest, Ended::Evicted),
                // Nothing is left to free: it is tried again when the store has grown, not at each read.
                None => self.bound = self.bytes + max / 64,
            }
        }
        if self.bytes <= max {
            self.bound = 0;
        }
    }

    /// Forgets the versions above `version`; their readers fail.
    pub(crate) fn discard_above(&mut self, version: Version) -> Result<(), Error> {
        if version >= self.received {
            return Ok(());
        }
        if !self.holds(version) {
            return Err(Error::Gone { at: version, oldest: self.oldest() });
        }
        for snapshot in self.snapshots.above(version) {
            self.cut(snapshot, Ended::Discarded);
        }
        let kept = self.bugs.has(Bug::DiscardedKept);
        for number in self.unsettled.iter().copied().filter(|_| !kept).collect::<Vec<_>>() {
            let slot = self.slots.entry(number).or_default();
            self.bytes -= slot.discard(version);
            if slot.is_empty() {
                self.slots.remove(&number);
            }
            self.trim(number);
        }
        self.arrive(version);
        Ok(())
    }

    /// Takes over images of another node.
    pub(crate) fn load(&mut self, at: Version, images: Vec<PageImage>) -> Result<(), Error> {
        if at < self.received {
            return Err(Error::Gone { at, oldest: self.received });
        }
        if let Some((_, newer, _)) = images.iter().find(|(_, version, _)| *version > at) {
            return Err(Error::Unreceived { at: *newer, received: at });
        }
        for (number, version, page) in images {
            let (added, freed) = self.slots.entry(number).or_default().replace(version, page);
            self.bytes = self.bytes + added - freed;
            self.unsettled.insert(number);
        }
        let before = (self.received, self.size);
        self.arrive(at);
        if before.0 < at && self.size < before.1 {
            self.clear_above(self.size, at);
        }
        self.loaded = at;
        self.acknowledge(at);
        self.keep_bound();
        Ok(())
    }

    /// `version` is the newest from now on, and its content is new.
    fn arrive(&mut self, version: Version) {
        self.received = version;
        self.acknowledged = self.acknowledged.min(version);
        self.generation += 1;
        self.size = self.size_at(version);
    }

    fn size_at(&self, at: Version) -> u32 {
        let first = self.slots.get(&1).and_then(|slot| slot.compose(at));
        first.map_or(0, |(_, page)| size_in_pages(&page))
    }

    /// The next page after `after` that was changed after `newer_than`, as the copy sees it.
    pub(crate) fn next_image(
        &self,
        copy: Snapshot,
        newer_than: Version,
        after: u32,
    ) -> Option<Result<PageImage, Ended>> {
        if let Err(cause) = self.snapshots.check(copy) {
            return (after < u32::MAX).then_some(Err(cause));
        }
        let size = self.size_at(copy.at);
        let slots = self.slots.range((Excluded(after), Unbounded)).take_while(|(number, _)| **number <= size);
        slots
            .filter_map(|(number, slot)| {
                slot.compose(copy.at).map(|(version, page)| (*number, version, page))
            })
            .find(|(_, version, _)| *version > newer_than)
            .map(Ok)
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert!(self.horizon <= self.acknowledged && self.acknowledged <= self.received);
        assert!(self.snapshots.oldest().is_none_or(|oldest| self.horizon <= oldest.at));
        assert_eq!(self.bytes, self.slots.values().map(Slot::recount).sum::<usize>());
        for (number, slot) in &self.slots {
            assert!(slot.is_settled() || self.unsettled.contains(number));
            assert!(slot.pins.iter().all(|owner| self.snapshots.has_pinned(*owner, *number)));
        }
    }

    /// Whether each page has one image and no diff.
    #[cfg(test)]
    pub(crate) fn is_folded(&self) -> bool {
        self.unsettled.is_empty() && self.slots.values().all(Slot::is_settled)
    }

    #[cfg(test)]
    pub(crate) fn max_bytes(&self) -> usize {
        self.options.max_bytes
    }
}
