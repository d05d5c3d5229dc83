//! Statements that stand for the rows that they wrote: executed at the replica, counted, and taken back where they do
//! something else.

use super::Fed;
use crate::soon;
use history::RelationId;
use replica_apply::apply::{Batch, Rerun, Under};
use std::sync::Arc;

const TABLES: &str = "\
    CREATE ROLE author; CREATE SCHEMA own AUTHORIZATION author; \
    CREATE TABLE own.many (id int PRIMARY KEY, v int NOT NULL, at timestamp, filler text); \
    CREATE TABLE own.other (id int PRIMARY KEY, v int NOT NULL); \
    CREATE TABLE own.quick (id int PRIMARY KEY, v int NOT NULL, filler text); \
    ALTER TABLE own.many OWNER TO author; ALTER TABLE own.other OWNER TO author; \
    INSERT INTO own.many SELECT n, 0, NULL, repeat('x', 50) FROM generate_series(1, 2000) n; \
    INSERT INTO own.other SELECT n, n FROM generate_series(1, 50) n; \
    INSERT INTO own.quick SELECT n, 0, repeat('q', 100) FROM generate_series(1, 3000) n";

/// The author's settings: a date is read day first, and names are found in his schema.
fn under(author: &str) -> Arc<Under> {
    let settings = [("search_path", "own"), ("datestyle", "SQL, DMY"), ("timezone", "Asia/Tokyo")];
    Arc::new(Under::new(settings, author, None))
}

fn relation(fed: &Fed, name: &str) -> RelationId {
    let oid = fed.primary.query(&format!("SELECT 'own.{name}'::regclass::oid"));
    RelationId::new(crate::one(&oid).parse().unwrap())
}

/// A statement that writes so many rows of `many`, and touches `other` too.
fn rerun(fed: &Fed, text: &str, rows: u64) -> Rerun {
    let writes = relation(fed, "many");
    Rerun {
        text: text.into(),
        types: Arc::default(),
        formats: Vec::new(),
        parameters: Vec::new(),
        under: under("author"),
        writes,
        touches: Arc::new([writes, relation(fed, "other")]),
        fires: None,
        rows,
    }
}

/// Runs it at the primary as its author.
fn run(fed: &Fed, text: &str) {
    let before = "SET search_path = own; SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Tokyo'; SET SESSION AUTHORIZATION author";
    fed.primary.query(&format!("{before}; {text}; RESET SESSION AUTHORIZATION; RESET ALL"));
}

/// The next batch, whose one commit with rows is `rerun`'s.
async fn told(fed: &mut Fed, reruns: &[Rerun]) -> Batch {
    let mut batch = fed.batch().await;
    let mut parts = batch.parts.iter_mut().filter(|part| part.changes().count() > 0);
    let part = parts.next().expect("it wrote rows");
    assert!(part.is_written_by(reruns), "{} messages", part.changes().count());
    part.set_reruns(reruns.into());
    assert!(parts.next().is_none());
    batch
}

const RAISES: &str = "UPDATE many SET v = v + (SELECT sum(v) FROM other) WHERE id % 2 = 0";

#[tokio::test]
async fn a_statement_stands_for_its_rows_under_its_authors_settings() {
    let mut fed = Fed::with(TABLES, "").await;
    run(&fed, RAISES);
    let raised = [rerun(&fed, RAISES, 1000)];
    let batch = told(&mut fed, &raised).await;
    fed.feeder.apply(batch).await.unwrap();
    // 3 April, not 4 March; with a parameter in text and one in binary, and one that is NULL.
    let text = "UPDATE many SET at = $1::text::timestamp, filler = $3 WHERE id <= $2";
    let literal = "UPDATE many SET at = '03/04/2026', filler = NULL WHERE id <= 700";
    run(&fed, literal);
    let bound = Rerun {
        types: Arc::new([0, 23, 0]),
        formats: vec![0, 1, 0],
        parameters: vec![Some("03/04/2026".into()), Some(700_i32.to_be_bytes().to_vec()), None],
        ..rerun(&fed, text, 700)
    };
    let batch = told(&mut fed, &[bound]).await;
    fed.feeder.apply(batch).await.unwrap();
    fed.compare();
    let counts = fed.feeder.counts();
    assert_eq!((counts.reruns, counts.undone, counts.again), (2, 0, 0));
    // Afterwards the feed has its own role again: it writes what the author must not, and reads dates as they
    // are sent.
    fed.primary
        .query("UPDATE own.quick SET v = 1; UPDATE own.many SET at = '2026-12-03 01:02:03' WHERE id > 1000");
    fed.feed().await.unwrap();
    fed.compare();
    // And whoever feeds next finds it.
    fed.primary.query("UPDATE own.quick SET v = 2 WHERE id = 1");
    fed.feed_by_another().await;
}

#[tokio::test]
async fn statements_of_one_transaction_follow_each_other() {
    let mut fed = Fed::with(TABLES, "").await;
    let texts = [
        RAISES,
        "DELETE FROM many WHERE v > 0 AND id > 1000",
        "INSERT INTO many SELECT id + 5000, v FROM many",
    ];
    run(&fed, &format!("BEGIN; {}; COMMIT", texts.join("; ")));
    let reruns: Vec<Rerun> =
        texts.iter().zip([1000, 500, 1500]).map(|(text, rows)| rerun(&fed, text, rows)).collect();
    let batch = told(&mut fed, &reruns).await;
    fed.feeder.apply(batch).await.unwrap();
    fed.compare();
    assert_eq!(fed.feeder.counts().reruns, 3);
}

/// Fault of each rerun, which is detected.
const WRONG: &[(&str, &str)] = &[
    ("another row count", "UPDATE many SET v = v + 1275 WHERE id % 4 = 0"),
    ("an error", "UPDATE many SET v = v / 0 WHERE id % 2 = 0"),
    ("no statement", "UPDATE nothing SET v = 1"),
    ("what its author may not", "UPDATE quick SET v = 1"),
];

#[tokio::test]
async fn a_statement_that_does_something_else_is_taken_back_and_its_rows_are_applied() {
    for connections in [1, 3] {
        let mut fed = Fed::with(TABLES, "").await.on_connections(connections).await;
        for (place, (why, text)) in (1..).zip(WRONG) {
            run(&fed, RAISES);
            let wrong = [rerun(&fed, text, 1000)];
            let first = told(&mut fed, &wrong).await;
            fed.primary.query("UPDATE own.quick SET v = v + 1");
            let second = fed.batch().await;
            fed.feeder.send(first).await.unwrap();
            fed.feeder.send(second).await.unwrap();
            soon("the end", fed.feeder.finish()).await.unwrap();
            fed.compare();
            let counts = fed.feeder.counts();
            assert_eq!((counts.undone, counts.reruns), (place, 0), "{why}, {connections} connections");
        }
    }
}

#[tokio::test]
async fn rows_that_others_wrote_are_seen_in_their_number_and_their_tables() {
    let mut fed = Fed::with(TABLES, "").await;
    run(&fed, &format!("BEGIN; {RAISES}; UPDATE other SET v = 1 WHERE id = 1; COMMIT"));
    let batch = fed.batch().await;
    let part = batch.parts.iter().find(|part| part.changes().count() > 0).unwrap();
    assert!(!part.is_written_by(&[rerun(&fed, RAISES, 1000)]));
    assert!(!part.is_written_by(&[rerun(&fed, RAISES, 1001)]), "another table");
}

/// Each batch has a statement that reads the writes of earlier batches, and rows that no other batch writes.
#[tokio::test]
async fn statements_wait_for_what_they_touch_and_for_nothing_else() {
    let mut fed = Fed::with(TABLES, "").await.on_connections(3).await;
    let mut batches = Vec::new();
    for round in 0..12 {
        let quick = format!("UPDATE own.quick SET v = v + 1 WHERE id % 12 = {round}");
        fed.primary.query(&format!(
            "{quick}; UPDATE own.quick SET filler = repeat('r', 300 + {round}) WHERE id % 12 = {round}"
        ));
        batches.push(fed.batch().await);
        run(&fed, RAISES);
        let raised = [rerun(&fed, RAISES, 1000)];
        batches.push(told(&mut fed, &raised).await);
        fed.primary.query("UPDATE own.other SET v = v + 1 WHERE id = 7");
        batches.push(fed.batch().await);
    }
    // Batches that are small for one replica do not run alongside others.
    let mut merged: Vec<Batch> = Vec::new();
    for pair in batches.chunks(3) {
        let parts = pair.iter().flat_map(|batch| batch.parts.clone()).collect();
        merged.push(Batch { parts, to: pair[2].to.clone() });
    }
    for batch in merged {
        soon("a batch", fed.feeder.send(batch)).await.unwrap();
    }
    soon("the end", fed.feeder.finish()).await.unwrap();
    fed.compare();
    let counts = fed.feeder.counts();
    assert_eq!((counts.reruns, counts.undone, counts.again), (12, 0, 0), "{counts:?}");
    assert!(counts.beside > 6, "{counts:?}");
}

/// Triggers that write down what they see, double it first, and look at the end of the transaction; and foreign keys, which are
/// checked where triggers fire.
const FIRES: &str = "\
    CREATE TABLE own.note (id int REFERENCES own.other, v int); CREATE TABLE own.total (id int PRIMARY KEY, v bigint); \
    INSERT INTO own.total VALUES (1, 0); \
    ALTER TABLE own.note OWNER TO author; ALTER TABLE own.total OWNER TO author; \
    CREATE FUNCTION own.doubles() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := 2 * NEW.v; RETURN NEW; END $$; \
    CREATE FUNCTION own.notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        IF NEW.id <= 50 THEN INSERT INTO own.note VALUES (NEW.id, NEW.v); DELETE FROM own.note WHERE id = NEW.id AND v < NEW.v; END IF; \
        RETURN NULL; END $$; \
    CREATE FUNCTION own.adds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        UPDATE own.total SET v = v + NEW.v; RETURN NULL; END $$; \
    CREATE TRIGGER doubles BEFORE UPDATE ON own.many FOR EACH ROW EXECUTE FUNCTION own.doubles(); \
    CREATE TRIGGER notes AFTER UPDATE ON own.many FOR EACH ROW EXECUTE FUNCTION own.notes(); \
    CREATE CONSTRAINT TRIGGER adds AFTER UPDATE ON own.many DEFERRABLE INITIALLY DEFERRED FOR EACH ROW \
        WHEN (NEW.id <= 4) EXECUTE FUNCTION own.adds()";

/// The same, and these triggers fire.
fn firing(fed: &Fed, text: &str, rows: u64) -> Rerun {
    let tables = ["note", "total"].map(|name| relation(fed, name));
    let touches = ["many", "other", "note", "total"].map(|name| relation(fed, name));
    Rerun { fires: Some(Arc::new(tables)), touches: Arc::new(touches), ..rerun(fed, text, rows) }
}

#[tokio::test]
async fn what_triggers_write_is_written_by_them_where_they_are_to_fire() {
    for connections in [1, 3] {
        let mut fed = Fed::with(&format!("{TABLES}; {FIRES}"), "").await.on_connections(connections).await;
        for _ in 0..3 {
            run(&fed, RAISES);
            let raised = [firing(&fed, RAISES, 1000)];
            let batch = told(&mut fed, &raised).await;
            fed.feeder.apply(batch).await.unwrap();
            // Afterwards no trigger fires.
            fed.primary.query("UPDATE own.many SET v = 1 WHERE id = 2; DELETE FROM own.note WHERE id > 40");
            fed.feed().await.unwrap();
        }
        fed.compare();
        let counts = fed.feeder.counts();
        assert_eq!((counts.reruns, counts.undone, counts.again), (3, 0, 0), "{connections} connections");
    }
}

/// Triggers with another effect at the replica, although the statement touches as many rows.
const FIRES_OTHERWISE: &[(&str, &str)] = &[
    (
        "a row less",
        "CREATE OR REPLACE FUNCTION own.notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        IF NEW.id < 50 THEN INSERT INTO own.note VALUES (NEW.id, NEW.v); DELETE FROM own.note WHERE id = NEW.id AND v < NEW.v; END IF; \
        RETURN NULL; END $$",
    ),
    (
        "another table",
        "CREATE OR REPLACE FUNCTION own.adds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        UPDATE own.total SET v = v + NEW.v; INSERT INTO own.other VALUES (NEW.id + 1000, 1); RETURN NULL; END $$",
    ),
    (
        "an update in place of an insert",
        "CREATE OR REPLACE FUNCTION own.notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        IF NEW.id <= 50 THEN UPDATE own.other SET v = v WHERE id = NEW.id; DELETE FROM own.note WHERE id = NEW.id AND v < NEW.v; END IF; \
        RETURN NULL; END $$",
    ),
    (
        "an error at the end",
        "CREATE OR REPLACE FUNCTION own.adds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        RAISE 'no'; END $$",
    ),
    ("no trigger", "DROP TRIGGER notes ON own.many"),
];

#[tokio::test]
async fn triggers_that_do_something_else_are_taken_back_and_the_rows_are_applied() {
    for (why, otherwise) in FIRES_OTHERWISE {
        let mut fed = Fed::with(&format!("{TABLES}; {FIRES}"), "").await;
        fed.replica.query(otherwise);
        for _ in 0..2 {
            run(&fed, RAISES);
            let raised = [firing(&fed, RAISES, 1000)];
            let batch = told(&mut fed, &raised).await;
            soon("the end", fed.feeder.apply(batch)).await.unwrap();
        }
        fed.compare();
        let counts = fed.feeder.counts();
        assert_eq!((counts.undone, counts.reruns), (2, 0), "{why}");
    }
}

#[tokio::test]
async fn what_triggers_wrote_elsewhere_or_beside_others_is_seen() {
    let mut fed = Fed::with(&format!("{TABLES}; {FIRES}"), "").await;
    run(&fed, RAISES);
    let batch = fed.batch().await;
    let part = batch.parts.iter().find(|part| part.changes().count() > 0).unwrap();
    let raised = firing(&fed, RAISES, 1000);
    assert!(part.is_written_by(std::slice::from_ref(&raised)));
    assert!(!part.is_written_by(&[raised.clone(), rerun(&fed, RAISES, 0)]), "nobody could tell them apart");
    let one: Arc<[RelationId]> = Arc::new([relation(&fed, "note")]);
    assert!(!part.is_written_by(&[Rerun { fires: Some(one), ..raised }]), "a table that is not declared");
}
