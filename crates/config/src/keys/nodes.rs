//! Keys of designs whose nodes are of one kind.

use super::super::key::{Key, global};
use super::super::value::{number, one_of, size, texts};
use super::words::CAPTURES;
use super::{put, put_path};

/// `ledger_dir`.
pub(super) const LEDGER_DIR: Key = global(
    "ledger_dir",
    "\"\"",
    "Directory of the ledgers ([nodes](multi-primary.md), [key-value designs](key-value.md)) or the [query log](memory-tier.md). \
     Losing it loses commits.",
    |config, value| put_path(config, value, |config| &mut config.peers.ledger_dir),
);

/// `dump_dir`.
pub(super) const DUMP_DIR: Key = global(
    "dump_dir",
    "\"\"",
    "Directory of the [dumps](multi-primary.md#dumps). The ledger keeps what a node lacks that is made from one of them.",
    |config, value| put_path(config, value, |config| &mut config.peers.dump_dir),
);

/// `capture`.
pub(super) const CAPTURE: Key = global(
    "capture",
    "\"auto\"",
    "Capture of write sets at [nodes that all take writes](multi-primary.md#the-extension): `sql` \
     (triggers), `extension`, or `auto` (the extension where a node has it).",
    |config, value| put(&mut config.peers.capture, one_of(value, CAPTURES)),
);

/// `tier_secret_file`.
pub(super) const TIER_SECRET_FILE: Key = global(
    "tier_secret_file",
    "\"\"",
    "File with the secret that nodes of the [in-memory tier](memory-tier.md) ask for.",
    |config, value| put_path(config, value, |config| &mut config.peers.secret_file),
);

/// `tier_tls_ca_file`.
pub(super) const TIER_TLS_CA_FILE: Key = global(
    "tier_tls_ca_file",
    "\"\"",
    "File with the authorities that sign the certificates of the [in-memory tier's nodes](memory-tier.md#nodes-on-other-machines) \
     (PEM). If it is set, Consort reaches the nodes with TLS, and checks their host.",
    |config, value| put_path(config, value, |config| &mut config.peers.tls_ca_file),
);

/// `tier_spares`.
pub(super) const TIER_SPARES: Key = global(
    "tier_spares",
    "0",
    "Spares of the [in-memory tier](memory-tier.md#spares): the last nodes of the file. Reads run there when another node is lost.",
    |config, value| put(&mut config.peers.spares, number(value, 0, 1_000)),
);

/// `tier_spare_read_interval`.
pub(super) const TIER_SPARE_READ_INTERVAL: Key = global(
    "tier_spare_read_interval",
    "100",
    "One read in so many runs at a [spare](memory-tier.md#spares), to keep it warm. 0: none, the spare is cold.",
    |config, value| put(&mut config.peers.spare_read_interval, number(value, 0, 1_000_000)),
);

/// `tier_read_versions`.
pub(super) const TIER_READ_VERSIONS: Key = global(
    "tier_read_versions",
    "0",
    "Different versions at one node of the [in-memory tier](memory-tier.md#metrics-and-console) up to which \
     reads are placed by their version. 0: by load alone. The paper's value is 3.",
    |config, value| put(&mut config.peers.read_versions, number(value, 0, 1_000)),
);

/// `back_ends`.
pub(super) const BACK_ENDS: Key = global(
    "back_ends",
    "[]",
    "PostgreSQL servers behind the [in-memory tier](memory-tier.md#back-ends), as URLs such as \
     `postgres://user@host/db`. They get all commits.",
    |config, value| put(&mut config.peers.back_ends, texts(value)),
);

/// `back_end_log_limit`.
pub(super) const BACK_END_LOG_LIMIT: Key = global(
    "back_end_log_limit",
    "\"16GB\"",
    "Disk space of the query log for `back_ends` that lack commits. A server beyond it is [given \
     up](memory-tier.md#back-ends).",
    |config, value| put(&mut config.peers.back_end_log_limit, size(value, 64 << 20)),
);
