//! One page's images and diffs: the page at any version above the horizon can be composed of them.
//!
//! ```text
//!    versions   ... 811     812     813     814     815
//!    diffs           .       .      d813     .      d815      queue: kept until the horizon has passed them
//!    images         i809 . . . . .  i813                      cache: an image counts until the next diff
//!    horizon                 ^ 812: no snapshot is older
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use crate::diff;
use crate::page::{PAGE_SIZE, Page, ZERO};
use crate::write_set::Version;

/// Estimated bytes around the content of an image, and around the runs of a diff.
const OVERHEAD: usize = 48;
/// Estimated bytes of an image.
const IMAGE: usize = PAGE_SIZE + OVERHEAD;

/// The state of one page. Invariants:
///
/// - `images` and `queue` ascend by version.
/// - The page at each version from `floor` and the horizon on can be composed of an image and the diffs after it. Before
///   the first image stands a page of zeros, at version 0.
/// - `pins` are owners of snapshots that have read the page (policy `Single`).
#[derive(Default)]
pub(crate) struct Slot {
    images: Vec<Image>,
    queue: VecDeque<Diff>,
    pub(crate) floor: Version,
    pub(crate) pins: Vec<u64>,
}

struct Image {
    version: Version,
    page: Arc<Page>,
}

/// A change of the page. Without runs it makes the page one of zeros: the database has become shorter.
struct Diff {
    version: Version,
    runs: Box<[u8]>,
}

impl Slot {
    /// Adds the diff of the newest version. Returns its bytes.
    pub(crate) fn push(&mut self, version: Version, runs: Box<[u8]>) -> usize {
        let bytes = runs.len() + OVERHEAD;
        self.queue.push_back(Diff { version, runs });
        bytes
    }

    /// Diffs that lead from the newest image at or before `at` to `at`, as places in the queue.
    fn pending(&self, at: Version) -> (Option<&Image>, std::ops::Range<usize>) {
        let image = self.images.partition_point(|image| image.version <= at).checked_sub(1);
        let image = image.map(|place| &self.images[place]);
        let version = image.map_or(0, |image| image.version);
        let from = self.queue.partition_point(|diff| diff.version <= version);
        let to = self.queue.partition_point(|diff| diff.version <= at);
        (image, from..to)
    }

    /// Whether diffs must be applied for the page at `at`.
    pub(crate) fn is_behind(&self, at: Version) -> bool {
        !self.pending(at).1.is_empty()
    }

    /// The page at `at`, with the version that made it; `None` when nothing was written yet.
    pub(crate) fn compose(&self, at: Version) -> Option<(Version, Arc<Page>)> {
        let (image, pending) = self.pending(at);
        let Some(last) = self.queue.range(pending.clone()).next_back() else {
            return image.map(|image| (image.version, image.page.clone()));
        };
        let mut page = image.map_or_else(|| Arc::new(ZERO), |image| image.page.clone());
        let bytes = Arc::make_mut(&mut page);
        for diff in self.queue.range(pending) {
            if diff.runs.is_empty() {
                *bytes = ZERO;
            }
            diff::apply(&diff.runs, bytes);
        }
        Some((last.version, page))
    }

    /// Composes the page at `at` and keeps the image. Returns the image and the bytes that were added.
    pub(crate) fn build(&mut self, at: Version) -> (Option<Arc<Page>>, usize) {
        let behind = self.is_behind(at);
        let Some((version, page)) = self.compose(at) else { return (None, 0) };
        if behind {
            self.insert(version, page.clone());
        }
        (Some(page), if behind { IMAGE } else { 0 })
    }

    fn insert(&mut self, version: Version, page: Arc<Page>) {
        let place = self.images.partition_point(|image| image.version < version);
        self.images.insert(place, Image { version, page });
    }

    /// Takes a page from another node's images: what is here of that version and later ones gives way.
    pub(crate) fn replace(&mut self, version: Version, page: Arc<Page>) -> (usize, usize) {
        let freed = self.discard(version.saturating_sub(1));
        self.insert(version, page);
        (IMAGE, freed)
    }

    /// Drops images and diffs above `version`. Returns their bytes.
    pub(crate) fn discard(&mut self, version: Version) -> usize {
        let images = self.images.partition_point(|image| image.version <= version);
        let diffs = self.queue.partition_point(|diff| diff.version <= version);
        let freed =
            (self.images.len() - images) * IMAGE + self.queue.range(diffs..).map(weight).sum::<usize>();
        self.images.truncate(images);
        self.queue.truncate(diffs);
        freed
    }

    /// Drops diffs that the horizon has passed, once an image holds them, and images that neither `is_read` (from a
    /// version, up to another one) nor the horizon needs. The newest image stays. Returns the bytes.
    pub(crate) fn trim(&mut self, horizon: Version, is_read: impl Fn(Version, Version) -> bool) -> usize {
        let base = self.images.partition_point(|image| image.version <= horizon).checked_sub(1);
        let mut freed = base.map_or(0, |base| self.pass(self.images[base].version));
        if self.images.len() == 1 {
            return freed;
        }
        let versions: Vec<Version> = self.images.iter().map(|image| image.version).collect();
        let needed = |place: usize| {
            let is_cache = base.is_none_or(|base| place > base);
            Some(place) == base
                || is_cache && versions.get(place + 1).is_none_or(|next| is_read(versions[place], *next))
        };
        let mut places = 0..;
        self.images.retain(|_| places.next().is_some_and(needed));
        freed += (versions.len() - self.images.len()) * IMAGE;
        freed
    }

    /// Keeps the newest image alone: the single copy of policy `Single`. Returns the bytes that were freed.
    pub(crate) fn keep_newest(&mut self) -> usize {
        let Some(newest) = self.images.last() else { return 0 };
        self.floor = newest.version;
        let dropped = self.images.len() - 1;
        self.images.drain(..dropped);
        self.pass(self.floor) + dropped * IMAGE
    }

    /// Drops the diffs up to `version`.
    fn pass(&mut self, version: Version) -> usize {
        let passed = self.queue.partition_point(|diff| diff.version <= version);
        self.queue.drain(..passed).map(|diff| weight(&diff)).sum()
    }

    /// One image or none, and no diff: nothing to fold.
    pub(crate) fn is_settled(&self) -> bool {
        self.images.len() <= 1 && self.queue.is_empty()
    }

    /// Bytes of the images and diffs, counted again.
    #[cfg(test)]
    pub(crate) fn recount(&self) -> usize {
        self.images.len() * IMAGE + self.queue.iter().map(weight).sum::<usize>()
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.images.is_empty() && self.queue.is_empty()
    }
}

fn weight(diff: &Diff) -> usize {
    diff.runs.len() + OVERHEAD
}
