//! Recovery: opens the ledger, claims the store, and flushes the ledger's records again. The redo is idempotent: a cell
//! that the store has already, or a newer one, stays.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use disk::Disk;
use ledger::{Ledger, Reader, Steps};
use stores::{Cell, Reads, Store};

use crate::bugs::Bug;
use crate::database::Database;
use crate::driver::Driver;
use crate::oracle::Oracle;
use crate::ownership::{self, Owner, Ownership, points};
use crate::shared::Shared;
use crate::versions::Versions;
use crate::write_set::WriteSet;
use crate::{Error, Options};

/// Records whose cells are put together.
const REDO_RECORDS: usize = 1_000;
/// Records between two lines of progress in the log.
const PROGRESS_RECORDS: u64 = 100_000;

impl Database {
    /// Opens the database whose ledger is in the folder, which is made if it is missing. Flushes the ledger's records
    /// again. Starts a task, so it needs a tokio runtime with timers.
    ///
    /// # Errors
    /// [`Error::Ledger`] if another process has the folder open or a record is damaged, [`Error::StoreTaken`] if the store
    /// belongs to another database, [`Error::Store`] if the store fails.
    pub async fn open(store: Arc<dyn Store>, folder: &Path, options: Options) -> Result<Database, Error> {
        let (database, driver) = open(store, &Disk::new(), folder, options, false).await?;
        drop(tokio::spawn(driver.run()));
        Ok(database)
    }

    /// Opens it for a simulation, see [`Database::open`]: the caller runs the driver, and steps the ledger.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub async fn open_stepped(
        store: Arc<dyn Store>,
        disk: &Disk,
        folder: &Path,
        options: Options,
    ) -> Result<(Database, Driver, Steps), Error> {
        let (database, mut driver) = open(store, disk, folder, options, true).await?;
        let steps = driver.steps.take().expect("a stepped ledger has steps");
        Ok((database, driver, steps))
    }
}

/// Opens a database, and returns the driver that flushes its commits.
pub(crate) async fn open(
    store: Arc<dyn Store>,
    disk: &Disk,
    folder: &Path,
    options: Options,
    is_stepped: bool,
) -> Result<(Database, Driver), Error> {
    let (ledger, reader, steps) = open_ledger(disk, folder, options.segment_size, is_stepped)?;
    let identity = ownership::identity(disk, folder)?;
    let (ownership, newest) = claim(&*store, identity, &ledger, options.adopt).await?;
    let floor = ledger.oldest().map_or(newest, |oldest| oldest.get() - 1);
    let mut oracle = Oracle::new(floor, &options);
    let mut versions = Versions::new(options.versions_size, store.reads() == Reads::Weak);
    redo(&*store, reader, &mut oracle, &mut versions, options).await?;
    let shared = Arc::new(Shared::new(store, ledger, options, ownership, oracle, versions));
    let driver = Driver::new(Arc::clone(&shared), steps);
    Ok((Database::new(shared), driver))
}

/// Opens the ledger. Only one process has a folder open.
fn open_ledger(
    disk: &Disk,
    folder: &Path,
    segment_size: u64,
    is_stepped: bool,
) -> Result<(Ledger, Reader, Option<Steps>), Error> {
    let made = disk.create_folder(points::FOLDER, folder);
    made.map_err(|error| Error::Folder { reason: format!("cannot make {}: {error}", folder.display()) })?;
    let folder = folder.join("ledger");
    let options = ledger::Options { segment_size };
    if is_stepped {
        let (ledger, reader, steps) = Ledger::open_stepped(&folder, disk, options)?;
        return Ok((ledger, reader, Some(steps)));
    }
    let (ledger, reader) = Ledger::open_with(&folder, disk, options)?;
    Ok((ledger, reader, None))
}

/// Claims the store, unless it belongs to another database. Returns the newest timestamp of ledger and store.
async fn claim(
    store: &dyn Store,
    identity: String,
    ledger: &Ledger,
    adopt: bool,
) -> Result<(Ownership, u64), Error> {
    let newest = ledger.newest().get();
    let taken = |reason: &str| Err(Error::StoreTaken { reason: reason.to_owned() });
    let epoch = match ownership::owner(store, &identity).await? {
        Owner::This(epoch) => epoch,
        Owner::Absent if newest == 0 => 0,
        Owner::Absent => return taken("the mark of the database whose ledger is in the folder is missing"),
        Owner::Other(_, epoch) if adopt && newest == 0 => epoch,
        Owner::Other(..) if adopt => {
            return taken("only a database with an empty ledger adopts another one's store");
        }
        Owner::Other(other, _) => return taken(&format!("the owner is database {other}")),
    };
    let highest = if newest == 0 { store.highest_timestamp().await? } else { 0 };
    let ownership = ownership::claim(store, identity, epoch + 1).await?;
    Ok((ownership, newest.max(highest)))
}

/// Puts the cells of all records again, oldest first, and remembers their items.
async fn redo(
    store: &dyn Store,
    reader: Reader,
    oracle: &mut Oracle,
    versions: &mut Versions,
    options: Options,
) -> Result<(), Error> {
    let mut records = reader.peekable();
    let mut done = 0;
    while records.peek().is_some() {
        let mut cells: BTreeMap<Bytes, Cell> = BTreeMap::new();
        for record in records.by_ref().take(REDO_RECORDS) {
            let record = record?;
            let timestamp = record.version.get();
            let writes = WriteSet::of_record(record.bytes).map_err(|error| Error::Folder {
                reason: format!("the ledger's record {timestamp} cannot be read: {error}"),
            })?;
            oracle.restore(timestamp, &writes);
            cells.extend(writes.cells(timestamp));
            done += 1;
            if done % PROGRESS_RECORDS == 0 {
                tracing::info!(records = done, timestamp, "recovering");
            }
        }
        let cells: Vec<_> = cells.into_iter().collect();
        if !options.bugs.has(Bug::RedoSkipped) {
            store.put_if_newer(&cells).await?;
        }
        versions.recovered(&cells);
    }
    if done > 0 {
        tracing::info!(records = done, timestamp = oracle.flushed(), "recovered");
    }
    Ok(())
}
