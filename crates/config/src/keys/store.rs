//! Keys of the table `[store]`: the store of a key-value design, and its transactions.

use super::put;
use crate::StoreConsistency;
use crate::key::{Key, store};
use crate::value::{addresses, duration, flag, number, one_of, size, text};

/// Keys of `[store]` that need the store of another key.
pub(crate) const NEEDED: &[(&str, &[&str])] = &[
    ("cache_size", &["embedded"]),
    ("user", &["redis", "cassandra"]),
    ("password_file", &["redis", "cassandra"]),
    ("request_timeout", &["redis", "cassandra"]),
    ("prefix", &["redis"]),
    ("keyspace", &["cassandra"]),
    ("replication_factor", &["cassandra"]),
    ("consistency_level", &["cassandra"]),
    ("local_datacenter", &["cassandra"]),
    ("buckets", &["cassandra"]),
];

const CONSISTENCY_LEVELS: &[(&str, StoreConsistency)] = &[
    ("quorum", StoreConsistency::Quorum),
    ("local_quorum", StoreConsistency::LocalQuorum),
    ("one", StoreConsistency::One),
];

pub(super) const EMBEDDED: Key = store(
    "embedded",
    "\"\"",
    "Directory of a store inside of Consort: the data of a [key-value design](key-value.md), in one file.",
    |config, value| {
        let path = config.path(value);
        put(&mut config.peers.store.embedded, path)
    },
);

pub(super) const CACHE_SIZE: Key =
    store("cache_size", "\"256MB\"", "Page cache of the embedded store.", |config, value| {
        put(&mut config.peers.store.cache_size, size(value, 1 << 20))
    });

pub(super) const REDIS: Key = store(
    "redis",
    "[]",
    "Address of a Redis server that keeps the data of a key-value design.",
    |config, value| put(&mut config.peers.store.redis, addresses(value)),
);

pub(super) const PREFIX: Key = store(
    "prefix",
    "\"consort:\"",
    "First characters of the names of all Redis keys that the store uses.",
    |config, value| put(&mut config.peers.store.prefix, text(value)),
);

pub(super) const CASSANDRA: Key = store(
    "cassandra",
    "[]",
    "Addresses of nodes of a Cassandra cluster that keeps the data of a key-value design. Consort finds \
     the other nodes through them.",
    |config, value| put(&mut config.peers.store.cassandra.nodes, addresses(value)),
);

pub(super) const KEYSPACE: Key = store(
    "keyspace",
    "\"consort\"",
    "Cassandra keyspace of the store. Consort creates it if it is missing.",
    |config, value| put(&mut config.peers.store.cassandra.keyspace, text(value)),
);

pub(super) const REPLICATION_FACTOR: Key = store(
    "replication_factor",
    "3",
    "Copies in each data centre, for a keyspace that Consort creates. An existing keyspace keeps its own.",
    |config, value| put(&mut config.peers.store.cassandra.replication_factor, number(value, 1, 100)),
);

pub(super) const CONSISTENCY_LEVEL: Key = store(
    "consistency_level",
    "\"quorum\"",
    "Cassandra's consistency level of reads and writes: `quorum`, `local_quorum` or `one` \
     ([promises](stores.md#cassandra)).",
    |config, value| put(&mut config.peers.store.cassandra.consistency, one_of(value, CONSISTENCY_LEVELS)),
);

pub(super) const LOCAL_DATACENTER: Key = store(
    "local_datacenter",
    "\"\"",
    "Cassandra data centre whose nodes Consort asks. Empty: all.",
    |config, value| put(&mut config.peers.store.cassandra.local_datacenter, text(value)),
);

pub(super) const BUCKETS: Key = store(
    "buckets",
    "32",
    "Cassandra partitions that share the keys, for tables that Consort creates \
     ([choice](stores.md#cassandra)).",
    |config, value| put(&mut config.peers.store.cassandra.buckets, number(value, 1, u16::MAX)),
);

pub(super) const USER: Key = store(
    "user",
    "\"\"",
    "User at the Redis server or the Cassandra cluster. Empty: Redis's user `default`, or no log-in.",
    |config, value| put(&mut config.peers.store.user, text(value)),
);

pub(super) const PASSWORD_FILE: Key = store(
    "password_file",
    "\"\"",
    "File with the password of `user` in its first line. Empty: no log-in.",
    |config, value| {
        let path = config.path(value);
        put(&mut config.peers.store.password_file, path)
    },
);

pub(super) const REQUEST_TIMEOUT: Key = store(
    "request_timeout",
    "\"10s\"",
    "Limit of each connection attempt and request at the Redis server or the Cassandra cluster.",
    |config, value| put(&mut config.peers.store.request_timeout, duration(value)),
);

pub(super) const VERSIONS_SIZE: Key = store(
    "versions_size",
    "\"256MB\"",
    "Memory for old versions. Transactions whose versions are evicted end with `TOOOLD`.",
    |config, value| put(&mut config.peers.store.transactions.versions_size, size(value, 1 << 20)),
);

pub(super) const UNFLUSHED_SIZE: Key = store(
    "unflushed_size",
    "\"64MB\"",
    "Memory for commits that the store has not taken yet. Further commits end with `BUSY`.",
    |config, value| put(&mut config.peers.store.transactions.unflushed_size, size(value, 1 << 20)),
);

pub(super) const VISIBLE_TIMEOUT: Key = store(
    "visible_timeout",
    "\"10s\"",
    "Limit of the wait until the store has taken a durable commit. Later, COMMIT answers `NOTVISIBLE`.",
    |config, value| put(&mut config.peers.store.transactions.visible_timeout, duration(value)),
);

pub(super) const CERTIFICATION_WINDOW: Key = store(
    "certification_window",
    "262_144",
    "Commits that conflict checks remember. A transaction that writes, and runs over more commits of \
     others, ends with `TOOOLD`.",
    |config, value| put(&mut config.peers.store.transactions.certification_window, number(value, 1, 1 << 28)),
);

pub(super) const SYNC_INTERVAL: Key = store(
    "sync_interval",
    "\"1s\"",
    "Interval between syncs of the store. The ledger keeps the commits since the last one.",
    |config, value| put(&mut config.peers.store.transactions.sync_interval, duration(value)),
);

pub(super) const ADOPT: Key = store(
    "adopt",
    "false",
    "Take over a store whose ledger is lost, or that another Consort has written. Needs an empty \
     `ledger_dir`. Remove it after the start.",
    |config, value| put(&mut config.peers.store.transactions.adopt, flag(value)),
);
