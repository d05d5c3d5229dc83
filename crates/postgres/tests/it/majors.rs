//! Differences between majors at real servers: each test names the major from which on its subject exists.

use crate::one;
use postgres::address::Control;
use postgres::attach::{self, Attached};
use postgres::link::Link;
use testkit::Scratch;

async fn attached(scratch: &Scratch) -> (Control, Attached) {
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    let attached = attach::attach(&control).await.unwrap();
    (control, attached)
}

fn alone(major: u32) -> Scratch {
    Scratch::of_major(major, &local_cluster::Options { standbys: 0, ..Scratch::options() })
}

/// Since 18 an identity with a stored generated column needs a publication that sends such columns: without the option every
/// UPDATE and DELETE of the table fails.
#[tokio::test]
async fn stored_columns_of_a_full_identity_stay_writable() {
    let scratch = alone(18);
    let bare = "CREATE TABLE bare (n int, twice int GENERATED ALWAYS AS (n * 2) STORED); INSERT INTO bare VALUES (1)";
    scratch.query(bare);
    let (control, first) = attached(&scratch).await;
    assert_eq!(first.given_identity, ["public.bare"]);
    scratch.query("UPDATE bare SET n = 2; DELETE FROM bare");
    scratch.query(&bare.replace("bare", "later"));
    scratch.query("UPDATE later SET n = 2; DELETE FROM later");
    // A publication of another option is replaced.
    scratch.query("ALTER PUBLICATION consort SET (publish_generated_columns = none)");
    assert_eq!(attach::missing(&control).await.unwrap(), ["publication consort"]);
    attach::attach(&control).await.unwrap();
    assert!(attach::missing(&control).await.unwrap().is_empty());
    scratch.query("INSERT INTO later VALUES (1); UPDATE later SET n = 2");
}

/// Since 18: under a publication no table without a key can be updated that has a virtual generated column.
#[tokio::test]
async fn virtual_columns_without_a_key_are_refused_or_warned() {
    let scratch = alone(18);
    scratch.query("CREATE TABLE bare (n int, twice int GENERATED ALWAYS AS (n * 2) VIRTUAL)");
    let control = crate::client(&scratch.address("postgres")).await.unwrap();
    let refused = attach::attach(&control).await.unwrap_err().to_string();
    assert!(refused.contains("public.bare"), "{refused}");
    assert_eq!(one(&scratch.query("SELECT count(*) FROM pg_publication")), "0", "its rows can be written");
    scratch.query("UPDATE bare SET n = 1; ALTER TABLE bare ADD PRIMARY KEY (n)");
    attach::attach(&control).await.unwrap();
    scratch.query("INSERT INTO bare VALUES (1); UPDATE bare SET n = 2; DELETE FROM bare");
    // A key that comes after the table makes it writable.
    scratch.query("CREATE TABLE later (n int, twice int GENERATED ALWAYS AS (n * 2) VIRTUAL); INSERT INTO later VALUES (1)");
    scratch.query("ALTER TABLE later ADD PRIMARY KEY (n)");
    scratch.query("UPDATE later SET n = 2");
    // A virtual column that comes after the identity is no part of the identity any more.
    scratch.query("CREATE TABLE grown (n int PRIMARY KEY); ALTER TABLE grown REPLICA IDENTITY FULL");
    scratch.query("ALTER TABLE grown ADD twice int GENERATED ALWAYS AS (n * 2) VIRTUAL");
    scratch.query("INSERT INTO grown VALUES (1); UPDATE grown SET n = 2");
}

/// Since 17 a superuser can turn event triggers off, and DDL would be invisible.
#[tokio::test]
async fn event_triggers_that_are_off_are_missing() {
    let scratch = alone(17);
    let (_control, _) = attached(&scratch).await;
    let missing = async || {
        let control = Control::connect(&scratch.address("postgres")).await.unwrap();
        attach::missing(&control).await.unwrap()
    };
    assert!(missing().await.is_empty());
    scratch.query("CREATE DATABASE other");
    scratch.query("CREATE ROLE admin SUPERUSER");
    for (off, on) in [
        ("ALTER ROLE admin SET event_triggers = off", "ALTER ROLE admin RESET event_triggers"),
        ("ALTER DATABASE postgres SET event_triggers = 'no'", "ALTER DATABASE postgres RESET ALL"),
    ] {
        scratch.query(off);
        assert_eq!(missing().await, ["setting event_triggers = on"], "{off}");
        scratch.query(on);
        assert!(missing().await.is_empty(), "{on}");
    }
    scratch.query("ALTER DATABASE other SET event_triggers = off");
    assert!(missing().await.is_empty(), "of another database");
    scratch.primary().set("event_triggers", "off").unwrap();
    testkit::eventually("a setting of the server", || one(&scratch.query("SHOW event_triggers")) == "off");
    assert_eq!(missing().await, ["setting event_triggers = on"]);
}

/// Since 17 event triggers fire for REINDEX, which changes no answer and no replica.
#[tokio::test]
async fn reindex_is_no_ddl() {
    let scratch = alone(17);
    scratch.query("CREATE TABLE t (id int PRIMARY KEY)");
    let (_control, _) = attached(&scratch).await;
    scratch.query("SELECT pg_create_logical_replication_slot('ears', 'test_decoding')");
    let noted = || {
        let rows = "SELECT count(*) FROM pg_logical_slot_get_changes('ears', NULL, NULL, 'skip-empty-xacts', '1') \
                    WHERE data LIKE 'table consort.log: INSERT%'";
        one(&scratch.query(rows)).to_owned()
    };
    for sql in ["REINDEX TABLE t", "REINDEX INDEX t_pkey", "REINDEX SCHEMA public"] {
        scratch.query(sql);
        assert_eq!(noted(), "0", "{sql}");
    }
    scratch.query("REINDEX TABLE CONCURRENTLY t");
    assert_eq!(noted(), "0");
    scratch.query("CREATE INDEX ON t (id)");
    assert_eq!(noted(), "1");
}

/// Since 17 a server, a database or a role can limit the time of a transaction. Consort's own have no limit, also after RESET ALL.
#[tokio::test]
async fn own_transactions_have_no_limit_of_time() {
    let scratch = alone(17);
    scratch.query("ALTER DATABASE postgres SET transaction_timeout = '2min'");
    let address = scratch.address("postgres");
    let control = Control::connect(&address).await.unwrap();
    let mut link = Link::connect(&address, "").await.unwrap();
    for sql in ["SHOW transaction_timeout", "RESET ALL; SHOW transaction_timeout"] {
        assert_eq!(one(&control.rows(sql).await.unwrap()), "0", "{sql}");
        assert_eq!(one(&link.query(sql).await.unwrap()), "0", "{sql}");
    }
}
