//! The conformance suite over each store of this crate.

use std::sync::Arc;

use stores::{MemoryFaults, MemoryStore, Store, conformance};

#[tokio::test]
async fn memory_store_conforms() {
    conformance::run(|| async { Arc::new(MemoryStore::new()) as Arc<dyn Store> }).await;
}

#[tokio::test]
async fn memory_store_with_weak_reads_conforms() {
    let faults = MemoryFaults { stale: 900, ..MemoryFaults::default() };
    conformance::run(|| async { Arc::new(MemoryStore::with_faults(1, faults)) as Arc<dyn Store> }).await;
}
