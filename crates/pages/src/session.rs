//! The database file as one connection sees it: a snapshot or the writer's newest version, and an overlay of pages that
//! the connection has written.
//!
//! SQLite keeps its page cache while bytes 24 to 40 of page 1 are what it knows. The change counter in them is this
//! session's own **stamp**: it changes exactly when the connection sees other pages than before. Page 1 is kept with
//! counters of zero, so that a transaction ships it only when something else in it has changed.

use std::collections::BTreeMap;
use std::mem::{MaybeUninit, take};
use std::ops::Range;
use std::sync::Arc;

use crate::diff;
use crate::error::{Ended, Error};
use crate::page::{COUNTERS, PAGE_SIZE, Page, ZERO, size_in_pages};
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::versions::Policy;
use crate::write_set::{PageDiff, Version, WriteSet};

/// The pages that a connection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// Nothing: no transaction has begun.
    Closed,
    /// The pages of a registered snapshot.
    Snapshot(Snapshot),
    /// The newest version of the store, and above it the commits of this writer that the store has not received.
    Newest,
}

/// One connection's view. Invariants:
///
/// - `stamp` is the counter that SQLite read or wrote last, or a later one when the pages are no longer those.
/// - `overlay` holds pages that SQLite wrote at COMMIT and that no caller has taken; they hide all others.
/// - `unpublished` holds pages of the versions up to `made`, newer than the store's when `begin` looked.
pub(crate) struct Session {
    store: Store,
    view: View,
    stamp: u32,
    /// Generation of the store and version that the connection's cache was filled at.
    seen: (u64, Version),
    overlay: BTreeMap<u32, Arc<Page>>,
    unpublished: BTreeMap<u32, (Version, Arc<Page>)>,
    made: Version,
    /// Page 1 of the view; `None` when it was not asked for yet.
    first: Option<Option<Arc<Page>>>,
    /// The first failure of a page read.
    failure: Option<Ended>,
    /// The connection may hold a schema that the cookie in page 1 does not tell from the right one.
    stale_schema: bool,
    /// SQLite has the file open.
    pub(crate) is_open: bool,
}

impl Session {
    pub(crate) fn new(store: &Store) -> Session {
        Session {
            store: store.clone(),
            view: View::Closed,
            stamp: 1,
            seen: (0, 0),
            overlay: BTreeMap::new(),
            unpublished: BTreeMap::new(),
            made: 0,
            first: None,
            failure: None,
            stale_schema: false,
            is_open: false,
        }
    }

    /// Registers a snapshot at `at`, or later when that version has gone, and shows it. Returns its version.
    pub(crate) fn show_snapshot(&mut self, at: Version) -> Result<Version, Error> {
        self.close();
        let (snapshot, generation) = self.store.begin(at)?;
        self.view = View::Snapshot(snapshot);
        let again = self.store.policy() == Policy::Single;
        self.see((generation, snapshot.at), again);
        Ok(snapshot.at)
    }

    /// Registers and shows the newest version that was received, acknowledged or not.
    pub(crate) fn show_received(&mut self) -> Result<(), Error> {
        let (snapshot, generation) = self.store.begin_received()?;
        self.view = View::Snapshot(snapshot);
        self.see((generation, snapshot.at), true);
        Ok(())
    }

    /// Shows the newest version that the writer has made, or that the store has received if it is newer.
    pub(crate) fn show_newest(&mut self) {
        let (received, generation) = {
            let versions = self.store.lock();
            (versions.received, versions.generation)
        };
        if generation != self.seen.0 {
            self.drop_unpublished();
        }
        self.unpublished.retain(|_, (version, _)| *version > received);
        self.made = self.made.max(received);
        self.view = View::Newest;
        self.see((generation, self.made), false);
    }

    /// `again`: pages are read again, although the version is the same (policy `Single` counts readers of a page).
    fn see(&mut self, now: (u64, Version), again: bool) {
        self.stale_schema |= now.0 != self.seen.0;
        self.failure = None;
        if again || now != self.seen {
            self.seen = now;
            self.changed();
        }
    }

    /// The connection sees other pages than its cache holds.
    fn changed(&mut self) {
        self.stamp = self.stamp.wrapping_add(1).max(1);
        self.first = None;
    }

    /// Ends the view. What was written and not taken is dropped.
    pub(crate) fn close(&mut self) {
        self.drop_overlay();
        if let View::Snapshot(snapshot) = std::mem::replace(&mut self.view, View::Closed) {
            self.store.end(snapshot);
        }
    }

    /// Drops what was written and not taken. Another version may later have the same counter in page 1: the cache must
    /// not take the dropped pages for those, nor the dropped schema.
    fn drop_overlay(&mut self) {
        if !take(&mut self.overlay).is_empty() {
            self.stale_schema = true;
            self.changed();
        }
    }

    /// Drops the versions that the store has not received.
    pub(crate) fn drop_unpublished(&mut self) {
        self.unpublished.clear();
        self.made = self.store.received();
        self.stale_schema = true;
        self.changed();
    }

    pub(crate) fn made(&self) -> Version {
        self.made
    }

    pub(crate) fn failure(&self) -> Option<Ended> {
        self.failure
    }

    pub(crate) fn has_stale_schema(&self) -> bool {
        self.stale_schema
    }

    /// SQLite has forgotten the schema of the connection.
    pub(crate) fn schema_was_reset(&mut self) {
        self.stale_schema = false;
    }

    /// Takes what SQLite wrote at COMMIT as the next version. `None` when no byte has changed.
    pub(crate) fn take_write_set(&mut self) -> Result<Option<WriteSet>, Ended> {
        let taken = self.diff_overlay();
        if taken.is_err() {
            self.stale_schema = true;
            self.changed();
        }
        taken
    }

    fn diff_overlay(&mut self) -> Result<Option<WriteSet>, Ended> {
        let size = self.size()?;
        let overlay = take(&mut self.overlay);
        self.first = None;
        let before = self.size()?;
        let version = self.made + 1;
        let mut pages = Vec::new();
        for (number, page) in overlay.range(..=size) {
            let old = self.page(*number)?;
            let runs = diff::encode(old.as_deref().filter(|_| *number <= before).unwrap_or(&ZERO), page);
            if !runs.is_empty() {
                pages.push(PageDiff { number: *number, runs: runs.into() });
            }
        }
        if pages.is_empty() {
            return Ok(None);
        }
        self.unpublished.extend(overlay.into_iter().map(|(number, page)| (number, (version, page))));
        self.unpublished.extend((size + 1..=before).map(|number| (number, (version, Arc::new(ZERO)))));
        self.made = version;
        self.seen.1 = version;
        self.first = None;
        Ok(Some(WriteSet { version, size, pages }))
    }

    /// Page `number` of the view.
    fn page(&mut self, number: u32) -> Result<Option<Arc<Page>>, Ended> {
        if let Some(page) = self.overlay.get(&number) {
            return Ok(Some(page.clone()));
        }
        let page = match self.view {
            View::Closed => Err(Ended::Closed),
            View::Snapshot(snapshot) => self.store.read(snapshot, number),
            View::Newest => match self.unpublished.get(&number) {
                Some((_, page)) => Ok(Some(page.clone())),
                None => self.store.newest(number, self.seen.0),
            },
        };
        page.inspect_err(|ended| self.failure = self.failure.or(Some(*ended)))
    }

    /// Page 1, which SQLite looks at in each transaction.
    fn first(&mut self) -> Result<Option<Arc<Page>>, Ended> {
        if self.first.is_none() {
            self.first = Some(self.page(1)?);
        }
        Ok(self.first.clone().flatten())
    }

    /// Size of the database in pages.
    pub(crate) fn size(&mut self) -> Result<u32, Ended> {
        Ok(self.first()?.map_or(0, |page| size_in_pages(&page)))
    }

    /// Whether a transaction may read.
    pub(crate) fn lock(&mut self) -> Result<(), Ended> {
        if self.view == View::Closed {
            self.failure = Some(Ended::Closed);
            return Err(Ended::Closed);
        }
        Ok(())
    }

    /// Reads bytes of one page. Bytes above the database's end are zero; returns whether there were any.
    pub(crate) fn read(&mut self, offset: u64, into: &mut [MaybeUninit<u8>]) -> Result<bool, Ended> {
        let (number, range) = place(offset, into.len());
        let Some(range) = range else { return Err(Ended::Closed) };
        let page = if number == 1 { self.first()? } else { self.page(number)? };
        let is_short = page.is_none() && number > self.size()?;
        into.write_copy_of_slice(&page.as_deref().unwrap_or(&ZERO)[range.clone()]);
        if number == 1 && page.is_some() {
            for (place, byte) in COUNTERS.iter().flat_map(|start| (*start..).zip(self.stamp.to_be_bytes())) {
                if range.contains(&place) {
                    into[place - range.start].write(byte);
                }
            }
        }
        Ok(is_short)
    }

    /// Writes one whole page. Returns whether it was one.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) -> bool {
        let (Ok(mut page), (number, Some(_))) = (Page::try_from(from), place(offset, from.len())) else {
            return false;
        };
        if self.view == View::Closed {
            return false;
        }
        if number == 1 {
            let [counter, _] = COUNTERS.map(|start| {
                let field = &mut page[start..start + 4];
                let counter = u32::from_be_bytes([field[0], field[1], field[2], field[3]]);
                field.fill(0);
                counter
            });
            self.stamp = counter;
            self.first = None;
        }
        self.overlay.insert(number, Arc::new(page));
        true
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

/// Number of the page at `offset`, and the range in it; no range when it leaves the page.
fn place(offset: u64, length: usize) -> (u32, Option<Range<usize>>) {
    let number = offset / PAGE_SIZE as u64 + 1;
    let start = (offset % PAGE_SIZE as u64) as usize;
    let inside = start + length <= PAGE_SIZE && number <= u32::MAX.into();
    (number as u32, inside.then_some(start..start + length))
}
