//! The Cassandra store over clusters of one node and of three.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::session_builder::SessionBuilder;
use stores::{
    CassandraConsistency, CassandraOptions, CassandraStore, Cell, Direction, KeyRange, Reads, Store,
    StoreError, conformance,
};
use testkit::{CassandraCluster, soon};

use crate::faults;
use crate::proxy::Proxy;

fn options(cluster: &CassandraCluster, keyspace: &str) -> CassandraOptions {
    let nodes = cluster.addresses();
    let replication_factor = u16::try_from(nodes.len()).unwrap();
    let at = CassandraOptions::at(nodes.iter().map(ToString::to_string));
    CassandraOptions { keyspace: keyspace.to_owned(), replication_factor, ..at }
}

async fn open(options: &CassandraOptions) -> CassandraStore {
    CassandraStore::open(options).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The suite and the tests of one node share its start, which takes longer than they do.
#[tokio::test]
async fn cassandra_of_one_node() {
    let cluster = CassandraCluster::start(1);
    let store = Arc::new(open(&options(&cluster, "suite")).await);
    assert_eq!(store.reads(), Reads::Strong);
    conformance::run(|| async { Arc::clone(&store) as Arc<dyn Store> }).await;
    drops_only_current_tombstones(&cluster).await;
    other_tools_read_rows(&cluster).await;
    keeps_the_number_of_buckets(&cluster).await;
    refuses_what_does_not_fit(&cluster).await;
    slow_or_cut_off_is_survived(&cluster).await;
    killed_keeps_acknowledged_cells(cluster).await;
}

async fn drops_only_current_tombstones(cluster: &CassandraCluster) {
    let store = open(&CassandraOptions { buckets: 1, ..options(cluster, "dropped") }).await;
    for cell in [Cell::tombstone(3), Cell::tombstone(4), Cell::put(5, "five")] {
        store
            .put_if_newer(&[("a".into(), cell.clone()), (format!("b{}", cell.timestamp).into(), cell)])
            .await
            .unwrap();
    }
    assert_eq!(store.drop_tombstones(4).await.unwrap(), 1, "b3");
    assert_eq!(store.drop_tombstones(9).await.unwrap(), 1, "b4");
    assert_eq!(store.drop_tombstones(9).await.unwrap(), 0);
    let left = store.scan(&KeyRange::all(), 10, Direction::Forward).await.unwrap();
    assert_eq!(left, [("a".into(), Cell::put(5, "five")), ("b5".into(), Cell::put(5, "five"))]);
    // More than a page of them.
    let many: Vec<_> = (0..2_500u64).map(|at| (format!("c{at}").into(), Cell::tombstone(at + 10))).collect();
    store.put_if_newer(&many).await.unwrap();
    assert_eq!(store.drop_tombstones(10_000).await.unwrap(), 2_500);
    assert_eq!(store.scan(&KeyRange::prefix("c"), 10, Direction::Forward).await.unwrap(), []);
    // A dropped key takes newer cells.
    store.put_if_newer(&[("c7".into(), Cell::put(20_000, "new"))]).await.unwrap();
    assert_eq!(store.get(b"c7").await.unwrap(), Some(Cell::put(20_000, "new")));
}

async fn other_tools_read_rows(cluster: &CassandraCluster) {
    let store = open(&options(cluster, "readable")).await;
    store
        .put_if_newer(&[("name".into(), Cell::put(7, "value")), ("gone".into(), Cell::tombstone(8))])
        .await
        .unwrap();
    let session = SessionBuilder::new().known_node_addr(cluster.address(0)).build().await.unwrap();
    let text =
        "SELECT key, value, WRITETIME(value) FROM readable.cells WHERE deleted = false ALLOW FILTERING";
    let rows = session.query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
    let rows: Vec<(Vec<u8>, Vec<u8>, i64)> = rows.rows().unwrap().map(Result::unwrap).collect();
    assert_eq!(rows, [(b"name".to_vec(), b"value".to_vec(), 7)]);
}

async fn keeps_the_number_of_buckets(cluster: &CassandraCluster) {
    let first = CassandraOptions { buckets: 3, ..options(cluster, "buckets") };
    open(&first).await.put_if_newer(&[("a".into(), Cell::put(1, "one"))]).await.unwrap();
    let store = open(&CassandraOptions { buckets: 64, ..first }).await;
    assert_eq!(store.get(b"a").await.unwrap(), Some(Cell::put(1, "one")));
    let facts = store.describe().facts;
    assert!(facts.contains(&("buckets".to_owned(), "3".to_owned())), "{facts:?}");
}

async fn refuses_what_does_not_fit(cluster: &CassandraCluster) {
    let store = open(&options(cluster, "refused")).await;
    for (key, timestamp) in [(vec![b'x'; 65_536], 1), (b"a".to_vec(), 1 << 63)] {
        let error = store.put_if_newer(&[(key.into(), Cell::put(timestamp, "x"))]).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    }
    let longest = vec![b'x'; 65_535];
    store.put_if_newer(&[(longest.clone().into(), Cell::put(1, "x"))]).await.unwrap();
    assert_eq!(store.get(&longest).await.unwrap(), Some(Cell::put(1, "x")));
    let large = vec![0; 6 << 20];
    let error = store.put_if_newer(&[("large".into(), Cell::put(1, large))]).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    let injected = CassandraOptions { keyspace: "a; DROP".to_owned(), ..options(cluster, "refused") };
    let error = CassandraStore::open(&injected).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
}

async fn slow_or_cut_off_is_survived(cluster: &CassandraCluster) {
    let proxy = Proxy::to(cluster.address(0));
    let direct = options(cluster, "slow");
    let nodes = vec![proxy.address().to_string()];
    let behind = CassandraOptions { nodes, request_timeout: Duration::from_secs(2), ..direct.clone() };
    let slow = open(&behind).await;
    faults::slow_and_cut(&proxy, &slow, &open(&direct).await).await;
}

async fn killed_keeps_acknowledged_cells(mut cluster: CassandraCluster) {
    let store = Arc::new(open(&options(&cluster, "killed")).await);
    faults::killed_amid_puts(store, move || {
        cluster.kill(0);
        cluster.restart(0);
        // The node lives until the process of the test ends.
        std::mem::forget(cluster);
    })
    .await;
}

/// Three nodes, three copies. One node away changes nothing for quorums, and makes reads of one replica weak.
#[tokio::test]
async fn cassandra_of_three_nodes() {
    let mut cluster = CassandraCluster::start(3);
    let quorum = Arc::new(open(&options(&cluster, "quorum")).await);
    assert_eq!(quorum.reads(), Reads::Strong);
    conformance::run(|| async { Arc::clone(&quorum) as Arc<dyn Store> }).await;
    let weak = CassandraOptions { consistency: CassandraConsistency::One, ..options(&cluster, "weak") };
    let weak = Arc::new(open(&weak).await);
    assert_eq!(weak.reads(), Reads::Weak);
    conformance::run(|| async { Arc::clone(&weak) as Arc<dyn Store> }).await;

    let keys: Vec<bytes::Bytes> = (0..50).map(|at| format!("node/{at}").into()).collect();
    let batch = |timestamp: u64| -> Vec<_> {
        keys.iter().map(|key| (key.clone(), Cell::put(timestamp, timestamp.to_string()))).collect()
    };
    quorum.put_if_newer(&batch(1)).await.unwrap();
    cluster.kill(2);
    for timestamp in 2..=20 {
        soon("puts without a node", quorum.put_if_newer(&batch(timestamp))).await.unwrap();
        let found = soon("reads without a node", quorum.get_many(&keys)).await.unwrap();
        assert!(found.iter().all(|found| *found == Some(Cell::put(timestamp, timestamp.to_string()))));
    }
    let error = weak.settle(&keys[..1]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    cluster.restart(2);
    cluster.kill(1);
    // The node that was away answers for a quorum now.
    let found = loop {
        match quorum.get_many(&keys).await {
            Ok(found) => break found,
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
    };
    assert!(found.iter().all(|found| *found == Some(Cell::put(20, "20"))), "{found:?}");
    cluster.kill(2);
    let error = loop {
        let error = quorum.put_if_newer(&batch(21)).await.unwrap_err();
        match error {
            StoreError::Unknown { .. } => {}
            error => break error,
        }
    };
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}
