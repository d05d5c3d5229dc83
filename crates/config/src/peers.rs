//! Nodes of one kind, and stores of key-value designs.

use crate::Server;
use std::path::PathBuf;

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
    /// The store of a key-value design.
    pub store: StorePlace,
    /// Capture of write sets at the nodes.
    pub capture: Capture,
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

/// Place of the cells of a key-value design: one of the three.
#[derive(Clone, Debug, Default)]
pub struct StorePlace {
    /// Folder of the embedded store.
    pub embedded: Option<PathBuf>,
    /// Address of a Redis server.
    pub redis: Vec<String>,
    /// Addresses of nodes of a Cassandra cluster.
    pub cassandra: Vec<String>,
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
