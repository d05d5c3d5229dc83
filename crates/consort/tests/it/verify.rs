//! `consort verify`: logical replicas are compared with the primary while writers go on; a table that differs
//! is named, serves nothing any more, and is copied again on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use local_cluster::Options;
use testkit::Scratch;

use crate::fixture::{Serving, eventually};
use crate::load::{Client, Console, Load, TABLES, THROUGH, served};
use crate::replicas::number;

/// Consort in front of a primary, a standby and two replicas, which are fed.
fn serving() -> (Serving, Console, String) {
    let servers = Scratch::with(Options { standbys: 1, replicas: 2, ..Scratch::options() });
    let serving = Serving::over(servers, THROUGH);
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).expect("the tables can be made");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    are_fed(&mut console);
    (serving, console, url)
}

fn are_fed(console: &mut Console) {
    for replica in ["replica1", "replica2"] {
        eventually("a replica that is fed", || {
            let feed = console.feed(replica, "postgres");
            matches!(feed.state.as_str(), "feeding" | "serving") && feed.version == feed.newest_version
        });
    }
}

/// Runs SQL in one transaction, and waits until its last table has its rows at the replicas.
fn made(serving: &Serving, url: &str, sql: &str, last: &str) {
    Client::connect(url).and_then(|mut client| client.rows(sql)).expect("the tables can be made");
    for replica in 0..2 {
        let rows = format!("SELECT FROM {last}");
        let is_there =
            || serving.servers.replica(replica).query("postgres", &rows).is_ok_and(|rows| !rows.is_empty());
        eventually("rows that arrive", is_there);
    }
}

/// Each row of VERIFY's answer as `node table state what first_key`.
fn found(console: &mut Console, command: &str) -> Vec<String> {
    let columns = ["node", "table", "state", "what", "first_key"];
    let line = |row: &tokio_postgres::SimpleQueryRow| {
        columns.map(|column| row.get(column).unwrap_or_default()).join("|")
    };
    console.rows(command).iter().map(line).collect()
}

/// Writers of an account table: transfers, and rows that come and go.
struct Writers {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

const ACCOUNTS: &str = "CREATE TABLE account (id int PRIMARY KEY, n bigint NOT NULL); \
    INSERT INTO account SELECT n, 100 FROM generate_series(1, 1000) n; \
    CREATE TABLE note (v text, n int); CREATE UNLOGGED TABLE draft (v text); \
    CREATE MATERIALIZED VIEW rich AS SELECT count(*) FROM account";

impl Writers {
    fn start(url: &str) -> Writers {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let spawn = |number: u64| {
            let (stop, written, url) = (stop.clone(), written.clone(), url.to_owned());
            std::thread::spawn(move || {
                let mut client = Client::connect(&url).expect("a log-in");
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (one, other) =
                        ((round * 7 + number) % 1000 + 1, (round * 13 + number * 3) % 1000 + 1);
                    let (one, other) = (one.min(other), one.max(other));
                    client
                        .rows(&format!(
                            "BEGIN; UPDATE account SET n = n - 1 WHERE id = {one}; \
                             INSERT INTO note VALUES ('{number}', {round}); \
                             DELETE FROM note WHERE v = '{number}' AND n < {round} - 20; \
                             UPDATE account SET n = n + 1 WHERE id = {other}; COMMIT"
                        ))
                        .expect("a write");
                    written.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let threads = (0..4).map(spawn).collect();
        Writers { stop, written, threads }
    }

    fn count(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a writer"));
    }
}

#[test]
fn nothing_differs_while_writers_go_on() {
    let (serving, mut console, url) = serving();
    Client::connect(&url).unwrap().rows(ACCOUNTS).unwrap();
    let (load, writers) = (Load::start(&url), Writers::start(&url));
    for _ in 0..8 {
        let before = writers.count();
        let lines = found(&mut console, "VERIFY postgres");
        assert!(lines[0].starts_with("standby1||left out|a physical standby:"), "{lines:?}");
        for replica in ["replica1", "replica2"] {
            for table in ["account", "counter", "note", "quiet"] {
                let line = format!("{replica}|public.{table}|equal||");
                assert!(lines.contains(&line), "{line}: {lines:?}");
            }
        }
        let left_out = |line: &&String| line.contains("|left out|");
        assert_eq!(lines.iter().filter(left_out).count(), 1 + 2 * 2, "{lines:?}");
        assert_eq!(lines.len(), 1 + 2 * 6, "{lines:?}");
        load.goes_on(5, 2);
        eventually("writers that go on", || writers.count() > before + 50);
    }
    writers.end();
    load.end();
    let said = serving.run("verify", &[]).worked();
    assert!(said.contains("public.account") && !said.contains("differs"), "{said}");
}

/// Changes at a replica past Consort, and the finding for each.
const PLANTED: &[(&str, &str)] = &[
    ("DELETE FROM p1 WHERE id = 300", "a row is missing at the replica|(id) = (300)"),
    ("DELETE FROM p2", "a row is missing at the replica|(id) = (1)"),
    ("INSERT INTO p3 VALUES (0)", "a row exists at the replica only|(id) = (0)"),
    ("INSERT INTO p4 VALUES (9999)", "a row exists at the replica only|(id) = (9999)"),
    ("UPDATE p5 SET v = v || ' ' WHERE id = 1000", "a row differs in v|(id) = (1000)"),
    ("UPDATE p6 SET v = '' WHERE id IN (500, 501)", "a row differs in v|(id) = (500)"),
    ("UPDATE p7 SET v = NULL WHERE id = 1", "a row differs in v|(id) = (1)"),
    ("UPDATE p8 SET n = 1.00 WHERE id = 1", "a row differs in n|(id) = (1)"),
    ("UPDATE p9 SET b = '\\x00' WHERE id = 2", "a row differs in b|(id) = (2)"),
    ("UPDATE p10 SET v = 'x', n = 0 WHERE id = 77", "a row differs in v, n|(id) = (77)"),
    ("UPDATE p11 SET id = -id WHERE id = 600", "a row exists at the replica only|(id) = (-600)"),
    ("UPDATE p12 SET b = NULL", "a row differs in b|(id) = (1)"),
    ("ALTER TABLE p13 DROP COLUMN v", "has no column v text at the replica|"),
    ("ALTER TABLE p14 ADD COLUMN w int", "has a column w integer at the replica only|"),
    ("DROP TABLE p15", "does not exist at the replica|"),
    ("TRUNCATE p16", "a row is missing at the replica|(id) = (1)"),
    (
        "DELETE FROM bare WHERE ctid = (SELECT max(ctid) FROM bare WHERE v = 'a')",
        "the primary has a row 3 times, the replica 2 times|(v) = (a)",
    ),
    ("INSERT INTO none DEFAULT VALUES", "the primary has a row 1 times, the replica 2 times|() = ()"),
    ("DELETE FROM part WHERE id = 5", "a row is missing at the replica|(id) = (5)"),
    ("CREATE TABLE mine (id int)", "exists at the replica only|"),
];

fn planted() -> String {
    let table = |number: usize| {
        format!(
            "CREATE TABLE p{number} (id int PRIMARY KEY, v text, n numeric, b bytea); \
             INSERT INTO p{number} SELECT n, 'it is ' || n, 1.0, '\\x0000' FROM generate_series(1, 1000) n;"
        )
    };
    let tables: String = (1..=16).map(table).collect();
    format!(
        "{tables} CREATE TABLE bare (v text); INSERT INTO bare VALUES ('a'), ('b'), ('a'), ('a'); \
         CREATE TABLE none (); INSERT INTO none DEFAULT VALUES; \
         CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id); \
         CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (10); \
         INSERT INTO whole SELECT n FROM generate_series(1, 9) n"
    )
}

#[test]
fn what_differs_is_named_serves_nothing_and_is_repaired() {
    let (serving, mut console, url) = serving();
    made(&serving, &url, &planted(), "part");
    let load = Load::start(&url);
    for (plant, _) in PLANTED {
        serving.servers.replica(0).query("postgres", plant).unwrap();
    }
    let lines = found(&mut console, "VERIFY");
    let differ: Vec<_> = lines.iter().filter(|line| line.contains("|differs|")).collect();
    assert_eq!(differ.len(), PLANTED.len(), "{differ:#?}");
    for (plant, said) in PLANTED {
        let named =
            |line: &&&String| line.starts_with("replica1|") && line.ends_with(&format!("|differs|{said}"));
        assert!(differ.iter().any(|line| named(&line)), "{plant}: {said}: {differ:#?}");
    }
    eventually("a replica that has failed", || console.feed("replica1", "postgres").state == "failed");
    assert_eq!(console.feed("replica2", "postgres").state, "serving");
    load.goes_on(20, 10);
    let said = serving.run("verify", &["postgres"]).failed_saying(1);
    assert!(said.contains("differs"), "what has failed differs still: {said}");
    let said = serving.run("verify", &["postgres", "--repair"]).worked();
    assert!(said.contains("repaired") && !said.contains("differs"), "{said}");
    load.goes_on(20, 10);
    load.end();
    let said = serving.run("verify", &["--json"]).worked();
    assert!(said.contains("\"state\": \"equal\"") && !said.contains("differs"), "{said}");
}

#[test]
fn what_differs_is_repaired_at_once() {
    let (serving, mut console, url) = serving();
    let spare = "CREATE TABLE spare (id int PRIMARY KEY, v int); INSERT INTO spare VALUES (1, 7)";
    made(&serving, &url, spare, "spare");
    let load = Load::start(&url);
    serving.servers.replica(1).query("postgres", "UPDATE spare SET v = 8").unwrap();
    let lines = found(&mut console, "VERIFY postgres REPAIR");
    let what = "a row differs in v; rows inserted: 0, replaced: 1, deleted: 0";
    let line = format!("replica2|public.spare|repaired|{what}|(id) = (1)");
    assert!(lines.contains(&line), "{lines:?}");
    assert!(lines.contains(&"replica1|public.spare|equal||".to_owned()), "{lines:?}");
    assert!(found(&mut console, "VERIFY").iter().all(|line| !line.contains("|differs|")));
    load.goes_on(20, 10);
    load.end();
}

#[test]
fn what_cannot_be_compared_is_said() {
    let (serving, mut console, _) = serving();
    serving.servers.replica(0).hang();
    eventually("a replica that is left", || console.feed("replica1", "postgres").state == "waiting");
    let said = serving.run("verify", &[]).failed_saying(1);
    assert!(said.contains("unreached") && said.contains("could not be compared"), "{said}");
    let lines = found(&mut console, "VERIFY");
    assert!(lines.contains(&"replica2|public.quiet|equal||".to_owned()), "{lines:?}");
    let said = serving.run("verify", &["nothing"]).failed(1);
    assert!(said.contains("Consort does not follow a database named nothing"), "{said}");
    serving.servers.replica(0).resume();
}

/// Changes at a replica past Consort, the table, and the report of the repair.
const BY_ROWS: &[(&str, &str, &str)] = &[
    (
        "DELETE FROM p1 WHERE id IN (300, 301)",
        "p1",
        "a row is missing at the replica; rows inserted: 2, replaced: 0, deleted: 0|(id) = (300)",
    ),
    (
        "INSERT INTO p2 VALUES (-5), (5000)",
        "p2",
        "a row exists at the replica only; rows inserted: 0, replaced: 0, deleted: 2|(id) = (-5)",
    ),
    (
        "UPDATE p3 SET v = NULL, n = NULL WHERE id < 6",
        "p3",
        "a row differs in v, n; rows inserted: 0, replaced: 5, deleted: 0|(id) = (1)",
    ),
    (
        "UPDATE p4 SET id = -id WHERE id = 600",
        "p4",
        "a row exists at the replica only; rows inserted: 1, replaced: 0, deleted: 1|(id) = (-600)",
    ),
    (
        "UPDATE wide SET v = v || 'x' WHERE id = 2; UPDATE wide SET k = 8 WHERE id = 3",
        "wide",
        "a row differs in v; rows inserted: 0, replaced: 2, deleted: 0|(id) = (2)",
    ),
    (
        "UPDATE own SET code = 0 WHERE id = 1; UPDATE own SET code = 1 WHERE id = 2; \
         UPDATE own SET code = 2 WHERE id = 1",
        "own",
        "a row differs in code; rows inserted: 0, replaced: 2, deleted: 0|(id) = (1)",
    ),
    (
        "DELETE FROM account WHERE id = 5000",
        "account",
        "a row is missing at the replica; rows inserted: 1, replaced: 0, deleted: 0|(id) = (5000)",
    ),
];

/// Large values and a generated column; a second unique key.
const WIDE: &str = "CREATE TABLE wide (id int PRIMARY KEY, v text, k int, twice int GENERATED ALWAYS AS (k * 2) STORED); \
    ALTER TABLE wide ALTER v SET STORAGE EXTERNAL; \
    INSERT INTO wide SELECT n, repeat(md5(n::text), 1000), n FROM generate_series(1, 5) n; \
    CREATE TABLE own (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code int UNIQUE); \
    INSERT INTO own (code) SELECT n FROM generate_series(1, 5) n";

#[test]
fn rows_alone_are_repaired_while_writers_go_on() {
    let (serving, mut console, url) = serving();
    let tables = format!("{ACCOUNTS}; INSERT INTO account VALUES (5000, 0); {WIDE}; {}", planted());
    made(&serving, &url, &tables, "part");
    let node = serving.servers.replica(0);
    let (load, writers) = (Load::start(&url), Writers::start(&url));
    let copy = number(node);
    for (plant, ..) in BY_ROWS {
        node.query("postgres", plant).unwrap();
    }
    let lines = found(&mut console, "VERIFY postgres REPAIR");
    for (plant, table, said) in BY_ROWS {
        let line = format!("replica1|public.{table}|repaired|{said}");
        assert!(lines.contains(&line), "{plant}: {line}: {lines:#?}");
    }
    assert_eq!(lines.iter().filter(|line| line.contains("|repaired|")).count(), BY_ROWS.len(), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("|differs|")), "{lines:#?}");
    assert_eq!(number(node), copy, "nothing was copied");
    // The replica serves again, and writers go on.
    let (before, written) = (served(&mut console, "replica1"), writers.count());
    eventually("reads at the replica", || served(&mut console, "replica1") > before + 20);
    eventually("writers that go on", || writers.count() > written + 50);
    load.goes_on(20, 10);
    let lines = found(&mut console, "VERIFY postgres");
    assert!(!lines.iter().any(|line| line.contains("|differs|")), "{lines:#?}");
    assert_eq!(number(node), copy, "nothing was copied");
    // If rows cannot be told apart, everything is copied again, with any further difference.
    node.query("postgres", "DELETE FROM bare WHERE v = 'b'; DELETE FROM p1").unwrap();
    let lines = found(&mut console, "VERIFY postgres REPAIR");
    let line = "replica1|public.p1|repaired|a row is missing at the replica; the database was copied again|(id) = (1)";
    assert!(lines.contains(&line.to_owned()), "{lines:#?}");
    assert_ne!(number(node), copy, "it was copied");
    writers.end();
    load.goes_on(20, 10);
    load.end();
    assert!(found(&mut console, "VERIFY").iter().all(|line| !line.contains("|differs|")));
}
