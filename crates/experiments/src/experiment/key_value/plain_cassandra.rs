//! Cassandra's own client: prepared statements at QUORUM over a table of the same layout as Consort's.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use consort::failure::Failure;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::client::{Client, Outcome, failed};

/// The session that all clients share, and its statements.
pub(super) struct Prepared {
    session: Session,
    buckets: u32,
    get: PreparedStatement,
    put: PreparedStatement,
    scan: PreparedStatement,
}

impl Prepared {
    /// Connects, and makes the keyspace `plain` with so many copies, and its table.
    pub(super) async fn connect(
        nodes: &[String],
        copies: u8,
        buckets: u16,
    ) -> Result<Arc<Prepared>, Failure> {
        let session = SessionBuilder::new().known_nodes(nodes).build().await.map_err(failed)?;
        let replication = format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {copies}}}");
        for text in [
            format!("CREATE KEYSPACE IF NOT EXISTS plain WITH replication = {replication}"),
            "CREATE TABLE IF NOT EXISTS plain.rows (bucket int, key blob, value blob, PRIMARY KEY (bucket, key))"
                .to_owned(),
        ] {
            session.query_unpaged(text, ()).await.map_err(failed)?;
        }
        let prepare = async |text: &str| {
            let mut statement = session.prepare(text).await.map_err(failed)?;
            statement.set_consistency(Consistency::Quorum);
            statement.set_is_idempotent(true);
            Ok::<_, Failure>(statement)
        };
        let get = prepare("SELECT value FROM plain.rows WHERE bucket = ? AND key = ?").await?;
        let put = prepare("INSERT INTO plain.rows (bucket, key, value) VALUES (?, ?, ?)").await?;
        let scan = prepare("SELECT key, value FROM plain.rows WHERE bucket = ? AND key >= ? LIMIT ?").await?;
        Ok(Arc::new(Prepared { session, buckets: u32::from(buckets), get, put, scan }))
    }

    async fn bucket_rows(&self, bucket: i32, from: &[u8], most: i32) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        let answer = self.session.execute_unpaged(&self.scan, (bucket, from, most)).await;
        let rows = answer.map_err(failed)?.into_rows_result().map_err(failed)?;
        let rows = rows.rows::<(Bytes, Bytes)>().map_err(failed)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(failed)
    }

    fn bucket(&self, key: &[u8]) -> i32 {
        (crc32fast::hash(key) % self.buckets).cast_signed()
    }
}

/// A client of the session.
pub(super) struct PlainCassandra {
    prepared: Arc<Prepared>,
    /// Writes of a logged batch.
    batch: Vec<(Bytes, Bytes)>,
    is_batched: bool,
}

impl PlainCassandra {
    pub(super) fn over(prepared: &Arc<Prepared>, is_batched: bool) -> PlainCassandra {
        PlainCassandra { prepared: Arc::clone(prepared), batch: Vec::new(), is_batched }
    }
}

#[async_trait]
impl Client for PlainCassandra {
    async fn begin(&mut self) -> Result<(), Failure> {
        self.batch.clear();
        Ok(())
    }

    async fn get(&mut self, key: Bytes) -> Result<Option<Bytes>, Failure> {
        let Prepared { session, get, .. } = &*self.prepared;
        let answer = session.execute_unpaged(get, (self.prepared.bucket(&key), &key[..])).await;
        let rows = answer.map_err(failed)?.into_rows_result().map_err(failed)?;
        let row = rows.maybe_first_row::<(Option<Bytes>,)>().map_err(failed)?;
        Ok(row.and_then(|(value,)| value))
    }

    async fn put(&mut self, key: Bytes, value: Bytes) -> Result<(), Failure> {
        if self.is_batched {
            self.batch.push((key, value));
            return Ok(());
        }
        let Prepared { session, put, .. } = &*self.prepared;
        let values = (self.prepared.bucket(&key), &key[..], &value[..]);
        session.execute_unpaged(put, values).await.map(drop).map_err(failed)
    }

    async fn scan(&mut self, from: Bytes, limit: usize) -> Result<usize, Failure> {
        let most = i32::try_from(limit).map_err(failed)?;
        let mut reads = Vec::new();
        // A bucket may have all of the smallest keys.
        for bucket in 0..self.prepared.buckets.cast_signed() {
            reads.push(self.prepared.bucket_rows(bucket, &from, most));
        }
        let parts: Vec<_> = stream::iter(reads).buffered(64).try_collect().await?;
        let mut rows: Vec<(Bytes, Bytes)> = parts.into_iter().flatten().collect();
        rows.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        rows.truncate(limit);
        Ok(rows.len())
    }

    async fn commit(&mut self) -> Result<Outcome, Failure> {
        if self.batch.is_empty() {
            return Ok(Outcome::Committed);
        }
        let Prepared { session, put, .. } = &*self.prepared;
        let statements = self.batch.iter().map(|_| put.clone().into()).collect();
        let mut batch = Batch::new_with_statements(BatchType::Logged, statements);
        batch.set_consistency(Consistency::Quorum);
        let values: Vec<_> =
            self.batch.iter().map(|(key, value)| (self.prepared.bucket(key), &key[..], &value[..])).collect();
        session.batch(&batch, values).await.map_err(failed)?;
        Ok(Outcome::Committed)
    }
}
