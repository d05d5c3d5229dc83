//! Redis's own client. A row is a string; a sorted set has the keys in order, for scans, as in YCSB's binding for Redis.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort::failure::Failure;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline};

use super::client::{Client, Outcome, failed};

/// The name of the sorted set.
const INDEX: &str = "plain:index";
/// Limit of each answer: a busy disk may take longer than the driver's half second.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A client over a connection that all clients share.
pub(super) struct PlainRedis {
    connection: MultiplexedConnection,
    /// Writes of a batch, which Redis executes together (MULTI and EXEC).
    batch: Option<Pipeline>,
    is_batched: bool,
}

impl PlainRedis {
    /// Connects to `redis://host:port/`.
    pub(super) async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
        let client = redis::Client::open(url).map_err(failed)?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_LIMIT));
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)
    }

    pub(super) fn over(connection: &MultiplexedConnection, is_batched: bool) -> PlainRedis {
        PlainRedis { connection: connection.clone(), batch: None, is_batched }
    }

    fn name(key: &Bytes) -> Vec<u8> {
        [b"plain:", &key[..]].concat()
    }
}

#[async_trait]
impl Client for PlainRedis {
    async fn begin(&mut self) -> Result<(), Failure> {
        self.batch = self.is_batched.then(|| {
            let mut batch = redis::pipe();
            batch.atomic();
            batch
        });
        Ok(())
    }

    async fn get(&mut self, key: Bytes) -> Result<Option<Bytes>, Failure> {
        let mut get = redis::cmd("GET");
        get.arg(PlainRedis::name(&key));
        get.query_async(&mut self.connection).await.map_err(failed)
    }

    async fn put(&mut self, key: Bytes, value: Bytes) -> Result<(), Failure> {
        let name = PlainRedis::name(&key);
        if let Some(batch) = &mut self.batch {
            batch.set(name, &value[..]).ignore();
            return Ok(());
        }
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&value[..]);
        set.exec_async(&mut self.connection).await.map_err(failed)
    }

    async fn insert(&mut self, key: Bytes, value: Bytes) -> Result<(), Failure> {
        if let Some(batch) = &mut self.batch {
            batch.set(PlainRedis::name(&key), &value[..]).ignore().zadd(INDEX, &key[..], 0).ignore();
            return Ok(());
        }
        let mut both = redis::pipe();
        both.set(PlainRedis::name(&key), &value[..]).ignore().zadd(INDEX, &key[..], 0).ignore();
        both.exec_async(&mut self.connection).await.map_err(failed)
    }

    async fn scan(&mut self, from: Bytes, limit: usize) -> Result<usize, Failure> {
        let mut range = redis::cmd("ZRANGEBYLEX");
        range.arg(INDEX).arg([b"[", &from[..]].concat()).arg("+").arg("LIMIT").arg(0).arg(limit);
        let keys: Vec<Bytes> = range.query_async(&mut self.connection).await.map_err(failed)?;
        if keys.is_empty() {
            return Ok(0);
        }
        let mut get = redis::cmd("MGET");
        for key in &keys {
            get.arg(PlainRedis::name(key));
        }
        let rows: Vec<Option<Bytes>> = get.query_async(&mut self.connection).await.map_err(failed)?;
        Ok(rows.into_iter().flatten().count())
    }

    async fn commit(&mut self) -> Result<Outcome, Failure> {
        if let Some(batch) = self.batch.take() {
            batch.exec_async(&mut self.connection).await.map_err(failed)?;
        }
        Ok(Outcome::Committed)
    }
}
