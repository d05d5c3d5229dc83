//! A transaction: its snapshot, its reads and its write set.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use stores::{Cell, Direction, KeyRange};

use crate::Error;
use crate::bugs::Bug;
use crate::error::Lost;
use crate::oracle::Oracle;
use crate::shared::{Handle, Shared};
use crate::versions::Known;
use crate::write_set::{RESERVED, WriteSet, check_key};

/// Cells that one page of a scan asks the store for, at least and at most.
const PAGE: (usize, usize) = (16, 1_024);
/// Read cells that a transaction keeps for its flush.
const MOST_READ: usize = 64;

/// A transaction over one snapshot. Dropped, it is rolled back.
#[derive(Debug)]
pub struct Transaction {
    handle: Arc<Handle>,
    start: u64,
    is_read_only: bool,
    /// The oracle counts it as active.
    is_active: bool,
    pub(crate) writes: WriteSet,
    /// Keys that must be unchanged since a timestamp when the transaction commits.
    pub(crate) watched: Vec<(Bytes, u64)>,
    /// Cells that were read from the store and may be overwritten: the flush need not read them again.
    read: Mutex<Vec<(Bytes, Option<Cell>)>>,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.is_active {
            let shared = Arc::clone(self.shared());
            let mut oracle = shared.oracle();
            oracle.counts.rollbacks += 1;
            self.ends_in(&mut oracle);
        }
    }
}

impl Transaction {
    pub(crate) fn new(handle: Arc<Handle>, start: u64, is_read_only: bool) -> Transaction {
        let (writes, watched, read) = (WriteSet::default(), Vec::new(), Mutex::default());
        Transaction { handle, start, is_read_only, is_active: true, writes, watched, read }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Needs no snapshot any more.
    pub(crate) fn ends_in(&mut self, oracle: &mut Oracle) {
        if std::mem::take(&mut self.is_active) {
            oracle.end(self.start);
        }
    }

    /// The start timestamp: commits up to it are visible, and none above.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the value of a key: the own write, else the version at the start.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`], [`Error::Store`], or the key is invalid.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        check_key(key)?;
        if let Some(own) = self.writes.get(key) {
            return Ok(own.clone());
        }
        let shared = self.shared();
        let _settling = if shared.is_weak() { Some(shared.settling.read().await) } else { None };
        // The store comes first: a version that it no longer has was kept before it was overwritten.
        let cell = shared.store.get(key).await?;
        if !shared.is_weak() && cell.as_ref().is_none_or(|cell| cell.timestamp <= self.start) {
            self.remembers(key, cell.as_ref());
            return Ok(cell.and_then(|cell| cell.value));
        }
        let known = shared.versions().at(key, self.start);
        self.resolve(cell, known)
    }

    fn remembers(&self, key: &[u8], cell: Option<&Cell>) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_read_only && read.len() < MOST_READ {
            read.push((Bytes::copy_from_slice(key), cell.cloned()));
        }
    }

    /// The cells that were read from the store.
    pub(crate) fn takes_reads(&mut self) -> Vec<(Bytes, Option<Cell>)> {
        std::mem::take(self.read.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// The version at the start, of the store's cell and of what is kept.
    fn resolve(&self, cell: Option<Cell>, known: Known) -> Result<Option<Bytes>, Error> {
        let shared = self.shared();
        if cell.is_none() && shared.is_weak() && shared.options.bugs.has(Bug::WeakEmptyBelieved) {
            return Ok(None);
        }
        let is_old = cell.as_ref().is_none_or(|cell| cell.timestamp <= self.start);
        match known {
            // A weak read may be older than what is kept; a strong one is not old if something is kept for the start.
            Known::Version(value) if shared.is_weak() || !is_old => Ok(value),
            Known::Evicted if shared.is_weak() => Err(self.too_old()),
            _ if is_old => Ok(cell.and_then(|cell| cell.value)),
            _ => Err(self.too_old()),
        }
    }

    fn too_old(&self) -> Error {
        self.shared().oracle().counts.evicted_versions += 1;
        Error::SnapshotTooOld { start: self.start, lost: Lost::Version }
    }

    /// Writes a value.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], or [`Error::Invalid`].
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<(), Error> {
        self.write_all(vec![(key.into(), Some(value.into()))])
    }

    /// Writes several keys: all of them, or none if one is invalid.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], or [`Error::Invalid`].
    pub fn put_all(&mut self, pairs: impl IntoIterator<Item = (Bytes, Bytes)>) -> Result<(), Error> {
        self.write_all(pairs.into_iter().map(|(key, value)| (key, Some(value))).collect())
    }

    /// Deletes a key, whether or not it is there.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], or [`Error::Invalid`].
    pub fn delete(&mut self, key: impl Into<Bytes>) -> Result<(), Error> {
        self.write_all(vec![(key.into(), None)])
    }

    fn write_all(&mut self, writes: Vec<(Bytes, Option<Bytes>)>) -> Result<(), Error> {
        if self.is_read_only {
            return Err(Error::ReadOnly);
        }
        self.writes.write_all(writes)
    }

    /// Requires that no commit above the timestamp writes the key before this transaction commits. A transaction without
    /// writes is then certified too.
    ///
    /// # Errors
    /// The key is invalid.
    pub fn require_unchanged(&mut self, key: impl Into<Bytes>, since: u64) -> Result<(), Error> {
        let key = key.into();
        check_key(&key)?;
        self.watched.push((key, since));
        Ok(())
    }

    /// Returns up to `limit` keys of a range with their values, the smallest key first.
    ///
    /// # Errors
    /// As [`Transaction::get`]; a store without key order refuses.
    pub async fn scan(&self, range: KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>, Error> {
        self.scan_towards(range, limit, Direction::Forward).await
    }

    /// Returns up to `limit` keys of a range with their values, in either order.
    ///
    /// # Errors
    /// As [`Transaction::scan`].
    pub async fn scan_towards(
        &self,
        range: KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let (mut rest, mut found) = (range, Vec::new());
        while found.len() < limit && !rest.is_empty() {
            let page = (limit - found.len()).clamp(PAGE.0, PAGE.1);
            let (rows, last) = self.scan_page(&rest, page, direction).await?;
            found.extend(rows);
            match last {
                Some(last) => rest = rest.after(&last, direction),
                None => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Merges one page of the store with kept versions and own writes. Returns the visible rows, and the last key that the
    /// page covers if the range goes on after it.
    async fn scan_page(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<(Vec<(Bytes, Bytes)>, Option<Bytes>), Error> {
        let shared = self.shared();
        let _settling = if shared.is_weak() { Some(shared.settling.read().await) } else { None };
        let page = shared.store.scan(range, limit, direction).await?;
        let last = if page.len() == limit { page.last().map(|(key, _)| key.clone()) } else { None };
        let covered = match (&last, direction) {
            (None, _) => range.clone(),
            (Some(last), Direction::Forward) => {
                KeyRange { from: range.from.clone(), to: Some(stores::successor(last)) }
            }
            (Some(last), Direction::Reverse) => KeyRange { from: last.clone(), to: range.to.clone() },
        };
        let mut cells: BTreeMap<Bytes, Option<Cell>> =
            page.into_iter().map(|(key, cell)| (key, Some(cell))).collect();
        let mut known = shared.versions().in_range(&covered, self.start);
        for key in known.keys() {
            cells.entry(key.clone()).or_default();
        }
        let mut visible = BTreeMap::new();
        for (key, cell) in cells.into_iter().filter(|(key, _)| !key.starts_with(RESERVED)) {
            let known = known.remove(&key).unwrap_or(Known::Nothing);
            visible.insert(key, self.resolve(cell, known)?);
        }
        visible.extend(self.writes.range(&covered).map(|(key, value)| (key.clone(), value.clone())));
        let rows = visible.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let rows: Vec<_> = match direction {
            Direction::Forward => rows.collect(),
            Direction::Reverse => rows.rev().collect(),
        };
        Ok((rows, last))
    }

    /// Ends the transaction without a trace.
    pub fn rollback(self) {}
}
