//! Cells in a Cassandra cluster, as rows that Cassandra's own tools read.
//!
//! A cell is a row of `cells`, and its timestamp is the row's write timestamp: of two writes, Cassandra itself keeps the
//! one with the higher timestamp, at each replica and in each read. So a put is one INSERT, without a read before it.
//! Every INSERT writes both columns, `value` and `deleted`, and no row is written twice with one timestamp.
//!
//! A tombstone is a row with `deleted`: a row that Cassandra deletes tells nothing, and pH1 needs the timestamp of the
//! delete. The table `tombstones` has them by timestamp, until [`Store::drop_tombstones`] deletes the rows for good.
//!
//! Rows of one partition lie in order. The keys are shared among a fixed number of partitions, the *buckets*, by their
//! checksum (CRC-32). A scan asks all buckets and merges. A get or put asks one.

mod failure;
mod schema;
mod statements;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use self::failure::{of_answer, of_connect, of_read, of_statement};
use self::schema::Facts;
use self::statements::Statements;
use crate::{Cell, Description, Direction, KeyRange, KeyedCell, Reads, Store, StoreError};

/// Requests of one call that run at the same time.
const CONCURRENT: usize = 64;
/// Bytes of keys and values in one batch of rows of a bucket. Cassandra refuses batches above half a log segment.
const BATCH_BYTES: usize = 256 << 10;
/// Rows of one request.
const PAGE: usize = 1_000;
/// Longest key: Cassandra's limit for a clustering column.
const KEY_LIMIT: usize = 65_535;

/// Number of replicas that a read or write waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CassandraConsistency {
    /// More than half of all replicas. Reads are strong.
    #[default]
    Quorum,
    /// More than half of the replicas in the data centre. Reads are weak if the keyspace spans several.
    LocalQuorum,
    /// One replica. Reads are weak, and a replica lost for good may take acknowledged cells along.
    One,
}

impl CassandraConsistency {
    const fn level(self) -> Consistency {
        match self {
            CassandraConsistency::Quorum => Consistency::Quorum,
            CassandraConsistency::LocalQuorum => Consistency::LocalQuorum,
            CassandraConsistency::One => Consistency::One,
        }
    }
}

/// Settings of a Cassandra store.
#[derive(Clone)]
pub struct CassandraOptions {
    /// Addresses of nodes, as `host:port`. The others are found through them, at the same port.
    pub nodes: Vec<String>,
    /// Name of the keyspace. Default `consort`.
    pub keyspace: String,
    /// Number of copies if the keyspace must be made. Default 3.
    pub replication_factor: u16,
    /// Consistency of reads and writes. Default [`CassandraConsistency::Quorum`].
    pub consistency: CassandraConsistency,
    /// Number of partitions that share the keys, fixed when the tables are made. Default 32.
    pub buckets: u16,
    /// The data centre whose nodes are asked.
    pub datacenter: Option<String>,
    /// User and password.
    pub login: Option<(String, String)>,
    /// Limit of each request. Default 10 s.
    pub request_timeout: Duration,
}

impl CassandraOptions {
    /// Default settings for a cluster.
    pub fn at(nodes: impl IntoIterator<Item = impl Into<String>>) -> CassandraOptions {
        CassandraOptions {
            nodes: nodes.into_iter().map(Into::into).collect(),
            keyspace: "consort".to_owned(),
            replication_factor: 3,
            consistency: CassandraConsistency::default(),
            buckets: 32,
            datacenter: None,
            login: None,
            request_timeout: Duration::from_secs(10),
        }
    }
}

impl fmt::Debug for CassandraOptions {
    /// Leaves the password out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraOptions")
            .field("nodes", &self.nodes)
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}

/// Cells in a Cassandra cluster.
pub struct CassandraStore {
    session: Session,
    statements: Statements,
    facts: Facts,
    options: CassandraOptions,
    is_closed: AtomicBool,
}

impl fmt::Debug for CassandraStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraStore")
            .field("options", &self.options)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl CassandraStore {
    /// Connects, and makes the keyspace and the tables if they are missing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if no node answers, or too few for the consistency; [`StoreError::Refused`] if the
    /// cluster refuses the tables, or has others of their names.
    pub async fn open(options: &CassandraOptions) -> Result<CassandraStore, StoreError> {
        let level = options.consistency.level();
        let profile =
            ExecutionProfile::builder().consistency(level).request_timeout(Some(options.request_timeout));
        let mut builder = SessionBuilder::new()
            .known_nodes(&options.nodes)
            .connection_timeout(options.request_timeout)
            .fetch_schema_metadata(false)
            .default_execution_profile_handle(profile.build().into_handle());
        if let Some(name) = &options.datacenter {
            builder = builder.prefer_datacenter(name.clone());
        }
        if let Some((user, password)) = &options.login {
            builder = builder.user(user, password);
        }
        let session = builder.build().await.map_err(of_connect)?;
        let facts = schema::prepare(&session, options).await?;
        let statements = Statements::prepare(&session, &options.keyspace, level).await?;
        let (options, is_closed) = (options.clone(), AtomicBool::new(false));
        Ok(CassandraStore { session, statements, facts, options, is_closed })
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::Acquire) {
            Err(StoreError::refused("the store is closed"))
        } else {
            Ok(())
        }
    }

    fn bucket(&self, key: &[u8]) -> i32 {
        let bucket = crc32fast::hash(key) % u32::from(self.facts.buckets);
        i32::try_from(bucket).expect("fewer buckets than 65,536")
    }

    fn buckets(&self) -> impl Iterator<Item = i32> {
        (0..self.facts.buckets).map(i32::from)
    }

    async fn rows<Row>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Vec<Row>, StoreError>
    where
        Row: for<'frame> DeserializeRow<'frame, 'frame>,
    {
        let answer = self.session.execute_unpaged(statement, values).await.map_err(of_read)?;
        let answer = answer.into_rows_result().map_err(of_answer)?;
        answer.rows::<Row>().map_err(of_answer)?.collect::<Result<_, _>>().map_err(of_answer)
    }

    async fn write(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<(), StoreError> {
        self.session.execute_unpaged(statement, values).await.map(drop).map_err(of_statement)
    }

    async fn cell(&self, statement: &PreparedStatement, key: &[u8]) -> Result<Option<Cell>, StoreError> {
        let found = self.rows::<CellRow>(statement, (self.bucket(key), key)).await?;
        found.into_iter().next().map(cell_of).transpose()
    }

    async fn cells(
        &self,
        statement: &PreparedStatement,
        keys: &[Bytes],
    ) -> Result<Vec<Option<Cell>>, StoreError> {
        self.check_open()?;
        let mut reads = Vec::with_capacity(keys.len());
        for key in keys {
            reads.push(self.cell(statement, key));
        }
        stream::iter(reads).buffered(CONCURRENT).try_collect().await
    }

    /// Writes cells of one bucket as one batch, which lies in one partition.
    async fn put_rows(&self, rows: Vec<CellValues<'_>>) -> Result<(), StoreError> {
        match &rows[..] {
            [row] => self.write(&self.statements.put, row).await,
            _ => {
                let statements = rows.iter().map(|_| self.statements.put.clone().into()).collect();
                let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
                batch.set_is_idempotent(true);
                batch.set_consistency(self.options.consistency.level());
                self.session.batch(&batch, rows).await.map(drop).map_err(of_statement)
            }
        }
    }

    /// Tombstones of a bucket below a timestamp: up to a page of them after another one.
    async fn tombstones(
        &self,
        bucket: i32,
        after: &(i64, Vec<u8>),
        below: i64,
    ) -> Result<Vec<(i64, Vec<u8>)>, StoreError> {
        let limit = i32::try_from(PAGE).expect("a small page");
        self.rows(&self.statements.tombstones, (bucket, after.0, &after.1, below, limit)).await
    }

    /// Deletes the row of a tombstone, unless the key has a newer cell. Cassandra keeps newer rows in any case.
    async fn remove(&self, timestamp: i64, key: &[u8]) -> Result<u64, StoreError> {
        let found = self.cell(&self.statements.get, key).await?;
        if found != Some(Cell::tombstone(timestamp.cast_unsigned())) {
            return Ok(0);
        }
        self.write(&self.statements.remove, (timestamp, self.bucket(key), key)).await?;
        Ok(1)
    }

    async fn drop_tombstones_of(&self, bucket: i32, below: i64) -> Result<u64, StoreError> {
        let (mut dropped, mut after, mut is_empty) = (0, (0, Vec::new()), true);
        loop {
            let page = self.tombstones(bucket, &after, below).await?;
            is_empty &= page.is_empty();
            let mut removals = Vec::with_capacity(page.len());
            for (timestamp, key) in &page {
                removals.push(self.remove(*timestamp, key));
            }
            let counts: Vec<u64> = stream::iter(removals).buffered(CONCURRENT).try_collect().await?;
            dropped += counts.iter().sum::<u64>();
            match page.into_iter().nth(PAGE - 1) {
                Some(last) => after = last,
                None => break,
            }
        }
        if !is_empty {
            self.write(&self.statements.remove_tombstones, (below - 1, bucket, below)).await?;
        }
        Ok(dropped)
    }

    /// Reads the next page of one bucket of a scan.
    async fn next_page(
        &self,
        mut part: BucketScan,
        page: usize,
        direction: Direction,
    ) -> Result<BucketScan, StoreError> {
        if !part.cells.is_empty() || part.is_read || part.rest.is_empty() {
            return Ok(part);
        }
        let limit = i32::try_from(page).expect("a small page");
        let statement = self.statements.scan(direction, part.rest.to.is_some());
        let from = &part.rest.from[..];
        let found: Vec<KeyedRow> = match &part.rest.to {
            Some(to) => self.rows(statement, (part.bucket, from, &to[..], limit)).await?,
            None => self.rows(statement, (part.bucket, from, limit)).await?,
        };
        part.is_read = found.len() < page;
        for (key, value, deleted, timestamp) in found {
            part.cells.push_back((key.into(), cell_of((value.map(Bytes::from), deleted, timestamp))?));
        }
        if let Some((last, _)) = part.cells.back() {
            part.rest = part.rest.after(last, direction);
        }
        Ok(part)
    }
}

/// Value, delete mark and timestamp. Null for all but the timestamp means a row of another program.
type CellRow = (Option<Bytes>, Option<bool>, Option<i64>);
type KeyedRow = (Vec<u8>, Option<Vec<u8>>, Option<bool>, Option<i64>);
/// Bucket, key, value, delete mark and timestamp of a put.
type CellValues<'a> = (i32, &'a [u8], &'a [u8], bool, i64);

/// One bucket of a scan: cells that were read, and the range that was not.
#[derive(Debug)]
struct BucketScan {
    bucket: i32,
    rest: KeyRange,
    cells: VecDeque<KeyedCell>,
    is_read: bool,
}

impl BucketScan {
    /// Whether the next cell must be read first.
    fn is_short(&self) -> bool {
        self.cells.is_empty() && !self.is_read && !self.rest.is_empty()
    }
}

fn cell_of((value, deleted, timestamp): CellRow) -> Result<Cell, StoreError> {
    let (Some(deleted), Some(timestamp)) =
        (deleted, timestamp.and_then(|timestamp| u64::try_from(timestamp).ok()))
    else {
        return Err(of_answer("a row without `deleted`: another program writes into `cells`"));
    };
    Ok(Cell { timestamp, value: (!deleted).then(|| value.unwrap_or_default()) })
}

fn signed(timestamp: u64) -> Result<i64, StoreError> {
    i64::try_from(timestamp).map_err(|_| StoreError::refused("Cassandra's timestamps have 63 bits"))
}

#[async_trait]
impl Store for CassandraStore {
    async fn get(&self, key: &[u8]) -> Result<Option<Cell>, StoreError> {
        self.check_open()?;
        self.cell(&self.statements.get, key).await
    }

    async fn get_many(&self, keys: &[Bytes]) -> Result<Vec<Option<Cell>>, StoreError> {
        self.cells(&self.statements.get, keys).await
    }

    async fn put_if_newer(&self, batch: &[KeyedCell]) -> Result<(), StoreError> {
        self.check_open()?;
        let mut buckets: BTreeMap<i32, Vec<CellValues<'_>>> = BTreeMap::new();
        let mut tombstones = Vec::new();
        for (key, cell) in batch {
            if key.len() > KEY_LIMIT {
                return Err(StoreError::refused(format!("a key has at most {KEY_LIMIT} bytes in Cassandra")));
            }
            let (bucket, timestamp) = (self.bucket(key), signed(cell.timestamp)?);
            if cell.is_tombstone() {
                tombstones.push(
                    self.write(&self.statements.put_tombstone, (bucket, timestamp, &key[..], timestamp)),
                );
            }
            let row =
                (bucket, &key[..], cell.value.as_deref().unwrap_or_default(), cell.is_tombstone(), timestamp);
            buckets.entry(bucket).or_default().push(row);
        }
        // The entry stands before the tombstone does: none is forgotten.
        stream::iter(tombstones).buffered(CONCURRENT).try_collect::<()>().await?;
        let mut puts = Vec::new();
        for rows in buckets.into_values() {
            for part in parts(rows) {
                puts.push(self.put_rows(part));
            }
        }
        stream::iter(puts).buffered(CONCURRENT).try_collect::<()>().await?;
        Ok(())
    }

    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyedCell>, StoreError> {
        self.check_open()?;
        let page = (limit / usize::from(self.facts.buckets) * 2).saturating_add(8).min(PAGE).min(limit);
        let mut found = Vec::new();
        if range.is_empty() || limit == 0 {
            return Ok(found);
        }
        let part =
            |bucket| BucketScan { bucket, rest: range.clone(), cells: VecDeque::new(), is_read: false };
        let mut parts: Vec<BucketScan> = self.buckets().map(part).collect();
        while found.len() < limit {
            if parts.iter().any(BucketScan::is_short) {
                let mut reads = Vec::with_capacity(parts.len());
                for part in parts {
                    reads.push(self.next_page(part, page, direction));
                }
                parts = stream::iter(reads).buffered(CONCURRENT).try_collect().await?;
                continue;
            }
            let full = parts.iter_mut().filter(|part| !part.cells.is_empty());
            let next = match direction {
                Direction::Forward => full.min_by(|a, b| a.cells[0].0.cmp(&b.cells[0].0)),
                Direction::Reverse => full.max_by(|a, b| a.cells[0].0.cmp(&b.cells[0].0)),
            };
            let Some(cell) = next.and_then(|part| part.cells.pop_front()) else { break };
            found.push(cell);
        }
        Ok(found)
    }

    async fn drop_tombstones(&self, below: u64) -> Result<u64, StoreError> {
        self.check_open()?;
        let below = signed(below)?;
        let mut drops = Vec::new();
        for bucket in self.buckets() {
            drops.push(self.drop_tombstones_of(bucket, below));
        }
        stream::iter(drops).buffered(4).try_fold(0, async |sum, dropped| Ok(sum + dropped)).await
    }

    /// The cluster's `commitlog_sync_period`, and as long again for a sync that is late.
    fn sync_lag(&self) -> Duration {
        self.facts.sync_lag
    }

    /// Reads the keys at all their replicas. Cassandra repairs replicas that lack the newest cell before it answers.
    async fn settle(&self, keys: &[Bytes]) -> Result<(), StoreError> {
        if self.reads() == Reads::Strong {
            return Ok(());
        }
        self.cells(&self.statements.settle, keys).await.map(drop)
    }

    async fn highest_timestamp(&self) -> Result<u64, StoreError> {
        self.check_open()?;
        let mut highest = 0;
        for bucket in self.buckets() {
            let found: Vec<(Option<i64>,)> = self.rows(&self.statements.highest, (bucket,)).await?;
            let found = found.first().and_then(|(timestamp,)| *timestamp).unwrap_or_default();
            highest = highest.max(u64::try_from(found).map_err(of_answer)?);
        }
        Ok(highest)
    }

    fn reads(&self) -> Reads {
        self.facts.reads
    }

    fn describe(&self) -> Description {
        let facts = [
            ("keyspace", self.options.keyspace.clone()),
            ("consistency", format!("{:?}", self.options.consistency)),
            ("buckets", self.facts.buckets.to_string()),
            ("sync lag", format!("{:?}", self.facts.sync_lag)),
        ];
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Description { kind: "cassandra", location: self.options.nodes.join(","), is_ordered: true, facts }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.is_closed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Rows of a bucket in parts of bounded size.
fn parts(rows: Vec<CellValues<'_>>) -> Vec<Vec<CellValues<'_>>> {
    let mut parts: Vec<Vec<CellValues<'_>>> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        bytes += row.1.len() + row.2.len();
        match parts.last_mut() {
            Some(part) if bytes <= BATCH_BYTES && part.len() < PAGE => part.push(row),
            _ => {
                bytes = row.1.len() + row.2.len();
                parts.push(vec![row]);
            }
        }
    }
    parts
}
