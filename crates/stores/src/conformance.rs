//! The conformance suite: checks that each store passes. A test of a store calls [`run`].

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Cell, Direction, KeyRange, KeyedCell, Reads, Store, StoreError};

/// Runs the suite. `make_store` is called for each check, and may return the same store each time: a check uses keys
/// of its own, which no earlier run may have written.
///
/// # Panics
/// The store breaks a promise; the message names the check.
pub async fn run<F, S>(make_store: F)
where
    F: Fn() -> S,
    S: Future<Output = Arc<dyn Store>>,
{
    absent_key_has_no_cell(&Keys::of("absent"), &*make_store().await).await;
    put_is_read(&Keys::of("put"), &*make_store().await).await;
    older_put_changes_nothing(&Keys::of("older"), &*make_store().await).await;
    equal_put_changes_nothing(&Keys::of("equal"), &*make_store().await).await;
    tombstones_are_cells(&Keys::of("tombstones"), &*make_store().await).await;
    bytes_are_kept(&Keys::of("bytes"), &*make_store().await).await;
    repeated_batch_changes_nothing(&Keys::of("repeated"), &*make_store().await).await;
    batches_in_any_order_agree(&Keys::of("order"), &*make_store().await).await;
    concurrent_puts_keep_the_newest(&Keys::of("concurrent"), make_store().await).await;
    get_many_keeps_the_keys_order(&Keys::of("many"), &*make_store().await).await;
    large_batch_is_whole(&Keys::of("large"), &*make_store().await).await;
    scan_is_ordered(&Keys::of("scan"), &*make_store().await).await;
    scan_pages_join(&Keys::of("pages"), &*make_store().await).await;
    tombstones_are_dropped_below(&Keys::of("dropped"), &*make_store().await).await;
    highest_timestamp_is_found(&Keys::of("highest"), &*make_store().await).await;
    sync_and_settle_succeed(&Keys::of("sync"), &*make_store().await).await;
}

/// The keys of one check: all begin with its name.
struct Keys {
    check: &'static str,
}

impl Keys {
    const fn of(check: &'static str) -> Keys {
        Keys { check }
    }

    fn key(&self, suffix: impl AsRef<[u8]>) -> Bytes {
        let mut key = format!("conformance/{}/", self.check).into_bytes();
        key.extend_from_slice(suffix.as_ref());
        key.into()
    }

    fn range(&self) -> KeyRange {
        KeyRange::prefix(self.key(""))
    }

    /// Puts cells; they are settled afterwards.
    async fn put(&self, store: &dyn Store, batch: &[KeyedCell]) {
        store.put_if_newer(batch).await.unwrap_or_else(|error| self.fail("put_if_newer", &error));
        let keys: Vec<Bytes> = batch.iter().map(|(key, _)| key.clone()).collect();
        store.settle(&keys).await.unwrap_or_else(|error| self.fail("settle", &error));
    }

    async fn expect(&self, store: &dyn Store, key: &Bytes, expected: Option<Cell>, why: &str) {
        let found = store.get(key).await.unwrap_or_else(|error| self.fail("get", &error));
        assert_eq!(found, expected, "{}: {why} (key {key:?})", self.check);
    }

    async fn scan(
        &self,
        store: &dyn Store,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Vec<KeyedCell> {
        store.scan(range, limit, direction).await.unwrap_or_else(|error| self.fail("scan", &error))
    }

    fn fail<T>(&self, operation: &str, error: &StoreError) -> T {
        panic!("{}: {operation} failed: {error}", self.check)
    }
}

async fn absent_key_has_no_cell(keys: &Keys, store: &dyn Store) {
    keys.expect(store, &keys.key("a"), None, "a key without a put has no cell").await;
}

async fn put_is_read(keys: &Keys, store: &dyn Store) {
    let key = keys.key("a");
    keys.put(store, &[(key.clone(), Cell::put(7, "seven"))]).await;
    keys.expect(store, &key, Some(Cell::put(7, "seven")), "a put is read with its timestamp").await;
    keys.put(store, &[(key.clone(), Cell::put(9, "nine"))]).await;
    keys.expect(store, &key, Some(Cell::put(9, "nine")), "a newer put replaces the cell").await;
}

async fn older_put_changes_nothing(keys: &Keys, store: &dyn Store) {
    let key = keys.key("a");
    keys.put(store, &[(key.clone(), Cell::put(9, "nine"))]).await;
    keys.put(store, &[(key.clone(), Cell::put(7, "seven"))]).await;
    keys.expect(store, &key, Some(Cell::put(9, "nine")), "an older put changes nothing").await;
    keys.put(store, &[(key.clone(), Cell::tombstone(8))]).await;
    keys.expect(store, &key, Some(Cell::put(9, "nine")), "an older tombstone changes nothing").await;
}

async fn equal_put_changes_nothing(keys: &Keys, store: &dyn Store) {
    let (key, deleted) = (keys.key("a"), keys.key("b"));
    keys.put(store, &[(key.clone(), Cell::put(7, "a")), (deleted.clone(), Cell::tombstone(7))]).await;
    keys.put(store, &[(key.clone(), Cell::put(7, "a")), (deleted.clone(), Cell::tombstone(7))]).await;
    keys.expect(store, &key, Some(Cell::put(7, "a")), "an equal put changes nothing").await;
    keys.expect(store, &deleted, Some(Cell::tombstone(7)), "an equal tombstone changes nothing").await;
}

async fn tombstones_are_cells(keys: &Keys, store: &dyn Store) {
    let (key, unborn) = (keys.key("a"), keys.key("b"));
    keys.put(store, &[(key.clone(), Cell::put(3, "three"))]).await;
    keys.put(store, &[(key.clone(), Cell::tombstone(5)), (unborn.clone(), Cell::tombstone(5))]).await;
    keys.expect(store, &key, Some(Cell::tombstone(5)), "a delete leaves a tombstone").await;
    keys.expect(store, &unborn, Some(Cell::tombstone(5)), "a delete of an absent key leaves a tombstone")
        .await;
    keys.put(store, &[(key.clone(), Cell::put(4, "four")), (unborn.clone(), Cell::put(4, "four"))]).await;
    keys.expect(store, &key, Some(Cell::tombstone(5)), "an older put does not revive the key").await;
    keys.expect(store, &unborn, Some(Cell::tombstone(5)), "an older put does not revive the key").await;
    keys.put(store, &[(key.clone(), Cell::put(6, "six"))]).await;
    keys.expect(store, &key, Some(Cell::put(6, "six")), "a newer put replaces a tombstone").await;
}

async fn bytes_are_kept(keys: &Keys, store: &dyn Store) {
    let every: Bytes = (0..=u8::MAX).collect::<Vec<u8>>().into();
    let values = [Bytes::new(), Bytes::from_static(b"\0"), every.clone(), vec![0xFF; 100_000].into()];
    for (at, value) in values.iter().enumerate() {
        let key = keys.key([&[u8::try_from(at).unwrap_or_default()], &every[..]].concat());
        keys.put(store, &[(key.clone(), Cell::put((u64::MAX >> 1) - 1, value.clone()))]).await;
        let expected = Some(Cell::put((u64::MAX >> 1) - 1, value.clone()));
        keys.expect(store, &key, expected, "keys and values are arbitrary bytes, timestamps have 63 bits")
            .await;
    }
}

async fn repeated_batch_changes_nothing(keys: &Keys, store: &dyn Store) {
    let batch: Vec<KeyedCell> = (0..20u64)
        .map(|at| {
            let cell =
                if at % 3 == 0 { Cell::tombstone(10 + at) } else { Cell::put(10 + at, format!("{at}")) };
            (keys.key(at.to_string()), cell)
        })
        .collect();
    for _ in 0..3 {
        keys.put(store, &batch).await;
        for (key, cell) in &batch {
            keys.expect(store, key, Some(cell.clone()), "a repeated batch changes nothing").await;
        }
    }
}

async fn batches_in_any_order_agree(keys: &Keys, store: &dyn Store) {
    const ORDERS: [[u64; 3]; 6] = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]];
    for (at, order) in ORDERS.iter().enumerate() {
        let key = keys.key(at.to_string());
        for timestamp in order {
            let value = (*timestamp != 2).then(|| Bytes::from(timestamp.to_string()));
            keys.put(store, &[(key.clone(), Cell { timestamp: *timestamp, value })]).await;
        }
        keys.expect(store, &key, Some(Cell::put(3, "3")), "the newest put stays, in each order of arrival")
            .await;
    }
}

async fn concurrent_puts_keep_the_newest(keys: &Keys, store: Arc<dyn Store>) {
    const PUTS: u64 = 64;
    let key = keys.key("a");
    // An odd factor: each timestamp once, in a mixed order.
    let timestamps = (0..PUTS).map(|at| at * 37 % PUTS + 1);
    let puts: Vec<_> = timestamps
        .map(|timestamp| {
            let (store, key) = (Arc::clone(&store), key.clone());
            tokio::task::spawn(async move {
                store.put_if_newer(&[(key, Cell::put(timestamp, timestamp.to_string()))]).await
            })
        })
        .collect();
    for put in puts {
        let put = put.await.unwrap_or_else(|error| panic!("{}: {error}", keys.check));
        put.unwrap_or_else(|error| keys.fail("put_if_newer", &error));
    }
    keys.put(&*store, &[(key.clone(), Cell::put(1, "1"))]).await;
    keys.expect(
        &*store,
        &key,
        Some(Cell::put(PUTS, PUTS.to_string())),
        "the newest of concurrent puts stays",
    )
    .await;
}

async fn get_many_keeps_the_keys_order(keys: &Keys, store: &dyn Store) {
    keys.put(store, &[(keys.key("a"), Cell::put(1, "1")), (keys.key("c"), Cell::put(3, "3"))]).await;
    let asked = [keys.key("c"), keys.key("b"), keys.key("a"), keys.key("c")];
    let found = store.get_many(&asked).await.unwrap_or_else(|error| keys.fail("get_many", &error));
    let expected = vec![Some(Cell::put(3, "3")), None, Some(Cell::put(1, "1")), Some(Cell::put(3, "3"))];
    assert_eq!(found, expected, "{}: answers stand in the keys' order", keys.check);
    let none = store.get_many(&[]).await.unwrap_or_else(|error| keys.fail("get_many", &error));
    assert_eq!(none, Vec::new(), "{}: no key, no answer", keys.check);
    keys.put(store, &[]).await;
}

async fn large_batch_is_whole(keys: &Keys, store: &dyn Store) {
    let value = Bytes::from(vec![b'x'; 300]);
    let name = |at: u64| keys.key(format!("{:05}", at * 7919 % 5_000));
    let batch: Vec<KeyedCell> = (0..5_000).map(|at| (name(at), Cell::put(at + 1, value.clone()))).collect();
    keys.put(store, &batch).await;
    let asked: Vec<Bytes> = batch.iter().map(|(key, _)| key.clone()).collect();
    let found = store.get_many(&asked).await.unwrap_or_else(|error| keys.fail("get_many", &error));
    let whole = found.iter().zip(&batch).all(|(found, (_, cell))| found.as_ref() == Some(cell));
    assert!(whole && found.len() == batch.len(), "{}: all cells of a large batch are there", keys.check);
}

async fn scan_is_ordered(keys: &Keys, store: &dyn Store) {
    if !store.describe().is_ordered {
        let refused = store.scan(&keys.range(), 10, Direction::Forward).await;
        let is_refused = matches!(refused, Err(StoreError::Refused { .. }));
        return assert!(is_refused, "{}: a store without order refuses scans", keys.check);
    }
    let suffixes: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"b", b"\xFF"];
    let cell = |at: usize| if at == 2 { Cell::tombstone(9) } else { Cell::put(9, at.to_string()) };
    let all: Vec<KeyedCell> =
        suffixes.iter().enumerate().map(|(at, one)| (keys.key(one), cell(at))).collect();
    let mixed: Vec<KeyedCell> = [3, 0, 5, 1, 4, 2].iter().map(|at| all[*at].clone()).collect();
    keys.put(store, &mixed).await;
    let forward = keys.scan(store, &keys.range(), 10, Direction::Forward).await;
    assert_eq!(forward, all, "{}: forward, bytewise, with tombstones", keys.check);
    let reverse = keys.scan(store, &keys.range(), 10, Direction::Reverse).await;
    let expected: Vec<KeyedCell> = all.iter().rev().cloned().collect();
    assert_eq!(reverse, expected, "{}: in reverse", keys.check);
    let part = KeyRange::new(keys.key("a"), keys.key("b"));
    let found = keys.scan(store, &part, 10, Direction::Forward).await;
    assert_eq!(found, all[2..4], "{}: the start is in the range, the end is not", keys.check);
    let empty = KeyRange::new(keys.key("b"), keys.key("a"));
    assert_eq!(keys.scan(store, &empty, 10, Direction::Forward).await, [], "{}: an empty range", keys.check);
}

async fn scan_pages_join(keys: &Keys, store: &dyn Store) {
    if !store.describe().is_ordered {
        return;
    }
    let all: Vec<KeyedCell> =
        (0..100u64).map(|at| (keys.key(format!("{at:03}")), Cell::put(at + 1, "x"))).collect();
    keys.put(store, &all).await;
    for direction in [Direction::Forward, Direction::Reverse] {
        let (mut rest, mut joined) = (keys.range(), Vec::new());
        loop {
            let page = keys.scan(store, &rest, 7, direction).await;
            joined.extend(page.iter().cloned());
            match page.last() {
                Some((last, _)) if page.len() == 7 => rest = rest.after(last, direction),
                _ => break,
            }
        }
        if direction == Direction::Reverse {
            joined.reverse();
        }
        assert_eq!(joined, all, "{}: pages join, and a short page ends the range", keys.check);
    }
}

async fn tombstones_are_dropped_below(keys: &Keys, store: &dyn Store) {
    let (old, new, value) = (keys.key("a"), keys.key("b"), keys.key("c"));
    let batch = [
        (old.clone(), Cell::tombstone(5)),
        (new.clone(), Cell::tombstone(6)),
        (value.clone(), Cell::put(4, "4")),
    ];
    keys.put(store, &batch).await;
    store.drop_tombstones(6).await.unwrap_or_else(|error| keys.fail("drop_tombstones", &error));
    let found = store.get(&old).await.unwrap_or_else(|error| keys.fail("get", &error));
    let is_gone = found.is_none() || found == Some(Cell::tombstone(5));
    assert!(is_gone, "{}: an old tombstone is dropped, or left to the store", keys.check);
    keys.expect(store, &new, Some(Cell::tombstone(6)), "a tombstone at the limit stays").await;
    keys.expect(store, &value, Some(Cell::put(4, "4")), "a value stays").await;
}

async fn highest_timestamp_is_found(keys: &Keys, store: &dyn Store) {
    // Above the timestamps of all other checks.
    let high = u64::MAX >> 1;
    keys.put(store, &[(keys.key("a"), Cell::tombstone(high)), (keys.key("b"), Cell::put(3, "3"))]).await;
    let found =
        store.highest_timestamp().await.unwrap_or_else(|error| keys.fail("highest_timestamp", &error));
    assert_eq!(found, high, "{}: tombstones count", keys.check);
}

async fn sync_and_settle_succeed(keys: &Keys, store: &dyn Store) {
    keys.put(store, &[(keys.key("a"), Cell::put(1, "1"))]).await;
    store.sync().await.unwrap_or_else(|error| keys.fail("sync", &error));
    if store.reads() == Reads::Weak {
        store
            .settle(&[keys.key("a"), keys.key("absent")])
            .await
            .unwrap_or_else(|error| keys.fail("settle", &error));
    }
    keys.expect(store, &keys.key("a"), Some(Cell::put(1, "1")), "a synced put is read").await;
}
