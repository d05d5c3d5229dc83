//! Consort's own connections, under any settings of a database or a role.

use crate::soon;
use history::Epoch;
use postgres::address::{Address, Control};
use postgres::decoder::Decoder;
use postgres::snapshot_probe::Gauger;
use postgres::{Analyst, attach, digest, digest_sql};
use session_state::Interner;
use std::collections::BTreeMap;
use testkit::Scratch;

/// Settings that reach Consort's connections: they make an answer take longer, or end a stream, in that
/// database alone.
const LEFT: &[&str] = &[
    "backend_flush_after",
    "client_connection_check_interval",
    "commit_siblings",
    "constraint_exclusion",
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "createrole_self_grant",
    "cursor_tuple_fraction",
    "debug_logical_replication_streaming",
    // Without workers no plan is parallel, also if it is forced (`force_parallel_mode` until 15).
    "debug_parallel_query",
    "debug_pretty_print",
    "default_statistics_target",
    "effective_cache_size",
    "effective_io_concurrency",
    "file_copy_method",
    "force_parallel_mode",
    "from_collapse_limit",
    "gin_pending_list_limit",
    "hash_mem_multiplier",
    "icu_validation_level",
    "io_combine_limit",
    "join_collapse_limit",
    "log_parameter_max_length_on_error",
    "logical_decoding_work_mem",
    "maintenance_io_concurrency",
    "maintenance_work_mem",
    "max_parallel_maintenance_workers",
    "max_parallel_workers",
    "md5_password_warnings",
    "min_parallel_index_scan_size",
    "min_parallel_table_scan_size",
    "parallel_leader_participation",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "password_encryption",
    "random_page_cost",
    "recursive_worktable_factor",
    // Views and foreign tables of clients: no connection of Consort's reads any. Older minor releases lack
    // the setting.
    "restrict_nonsystem_relation_kind",
    "scram_iterations",
    "seq_page_cost",
    "synchronize_seqscans",
    "temp_buffers",
    "trace_notify",
    "trace_sort",
    "wal_skip_threshold",
    "work_mem",
];
/// Families of such settings.
const LEFT_FAMILIES: &[&str] = &["enable_", "geqo", "jit_", "tcp_", "vacuum_"];

/// Every setting that any user may set, with a value that differs from the server's. The first row is the
/// role itself, which no view lists. Settings that PostgreSQL does not set outside of a transaction are left
/// out, and those that end a walsender that reads. A server may have one method of compression alone.
const HOSTILE: &str = "\
    SELECT 'role', 'tenant' \
    UNION ALL SELECT name, CASE \
      WHEN name ~ '_timeout$' THEN '1' \
      WHEN vartype = 'bool' THEN CASE setting WHEN 'on' THEN 'off' ELSE 'on' END \
      WHEN vartype = 'enum' THEN coalesce((SELECT v FROM unnest(enumvals) v WHERE v <> setting ORDER BY v DESC LIMIT 1), setting) \
      WHEN vartype IN ('integer', 'real') THEN CASE WHEN min_val::numeric <> setting::numeric THEN min_val ELSE max_val END \
      ELSE CASE name WHEN 'DateStyle' THEN 'German, DMY' WHEN 'TimeZone' THEN 'Asia/Tokyo' \
        WHEN 'timezone_abbreviations' THEN 'Australia' WHEN 'client_encoding' THEN 'LATIN1' \
        WHEN 'restrict_nonsystem_relation_kind' THEN 'view' WHEN 'search_path' THEN 'evil, pg_catalog' \
        WHEN 'application_name' THEN 'evil' WHEN 'createrole_self_grant' THEN 'set' ELSE CASE WHEN name LIKE 'lc\\_%' THEN 'POSIX' ELSE 'nix' END END END \
    FROM pg_settings WHERE context = 'user' AND name NOT LIKE 'transaction\\_%' \
      AND name <> 'wal_sender_timeout'";

/// Query of the settings of a database or a role that have reached this session.
const REACHED: &str =
    "SELECT name::text FROM pg_settings WHERE source IN ('database', 'user', 'database user')";

/// An owner sets every allowed setting, for the database, for the role, or for both. Consort attaches, marks,
/// decodes and analyses.
#[tokio::test]
async fn own_connections_ignore_settings_of_others() {
    let scratch = Scratch::start(0);
    scratch.query("CREATE ROLE tenant");
    scratch.query("CREATE DATABASE theirs OWNER tenant");
    let evil = "CREATE SCHEMA evil; CREATE FUNCTION evil.pg_current_snapshot() RETURNS pg_snapshot LANGUAGE sql AS \
        'SELECT ''1:1:''::pg_snapshot'; CREATE TABLE public.t (id int PRIMARY KEY, v text)";
    scratch.query_in("theirs", evil);
    let address = scratch.address("theirs");
    let hostile = scratch.query(HOSTILE);
    assert!(hostile.len() > 100, "{hostile:?}");
    for whose in ["DATABASE theirs", "ROLE CURRENT_USER", "ROLE CURRENT_USER IN DATABASE theirs"] {
        let admin = Control::connect(&scratch.address("postgres")).await.unwrap();
        for row in &hostile {
            let (name, value) = (row[0].as_deref().unwrap(), row[1].as_deref().unwrap());
            let value = if name == "search_path" { value.to_owned() } else { format!("'{value}'") };
            let sql = format!("ALTER {whose} SET \"{name}\" = {value}");
            admin.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        }
        works(&address, whose).await;
        admin.batch_execute(&format!("ALTER {whose} RESET ALL")).await.unwrap();
    }
}

async fn works(address: &Address, whose: &str) {
    let control = Control::connect(address).await.unwrap_or_else(|error| panic!("{whose}: {error}"));
    let reached = control.query(REACHED, &[]).await.unwrap();
    let reached: Vec<String> = reached.iter().map(|row| row.get(0)).collect();
    let is_left = |name: &String| {
        LEFT.contains(&name.as_str()) || LEFT_FAMILIES.iter().any(|family| name.starts_with(family))
    };
    let wrong: Vec<&String> = reached.iter().filter(|name| !is_left(name)).collect();
    assert!(wrong.is_empty() && !reached.is_empty(), "{whose}: {wrong:?}");
    let is_itself = "SELECT current_user = session_user";
    assert!(control.query_one(is_itself, &[]).await.unwrap().get::<_, bool>(0), "{whose}");

    let attached = attach::attach(&control).await.unwrap();
    let mark = attach::mark(&control, true).await.unwrap();
    digest(&control, &digest_sql(&control).await.unwrap()).await.unwrap();
    let mut gauger = Gauger::connect(address, Epoch::new(1)).await.unwrap();
    assert!(gauger.gauge_with_roles().await.unwrap().0.snapshot.sees(mark), "{whose}");
    let mut analyst = Analyst::connect(address).await.unwrap();
    let settings = Interner::new(1).intern(BTreeMap::new());
    let analysed = analyst.analyse(&settings, "SELECT v FROM public.t", &[]).await.unwrap();
    assert_eq!(analysed.columns.len(), 1, "{whose}");
    let mut decoder = Decoder::open(address, &attached.slot, attached.database, Epoch::new(1)).await.unwrap();
    soon("something decoded", decoder.next()).await.unwrap_or_else(|error| panic!("{whose}: {error}"));
}
