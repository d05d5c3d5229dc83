//! Replicas that Consort feeds and whose files are broken: whoever reads there sees nothing of it.

use std::path::Path;

use local_cluster::{Node, Stop};

use crate::fed::{all_equal, becomes_equal, serving};
use crate::fixture::{Serving, eventually};
use crate::load::{Client, Console, READ_QUIET, THROUGH, served};
use crate::ordered::verified;
use crate::serving::figure;

/// Rows of a kilobyte, of which a page has few.
const ROWS: usize = 2000;
const PARTS: &str = "CREATE TABLE parts (id int PRIMARY KEY, v text NOT NULL); \
    INSERT INTO parts SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 2000) n";
const ONE: &str = "SELECT left(v, 4) FROM parts WHERE id = 7";
const ALL: &str = "SELECT id, v FROM parts";

/// The first letters of the seventh row.
const SEVENTH: &str = "8f14";

/// Consort in front of a primary and a replica that it feeds, which have the rows, and a client.
fn with_parts() -> (Serving, Console, Client) {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).expect("a log-in");
    client.rows(PARTS).expect("the table can be made");
    becomes_equal(&serving.servers, "postgres", "parts");
    reads_there(&mut console, &mut client);
    (serving, console, client)
}

/// Reads until the replica has answered.
fn reads_there(console: &mut Console, client: &mut Client) {
    let before = served(console, "replica1");
    eventually("a read at the replica", || {
        assert_eq!(client.one(ONE).expect("an answer"), SEVENTH);
        served(console, "replica1") > before
    });
}

/// Does this to the file of a table or an index while its server is stopped.
fn spoil(replica: &Node, relation: &str, spoil: impl FnOnce(&Path)) {
    let sql = format!("SELECT pg_relation_filepath('{relation}')");
    let rows = replica.query("postgres", &sql).expect("it answers");
    let path = rows[0][0].as_deref().expect("it has a file");
    replica.stop(Stop::Fast).expect("it stops");
    spoil(&replica.data_folder().join(path));
    replica.start().expect("it starts");
}

/// Writes this byte all over a file, after so many bytes of it.
fn overwrite(file: &Path, from: usize, byte: u8) {
    let mut bytes = std::fs::read(file).expect("it can be read");
    assert!(bytes.len() > from, "{} bytes", bytes.len());
    bytes[from..].fill(byte);
    // In its place: it is the server's user's.
    std::fs::write(file, bytes).expect("it can be written");
}

fn has_failed(console: &mut Console) -> bool {
    console.feed("replica1", "postgres").state == "failed"
}

/// The replica has failed of what a read has found, and says so everywhere; it answers nothing, and writes go on.
fn says_so(serving: &Serving, console: &mut Console, client: &mut Client, what: &str) {
    eventually("a replica that has failed", || has_failed(console));
    let why = console.feed("replica1", "postgres").why;
    assert!(why.contains("a read found") && why.contains(what), "{why}");
    let said = serving.run("status", &[]).worked();
    assert!(said.contains("failed: a read found corrupted data") && said.contains(what), "{said}");
    let failed = "consort_replication_failed{node=\"replica1\",database=\"postgres\"}";
    eventually("a metric that says so", || figure(serving, failed) == 1);
    let before = served(console, "replica1");
    for _ in 0..20 {
        client.rows("UPDATE parts SET v = v WHERE id = 8").expect("a write");
        assert_eq!(client.one(ONE).expect("an answer"), SEVENTH);
    }
    assert_eq!(served(console, "replica1"), before, "nobody reads there");
}

/// The copy is discarded, and made again.
fn is_mended(serving: &Serving, console: &mut Console, client: &mut Client) {
    let drop = "DROP DATABASE postgres WITH (FORCE)";
    serving.servers.replica(0).query("template1", drop).expect("it is dropped");
    all_equal(serving, console);
    becomes_equal(&serving.servers, "postgres", "parts");
    reads_there(console, client);
    verified(serving);
}

#[test]
fn a_replica_whose_pages_are_broken_fails_at_the_read_that_meets_them_and_no_client_sees_it() {
    let (serving, mut console, mut client) = with_parts();
    for (relation, byte, says) in [("parts_pkey", 0, "parts_pkey"), ("parts", 0xff, "invalid page")] {
        spoil(serving.servers.replica(0), relation, |file| overwrite(file, 0, byte));
        eventually("a read that meets it", || {
            assert_eq!(client.one(ONE).expect("an answer"), SEVENTH);
            has_failed(&mut console)
        });
        says_so(&serving, &mut console, &mut client, says);
        is_mended(&serving, &mut console, &mut client);
    }
}

/// As at one server the rows before the broken page have come, and then an error. A repeated query gets them
/// all.
#[test]
fn a_result_that_breaks_off_at_a_broken_page_breaks_off_once() {
    let (serving, mut console, mut client) = with_parts();
    let last_page = |file: &Path| {
        let length = std::fs::metadata(file).expect("it is there").len();
        overwrite(file, usize::try_from(length).expect("it is short") - 8192, 0xff);
    };
    spoil(serving.servers.replica(0), "parts", last_page);
    eventually("a result that breaks off", || match client.rows(ALL) {
        Ok(rows) => {
            assert_eq!(rows.len(), ROWS);
            false
        }
        Err(trouble) => {
            assert_eq!(trouble.sqlstate.as_deref(), Some("08006"), "{trouble:?}");
            true
        }
    });
    assert_eq!(client.rows(ALL).expect("all rows").len(), ROWS);
    says_so(&serving, &mut console, &mut client, "invalid page");
}

/// Its snapshot is the replica's: no other server can go on with it. The repeated transaction runs elsewhere.
#[test]
fn a_transaction_that_meets_a_broken_page_at_its_replica_fails_once() {
    let (serving, mut console, mut client) = with_parts();
    client.rows("SET consort.read_only_snapshots = on").unwrap();
    spoil(serving.servers.replica(0), "parts", |file| overwrite(file, 0, 0xff));
    eventually("a transaction at the replica", || {
        client.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").unwrap();
        assert_eq!(client.number(READ_QUIET).unwrap(), 7);
        let read = client.one(ONE);
        client.rows("ROLLBACK").unwrap();
        match read {
            Ok(read) => assert_eq!(read, SEVENTH),
            Err(trouble) => {
                assert_eq!(trouble.sqlstate.as_deref(), Some("08006"), "{trouble:?}");
                return true;
            }
        }
        false
    });
    client.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").unwrap();
    assert_eq!(client.number(READ_QUIET).unwrap(), 7);
    assert_eq!(client.one(ONE).unwrap(), SEVENTH);
    client.rows("COMMIT").unwrap();
    says_so(&serving, &mut console, &mut client, "invalid page");
}

/// The replica may lack a library as well, which the statement alone needs: that is no reason to discard the
/// copy.
#[test]
fn what_a_replica_has_no_file_for_is_read_at_the_primary() {
    let (serving, mut console, mut client) = with_parts();
    spoil(serving.servers.replica(0), "parts", |file| std::fs::remove_file(file).expect("it is there"));
    let refused = "consort_statements_at_primary_total{reason=\"standby_refused\"}";
    let before = figure(&serving, refused);
    eventually("a read that the replica refuses", || {
        assert_eq!(client.one(ONE).expect("an answer"), SEVENTH);
        figure(&serving, refused) > before
    });
    let before = served(&mut console, "replica1");
    eventually("other reads at the replica", || {
        assert_eq!(client.number(READ_QUIET).expect("an answer"), 7);
        served(&mut console, "replica1") > before
    });
    assert!(!has_failed(&mut console));
    // A write there is more than the statement's matter.
    client.rows("UPDATE parts SET v = 'other' WHERE id = 8").expect("a write");
    eventually("a replica that has failed", || {
        assert_eq!(client.one(ONE).expect("an answer"), SEVENTH);
        has_failed(&mut console)
    });
    is_mended(&serving, &mut console, &mut client);
}
