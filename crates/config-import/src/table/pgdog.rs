//! PgDog's settings, of pgdog.toml and users.toml.

use super::{Row, elsewhere, key, missing, nothing, why};
use crate::convert::{
    auth_type, flag, metrics_port, millis, names, number, path, pool_mode, server_tls, text,
};

const G: &str = "general";
const A: &str = "admin";
const D: &str = "databases";
const U: &str = "users";

/// PgDog's values for "without limit".
const LIMITLESS: &[&str] = &["9223372036854775807", "0"];

pub(super) static ROWS: &[Row] = &[
    elsewhere(G, &["host"]).default("0.0.0.0"),
    elsewhere(G, &["port"]).default("6432"),
    key(G, &["clients, without a limit"], "max_clients", number).default("1000"),
    nothing(G, &["workers"], why::THREADS),
    key(G, &["default_pool_size"], "default_pool_size", number).default("10"),
    key(G, &["min_pool_size"], "min_pool_size", number).idle(&["0", "1"]),
    key(G, &["pooler_mode"], "pool_mode", pool_mode).default("transaction"),
    nothing(
        G,
        &[
            "healthcheck_interval",
            "healthcheck_timeout",
            "idle_healthcheck_interval",
            "idle_healthcheck_delay",
            "ban_timeout",
            "ban_replica_lag",
            "ban_replica_lag_bytes",
            "lsn_check_delay",
            "lsn_check_interval",
            "lsn_check_timeout",
        ],
        why::WATCHED,
    ),
    missing(G, &["healthcheck_port"], "metrics_listen has /healthz and /readyz"),
    nothing(
        G,
        &["rollback_timeout", "connection_recovery", "client_connection_recovery"],
        "if a client disconnects in a transaction, Consort closes its server connection",
    ),
    missing(G, &["load_balancing_strategy"], "set weight for a standby's share of the reads").idle(&[
        "random",
        "round_robin",
        "least_active_connections",
    ]),
    nothing(
        G,
        &["read_write_strategy", "read_write_split"],
        "Consort decides for each statement; consistency = \"primary\" keeps reads at the primary",
    ),
    key(G, &["tls_certificate"], "tls_certificate", path),
    key(G, &["tls_private_key"], "tls_key", path),
    key(G, &["tls_client_required"], "tls_required", flag),
    key(G, &["tls_client_ca_certificate"], "client_tls_ca", path),
    key(G, &["tls_verify"], "server_tls", server_tls).default("prefer"),
    key(G, &["tls_server_ca_certificate"], "server_tls_ca", path),
    key(G, &["shutdown_timeout"], "shutdown_drain_timeout", millis).default("60000"),
    nothing(
        G,
        &["shutdown_termination_timeout"],
        "after shutdown_drain_timeout clients are disconnected at once",
    ),
    key(G, &["openmetrics_port"], "metrics_listen", metrics_port),
    missing(
        G,
        &["openmetrics_namespace"],
        "metrics are named consort_..; rename them with a Prometheus relabel rule",
    ),
    nothing(G, &["prepared_statements", "prepared_statements_limit"], why::RESTORED),
    nothing(
        G,
        &[
            "query_parser",
            "query_parser_enabled",
            "query_parser_engine",
            "regex_parser_limit",
            "dry_run",
            "expanded_explain",
        ],
        why::PARSED,
    ),
    nothing(
        G,
        &["query_cache_limit"],
        "analysis_cache_size limits the cache of analysed statements, in bytes",
    ),
    missing(G, &["passthrough_auth"], why::ROLES).idle(&["disabled"]),
    key(G, &["connect_timeout"], "server_connect_timeout", millis).or("login_time limits the whole log-in"),
    missing(
        G,
        &["connect_attempts"],
        "Consort tries a connection once; the next client that needs one tries again",
    )
    .idle(&["1"]),
    nothing(G, &["connect_attempt_delay"], "Consort tries a connection once"),
    key(G, &["query_timeout"], "query_timeout", millis).idle(LIMITLESS).or("PostgreSQL's statement_timeout"),
    key(G, &["checkout_timeout"], "query_wait_timeout", millis).default("5000"),
    key(G, &["idle_timeout"], "server_idle_timeout", millis).default("60000"),
    key(G, &["server_lifetime"], "server_lifetime", millis).default("86400000"),
    missing(G, &["server_lifetime_jitter"], "connections are closed exactly at server_lifetime").idle(&["0"]),
    key(G, &["client_idle_timeout"], "client_idle_timeout", millis)
        .idle(LIMITLESS)
        .or("PostgreSQL's idle_session_timeout, with pool_mode = \"session\""),
    key(G, &["client_idle_in_transaction_timeout"], "idle_transaction_timeout", millis)
        .idle(LIMITLESS)
        .or("PostgreSQL's idle_in_transaction_session_timeout"),
    key(G, &["client_login_timeout"], "login_time", millis),
    missing(G, &["mirror_queue", "mirror_exposure"], "mirroring to a second cluster is not supported")
        .idle(&["128", "1.0"]),
    key(G, &["auth_type"], "auth_type", auth_type),
    missing(
        G,
        &["auth_rate_limit"],
        "Consort logs at most ten failed log-ins in ten seconds and delays none",
    ),
    missing(G, &["cross_shard_disabled"], why::SHARDS).idle(&["false"]),
    nothing(G, &["dns_ttl"], why::NAMES),
    key(G, &["log_level"], "log_level", text),
    key(G, &["log_format"], "log_format", text),
    missing(
        G,
        &["log_connections", "log_disconnections"],
        "use PostgreSQL's log_connections and log_disconnections",
    )
    .idle(&["false"]),
    nothing(
        G,
        &["log_dedup_threshold", "log_dedup_window", "stats_period"],
        "Consort logs a lasting condition once",
    ),
    missing(G, &["query_log"], "use PostgreSQL's log_statement").idle(&[""]),
    nothing(
        G,
        &["pub_sub_channel_size"],
        "LISTEN works as in PostgreSQL, and does not pin a server connection",
    ),
    nothing(G, &["broadcast_address", "broadcast_port"], "Consorts elect a leader by a lock at the primary"),
    missing(G, &["two_phase_commit", "two_phase_commit_auto"], why::SHARDS).idle(&["false"]),
    nothing(
        G,
        &[
            "load_schema",
            "reload_schema_on_ddl",
            "system_catalogs",
            "omnisharded_sticky",
            "unique_id_function",
            "unique_id_min",
            "cutover_last_transaction_delay",
            "cutover_replication_lag_threshold",
            "cutover_save_config",
            "cutover_timeout",
            "cutover_timeout_action",
            "cutover_traffic_stop_threshold",
            "resharding_copy_format",
            "resharding_copy_retry_max_attempts",
            "resharding_copy_retry_min_delay",
            "resharding_parallel_copies",
        ],
        why::SHARDS,
    ),
    key(A, &["name"], "console_database", text).default("admin"),
    key(A, &["user"], "admin_users", names).default("admin"),
    elsewhere(A, &["password"]),
    elsewhere(D, &["name", "host", "port", "role", "shard", "database_name"]),
    missing(D, &["user", "password"], why::OWN_ROLE),
    key(D, &["pool_size"], "pool_size", number).or("default_pool_size applies to all"),
    key(D, &["min_pool_size"], "min_pool_size", number).idle(&["0"]),
    key(D, &["pooler_mode"], "pool_mode", pool_mode).or("pool_mode applies to all"),
    key(D, &["idle_timeout"], "server_idle_timeout", millis).or("server_idle_timeout applies to all"),
    key(D, &["server_lifetime"], "server_lifetime", millis).or("server_lifetime applies to all"),
    missing(D, &["server_lifetime_jitter"], "connections are closed exactly at server_lifetime").idle(&["0"]),
    missing(D, &["statement_timeout", "lock_timeout"], "ALTER DATABASE .. SET").idle(&["0"]),
    nothing(D, &["read_only"], "a standby is always read-only"),
    missing(D, &["lb_weight"], "set weight in its [[standby]] for its share of the reads").idle(&["255"]),
    missing(D, &["resharding_only"], why::SHARDS).idle(&["false"]),
    elsewhere(U, &["name", "password"]),
    missing(U, &["database", "databases", "all_databases"], "use GRANT and REVOKE CONNECT at the servers"),
    missing(U, &["passwords"], "Consort keeps one secret per role"),
    missing(
        U,
        &["password_hash"],
        "if it is an MD5 hash or a SCRAM key of pg_authid, add it to the role's line in auth_file",
    ),
    missing(U, &["identity", "tls_client_certificate_required"], why::CLIENT_CERTIFICATES),
    key(U, &["pool_size"], "pool_size", number).or("default_pool_size applies to all"),
    key(U, &["min_pool_size"], "min_pool_size", number).idle(&["0"]),
    missing(
        U,
        &["pool_size_primary", "pool_size_replica", "min_pool_size_primary", "min_pool_size_replica"],
        "default_pool_size limits connections to the primary, standby_connections those to a standby",
    ),
    key(U, &["pooler_mode"], "pool_mode", pool_mode).or("pool_mode applies to all"),
    key(U, &["client_idle_timeout"], "client_idle_timeout", millis).idle(LIMITLESS),
    key(U, &["idle_timeout"], "server_idle_timeout", millis).or("server_idle_timeout applies to all"),
    missing(U, &["idle_timeout_primary", "idle_timeout_replica"], "server_idle_timeout applies to all"),
    key(U, &["server_lifetime"], "server_lifetime", millis).or("server_lifetime applies to all"),
    missing(U, &["server_lifetime_jitter"], "connections are closed exactly at server_lifetime").idle(&["0"]),
    missing(U, &["server_user", "server_password"], why::OWN_ROLE),
    key(U, &["auth_type"], "auth_type", auth_type).or("auth_type applies to all"),
    missing(
        U,
        &[
            "server_auth",
            "server_iam_region",
            "server_iam_assume_role",
            "vault_path",
            "server_vault_path",
            "vault_refresh_percent",
        ],
        "Consort logs in at the servers with the role's secret: a password, a SCRAM key or an MD5 hash",
    )
    .idle(&["password"]),
    missing(U, &["statement_timeout", "lock_timeout"], "ALTER ROLE .. SET").idle(&["0"]),
    missing(U, &["read_only"], "ALTER ROLE .. SET default_transaction_read_only").idle(&["false"]),
    missing(
        U,
        &["replication_mode", "replication_sharding"],
        "make replication connections directly to the servers",
    )
    .idle(&["false"]),
    missing(
        U,
        &["schema_admin", "cross_shard_disabled", "two_phase_commit", "two_phase_commit_auto"],
        why::SHARDS,
    )
    .idle(&["false"]),
    nothing("tcp", &["*"], why::KEEPALIVE),
    nothing("memory", &["*"], "Consort sizes its buffers itself"),
    nothing("replica_lag", &["*"], why::WATCHED),
    nothing("replication", &["*"], why::SHARDS),
    missing("rewrite", &["*"], why::SHARDS).idle(&["false", "ignore", "error"]),
    missing(
        "multi_tenant",
        &["*"],
        "use row-level security to separate tenants; Consort applies it at standbys too",
    ),
    missing("mirroring", &["*"], "mirroring to a second cluster is not supported"),
    missing("plugins", &["*"], "Consort has no plugins"),
    missing("sharded_tables", &["*"], why::SHARDS),
    missing("sharded_mappings", &["*"], why::SHARDS),
    missing("sharded_schemas", &["*"], why::SHARDS),
    missing("omnisharded_tables", &["*"], why::SHARDS),
    missing("manual_queries", &["*"], why::SHARDS),
    missing(
        "otel",
        &["*"],
        "metrics_listen serves a Prometheus page, which the OpenTelemetry collector can read",
    ),
    missing("vault", &["*"], "write the roles' secrets to auth_file, then RELOAD"),
];
