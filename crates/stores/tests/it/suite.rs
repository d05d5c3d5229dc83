//! The conformance suite over each store of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stores::{EmbeddedOptions, EmbeddedStore, MemoryFaults, MemoryStore, Store, conformance};

use crate::folder::Folder;

#[tokio::test]
async fn memory_store_conforms() {
    conformance::run(|| async { Arc::new(MemoryStore::new()) as Arc<dyn Store> }).await;
}

#[tokio::test]
async fn memory_store_with_weak_reads_conforms() {
    let faults = MemoryFaults { stale: 900, ..MemoryFaults::default() };
    conformance::run(|| async { Arc::new(MemoryStore::with_faults(1, faults)) as Arc<dyn Store> }).await;
}

#[tokio::test]
async fn embedded_store_conforms() {
    let folder = Folder::new("suite");
    let made = AtomicU64::new(0);
    let make = || async {
        let path = folder.path().join(made.fetch_add(1, Ordering::Relaxed).to_string());
        let store = EmbeddedStore::open(&path, EmbeddedOptions::default()).expect("it opens");
        Arc::new(store) as Arc<dyn Store>
    };
    conformance::run(make).await;
}

#[tokio::test]
async fn one_embedded_store_for_all_checks_conforms() {
    let folder = Folder::new("suite-one");
    let store =
        EmbeddedStore::open(&folder.path().join("store"), EmbeddedOptions::default()).expect("it opens");
    let store: Arc<dyn Store> = Arc::new(store);
    conformance::run(|| async { Arc::clone(&store) }).await;
}
