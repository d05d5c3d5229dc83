//! The flush of a group of commits: keep the old versions, put the new cells, move the next start, acknowledge.
//!
//! The order of these steps makes a snapshot whole:
//!
//! ```text
//!    read the store's cells     they are at or below `flushed`
//!    keep them as intervals     [old timestamp, new timestamp)
//!    put if newer               readers that start below find the interval
//!    flushed = the last commit  readers that start now find the new cells
//!    acknowledge
//! ```
//!
//! All commits of a group become visible at once. So a key that several of them wrote needs its last cell only: no
//! transaction starts at a timestamp inside the group.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use stores::{Cell, KeyedCell, StoreError};
use tokio::time::Instant;

use crate::Error;
use crate::bugs::Bug;
use crate::oracle::Pending;
use crate::shared::{Ending, Shared};

/// First and longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Flushes a group, and returns the bytes of its records. Repeats each step until the store takes it.
pub(crate) async fn flush(shared: &Shared, group: Vec<Pending>) -> Result<usize, Error> {
    let Some(last) = group.last().map(|commit| commit.timestamp) else { return Ok(0) };
    let (cells, overwritten) = (newest_cells(&group), overwritten(&group));
    if let Err(error) = overwrite(shared, &cells, overwritten).await {
        shared.stop(&error);
        group.into_iter().for_each(|commit| commit.tell(Err(error.clone())));
        return Err(error);
    }
    // Move the next start, then acknowledge.
    let bytes = group.iter().map(|commit| commit.bytes).sum();
    let oldest_start = {
        let mut oracle = shared.oracle();
        oracle.advance(last, bytes);
        oracle.oldest_start()
    };
    shared.flushed.send_replace(last);
    group.into_iter().for_each(|commit| commit.tell(Ok(())));
    shared.versions().evict(oldest_start);
    Ok(bytes)
}

/// Puts cells in place of those that the store has.
async fn overwrite(
    shared: &Shared,
    cells: &[KeyedCell],
    overwritten: HashMap<Bytes, Option<Cell>>,
) -> Result<(), Error> {
    let is_put_first = shared.options.bugs.has(Bug::OverwrittenBeforeKept);
    // Keep the old versions, before anything is overwritten.
    let mut old = Some(old_cells(shared, cells, overwritten).await?);
    if let Some(old) = old.take_if(|_| !is_put_first) {
        shared.versions().keep(cells, old);
    }
    // A part that was put before, or arrives late, changes nothing.
    repeat(shared, "cannot flush commits", || shared.store.put_if_newer(cells)).await?;
    if let Some(old) = old {
        shared.versions().keep(cells, old);
    }
    shared.newest_cells().flushed(cells);
    Ok(())
}

/// The newest cell of each key that the group has written.
fn newest_cells(group: &[Pending]) -> Vec<KeyedCell> {
    let mut cells: BTreeMap<Bytes, Cell> = BTreeMap::new();
    for commit in group {
        cells.extend(commit.writes.cells(commit.timestamp));
    }
    cells.into_iter().collect()
}

/// Cells of the store that the first writer of each key in the group has read.
fn overwritten(group: &[Pending]) -> HashMap<Bytes, Option<Cell>> {
    let mut read = HashMap::new();
    // A later writer has read what this flush has not written yet, or conflicts.
    for (key, cell) in group.iter().flat_map(|commit| &commit.overwritten) {
        read.entry(key.clone()).or_insert_with(|| cell.clone());
    }
    read
}

/// The store's cells of the keys that are about to be overwritten: those that their writers have read, those of the last
/// flushes, and the others from the store. The cell that says whose the store is comes along.
async fn old_cells(
    shared: &Shared,
    cells: &[KeyedCell],
    mut overwritten: HashMap<Bytes, Option<Cell>>,
) -> Result<Vec<Option<Cell>>, Error> {
    let mut known: Vec<Option<Option<Cell>>> = {
        let newest = shared.newest_cells();
        let mut of = |key: &Bytes| newest.get(key).map(Some).or_else(|| overwritten.remove(key));
        cells.iter().map(|(key, _)| of(key)).collect()
    };
    let unknown = cells.iter().zip(&known).filter(|(_, known)| known.is_none());
    let mut keys: Vec<Bytes> = unknown.map(|((key, _), _)| key.clone()).collect();
    keys.push(shared.ownership.key());
    let mut old = repeat(shared, "cannot read old versions", || shared.store.get_many(&keys)).await?;
    let mark = old.pop().flatten();
    if mark.is_none() && !shared.is_weak() {
        let reason = "the mark of this database is missing: the store was emptied or replaced".to_owned();
        return Err(Error::StoreTaken { reason });
    }
    shared.ownership.check(mark.as_ref())?;
    let flushed = shared.oracle().flushed();
    let is_foreign = |cell: &Option<Cell>| cell.as_ref().is_some_and(|cell| cell.timestamp > flushed);
    if let Some(at) = old.iter().position(is_foreign) {
        let reason = format!("key {:?} has a cell that this database has not written", keys[at]);
        return Err(Error::StoreTaken { reason });
    }
    let mut read = old.into_iter();
    Ok(known.iter_mut().map(|known| known.take().unwrap_or_else(|| read.next().flatten())).collect())
}

/// Repeats an operation of the store until it succeeds. Gives up if the database is closing and the store fails for
/// longer than `visible_timeout`.
pub(crate) async fn repeat<T, F>(
    shared: &Shared,
    failure: &str,
    operation: impl Fn() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let (begun, mut pause) = (Instant::now(), PAUSE.0);
    loop {
        let error = match operation().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let is_closing = *shared.ending.borrow() > Ending::Open;
        if is_closing && begun.elapsed() >= shared.options.visible_timeout {
            return Err(error.into());
        }
        if matches!(error, StoreError::Failed { .. }) {
            return Err(error.into());
        }
        if pause > PAUSE.0 {
            tracing::warn!(%error, hint = error.hint(), "{failure}, trying again");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}
