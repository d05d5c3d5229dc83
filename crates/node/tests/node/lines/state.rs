//! The state of the session, its settings and its isolation decide too.

use super::Step::{As, Leaves, Other, Runs, Stays};
use super::{Line, Shared};

const READ: &str = "SELECT name FROM items WHERE id = 1";
/// It takes long enough to leave a block.
const LONG: &str = "SELECT count(*) FROM items a, items b, items c, items d, items e WHERE a.id + b.id + c.id + d.id + e.id < 0";

const ISOLATION_AND_THE_STATE_OF_THE_SESSION: Line = Line {
    objects: &[
        "CREATE ROLE cautious LOGIN",
        "GRANT SELECT ON items TO cautious",
        "ALTER ROLE cautious SET default_transaction_isolation = 'repeatable read'",
        "CREATE TABLE accounts (id int PRIMARY KEY, amount int)",
        "INSERT INTO accounts VALUES (1, 0), (2, 0)",
    ],
    // A connection of Consort's own hears for those who share theirs.
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
                Runs("SELECT 1 / 0"),
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
