//! Stories of a few transactions over a store in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cells::{Begin, Consistency, Database, Error, Lost, Options};
use stores::{Direction, KeyRange, MemoryFaults, MemoryStore};

use crate::folder::{Folder, begin, open, put};

#[tokio::test]
async fn snapshot_keeps_what_later_commits_overwrite() {
    let (store, folder) = (Arc::new(MemoryStore::new()), Folder::new("snapshot"));
    let database = open(store.clone(), folder.path()).await;
    put(&database, "a", "1").await;
    let old = begin(&database).await;
    put(&database, "a", "2").await;
    put(&database, "b", "2").await;
    assert_eq!(old.get(b"a").await, Ok(Some(Bytes::from("1"))));
    assert_eq!(old.get(b"b").await, Ok(None));
    assert_eq!(old.scan(KeyRange::all(), 9).await, Ok(vec![("a".into(), "1".into())]));
    assert_eq!(database.status().version_intervals, 2);
    let new = begin(&database).await;
    assert_eq!(new.get(b"a").await, Ok(Some(Bytes::from("2"))));
    drop((old, new));
    put(&database, "c", "3").await;
    assert_eq!((database.status().version_intervals, database.status().version_bytes), (0, 0));
    database.close().await.expect("it closes");
    assert_eq!(database.begin(Begin::default()).await.expect_err("it is closed"), Error::Closed);
    drop(database);
    store.reopen();
    let database = open(store, folder.path()).await;
    assert_eq!(begin(&database).await.get(b"b").await, Ok(Some(Bytes::from("2"))));
}

#[tokio::test]
async fn own_writes_are_read_and_scanned() {
    let (store, folder) = (Arc::new(MemoryStore::new()), Folder::new("own"));
    let database = open(store, folder.path()).await;
    put(&database, "b", "old").await;
    put(&database, "d", "old").await;
    let mut transaction = begin(&database).await;
    for (key, value) in [("a", Some("1")), ("b", None), ("c", Some("1")), ("c", None), ("c", Some("2"))] {
        match value {
            Some(value) => transaction.put(key, value).expect("it is valid"),
            None => transaction.delete(key).expect("it is valid"),
        }
    }
    assert_eq!(transaction.get(b"b").await, Ok(None));
    assert_eq!(transaction.get(b"c").await, Ok(Some("2".into())));
    let row = |key: &'static str, value: &'static str| (Bytes::from(key), Bytes::from(value));
    let all = vec![row("a", "1"), row("c", "2"), row("d", "old")];
    assert_eq!(transaction.scan(KeyRange::all(), 9).await, Ok(all.clone()));
    assert_eq!(transaction.scan(KeyRange::all(), 2).await, Ok(all[..2].to_vec()));
    let reverse = transaction.scan_towards(KeyRange::all(), 2, Direction::Reverse).await;
    assert_eq!(reverse, Ok(vec![all[2].clone(), all[1].clone()]));
    assert_eq!(transaction.scan(KeyRange::new("b", "d"), 9).await, Ok(all[1..2].to_vec()));
    transaction.rollback();
    assert_eq!(begin(&database).await.get(b"b").await, Ok(Some("old".into())), "a rollback leaves nothing");
    assert_eq!(database.status().counts.rollbacks, 2);
}

#[tokio::test]
async fn first_committer_wins() {
    let (store, folder) = (Arc::new(MemoryStore::new()), Folder::new("first"));
    let database = open(store, folder.path()).await;
    let (mut one, mut other) = (begin(&database).await, begin(&database).await);
    one.put("a", "1").expect("it is valid");
    other.delete("a").expect("it is valid");
    let committed = one.commit().await.expect("it commits").timestamp;
    let refused = other.commit().await.expect_err("the first has won");
    assert_eq!(refused, Error::Conflict { key: "a".into(), with: committed });
    assert!(refused.may_run_again() && refused.code() == "CONFLICT");
    assert_eq!(database.status().counts.conflicts, 1);
}

#[tokio::test]
async fn read_only_transactions_refuse_writes() {
    let (store, folder) = (Arc::new(MemoryStore::new()), Folder::new("read-only"));
    let database = open(store, folder.path()).await;
    let mut reader = database.begin(Begin { read_only: true, ..Begin::default() }).await.expect("it begins");
    assert_eq!(reader.put("a", "1"), Err(Error::ReadOnly));
    assert_eq!(reader.delete("a"), Err(Error::ReadOnly));
    let start = reader.start();
    assert_eq!(reader.commit().await.expect("it commits").timestamp, start);
}

#[tokio::test]
async fn watched_keys_must_be_unchanged() {
    let (store, folder) = (Arc::new(MemoryStore::new()), Folder::new("watched"));
    let database = open(store, folder.path()).await;
    let since = put(&database, "a", "1").await;
    assert_eq!(database.changed_since(b"a", since), Ok(false));
    let mut transaction = begin(&database).await;
    transaction.require_unchanged("a", since).expect("it is valid");
    transaction.put("b", "1").expect("it is valid");
    put(&database, "a", "2").await;
    assert_eq!(database.changed_since(b"a", since), Ok(true));
    assert!(matches!(transaction.commit().await, Err(Error::Conflict { .. })));
    let mut reader = begin(&database).await;
    reader.require_unchanged("a", since).expect("it is valid");
    assert!(matches!(reader.commit().await, Err(Error::Conflict { .. })), "without writes too");
}

#[tokio::test]
async fn evicted_version_fails_its_reader_by_name() {
    let (store, folder) = (Arc::new(MemoryStore::new()), Folder::new("evicted"));
    let options = Options { versions_size: 500, ..Options::default() };
    let database = Database::open(store, folder.path(), options).await.expect("it opens");
    put(&database, "a", "1").await;
    put(&database, "z", "1").await;
    let old = begin(&database).await;
    for _ in 0..20 {
        put(&database, "a", "2").await;
    }
    let failed = old.get(b"a").await.expect_err("its version was evicted");
    assert_eq!(failed, Error::SnapshotTooOld { start: old.start(), lost: Lost::Version });
    assert_eq!(old.get(b"z").await, Ok(Some("1".into())), "other keys can be read");
    let status = database.status();
    assert!(status.version_bytes <= 500 && status.evicted_intervals > 0, "{status:?}");
    assert_eq!(status.counts.evicted_versions, 1);
}

#[tokio::test]
async fn transaction_longer_than_the_window_is_refused() {
    let (store, folder) = (Arc::new(MemoryStore::new()), Folder::new("window"));
    let database = Database::open(store, folder.path(), Options { window: 4, ..Options::default() }).await;
    let database = database.expect("it opens");
    let mut old = begin(&database).await;
    for _ in 0..6 {
        put(&database, "a", "1").await;
    }
    old.put("b", "1").expect("it is valid");
    let refused = old.commit().await.expect_err("conflicts are not known any more");
    assert!(matches!(refused, Error::SnapshotTooOld { lost: Lost::Window, .. }), "{refused}");
}

#[tokio::test]
async fn commit_that_the_store_does_not_take_is_told_apart() {
    let (store, folder) = (Arc::new(MemoryStore::new()), Folder::new("not-visible"));
    let timeout = Duration::from_millis(100);
    let options = Options { visible_timeout: timeout, unflushed_size: 20, ..Options::default() };
    let database = Database::open(store.clone(), folder.path(), options).await.expect("it opens");
    store.set_faults(MemoryFaults { unavailable: 1_000, ..MemoryFaults::default() });
    let write = async || {
        let mut transaction = begin(&database).await;
        transaction.put("a", "a value of some length").expect("it is valid");
        transaction.commit().await
    };
    let Err(Error::NotVisible { timestamp }) = write().await else { panic!("the store takes nothing") };
    let strong = Begin { consistency: Consistency::Strong, ..Begin::default() };
    let session = Begin { consistency: Consistency::Session(timestamp), ..Begin::default() };
    for waits in [strong, session] {
        assert_eq!(
            database.begin(waits).await.expect_err("no start covers it"),
            Error::NotVisible { timestamp }
        );
    }
    assert!(matches!(write().await, Err(Error::Busy { .. })), "there is a limit");
    store.set_faults(MemoryFaults::default());
    let transaction = loop {
        match database.begin(strong).await {
            Ok(transaction) => break transaction,
            Err(error) => assert_eq!(error, Error::NotVisible { timestamp }),
        }
    };
    assert!(transaction.get(b"a").await.expect("it is read").is_some());
}

#[tokio::test]
async fn weak_reads_never_show_an_older_version() {
    let faults = MemoryFaults { stale: 900, ..MemoryFaults::default() };
    let (store, folder) = (Arc::new(MemoryStore::with_faults(7, faults)), Folder::new("weak"));
    let options = Options { sync_interval: Duration::from_millis(5), ..Options::default() };
    let database = Database::open(store, folder.path(), options).await.expect("it opens");
    for round in 1..200u64 {
        let mut writer = begin(&database).await;
        writer.put("a", round.to_string()).expect("it is valid");
        if round % 3 == 0 { writer.delete("b") } else { writer.put("b", round.to_string()) }
            .expect("it is valid");
        writer.commit().await.expect("it commits");
        let reader = begin(&database).await;
        assert_eq!(reader.get(b"a").await, Ok(Some(round.to_string().into())));
        let expected = (round % 3 != 0).then(|| Bytes::from(round.to_string()));
        assert_eq!(reader.get(b"b").await, Ok(expected.clone()));
        let rows = reader.scan(KeyRange::all(), 9).await.expect("it is read");
        assert_eq!(rows.len(), 1 + usize::from(expected.is_some()), "round {round}");
    }
}
