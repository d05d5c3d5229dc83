//! Reads at a replica that Consort feeds: its answers are the primary's to the byte, although the same tables and types
//! have other OIDs there.

use crate::session::{query, until_it_leaves, until_it_leaves_behind};
use crate::stage::{LIMIT, Open, Raw, until};
use cluster::Setup;
use local_cluster::Options;
use scheduler::Writers;
use std::time::{Duration, Instant};
use testkit::Scratch;
use wire::{Asks, Target};

/// Servers without a standby. Types and tables that are gone again move the primary's OIDs on.
fn servers() -> Scratch {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    for number in 0..9 {
        servers.query(&format!("CREATE TABLE gone_{number} (a int); DROP TABLE gone_{number}"));
    }
    servers
}

/// Proofs wait longer where many tests run.
fn patient(setup: &mut Setup) {
    setup.proof_timeout = Duration::from_millis(300);
}

const SCHEMA: &str = "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TYPE pair AS (a int, b mood); \
    CREATE DOMAIN few AS int CHECK (VALUE < 100); \
    CREATE TABLE t (gone int, id int PRIMARY KEY, gone_too text, m mood, ms mood[], p pair, f few, v varchar(20)); \
    ALTER TABLE t DROP COLUMN gone; ALTER TABLE t DROP COLUMN gone_too; \
    INSERT INTO t SELECT n, 'glad', '{sad,glad}', (n, 'sad'::mood)::pair, n, 'v' || n FROM generate_series(1, 20) n; \
    CREATE VIEW seen AS SELECT v, m, id FROM t; CREATE SEQUENCE s; \
    CREATE UNLOGGED TABLE u AS SELECT 1 AS a; CREATE MATERIALIZED VIEW mv AS SELECT id FROM t";

/// Objects that a copy holds differently from the primary, or not at all.
const UNLIKE: &str = "CREATE FUNCTION made(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n'; \
    CREATE TABLE computed (id int, g int GENERATED ALWAYS AS (made(id)) STORED); INSERT INTO computed VALUES (1); \
    CREATE OR REPLACE FUNCTION made(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -n'; \
    CREATE TABLE elder (a int); CREATE TABLE younger (own int) INHERITS (elder); ALTER TABLE elder ADD COLUMN b int; \
    CREATE TABLE moods (m mood) PARTITION BY HASH (m); \
    CREATE TABLE moods_0 PARTITION OF moods FOR VALUES WITH (modulus 1, remainder 0); \
    CREATE TABLE names (id int, r regclass); INSERT INTO names VALUES (1, 't')";

/// Messages up to ReadyForQuery.
fn messages(raw: &mut Raw) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        all.push(raw.message().expect("the session goes on"));
        if all.last().is_some_and(|message| message[0] == b'Z') {
            return all;
        }
    }
}

/// The form in which a statement with the parameter `glad`, or none, is asked.
#[derive(Clone, Copy, Debug)]
enum How {
    Query,
    /// The statement is described, before its Bind or after it, or the portal.
    Statement,
    Late,
    Portal,
    /// Parsed before, under a name.
    Named,
    /// All in binary.
    Binary,
}

fn ask(raw: &mut Raw, how: How, text: &str) -> Vec<Vec<u8>> {
    let mut rest = match text.contains("$1") {
        true => [&[0, 0, 0, 1, 0, 0, 0, 4][..], b"glad", &[0, 0]].concat(),
        false => vec![0, 0, 0, 0, 0, 0],
    };
    if matches!(how, How::Binary) {
        rest.truncate(rest.len() - 1);
        rest.extend([1, 0, 1]);
    }
    raw.ask(|out| match how {
        How::Query => out.query(text.as_bytes()),
        How::Named => {
            out.bind(b"", b"named", &rest);
            out.describe(Target::Portal, b"");
            out.execute(b"", 0);
            out.sync();
        }
        _ => {
            out.parse(b"", text.as_bytes(), &[]);
            if matches!(how, How::Statement) {
                out.describe(Target::Statement, b"");
            }
            out.bind(b"", b"", &rest);
            if matches!(how, How::Late) {
                out.describe(Target::Statement, b"");
            }
            if matches!(how, How::Portal | How::Binary) {
                out.describe(Target::Portal, b"");
            }
            out.execute(b"", 0);
            out.sync();
        }
    });
    messages(raw)
}

fn prepare(raw: &mut Raw, text: &str) {
    raw.ask(|out| {
        out.close(Target::Statement, b"named");
        out.parse(b"named", text.as_bytes(), &[]);
        out.sync();
    });
    messages(raw);
}

/// Asks until the replica has answered.
fn left(open: &Open, raw: &mut Raw, how: How, text: &str) -> Vec<Vec<u8>> {
    let limit = Instant::now() + LIMIT;
    while Instant::now() < limit {
        let before = open.reads_at_standbys();
        let said = ask(raw, how, text);
        if open.reads_at_standbys() > before {
            return said;
        }
    }
    panic!("{text} never left: {}", open.why_at_primary());
}

#[test]
fn what_a_fed_replica_says_of_tables_and_types_is_what_the_primary_says() {
    let servers = servers();
    servers.query(SCHEMA);
    for writers in [Writers::Anywhere, Writers::ThroughConsort] {
        let open = Open::before(&servers, writers, patient);
        let mut raw = Raw::ready(&open, "postgres");
        until_it_leaves(&open, &mut raw, "SELECT v FROM t WHERE id = 7");
        for text in [
            "SELECT id, m, ms, p, f, v, id + 1, upper(v) FROM t ORDER BY id",
            "SELECT * FROM seen ORDER BY id",
            "SELECT a.m, b.v FROM t a JOIN seen b USING (id) ORDER BY id",
            "SELECT t FROM t WHERE id = 3",
            "SELECT max(m), min(f), array_agg(m ORDER BY id) FROM t",
            "SELECT id, m FROM t WHERE m = $1 ORDER BY id",
            "SELECT 'sad'::mood, ROW(1, 2), 5::few",
        ] {
            prepare(&mut raw, text);
            for how in [How::Query, How::Statement, How::Late, How::Portal, How::Named] {
                if text.contains("$1") && matches!(how, How::Query) {
                    continue;
                }
                query(&mut raw, "SET consort.consistency = 'primary'");
                let primary = ask(&mut raw, how, text);
                query(&mut raw, "SET consort.consistency = 'strong'");
                assert_eq!(left(&open, &mut raw, how, text), primary, "{how:?} {text}");
            }
        }
        // An enum in binary form is its label.
        let text = "SELECT id, m, f, v FROM t ORDER BY id";
        query(&mut raw, "SET consort.consistency = 'primary'");
        let primary = ask(&mut raw, How::Binary, text);
        query(&mut raw, "SET consort.consistency = 'strong'");
        assert_eq!(left(&open, &mut raw, How::Binary, text), primary);
    }
    for name in ["'t'::regclass", "'mood'::regtype", "'few'::regtype"] {
        let oid = format!("SELECT {name}::oid");
        let there = servers.replica(0).query("postgres", &oid).unwrap();
        assert_ne!(servers.query(&oid), there, "{name}");
    }
}

#[test]
fn what_would_differ_at_a_fed_replica_stays() {
    let servers = servers();
    servers.query(SCHEMA);
    servers.query(UNLIKE);
    let open = Open::before(&servers, Writers::Anywhere, patient);
    let mut raw = Raw::ready(&open, "postgres");
    until_it_leaves(&open, &mut raw, "SELECT v FROM t WHERE id = 7");
    let stayed = |reason: &'static str| {
        let counts = open.cluster(|cluster| cluster.metrics().statements_at_primary.get());
        counts.get(reason).copied().unwrap_or_default()
    };
    let mut stays = |reason: &'static str, ask: &mut dyn FnMut(&mut Raw) -> Vec<Vec<u8>>| {
        let (before, left) = (stayed(reason), open.reads_at_standbys());
        // At first nothing is known of it.
        until(|| {
            ask(&mut raw);
            stayed(reason) > before
        });
        assert_eq!(open.reads_at_standbys(), left, "{reason}");
    };
    for text in ["SELECT ms FROM t", "SELECT p FROM t", "SELECT t FROM t", "SELECT array_agg(m) FROM t"] {
        stays("not_at_copies", &mut |raw| ask(raw, How::Binary, text));
    }
    stays("not_at_copies", &mut |raw| ask(raw, How::Query, "SELECT hashenum(m) FROM t"));
    for text in
        ["SELECT g FROM computed", "SELECT * FROM younger", "SELECT m FROM moods", "SELECT id FROM names"]
    {
        stays("not_at_copies", &mut |raw| ask(raw, How::Query, text));
    }
    let mood = servers.query("SELECT 'mood'::regtype::oid")[0][0].clone().unwrap();
    let mood: u32 = mood.parse().unwrap();
    stays("not_at_copies", &mut |raw| {
        raw.ask(|out| {
            out.parse(b"", b"SELECT id FROM t WHERE m = $1", &mood.to_be_bytes());
            out.bind(b"", b"", &[&[0, 0, 0, 1, 0, 0, 0, 4][..], b"glad", &[0, 0]].concat());
            out.execute(b"", 0);
            out.sync();
        });
        messages(raw)
    });
    for (reason, text) in [
        ("sequence", "SELECT last_value FROM s"),
        ("not_in_stream", "SELECT a FROM u"),
        ("not_in_stream", "SELECT id FROM mv"),
        ("system_column", "SELECT ctid, id FROM t"),
        ("system_column", "SELECT tableoid FROM t"),
        ("object_identifier", "SELECT 't'::regclass"),
        ("catalog", "SELECT oid FROM pg_class WHERE relname = 't'"),
        ("node", "SELECT pg_column_size(v) FROM t"),
        ("large_object", "SELECT lo_get(5)"),
    ] {
        stays(reason, &mut |raw| ask(raw, How::Query, text));
    }
}

#[test]
fn a_fed_replica_is_as_fresh_as_the_primary_and_its_errors_are_the_primarys() {
    let servers = servers();
    servers.query(SCHEMA);
    for writers in [Writers::Anywhere, Writers::ThroughConsort] {
        let open = Open::before(&servers, writers, patient);
        let (mut raw, mut other) = (Raw::ready(&open, "postgres"), Raw::ready(&open, "postgres"));
        let read = "SELECT v FROM t WHERE id = 7";
        until_it_leaves(&open, &mut other, read);
        for round in 0..50 {
            query(&mut raw, &format!("UPDATE t SET v = 'round {round}' WHERE id = 7"));
            let expected = [format!("round {round}")];
            assert_eq!(query(&mut other, read), expected);
            assert_eq!(query(&mut raw, read), expected);
        }
        assert_eq!(query(&mut other, "SELECT 1 / (id - 7) FROM t WHERE id = 7"), ["22012"]);
        assert_eq!(until_it_leaves(&open, &mut other, read), ["round 49"]);
        // The connections of before end with the catalog.
        query(&mut raw, "ALTER TABLE t RENAME TO was");
        query(&mut raw, "CREATE TABLE t (x int, v text, id int PRIMARY KEY)");
        query(&mut raw, "INSERT INTO t VALUES (1, 'anew', 7)");
        assert_eq!(query(&mut other, read), ["anew"]);
        assert_eq!(until_it_leaves(&open, &mut other, read), ["anew"]);
        query(&mut raw, "DROP TABLE t");
        query(&mut raw, "ALTER TABLE was RENAME TO t");
    }
}

#[test]
fn blocks_read_at_a_fed_replica() {
    let servers = servers();
    servers.query(SCHEMA);
    let open = Open::before(&servers, Writers::Anywhere, patient);
    let mut raw = Raw::ready(&open, "postgres");
    let long = "SELECT count(*), min(a.m) FROM t a, t b, t c, t d WHERE a.id + b.id + c.id + d.id < 9";
    let said = until_it_leaves_behind(&open, &mut raw, &["BEGIN"], long);
    assert_eq!(said.len(), 2);
    assert_eq!(query(&mut raw, "UPDATE t SET v = 'own' WHERE id = 7"), Vec::<String>::new());
    assert_eq!(query(&mut raw, "SELECT v FROM t WHERE id = 7"), ["own"]);
    assert_eq!(raw.status_after("COMMIT"), 'I');
    query(&mut raw, "SET consort.read_only_snapshots = on");
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut other = Raw::ready(&open, "postgres");
    let said = until_it_leaves_behind(&open, &mut raw, &[begin], "SELECT v, m FROM t WHERE id = 7");
    assert_eq!(said, ["own", "glad"]);
    query(&mut other, "UPDATE t SET v = 'others' WHERE id = 7");
    assert_eq!(query(&mut raw, "SELECT v FROM t WHERE id = 7"), ["own"]);
    assert_eq!(query(&mut raw, "SHOW transaction_read_only"), ["on"]);
    assert_eq!(query(&mut raw, "SET TRANSACTION READ WRITE"), ["25001"]);
    query(&mut raw, "ROLLBACK");
    until_it_leaves_behind(&open, &mut raw, &[begin], "SELECT v FROM t WHERE id = 7");
    assert_eq!(query(&mut raw, "INSERT INTO t (id) VALUES (100)"), ["25006"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
    until_it_leaves_behind(&open, &mut raw, &[begin], "SELECT v FROM t WHERE id = 7");
    let said = ask(&mut raw, How::Query, "SELECT hashenum(m) FROM t");
    let said = String::from_utf8_lossy(&said[0]).into_owned();
    assert!(said.contains("0A000") && said.contains("may answer the statement differently"), "{said}");
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
    assert_eq!(query(&mut raw, "SELECT v FROM t WHERE id = 7"), ["others"]);
}
