//! The embedded store: one file of the library redb, a B-tree with copy-on-write pages.
//!
//! Puts are acknowledged before they are on the disk: the ledger has them. [`Store::sync`] makes them durable. A read
//! sees the last put batch and takes no lock that a put holds. Each read is short, so that the file does not grow for a
//! long reader: old versions are not the store's business.

use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::{BufMut, Bytes};
use redb::{
    Database, DatabaseError, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition,
    TableError, WriteTransaction,
};

use crate::{Cell, Description, Direction, KeyRange, KeyedCell, Reads, Store, StoreError};

/// Cells by key: timestamp, a byte that is 1 for a value, the value.
const CELLS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("cells");
/// Tombstones by timestamp (big-endian) and key. An entry may be out of date: the cell decides.
const TOMBSTONES: TableDefinition<'_, &[u8], ()> = TableDefinition::new("tombstones");
/// Figures by name.
const FIGURES: TableDefinition<'_, &str, u64> = TableDefinition::new("figures");
/// The name of the highest timestamp.
const HIGHEST: &str = "highest timestamp";

/// Length of a timestamp.
const TIMESTAMP: usize = 8;

/// Settings of an embedded store.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedOptions {
    /// Size of the cache of pages, in bytes. Default 256 MiB.
    pub cache_size: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> EmbeddedOptions {
        EmbeddedOptions { cache_size: 256 << 20 }
    }
}

type CellTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A store in a file. One process has it open.
pub struct EmbeddedStore {
    path: PathBuf,
    /// `None` after a close.
    open: RwLock<Option<Open>>,
}

/// An open file.
#[derive(Clone)]
struct Open {
    database: Arc<Database>,
    /// The cells as the last put left them: reads share it, since to open one takes longer than to read a cell.
    cells: Arc<CellTable>,
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Opens the store in a file, which is made if it is missing. Its folder must be there. After a crash this repairs the
    /// file, which takes a moment.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if another process has the file open, or if it is no store or cannot be used.
    pub fn open(path: &Path, options: EmbeddedOptions) -> Result<EmbeddedStore, StoreError> {
        let database = create(path, options)?;
        let tables = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            transaction.open_table(CELLS)?;
            transaction.open_table(TOMBSTONES)?;
            transaction.open_table(FIGURES)?;
            Ok(transaction.commit()?)
        };
        tables().map_err(|error| refused(path, &error))?;
        let cells = Arc::new(cells_of(&database).map_err(|error| refused(path, &error))?);
        let open = Open { database: Arc::new(database), cells };
        Ok(EmbeddedStore { path: path.to_owned(), open: RwLock::new(Some(open)) })
    }

    /// Gives free space in the file of a closed store back to the system; returns whether there was any. Takes as long as
    /// it takes to move the cells.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`].
    pub fn compact(path: &Path, options: EmbeddedOptions) -> Result<bool, StoreError> {
        create(path, options)?.compact().map_err(|error| refused(path, &error))
    }

    fn opened(&self) -> Result<Open, StoreError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| StoreError::refused("the store is closed"))
    }

    fn cells(&self) -> Result<Arc<CellTable>, StoreError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let cells = open.as_ref().map(|open| Arc::clone(&open.cells));
        cells.ok_or_else(|| StoreError::refused("the store is closed"))
    }

    /// Shows later reads what has been put. A reader of older cells would keep their pages from being used again. The lock
    /// is held while the cells are opened: of two puts the later one stays.
    fn shows_cells(&self) -> Result<(), StoreError> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &mut *open {
            let cells = cells_of(&open.database).map_err(|error| refused(&self.path, &error))?;
            open.cells = Arc::new(cells);
        }
        Ok(())
    }

    /// Runs what blocks apart from the runtime's threads.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (Open { database, .. }, path) = (self.opened()?, self.path.clone());
        let done =
            tokio::task::spawn_blocking(move || work(&database).map_err(|error| refused(&path, &error)))
                .await;
        done.unwrap_or_else(|error| Err(StoreError::unknown(error)))
    }

    /// The same for work that changes cells.
    async fn changing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.blocking(work).await?;
        self.shows_cells()?;
        Ok(done)
    }
}

/// The cells as they are now.
fn cells_of(database: &Database) -> Result<CellTable, redb::Error> {
    let table = database.begin_read()?.open_table(CELLS);
    table.map_err(|error: TableError| error.into())
}

fn create(path: &Path, options: EmbeddedOptions) -> Result<Database, StoreError> {
    let mut builder = Database::builder();
    builder.set_cache_size(options.cache_size);
    builder.create(path).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => {
            StoreError::refused(format!("{}: another process has the file open", path.display()))
        }
        error => refused(path, &error),
    })
}

/// After a write that failed redb takes no other one: the file must be opened again.
fn refused(path: &Path, error: &dyn fmt::Display) -> StoreError {
    let reason = format!("{}: {error}", path.display());
    match reason.contains(&redb::StorageError::PreviousIo.to_string()) {
        true => StoreError::Failed { reason },
        false => StoreError::refused(reason),
    }
}

fn encoded(cell: &Cell) -> Vec<u8> {
    let value = cell.value.as_deref().unwrap_or_default();
    let mut bytes = Vec::with_capacity(TIMESTAMP + 1 + value.len());
    bytes.put_u64_le(cell.timestamp);
    bytes.put_u8(u8::from(cell.value.is_some()));
    bytes.put_slice(value);
    bytes
}

fn timestamp(bytes: &[u8]) -> u64 {
    let bytes = bytes.first_chunk::<TIMESTAMP>();
    u64::from_le_bytes(*bytes.expect("a cell begins with its timestamp"))
}

fn decoded(bytes: &[u8]) -> Cell {
    let value = (bytes[TIMESTAMP] == 1).then(|| Bytes::copy_from_slice(&bytes[TIMESTAMP + 1..]));
    Cell { timestamp: timestamp(bytes), value }
}

fn tombstone_entry(timestamp: u64, key: &[u8]) -> Vec<u8> {
    [&timestamp.to_be_bytes()[..], key].concat()
}

/// Puts newer cells. The write transaction is not synced.
fn put(database: &Database, batch: &[KeyedCell]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::None)?;
    put_in(&transaction, batch)?;
    Ok(transaction.commit()?)
}

fn put_in(transaction: &WriteTransaction, batch: &[KeyedCell]) -> Result<(), redb::Error> {
    let mut cells = transaction.open_table(CELLS)?;
    let mut tombstones = None;
    let mut highest = 0;
    for (key, cell) in batch {
        // One descent for both: an older cell than the one there is rare, and is taken back.
        let before = cells.insert(&key[..], &encoded(cell)[..])?;
        let newer = before.filter(|before| timestamp(before.value()) >= cell.timestamp);
        if let Some(newer) = newer.map(|newer| newer.value().to_vec()) {
            cells.insert(&key[..], &newer[..])?;
            continue;
        }
        highest = highest.max(cell.timestamp);
        if cell.is_tombstone() {
            let table = match &mut tombstones {
                Some(table) => table,
                none => none.insert(transaction.open_table(TOMBSTONES)?),
            };
            table.insert(&tombstone_entry(cell.timestamp, key)[..], ())?;
        }
    }
    let mut figures = transaction.open_table(FIGURES)?;
    let before = figures.get(HIGHEST)?.map_or(0, |figure| figure.value());
    if highest > before {
        figures.insert(HIGHEST, highest)?;
    }
    Ok(())
}

/// Removes tombstones below a timestamp, and their entries.
fn drop_below(database: &Database, below: u64) -> Result<u64, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::None)?;
    let mut dropped = 0;
    {
        let mut cells = transaction.open_table(CELLS)?;
        let mut tombstones = transaction.open_table(TOMBSTONES)?;
        let end = below.to_be_bytes();
        let mut old = Vec::new();
        for entry in tombstones.range::<&[u8]>(..&end[..])? {
            old.push(entry?.0.value().to_vec());
        }
        for entry in old {
            let (stamp, key) = entry.split_at(TIMESTAMP);
            let expected =
                encoded(&Cell::tombstone(u64::from_be_bytes(stamp.try_into().unwrap_or_default())));
            let is_current = cells.get(key)?.is_some_and(|cell| cell.value() == &expected[..]);
            if is_current {
                cells.remove(key)?;
                dropped += 1;
            }
            tombstones.remove(&entry[..])?;
        }
    }
    transaction.commit()?;
    Ok(dropped)
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, key: &[u8]) -> Result<Option<Cell>, StoreError> {
        let found = self.cells()?.get(key).map_err(|error| refused(&self.path, &error))?;
        Ok(found.map(|found| decoded(found.value())))
    }

    async fn get_many(&self, keys: &[Bytes]) -> Result<Vec<Option<Cell>>, StoreError> {
        let cells = self.cells()?;
        let get = |key: &Bytes| Ok(cells.get(&key[..])?.map(|found| decoded(found.value())));
        let all: Result<_, redb::StorageError> = keys.iter().map(get).collect();
        all.map_err(|error| refused(&self.path, &error))
    }

    async fn put_if_newer(&self, batch: &[KeyedCell]) -> Result<(), StoreError> {
        // Neighbouring keys share pages.
        let mut batch = batch.to_vec();
        batch.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.changing(move |database| put(database, &batch)).await
    }

    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyedCell>, StoreError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let cells = self.cells()?;
        let to = range.to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(&to[..]));
        let page = || -> Result<Vec<KeyedCell>, redb::StorageError> {
            let mut found = cells.range::<&[u8]>((Bound::Included(&range.from[..]), to))?;
            let mut page = Vec::new();
            while page.len() < limit {
                let next = match direction {
                    Direction::Forward => found.next(),
                    Direction::Reverse => found.next_back(),
                };
                let Some(next) = next else { break };
                let (key, cell) = next?;
                page.push((Bytes::copy_from_slice(key.value()), decoded(cell.value())));
            }
            Ok(page)
        };
        page().map_err(|error| refused(&self.path, &error))
    }

    async fn drop_tombstones(&self, below: u64) -> Result<u64, StoreError> {
        self.changing(move |database| drop_below(database, below)).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let sync = |database: &Database| {
            let mut transaction = database.begin_write()?;
            // The free pages are written too: opening after a crash reads no pages to find them.
            transaction.set_quick_repair(true);
            Ok(transaction.commit()?)
        };
        self.blocking(sync).await
    }

    async fn highest_timestamp(&self) -> Result<u64, StoreError> {
        let read = |database: &Database| {
            let figures = database.begin_read()?.open_table(FIGURES)?;
            Ok(figures.get(HIGHEST)?.map_or(0, |figure| figure.value()))
        };
        self.blocking(read).await
    }

    fn reads(&self) -> Reads {
        Reads::Strong
    }

    fn describe(&self) -> Description {
        let size = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        let location = self.path.display().to_string();
        let facts = vec![("file_size".to_owned(), size.to_string())];
        Description { kind: "embedded", location, is_ordered: true, facts }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.sync().await?;
        // The file is free when reads that run have ended.
        drop(self.open.write().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }
}
