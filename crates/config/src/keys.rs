//! The table of keys: name, default, purpose, and reader. The manual's table is generated from it.

mod nodes;
mod server_tls;
pub(crate) mod store;
mod words;

use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;

pub use super::key::{Key, Place};
use super::key::{
    Trust, choice, choice_in, debug, extension, global, procedure, reloaded, reloaded_server, server,
};
use super::value::{
    Read, check_address, declared, default, duration, flag, least_duration, networks, number, one_of, share,
    shown, size, tables, text, texts,
};
use super::{Choice, Config, LogFormat, Server, former_names};
use crate::pooling::PoolMode;
use crate::statement_log::Routing;
use words::{AUTH_TYPES, GRAINS, UNREPLICABLE_DDL, WRITERS, design, lease, offload};

/// PgBouncer's names of global keys that have another one here: both are understood.
pub const ALIASES: &[(&str, &str)] =
    &[("max_client_conn", "max_clients"), ("client_login_timeout", "login_time")];

/// The key of this name in this place.
pub fn find(place: Place, name: &str) -> Option<&'static Key> {
    let alias = ALIASES.iter().find(|(alias, _)| place == Place::Global && *alias == name);
    let name = alias.map_or(name, |(_, name)| name);
    let former = || (place == Place::Global).then(|| former_names::find(name)).flatten();
    KEYS.iter().find(|key| key.stands_in(place) && key.name == name).or_else(former)
}

/// A key's default as `SHOW CONFIG` writes values: without quotes.
pub fn shown_default(key: &Key) -> String {
    shown(&default(key.default))
}

/// Returns the name that was probably meant.
pub(super) fn nearest(place: Place, name: &str) -> Option<&'static str> {
    let names = KEYS.iter().filter(|key| key.stands_in(place)).map(|key| key.name);
    let tables = [
        "primary",
        "standby",
        "replica",
        "node",
        "database",
        "user",
        "procedure",
        "extension",
        "store",
        "debug",
    ]
    .into_iter()
    .filter(|_| place == Place::Global);
    let near = names.chain(tables).map(|known| (strsim::damerau_levenshtein(known, name), known));
    near.filter(|(distance, known)| *distance <= known.len().max(name.len()) / 3 + 1)
        .min()
        .map(|(_, known)| known)
}

/// Every key.
pub static KEYS: &[Key] = &[
    global(
        "listen",
        "[\"127.0.0.1:6432\"]",
        "Addresses and ports for client connections.",
        |config, value| {
            config.listen = texts(value)?;
            config.listen.iter().try_for_each(|address| check_address(address))
        },
    ),
    global(
        "unix_socket_dir",
        "\"\"",
        "Directory of the Unix socket for clients, `.s.PGSQL.PORT` with the first port of `listen`. \
         Empty: no socket.",
        |config, value| put_path(config, value, |config| &mut config.unix_socket_dir),
    ),
    global(
        "auth_type",
        "\"scram-sha-256\"",
        "Client authentication: `scram-sha-256`, `md5`, `password`, `trust`, or `hba` for the rules in \
         `auth_hba_file` ([details](#authentication)).",
        |config, value| put(&mut config.auth_type, one_of(value, AUTH_TYPES)),
    ),
    reloaded(global(
        "auth_hba_file",
        "\"\"",
        "Rules for `auth_type = \"hba\"`, in the format of `pg_hba.conf` ([supported \
         parts](operate/authentication.md#host-based-rules)).",
        |config, value| put_path(config, value, |config| &mut config.auth_hba_file),
    )),
    reloaded(global(
        "auth_ident_file",
        "\"\"",
        "User name maps for `map=` in `auth_hba_file`, in the format of `pg_ident.conf`.",
        |config, value| put_path(config, value, |config| &mut config.auth_ident_file),
    )),
    reloaded(global(
        "auth_file",
        "\"\"",
        "Roles and secrets, one `\"role\" \"secret\"` per line as in PgBouncer: a password, a SCRAM key \
         or an MD5 hash. Consort also uses them to log in to the nodes.",
        |config, value| put_path(config, value, |config| &mut config.auth_file),
    )),
    reloaded(global(
        "auth_user",
        "\"\"",
        "Role that runs `auth_query` at the login of roles without a line in `auth_file`. Its own \
         password comes from `auth_file`. Empty: no query.",
        |config, value| put(&mut config.auth_user, text(value)),
    )),
    reloaded(global(
        "auth_query",
        "\"SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL ELSE rolpassword END FROM \
         pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin\"",
        "Query of `auth_user` with the role as parameter; returns the role and its secret, or no row. \
         With a SECURITY DEFINER function `auth_user` need not be a superuser.",
        |config, value| put(&mut config.auth_query, text(value)),
    )),
    reloaded(global("auth_dbname", "\"postgres\"", "Database for `auth_query`.", |config, value| {
        put(&mut config.auth_dbname, text(value))
    })),
    global(
        "tls_certificate",
        "\"\"",
        "PEM file with Consort's certificate chain for clients. Empty: no TLS.",
        |config, value| put_path(config, value, |config| &mut config.tls_certificate),
    ),
    global("tls_key", "\"\"", "PEM file with the private key of `tls_certificate`.", |config, value| {
        let path = config.path(value);
        put(&mut config.tls_key, path)
    }),
    global(
        "client_tls_ca",
        "\"\"",
        "PEM file with the CA certificates for client certificates, for `cert` and `clientcert=` in \
         `auth_hba_file`. Empty: Consort requests no client certificate.",
        |config, value| put_path(config, value, |config| &mut config.client_tls_ca),
    ),
    global("tls_required", "false", "Refuse clients without TLS.", |config, value| {
        put(&mut config.tls_required, flag(value))
    }),
    server_tls::SERVER_TLS,
    server_tls::SERVER_TLS_CA,
    server_tls::SERVER_TLS_CERTIFICATE,
    server_tls::SERVER_TLS_KEY,
    global(
        "control_user",
        "\"postgres\"",
        "Role for Consort's own connections to the nodes: a superuser, or [one with \
         less](operate/privileges.md#a-control_user-without-superuser). Its secret comes from `auth_file`.",
        |config, value| put(&mut config.control_user, text(value)),
    ),
    global(
        "databases",
        "[\"*\"]",
        "Databases with read offload; `*` is all. Each uses one replication slot on the primary. The \
         primary serves other databases ([details](#databases)).",
        |config, value| put(&mut config.databases, texts(value)),
    ),
    global(
        "attach_on_first_use",
        "false",
        "Attach a database in `databases` automatically when it is first used. `consort up` sets it. \
         Without it, only `consort attach` changes your servers.",
        |config, value| put(&mut config.attach_on_first_use, flag(value)),
    ),
    global(
        "design",
        "\"consort\"",
        "Replication design: `consort` (proven reads), `weak` (possibly stale reads, for comparison \
         only), or [another design](designs.md).",
        |config, value| put(&mut config.design, design(value).map(Some)),
    ),
    nodes::LEDGER_DIR,
    nodes::DUMP_DIR,
    nodes::CAPTURE,
    nodes::TIER_SECRET_FILE,
    nodes::TIER_TLS_CA_FILE,
    nodes::TIER_SPARES,
    nodes::TIER_SPARE_READ_INTERVAL,
    nodes::TIER_READ_VERSIONS,
    nodes::BACK_ENDS,
    nodes::BACK_END_LOG_LIMIT,
    reloaded(global(
        "writers",
        "\"anywhere\"",
        "Clients that can commit on the primary: `anywhere` (also directly) or `through-consort` (only \
         through Consort; cheaper proofs). [Violations switch \
         it](consistency.md#writers-that-bypass-consort) to `anywhere`; RELOAD switches back.",
        |config, value| put(&mut config.writers, one_of(value, WRITERS).map(Some)),
    )),
    global(
        "leader_lease_timeout",
        "\"0s\"",
        "Time without a sign of the leading Consort after which another one takes over \
         ([how](operate/high-availability.md)). The same value in all Consorts. `\"0s\"`: takeover only \
         after its connection ended.",
        |config, value| put(&mut config.leader_lease_timeout, lease(value)),
    ),
    reloaded(global(
        "consistency",
        "\"\"",
        "Default [consistency level](consistency.md) of reads: `strong`, `session`, `bounded 200ms` (up \
         to a day), `weak` or `primary`. Empty: `weak` in the design `weak`, otherwise `strong`.",
        |config, value| match text(value)?.as_str() {
            "" => put(&mut config.consistency.consistency, Ok(None)),
            _ => set_consistency(&mut config.consistency, value),
        },
    )),
    reloaded(global(
        "read_only_snapshots",
        "false",
        "Run whole REPEATABLE READ READ ONLY transactions on a standby if possible \
         ([details](consistency.md#read-only-snapshots)). Always on in designs whose reads wait for \
         replicas.",
        |config, value| put(&mut config.consistency.read_only_snapshots, flag(value).map(Some)),
    )),
    global(
        "proof_timeout",
        "\"5ms\"",
        "Maximum wait for the proof of a standby's answer, and for a standby to replay. After it the read \
         runs on the primary. [Longer](#waiting-times) on a slow primary.",
        |config, value| put(&mut config.proof_timeout, duration(value)),
    ),
    global(
        "replica_wait_timeout",
        "\"5s\"",
        "Maximum wait of a read for a replica, of a commit for its slot, of a statement for its tables. \
         After it the client gets 40001 ([details](#waiting-times)).",
        |config, value| put(&mut config.replica_wait_timeout, duration(value)),
    ),
    global(
        "commit_replica_quorum",
        "0",
        "In designs with commit slots: number of replicas that must show a commit before its client is \
         answered. After `replica_wait_timeout` the client gets 40003; the commit stands.",
        |config, value| put(&mut config.commit_replica_quorum, number(value, 0, 1_000)),
    ),
    reloaded(global(
        "max_clients",
        "1000",
        "Maximum number of clients; PgBouncer's `max_client_conn` is an alias. The [open files \
         limit](operate/limits-and-timeouts.md#open-files) may lower it. See also [session pooling](#pool-sizes).",
        |config, value| put(&mut config.max_clients, number(value, 1, 100_000)),
    )),
    reloaded(global(
        "max_clients_per_address",
        "0",
        "Maximum number of clients per address, or per /64 network for IPv6; more are refused (53300). 0: \
         no limit. [Which address counts](#client-addresses).",
        |config, value| put(&mut config.max_clients_per_address, number(value, 0, 100_000)),
    )),
    reloaded(global(
        "login_time",
        "\"60s\"",
        "Time that a client has for its start-up packet, and again for its authentication; PgBouncer's \
         `client_login_timeout` is an alias. `\"0s\"`: no limit.",
        |config, value| put(&mut config.login_time, duration(value).map(unlimited_if_zero)),
    )),
    reloaded(global(
        "max_half_open_per_address",
        "0",
        "Maximum number of clients per address (per /64 network for IPv6) that are logging in at the same \
         time. 0: no limit per address ([details](#client-addresses)).",
        |config, value| put(&mut config.max_half_open_per_address, number(value, 0, 100_000)),
    )),
    reloaded(global(
        "proxy_protocol_from",
        "[]",
        "Addresses or networks of load balancers that send the PROXY protocol (version 1 or 2). Consort \
         requires it from them, and ignores it from others.",
        |config, value| put(&mut config.proxy_protocol_from, networks(value)),
    )),
    reloaded(global(
        "pool_mode",
        "\"transaction\"",
        "When a client releases its connection to the primary: after each `transaction`, each \
         `statement`, or its `session` ([modes](#pool-modes)). \
         [Pinned](operate/pooling.md) clients keep theirs.",
        |config, value| put(&mut config.pool.mode, one_of(value, &PoolMode::ALL)),
    )),
    reloaded(global(
        "default_pool_size",
        "20",
        "Maximum pooled connections to the primary per role and database, in transaction and statement \
         pooling ([session pooling](#pool-sizes)).",
        |config, value| put(&mut config.pool.size, number(value, 1, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "min_pool_size",
        "0",
        "Minimum pooled connections per role and database with clients. Ignored where \
         `max_db_connections` or `max_user_connections` applies.",
        |config, value| put(&mut config.pool.min_size, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "reserve_pool_size",
        "0",
        "Additional connections per role and database after a client has waited for \
         `reserve_pool_timeout`.",
        |config, value| put(&mut config.pool.reserve, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "reserve_pool_timeout",
        "\"5s\"",
        "Wait of a client before a reserve connection is opened for it. `\"0s\"`: no reserve connections.",
        |config, value| put(&mut config.pool.reserve_wait, duration(value)),
    )),
    reloaded(global(
        "max_db_connections",
        "0",
        "Maximum client connections to the primary per database. 0: no limit. For a waiting client, \
         Consort closes an idle connection of the same database.",
        |config, value| put(&mut config.pool.database_connections, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "max_db_client_connections",
        "0",
        "Maximum number of clients per database; more are refused (53300). 0: only `max_clients` applies.",
        |config, value| put(&mut config.pool.database_clients, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "max_user_connections",
        "0",
        "Maximum client connections to the primary per role, over all databases. 0: no limit.",
        |config, value| put(&mut config.pool.user_connections, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "max_user_client_connections",
        "0",
        "Maximum number of clients per role, over all databases. 0: only `max_clients` applies.",
        |config, value| put(&mut config.pool.user_clients, number(value, 0, MOST_CONNECTIONS)),
    )),
    reloaded(global(
        "query_wait_timeout",
        "\"2min\"",
        "Disconnect a client that waits longer for a connection to the primary (53300). `\"0s\"`: no \
         limit.",
        |config, value| put(&mut config.pool.wait, duration(value)),
    )),
    reloaded(global(
        "server_idle_timeout",
        "\"10min\"",
        "Close a pooled connection that has been idle longer. `\"0s\"`: never.",
        |config, value| put(&mut config.pool.idle, duration(value)),
    )),
    reloaded(global(
        "server_lifetime",
        "\"1h\"",
        "Close a pooled connection older than this when its client releases it. `\"0s\"`: after one use.",
        |config, value| put(&mut config.pool.life, duration(value)),
    )),
    reloaded(global(
        "server_connect_timeout",
        "\"5s\"",
        "Maximum duration of a login to the primary. `\"0s\"`: no limit. A reload affects new clients only.",
        |config, value| put(&mut config.pool.connect, duration(value).map(unlimited_if_zero)),
    )),
    reloaded(global(
        "server_login_retry",
        "\"0s\"",
        "Wait between login attempts to the primary after a server failure, per role and database. \
         Meanwhile clients get the same error ([details](#failed-logins-to-the-primary)). `\"0s\"`: no \
         wait.",
        |config, value| put(&mut config.pool.retry, duration(value)),
    )),
    reloaded(global(
        "client_idle_timeout",
        "\"0s\"",
        "Disconnect a client that is idle longer outside a transaction (57P05). `\"0s\"`: no limit.",
        |config, value| put(&mut config.pool.client_idle, duration(value)),
    )),
    reloaded(global(
        "idle_transaction_timeout",
        "\"0s\"",
        "Disconnect a client that is idle longer inside a transaction (25P03). `\"0s\"`: no limit.",
        |config, value| put(&mut config.pool.idle_transaction, duration(value)),
    )),
    reloaded(global(
        "transaction_timeout",
        "\"0s\"",
        "Disconnect a client whose transaction takes longer (25P04), and end its statement \
         ([how](operate/limits-and-timeouts.md#timeouts)). `\"0s\"`: no limit.",
        |config, value| put(&mut config.pool.transaction, duration(value)),
    )),
    reloaded(global(
        "query_timeout",
        "\"0s\"",
        "Disconnect a client whose statement takes longer, including its wait for a connection (57014), \
         and end the statement. `\"0s\"`: no limit. Prefer PostgreSQL's `statement_timeout`, which \
         does not disconnect.",
        |config, value| put(&mut config.pool.query, duration(value)),
    )),
    global(
        "standby_connections",
        "64",
        "Maximum connections to one standby. A read without a free connection runs on the primary.",
        |config, value| put(&mut config.standby_connections, number(value, 1, 10_000)),
    ),
    global(
        "analysis_cache_size",
        "\"16MB\"",
        "Memory for analysed statements. Consort analyses a statement again if it is not in the cache.",
        |config, value| put(&mut config.analysis_cache_bytes, size(value, 64 << 10)),
    ),
    global(
        "freshness_index_rows",
        "917504",
        "Number of rows whose last change is remembered. For other rows, the newest forgotten change of \
         their table counts.",
        |config, value| put(&mut config.freshness_index_rows, number(value, 1_000, 100_000_000)),
    ),
    global(
        "max_held_result_size",
        "\"64kB\"",
        "Maximum part of a standby's result that Consort buffers until it is proven. The rest of a longer \
         result waits in the network.",
        |config, value| put(&mut config.held_answer_bytes, size(value, 1 << 10)),
    ),
    global(
        "replication_buffer_size",
        "\"256MB\"",
        "Memory per database for committed rows that a logical replica has not flushed yet. A larger \
         backlog is spilled to disk.",
        |config, value| put(&mut config.fed_buffer_bytes, size(value, 1 << 20)),
    ),
    global(
        "replication_spill_size",
        "\"4GB\"",
        "Disk space per database for the spilled replication backlog, in `TMPDIR` or `/var/tmp`. \
         `\"0B\"`: no spilling. A replica beyond it is [copied again](#replication-backlog).",
        |config, value| put(&mut config.fed_archive_bytes, size(value, 0)),
    ),
    global(
        "unreplicable_ddl",
        "\"copy\"",
        "DDL that cannot run on logical replicas with the same effect: `copy` executes it and copies the \
         database to each replica again, `refuse` refuses it with 0A000 ([details](#unreplicable-ddl)).",
        |config, value| put(&mut config.unreplicable_ddl, one_of(value, UNREPLICABLE_DDL)),
    ),
    global(
        "apply_connections",
        "1",
        "Connections per database to a lagging logical replica, for parallel apply of independent \
         commits. Commits become visible in order. 1: serial apply.",
        |config, value| put(&mut config.apply_connections, number(value, 1, 64)),
    ),
    global(
        "statement_rows",
        "20",
        "In designs with statement replication: minimum number of rows for a transaction to travel as \
         statements. Smaller ones travel as rows, which is cheaper for replicas.",
        |config, value| put(&mut config.statement_rows, number(value, 1, 1_000_000_000)),
    ),
    store::EMBEDDED,
    store::CACHE_SIZE,
    store::REDIS,
    store::PREFIX,
    store::CASSANDRA,
    store::KEYSPACE,
    store::REPLICATION_FACTOR,
    store::CONSISTENCY_LEVEL,
    store::LOCAL_DATACENTER,
    store::BUCKETS,
    store::USER,
    store::PASSWORD_FILE,
    store::REQUEST_TIMEOUT,
    store::VERSIONS_SIZE,
    store::UNFLUSHED_SIZE,
    store::VISIBLE_TIMEOUT,
    store::CERTIFICATION_WINDOW,
    store::SYNC_INTERVAL,
    store::ADOPT,
    debug(
        "footprint_grain",
        "\"row\"",
        "For experiments: granularity of conflict checks for reads: `row` (tables, columns, and rows by \
         primary key), `column` (tables and columns) or `table`. Coarser means fewer offloaded reads.",
        |config, value| put(&mut config.footprint_grain, one_of(value, GRAINS)),
    ),
    global(
        "offload_in_transactions",
        "\"on\"",
        "Offload of reads in transactions that may write: `off`; `locked`: long ones, with their table locks \
         held on the primary; `on`: also those before the first write \
         ([details](#reads-in-read-write-transactions)).",
        |config, value| put(&mut config.offload_in_transactions, offload(value)),
    ),
    global(
        "replica_safe_functions",
        "[]",
        "Functions (`schema.name`) and extensions (`name`) that may run on a replica. Functions that are \
         not IMMUTABLE also need [declared tables](offload.md#user-defined-functions).",
        |config, value| put(&mut config.replica_safe_functions, texts(value)),
    ),
    debug(
        "abort_percent",
        "0",
        "For experiments with multi-primary designs: share of the write sets that the certifier refuses with \
         40001 after their check, in percent.",
        |config, value| put(&mut config.peers.abort_percent, number(value, 0, 90)),
    ),
    debug(
        "shadow",
        "\"\"",
        "For tests: file with a line per standby answer that differs from the primary's. Each offloaded \
         read also runs on the primary, before and after. Empty: off.",
        |config, value| put_path(config, value, |config| &mut config.shadow),
    ),
    global("console_database", "\"consort\"", "Name of the admin console's database.", |config, value| {
        put(&mut config.console_database, text(value))
    }),
    reloaded(global(
        "admin_users",
        "[\"postgres\"]",
        "Roles with all console commands (SHOW HELP lists them, including KILL, SET, VERIFY REPAIR and \
         SHUTDOWN).",
        |config, value| put(&mut config.admin_users, texts(value)),
    )),
    reloaded(global("stats_users", "[]", "Roles with read-only console access.", |config, value| {
        put(&mut config.stats_users, texts(value))
    })),
    global(
        "metrics_listen",
        "\"\"",
        "Address of `/metrics` (Prometheus), `/healthz` and `/readyz`. Empty: none.",
        |config, value| {
            let address = text(value)?;
            config.metrics_listen = (!address.is_empty()).then_some(address);
            config.metrics_listen.as_deref().map_or(Ok(()), check_address)
        },
    ),
    reloaded(global(
        "log_level",
        "\"info\"",
        "Minimum log level: `error`, `warn`, `info`, `debug` or `trace`.",
        |config, value| {
            let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
            put(&mut config.log_level, one_of(value, &levels).map(str::to_owned))
        },
    )),
    global("log_format", "\"text\"", "Log format: `text` or `json`.", |config, value| {
        put(&mut config.log_format, one_of(value, &[("text", LogFormat::Text), ("json", LogFormat::Json)]))
    }),
    reloaded(global(
        "log_routing",
        "\"none\"",
        "Statements to log with node, reason and waiting time \
         ([format](operate/logging.md#statement-lines)): `none`, `primary` (reads on the primary, and \
         statements that begin like reads) or `all`.",
        |config, value| put(&mut config.statement_log.routing, one_of(value, Routing::ALL)),
    )),
    reloaded(global(
        "log_statement_sample_rate",
        "1",
        "Share of the statements of `log_routing` to log, from 0 to 1.",
        |config, value| put(&mut config.statement_log.sample_rate, share(value)),
    )),
    reloaded(global(
        "log_min_duration_statement",
        "-1",
        "Log each statement that takes at least this long, in milliseconds or as a duration such as \
         `\"250ms\"`. 0: all, -1: none.",
        |config, value| put(&mut config.statement_log.min_duration, least_duration(value)),
    )),
    reloaded(global(
        "log_client_stalls",
        "\"1min\"",
        "Log a client once that does not read its result for this long. `\"0s\"`: never.",
        |config, value| put(&mut config.log_client_stalls, duration(value)),
    )),
    reloaded(global(
        "shutdown_drain_timeout",
        "\"30s\"",
        "Time for open transactions to finish after SIGTERM or SHUTDOWN, before their clients are \
         disconnected.",
        |config, value| put(&mut config.shutdown_drain_timeout, duration(value)),
    )),
    server(Place::Primary, "name", "\"primary\"", "The node's name in output of Consort.", set_name),
    server(Place::Primary, "host", "", "Host name, address, or directory of the Unix socket.", set_host),
    server(Place::Primary, "port", "5432", "Port.", set_port),
    server(
        Place::Standby,
        "name",
        "\"\"",
        "The node's name in output of Consort. Empty: `standby1`, `standby2` ..",
        set_name,
    ),
    server(Place::Standby, "host", "", "Host name, address, or directory of the Unix socket.", set_host),
    server(Place::Standby, "port", "5432", "Port.", set_port),
    reloaded_server(
        Place::Standby,
        "weight",
        "1",
        "Share of reads, relative to the other nodes. 0: monitored, without reads.",
        |server, value| put(&mut server.weight, number(value, 0, 1_000)),
    ),
    server(Place::Node, "name", "\"\"", "Name of the node. Empty: `node1`, `node2` ..", set_name),
    server(Place::Node, "host", "", "Host name, address, or directory of the Unix socket.", set_host),
    server(Place::Node, "port", "5432", "Port of the node.", set_port),
    reloaded_server(
        Place::Replica,
        "name",
        "\"\"",
        "The node's name in output of Consort. Empty: `replica1`, `replica2` .. RELOAD adds new replicas \
         and removes missing ones.",
        set_name,
    ),
    reloaded_server(
        Place::Replica,
        "host",
        "",
        "Host name, address, or directory of the Unix socket. Another value is another replica.",
        set_host,
    ),
    reloaded_server(Place::Replica, "port", "5432", "Port.", set_port),
    reloaded_server(
        Place::Replica,
        "weight",
        "1",
        "Share of reads, relative to the other nodes. 0: replicated, without reads.",
        |server, value| put(&mut server.weight, number(value, 0, 1_000)),
    ),
    reloaded_server(
        Place::Replica,
        "tables",
        "[]",
        "Tables on the replica: `name` (any schema), `schema.name` or `schema.*`, with partitions and \
         children ([how](operate/replicas.md#subset-of-tables)). Empty: all. A change copies the replica \
         again.",
        |server, value| put(&mut server.tables, tables(value)),
    ),
    choice(
        "consistency",
        "As the global setting, for sessions in this database or of this user. The user's value wins.",
        set_consistency,
    ),
    choice(
        "read_only_snapshots",
        "As the global setting, for sessions in this database or of this user. The user's value wins.",
        |choice, value| put(&mut choice.read_only_snapshots, flag(value).map(Some)),
    ),
    choice(
        "pool_mode",
        "As the global setting, for clients in this database or of this user. The user's value wins.",
        |choice, value| put(&mut choice.pool.mode, one_of(value, &PoolMode::ALL).map(Some)),
    ),
    choice(
        "pool_size",
        "Maximum connections to the primary per role of this database, or per database of this role; also \
         in session pooling. The user's value wins. Default: `default_pool_size`, except in session \
         pooling.",
        |choice, value| put(&mut choice.pool.size, number(value, 1, MOST_CONNECTIONS).map(Some)),
    ),
    choice(
        "reserve_pool_size",
        "As the global setting, for clients in this database or of this user. The user's value wins.",
        |choice, value| put(&mut choice.pool.reserve, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::Database,
        "min_pool_size",
        "As the global setting, for this database.",
        |choice, value| put(&mut choice.pool.min_size, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::Database,
        "server_lifetime",
        "As the global setting, for this database. `\"0s\"`: the global value.",
        |choice, value| put(&mut choice.pool.life, duration(value).map(Some)),
    ),
    choice_in(
        Place::Database,
        "max_db_connections",
        "As the global setting, for this database. 0: the global value.",
        |choice, value| put(&mut choice.pool.connections, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::Database,
        "max_db_client_connections",
        "As the global setting, for this database. 0: the global value.",
        |choice, value| put(&mut choice.pool.clients, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::User,
        "max_user_connections",
        "As the global setting, for this user. 0: the global value.",
        |choice, value| put(&mut choice.pool.connections, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::User,
        "max_user_client_connections",
        "As the global setting, for this user. 0: the global value.",
        |choice, value| put(&mut choice.pool.clients, number(value, 0, MOST_CONNECTIONS).map(Some)),
    ),
    choice_in(
        Place::User,
        "client_idle_timeout",
        "As the global setting, for this user. `\"0s\"`: the global value.",
        |choice, value| put(&mut choice.pool.client_idle, duration(value).map(Some)),
    ),
    choice_in(
        Place::User,
        "idle_transaction_timeout",
        "As the global setting, for this user. `\"0s\"`: the global value.",
        |choice, value| put(&mut choice.pool.idle_transaction, duration(value).map(Some)),
    ),
    choice_in(
        Place::User,
        "transaction_timeout",
        "As the global setting, for this user. `\"0s\"`: the global value.",
        |choice, value| put(&mut choice.pool.transaction, duration(value).map(Some)),
    ),
    choice_in(
        Place::User,
        "query_timeout",
        "As the global setting, for this user. `\"0s\"`: the global value.",
        |choice, value| put(&mut choice.pool.query, duration(value).map(Some)),
    ),
    procedure(
        "tables_read",
        "Tables that procedures and functions of this name read, including reads caused by their writes. \
         Names as in `consort.tables_read`; `'*'` for all ([details](designs.md#declared-procedures)).",
        |procedure, value| put(&mut procedure.tables_read, declared(value)),
    ),
    procedure(
        "tables_written",
        "Tables that they write, including writes by triggers and cascades, and sequences whose numbers \
         they draw.",
        |procedure, value| put(&mut procedure.tables_written, declared(value)),
    ),
    extension(
        "trust",
        "`\"immutable\"`: functions of the extension that Consort does not know run on replicas if they are \
         IMMUTABLE ([details](extensions.md#other-extensions)).",
        |extension, value| put(extension, trust(value)),
    ),
];

fn trust(value: &DeValue<'_>) -> Read<Trust> {
    match &*text(value)? {
        "" => Ok(Trust::Reviewed),
        "immutable" => Ok(Trust::Immutable),
        other => Err(format!("expected \"immutable\", found {other:?}")),
    }
}

/// Maximum of any limit of connections or clients.
const MOST_CONNECTIONS: usize = 100_000;

fn set_consistency(choice: &mut Choice, value: &DeValue<'_>) -> Read<()> {
    let written = text(value)?;
    let parsed = written.parse();
    choice.consistency = Some(parsed.map_err(|_| {
        format!(
            "expected \"strong\", \"session\", \"bounded 200ms\", \"weak\" or \"primary\", found {written:?}"
        )
    })?);
    Ok(())
}

fn set_name(server: &mut Server, value: &DeValue<'_>) -> Read<()> {
    put(&mut server.name, text(value))
}

fn set_host(server: &mut Server, value: &DeValue<'_>) -> Read<()> {
    put(&mut server.host, text(value))
}

fn set_port(server: &mut Server, value: &DeValue<'_>) -> Read<()> {
    put(&mut server.port, number(value, 1, u16::MAX))
}

/// A time limit, of which zero means that there is none: ten years.
fn unlimited_if_zero(limit: Duration) -> Duration {
    const NEVER: Duration = Duration::from_hours(24 * 3650);
    if limit.is_zero() { NEVER } else { limit }
}

/// Stores a value in its field, if it could be read.
fn put<T>(place: &mut T, value: Read<T>) -> Read<()> {
    *place = value?;
    Ok(())
}

/// Stores the path of a file or a folder in its field; empty is none.
fn put_path(
    config: &mut Config,
    value: &DeValue<'_>,
    place: fn(&mut Config) -> &mut Option<PathBuf>,
) -> Read<()> {
    let path = config.path(value);
    put(place(config), path)
}
