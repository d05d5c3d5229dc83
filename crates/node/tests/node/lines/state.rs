//! The state of the session, its settings and its isolation decide too.

use super::Step::{As, Leaves, Other, Runs, Stays};
use super::{Line, Shared};

const READ: &str = "SELECT name FROM items WHERE id = 1";
/// A statement that takes long enough to be offloaded from a block.
const LONG: &str = "SELECT count(*) FROM items a, items b, items c, items d, items e WHERE a.id + b.id + c.id + d.id + e.id < 0";

const ISOLATION_AND_THE_STATE_OF_THE_SESSION: Line = Line {
    objects: &[
        "CREATE ROLE cautious LOGIN",
        "GRANT SELECT ON items TO cautious",
        "ALTER ROLE cautious SET default_transaction_isolation = 'repeatable read'",
        "CREATE TABLE accounts (id int PRIMARY KEY, amount int)",
        "INSERT INTO accounts VALUES (1, 0), (2, 0)",
    ],
    // A connection of Consort's own listens for pooled sessions.
    shared: &[("a session that listens", Shared::Anywhere)],
    scenarios: &[
        (
            "declared",
            &[
                Leaves(READ),
                Runs("BEGIN ISOLATION LEVEL REPEATABLE READ"),
                Stays("isolation", LONG),
                Other("UPDATE items SET name = name || '!' WHERE id = 3"),
                Stays("isolation", "SELECT name FROM items WHERE id = 3"),
                Runs("COMMIT"),
                Runs("BEGIN"),
                Runs("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
                Stays("isolation", LONG),
                Runs("COMMIT"),
                Leaves(READ),
            ],
        ),
        (
            "by default",
            &[
                Runs("SET default_transaction_isolation = serializable"),
                Stays("isolation", READ),
                Runs("RESET default_transaction_isolation"),
                Leaves(READ),
                Runs("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
                Stays("isolation", READ),
            ],
        ),
        ("by the role's default", &[As("cautious"), Stays("isolation", READ)]),
        (
            "a SERIALIZABLE reader is seen by writers",
            &[
                Runs("BEGIN ISOLATION LEVEL SERIALIZABLE"),
                Runs("SELECT sum(amount) FROM accounts"),
                Other("BEGIN ISOLATION LEVEL SERIALIZABLE"),
                Other("SELECT sum(amount) FROM accounts"),
                Other("UPDATE accounts SET amount = -11 WHERE id = 1"),
                Other("COMMIT"),
                Runs("UPDATE accounts SET amount = 20 WHERE id = 2"),
                Runs("COMMIT"),
            ],
        ),
        (
            "a failed block",
            &[
                Leaves(READ),
                Runs("BEGIN"),
                Runs("SELECT 1 / (count(now()) - 1)"),
                Stays("block_failed", READ),
                Runs("ROLLBACK"),
                Leaves(READ),
            ],
        ),
        (
            "what the block has written",
            &[
                Leaves(READ),
                Runs("BEGIN"),
                Runs("UPDATE items SET name = 'own' WHERE id = 1"),
                Stays("own_writes", LONG),
                Runs(READ),
                Runs("ROLLBACK"),
            ],
        ),
        (
            "a block with DDL",
            &[
                Leaves(READ),
                Runs("BEGIN"),
                Runs("CREATE TABLE made (id int)"),
                Stays("block_has_ddl", LONG),
                Runs("ROLLBACK"),
            ],
        ),
        (
            "a limit for idle blocks",
            &[
                Leaves(READ),
                Runs("SET idle_in_transaction_session_timeout = '1h'"),
                Runs("BEGIN"),
                Stays("idle_in_transaction_limit", LONG),
                Runs("COMMIT"),
            ],
        ),
        (
            "SET LOCAL",
            &[
                Leaves(READ),
                Runs("BEGIN"),
                Runs("SET LOCAL search_path = nowhere"),
                Runs(READ),
                Runs("ROLLBACK"),
                Runs("BEGIN"),
                Runs("SET LOCAL work_mem = '1MB'"),
                Stays("block_set_local", LONG),
                Runs("COMMIT"),
                Leaves(READ),
            ],
        ),
        (
            "a session that listens",
            &[Runs("LISTEN a"), Stays("session_listens", READ), Runs("UNLISTEN a"), Leaves(READ)],
        ),
    ],
};

#[test]
fn isolation_and_the_state_of_the_session() {
    ISOLATION_AND_THE_STATE_OF_THE_SESSION.holds();
}

/// Each is followed, and goes with the statement.
const SETTINGS: Line = Line {
    objects: &[
        "CREATE SCHEMA other",
        "CREATE TABLE other.items AS SELECT id, 'other ' || name AS name FROM items",
    ],
    shared: &[],
    scenarios: &[
        ("search_path", &[Leaves(READ), Runs("SET search_path = other"), Leaves(READ)]),
        (
            "TimeZone",
            &[Runs("SET timezone = 'Asia/Tokyo'"), Leaves("SELECT to_timestamp(id)::text FROM bystander")],
        ),
        (
            "DateStyle",
            &[
                Runs("SET datestyle = 'German'"),
                Leaves("SELECT (timestamp '2024-02-03' + id * interval '1 day')::text FROM bystander"),
            ],
        ),
        (
            "IntervalStyle",
            &[
                Runs("SET intervalstyle = 'iso_8601'"),
                Leaves("SELECT id * interval '1 day 2 hours' FROM bystander"),
            ],
        ),
        (
            "extra_float_digits",
            &[Runs("SET extra_float_digits = -5"), Leaves("SELECT id / 3::float8 FROM bystander")],
        ),
        (
            "bytea_output",
            &[Runs("SET bytea_output = 'escape'"), Leaves("SELECT set_byte('abc', 0, id) FROM bystander")],
        ),
        (
            "client_encoding",
            &[Runs("SET client_encoding = 'LATIN1'"), Leaves("SELECT chr(227 + id) FROM bystander")],
        ),
        (
            "xmlbinary",
            &[
                Runs("SET xmlbinary = 'hex'"),
                Leaves("SELECT xmlelement(name a, set_byte('abc', 0, id)) FROM bystander"),
            ],
        ),
        (
            "xmloption",
            &[
                Runs("SET xmloption = document"),
                Runs("SELECT repeat('a', id)::xml FROM bystander"),
                Leaves(READ),
                Runs("SELECT repeat('a', id)::xml FROM bystander"),
                Leaves(READ),
                Runs("SELECT repeat('a', id)::xml FROM bystander"),
            ],
        ),
        (
            "array_nulls",
            &[
                Runs("SET array_nulls = off"),
                Leaves(
                    "SELECT '{NULL}'::text[]::text = '{NULL}', ('{NULL}'::text[])[id] IS NULL FROM bystander",
                ),
            ],
        ),
        (
            "transform_null_equals",
            &[
                Runs("SET transform_null_equals = on"),
                Leaves("SELECT count(*) FROM bystander WHERE id = NULL OR (NULLIF(id, 1)) = NULL"),
            ],
        ),
        (
            "standard_conforming_strings",
            &[
                Runs("SET standard_conforming_strings = off"),
                Stays("warns", "SELECT length('a\\b') + id FROM bystander"),
            ],
        ),
        (
            "default_text_search_config",
            &[
                Runs("SET default_text_search_config = 'pg_catalog.english'"),
                Leaves("SELECT to_tsvector(repeat('houses', id)) FROM bystander"),
                Runs("SET default_text_search_config = 'pg_catalog.simple'"),
                Leaves("SELECT to_tsvector(repeat('houses', id)) FROM bystander"),
            ],
        ),
        (
            "what the server alone knows",
            &[
                Runs("SET TIME ZONE INTERVAL '3' HOUR"),
                Leaves("SELECT to_timestamp(id)::text FROM bystander"),
            ],
        ),
    ],
};

#[test]
fn settings() {
    SETTINGS.holds();
}

macro_rules! long_path {
    ($($number:literal)*) => {
        concat!("SET search_path = public", $(", a_schema_of_a_name_as_long_as_names_may_be_number_", $number),*)
    };
}

/// More bytes than are kept of one setting.
const LONG_PATH: &str = long_path!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34
    35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50);

/// Pinned sessions: state that Consort knows, and state that exists in one backend only.
const WHAT_KEEPS_A_SESSION: Line = Line {
    objects: &[],
    shared: &[],
    scenarios: &[
        (
            "a library",
            &[Leaves(READ), Stays("load", "LOAD 'plpgsql'"), Stays("session_loaded_library", READ)],
        ),
        (
            "a limit for idle sessions",
            &[
                Leaves(READ),
                // The length of that time is unknown before the server is asked.
                Runs("SET idle_session_timeout = '0.5h'"),
                Stays("idle_session_limit", READ),
                Runs("RESET idle_session_timeout"),
                Leaves(READ),
            ],
        ),
        (
            "the role of a replica",
            &[
                Leaves(READ),
                Runs("SET session_replication_role = replica"),
                Stays("session_replication_role", READ),
                Runs("RESET session_replication_role"),
                Leaves(READ),
            ],
        ),
        (
            "an end with the first error",
            &[
                Leaves(READ),
                Runs("SET exit_on_error = on"),
                Stays("exit_on_error", READ),
                Runs("RESET exit_on_error"),
                Leaves(READ),
            ],
        ),
        (
            "kinds of relations that it may not read",
            &[
                Leaves(READ),
                Runs("SET restrict_nonsystem_relation_kind = 'view'"),
                Stays("restrict_nonsystem_relation_kind", READ),
                Runs("RESET restrict_nonsystem_relation_kind"),
                Leaves(READ),
            ],
        ),
        (
            "more settings than are followed",
            &[Leaves(READ), Runs(LONG_PATH), Stays("too_many_settings", READ)],
        ),
        (
            "a block whose beginning was not understood",
            &[
                Leaves(READ),
                Runs("SET standard_conforming_strings = off"),
                Runs("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 'a\\\\b'"),
                Stays("block_unknown", READ),
                Runs("COMMIT"),
            ],
        ),
    ],
};

#[test]
fn what_keeps_a_session() {
    WHAT_KEEPS_A_SESSION.holds();
}

/// Nothing says so where it runs.
const SETTINGS_THAT_CODE_CHANGES: Line = Line {
    objects: &[
        "CREATE SCHEMA elsewhere",
        "CREATE TABLE elsewhere.items AS SELECT id, 'elsewhere ' || name AS name FROM items",
        "CREATE FUNCTION moves() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM set_config(''search_path'', ''elsewhere, public'', false); RETURN NULL; END'",
        "CREATE TABLE moving (id int)",
        "CREATE TRIGGER moves AFTER INSERT ON moving FOR EACH STATEMENT EXECUTE FUNCTION moves()",
        "CREATE ROLE dora LOGIN",
        "CREATE TABLE secret (id int PRIMARY KEY, owner text)",
        "INSERT INTO secret VALUES (1, 'dora'), (2, 'nobody')",
        "ALTER TABLE secret ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON secret USING (owner = current_user)",
        "GRANT SELECT ON secret TO dora",
    ],
    shared: &[],
    scenarios: &[
        (
            "by a function",
            &[
                Leaves(READ),
                Stays("session", "SELECT set_config('search_path', 'elsewhere, public', false)"),
                Leaves(READ),
            ],
        ),
        (
            "by text that is run",
            &[
                Leaves(READ),
                Stays(
                    "runs_text",
                    "SELECT query_to_xml('SELECT set_config(''search_path'', ''elsewhere, public'', false)', true, true, '')",
                ),
                Leaves(READ),
            ],
        ),
        ("by a trigger", &[Leaves(READ), Stays("writes", "INSERT INTO moving VALUES (1)"), Leaves(READ)]),
        (
            "the form of values",
            &[
                Runs("SELECT set_config('bytea_output', 'escape', false)"),
                Leaves("SELECT set_byte('abc', 0, id) FROM bystander"),
                Runs("SELECT set_config('extra_float_digits', '-5', false)"),
                Leaves("SELECT id / 3::float8 FROM bystander"),
                Runs("SELECT set_config('intervalstyle', 'iso_8601', false)"),
                Leaves("SELECT id * interval '1 day 2 hours' FROM bystander"),
                Runs("SELECT set_config('datestyle', 'German', false)"),
                Leaves("SELECT (timestamp '2024-02-03' + id * interval '1 day')::text FROM bystander"),
                Runs("SELECT set_config('timezone', 'Asia/Tokyo', false)"),
                Leaves("SELECT to_timestamp(id)::text FROM bystander"),
                Runs("SELECT set_config('xmlbinary', 'hex', false)"),
                Leaves("SELECT xmlelement(name a, set_byte('abc', 0, id)) FROM bystander"),
                Runs("SELECT set_config('default_text_search_config', 'pg_catalog.english', false)"),
                Leaves("SELECT to_tsvector(repeat('houses', id)) FROM bystander"),
            ],
        ),
        (
            "what a text means",
            &[
                Leaves("SELECT timestamptz '2024-01-01 10:00 EST' + id * interval '1 day' FROM bystander"),
                Runs("SELECT set_config('timezone_abbreviations', 'Australia', false)"),
                Leaves("SELECT timestamptz '2024-01-01 10:00 EST' + id * interval '1 day' FROM bystander"),
                Leaves("SELECT E'a\\'b' || id FROM bystander"),
                Runs("SELECT set_config('backslash_quote', 'off', false)"),
                Runs("SELECT E'a\\'b' || id FROM bystander"),
                Leaves("SELECT id FROM bystander"),
                Runs("SELECT E'a\\'b' || id FROM bystander"),
            ],
        ),
        (
            "who reads",
            &[
                Leaves("SELECT id FROM secret"),
                Runs("SELECT set_config('role', 'dora', false)"),
                Leaves("SELECT id FROM secret"),
                Runs("RESET ROLE"),
                Leaves("SELECT id FROM secret"),
                Runs("SET SESSION AUTHORIZATION dora"),
                Leaves("SELECT id FROM secret"),
                Runs("RESET SESSION AUTHORIZATION"),
                Leaves("SELECT id FROM secret"),
            ],
        ),
    ],
};

#[test]
fn settings_that_code_changes() {
    SETTINGS_THAT_CODE_CHANGES.holds();
}
