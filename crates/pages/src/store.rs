//! The store: the versions under one lock, shared by all connections of a node.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::bugs::Bugs;
use crate::error::{Ended, Error, Gap};
use crate::page::{PAGE_SIZE, Page, ZERO};
use crate::snapshots::Snapshot;
use crate::versions::{Options, PageImage, Policy, Read, Versions};
use crate::write_set::{Version, WriteSet};

/// Longest wait of a reader for readers of an older version of the same page (policy `Single`).
pub const CONFLICT_WAIT: Duration = Duration::from_secs(1);

/// Pages that [`Store::examine`] folds before it lets readers pass.
const EXAMINED_AT_ONCE: usize = 64;

/// All versions of a database's pages. A clone is the same store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    policy: Policy,
    versions: Mutex<Versions>,
    /// A snapshot has ended.
    ended: Condvar,
}

impl Store {
    /// An empty store at version 0.
    pub fn new(options: Options) -> Store {
        Store::with_bugs(options, Bugs::default())
    }

    /// An empty store with planted bugs.
    pub fn with_bugs(options: Options, bugs: Bugs) -> Store {
        let (policy, versions) = (options.policy, Mutex::new(Versions::new(options, bugs)));
        Store { shared: Arc::new(Shared { policy, versions, ended: Condvar::new() }) }
    }

    /// The versions change in whole steps, and none of them panics on input: a lock that a panic has left is usable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Versions> {
        self.shared.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest version: all write sets up to it were received.
    pub fn received(&self) -> Version {
        self.lock().received
    }

    /// Queues the page diffs of the next version. No page changes until a reader asks for it.
    ///
    /// # Errors
    /// [`Gap`] when the write set is not that of version `received() + 1`. Nothing has changed then.
    pub fn receive(&self, set: WriteSet) -> Result<(), Gap> {
        let received = self.lock().receive(set);
        self.shared.ended.notify_all();
        received
    }

    /// Declares that no version up to `version` will be discarded, so that [`Store::examine`] may fold its diffs.
    /// [`Reader::begin`](crate::Reader::begin) does the same for its version.
    pub fn acknowledge(&self, version: Version) {
        self.lock().acknowledge(version);
    }

    /// Forgets the versions above `version` after a fail-over. Their readers fail with [`Error::Discarded`].
    ///
    /// # Errors
    /// [`Error::Gone`] when diffs above `version` were folded: the version was below an acknowledged one. Nothing has
    /// changed then.
    pub fn discard_above(&self, version: Version) -> Result<(), Error> {
        let discarded = self.lock().discard_above(version);
        self.shared.ended.notify_all();
        discarded
    }

    /// Applies the diffs up to the oldest snapshot or acknowledged version, whichever is older, and drops images that no
    /// snapshot needs. A background thread calls it.
    pub fn examine(&self) {
        let mut after = 0;
        while let Some(last) = { self.lock().settle(after, EXAMINED_AT_ONCE) } {
            after = last;
        }
    }

    /// Pages that were changed after version `newer_than`, as they are at version `at`: a checkpoint, or what a node at
    /// `newer_than` lacks. The snapshot is registered while the iterator lives.
    ///
    /// # Errors
    /// [`Error::Unreceived`] or [`Error::Gone`] when the store does not hold version `at`.
    pub fn images(&self, newer_than: Version, at: Version) -> Result<Images, Error> {
        let snapshot = self.lock().register_copy(at)?;
        Ok(Images { store: self.clone(), snapshot, newer_than, after: 0 })
    }

    /// Takes over the images that [`Store::images`] of another node gave for `at` and a `newer_than` that is at most this
    /// store's [`Store::received`]. Afterwards `at` is received and acknowledged. Readers of older versions go on.
    /// Write sets above `at` that arrive meanwhile must wait in the caller's queue.
    ///
    /// # Errors
    /// [`Error::Gone`] when `at` is older than the newest version, [`Error::Unreceived`] when an image is newer than `at`.
    /// Nothing has changed then.
    pub fn load(
        &self,
        at: Version,
        images: impl Iterator<Item = (u32, Version, Box<[u8; PAGE_SIZE]>)>,
    ) -> Result<(), Error> {
        let images = images.map(|(number, version, page)| (number, version, Arc::from(page))).collect();
        self.lock().load(at, images)
    }

    /// Hash of the database at version `at`: of the number and content of each page that is not all zero.
    ///
    /// # Errors
    /// [`Error::Unreceived`] or [`Error::Gone`] when the store does not hold version `at`.
    pub fn hash(&self, at: Version) -> Result<u64, Error> {
        let mut hash = 0;
        for image in self.images(0, at)? {
            let (number, _, page) = image?;
            if *page != ZERO {
                hash = mix(hash, number.into());
                hash =
                    page.as_chunks().0.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
            }
        }
        Ok(hash)
    }

    /// Bytes of images and diffs, with an estimate of what the store needs around them.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Registered snapshots of readers.
    pub fn readers(&self) -> usize {
        self.lock().snapshots.readers()
    }

    /// Version of the oldest registered reader.
    pub fn oldest_reader(&self) -> Option<Version> {
        self.lock().snapshots.oldest_reader()
    }

    /// Reads so far that had to wait for readers of an older version (policy `Single`).
    pub fn waits(&self) -> u64 {
        self.lock().waits
    }

    /// Registers a reader at `at`, a version that was acknowledged. Tag and registration are one step: the horizon cannot
    /// pass the snapshot in between.
    pub(crate) fn begin(&self, at: Version) -> Result<(Snapshot, u64), Error> {
        let mut versions = self.lock();
        let snapshot = versions.register(at)?;
        versions.acknowledge(at);
        Ok((snapshot, versions.generation))
    }

    pub(crate) fn policy(&self) -> Policy {
        self.shared.policy
    }

    /// Registers a reader of the newest version, which may still be discarded.
    pub(crate) fn begin_received(&self) -> Result<(Snapshot, u64), Error> {
        let mut versions = self.lock();
        let received = versions.received;
        Ok((versions.register(received)?, versions.generation))
    }

    pub(crate) fn end(&self, snapshot: Snapshot) {
        self.lock().end(snapshot);
        self.shared.ended.notify_all();
    }

    /// Page `number` at a snapshot. Waits for readers of older versions, at most [`CONFLICT_WAIT`].
    pub(crate) fn read(&self, snapshot: Snapshot, number: u32) -> Result<Option<Arc<Page>>, Ended> {
        let mut versions = self.lock();
        let mut answer = versions.read(snapshot, number);
        if let Ok(Read::Page(page)) = answer {
            return Ok(page);
        }
        versions.waits += u64::from(answer.is_ok());
        let waited = self.shared.ended.wait_timeout_while(versions, CONFLICT_WAIT, |versions| {
            answer = versions.read(snapshot, number);
            matches!(answer, Ok(Read::Wait))
        });
        let (mut versions, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let ended = match answer {
            Ok(Read::Page(page)) => return Ok(page),
            Ok(Read::Wait) => versions.give_up(snapshot),
            Err(ended) => ended,
        };
        drop(versions);
        self.shared.ended.notify_all();
        Err(ended)
    }

    /// Page `number` at the newest version, for the writer that began at `generation`.
    pub(crate) fn newest(&self, number: u32, generation: u64) -> Result<Option<Arc<Page>>, Ended> {
        let mut versions = self.lock();
        if versions.generation == generation { Ok(versions.newest(number)) } else { Err(Ended::Discarded) }
    }
}

/// A step of the hash: every bit of the word reaches every bit of the result.
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product as u64) ^ ((product >> 64) as u64)
}

/// Pages of one version, in ascending order. See [`Store::images`].
pub struct Images {
    store: Store,
    snapshot: Snapshot,
    newer_than: Version,
    after: u32,
}

impl Iterator for Images {
    /// [`Error::Discarded`] or [`Error::Evicted`] when the snapshot was ended: the pages so far are no whole version.
    type Item = Result<PageImage, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.store.lock().next_image(self.snapshot, self.newer_than, self.after)?;
        self.after = next.as_ref().map_or(u32::MAX, |(number, ..)| *number);
        Some(next.map_err(Error::from))
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        self.store.end(self.snapshot);
    }
}
