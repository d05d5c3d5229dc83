//! A store in memory for simulations and tests. One seed draws its delays, errors, partial batches, late puts and stale
//! reads.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Cell, Description, Direction, KeyRange, KeyedCell, Reads, Store, StoreError};

planted::bugs! {
    /// Planted bugs of the store in memory; all off in production.
    pub enum Bug {
        /// A put replaces the cell, whatever the timestamps.
        PutOverNewer,
        /// A tombstone removes the cell and leaves no mark.
        DeleteWithoutTombstone,
    }
}

/// The faults of a [`MemoryStore`]. Probabilities are out of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFaults {
    /// Longest delay before and after an operation, in milliseconds; the shortest is zero.
    pub delay_ms: u64,
    /// An operation fails and does nothing.
    pub unavailable: u64,
    /// A put fails with an unknown outcome: a part of its batch is written, and the rest may arrive later.
    pub unknown: u64,
    /// A read of a key that is not settled answers an older state of it. Reads are weak if above zero.
    pub stale: u64,
    /// Planted bugs.
    pub bugs: Bugs,
}

/// A store in memory. Its cells last as long as the value does.
#[derive(Debug)]
pub struct MemoryStore {
    faults: Mutex<MemoryFaults>,
    state: Mutex<State>,
    reads: Reads,
}

#[derive(Debug, Default)]
struct State {
    cells: BTreeMap<Bytes, Cell>,
    /// Earlier states of keys that are not settled.
    earlier: BTreeMap<Bytes, Vec<Option<Cell>>>,
    /// Changes since the last sync, with the state before each.
    unsynced: Vec<(Bytes, Option<Cell>)>,
    /// Cells that were put, in the order of arrival, lost ones among them.
    arrived: Vec<KeyedCell>,
    /// Parts of batches that arrive later.
    late: Vec<Vec<KeyedCell>>,
    random: u64,
    is_closed: bool,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// An empty store without faults.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::with_faults(0, MemoryFaults::default())
    }

    /// An empty store with faults that the seed draws.
    #[must_use]
    pub fn with_faults(seed: u64, faults: MemoryFaults) -> MemoryStore {
        let reads = if faults.stale > 0 { Reads::Weak } else { Reads::Strong };
        let state = State { random: seed, ..State::default() };
        MemoryStore { faults: Mutex::new(faults), state: Mutex::new(state), reads }
    }

    /// Changes probabilities and delays; the promise of reads stays.
    pub fn set_faults(&self, faults: MemoryFaults) {
        *locked(&self.faults) = faults;
    }

    /// Loses the newest part of what was not synced, and keeps `kept` out of a thousand changes, the oldest ones.
    pub fn lose_unsynced(&self, kept: u64) {
        let mut state = locked(&self.state);
        let all = state.unsynced.len() as u64;
        let kept = usize::try_from(all * kept / 1_000).unwrap_or(usize::MAX);
        while state.unsynced.len() > kept {
            let Some((key, before)) = state.unsynced.pop() else { return };
            state.earlier.remove(&key);
            match before {
                Some(cell) => state.cells.insert(key, cell),
                None => state.cells.remove(&key),
            };
        }
    }

    /// Loses everything, as a server does that comes back without its disk.
    pub fn lose_all(&self) {
        let mut state = locked(&self.state);
        *state = State { random: state.random, ..State::default() };
    }

    /// All cells, as the store has them, in key order.
    #[must_use]
    pub fn cells(&self) -> Vec<KeyedCell> {
        let mut state = locked(&self.state);
        let bugs = locked(&self.faults).bugs;
        state.deliver_late(bugs);
        state.cells.iter().map(|(key, cell)| (key.clone(), cell.clone())).collect()
    }

    /// Every cell that was ever put, in the order of arrival, for checkers of histories.
    #[must_use]
    pub fn arrived(&self) -> Vec<KeyedCell> {
        locked(&self.state).arrived.clone()
    }

    /// Opens it again after a close.
    pub fn reopen(&self) {
        locked(&self.state).is_closed = false;
    }

    fn faults(&self) -> MemoryFaults {
        *locked(&self.faults)
    }

    async fn delay(&self, faults: &MemoryFaults) {
        let delay = locked(&self.state).below(faults.delay_ms + 1);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
    }

    /// Waits, and meets the faults that any operation can meet.
    async fn arrives(&self, faults: &MemoryFaults) -> Result<(), StoreError> {
        self.delay(faults).await;
        let mut state = locked(&self.state);
        if state.is_closed {
            return Err(StoreError::refused("the store is closed"));
        }
        if state.below(4) == 0 {
            state.deliver_late(faults.bugs);
        }
        if state.chance(faults.unavailable) {
            return Err(StoreError::unavailable("a planned fault"));
        }
        Ok(())
    }
}

impl State {
    /// The generator "splitmix64" (Steele, Lea and Flood, 2014).
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1_000) < per_mille
    }

    fn put(&mut self, key: &Bytes, cell: &Cell, bugs: Bugs) {
        let before = self.cells.get(key).cloned();
        let is_newer = before.as_ref().is_none_or(|before| cell.timestamp > before.timestamp);
        if !is_newer && !bugs.has(Bug::PutOverNewer) {
            return;
        }
        self.arrived.push((key.clone(), cell.clone()));
        self.earlier.entry(key.clone()).or_default().push(before.clone());
        self.unsynced.push((key.clone(), before));
        if cell.is_tombstone() && bugs.has(Bug::DeleteWithoutTombstone) {
            self.cells.remove(key);
        } else {
            self.cells.insert(key.clone(), cell.clone());
        }
    }

    fn deliver_late(&mut self, bugs: Bugs) {
        for batch in std::mem::take(&mut self.late) {
            batch.iter().for_each(|(key, cell)| self.put(key, cell, bugs));
        }
    }

    /// Reads one key, perhaps an older state of it.
    fn read(&mut self, key: &[u8], stale: u64) -> Option<Cell> {
        if self.chance(stale)
            && let Some(count) = self.earlier.get(key).map(|earlier| earlier.len() as u64)
        {
            let at = usize::try_from(self.below(count)).unwrap_or_default();
            return self.earlier.get(key).and_then(|earlier| earlier[at].clone());
        }
        self.cells.get(key).cloned()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get_many(&self, keys: &[Bytes]) -> Result<Vec<Option<Cell>>, StoreError> {
        let faults = self.faults();
        self.arrives(&faults).await?;
        let cells = {
            let mut state = locked(&self.state);
            keys.iter().map(|key| state.read(key, faults.stale)).collect()
        };
        self.delay(&faults).await;
        Ok(cells)
    }

    async fn put_if_newer(&self, batch: &[KeyedCell]) -> Result<(), StoreError> {
        let faults = self.faults();
        self.arrives(&faults).await?;
        let is_unknown = {
            let mut state = locked(&self.state);
            let is_unknown = state.chance(faults.unknown);
            let done = if is_unknown { state.below(batch.len() as u64 + 1) } else { batch.len() as u64 };
            let (done, rest) = batch.split_at(usize::try_from(done).unwrap_or_default());
            done.iter().for_each(|(key, cell)| state.put(key, cell, faults.bugs));
            if !rest.is_empty() && state.chance(500) {
                state.late.push(rest.to_vec());
            }
            is_unknown
        };
        self.delay(&faults).await;
        if is_unknown { Err(StoreError::unknown("a planned fault")) } else { Ok(()) }
    }

    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyedCell>, StoreError> {
        let faults = self.faults();
        self.arrives(&faults).await?;
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let cells = {
            let mut state = locked(&self.state);
            let keys: Vec<Bytes> = match direction {
                Direction::Forward => state.cells.range(range.bounds()).map(|(key, _)| key.clone()).collect(),
                Direction::Reverse => {
                    state.cells.range(range.bounds()).rev().map(|(key, _)| key.clone()).collect()
                }
            };
            let read =
                keys.into_iter().filter_map(|key| state.read(&key, faults.stale).map(|cell| (key, cell)));
            read.take(limit).collect()
        };
        self.delay(&faults).await;
        Ok(cells)
    }

    async fn drop_tombstones(&self, below: u64) -> Result<u64, StoreError> {
        let faults = self.faults();
        self.arrives(&faults).await?;
        let mut state = locked(&self.state);
        // Puts arrive late, but not later than tombstones are kept.
        state.deliver_late(faults.bugs);
        let is_old = |cell: &Cell| cell.is_tombstone() && cell.timestamp < below;
        let old: Vec<Bytes> =
            state.cells.iter().filter(|(_, cell)| is_old(cell)).map(|(key, _)| key.clone()).collect();
        for key in &old {
            let before = state.cells.remove(key);
            state.unsynced.push((key.clone(), before));
        }
        Ok(old.len() as u64)
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let faults = self.faults();
        self.arrives(&faults).await?;
        locked(&self.state).unsynced.clear();
        Ok(())
    }

    async fn settle(&self, keys: &[Bytes]) -> Result<(), StoreError> {
        let faults = self.faults();
        self.arrives(&faults).await?;
        let mut state = locked(&self.state);
        keys.iter().for_each(|key| drop(state.earlier.remove(key)));
        Ok(())
    }

    fn reads(&self) -> Reads {
        self.reads
    }

    fn describe(&self) -> Description {
        Description { kind: "memory", location: String::new(), is_ordered: true, facts: Vec::new() }
    }

    async fn close(&self) -> Result<(), StoreError> {
        locked(&self.state).is_closed = true;
        Ok(())
    }
}

/// No code under a lock panics half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
