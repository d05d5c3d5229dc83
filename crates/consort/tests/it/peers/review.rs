//! Requests that pipelines of drivers send, on one stage.

use super::{Peers, in_memory, with_each_capture};
use crate::barriers::{Raw, batch, frame};
use crate::load::Client;

/// BEGIN, a change and COMMIT under the unnamed statement, in one batch or in two, do what they say.
#[test]
fn pipelines_of_drivers_do_what_they_say() {
    with_each_capture(|peers| {
        let mut client = peers.client();
        client.rows("CREATE TABLE t (id int PRIMARY KEY)").expect("a table");
        let mut raw = Raw::connect(peers.serving.port);
        assert_eq!(raw.answer(&batch(&["BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"], false)), None);
        assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"1\")]]");
        assert_eq!(raw.answer(&batch(&["BEGIN", "INSERT INTO t VALUES (2)"], false)), None);
        assert_eq!(count(&mut client), 1, "the block is still open");
        assert_eq!(raw.answer(&batch(&["ROLLBACK"], false)), None);
        assert_eq!(
            raw.answer(&batch(&["INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)"], false)),
            None
        );
        assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"3\")]]");
        parse_in_a_fresh_block(peers, &mut client, &mut raw);
        copy_by_extended_protocol(peers, &mut raw);
    });
}

fn count(client: &mut Client) -> i64 {
    client.rows("SET consort.consistency = strong").expect("a setting");
    client.number("SELECT count(*) FROM t").expect("a number")
}

/// The Parse takes the snapshot: what is committed behind it conflicts.
fn parse_in_a_fresh_block(peers: &Peers, client: &mut Client, raw: &mut Raw) {
    client.rows("CREATE TABLE c (id int PRIMARY KEY, v int)").expect("a table");
    client.rows("INSERT INTO c VALUES (1, 0)").expect("a row");
    peers.equal("SELECT v FROM c");
    assert_eq!(raw.answer(&batch(&["BEGIN"], false)), None);
    let parse = frame(b'P', b"u\0INSERT INTO c SELECT 2, v + 1 FROM c WHERE id = 1 FOR SHARE\0\0\0");
    assert_eq!(raw.answer(&[parse, frame(b'S', b"")].concat()), None);
    client.rows("UPDATE c SET v = 10 WHERE id = 1").expect("a change");
    peers.equal("SELECT v FROM c");
    let run = [frame(b'B', b"\0u\0\0\0\0\0\0\0"), frame(b'E', b"\0\0\0\0\0"), frame(b'S', b"")].concat();
    let refused = raw.answer(&run).or_else(|| raw.answer(&batch(&["COMMIT"], false)));
    assert!(refused.is_some_and(|error| error.contains("40001")), "the snapshot is older than the change");
    assert_eq!(raw.answer(&batch(&["ROLLBACK"], false)), None);
}

/// The Sync before the data is ignored, as PostgreSQL does; notices of the server do not stop the data.
fn copy_by_extended_protocol(peers: &Peers, raw: &mut Raw) {
    let noisy = "CREATE FUNCTION says() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE NOTICE '%', repeat('x', 500); RETURN new; END $$";
    for sql in [
        noisy,
        "CREATE TRIGGER says BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION says()",
        "DELETE FROM t",
    ] {
        assert_eq!(raw.answer(&batch(&[sql], false)), None, "{sql}");
    }
    let rows: String = (0..20_000).map(|id| format!("{id}\n")).collect();
    let data = rows.as_bytes().chunks(1000).flat_map(|part| frame(b'd', part)).collect::<Vec<_>>();
    let copy = [batch(&["COPY t FROM STDIN"], false), data, frame(b'c', b""), frame(b'S', b"")].concat();
    assert_eq!(raw.answer(&copy), None);
    assert_eq!(raw.answer(&batch(&["SELECT 1/0"], false)).map(|error| error.contains("22012")), Some(true));
    assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"20000\")]]");
}

/// "Insert, or say no": the function catches the error of its write, which no attempt in a READ ONLY transaction may cause.
#[test]
fn function_that_catches_its_error_writes() {
    let peers = Peers::start(in_memory());
    let mut client = peers.client();
    client.rows("CREATE TABLE once (k int PRIMARY KEY)").expect("a table");
    let function = "CREATE FUNCTION add_once(k int) RETURNS bool LANGUAGE plpgsql AS $$ \
        BEGIN INSERT INTO once VALUES (k); RETURN true; EXCEPTION WHEN OTHERS THEN RETURN false; END $$";
    client.rows(function).expect("a function");
    assert_eq!(client.one("SELECT add_once(1)").unwrap(), "t");
    assert_eq!(client.one("SELECT add_once(1)").unwrap(), "f");
    let prepared = client.prepare("SELECT add_once(2)::text");
    assert_eq!(client.execute(&prepared), "true");
    client.rows("PREPARE adds AS SELECT add_once(3)").expect("a statement");
    assert_eq!(client.one("EXECUTE adds").unwrap(), "t");
    assert_eq!(peers.equal("SELECT count(*) FROM once"), "[[Some(\"3\")]]");
    // A lock of the session is taken once.
    client.rows("SELECT pg_advisory_lock(7), add_once(4)").expect("a lock");
    assert_eq!(client.one("SELECT pg_advisory_unlock(7)").unwrap(), "t");
    assert_eq!(
        client.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7").unwrap(),
        "0"
    );
}
