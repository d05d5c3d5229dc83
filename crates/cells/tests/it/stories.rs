//! Stories of a few transactions over a store in memory.

use std::sync::Arc;

use bytes::Bytes;
use cells::{Begin, Database, Error, Options};
use stores::{KeyRange, MemoryStore};

async fn open(store: &Arc<MemoryStore>, folder: &std::path::Path) -> Database {
    Database::open(store.clone(), folder, Options::default()).await.expect("it opens")
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("cells-{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    folder
}

#[tokio::test]
async fn snapshot_keeps_what_later_commits_overwrite() {
    let (store, folder) = (Arc::new(MemoryStore::new()), folder("snapshot"));
    let database = open(&store, &folder).await;
    let mut first = database.begin(Begin::default()).await.expect("it begins");
    first.put("a", "1").expect("it is valid");
    assert_eq!(first.get(b"a").await, Ok(Some(Bytes::from("1"))), "own writes are read");
    first.commit().await.expect("it commits");
    let old = database.begin(Begin::default()).await.expect("it begins");
    let mut second = database.begin(Begin::default()).await.expect("it begins");
    second.put("a", "2").expect("it is valid");
    second.put("b", "2").expect("it is valid");
    second.commit().await.expect("it commits");
    assert_eq!(old.get(b"a").await, Ok(Some(Bytes::from("1"))));
    assert_eq!(old.get(b"b").await, Ok(None));
    assert_eq!(old.scan(KeyRange::all(), 9).await, Ok(vec![("a".into(), "1".into())]));
    let new = database.begin(Begin::default()).await.expect("it begins");
    assert_eq!(new.get(b"a").await, Ok(Some(Bytes::from("2"))));
    let mut late = old;
    late.put("a", "3").expect("it is valid");
    assert!(matches!(late.commit().await, Err(Error::Conflict { .. })));
    drop(new);
    database.close().await.expect("it closes");
    drop(database);
    store.reopen();
    let database = open(&store, &folder).await;
    let again = database.begin(Begin::default()).await.expect("it begins");
    assert_eq!(again.get(b"b").await, Ok(Some(Bytes::from("2"))));
    database.close().await.expect("it closes");
    drop(std::fs::remove_dir_all(folder));
}
