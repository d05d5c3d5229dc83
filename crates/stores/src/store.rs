//! The trait of a store.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Cell, Direction, KeyRange, StoreError};

/// The promise of a store's reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// A read that begins after a put was acknowledged answers that put or a newer one.
    Strong,
    /// A read may answer an older cell, or none, until [`Store::settle`] has named the key.
    Weak,
}

/// Facts about a store, for status pages and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The kind of store: `embedded`, `redis`, `cassandra`, `memory`.
    pub kind: &'static str,
    /// File or address.
    pub location: String,
    /// Scans answer in key order. A store without order refuses scans.
    pub is_ordered: bool,
    /// Further facts by name.
    pub facts: Vec<(String, String)>,
}

/// A cell with its key.
pub type KeyedCell = (Bytes, Cell);

/// A key-value store: one cell a key, written if newer. One database uses a store at a time.
///
/// Invariants that the conformance suite checks:
/// - a cell's timestamp never falls, whatever the order of puts;
/// - a put with a timestamp at or below the cell's changes nothing, and succeeds;
/// - tombstones are cells: gets and scans answer them until they are dropped.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Returns the cell of a key; `None` if the store has no cell, which is different from a tombstone.
    ///
    /// # Errors
    /// The store's.
    async fn get(&self, key: &[u8]) -> Result<Option<Cell>, StoreError> {
        let mut cells = self.get_many(&[Bytes::copy_from_slice(key)]).await?;
        Ok(cells.pop().flatten())
    }

    /// Returns the cells of several keys, in the keys' order.
    ///
    /// # Errors
    /// The store's.
    async fn get_many(&self, keys: &[Bytes]) -> Result<Vec<Option<Cell>>, StoreError>;

    /// Writes each cell whose timestamp is above that of the key's cell. The batch is not atomic; each cell is. It has
    /// a key at most once. Acknowledged cells survive a restart of the store's own process, if it has one.
    ///
    /// # Errors
    /// The store's. Some cells may be written then; the batch may be repeated as a whole.
    async fn put_if_newer(&self, batch: &[KeyedCell]) -> Result<(), StoreError>;

    /// Returns up to `limit` cells of the range, tombstones among them. A shorter answer ends the range.
    ///
    /// # Errors
    /// The store's. A store without key order refuses.
    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyedCell>, StoreError>;

    /// Removes tombstones with timestamps below `below`; returns their number. A store that removes tombstones itself
    /// does nothing.
    ///
    /// # Errors
    /// The store's.
    async fn drop_tombstones(&self, below: u64) -> Result<u64, StoreError>;

    /// Makes all acknowledged puts durable. Stores whose acknowledged puts are durable do nothing.
    ///
    /// # Errors
    /// The store's.
    async fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The time after the end of [`Store::sync`] until the puts are durable: that of a store that syncs by its own clock and
    /// cannot be told to. Zero for all others.
    fn sync_lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Ends when every later read of these keys answers the newest acknowledged cell or a newer one. Stores with strong
    /// reads do nothing.
    ///
    /// # Errors
    /// The store's.
    async fn settle(&self, _keys: &[Bytes]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the highest timestamp in the store; zero if the store has no cell. It may read all cells: a database asks
    /// once, when it takes the store over.
    ///
    /// # Errors
    /// The store's.
    async fn highest_timestamp(&self) -> Result<u64, StoreError> {
        const PAGE: usize = 1_000;
        let (mut rest, mut highest) = (KeyRange::all(), 0);
        loop {
            let page = self.scan(&rest, PAGE, Direction::Forward).await?;
            highest = page.iter().map(|(_, cell)| cell.timestamp).fold(highest, u64::max);
            match page.last() {
                Some((last, _)) if page.len() == PAGE => rest = rest.after(last, Direction::Forward),
                _ => return Ok(highest),
            }
        }
    }

    /// The promise of its reads.
    fn reads(&self) -> Reads;

    /// Facts for status pages.
    fn describe(&self) -> Description;

    /// Syncs and closes. Later calls fail.
    ///
    /// # Errors
    /// The store's.
    async fn close(&self) -> Result<(), StoreError>;
}
