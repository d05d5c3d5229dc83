//! Faults that each server of a store must survive: killed amid puts, slow, cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use stores::{Cell, KeyedCell, Store, StoreError};
use testkit::{eventually, soon};

use crate::proxy::Proxy;

/// Keys of each batch.
const KEYS: u64 = 20;

fn batch(timestamp: u64) -> Vec<KeyedCell> {
    let cell = |at: u64| match (at + timestamp) % 5 {
        0 => Cell::tombstone(timestamp),
        _ => Cell::put(timestamp, format!("{timestamp}/{at}")),
    };
    (0..KEYS).map(|at| (Bytes::from(format!("fault/{at}")), cell(at))).collect()
}

async fn cells(store: &dyn Store, batch: &[KeyedCell]) -> Result<Vec<Option<Cell>>, StoreError> {
    store.get_many(&batch.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>()).await
}

/// Puts batches of rising timestamps until a put fails; the server is killed and started again meanwhile. Then all
/// acknowledged cells are there or newer ones, and the repeated batch is read whole.
pub(crate) async fn killed_amid_puts(
    store: Arc<dyn Store>,
    kill_and_restart: impl FnOnce() + Send + 'static,
) {
    let (acknowledged, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (seen, over) = (Arc::clone(&acknowledged), Arc::clone(&is_over));
    let killer = tokio::task::spawn_blocking(move || {
        eventually("a hundred puts", || seen.load(Ordering::Acquire) >= 100);
        kill_and_restart();
        over.store(true, Ordering::Release);
    });
    let mut failed = None;
    for timestamp in 1.. {
        match store.put_if_newer(&batch(timestamp)).await {
            Ok(()) => acknowledged.store(timestamp, Ordering::Release),
            Err(error) => {
                assert!(error.is_temporary(), "{error}");
                failed = Some(timestamp);
                break;
            }
        }
        if is_over.load(Ordering::Acquire) {
            break;
        }
    }
    killer.await.expect("the store answers");
    let failed = failed.expect("a put fails while the server is away");
    let acknowledged = acknowledged.load(Ordering::Acquire);
    let expected = batch(acknowledged);
    let found = soon("the server's return", until_served(&*store, &expected)).await;
    for (found, (key, cell)) in found.into_iter().zip(&expected) {
        let found = found.unwrap_or_else(|| panic!("{key:?} is lost, acknowledged at {acknowledged}"));
        assert!(
            found.timestamp >= cell.timestamp,
            "{key:?} is of {}, acknowledged {acknowledged}",
            found.timestamp
        );
        assert!(found == *cell || found.timestamp == failed, "{key:?}: {found:?}");
    }
    store.put_if_newer(&batch(failed)).await.expect("the store answers");
    store.put_if_newer(&batch(acknowledged)).await.expect("the store answers");
    let whole: Vec<_> = batch(failed).into_iter().map(|(_, cell)| Some(cell)).collect();
    assert_eq!(cells(&*store, &expected).await.expect("the store answers"), whole);
}

/// Reads until the server answers. Each attempt is a request, which waits.
async fn until_served(store: &dyn Store, expected: &[KeyedCell]) -> Vec<Option<Cell>> {
    loop {
        match cells(store, expected).await {
            Ok(found) => return found,
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// A server that stalls: the put has an unknown outcome within its limit. It arrives later, after a newer one by another
/// way, and changes nothing. A cut is an error, and the next call connects again.
pub(crate) async fn slow_and_cut(proxy: &Proxy, slow: &dyn Store, direct: &dyn Store) {
    slow.put_if_newer(&batch(1)).await.expect("the store answers");
    proxy.stall();
    let error =
        soon("the limit of a put", slow.put_if_newer(&batch(2))).await.expect_err("the store does not serve");
    assert!(matches!(error, StoreError::Unknown { .. }), "{error}");
    direct.put_if_newer(&batch(3)).await.expect("the store answers");
    proxy.resume();
    let newest: Vec<_> = batch(3).into_iter().map(|(_, cell)| Some(cell)).collect();
    assert_eq!(soon("the server's return", until_served(slow, &batch(3))).await, newest);
    proxy.cut();
    let error = soon("the end of a cut connection", slow.put_if_newer(&batch(4)))
        .await
        .expect_err("the store does not serve");
    assert!(matches!(error, StoreError::Unknown { .. } | StoreError::Unavailable { .. }), "{error}");
    proxy.resume();
    soon("the server's return", until_served(slow, &batch(3))).await;
    slow.put_if_newer(&batch(5)).await.expect("the store answers");
    let newest: Vec<_> = batch(5).into_iter().map(|(_, cell)| Some(cell)).collect();
    assert_eq!(cells(direct, &batch(5)).await.expect("the store answers"), newest);
}
