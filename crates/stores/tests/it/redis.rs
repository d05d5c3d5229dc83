//! The Redis store over a real server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stores::{Cell, Direction, KeyRange, RedisOptions, RedisStore, Store, StoreError, conformance};
use testkit::RedisServer;

use crate::faults;
use crate::proxy::Proxy;

async fn open(server: &RedisServer) -> RedisStore {
    RedisStore::open(&RedisOptions::at(server.url())).await.expect("the store answers")
}

#[tokio::test]
async fn redis_store_conforms() {
    let server = RedisServer::start();
    conformance::run(|| async { Arc::new(open(&server).await) as Arc<dyn Store> }).await;
}

/// Timestamps around each width at which a comparison by strings, halves or floating-point numbers goes wrong.
#[tokio::test]
async fn redis_compares_whole_timestamps() {
    let server = RedisServer::start();
    let store = open(&server).await;
    let widths = [8, 16, 31, 32, 33, 53, 54, 62];
    let timestamps: Vec<u64> = widths.iter().flat_map(|width| (1 << width) - 1..=(1 << width) + 1).collect();
    for (at, low) in timestamps.iter().enumerate() {
        for high in &timestamps[at + 1..] {
            let key = format!("{low}/{high}");
            store
                .put_if_newer(&[(key.clone().into(), Cell::put(*high, "high"))])
                .await
                .expect("the store answers");
            store
                .put_if_newer(&[(key.clone().into(), Cell::put(*low, "low"))])
                .await
                .expect("the store answers");
            assert_eq!(
                store.get(key.as_bytes()).await.expect("the store answers"),
                Some(Cell::put(*high, "high")),
                "{key}"
            );
        }
    }
    let all = store.scan(&KeyRange::all(), usize::MAX, Direction::Forward).await.expect("the store answers");
    assert_eq!(all.len(), timestamps.len() * (timestamps.len() - 1) / 2);
}

#[tokio::test]
async fn redis_drops_only_current_tombstones() {
    let server = RedisServer::start();
    let store = open(&server).await;
    for cell in [Cell::tombstone(3), Cell::tombstone(4), Cell::put(5, "five")] {
        store
            .put_if_newer(&[("a".into(), cell.clone()), (format!("b{}", cell.timestamp).into(), cell)])
            .await
            .expect("the store answers");
    }
    assert_eq!(store.drop_tombstones(4).await.expect("the store answers"), 1, "b3");
    assert_eq!(store.drop_tombstones(9).await.expect("the store answers"), 1, "b4");
    assert_eq!(store.drop_tombstones(9).await.expect("the store answers"), 0);
    let left = store.scan(&KeyRange::all(), 10, Direction::Forward).await.expect("the store answers");
    assert_eq!(left, [("a".into(), Cell::put(5, "five")), ("b5".into(), Cell::put(5, "five"))]);
}

#[tokio::test]
async fn redis_loads_scripts_again() {
    let server = RedisServer::start();
    let store = open(&server).await;
    store.put_if_newer(&[("a".into(), Cell::put(1, "one"))]).await.expect("the store answers");
    assert!(server.command("SCRIPT FLUSH").expect("the store answers").starts_with("+OK"));
    store.put_if_newer(&[("a".into(), Cell::put(2, "two"))]).await.expect("the store answers");
    assert_eq!(store.get(b"a").await.expect("the store answers"), Some(Cell::put(2, "two")));
}

#[tokio::test]
async fn redis_that_may_lose_cells_is_refused() {
    for (settings, reason) in [
        (["--appendfsync", "everysec"], "appendfsync always"),
        (["--no-appendfsync-on-rewrite", "yes"], "no-appendfsync-on-rewrite no"),
        (["--appendonly", "no"], "appendonly yes"),
        (["--maxmemory-policy", "allkeys-lru"], "maxmemory-policy noeviction"),
    ] {
        let server = RedisServer::with(&settings);
        let error =
            RedisStore::open(&RedisOptions::at(server.url())).await.expect_err("the store does not serve");
        assert!(matches!(&error, StoreError::Refused { reason: text } if text.contains(reason)), "{error}");
    }
}

/// The configuration is looked at with each connection: after a restart it may be another one.
#[tokio::test]
async fn redis_replica_is_no_store() {
    let primary = RedisServer::start();
    let server = RedisServer::start();
    let store = open(&server).await;
    store.put_if_newer(&[("a".into(), Cell::put(1, "one"))]).await.expect("the store answers");
    assert!(
        server
            .command(&format!("REPLICAOF 127.0.0.1 {}", primary.address().port()))
            .expect("the store answers")
            .starts_with("+OK")
    );
    for _ in 0..2 {
        let error = store
            .put_if_newer(&[("a".into(), Cell::put(2, "two"))])
            .await
            .expect_err("the store does not serve");
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    let error = store.get(b"a").await.expect_err("the store does not serve");
    assert!(error.to_string().contains("is a replica"), "{error}");
}

#[tokio::test]
async fn redis_killed_keeps_acknowledged_cells() {
    let mut server = RedisServer::start();
    let store = Arc::new(open(&server).await);
    faults::killed_amid_puts(store, move || {
        server.kill();
        server.restart();
        // The server lives until the process of the test ends.
        std::mem::forget(server);
    })
    .await;
}

#[tokio::test]
async fn redis_slow_or_cut_off_is_survived() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.address());
    let options = RedisOptions {
        command_timeout: Duration::from_millis(500),
        ..RedisOptions::at(format!("redis://{}/", proxy.address()))
    };
    let slow = RedisStore::open(&options).await.expect("the store answers");
    faults::slow_and_cut(&proxy, &slow, &open(&server).await).await;
}

#[tokio::test]
async fn redis_closed_store_refuses() {
    let server = RedisServer::start();
    let store = open(&server).await;
    store.close().await.expect("the store answers");
    assert!(matches!(store.get(b"a").await, Err(StoreError::Refused { .. })));
}

/// Callers that find a server stalled wait for one attempt to connect, not for one each.
#[tokio::test]
async fn redis_callers_share_a_failed_attempt() {
    const LIMIT: Duration = Duration::from_millis(500);
    let server = RedisServer::start();
    let proxy = Proxy::to(server.address());
    let options =
        RedisOptions { command_timeout: LIMIT, ..RedisOptions::at(format!("redis://{}/", proxy.address())) };
    let store = Arc::new(RedisStore::open(&options).await.expect("the store answers"));
    proxy.stall();
    assert!(store.get(b"a").await.is_err(), "the connection is dropped");
    let begun = Instant::now();
    let callers: Vec<_> = (0..40)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::task::spawn(async move { store.get(b"a").await })
        })
        .collect();
    for caller in callers {
        let error = caller.await.expect("the store answers").expect_err("the store does not serve");
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    assert!(begun.elapsed() < LIMIT * 20, "{:?}", begun.elapsed());
    proxy.resume();
}
