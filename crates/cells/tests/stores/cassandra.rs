//! The history over Cassandra clusters.

use std::sync::Arc;

use cells::Options;
use stores::{CassandraConsistency, CassandraOptions, CassandraStore, Reads, Store};
use testkit::CassandraCluster;

use crate::bank;

/// Three nodes, three copies. Over quorums one node is killed and comes back. With one replica a read, reads are weak.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bank_over_cassandra_with_a_node_killed() {
    let mut cluster = CassandraCluster::start(3);
    let nodes: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
    let weak = CassandraOptions {
        keyspace: "weak".to_owned(),
        consistency: CassandraConsistency::One,
        ..CassandraOptions::at(nodes.clone())
    };
    let open = async || {
        let store = CassandraStore::open(&weak).await.unwrap();
        assert_eq!(store.reads(), Reads::Weak);
        Arc::new(store) as Arc<dyn Store>
    };
    bank::history(Options::default(), open, || {}).await;
    let strong = CassandraOptions { keyspace: "strong".to_owned(), ..CassandraOptions::at(nodes) };
    let open = async || Arc::new(CassandraStore::open(&strong).await.unwrap()) as Arc<dyn Store>;
    let fault = move || {
        cluster.kill(2);
        cluster.restart(2);
        // The nodes live until the process of the test ends.
        std::mem::forget(cluster);
    };
    bank::history(Options::default(), open, fault).await;
}
