//! Roles that mean harm: what they leave in a session or in a table serves them neither there nor at other nodes.

use super::{Peers, in_memory, with_each_capture};
use crate::fixture::psql;
use crate::load::Client;

/// A role that owns a schema of its own, and its session.
fn mallory(peers: &Peers) -> Client {
    let mut owner = peers.client();
    for sql in ["CREATE ROLE mallory LOGIN", "CREATE SCHEMA own AUTHORIZATION mallory"] {
        owner.rows(sql).expect(sql);
    }
    peers.equal("SELECT count(*) FROM pg_namespace WHERE nspname = 'own'");
    Client::connect(&peers.serving.url("mallory", "postgres")).expect("a log-in")
}

/// Statements with which a session replaces what Consort has prepared in it.
const REPLACES: &[&str] = &[
    "PREPARE consort(text) AS SELECT NULL::text",
    "DO $$ DECLARE n text; BEGIN
       FOR n IN SELECT name FROM pg_prepared_statements WHERE name ~ 'notes|capture' LOOP
         EXECUTE format('DEALLOCATE %I', n);
         EXECUTE format('PREPARE %I(text) AS SELECT NULL::text', n);
       END LOOP;
       FOR n IN SELECT name FROM pg_prepared_statements WHERE name ~ 'version' LOOP
         EXECUTE format('DEALLOCATE %I', n);
         EXECUTE format('PREPARE %I(text, text) AS INSERT INTO own.heard VALUES ($1)', n);
       END LOOP;
     END $$",
];

/// A session whose prepared statements have the names of Consort's commits as every other one.
#[test]
fn replaced_prepared_statements_serve_no_commit() {
    let peers = Peers::start(in_memory());
    let mut mallory = mallory(&peers);
    for sql in ["CREATE TABLE own.t (id int PRIMARY KEY)", "CREATE TABLE own.heard (said text)"] {
        mallory.rows(sql).expect(sql);
    }
    for sql in REPLACES {
        mallory.rows(sql).expect(sql);
    }
    mallory.rows("INSERT INTO own.t VALUES (1)").expect("a row");
    for sql in ["BEGIN", "INSERT INTO own.t VALUES (2)", "COMMIT", "DEALLOCATE ALL"] {
        mallory.rows(sql).expect(sql);
    }
    for sql in ["BEGIN", "INSERT INTO own.t VALUES (3)", "SET CONSTRAINTS ALL IMMEDIATE"] {
        mallory.rows(sql).expect(sql);
    }
    mallory.rows("EXECUTE consort").expect_err("there is no such statement");
    mallory.rows("ROLLBACK").expect("the end");
    let rows = "SELECT (SELECT count(*) FROM own.t), (SELECT count(*) FROM own.heard)";
    assert_eq!(peers.equal(rows), "[[Some(\"2\"), Some(\"0\")]]");
}

/// The text of each answer's log lines is for the log: plans there show the parameters of Consort's own commands.
#[test]
fn plans_of_own_commands_reach_no_client() {
    with_each_capture(|peers| {
        let url = peers.url();
        psql(&url, "CREATE TABLE t (id int PRIMARY KEY)").worked();
        let text = "SET debug_print_plan = on; SET client_min_messages = log; BEGIN; INSERT INTO t VALUES (1); COMMIT";
        let said = psql(&url, text).err;
        assert!(said.contains("PLANNEDSTMT"), "the client's own plans");
        assert!(!said.contains("aliasname secret"), "a plan of Consort's own");
    });
}

/// A session that has had its constraints checked commits through Consort all the same, and what the COMMIT itself still
/// writes is on no node or on all.
#[test]
fn early_check_of_constraints_permits_no_commit() {
    with_each_capture(|peers| {
        let mut mallory = mallory(peers);
        for sql in [
            "CREATE TABLE own.t (id int PRIMARY KEY)",
            "CREATE TABLE own.token (name text, value text)",
            "CREATE FUNCTION own.steals() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
               PERFORM set_config('own.token', current_setting('consort.certifies', true), false); RETURN NULL; END $$",
            "CREATE FUNCTION own.late() RETURNS int LANGUAGE plpgsql AS $$ BEGIN \
               PERFORM set_config('consort.certifies', current_setting('own.token', true), true); \
               INSERT INTO own.t VALUES (99); RETURN 1; END $$",
            "CREATE CONSTRAINT TRIGGER steals AFTER INSERT ON own.t DEFERRABLE INITIALLY DEFERRED \
               FOR EACH ROW EXECUTE FUNCTION own.steals()",
        ] {
            mallory.rows(sql).expect(sql);
        }
        for check in ["SET CONSTRAINTS ALL IMMEDIATE", "SELECT 1"] {
            let id = if check == "SELECT 1" { 1 } else { 2 };
            for sql in [
                "BEGIN",
                &format!("INSERT INTO own.t VALUES ({id})"),
                check,
                "DECLARE c CURSOR WITH HOLD FOR SELECT own.late()",
            ] {
                mallory.rows(sql).expect(sql);
            }
            let _ = mallory.rows("COMMIT");
            peers.equal("SELECT string_agg(id::text, ' ' ORDER BY id) FROM own.t");
        }
    });
}

/// Functions that try whatever leads to the rights of an applier, and say as whom they run.
const CODE: &[&str] = &[
    "CREATE SEQUENCE own.as_owner",
    "CREATE SEQUENCE own.as_other",
    "CREATE FUNCTION own.attempts() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
       PERFORM CASE current_user WHEN 'mallory' THEN nextval('own.as_owner') ELSE nextval('own.as_other') END; \
       BEGIN PERFORM set_config('role', 'none', true); EXCEPTION WHEN OTHERS THEN NULL; END; \
       BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END; \
       RETURN true; END $$",
    "CREATE FUNCTION own.rises(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
       PERFORM own.attempts(); \
       IF current_setting('session_replication_role') = 'replica' THEN \
         PERFORM set_config('search_path', 'own, pg_catalog', false); \
         BEGIN EXECUTE 'RESET session_replication_role'; EXCEPTION WHEN OTHERS THEN NULL; END; \
         BEGIN EXECUTE 'DECLARE late CURSOR WITH HOLD FOR SELECT own.attempts()'; EXCEPTION WHEN OTHERS THEN NULL; END; \
         BEGIN EXECUTE 'CREATE TABLE own.hidden ()'; EXCEPTION WHEN OTHERS THEN NULL; END; \
         BEGIN IF current_query() ~ 'direct' THEN PERFORM nextval('own.as_other'); END IF; END; \
       END IF; RETURN true; END $$",
    "CREATE FUNCTION own.plain(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM own.rises($1); RETURN $1; END'",
    "CREATE FUNCTION own.equals(int, int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM own.attempts(); RETURN int4eq($1, $2); END'",
    "CREATE OPERATOR own.= (LEFTARG = int, RIGHTARG = int, FUNCTION = own.equals)",
    "CREATE DOMAIN own.d AS int CHECK (own.rises(VALUE))",
    "CREATE TYPE own.c AS (d own.d)",
    "CREATE TYPE own.e AS ENUM ('1', '2', '3')",
    "CREATE FUNCTION own.text_of(own.e) RETURNS text LANGUAGE plpgsql AS 'BEGIN PERFORM own.rises(1); RETURN enum_out($1); END'",
    "CREATE CAST (own.e AS text) WITH FUNCTION own.text_of(own.e)",
    "CREATE FUNCTION own.fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM own.rises(1); RETURN NULL; END'",
];

/// Tables whose rows call such functions: each has a column `v` that takes 1, 2 and 3.
const CODED: &[&[&str]] = &[
    &["CREATE TABLE own.t (id int PRIMARY KEY, v int, CHECK (own.rises(v)))"],
    &["CREATE TABLE own.t (id int PRIMARY KEY, v int, \
         CHECK (query_to_xml('SELECT own.rises(1)', true, true, '') IS NOT NULL))"],
    &["CREATE TABLE own.t (id int PRIMARY KEY, v own.d)"],
    &["CREATE TABLE own.t (v own.d PRIMARY KEY, id int)"],
    &["CREATE TABLE own.t (id int, v own.d)"],
    &["CREATE TABLE own.t (id int PRIMARY KEY, v own.c)"],
    &["CREATE TABLE own.t (v own.c PRIMARY KEY, id int)"],
    &["CREATE TABLE own.t (id int PRIMARY KEY, v own.d[])"],
    &["CREATE TABLE own.t (id int, v own.e)"],
    &["CREATE TABLE own.t (v own.e PRIMARY KEY, id int)"],
    &["CREATE TABLE own.t (id int PRIMARY KEY, v int)", "CREATE UNIQUE INDEX ON own.t (own.plain(v))"],
    &[
        "CREATE TABLE own.t (id int PRIMARY KEY, v int)",
        "CREATE UNIQUE INDEX ON own.t (v) WHERE own.plain(v) > 0",
    ],
    &["CREATE TABLE own.t (id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (own.plain(v)) STORED)"],
    &[
        "CREATE TABLE own.t (id int PRIMARY KEY, v int)",
        "CREATE TRIGGER f AFTER INSERT OR UPDATE OR DELETE ON own.t EXECUTE FUNCTION own.fires()",
        "ALTER TABLE own.t ENABLE ALWAYS TRIGGER f",
    ],
    &[
        "CREATE TABLE own.t (id int PRIMARY KEY, v int)",
        "CREATE RULE f AS ON UPDATE TO own.t DO ALSO SELECT own.rises(1)",
        "ALTER TABLE own.t ENABLE REPLICA RULE f",
    ],
    &[
        "CREATE TABLE own.t (id int, v int) PARTITION BY RANGE (own.plain(v))",
        "CREATE TABLE own.t1 PARTITION OF own.t FOR VALUES FROM (0) TO (9)",
    ],
    &[
        "CREATE TABLE own.t (id int PRIMARY KEY)",
        "CREATE TABLE own.parent (v own.d PRIMARY KEY)",
        "INSERT INTO own.parent VALUES (1), (2), (3)",
        "ALTER TABLE own.t ADD COLUMN v int REFERENCES own.parent",
    ],
];

/// Statements with such a table. The row of `own.direct` follows in the same transaction.
const CHANGES: &[&str] = &[
    "INSERT INTO own.t (id, v) VALUES (1, %1)",
    "BEGIN",
    "UPDATE own.t SET v = %2 WHERE id = 1",
    "UPDATE own.direct SET v = v + 1 WHERE id = 1",
    "COMMIT",
    "BEGIN",
    "UPDATE own.t SET v = %1 WHERE id = 1",
    "UPDATE own.t SET v = %3 WHERE id = 1",
    "COMMIT",
    "BEGIN",
    "INSERT INTO own.t (id, v) VALUES (2, %2)",
    "DELETE FROM own.t WHERE id = 1",
    "COMMIT",
    "TRUNCATE own.t",
    "INSERT INTO own.t (id, v) VALUES (1, %1)",
    "UPDATE own.direct SET v = v + 1 WHERE id = 1",
];

/// Code that rows of a table call runs as the table's owner, also at the nodes that apply them.
#[test]
fn code_of_a_table_runs_as_its_owner_everywhere() {
    with_each_capture(|peers| {
        let mut mallory = mallory(peers);
        for sql in CODE {
            mallory.rows(sql).expect(sql);
        }
        mallory.rows("CREATE TABLE own.direct (id int PRIMARY KEY, v int)").expect("a table");
        mallory.rows("INSERT INTO own.direct VALUES (1, 0)").expect("a row");
        for table in CODED {
            for sql in *table {
                mallory.rows(sql).expect(sql);
            }
            for change in CHANGES {
                let value = |n: u8| match table[0] {
                    ddl if ddl.contains("own.c") => format!("ROW({n})::own.c"),
                    ddl if ddl.contains("own.d[]") => format!("ARRAY[{n}]"),
                    ddl if ddl.contains("own.e") => format!("'{n}'"),
                    _ => n.to_string(),
                };
                let sql =
                    (1..=3).fold((*change).to_owned(), |sql, n| sql.replace(&format!("%{n}"), &value(n)));
                mallory.rows(&sql).unwrap_or_else(|trouble| panic!("{table:?}: {sql}: {}", trouble.text));
            }
            let roles = "SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'), \
                (SELECT count(*) FROM pg_class WHERE relname = 'hidden'), (SELECT is_called FROM own.as_other), \
                (SELECT is_called FROM own.as_owner), (SELECT count(*) FROM own.t)";
            let expected = "[[Some(\"f\"), Some(\"0\"), Some(\"f\"), Some(\"t\"), Some(\"1\")]]";
            assert_eq!(peers.equal(&format!("{roles} /* {table:?} */")), expected, "{table:?}");
            mallory.rows("DROP TABLE IF EXISTS own.t, own.parent").expect("a command");
        }
        // No role owns what the appliers have made.
        let mut owner = peers.client();
        for sql in ["DROP SCHEMA own CASCADE", "DROP ROLE mallory"] {
            owner.rows(sql).expect(sql);
        }
        assert_eq!(peers.equal("SELECT count(*) FROM pg_roles WHERE rolname = 'mallory'"), "[[Some(\"0\")]]");
    });
}

/// Tables that appliers could not change as their owners are refused.
#[test]
fn tables_that_owners_cannot_change_are_refused() {
    let peers = Peers::start(in_memory());
    let mut mallory = mallory(&peers);
    for sql in [
        "CREATE FUNCTION own.is_fine(int) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE TABLE own.t (id int PRIMARY KEY, CHECK (own.is_fine(id)))",
        "CREATE TABLE own.plain (id int PRIMARY KEY, CHECK (id > 0))",
        "CREATE FUNCTION own.fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON own.plain DEFERRABLE FOR EACH ROW EXECUTE FUNCTION own.fires()",
        "ALTER TABLE own.t ENABLE ROW LEVEL SECURITY",
        "REVOKE INSERT ON own.plain FROM mallory",
        "ALTER TABLE own.plain FORCE ROW LEVEL SECURITY",
    ] {
        mallory.rows(sql).expect(sql);
    }
    for sql in [
        "ALTER TABLE own.t FORCE ROW LEVEL SECURITY",
        "REVOKE DELETE ON own.t FROM mallory",
        "REVOKE USAGE ON SCHEMA own FROM mallory",
        "ALTER TABLE own.plain ADD CHECK (own.is_fine(id))",
        "ALTER TABLE own.plain ENABLE ALWAYS TRIGGER late",
        "ALTER TABLE own.plain ENABLE REPLICA TRIGGER late",
    ] {
        let trouble = mallory.rows(sql).expect_err(sql);
        assert_eq!(trouble.sqlstate.as_deref(), Some("0A000"), "{sql}: {}", trouble.text);
    }
    mallory.rows("INSERT INTO own.t VALUES (1)").expect("a row");
    assert_eq!(peers.equal("SELECT count(*) FROM own.t"), "[[Some(\"1\")]]");
}
