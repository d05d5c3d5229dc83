//! Two databases over one folder or one store: one of them is refused.

use std::sync::Arc;

use cells::{Begin, Database, Error, Options};
use stores::{MemoryStore, Store};

use crate::folder::{Folder, begin, embedded, open, put};

#[tokio::test]
async fn folder_in_use_is_refused() {
    let (folder, store) = (Folder::new("in-use"), Arc::new(MemoryStore::new()));
    let database = open(store.clone(), folder.path()).await;
    let refused = Database::open(store, folder.path(), Options::default()).await.expect_err("it is open");
    assert!(matches!(refused, Error::Ledger(ledger::Error::Locked { .. })), "{refused}");
    put(&database, "a", "1").await;
}

#[tokio::test]
async fn store_of_another_folder_is_refused_unless_adopted() {
    let (one, other) = (Folder::new("one"), Folder::new("other"));
    let store = Arc::new(MemoryStore::new());
    let database = open(store.clone(), one.path()).await;
    let committed = put(&database, "a", "1").await;
    drop(database);
    let refused =
        Database::open(store.clone(), other.path(), Options::default()).await.expect_err("it is taken");
    assert!(matches!(refused, Error::StoreTaken { .. }), "{refused}");
    let adopting = Options { adopt: true, ..Options::default() };
    let adopted = Database::open(store, other.path(), adopting).await.expect("it is adopted");
    let transaction = begin(&adopted).await;
    assert!(transaction.start() >= committed, "timestamps go on");
    assert_eq!(transaction.get(b"a").await, Ok(Some("1".into())));
    assert!(put(&adopted, "a", "2").await > committed);
}

#[tokio::test]
async fn older_process_over_a_copied_folder_stops() {
    let (folder, copy) = (Folder::new("original"), Folder::new("copied"));
    let store = Arc::new(MemoryStore::new());
    let older = open(store.clone(), folder.path()).await;
    put(&older, "a", "1").await;
    std::fs::copy(folder.path().join("identity"), copy.path().join("identity")).expect("it is copied");
    let newer = open(store.clone(), copy.path()).await;
    put(&newer, "a", "2").await;
    let mut transaction = begin(&older).await;
    transaction.put("b", "1").expect("it is valid");
    let stopped = transaction.commit().await.expect_err("the newer process has the store");
    assert!(matches!(stopped, Error::StoreTaken { .. }), "{stopped}");
    assert_eq!(store.get(b"b").await, Ok(None), "nothing of it is flushed");
    assert!(matches!(older.begin(Begin::default()).await, Err(Error::StoreTaken { .. })));
    put(&newer, "b", "2").await;
}

#[tokio::test]
async fn empty_store_under_an_old_ledger_is_refused() {
    let folder = Folder::new("wiped");
    let database = open(Arc::new(MemoryStore::new()), folder.path()).await;
    put(&database, "a", "1").await;
    database.close().await.expect("it closes");
    drop(database);
    let empty = Arc::new(MemoryStore::new());
    let refused =
        Database::open(empty, folder.path(), Options::default()).await.expect_err("the rows are not there");
    assert!(matches!(refused, Error::StoreTaken { .. }), "{refused}");
}

/// A store that comes back empty takes no commit: the next start would refuse it, and the commit would be nowhere.
#[tokio::test]
async fn store_emptied_while_it_runs_takes_no_commit() {
    let (folder, store) = (Folder::new("emptied"), Arc::new(MemoryStore::new()));
    let database = open(store.clone(), folder.path()).await;
    put(&database, "a", "1").await;
    store.lose_all();
    let mut transaction = begin(&database).await;
    transaction.put("b", "1").expect("it is valid");
    let stopped = transaction.commit().await.expect_err("the store is not the database's any more");
    assert!(matches!(stopped, Error::StoreTaken { .. }), "{stopped}");
    assert_eq!(store.cells(), []);
}

#[tokio::test]
async fn existing_cells_are_older_than_all_transactions() {
    let (folder, store) = (Folder::new("existing"), Arc::new(MemoryStore::new()));
    store.put_if_newer(&[("a".into(), stores::Cell::put(5_000, "old"))]).await.expect("it is put");
    let database = open(store, folder.path()).await;
    let old = begin(&database).await;
    assert!(put(&database, "a", "new").await > 5_000);
    assert_eq!(old.get(b"a").await, Ok(Some("old".into())));
}

#[tokio::test]
async fn backup_has_one_snapshot_and_opens() {
    let (folder, backup) = (Folder::new("source"), Folder::new("backup"));
    let database = open(embedded(folder.path()), folder.path()).await;
    put(&database, "a", "1").await;
    let mut transaction = begin(&database).await;
    for row in 0..2_500 {
        transaction.put(format!("row{row:05}"), "x").expect("it is valid");
    }
    transaction.delete("a").expect("it is valid");
    let committed = transaction.commit().await.expect("it commits");
    let made = database.backup(backup.path()).await.expect("it is made");
    assert_eq!((made.timestamp, made.rows), (committed.timestamp, 2_500));
    assert_eq!(database.backup(backup.path()).await.expect_err("it is there").code(), "FOLDER");
    put(&database, "row00000", "later").await;
    let restored = open(embedded(backup.path()), backup.path()).await;
    let transaction = begin(&restored).await;
    assert_eq!(transaction.get(b"row00000").await, Ok(Some("x".into())));
    assert_eq!(transaction.get(b"a").await, Ok(None));
    assert!(put(&restored, "row00000", "new").await > committed.timestamp);
}
