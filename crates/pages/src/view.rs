//! One version of the pages without a connection of SQLite: for tools that read pages themselves.

use std::sync::Arc;

use crate::error::Error;
use crate::page::Page;
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::write_set::Version;

/// A reader of pages at one version, registered while it lives.
pub struct View {
    store: Store,
    snapshot: Snapshot,
}

impl View {
    /// Registers a reader at `at`, an acknowledged version, or at the oldest version that is held when that one has gone.
    ///
    /// # Errors
    /// [`Error::Unreceived`] when the store has not received `at` yet.
    pub fn begin(store: &Store, at: Version) -> Result<View, Error> {
        let (snapshot, _) = store.begin(at)?;
        Ok(View { store: store.clone(), snapshot })
    }

    /// The version that is read.
    pub fn at(&self) -> Version {
        self.snapshot.at
    }

    /// Page `number`; `None` when nothing was written there.
    ///
    /// # Errors
    /// The snapshot was ended: [`Error::Evicted`], [`Error::Conflict`] or [`Error::Discarded`].
    pub fn page(&self, number: u32) -> Result<Option<Arc<Page>>, Error> {
        self.store.read(self.snapshot, number).map_err(Error::from)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.store.end(self.snapshot);
    }
}
