//! Nodes of one kind, and stores of key-value designs.

use crate::Server;
use std::path::PathBuf;
use std::time::Duration;

/// Nodes that all take writes, and what makes their commits durable.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    /// The nodes.
    pub nodes: Vec<Server>,
    /// Folder of the ledgers, one for each database.
    pub ledger_dir: Option<PathBuf>,
    /// Folder of the dumps, for which the ledger keeps records.
    pub dump_dir: Option<PathBuf>,
    /// File with the secret that nodes of the in-memory tier ask for.
    pub secret_file: Option<PathBuf>,
    /// File with the authorities of its nodes' certificates. `None`: no TLS.
    pub tls_ca_file: Option<PathBuf>,
    /// The store of a key-value design.
    pub store: StorePlace,
    /// Capture of write sets at the nodes.
    pub capture: Capture,
    /// For experiments: share of the write sets that the certifier refuses after their check, in percent.
    pub abort_percent: u64,
    /// Spares of the in-memory tier: the last ones of the nodes.
    pub spares: usize,
    /// One read in so many runs at a spare; 0: none.
    pub spare_read_interval: u64,
    /// Different versions at one slave up to which reads are placed by their version; 0: by load alone.
    pub read_versions: usize,
    /// URLs of the PostgreSQL servers behind the in-memory tier.
    pub back_ends: Vec<String>,
    /// Bytes of the query log for back ends that lack commits.
    pub back_end_log_limit: usize,
}

/// The store of a key-value design: one of the three, the log-in there, and its transactions.
#[derive(Clone, Debug, Default)]
pub struct StorePlace {
    /// Folder of the embedded store.
    pub embedded: Option<PathBuf>,
    /// Bytes of the embedded store's page cache.
    pub cache_size: usize,
    /// Address of a Redis server.
    pub redis: Vec<String>,
    /// First characters of the names of all keys in Redis.
    pub prefix: String,
    /// A Cassandra cluster.
    pub cassandra: CassandraPlace,
    /// User at the server. Empty: the server's default.
    pub user: String,
    /// File with the user's password.
    pub password_file: Option<PathBuf>,
    /// Limit of each request.
    pub request_timeout: Duration,
    /// Limits of transactions.
    pub transactions: StoreTransactions,
}

/// A Cassandra cluster with the cells of a key-value design.
#[derive(Clone, Debug, Default)]
pub struct CassandraPlace {
    /// Addresses of nodes. Empty: another store.
    pub nodes: Vec<String>,
    /// Keyspace.
    pub keyspace: String,
    /// Copies in each data centre, for a keyspace that is made.
    pub replication_factor: u16,
    /// Consistency level of reads and writes.
    pub consistency: StoreConsistency,
    /// Data centre whose nodes are asked. Empty: all.
    pub local_datacenter: String,
    /// Partitions that share the keys, for tables that are made.
    pub buckets: u16,
}

/// Cassandra's consistency level of reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreConsistency {
    /// More than half of all replicas.
    #[default]
    Quorum,
    /// More than half of the replicas in the data centre.
    LocalQuorum,
    /// One replica.
    One,
}

/// Limits of the transactions of a key-value design.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreTransactions {
    /// Bytes of old versions in memory.
    pub versions_size: usize,
    /// Bytes of commits that the store has not taken.
    pub unflushed_size: usize,
    /// Limit of the wait until a durable commit is visible.
    pub visible_timeout: Duration,
    /// Commits that the certifier remembers.
    pub certification_window: usize,
    /// Interval between syncs of the store.
    pub sync_interval: Duration,
    /// Take over a store whose ledger is lost.
    pub adopt: bool,
}

/// Capture of write sets at nodes that all take writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// The extension where a node has it, else SQL.
    #[default]
    Auto,
    /// Triggers in PL/pgSQL.
    Sql,
    /// The extension; a node without it takes no sessions.
    Extension,
}
