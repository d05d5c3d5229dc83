//! The history over a Redis server.

use std::sync::Arc;

use cells::Options;
use stores::{RedisOptions, RedisStore, Store};
use testkit::RedisServer;

use crate::bank;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bank_over_redis_that_is_killed() {
    let mut server = RedisServer::start();
    let url = server.url();
    let open = async || {
        let store = RedisStore::open(&RedisOptions::at(url.clone())).await.unwrap();
        Arc::new(store) as Arc<dyn Store>
    };
    let fault = move || {
        for _ in 0..3 {
            server.kill();
            server.restart();
        }
        // The server lives until the process of the test ends.
        std::mem::forget(server);
    };
    bank::history(Options::default(), open, fault).await;
}
