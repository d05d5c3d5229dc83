//! The servers of an experiment, the database over them, and their clients.

use std::path::PathBuf;
use std::sync::Arc;

use cells::{Database, Options};
use consort::failure::Failure;
use redis::aio::MultiplexedConnection;
use stores::{
    CassandraOptions, CassandraStore, EmbeddedOptions, EmbeddedStore, RedisOptions, RedisStore, Store,
};
use testkit::{CassandraCluster, RedisServer};

use super::client::{Client, Kind, failed};
use super::plain_cassandra::{PlainCassandra, Prepared};
use super::plain_redis::PlainRedis;
use super::table::Place;
use super::transactions::Transactions;

/// Partitions of the tables in Cassandra: a scan asks each.
const BUCKETS: u16 = 4;

/// Connections of the store's own client.
enum Plain {
    /// The embedded store has no client but the crate.
    Nothing,
    Redis(MultiplexedConnection),
    Cassandra(Arc<Prepared>),
}

/// Servers, which end with this value.
enum Servers {
    Nothing,
    Redis(#[expect(dead_code, reason = "it is held until the end")] RedisServer),
    Cassandra(#[expect(dead_code, reason = "it is held until the end")] CassandraCluster),
}

/// Everything that an experiment needs, removed with this value.
pub(super) struct Ground {
    database: Database,
    plain: Plain,
    folder: Folder,
    #[expect(dead_code, reason = "they are held until the end")]
    servers: Servers,
}

/// A temporary folder, removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays is in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Ground {
    /// Starts the servers and opens the database.
    pub(super) async fn make(place: Place) -> Result<Ground, Failure> {
        let folder = Folder(std::env::temp_dir().join(format!("consort-key-value-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0)?;
        let (servers, plain, store): (Servers, Plain, Arc<dyn Store>) = match place {
            Place::Embedded => {
                let file = folder.0.join("store");
                let store = EmbeddedStore::open(&file, EmbeddedOptions::default()).map_err(failed)?;
                (Servers::Nothing, Plain::Nothing, Arc::new(store))
            }
            Place::Redis => {
                let server = RedisServer::start();
                let store = RedisStore::open(&RedisOptions::at(server.url())).await.map_err(failed)?;
                let plain = PlainRedis::connect(&server.url()).await?;
                (Servers::Redis(server), Plain::Redis(plain), Arc::new(store))
            }
            Place::Cassandra { nodes } => {
                if !CassandraCluster::is_installed() {
                    return Err(Failure::new("Cassandra's jars are missing; run make cassandra"));
                }
                let cluster = CassandraCluster::start(nodes);
                let addresses: Vec<String> = cluster.addresses().iter().map(ToString::to_string).collect();
                let options = CassandraOptions {
                    replication_factor: u16::from(nodes),
                    buckets: BUCKETS,
                    ..CassandraOptions::at(&addresses)
                };
                let store = CassandraStore::open(&options).await.map_err(failed)?;
                let plain = Prepared::connect(&addresses, nodes, BUCKETS).await?;
                (Servers::Cassandra(cluster), Plain::Cassandra(plain), Arc::new(store))
            }
        };
        let database = Database::open(store, &folder.0, Options::default()).await.map_err(failed)?;
        Ok(Ground { database, plain, folder, servers })
    }

    /// The kinds of clients of this place.
    pub(super) fn kinds(place: Place) -> &'static [Kind] {
        match place {
            Place::Embedded => &[Kind::Transactions],
            Place::Redis | Place::Cassandra { .. } => &[Kind::Plain, Kind::Transactions],
        }
    }

    /// Clients of a kind.
    pub(super) fn clients(&self, kind: Kind, count: usize) -> Vec<Box<dyn Client>> {
        let is_batched = kind == Kind::Batched;
        let client = |_| -> Box<dyn Client> {
            match (&self.plain, kind) {
                (Plain::Redis(connection), Kind::Plain | Kind::Batched) => {
                    Box::new(PlainRedis::over(connection, is_batched))
                }
                (Plain::Cassandra(prepared), Kind::Plain | Kind::Batched) => {
                    Box::new(PlainCassandra::over(prepared, is_batched))
                }
                _ => Box::new(Transactions::of(&self.database)),
            }
        };
        (0..count).map(client).collect()
    }

    /// Closes the database.
    pub(super) async fn close(self) -> Result<(), Failure> {
        self.database.close().await.map_err(failed)?;
        drop(self.folder);
        Ok(())
    }
}
