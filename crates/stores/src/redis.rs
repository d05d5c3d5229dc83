//! Cells in one Redis server, with strong reads at the primary.
//!
//! Under a prefix, `cell:KEY` holds a cell: 8 bytes of timestamp, the largest first, 1 byte (0: tombstone), the value.
//! Sorted sets hold the keys in order (`index`) and the tombstones by timestamp (`tombstones`). `highest` is the highest
//! timestamp. Three scripts keep them together: a script runs whole, and its effects enter the append-only file as one.
//!
//! A get is one command. A put is one script for the whole batch. A new key costs one more command of logarithmic time, and
//! about as much memory again as its name.

mod connection;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use redis::{ConnectionAddr, IntoConnectionInfo, Script};
use tokio_rustls::rustls::ClientConfig;

use self::connection::{Connection, Place};
use crate::{Cell, Description, Direction, KeyRange, KeyedCell, Reads, Store, StoreError};

/// Cells of one script. The server runs nothing else as long as a script runs.
const BATCH: usize = 1_000;
/// Bytes of a cell before its value.
const HEADER: usize = 9;

/// Settings of a Redis store.
#[derive(Clone)]
pub struct RedisOptions {
    /// Address, such as `redis://user:password@host:6379/0`.
    pub url: String,
    /// User and password, in place of those in the address. An empty user is Redis's own `default`.
    pub login: Option<(String, String)>,
    /// Encryption.
    pub tls: Option<Arc<ClientConfig>>,
    /// First characters of the names of all keys that the store uses. Default `consort:`.
    pub prefix: String,
    /// Limit of each connection attempt and of each command. Default 5 s.
    pub command_timeout: Duration,
}

impl RedisOptions {
    /// Default settings for a server.
    pub fn at(url: impl Into<String>) -> RedisOptions {
        let command_timeout = Duration::from_secs(5);
        let (prefix, login, tls) = ("consort:".to_owned(), None, None);
        RedisOptions { url: url.into(), login, tls, prefix, command_timeout }
    }
}

impl fmt::Debug for RedisOptions {
    /// Leaves the address out, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Cells in a Redis server that syncs each write before it acknowledges (`appendfsync always`).
pub struct RedisStore {
    connection: Connection,
    prefix: String,
    location: String,
    put: Script,
    scan: Script,
    drop: Script,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("location", &self.location)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Connects, and checks that the server keeps what it acknowledges.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not serve; [`StoreError::Refused`] if its configuration would lose
    /// acknowledged cells, or is a cluster's.
    pub async fn open(options: &RedisOptions) -> Result<RedisStore, StoreError> {
        let info = options.url.as_str().into_connection_info().map_err(StoreError::refused)?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
            return Err(StoreError::refused("the address of a Redis server is redis://host:port"));
        };
        let mut settings = info.redis_settings().clone();
        if let Some((user, password)) = &options.login {
            settings = settings.set_password(password);
            if !user.is_empty() {
                settings = settings.set_username(user);
            }
        }
        let location = format!("{host}:{port}");
        let place = Place { host, port, settings, tls: options.tls.clone() };
        let store = RedisStore {
            connection: Connection::to(place, options.command_timeout),
            prefix: options.prefix.clone(),
            location,
            put: Script::new(include_str!("redis/put_if_newer.lua")),
            scan: Script::new(include_str!("redis/scan.lua")),
            drop: Script::new(include_str!("redis/drop_tombstones.lua")),
        };
        store.connection.run(async |connection| redis::cmd("PING").exec_async(connection).await).await?;
        Ok(store)
    }

    fn cell_name(&self, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), b"cell:", key].concat()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn get(&self, key: &[u8]) -> Result<Option<Cell>, StoreError> {
        let mut get = redis::cmd("GET");
        get.arg(self.cell_name(key));
        let found: Option<Bytes> =
            self.connection.run(async |connection| get.query_async(connection).await).await?;
        found.map(decode).transpose()
    }

    async fn get_many(&self, keys: &[Bytes]) -> Result<Vec<Option<Cell>>, StoreError> {
        let mut cells = Vec::with_capacity(keys.len());
        for keys in keys.chunks(BATCH) {
            let mut get = redis::cmd("MGET");
            for key in keys {
                get.arg(self.cell_name(key));
            }
            let found: Vec<Option<Bytes>> =
                self.connection.run(async |connection| get.query_async(connection).await).await?;
            for cell in found {
                cells.push(cell.map(decode).transpose()?);
            }
        }
        Ok(cells)
    }

    async fn put_if_newer(&self, batch: &[KeyedCell]) -> Result<(), StoreError> {
        for cells in batch.chunks(BATCH) {
            let mut put = self.put.key(&self.prefix);
            for (key, cell) in cells {
                put.arg(&key[..]).arg(&encode(cell)[..]);
            }
            self.connection.run(async |connection| put.invoke_async::<()>(connection).await).await?;
        }
        Ok(())
    }

    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyedCell>, StoreError> {
        let mut cells: Vec<KeyedCell> = Vec::new();
        let mut rest = range.clone();
        while cells.len() < limit && !rest.is_empty() {
            let wanted = BATCH.min(limit - cells.len());
            let (from, to) = lexical_ends(&rest);
            let (command, first, second) = match direction {
                Direction::Forward => ("ZRANGEBYLEX", from, to),
                Direction::Reverse => ("ZREVRANGEBYLEX", to, from),
            };
            let mut scan = self.scan.key(&self.prefix);
            scan.arg(command).arg(first).arg(second).arg(wanted);
            let found: Vec<(Bytes, Bytes)> =
                self.connection.run(async |connection| scan.invoke_async(connection).await).await?;
            let is_end = found.len() < wanted;
            for (key, cell) in found {
                cells.push((key, decode(cell)?));
            }
            match cells.last() {
                Some((last, _)) if !is_end => rest = rest.after(last, direction),
                _ => break,
            }
        }
        Ok(cells)
    }

    async fn drop_tombstones(&self, below: u64) -> Result<u64, StoreError> {
        let mut dropped = 0;
        loop {
            let mut drop = self.drop.key(&self.prefix);
            drop.arg(&below.to_be_bytes()).arg(BATCH);
            let found: u64 =
                self.connection.run(async |connection| drop.invoke_async(connection).await).await?;
            dropped += found;
            if found < BATCH as u64 {
                return Ok(dropped);
            }
        }
    }

    async fn highest_timestamp(&self) -> Result<u64, StoreError> {
        let mut get = redis::cmd("GET");
        get.arg(format!("{}highest", self.prefix));
        let found: Option<Vec<u8>> =
            self.connection.run(async |connection| get.query_async(connection).await).await?;
        let Some(found) = found else { return Ok(0) };
        found
            .try_into()
            .map(u64::from_be_bytes)
            .map_err(|_| StoreError::refused("the key `highest` is not a timestamp"))
    }

    fn reads(&self) -> Reads {
        Reads::Strong
    }

    fn describe(&self) -> Description {
        let facts = vec![("prefix".to_owned(), self.prefix.clone())];
        Description { kind: "redis", location: self.location.clone(), is_ordered: true, facts }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.connection.close().await;
        Ok(())
    }
}

/// The range as the ends of ZRANGEBYLEX.
fn lexical_ends(range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
    let from = if range.from.is_empty() { b"-".to_vec() } else { [b"[", &range.from[..]].concat() };
    let to = range.to.as_ref().map_or_else(|| b"+".to_vec(), |to| [b"(", &to[..]].concat());
    (from, to)
}

fn encode(cell: &Cell) -> Bytes {
    let value = cell.value.as_deref().unwrap_or_default();
    let mut bytes = BytesMut::with_capacity(HEADER + value.len());
    bytes.put_u64(cell.timestamp);
    bytes.put_u8(u8::from(cell.value.is_some()));
    bytes.put_slice(value);
    bytes.freeze()
}

fn decode(mut bytes: Bytes) -> Result<Cell, StoreError> {
    let Some((header, _)) = bytes.split_at_checked(HEADER) else {
        return Err(StoreError::refused(
            "a cell is shorter than its header: another program writes under the prefix",
        ));
    };
    let timestamp = u64::from_be_bytes(header[..8].try_into().expect("eight of nine bytes"));
    let has_value = header[8] != 0;
    let value = bytes.split_off(HEADER);
    Ok(Cell { timestamp, value: has_value.then_some(value) })
}
