//! Statements that travel to replicas in the place of the rows that they wrote: which do, that the replica has what the
//! primary has, and that the client does not notice.

use crate::session::query;
use crate::stage::{Open, Raw, until};
use crate::turns::{by_batch, by_query};
use cluster::{Cluster, Setup};
use design::Effects;
use local_cluster::Options;
use scheduler::Writers;
use statement_analysis::catalog::Procedure;
use statement_analysis::declared_tables::Declared;
use std::collections::BTreeMap;
use testkit::Scratch;
use wire::{Asks, Target};

/// The design in which they do.
fn travel(setup: &mut Setup) {
    let travel = |design: &&design::Design| design.effects == Effects::Statements;
    setup.design = *design::PRIMARY_COPY.iter().find(travel).unwrap();
}

fn servers(sql: &str) -> Scratch {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query("CREATE TABLE marker (n serial PRIMARY KEY)");
    servers.query(sql);
    servers
}

/// A frontend for servers with a logical replica, and a session.
fn stage(servers: &Scratch, set: impl FnOnce(&mut Setup) + Send + 'static) -> (Open, Raw) {
    let open = Open::before(servers, Writers::Anywhere, |setup| {
        travel(setup);
        set(setup);
    });
    let mut raw = Raw::ready(&open, "postgres");
    query(&mut raw, "SELECT 1");
    // No session may look into a database that is to be replaced by a copy.
    let is_fed = |cluster: &Cluster| {
        let id = cluster.database("postgres").id();
        let is_fed = |id| cluster.scheduler().standbys().any(|replica| replica.shows.contains_key(&id));
        id.is_some_and(is_fed)
    };
    until(|| open.cluster(is_fed));
    shown(servers);
    (open, raw)
}

/// Waits until the replica shows all that the primary has: what is committed last is shown last.
fn shown(servers: &Scratch) {
    let last = servers.query("INSERT INTO marker DEFAULT VALUES RETURNING n");
    let last = last[0][0].as_deref().unwrap();
    let there = format!("SELECT FROM marker WHERE n = {last}");
    until(|| servers.replica(0).query("postgres", &there).is_ok_and(|rows| !rows.is_empty()));
}

/// Counts of replication: commits as statements, and unreported ones, by reason.
fn travelled(open: &Open) -> (u64, BTreeMap<&'static str, u64>, BTreeMap<&'static str, u64>) {
    open.cluster(|cluster| {
        let metrics = cluster.metrics();
        (
            metrics.commits_as_statements.get(),
            metrics.commits_as_rows.get(),
            metrics.statements_not_told.get(),
        )
    })
}

fn count(counts: &BTreeMap<&'static str, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or_default()
}

/// Runs a statement in blocks that are rolled back until its tree is known.
fn understood(open: &Open, raw: &mut Raw, text: &str) {
    until(|| {
        let before = travelled(open).2;
        for text in ["BEGIN", text, "ROLLBACK"] {
            by_query(raw, text);
        }
        count(&travelled(open).2, "not_analysed_yet") == count(&before, "not_analysed_yet")
    });
}

/// The rows of every table are the same at the replica.
fn are_equal(servers: &Scratch) -> Result<(), String> {
    shown(servers);
    let tables = servers.query("SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND oid >= 16384 AND relnamespace = 'public'::regnamespace");
    for table in tables {
        let table = table[0].clone().unwrap();
        let sql = format!("SELECT t::text FROM {table} AS t ORDER BY 1");
        let there = servers.replica(0).query("postgres", &sql).unwrap();
        if servers.query(&sql) != there {
            return Err(table);
        }
    }
    Ok(())
}

const SCHEMA: &str = "CREATE TABLE t (id int PRIMARY KEY, other int REFERENCES t DEFERRABLE INITIALLY DEFERRED); \
    CREATE TABLE many (id int PRIMARY KEY, v int NOT NULL); INSERT INTO many SELECT n, n FROM generate_series(1, 100) n";

/// Each statement with the server's messages for it, for a Query and for a batch.
const FORMS: &[(&str, &str, &str)] = &[
    ("INSERT INTO t VALUES (1)", "CZI", "12nE23505ZI"),
    ("INSERT INTO t VALUES (1)", "E23505ZI", "12nE23505ZI"),
    ("INSERT INTO t VALUES (3, 77)", "E23503ZI", "12nCE23503ZI"),
    ("UPDATE many SET v = v + 1 WHERE id < 3 RETURNING id", "TDDCZI", "12TDDCZI"),
    ("UPDATE many SET v = v + 1 WHERE id < 0", "CZI", "12nCZI"),
    ("UPDATE many SET v = 1 / (id - 50)", "E22012ZI", "12nE22012ZI"),
    ("DELETE FROM many WHERE id > 90", "CZI", "12nCZI"),
];

#[test]
fn a_statement_that_is_told_of_is_answered_as_it_would_be_without() {
    let servers = servers(SCHEMA);
    let (open, mut raw) = stage(&servers, |_| {});
    for (text, as_query, as_batch) in FORMS {
        understood(&open, &mut raw, text);
        assert_eq!(by_query(&mut raw, text), *as_query, "{text}");
        assert_eq!(by_batch(&mut raw, text), *as_batch, "{text} in a batch");
    }
    assert_eq!(query(&mut raw, "SELECT count(*) FROM t"), ["1"]);
    assert_eq!(are_equal(&servers), Ok(()));
    understood(&open, &mut raw, "DELETE FROM t WHERE id = 5");
    for commit in [by_query, by_batch] {
        assert_eq!(by_query(&mut raw, "BEGIN"), "CZT");
        assert_eq!(by_query(&mut raw, "INSERT INTO t VALUES (5, 77)"), "CZT");
        let told = commit(&mut raw, "COMMIT");
        assert!(told.ends_with("E23503ZI"), "{told}");
        assert_eq!(by_query(&mut raw, "BEGIN"), "CZT");
        assert_eq!(by_query(&mut raw, "INSERT INTO t VALUES (5, 5)"), "CZT");
        let told = commit(&mut raw, "COMMIT AND CHAIN");
        assert!(told.ends_with("CZT"), "{told}");
        assert_eq!(by_query(&mut raw, "DELETE FROM t WHERE id = 5"), "CZT");
        assert_eq!(by_query(&mut raw, "COMMIT"), "CZI");
    }
    assert_eq!(are_equal(&servers), Ok(()));
    // A session that learns of a commit before its own number gets rows: now and then, on a busy machine.
    let (statements, rows, _) = travelled(&open);
    assert!((4..=8).contains(&statements), "{statements}, {rows:?}");
}

const TWO: &str = "CREATE TABLE r (id int PRIMARY KEY, v int); CREATE TABLE s (id int PRIMARY KEY, v int); \
    INSERT INTO r SELECT n, 0 FROM generate_series(1, 10) n; INSERT INTO s SELECT n, 1 FROM generate_series(1, 10) n";
const ADDS: &str = "UPDATE r SET v = v + (SELECT sum(v) FROM s)";
const SETS: &str = "UPDATE s SET v = v + 100";

/// A adds the sum of `s` to `r`; B sets `s`, and commits first. Their writes are disjoint, and both are deterministic: in the
/// order of their commits alone the replica would add another sum.
fn committed_in_between(open: &Open, servers: &Scratch, raw: &mut Raw) -> Result<(), String> {
    committed_between(open, servers, raw, ADDS)
}

fn committed_between(open: &Open, servers: &Scratch, raw: &mut Raw, adds: &str) -> Result<(), String> {
    for text in [adds, SETS] {
        understood(open, raw, text);
    }
    let mut other = Raw::ready(open, "postgres");
    query(&mut other, "SELECT 1");
    shown(servers);
    by_query(raw, "BEGIN");
    assert_eq!(by_query(raw, adds), "CZT");
    assert_eq!(by_query(&mut other, SETS), "CZI");
    shown(servers);
    assert_eq!(by_query(raw, "COMMIT"), "CZI");
    are_equal(servers)
}

#[test]
fn a_statement_travels_as_rows_if_what_it_read_was_committed_since_it_began() {
    let servers = servers(TWO);
    let (open, mut raw) = stage(&servers, |_| {});
    until(|| {
        assert_eq!(committed_in_between(&open, &servers, &mut raw), Ok(()));
        let (statements, rows, _) = travelled(&open);
        // B is reported, and so is A.
        statements > 0 && count(&rows, "overlapped") > 0
    });
    // The same without anything between travels.
    let before = travelled(&open).0;
    until(|| {
        assert_eq!(by_query(&mut raw, ADDS), "CZI");
        assert_eq!(are_equal(&servers), Ok(()));
        travelled(&open).0 > before
    });
}

/// A snapshot that is imported may be older than what had been shown when the block began.
#[test]
fn what_runs_under_an_imported_snapshot_travels_as_rows() {
    let servers = servers(TWO);
    let (open, mut raw) = stage(&servers, |_| {});
    for text in [ADDS, SETS] {
        understood(&open, &mut raw, text);
    }
    let (mut exporter, mut other) = (Raw::past(&servers, "postgres"), Raw::ready(&open, "postgres"));
    query(&mut other, "SELECT 1");
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    for (rounds, import) in (1..).zip([by_query, by_batch]) {
        assert_eq!(by_query(&mut exporter, begin), "CZT");
        let snapshot = query(&mut exporter, "SELECT pg_export_snapshot()").remove(0);
        assert_eq!(by_query(&mut other, SETS), "CZI");
        // The commit has its version before the next block begins.
        shown(&servers);
        assert_eq!(by_query(&mut raw, begin), "CZT");
        let told = import(&mut raw, &format!("SET TRANSACTION SNAPSHOT '{snapshot}'"));
        assert!(told.ends_with("CZT"), "{told}");
        assert_eq!(by_query(&mut raw, ADDS), "CZT");
        assert_eq!(by_query(&mut raw, "COMMIT"), "CZI");
        assert_eq!(by_query(&mut exporter, "COMMIT"), "CZI");
        assert_eq!(are_equal(&servers), Ok(()));
        let not_told = travelled(&open).2;
        assert_eq!(count(&not_told, "imported_snapshot"), rounds, "{not_told:?}");
    }
}

#[test]
fn what_a_declared_function_reads_is_guarded_too() {
    let servers = servers(TWO);
    servers.query(
        "CREATE FUNCTION sum_of_s() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT sum(v) FROM s); END'",
    );
    let (open, mut raw) = stage(&servers, |_| {});
    let adds = "UPDATE r SET v = v + sum_of_s()";
    open.cluster(|cluster| {
        cluster.declare_procedures(&[Procedure {
            schema: "public".to_owned(),
            name: "sum_of_s".to_owned(),
            tables_read: Declared::read("s").unwrap(),
            ..Procedure::default()
        }]);
    });
    until(|| {
        assert_eq!(committed_between(&open, &servers, &mut raw, adds), Ok(()));
        count(&travelled(&open).1, "overlapped") > 0
    });
    let before = travelled(&open).0;
    until(|| {
        assert_eq!(by_query(&mut raw, adds), "CZI");
        assert_eq!(are_equal(&servers), Ok(()));
        travelled(&open).0 > before
    });
}

#[test]
fn what_declared_triggers_touch_is_guarded_too() {
    let servers = servers(TWO);
    servers.query(
        "CREATE TABLE notes (n bigint); CREATE FUNCTION adds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         NEW.v := NEW.v + (SELECT sum(v) FROM s); INSERT INTO notes SELECT count(*) FROM s WHERE v > 0; RETURN NEW; END $$; \
         CREATE TRIGGER adds BEFORE UPDATE ON r FOR EACH ROW EXECUTE FUNCTION adds()",
    );
    let (open, mut raw) = stage(&servers, |_| {});
    let fires = "UPDATE r SET v = v + 1";
    open.cluster(|cluster| {
        cluster.declare_procedures(&[Procedure {
            schema: "public".to_owned(),
            name: "adds".to_owned(),
            tables_read: Declared::read("s").unwrap(),
            tables_written: Declared::read("notes").unwrap(),
        }]);
    });
    until(|| {
        assert_eq!(committed_between(&open, &servers, &mut raw, fires), Ok(()));
        count(&travelled(&open).1, "overlapped") > 0
    });
    let before = travelled(&open).0;
    until(|| {
        assert_eq!(by_query(&mut raw, fires), "CZI");
        assert_eq!(are_equal(&servers), Ok(()));
        travelled(&open).0 > before
    });
}

const KINDS: &str = "CREATE TABLE many (id int PRIMARY KEY, v double precision, at timestamptz, u uuid, t text); \
    INSERT INTO many SELECT n, n FROM generate_series(1, 200) n; \
    CREATE TABLE source (id int, v int); INSERT INTO source SELECT n % 50, n FROM generate_series(1, 200) n; \
    CREATE SEQUENCE numbers; \
    CREATE TABLE loud (id int PRIMARY KEY, v int); INSERT INTO loud SELECT n, n FROM generate_series(1, 50) n; \
    CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := NEW.v + pg_backend_pid(); RETURN NEW; END'; \
    CREATE TRIGGER more BEFORE UPDATE ON loud FOR EACH ROW EXECUTE FUNCTION more(); \
    CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent SELECT generate_series(1, 50); \
    CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE); \
    INSERT INTO child SELECT n, 1 + n % 50 FROM generate_series(1, 100) n; \
    CREATE TABLE parts (id int, v int) PARTITION BY RANGE (id); CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (50); \
    CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (50) TO (100); INSERT INTO parts SELECT n, n FROM generate_series(1, 99) n; \
    CREATE FUNCTION own(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'";

/// Statements that may give another result when they are executed again, and the reason.
const NOT_AGAIN: &[(&str, &str)] = &[
    ("UPDATE many SET at = now()", "clock"),
    ("UPDATE many SET at = 'today'", "clock"),
    ("UPDATE many SET v = random()", "random"),
    ("UPDATE many SET u = gen_random_uuid()", "random"),
    ("UPDATE many SET v = nextval('numbers')", "sequence"),
    ("UPDATE many SET v = (SELECT v FROM source LIMIT 1)", "limit"),
    ("UPDATE many SET t = (SELECT string_agg(v::text, ',') FROM source)", "aggregate"),
    ("UPDATE many SET v = source.v FROM source WHERE source.id = many.id", "several_matches"),
    ("UPDATE many SET t = xmin::text", "system_column"),
    ("UPDATE many SET v = pg_backend_pid()", "session"),
    ("UPDATE many SET v = own(id)", "unknown_function"),
    ("INSERT INTO many SELECT id, v FROM source ON CONFLICT DO NOTHING", "on_conflict"),
    ("MERGE INTO many USING parent ON parent.id = many.id WHEN MATCHED THEN UPDATE SET v = 3", "form"),
    (
        "WITH gone AS (DELETE FROM source WHERE id = 7 RETURNING v) UPDATE many SET v = (SELECT max(v) FROM gone)",
        "form",
    ),
    ("UPDATE loud SET v = 5", "writes_others"),
    ("DELETE FROM parent WHERE id < 40", "writes_others"),
    ("UPDATE parts SET v = v + 1", "partitions"),
];

#[test]
fn what_may_do_something_else_when_it_is_executed_again_travels_as_rows() {
    let servers = servers(KINDS);
    let (open, mut raw) = stage(&servers, |_| {});
    for (text, why) in NOT_AGAIN {
        understood(&open, &mut raw, text);
        // A statement that may have changed the session has it probed.
        query(&mut raw, "SELECT 1");
        let before = count(&travelled(&open).2, why);
        let told = by_query(&mut raw, text);
        assert_eq!(told, "CZI", "{text}");
        let not_told = travelled(&open).2;
        assert_eq!(count(&not_told, why), before + 1, "{text}: {not_told:?}");
    }
    assert_eq!(are_equal(&servers), Ok(()));
    assert_eq!(travelled(&open).0, 0);
}

#[test]
fn blocks_and_parameters_and_settings_travel() {
    let servers = servers(KINDS);
    servers.query(
        "CREATE ROLE worker LOGIN; CREATE SCHEMA worker AUTHORIZATION worker; \
        CREATE TABLE worker.many (id int PRIMARY KEY, d date); ALTER TABLE worker.many OWNER TO worker; \
        INSERT INTO worker.many SELECT generate_series(1, 30)",
    );
    let (open, mut raw) = stage(&servers, |_| {});
    let double = "UPDATE many SET v = v * 2 WHERE id > 100";
    let less = "DELETE FROM many WHERE v > 300";
    for text in [double, less] {
        understood(&open, &mut raw, text);
    }
    let more =
        "INSERT INTO many SELECT n, n FROM generate_series(101, 200) n WHERE n NOT IN (SELECT id FROM many)";
    understood(&open, &mut raw, more);
    let block = ["BEGIN", double, "SELECT count(*) FROM many", less, more, "COMMIT"];
    until(|| {
        for text in block {
            let told = by_query(&mut raw, text);
            assert!(!told.contains('E'), "{text}: {told}");
        }
        assert_eq!(are_equal(&servers), Ok(()));
        travelled(&open).0 > 0
    });
    let before = travelled(&open).0;
    // Statements that a savepoint may take back are not reported, nor are unknown ones.
    for text in [
        "BEGIN",
        double,
        "SAVEPOINT a",
        double,
        "ROLLBACK TO a",
        "COMMIT",
        "BEGIN",
        double,
        "TRUNCATE source",
        "COMMIT",
    ] {
        by_query(&mut raw, text);
    }
    assert_eq!(are_equal(&servers), Ok(()));
    assert_eq!(travelled(&open).0, before, "{:?}", travelled(&open));
    // Another role's schema, and its date style.
    let mut worker = Raw::ready_as(&open, "worker", "postgres");
    by_query(&mut worker, "SET datestyle = 'SQL, DMY'");
    let dated = "UPDATE many SET d = '03/04/2026' WHERE id > $1";
    let bound = |raw: &mut Raw| {
        raw.ask(|out| {
            out.parse(b"", dated.as_bytes(), &[0, 0, 0, 23]);
            out.bind(b"", b"", &[0, 1, 0, 1, 0, 1, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0]);
            out.describe(Target::Portal, b"");
            out.execute(b"", 0);
            out.sync();
        });
        crate::turns::told(raw)
    };
    let before = travelled(&open).0;
    until(|| {
        assert_eq!(bound(&mut worker), "12nCZI");
        shown(&servers);
        travelled(&open).0 > before
    });
    let sql = "SELECT d::text, count(*) FROM worker.many GROUP BY 1 ORDER BY 1";
    let there = servers.replica(0).query("postgres", sql).unwrap();
    assert_eq!(there[0], [Some("2026-04-03".to_owned()), Some("25".to_owned())]);
    assert_eq!(servers.query(sql), there);
    let steps = open.cluster(|cluster| cluster.courses()[0].steps);
    assert!(steps.undone == 0 && steps.reruns > travelled(&open).0, "three of one transaction: {steps:?}");
}

/// A process applies a reload before Consort finds it: its statements were parsed under other settings, and
/// are not executed again under those.
#[test]
fn what_runs_behind_a_reload_that_is_not_found_yet_travels_as_rows() {
    let servers = servers(
        "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.r (id int PRIMARY KEY, v int); \
         CREATE TABLE b.r (id int PRIMARY KEY, v int); INSERT INTO a.r SELECT generate_series(1, 200), 0; \
         INSERT INTO b.r SELECT generate_series(1, 200), 0",
    );
    let reload = |path: &str| {
        servers.query(&format!("ALTER SYSTEM SET search_path = {path}, public"));
        servers.query("SELECT pg_reload_conf()");
    };
    reload("a");
    let (open, mut raw) = stage(&servers, |_| {});
    let adds = "UPDATE r SET v = v + 1";
    let sums = "SELECT (SELECT sum(v) FROM a.r), (SELECT sum(v) FROM b.r)";
    let are_equal = |path: &str| {
        shown(&servers);
        let there = servers.replica(0).query("postgres", sums).unwrap();
        assert_eq!(there, servers.query(sums), "{path}");
    };
    understood(&open, &mut raw, adds);
    until(|| {
        by_query(&mut raw, adds);
        are_equal("a");
        travelled(&open).0 > 0
    });
    for path in ["b", "a"].into_iter().cycle().take(10) {
        reload(path);
        for _ in 0..5 {
            assert!(!by_query(&mut raw, adds).contains('E'), "{path}");
        }
        are_equal(path);
        understood(&open, &mut raw, adds);
    }
}
