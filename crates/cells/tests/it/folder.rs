//! Folders and databases of tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cells::{Begin, Database, Options, Transaction};
use stores::{EmbeddedOptions, EmbeddedStore, Store};

/// A folder that is removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("cells-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub(crate) async fn open(store: Arc<dyn Store>, folder: &Path) -> Database {
    Database::open(store, folder, Options::default()).await.expect("it opens")
}

pub(crate) async fn begin(database: &Database) -> Transaction {
    database.begin(Begin::default()).await.expect("it begins")
}

/// The embedded store in a folder.
pub(crate) fn embedded(folder: &Path) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(&folder.join("store"), EmbeddedOptions::default()).expect("it opens"))
}

/// Commits one write.
pub(crate) async fn put(database: &Database, key: &'static str, value: &'static str) -> u64 {
    let mut transaction = begin(database).await;
    transaction.put(key, value).expect("it is valid");
    transaction.commit().await.expect("it commits").timestamp
}
