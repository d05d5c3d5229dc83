//! The history over a Redis server.

use std::sync::Arc;
use std::time::{Duration, Instant};

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
        // `make test-all` sets another number of seconds.
        let given = std::env::var("HISTORY_SECONDS").ok().and_then(|text| text.parse().ok());
        let until = Instant::now() + Duration::from_secs(given.unwrap_or(0));
        for kills in 1.. {
            server.kill();
            server.restart();
            if kills >= 3 && Instant::now() >= until {
                break;
            }
        }
        // The server lives until the process of the test ends.
        std::mem::forget(server);
    };
    bank::history(Options::default(), open, fault).await;
}
