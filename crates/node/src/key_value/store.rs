//! The store of a key-value design, opened as the configuration says.

use super::private_folder;
use config::{CassandraPlace, Config, StoreConsistency, StorePlace, StoreTransactions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use stores::{
    CassandraConsistency, CassandraOptions, CassandraStore, EmbeddedOptions, EmbeddedStore, RedisOptions,
    RedisStore, Store, StoreError,
};

/// The file of the embedded store, in its folder.
const STORE_FILE: &str = "cells.redb";

/// Opens the store.
pub(super) async fn open(config: &Config) -> Result<Arc<dyn Store>, String> {
    let place = &config.peers.store;
    let hinted = |error: StoreError| format!("{error}; {}", error.hint());
    if let Some(folder) = &place.embedded {
        private_folder(folder).map_err(|error| error.to_string())?;
        let options = EmbeddedOptions { cache_size: place.cache_size };
        let store = EmbeddedStore::open(&folder.join(STORE_FILE), options).map_err(hinted)?;
        return Ok(Arc::new(store));
    }
    if let Some(address) = place.redis.first() {
        let options = redis(config, address)?;
        return Ok(Arc::new(RedisStore::open(&options).await.map_err(hinted)?));
    }
    let options = cassandra(config)?;
    Ok(Arc::new(CassandraStore::open(&options).await.map_err(hinted)?))
}

/// Settings of transactions.
pub(super) fn transactions(config: &Config) -> cells::Options {
    let StoreTransactions {
        versions_size,
        unflushed_size,
        visible_timeout,
        certification_window,
        sync_interval,
        adopt,
    } = config.peers.store.transactions;
    cells::Options {
        versions_size,
        unflushed_size,
        visible_timeout,
        window: certification_window,
        sync_interval,
        adopt,
        ..cells::Options::default()
    }
}

fn redis(config: &Config, address: &str) -> Result<RedisOptions, String> {
    let place = &config.peers.store;
    Ok(RedisOptions {
        login: login(place)?,
        tls: config.tls_to_servers()?.map(|tls| tls.client_config()),
        prefix: place.prefix.clone(),
        command_timeout: place.request_timeout,
        ..RedisOptions::at(format!("redis://{address}"))
    })
}

fn cassandra(config: &Config) -> Result<CassandraOptions, String> {
    let place = &config.peers.store;
    let CassandraPlace { nodes, keyspace, replication_factor, consistency, local_datacenter, buckets } =
        place.cassandra.clone();
    Ok(CassandraOptions {
        nodes,
        keyspace,
        replication_factor,
        consistency: match consistency {
            StoreConsistency::Quorum => CassandraConsistency::Quorum,
            StoreConsistency::LocalQuorum => CassandraConsistency::LocalQuorum,
            StoreConsistency::One => CassandraConsistency::One,
        },
        buckets,
        datacenter: Some(local_datacenter).filter(|name| !name.is_empty()),
        login: login(place)?,
        request_timeout: place.request_timeout,
    })
}

/// User and password at the server, if there is a password.
fn login(place: &StorePlace) -> Result<Option<(String, String)>, String> {
    let Some(file) = &place.password_file else { return Ok(None) };
    Ok(Some((place.user.clone(), password(file)?)))
}

fn password(file: &Path) -> Result<String, String> {
    let named =
        |why: &dyn std::fmt::Display| format!("cannot read {} (password_file): {why}", file.display());
    if std::fs::metadata(file).map_err(|error| named(&error))?.permissions().mode() & 0o077 != 0 {
        return Err(named(&format!("other users can read it; chmod 600 {}", file.display())));
    }
    let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() { Err(named(&"the first line is empty")) } else { Ok(line.to_owned()) }
}
