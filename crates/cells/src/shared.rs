//! State that the transactions of a database and its driver share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::Ledger;
use stores::{Reads, Store};
use tokio::sync::{Notify, RwLock, watch};

use crate::newest_cells::NewestCells;
use crate::oracle::Oracle;
use crate::ownership::Ownership;
use crate::versions::Versions;
use crate::{Error, Options};

/// Tells the driver to end when the last user is gone.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.ends();
    }
}

/// State that transactions and the driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ledger: Ledger,
    pub(crate) options: Options,
    pub(crate) ownership: Ownership,
    oracle: Mutex<Oracle>,
    versions: Mutex<Versions>,
    /// Only the driver asks.
    newest_cells: Mutex<NewestCells>,
    /// Reads of a store with weak reads hold it shared; what the store has settled is dropped while it is held alone.
    pub(crate) settling: RwLock<()>,
    /// The flushed timestamp, for those who wait for it.
    pub(crate) flushed: watch::Sender<u64>,
    /// Wakes the driver.
    pub(crate) work: Notify,
    /// Whether the driver is to end, and whether it has ended.
    pub(crate) ending: Arc<watch::Sender<Ending>>,
}

/// The end of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Open,
    Closing,
    Closed,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        ledger: Ledger,
        options: Options,
        ownership: Ownership,
        oracle: Oracle,
        versions: Versions,
    ) -> Shared {
        let (flushed, _) = watch::channel(oracle.flushed());
        let (ending, _) = watch::channel(Ending::Open);
        Shared {
            store,
            ledger,
            options,
            ownership,
            oracle: Mutex::new(oracle),
            versions: Mutex::new(versions),
            newest_cells: Mutex::new(NewestCells::new(options.newest_cells_size, options.bugs)),
            settling: RwLock::new(()),
            flushed,
            work: Notify::new(),
            ending: Arc::new(ending),
        }
    }

    pub(crate) fn oracle(&self) -> MutexGuard<'_, Oracle> {
        locked(&self.oracle)
    }

    pub(crate) fn versions(&self) -> MutexGuard<'_, Versions> {
        locked(&self.versions)
    }

    pub(crate) fn newest_cells(&self) -> MutexGuard<'_, NewestCells> {
        locked(&self.newest_cells)
    }

    pub(crate) fn is_weak(&self) -> bool {
        self.store.reads() == Reads::Weak
    }

    /// Takes no transactions any more, and ends those that wait.
    pub(crate) fn stop(&self, error: &Error) {
        self.oracle().stop(error);
        self.ends();
    }

    /// Tells the driver to end.
    pub(crate) fn ends(&self) {
        self.ending.send_if_modified(|ending| {
            let is_first = *ending == Ending::Open;
            *ending = (*ending).max(Ending::Closing);
            is_first
        });
        self.work.notify_one();
    }
}

/// No code under a lock panics half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
