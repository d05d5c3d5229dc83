//! First committer wins, as stories: two transactions at two nodes, of which one must not commit, or both may.

use super::{is_conflict, with_each_capture};

const TABLES: &str = "\
    CREATE EXTENSION btree_gist; \
    CREATE TABLE account (id int PRIMARY KEY, v int, email text UNIQUE); \
    CREATE TABLE parent (id int PRIMARY KEY, note text); \
    CREATE TABLE child (id int PRIMARY KEY, parent_id bigint REFERENCES parent); \
    CREATE TABLE booking (id int PRIMARY KEY, room int, during int4range, EXCLUDE USING gist (room WITH =, during WITH &&)); \
    CREATE TABLE keyless (a int, b int); \
    CREATE TABLE lower_name (id int PRIMARY KEY, name text); \
    CREATE UNIQUE INDEX ON lower_name (lower(name)); \
    CREATE TYPE colour AS ENUM ('red', 'green'); \
    CREATE TABLE coloured (c colour PRIMARY KEY, v int); \
    INSERT INTO account SELECT n, 0, NULL FROM generate_series(1, 20) n; \
    INSERT INTO parent SELECT n, '' FROM generate_series(1, 20) n; \
    INSERT INTO keyless VALUES (1, 1), (2, 2); \
    INSERT INTO coloured VALUES ('red', 0)";

/// Name, what the one does, what the other does, whether they conflict.
const STORIES: &[(&str, &str, &str, bool)] = &[
    ("one row", "UPDATE account SET v = 1 WHERE id = 1", "UPDATE account SET v = 2 WHERE id = 1", true),
    ("two rows", "UPDATE account SET v = 1 WHERE id = 2", "UPDATE account SET v = 2 WHERE id = 3", false),
    ("one new key", "INSERT INTO account VALUES (100, 1)", "INSERT INTO account VALUES (100, 2)", true),
    (
        "one value of a unique key",
        "INSERT INTO account VALUES (101, 1, 'ann@x')",
        "INSERT INTO account VALUES (102, 1, 'ann@x')",
        true,
    ),
    (
        "two nulls of a unique key",
        "INSERT INTO account VALUES (103, 1)",
        "INSERT INTO account VALUES (104, 1)",
        false,
    ),
    (
        "a value that is freed and taken",
        "DELETE FROM account WHERE id = 5",
        "UPDATE account SET v = 9 WHERE id = 5",
        true,
    ),
    (
        "one value of an expression",
        "INSERT INTO lower_name VALUES (1, 'Ann')",
        "INSERT INTO lower_name VALUES (2, 'aNN')",
        true,
    ),
    (
        "a child of a deleted parent",
        "DELETE FROM parent WHERE id = 1",
        "INSERT INTO child VALUES (1, 1)",
        true,
    ),
    (
        "a deleted parent of a child",
        "INSERT INTO child VALUES (2, 2)",
        "DELETE FROM parent WHERE id = 2",
        true,
    ),
    (
        "a child of a parent with another key",
        "UPDATE parent SET id = 300 WHERE id = 3",
        "INSERT INTO child VALUES (3, 3)",
        true,
    ),
    (
        "two children of one parent",
        "INSERT INTO child VALUES (4, 4)",
        "INSERT INTO child VALUES (5, 4)",
        false,
    ),
    (
        "a child and its parent's note",
        "UPDATE parent SET note = 'x' WHERE id = 6",
        "INSERT INTO child VALUES (6, 6)",
        false,
    ),
    (
        "an exclusion",
        "INSERT INTO booking VALUES (1, 1, '[1,5)')",
        "INSERT INTO booking VALUES (2, 1, '[3,7)')",
        true,
    ),
    (
        "a table without a key",
        "UPDATE keyless SET b = 5 WHERE a = 1",
        "UPDATE keyless SET b = 6 WHERE a = 2",
        true,
    ),
    (
        "new rows of a table without a key",
        "INSERT INTO keyless VALUES (8, 8)",
        "INSERT INTO keyless VALUES (9, 9)",
        false,
    ),
    (
        "a new and a changed row without a key",
        "INSERT INTO keyless VALUES (8, 9)",
        "DELETE FROM keyless WHERE a = 2",
        true,
    ),
    (
        "a row of an enum",
        "UPDATE coloured SET v = 1 WHERE c = 'red'",
        "UPDATE coloured SET v = 2 WHERE c = 'red'",
        true,
    ),
    (
        "rows that are locked",
        "UPDATE account SET v = 7 WHERE id = 7",
        "SELECT v FROM account WHERE id = 7 FOR UPDATE; INSERT INTO parent VALUES (400, '')",
        true,
    ),
    (
        "a table that is locked",
        "UPDATE account SET v = 8 WHERE id = 8",
        "LOCK TABLE account IN EXCLUSIVE MODE; INSERT INTO parent VALUES (401, '')",
        true,
    ),
    ("a table that is emptied", "INSERT INTO keyless VALUES (7, 7)", "TRUNCATE keyless", true),
];

#[test]
fn first_committer_wins_in_each_story() {
    with_each_capture(|peers| {
        let [mut one, mut other] = peers.clients();
        for sql in TABLES.split(';') {
            one.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
        }
        for (name, first, second, conflicts) in STORIES {
            peers.equal("SELECT count(*) FROM account");
            one.rows(&format!("BEGIN; {first}")).unwrap_or_else(|trouble| panic!("{name}: {trouble:?}"));
            other.rows("BEGIN").unwrap();
            for sql in second.split("; ") {
                other.rows(sql).unwrap_or_else(|trouble| panic!("{name}: {trouble:?}"));
            }
            one.rows("COMMIT").unwrap_or_else(|trouble| panic!("{name}: {trouble:?}"));
            let ended = other.rows("COMMIT");
            assert_eq!(is_conflict(&ended), *conflicts, "{name}: {ended:?}");
            assert_eq!(ended.is_err(), *conflicts, "{name}: {ended:?}");
        }
        for table in ["account", "parent", "child", "booking", "keyless", "lower_name", "coloured"] {
            peers.equal(&format!("SELECT t::text FROM {table} t ORDER BY 1"));
        }
    });
}

/// A transaction that holds what a record needs hears of it before it commits, and its locks are gone.
#[test]
fn open_transaction_gives_way_to_a_certified_record() {
    with_each_capture(|peers| {
        let [mut one, mut other] = peers.clients();
        one.rows("CREATE TABLE t (id int PRIMARY KEY, v int)").unwrap();
        one.rows("INSERT INTO t VALUES (1, 0)").unwrap();
        peers.equal("SELECT * FROM t");
        other.rows("BEGIN; UPDATE t SET v = 2 WHERE id = 1").unwrap();
        one.rows("UPDATE t SET v = 1 WHERE id = 1").unwrap();
        assert_eq!(peers.equal("SELECT v FROM t"), "[[Some(\"1\")]]");
        assert!(is_conflict(&other.rows("SELECT 1")), "the session hears of it once");
        assert_eq!(other.rows("SELECT 1").expect_err("failed").sqlstate.as_deref(), Some("25P02"));
        other.rows("ROLLBACK").unwrap();
        assert_eq!(other.number("SELECT v FROM t").unwrap(), 1);
        other.rows("BEGIN; UPDATE t SET v = 2 WHERE id = 1; ").unwrap();
        one.rows("UPDATE t SET v = 3 WHERE id = 1").unwrap();
        peers.equal("SELECT v FROM t");
        assert!(is_conflict(&other.rows("COMMIT")), "a COMMIT that does not commit says so");
        assert_eq!(other.number("SELECT v FROM t").unwrap(), 3, "no transaction is open any more");
    });
}

/// A statement outside of a transaction is run again inside Consort; counters lose nothing.
#[test]
fn autocommit_conflicts_are_repeated_inside() {
    with_each_capture(|peers| {
        let mut client = peers.client();
        client.rows("CREATE TABLE counter (id int PRIMARY KEY, n int)").unwrap();
        client.rows("INSERT INTO counter VALUES (1, 0)").unwrap();
        client
            .rows("CREATE FUNCTION up() RETURNS int LANGUAGE sql AS 'UPDATE counter SET n = n + 1 WHERE id = 1 RETURNING n'")
            .unwrap();
        peers.equal("SELECT * FROM counter");
        let url = peers.url();
        let threads: Vec<_> = (0..3)
            .map(|at| {
                let url = url.clone();
                std::thread::spawn(move || {
                    let mut client = crate::load::Client::connect(&url).expect("a client");
                    let mut done = 0;
                    for _ in 0..15 {
                        let sql =
                            if at == 0 { "SELECT up()" } else { "UPDATE counter SET n = n + 1 WHERE id = 1" };
                        match client.rows(sql) {
                            Ok(_) => done += 1,
                            failed => assert!(is_conflict(&failed), "{failed:?}"),
                        }
                    }
                    done
                })
            })
            .collect();
        let done: i64 = threads.into_iter().map(|thread| thread.join().expect("a client")).sum();
        assert!(done > 30, "most are repeated with success: {done}");
        assert_eq!(peers.equal("SELECT n FROM counter"), format!("[[Some(\"{done}\")]]"));
    });
}
