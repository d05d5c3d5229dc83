//! Statements that stay at the primary for the objects that they read or call, class by class, and similar
//! ones that may be offloaded.

use super::Step::{As, Fresh, Leaves, Other, Runs, Stays, StaysWith};
use super::{Line, Shared};

const READ: &str = "SELECT name FROM items WHERE id = 1";

const THE_CLOCK: Line = Line {
    objects: &[
        "CREATE TABLE dated (id int PRIMARY KEY, d date, note text)",
        "CREATE VIEW recent AS SELECT id FROM dated WHERE d < now()",
    ],
    shared: &[],
    scenarios: &[
        (
            "functions",
            &[
                Stays("clock", "SELECT now() IS NULL"),
                Stays("clock", "SELECT transaction_timestamp() IS NULL"),
                Stays("clock", "SELECT statement_timestamp() IS NULL"),
                Stays("clock", "SELECT clock_timestamp() IS NULL"),
                Stays("clock", "SELECT timeofday() IS NULL"),
                Stays("clock", "SELECT age('2024-01-01'::timestamp) IS NULL"),
                Stays("clock", "SELECT pg_sleep(0)"),
                Leaves("SELECT age('2024-01-02'::timestamp, '2024-01-01')"),
            ],
        ),
        (
            "values",
            &[
                Stays("clock", "SELECT CURRENT_DATE IS NULL"),
                Stays("clock", "SELECT CURRENT_TIME IS NULL"),
                Stays("clock", "SELECT CURRENT_TIMESTAMP(2) IS NULL"),
                Stays("clock", "SELECT LOCALTIME IS NULL"),
                Stays("clock", "SELECT LOCALTIMESTAMP IS NULL"),
            ],
        ),
        (
            "words",
            &[
                Stays("clock", "SELECT 'now'::timestamptz IS NULL"),
                Stays("clock", "SELECT date 'today' IS NULL"),
                Stays("clock", "SELECT id FROM dated WHERE d = 'tomorrow'"),
                Stays("clock", "SELECT id FROM dated WHERE d = ' YESTERDAY '"),
                Leaves("SELECT id FROM dated WHERE d = '2024-01-01'"),
                Leaves("SELECT id FROM dated WHERE note = 'today'"),
            ],
        ),
        (
            "words in parameters and in data",
            &[
                StaysWith("clock", "SELECT id FROM dated WHERE d = $1", "today"),
                StaysWith("clock", "SELECT id FROM dated WHERE d = $1::text::date", "2024-01-01"),
                Stays("clock", "SELECT note::date FROM dated"),
            ],
        ),
        ("views", &[Stays("clock", "SELECT id FROM recent")]),
        (
            "in a block it stands still",
            &[
                Runs("BEGIN"),
                Runs("UPDATE items SET name = now()::text WHERE id = 1"),
                Stays("clock", "SELECT name = now()::text FROM items WHERE id = 1"),
                Stays("clock", "SELECT now() = CURRENT_TIMESTAMP, now() < clock_timestamp()"),
                Runs("COMMIT"),
            ],
        ),
    ],
};

#[test]
fn the_clock() {
    THE_CLOCK.holds();
}

const THE_IDENTITY_OF_TRANSACTIONS: Line = Line {
    objects: &[],
    shared: &[],
    scenarios: &[
        (
            "functions",
            &[
                Stays("transaction", "SELECT txid_current() IS NULL"),
                Stays("transaction", "SELECT txid_current_snapshot() IS NULL"),
                Stays("transaction", "SELECT pg_current_xact_id() IS NULL"),
                Stays("transaction", "SELECT pg_current_xact_id_if_assigned()"),
                Stays("transaction", "SELECT pg_xact_status('3')"),
                Stays("transaction", "SELECT pg_current_snapshot() IS NULL"),
                Stays("transaction", "SELECT pg_visible_in_snapshot('3', '1:2:')"),
                Stays("transaction", "SELECT pg_export_snapshot() IS NULL"),
            ],
        ),
        (
            "in a block that has written",
            &[
                Runs("BEGIN"),
                Runs("UPDATE items SET name = name WHERE id = 1"),
                Stays("transaction", "SELECT pg_current_xact_id_if_assigned() IS NULL"),
                Stays("transaction", "SELECT pg_xact_status(pg_current_xact_id())"),
                Runs("ROLLBACK"),
            ],
        ),
        (
            "columns",
            &[
                Stays("system_column", "SELECT xmin::text::bigint > 0 FROM items WHERE id = 1"),
                Stays("system_column", "SELECT xmax FROM items WHERE id = 2"),
                Stays("system_column", "SELECT cmin IS NULL FROM items WHERE id = 2"),
                Stays("system_column", "SELECT cmax IS NULL FROM items WHERE id = 2"),
                Stays("system_column", "SELECT ctid FROM items WHERE id = 2"),
                Stays("system_column", "SELECT tableoid > 0 FROM items WHERE id = 2"),
                Stays("system_column", "SELECT id FROM items WHERE ctid = '(0,1)'"),
            ],
        ),
    ],
};

#[test]
fn the_identity_of_transactions() {
    THE_IDENTITY_OF_TRANSACTIONS.holds();
}

const SEQUENCES: Line = Line {
    objects: &["CREATE SEQUENCE numbers", "CREATE TABLE counted (id serial PRIMARY KEY, n int)"],
    shared: &[],
    scenarios: &[
        (
            "functions",
            &[
                // A pooled session stays pinned after nextval once any session in the database has called
                // currval or lastval.
                Runs("SELECT currval('numbers')"),
                Stays("sequence", "SELECT nextval('numbers')"),
                Stays("sequence", "SELECT currval('numbers')"),
                Stays("sequence", "SELECT lastval()"),
                Stays("sequence", "SELECT setval('numbers', 5)"),
                Stays("sequence", "SELECT pg_sequence_last_value('numbers')"),
                Stays("sequence", "SELECT nextval('numbers'), name FROM items WHERE id = 1"),
            ],
        ),
        ("as a table", &[Stays("sequence", "SELECT last_value FROM numbers")]),
        (
            "what a default drew",
            &[
                Runs("INSERT INTO counted (n) VALUES (1)"),
                Stays("sequence", "SELECT currval('counted_id_seq')"),
                Stays("sequence", "SELECT n FROM counted WHERE id = lastval()"),
            ],
        ),
    ],
};

#[test]
fn sequences() {
    SEQUENCES.holds();
}

const WHAT_BELONGS_TO_THE_SESSION: Line = Line {
    objects: &[],
    // The state of random() after a seed lives in a process, where nothing shows it, and does not go along to
    // another.
    shared: &[("seeds", Shared::Not)],
    scenarios: &[
        (
            "settings",
            &[
                Runs("SET app.tenant = '7'"),
                Stays("session", "SELECT current_setting('app.tenant')"),
                Stays("session", "SELECT set_config('app.tenant', '8', false)"),
                Stays("session", "SELECT count(*) FROM items WHERE id = current_setting('app.tenant')::int"),
                Stays("session", "SELECT setting FROM pg_settings WHERE name = 'app.tenant'"),
            ],
        ),
        (
            "names",
            &[
                Stays("session", "SELECT pg_my_temp_schema()"),
                Stays("session", "SELECT CURRENT_SCHEMA"),
                Stays("session", "SELECT current_schemas(true)"),
            ],
        ),
        ("processes", &[Stays("session", "SELECT pg_backend_pid() > 0")]),
        (
            "what it has open",
            &[
                Stays("session", "SELECT count(*) FROM pg_cursors"),
                Stays("session", "SELECT count(*) FROM pg_prepared_statements"),
                Stays("session", "SELECT count(*) FROM pg_prepared_xacts"),
                Runs("LISTEN heard"),
                Stays("session", "SELECT pg_listening_channels()"),
            ],
        ),
        (
            "advisory locks",
            &[
                Stays("session", "SELECT pg_advisory_lock(1)"),
                Other("SELECT pg_try_advisory_lock(1)"),
                Stays("session_holds_advisory_lock", READ),
                Runs("SELECT pg_advisory_unlock_all()"),
                Leaves(READ),
                Stays("session", "SELECT pg_advisory_xact_lock(2)"),
                Leaves(READ),
                Runs("BEGIN"),
                Stays("session", "SELECT pg_advisory_xact_lock(2)"),
                Other("SELECT pg_try_advisory_lock_shared(2)"),
                Runs("COMMIT"),
                Other("SELECT pg_try_advisory_lock(2)"),
                Stays("session", "SELECT pg_try_advisory_lock(2)"),
            ],
        ),
        (
            "seeds",
            &[
                Stays("session", "SELECT setseed(0.5)"),
                Stays("session", "SELECT random()"),
                Stays("session", "SELECT random(), name FROM items WHERE id = 1"),
            ],
        ),
    ],
};

#[test]
fn what_belongs_to_the_session() {
    WHAT_BELONGS_TO_THE_SESSION.holds();
}

const WHAT_BELONGS_TO_ONE_SERVER: Line = Line {
    objects: &[],
    shared: &[],
    scenarios: &[
        (
            "addresses",
            &[
                Stays("node", "SELECT inet_server_addr()"),
                Stays("node", "SELECT inet_server_port()"),
                Stays("node", "SELECT inet_client_addr()"),
                Stays("node", "SELECT inet_client_port()"),
            ],
        ),
        (
            "the server",
            &[
                Stays("node", "SELECT version()"),
                Stays("node", "SELECT pg_postmaster_start_time() IS NULL"),
                Stays("node", "SELECT pg_is_in_recovery()"),
                Stays("node", "SELECT system_identifier IS NULL FROM pg_control_system()"),
            ],
        ),
        (
            "the log",
            &[
                Stays("node", "SELECT pg_current_wal_lsn() IS NULL"),
                Stays("node", "SELECT pg_last_wal_replay_lsn()"),
                Stays("node", "SELECT pg_last_xact_replay_timestamp()"),
                Stays("node", "SELECT pg_walfile_name('0/1000000') IS NULL"),
            ],
        ),
        (
            "statistics and sizes",
            &[
                Stays("node", "SELECT pg_stat_get_numscans(1)"),
                Stays("node", "SELECT count(*) > 0 FROM pg_stat_activity"),
                Stays("node", "SELECT pg_database_size('template0') > 0"),
                Stays("node", "SELECT pg_column_size(name) FROM items WHERE id = 2"),
                Stays("node", "SELECT pg_relation_size('items')"),
            ],
        ),
        (
            "files",
            &[
                Stays("node", "SELECT pg_relation_filepath('items') IS NULL"),
                Stays("node", "SELECT count(*) > 0 FROM pg_ls_dir('.')"),
                Stays("node", "SELECT pg_read_file('PG_VERSION')"),
            ],
        ),
        (
            "processes",
            &[Stays("node", "SELECT pg_cancel_backend(0)"), Stays("node", "SELECT pg_terminate_backend(0)")],
        ),
        (
            "replication",
            &[
                Stays("node", "SELECT count(*) FROM pg_get_replication_slots() WHERE slot_name = 'none'"),
                Stays("node", "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'none'"),
                Stays("effect", "SELECT pg_logical_emit_message(true, 'a', 'b') IS NULL"),
            ],
        ),
        ("configuration", &[Stays("reload", "SELECT pg_reload_conf()")]),
    ],
};

#[test]
fn what_belongs_to_one_server() {
    WHAT_BELONGS_TO_ONE_SERVER.holds();
}

const LARGE_OBJECTS: Line = Line {
    objects: &[],
    shared: &[],
    scenarios: &[(
        "functions",
        &[
            Runs("SELECT lo_create(77)"),
            Stays("large_object", "SELECT lo_put(77, 0, 'abc')"),
            Stays("large_object", "SELECT lo_get(77)"),
            Stays("large_object", "SELECT lo_from_bytea(77, 'x')"),
            Runs("BEGIN"),
            Stays("large_object", "SELECT loread(lo_open(77, 262144), 3)"),
            Runs("COMMIT"),
            Stays("catalog", "SELECT count(*) FROM pg_largeobject WHERE loid = 77"),
            Stays("large_object", "SELECT lo_unlink(77)"),
        ],
    )],
};

#[test]
fn large_objects() {
    LARGE_OBJECTS.holds();
}

const CATALOGS_AND_OBJECT_IDENTIFIERS: Line = Line {
    objects: &[
        "CREATE VIEW of_catalog AS SELECT relname FROM pg_class",
        "CREATE TABLE named (id int, r regclass)",
    ],
    shared: &[],
    scenarios: &[
        (
            "catalogs",
            &[
                Stays("catalog", "SELECT relname FROM pg_class WHERE relname = 'items'"),
                Stays("catalog", "SELECT relname FROM of_catalog WHERE relname = 'items'"),
                Stays(
                    "session",
                    "SELECT table_name FROM information_schema.tables WHERE table_name = 'items'",
                ),
                Stays(
                    "catalog",
                    "SELECT name FROM items WHERE EXISTS (SELECT FROM pg_roles WHERE rolname = name)",
                ),
            ],
        ),
        (
            "names",
            &[
                Stays("object_identifier", "SELECT 'items'::regclass"),
                Stays("object_identifier", "SELECT to_regclass('items')"),
                Stays("object_identifier", "SELECT 'int4'::regtype"),
                StaysWith("object_identifier", "SELECT $1::regclass", "items"),
                Stays("object_identifier", "SELECT r FROM named"),
            ],
        ),
        (
            "questions about objects",
            &[
                Stays("object_identifier", "SELECT has_table_privilege('items', 'SELECT')"),
                Stays("object_identifier", "SELECT pg_get_viewdef('of_catalog'::regclass)"),
                Stays("object_identifier", "SELECT obj_description(1, 'pg_class')"),
                Stays("object_identifier", "SELECT format_type(23, NULL)"),
                Stays("object_identifier", "SELECT pg_typeof(1)"),
                Leaves("SELECT 1::oid"),
            ],
        ),
    ],
};

#[test]
fn catalogs_and_object_identifiers() {
    CATALOGS_AND_OBJECT_IDENTIFIERS.holds();
}

const WHAT_RUNS_TEXT_OR_OTHER_CODE: Line = Line {
    objects: &[
        "CREATE TABLE log (id int)",
        "CREATE TABLE texts (id int PRIMARY KEY, t text)",
        "INSERT INTO texts VALUES (1, 'a')",
        "CREATE FUNCTION inner_one() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.log VALUES (1); RETURN 1; END'",
        "CREATE FUNCTION outer_one() RETURNS int LANGUAGE sql AS 'SELECT public.inner_one()'",
        "CREATE FUNCTION said_to_be_pure(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 + (SELECT count(*) FROM public.log); END'",
        "CREATE FUNCTION rows_of() RETURNS SETOF log STABLE LANGUAGE sql AS 'SELECT * FROM public.log'",
        "CREATE OPERATOR +% (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)",
        "CREATE OPERATOR !% (RIGHTARG = int, FUNCTION = said_to_be_pure)",
        "CREATE AGGREGATE own_sum (int) (SFUNC = int4pl, STYPE = int)",
        "CREATE AGGREGATE other_sum (int) (SFUNC = int4pl, STYPE = int, FINALFUNC = said_to_be_pure)",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE TYPE color AS ENUM ('red', 'green')",
        "CREATE FUNCTION to_color(int) RETURNS color LANGUAGE sql AS 'SELECT ''red''::public.color'",
        "CREATE CAST (int AS color) WITH FUNCTION to_color(int)",
        "CREATE VIEW calls AS SELECT id, outer_one() AS one FROM bystander",
        "CREATE FUNCTION lower(int) RETURNS text LANGUAGE sql AS 'SELECT ''mine'''",
    ],
    shared: &[],
    scenarios: &[
        (
            "text",
            &[
                Stays("runs_text", "SELECT query_to_xml('SELECT 1', true, true, '')"),
                Stays("runs_text", "SELECT database_to_xml(true, true, '') IS NULL"),
                Stays("runs_text", "SELECT * FROM ts_stat('SELECT ''a b''::tsvector')"),
                Stays(
                    "runs_text",
                    "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery')",
                ),
                Leaves("SELECT ts_rewrite('a'::tsquery, 'a'::tsquery, 'c'::tsquery)"),
                Fresh(
                    &["SELECT query_to_xml('SELECT public.inner_one()', true, true, '')"],
                    "SELECT count(*) FROM log",
                ),
            ],
        ),
        (
            "functions",
            &[
                Stays("unknown_function", "SELECT outer_one()"),
                Stays("unknown_function", "SELECT said_to_be_pure(id) FROM bystander"),
                Stays("unknown_function", "SELECT count(*) FROM rows_of()"),
                Stays("unknown_function", "SELECT one FROM calls"),
                Stays("unknown_function", "SELECT lower(1)"),
                Leaves("SELECT lower('A')"),
            ],
        ),
        (
            "functions inside functions that write",
            &[
                Fresh(&["SELECT outer_one()"], "SELECT count(*) FROM log"),
                Fresh(&["SELECT one FROM calls"], "SELECT count(*) FROM log"),
                Fresh(&["BEGIN", "SELECT outer_one()", "COMMIT"], "SELECT count(*) FROM log"),
            ],
        ),
        (
            "operators, aggregates, domains, casts",
            &[
                Leaves("SELECT id +% 1 FROM bystander"),
                Stays("unknown_function", "SELECT !% id FROM bystander"),
                Leaves("SELECT own_sum(id) FROM bystander"),
                Stays("unknown_function", "SELECT other_sum(id) FROM bystander"),
                Leaves("SELECT id::positive FROM bystander"),
                Stays("unknown_function", "SELECT id::color FROM bystander"),
            ],
        ),
    ],
};

#[test]
fn what_runs_text_or_other_code() {
    WHAT_RUNS_TEXT_OR_OTHER_CODE.holds();
}

/// In a database of its own: while there is such a domain, statements with text in them are not analysed.
const A_DOMAIN_WHOSE_CHECK_RUNS_CODE: Line = Line {
    objects: &[
        "CREATE FUNCTION said_to_be_pure(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'",
        "CREATE DOMAIN checked AS int CHECK (said_to_be_pure(VALUE) > 0)",
    ],
    // The same.
    shared: &[("what is not looked at may be a seed", Shared::Not)],
    scenarios: &[
        (
            "what is not looked at may be a seed",
            &[
                Runs("SELECT setseed(0.5)"),
                Stays("session", "SELECT random()"),
                As("postgres"),
                Runs("SELECT 'a', setseed(0.5)"),
                Leaves("SELECT id FROM bystander"),
                Leaves("SELECT id FROM bystander"),
                Stays("session", "SELECT random()"),
                Stays("session", "SELECT random()"),
            ],
        ),
        (
            "a cast to it",
            &[
                Stays("unknown_function", "SELECT id::checked FROM bystander"),
                Stays("not_analysed_yet", "SELECT name FROM items WHERE name = 'item 1'"),
                Other("DROP DOMAIN checked"),
                Leaves("SELECT name FROM items WHERE name = 'item 1'"),
            ],
        ),
    ],
};

#[test]
fn a_domain_whose_check_runs_code() {
    A_DOMAIN_WHOSE_CHECK_RUNS_CODE.holds();
}

const WHAT_IS_NOT_IN_THE_STREAM: Line = Line {
    objects: &[
        "CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)",
        "INSERT INTO unlogged VALUES (1)",
        "CREATE MATERIALIZED VIEW kept AS SELECT count(*) FROM items",
        "CREATE VIEW over AS SELECT id FROM unlogged",
        "CREATE EXTENSION file_fdw",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE FOREIGN TABLE elsewhere (line text) SERVER files OPTIONS (program 'echo line')",
        "CREATE TABLE parent (id int)",
        "CREATE UNLOGGED TABLE child () INHERITS (parent)",
    ],
    shared: &[],
    scenarios: &[
        (
            "unlogged tables",
            &[
                Stays("not_in_stream", "SELECT id FROM unlogged"),
                Stays("not_in_stream", "SELECT id FROM over"),
                Stays("not_in_stream", "SELECT id FROM parent"),
                Leaves("SELECT id FROM ONLY parent"),
            ],
        ),
        ("materialized views", &[Stays("not_in_stream", "SELECT * FROM kept")]),
        ("foreign tables", &[Stays("foreign_table", "SELECT line FROM elsewhere")]),
        (
            "a table that becomes one",
            &[
                Leaves(READ),
                Other("ALTER TABLE bystander SET UNLOGGED"),
                Runs("SELECT id FROM bystander"),
                Leaves(READ),
                Stays("not_in_stream", "SELECT id FROM bystander"),
                Other("ALTER TABLE bystander SET LOGGED"),
                Runs("SELECT id FROM bystander"),
                Leaves(READ),
                Leaves("SELECT id FROM bystander"),
            ],
        ),
        (
            "temporary tables",
            &[
                Runs("CREATE TEMP TABLE mine (id int)"),
                Stays("session_has_temporary_objects", READ),
                Runs("INSERT INTO mine VALUES (1)"),
                Stays("session_has_temporary_objects", "SELECT id FROM mine"),
                Runs("DROP TABLE mine"),
                Leaves(READ),
            ],
        ),
        (
            "a temporary table that hides another",
            &[
                Leaves(READ),
                Runs("CREATE TEMP TABLE items (id int, name text)"),
                Runs(READ),
                Runs("INSERT INTO items VALUES (1, 'of the temporary table')"),
                Stays("session_has_temporary_objects", READ),
                Other(READ),
                Runs("DISCARD TEMP"),
                Leaves(READ),
            ],
        ),
    ],
};

#[test]
fn what_is_not_in_the_stream() {
    WHAT_IS_NOT_IN_THE_STREAM.holds();
}

const WHAT_DEPENDS_ON_THE_PLACE_OF_ROWS: Line = Line {
    objects: &[],
    shared: &[],
    scenarios: &[(
        "samples",
        &[
            Stays("by_place", "SELECT count(*) FROM items TABLESAMPLE SYSTEM (100)"),
            Stays("by_place", "SELECT count(*) FROM items TABLESAMPLE BERNOULLI (100) REPEATABLE (1)"),
        ],
    )],
};

#[test]
fn what_depends_on_the_place_of_rows() {
    WHAT_DEPENDS_ON_THE_PLACE_OF_ROWS.holds();
}

const WHAT_MAY_LEAVE_THOUGH_IT_IS_VOLATILE: Line = Line {
    objects: &[],
    shared: &[],
    scenarios: &[
        (
            "random",
            &[
                // The called function must be known before a session without a seed calls it.
                Runs("SELECT setseed(0)"),
                Stays("session", "SELECT random() < 0"),
                As("postgres"),
                Leaves("SELECT random() < 0"),
                Leaves("SELECT gen_random_uuid() IS NULL"),
            ],
        ),
        (
            "who it is",
            &[
                Leaves("SELECT current_user, session_user, current_role"),
                Leaves("SELECT current_catalog = current_database()"),
            ],
        ),
    ],
};

#[test]
fn what_may_leave_though_it_is_volatile() {
    WHAT_MAY_LEAVE_THOUGH_IT_IS_VOLATILE.holds();
}

const WHAT_LIES_INSIDE_OF_VALUES: Line = Line {
    objects: &[
        "CREATE TABLE days (id int PRIMARY KEY, d date)",
        "CREATE TYPE span AS (d date, note text)",
        "CREATE TABLE named (id int, r regclass)",
    ],
    shared: &[],
    scenarios: &[
        (
            "the clock",
            &[
                Stays("clock", "SELECT '{today}'::date[] IS NULL"),
                Stays("clock", "SELECT '[today,)'::daterange IS NULL"),
                Stays("clock", "SELECT '{[today,)}'::datemultirange IS NULL"),
                Stays("clock", "SELECT '(today,a)'::span IS NULL"),
                Leaves("SELECT '{2024-01-01}'::date[] IS NULL"),
            ],
        ),
        (
            "a zone whose offset is that of today",
            &[
                Stays("clock", "SELECT '10:00'::timetz IS NULL"),
                StaysWith("clock", "SELECT $1::timetz IS NULL", "10:00"),
                Leaves("SELECT '10:00'::time IS NULL"),
            ],
        ),
        (
            "text that becomes values of other types",
            &[
                Stays("clock", r#"SELECT (json_populate_record(NULL::days, '{"d": "today"}')).id IS NULL"#),
                Stays("clock", r#"SELECT count(*) FROM json_to_recordset('[{"d": "today"}]') AS t(d date)"#),
            ],
        ),
        (
            "names of objects",
            &[
                Stays("object_identifier", "SELECT '{items}'::regclass[]"),
                Stays("object_identifier", "SELECT named FROM named"),
            ],
        ),
    ],
};

#[test]
fn what_lies_inside_of_values() {
    WHAT_LIES_INSIDE_OF_VALUES.holds();
}

const WHAT_CANNOT_BE_FOLLOWED: Line = Line {
    objects: &[
        "CREATE FUNCTION less(int, int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 < $2; END'",
        "CREATE FUNCTION compares(int, int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN btint4cmp($1, $2); END'",
        "CREATE OPERATOR <% (LEFTARG = int, RIGHTARG = int, FUNCTION = less)",
        "CREATE OPERATOR =% (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq)",
        "CREATE OPERATOR CLASS by_code FOR TYPE int USING btree AS OPERATOR 1 <% , OPERATOR 3 =% , FUNCTION 1 compares(int, int)",
        // Values that are too long for the rows of a table lie in another one, whose changes do not come out
        // of the decoder.
        "DO $$BEGIN EXECUTE format('CREATE VIEW toasted AS SELECT chunk_seq FROM %s', \
         (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'items'::regclass)); END$$",
    ],
    shared: &[],
    scenarios: &[
        (
            "an operator without its function",
            &[
                Leaves("SELECT id FROM items ORDER BY id USING <"),
                Stays("unknown_function", "SELECT id FROM items ORDER BY id USING <%"),
            ],
        ),
        ("a table that is not in the catalog", &[Stays("unknown_relation", "SELECT count(*) FROM toasted")]),
        (
            "what goes with what is temporary elsewhere",
            &[
                Other("CREATE DOMAIN pg_temp.few AS int"),
                Other("CREATE VIEW part AS SELECT id::pg_temp.few AS id FROM bystander"),
                Stays("fleeting", "SELECT id FROM part"),
                Other("DISCARD TEMP"),
                Runs("SELECT id FROM part"),
            ],
        ),
        (
            "a tree that PostgreSQL breaks",
            &[Stays("unreadable_tree", "SELECT 1 AS \"((((((((((((((((((((((((((((((((((((((((((((((((((\"")],
        ),
        (
            "texts that are not read",
            &[
                Stays("string_escape", "SELECT E'\\x61' || id FROM bystander"),
                Stays("string_continuation", "SELECT 'a'\n'b' || id FROM bystander"),
                Stays("unicode_string", "SELECT U&'\\0061' || id FROM bystander"),
                Stays("national_string", "SELECT N'a' = 'a', id FROM bystander"),
                Stays("number_syntax", "SELECT 0x1F FROM bystander"),
                Leaves("SELECT 'a' || id FROM bystander"),
            ],
        ),
    ],
};

#[test]
fn what_cannot_be_followed() {
    WHAT_CANNOT_BE_FOLLOWED.holds();
}
