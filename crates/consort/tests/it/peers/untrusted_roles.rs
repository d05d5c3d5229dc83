//! Roles that mean harm: what they leave in a session or in a table serves them neither there nor at other nodes.

use super::{Peers, in_memory};
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
    let peers = Peers::start(in_memory());
    let url = peers.url();
    psql(&url, "CREATE TABLE t (id int PRIMARY KEY)").worked();
    let text =
        "SET debug_print_plan = on; SET client_min_messages = log; BEGIN; INSERT INTO t VALUES (1); COMMIT";
    let said = psql(&url, text).err;
    assert!(said.contains("PLANNEDSTMT"), "the client's own plans");
    assert!(!said.contains("aliasname secret"), "a plan of Consort's own");
}

/// A session that has had its constraints checked commits through Consort all the same, and what the COMMIT itself still
/// writes is on no node or on all.
#[test]
fn early_check_of_constraints_permits_no_commit() {
    let peers = Peers::start(in_memory());
    let mut mallory = mallory(&peers);
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
}
