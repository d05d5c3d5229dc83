//! Keys of TLS towards the nodes.

use super::super::key::{Key, global};
use super::super::value::one_of;
use super::words::SERVER_TLS as KINDS;
use super::{put, put_path};

/// `server_tls`.
pub(super) const SERVER_TLS: Key = global(
    "server_tls",
    "\"disable\"",
    "TLS to the nodes, or to a Redis server of `[store]`, as libpq's `sslmode`: `disable`, `prefer`, `require`, \
     `verify-ca` or `verify-full`. Unix sockets are never encrypted ([details](#tls-to-the-nodes)).",
    |config, value| put(&mut config.server_tls, one_of(value, KINDS)),
);

/// `server_tls_ca`.
pub(super) const SERVER_TLS_CA: Key = global(
    "server_tls_ca",
    "\"\"",
    "PEM file with the CA certificates of the nodes, for `verify-ca` and `verify-full`.",
    |config, value| put_path(config, value, |config| &mut config.server_tls_ca),
);

/// `server_tls_certificate`.
pub(super) const SERVER_TLS_CERTIFICATE: Key = global(
    "server_tls_certificate",
    "\"\"",
    "PEM file with the certificate chain for nodes that request one. Empty: none.",
    |config, value| put_path(config, value, |config| &mut config.server_tls_certificate),
);

/// `server_tls_key`.
pub(super) const SERVER_TLS_KEY: Key = global(
    "server_tls_key",
    "\"\"",
    "PEM file with the private key of `server_tls_certificate`.",
    |config, value| put_path(config, value, |config| &mut config.server_tls_key),
);
