//! Keys of the table `[store]`: the place of the cells of a key-value design.

use super::put;
use crate::key::{Key, store};
use crate::value::addresses;

pub(super) const EMBEDDED: Key = store(
    "embedded",
    "\"\"",
    "Directory of a store inside of Consort: the data of a [key-value design](key-value.md), in one file.",
    |config, value| {
        let path = config.path(value);
        put(&mut config.peers.store.embedded, path)
    },
);

pub(super) const REDIS: Key = store(
    "redis",
    "[]",
    "Address of a Redis server that keeps the data of a key-value design.",
    |config, value| put(&mut config.peers.store.redis, addresses(value)),
);

pub(super) const CASSANDRA: Key = store(
    "cassandra",
    "[]",
    "Addresses of nodes of a Cassandra cluster that keeps the data of a key-value design.",
    |config, value| put(&mut config.peers.store.cassandra, addresses(value)),
);
