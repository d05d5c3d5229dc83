//! Keys of designs whose nodes are of one kind.

use super::super::key::{Key, global};
use super::super::value::{number, one_of};
use super::words::CAPTURES;
use super::{put, put_path};

/// `ledger_dir`.
pub(super) const LEDGER_DIR: Key = global(
    "ledger_dir",
    "\"\"",
    "Directory of the ledgers ([nodes](multi-primary.md)) or the [query log](memory-tier.md). Losing it loses commits.",
    |config, value| put_path(config, value, |config| &mut config.peers.ledger_dir),
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
