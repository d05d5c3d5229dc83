//! The embedded store's file: locks, restarts, size.

use stores::{Cell, EmbeddedOptions, EmbeddedStore, KeyedCell, Store, StoreError};

use crate::folder::Folder;

fn open(folder: &Folder) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(&folder.path().join("store"), EmbeddedOptions::default())
}

#[tokio::test]
async fn open_file_is_refused_to_others() {
    let folder = Folder::new("locked");
    let store = open(&folder).expect("it opens");
    let refused = open(&folder).expect_err("it is open");
    assert!(refused.to_string().contains("another process"), "{refused}");
    store.close().await.expect("it closes");
    assert!(matches!(store.get(b"a").await, Err(StoreError::Refused { .. })), "closed stores refuse");
    open(&folder).expect("it is free");
}

#[tokio::test]
async fn synced_cells_survive_an_end_without_close() {
    let folder = Folder::new("synced");
    let store = open(&folder).expect("it opens");
    store.put_if_newer(&[("a".into(), Cell::put(1, "1"))]).await.expect("it is put");
    store.sync().await.expect("it syncs");
    // The copy is what a crash would leave.
    std::fs::copy(folder.path().join("store"), folder.path().join("copy")).expect("it is copied");
    let copy =
        EmbeddedStore::open(&folder.path().join("copy"), EmbeddedOptions::default()).expect("it is repaired");
    assert_eq!(copy.get(b"a").await, Ok(Some(Cell::put(1, "1"))));
    assert_eq!(copy.highest_timestamp().await, Ok(1));
}

#[tokio::test]
async fn file_does_not_grow_under_overwrites() {
    const ROWS: u64 = 2_000;
    let folder = Folder::new("size");
    let store = open(&folder).expect("it opens");
    let size = || std::fs::metadata(folder.path().join("store")).expect("it is there").len();
    let mut first = 0;
    for round in 1..=40 {
        let cell = |row: u64| (format!("{row:06}").into(), Cell::put(round * ROWS + row, vec![b'x'; 500]));
        let batch: Vec<KeyedCell> = (0..ROWS).map(cell).collect();
        store.put_if_newer(&batch).await.expect("it is put");
        store.sync().await.expect("it syncs");
        if round == 10 {
            first = size();
        }
    }
    assert!(size() <= first * 2, "{} bytes after 10 rounds, {} after 40", first, size());
    drop(store);
    EmbeddedStore::compact(&folder.path().join("store"), EmbeddedOptions::default())
        .expect("it is compacted");
    assert!(size() <= first, "{} bytes after a compaction", size());
}

#[test]
fn other_files_are_refused() {
    let folder = Folder::new("other");
    std::fs::write(folder.path().join("store"), [7; 10_000]).expect("it is written");
    assert!(matches!(open(&folder), Err(StoreError::Refused { .. })));
}
