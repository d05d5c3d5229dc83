//! Settings of Consort's own connections. Start-up options take precedence over ALTER DATABASE and ALTER
//! ROLE. So the owner of a database controls neither the role of Consort there, nor its timeouts, nor the
//! form of its texts and answers.
//!
//! A user who may set one setting for a role or a database may set any that every user may set; these are the
//! ones that matter:
//!
//! | settings | otherwise |
//! |---|---|
//! | `role`, `row_security` | Consort works as another role, and is refused |
//! | `default_transaction_*` | marks cannot be written, standbys refuse SERIALIZABLE |
//! | `*_timeout`, `exit_on_error` | connections end |
//! | `local_preload_libraries` | every log-in fails |
//! | strings, dates, numbers, XML | texts are read, and answers written, in another form |
//! | `default_table*`, `default_toast_compression` | objects of `attach` lie elsewhere, or cannot be made |
//! | `synchronous_commit` | a mark waits for a standby |
//! | `vacuum_cost_delay`, `jit`, `debug_print_*`, a forced parallel plan | small queries take long |
//!
//! Two majors have two names for the setting that forces parallel plans, and both obey
//! `max_parallel_workers_per_gather`. Other settings of the planner, of memory, of keepalives and `wal_sender_timeout` stay the server's: they change
//! how long an answer takes, or end a connection, in that database alone. `tests/it/own_connections.rs` goes
//! through all that PostgreSQL has.

/// Settings of every connection of Consort's own. Every user may set these: a log-in of any role is admitted
/// with them.
pub const OWN_DEFAULTS: &str = "-c role=none -c row_security=on -c local_preload_libraries= -c exit_on_error=off \
     -c default_transaction_read_only=off -c default_transaction_isolation=read\\ committed -c default_transaction_deferrable=off \
     -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0 \
     -c standard_conforming_strings=on -c backslash_quote=safe_encoding -c escape_string_warning=on -c array_nulls=on \
     -c transform_null_equals=off -c quote_all_identifiers=off -c bytea_output=hex -c extra_float_digits=1 \
     -c datestyle=ISO,MDY -c intervalstyle=postgres -c timezone=UTC -c timezone_abbreviations=Default \
     -c lc_monetary=C -c lc_numeric=C -c lc_time=C -c xmlbinary=base64 -c xmloption=content \
     -c default_text_search_config=pg_catalog.simple -c check_function_bodies=on -c default_table_access_method=heap \
     -c default_tablespace= -c temp_tablespaces= -c default_toast_compression=pglz -c synchronous_commit=local \
     -c client_min_messages=notice -c debug_print_parse=off -c debug_print_rewritten=off -c debug_print_plan=off \
     -c gin_fuzzy_search_limit=0 -c stats_fetch_consistency=cache -c vacuum_cost_delay=0 -c jit=off -c max_parallel_workers_per_gather=0 \
     -c plan_cache_mode=auto";

/// Start-up option of majors that have `transaction_timeout`. An older one refuses a log-in with it, so a connection whose
/// server has another value is made again with the option.
pub(crate) const NO_TRANSACTION_LIMIT: &str = "-c transaction_timeout=0";

/// Query of the limit of transactions, and its answer without one. Neither resolves a name.
pub(crate) const TRANSACTION_LIMIT: (&str, &str) = ("SHOW transaction_timeout", "0");

/// Restricts names in queries to PostgreSQL's own objects, despite objects that the database's owner has made
/// there: the queries run as a superuser.
pub(crate) const OWN_NAMES: &str = "-c search_path=pg_catalog";
