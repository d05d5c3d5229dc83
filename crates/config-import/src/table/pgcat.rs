//! PgCat's settings.

use super::{Row, elsewhere, key, key_or_common, missing, nothing, why};
use crate::convert::{
    auth_type, metrics_port, millis, millis_or_never, names, number, path, pool_mode, server_tls, text,
};

const G: &str = "general";
const P: &str = "pools";
const S: &str = "shards";
const U: &str = "users";

pub(super) static ROWS: &[Row] = &[
    nothing("", &["path"], "names the file itself"),
    missing("include", &["*"], "PgCat's includes are not read; import each file separately"),
    elsewhere(G, &["host"]).default("0.0.0.0"),
    elsewhere(G, &["port"]).default("5432"),
    key(G, &["admin database"], "console_database", text).default("pgcat"),
    key(G, &["clients, without a limit"], "max_clients", number).default("1000"),
    key(G, &["pool_mode, of pools that say none"], "pool_mode", pool_mode).default("transaction"),
    nothing(G, &["enable_prometheus_exporter"], "set by metrics_listen"),
    key(G, &["prometheus_exporter_port"], "metrics_listen", metrics_port)
        .with("enable_prometheus_exporter", &["true"]),
    key(G, &["connect_timeout"], "server_connect_timeout", millis).or("login_time limits the whole log-in"),
    key(G, &["idle_timeout"], "server_idle_timeout", millis_or_never),
    key(G, &["server_lifetime"], "server_lifetime", millis),
    key(G, &["idle_client_in_transaction_timeout"], "idle_transaction_timeout", millis)
        .idle(&["0"])
        .or("PostgreSQL's idle_in_transaction_session_timeout"),
    missing(G, &["server_round_robin"], "the most recently used connection is taken first").idle(&["false"]),
    nothing(G, &["healthcheck_timeout", "healthcheck_delay", "ban_time"], why::WATCHED),
    key(G, &["shutdown_timeout"], "shutdown_drain_timeout", millis).default("60000"),
    missing(
        G,
        &["log_client_connections", "log_client_disconnections"],
        "use PostgreSQL's log_connections and log_disconnections",
    )
    .idle(&["false"]),
    missing(G, &["autoreload"], "use RELOAD in the console, or SIGHUP").idle(&["false"]),
    nothing(G, &["worker_threads"], why::THREADS),
    nothing(
        G,
        &["tcp_keepalives_idle", "tcp_keepalives_count", "tcp_keepalives_interval", "tcp_user_timeout"],
        why::KEEPALIVE,
    ),
    nothing(G, &["dns_cache_enabled", "dns_max_ttl"], why::NAMES),
    nothing(G, &["prepared_statements", "prepared_statements_cache_size"], why::RESTORED),
    nothing(G, &["validate_config"], "consort check validates the configuration and the servers"),
    key(G, &["tls_certificate"], "tls_certificate", path),
    key(G, &["tls_private_key"], "tls_key", path),
    key(G, &["server_tls"], "server_tls", server_tls),
    missing(G, &["verify_server_certificate"], "set server_tls = \"verify-full\" and server_tls_ca")
        .idle(&["false"]),
    key(G, &["admin_username"], "admin_users", names),
    elsewhere(G, &["admin_password"]),
    missing(G, &["admin_auth_type"], "console roles authenticate like other roles").idle(&["md5", "scram"]),
    key(G, &["auth_type"], "auth_type", auth_type).or(why::ROLES),
    key(G, &["auth_query"], "auth_query", text).or(why::ROLES),
    key(G, &["auth_query_user"], "auth_user", text).or(why::ROLES),
    missing(G, &["auth_query_password"], "add it to the role's line in auth_file"),
    missing(G, &["auth_ldapurl", "auth_ldapsuffix"], "roles authenticate by their lines in auth_file"),
    key_or_common(P, &["pool_mode"], "pool_mode", "pool_mode", pool_mode)
        .or("pool_mode applies to all pools"),
    missing(P, &["load_balancing_mode"], "set weight for a standby's share of the reads")
        .idle(&["random", "loc"]),
    nothing(
        P,
        &["default_role", "primary_reads_enabled", "replica_to_primary_failover_enabled"],
        "Consort decides for each statement; consistency = \"primary\" keeps reads at the primary",
    ),
    nothing(
        P,
        &[
            "query_parser_enabled",
            "query_parser_read_write_splitting",
            "query_parser_max_length",
            "db_activity_based_routing",
            "db_activity_init_delay",
            "db_activity_ttl",
            "table_mutation_cache_ms_ttl",
        ],
        why::PARSED,
    ),
    missing(
        P,
        &[
            "sharding_key_regex",
            "shard_id_regex",
            "regex_search_limit",
            "sharding_function",
            "automatic_sharding_key",
            "default_shard",
        ],
        why::SHARDS,
    )
    .idle(&["pg_bigint_hash", "1000", "shard_0"]),
    key_or_common(P, &["idle_timeout"], "server_idle_timeout", "server_idle_timeout", millis_or_never)
        .or("server_idle_timeout applies to all pools"),
    key_or_common(P, &["connect_timeout"], "server_connect_timeout", "server_connect_timeout", millis)
        .or("login_time limits the whole log-in"),
    key_or_common(P, &["checkout_failure_limit"], "checkout_failure_limit", "", number)
        .or("query_wait_timeout limits how long a client waits for a connection"),
    key_or_common(P, &["server_lifetime"], "server_lifetime", "server_lifetime", millis)
        .or("server_lifetime applies to all pools"),
    nothing(
        P,
        &[
            "cleanup_server_connections",
            "log_client_parameter_status_changes",
            "prepared_statements_cache_size",
        ],
        why::RESTORED,
    ),
    key_or_common(P, &["auth_query"], "auth_query", "auth_query", text).or(why::ROLES),
    key_or_common(P, &["auth_query_user"], "auth_user", "auth_user", text).or(why::ROLES),
    missing(P, &["auth_query_password"], "add it to the role's line in auth_file"),
    missing(P, &["plugins"], "Consort has no plugins"),
    missing("plugins", &["*"], "Consort has no plugins"),
    elsewhere(S, &["database", "servers"]),
    missing(S, &["mirrors"], "mirroring to a second cluster is not supported"),
    elsewhere(U, &["username", "password"]),
    key_or_common(U, &["pool_size"], "pool_size", "default_pool_size", number)
        .or("default_pool_size applies to all roles"),
    key(U, &["min_pool_size"], "min_pool_size", number).idle(&["0"]),
    key(U, &["pool_mode"], "pool_mode", pool_mode).or("pool_mode applies to all"),
    key(U, &["server_lifetime"], "server_lifetime", millis).or("server_lifetime applies to all"),
    missing(U, &["statement_timeout"], "ALTER ROLE .. SET statement_timeout").idle(&["0"]),
    missing(U, &["server_username", "server_password"], why::OWN_ROLE),
    key(U, &["auth_type"], "auth_type", auth_type).or("auth_type applies to all"),
];
