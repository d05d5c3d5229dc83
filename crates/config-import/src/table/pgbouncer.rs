//! PgBouncer's settings, in the order of its manual.

use super::{Row, elsewhere, key, key_or_common, missing, nothing, why};
use crate::convert::{
    auth_type, client_tls, log_level, names, number, path, pool_mode, seconds, seconds_or_never, server_tls,
    socket_folder, text,
};

const P: &str = "pgbouncer";
const D: &str = "databases";
const U: &str = "users";

/// TLS is offered to clients, or asked for at servers.
const WITH_TLS: &[&str] = &["allow", "prefer", "require", "verify-ca", "verify-full"];

pub(super) static ROWS: &[Row] = &[
    // The process.
    nothing(P, &["logfile"], "Consort logs to standard error; with systemd: journalctl -u consort"),
    nothing(P, &["pidfile"], "consort serve --pid-file FILE writes one"),
    elsewhere(P, &["listen_addr"]),
    elsewhere(P, &["listen_port"]).default("6432"),
    key(P, &["unix_socket_dir"], "unix_socket_dir", socket_folder).default("/tmp"),
    missing(
        P,
        &["unix_socket_mode"],
        "the socket is accessible to all; restrict access by the permissions of its directory",
    )
    .idle(&["0777", "511"]),
    missing(P, &["unix_socket_group"], "restrict access by the permissions of the socket's directory")
        .idle(&[""]),
    nothing(P, &["user"], "packaging/consort.service sets the user of the process"),
    key(P, &["admin database"], "console_database", text).default("pgbouncer"),
    nothing(P, &["conffile"], "given by consort serve --config"),
    nothing(P, &["service_name", "job_name"], "set by the service manager"),
    missing(P, &["so_reuseport"], "Consort is one process with one thread").idle(&["0"]),
    missing(
        P,
        &["peer_id"],
        "a cancel request must reach the Consort that runs the statement; give each Consort its own address",
    )
    .idle(&["0"]),
    missing(
        "peers",
        &["*"],
        "Consorts do not forward cancel requests to each other; give each one its own address",
    ),
    // Sharing connections.
    key(P, &["pool_mode"], "pool_mode", pool_mode).default("session"),
    key(P, &["max_client_conn"], "max_clients", number).default("100"),
    key(P, &["default_pool_size"], "default_pool_size", number),
    key(P, &["min_pool_size"], "min_pool_size", number).idle(&["0"]),
    key(P, &["reserve_pool_size"], "reserve_pool_size", number).idle(&["0"]),
    key(P, &["reserve_pool_timeout"], "reserve_pool_timeout", seconds).with("reserve_pool_size", &[]),
    key(P, &["max_db_connections"], "max_db_connections", number).idle(&["0"]),
    key(P, &["max_user_connections"], "max_user_connections", number).idle(&["0"]),
    key(P, &["max_db_client_connections"], "max_db_client_connections", number).idle(&["0"]),
    key(P, &["max_user_client_connections"], "max_user_client_connections", number).idle(&["0"]),
    missing(P, &["server_round_robin"], "the most recently used connection is taken first").idle(&["0"]),
    nothing(P, &["track_extra_parameters"], why::RESTORED),
    nothing(
        P,
        &["ignore_startup_parameters"],
        "startup parameters are not rejected; Consort passes them to the servers",
    ),
    missing(P, &["disable_pqexec"], "a simple query may contain several statements, as in PostgreSQL")
        .idle(&["0"]),
    missing(
        P,
        &["application_name_add_host"],
        "application_name is passed to the servers unchanged; SHOW CLIENTS shows the address",
    )
    .idle(&["0"]),
    nothing(P, &["stats_period"], why::FIGURES),
    nothing(
        P,
        &["max_prepared_statements"],
        "prepared statements work with transaction pooling, without a limit",
    ),
    nothing(P, &["scram_iterations"], "the SCRAM keys in auth_file determine it"),
    key(P, &["auth_type"], "auth_type", auth_type)
        .default("md5")
        .or("roles authenticate by their lines in auth_file"),
    key(P, &["auth_hba_file"], "auth_hba_file", path).idle(&[""]),
    key(P, &["auth_ident_file"], "auth_ident_file", path).idle(&[""]),
    key(P, &["auth_file"], "auth_file", path),
    key(P, &["auth_user"], "auth_user", text).idle(&[""]),
    key(P, &["auth_query"], "auth_query", text).idle(&[""]),
    key(P, &["auth_dbname"], "auth_dbname", text).idle(&[""]),
    missing(P, &["auth_ldap_options"], "roles authenticate by their lines in auth_file").idle(&[""]),
    missing(P, &["auth_pam_confdir"], "roles authenticate by their lines in auth_file").idle(&[""]),
    missing(
        P,
        &["auth_gss_parameter", "auth_krb_server_keyfile", "auth_krb_caseins_users"],
        "roles authenticate by their lines in auth_file",
    )
    .idle(&[""]),
    // The log.
    missing(P, &["syslog"], "Consort logs to standard error; use systemd or logger(1) to forward it")
        .idle(&["0"]),
    nothing(P, &["syslog_ident", "syslog_facility"], "Consort logs to standard error"),
    missing(
        P,
        &["log_connections", "log_disconnections"],
        "use PostgreSQL's log_connections and log_disconnections; Consort logs failed log-ins",
    )
    .idle(&["0"]),
    missing(P, &["log_pooler_errors"], "Consort logs failed log-ins and its own errors").idle(&["0"]),
    nothing(P, &["log_stats"], why::FIGURES),
    key(P, &["verbose"], "log_level", log_level),
    // The console.
    key(P, &["admin_users"], "admin_users", names),
    key(P, &["stats_users"], "stats_users", names),
    // Connections to the servers.
    nothing(P, &["server_reset_query", "server_reset_query_always"], why::RESTORED),
    nothing(
        P,
        &["server_check_query", "server_check_delay"],
        "a closed server connection is detected before a client gets it",
    ),
    missing(P, &["server_fast_close"], "RELOAD does not close connections in use").idle(&["0"]),
    key(P, &["server_lifetime"], "server_lifetime", seconds),
    key(P, &["server_idle_timeout"], "server_idle_timeout", seconds),
    key(P, &["server_connect_timeout"], "server_connect_timeout", seconds_or_never).default("15"),
    key(P, &["server_login_retry"], "server_login_retry", seconds).default("15"),
    key(P, &["client_login_timeout"], "login_time", seconds_or_never),
    nothing(P, &["autodb_idle_timeout", "pool_idle_timeout"], "unused entries are dropped"),
    nothing(P, &["dns_max_ttl", "dns_nxdomain_ttl", "dns_zone_check_period"], why::NAMES),
    missing(P, &["resolv_conf"], "the system's resolver is used").idle(&[""]),
    // TLS.
    key(P, &["client_tls_sslmode"], "tls_required", client_tls),
    key(P, &["client_tls_key_file"], "tls_key", path).idle(&[""]).with("client_tls_sslmode", WITH_TLS),
    key(P, &["client_tls_cert_file"], "tls_certificate", path)
        .idle(&[""])
        .with("client_tls_sslmode", WITH_TLS),
    key(P, &["client_tls_ca_file"], "client_tls_ca", path).idle(&[""]).with("client_tls_sslmode", WITH_TLS),
    nothing(
        P,
        &[
            "client_tls_protocols",
            "client_tls_ciphers",
            "client_tls13_ciphers",
            "client_tls_ecdhcurve",
            "client_tls_dheparams",
            "server_tls_protocols",
            "server_tls_ciphers",
            "server_tls13_ciphers",
        ],
        why::TLS_CHOICES,
    ),
    key(P, &["server_tls_sslmode"], "server_tls", server_tls).default("prefer"),
    key(P, &["server_tls_ca_file"], "server_tls_ca", path),
    key(P, &["server_tls_key_file"], "server_tls_key", path).idle(&[""]).with("server_tls_sslmode", WITH_TLS),
    key(P, &["server_tls_cert_file"], "server_tls_certificate", path)
        .idle(&[""])
        .with("server_tls_sslmode", WITH_TLS),
    // Time-outs that are called dangerous.
    key(P, &["query_timeout"], "query_timeout", seconds).idle(&["0", "0.0"]),
    key(P, &["transaction_timeout"], "transaction_timeout", seconds).idle(&["0", "0.0"]),
    key(P, &["query_wait_timeout"], "query_wait_timeout", seconds),
    missing(P, &["query_wait_notify"], "a client that waits for a connection gets no notice").idle(&["0"]),
    missing(P, &["login_notify_message"], "no message is sent at log-in").idle(&[""]),
    nothing(P, &["cancel_wait_timeout"], "a cancel request does not queue for the pool"),
    key(P, &["client_idle_timeout"], "client_idle_timeout", seconds).idle(&["0", "0.0"]),
    key(P, &["idle_transaction_timeout"], "idle_transaction_timeout", seconds).idle(&["0", "0.0"]),
    nothing(P, &["suspend_timeout"], why::RESTART),
    // The network.
    nothing(
        P,
        &[
            "pkt_buf",
            "max_packet_size",
            "listen_backlog",
            "sbuf_loopcnt",
            "tcp_defer_accept",
            "tcp_socket_buffer",
        ],
        "Consort sizes its buffers itself",
    ),
    missing(P, &["tcp_keepalive"], why::KEEPALIVE).idle(&["1"]),
    missing(P, &["tcp_keepcnt", "tcp_keepidle", "tcp_keepintvl"], why::KEEPALIVE).idle(&["0"]),
    missing(P, &["tcp_user_timeout"], why::KEEPALIVE).idle(&["0"]),
    // A database.
    elsewhere(D, &["dbname", "host", "port"]),
    missing(D, &["user", "password"], why::OWN_ROLE),
    key_or_common(D, &["auth_user"], "auth_user", "auth_user", text),
    key_or_common(D, &["auth_query"], "auth_query", "auth_query", text),
    key_or_common(D, &["auth_dbname"], "auth_dbname", "auth_dbname", text),
    key_or_common(D, &["pool_size"], "pool_size", "default_pool_size", number),
    key_or_common(D, &["min_pool_size"], "min_pool_size", "min_pool_size", number).idle(&["0"]),
    key_or_common(
        D,
        &["reserve_pool_size", "reserve_pool"],
        "reserve_pool_size",
        "reserve_pool_size",
        number,
    )
    .idle(&["0"]),
    key_or_common(D, &["pool_mode"], "pool_mode", "pool_mode", pool_mode),
    key_or_common(D, &["max_db_connections"], "max_db_connections", "max_db_connections", number)
        .idle(&["0"]),
    key_or_common(
        D,
        &["max_db_client_connections"],
        "max_db_client_connections",
        "max_db_client_connections",
        number,
    )
    .idle(&["0"]),
    key_or_common(D, &["server_lifetime"], "server_lifetime", "server_lifetime", seconds),
    missing(
        D,
        &["connect_query", "client_encoding", "datestyle", "timezone", "application_name"],
        why::ALTER_ROLE,
    ),
    missing(
        D,
        &["load_balance_hosts"],
        "add a [[standby]] for each standby; Consort sends reads there when the result is as fresh as at the primary",
    ),
    // A user.
    key(U, &["pool_mode"], "pool_mode", pool_mode),
    key(U, &["pool_size"], "pool_size", number),
    key(U, &["reserve_pool_size"], "reserve_pool_size", number).idle(&["0"]),
    key(U, &["max_user_connections"], "max_user_connections", number).idle(&["0"]),
    key(U, &["max_user_client_connections"], "max_user_client_connections", number).idle(&["0"]),
    key(U, &["query_timeout"], "query_timeout", seconds).idle(&["0"]),
    key(U, &["transaction_timeout"], "transaction_timeout", seconds).idle(&["0"]),
    key(U, &["idle_transaction_timeout"], "idle_transaction_timeout", seconds).idle(&["0"]),
    key(U, &["client_idle_timeout"], "client_idle_timeout", seconds).idle(&["0"]),
];
