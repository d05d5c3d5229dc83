//! PostgreSQL servers behind a tier: they get its commits, and give them back when the tier has lost everything.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use local_cluster::Stop;
use rustix::process::Signal;
use testkit::{Scratch, program};

use super::{Tier, design};
use crate::fixture::{eventually, psql, run, up_folder};
use crate::load::Client;

/// A server, with an empty database.
struct Server {
    scratch: Scratch,
}

impl Server {
    fn start() -> Server {
        let scratch = Scratch::start(0);
        scratch.query("CREATE DATABASE shop TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'");
        Server { scratch }
    }

    fn url(&self) -> String {
        let node = self.scratch.primary();
        let folder = node.socket_folder().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{}/shop", node.port())
    }

    fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.scratch.query_in("shop", sql)
    }

    fn text(&self, sql: &str) -> String {
        shown(&self.rows(sql))
    }
}

fn shown(rows: &[Vec<Option<String>>]) -> String {
    let line = |row: &Vec<Option<String>>| {
        row.iter().map(|value| value.as_deref().unwrap_or("-")).collect::<Vec<_>>().join("|")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A tier in front of these servers.
fn tier_of(nodes: usize, servers: &[&Server]) -> Tier {
    let tier = Tier { folder: up_folder() };
    up(&tier, nodes, servers);
    tier.until_whole(nodes);
    tier
}

fn up(tier: &Tier, nodes: usize, servers: &[&Server]) {
    let listen = format!("127.0.0.1:{}", tier.folder.port);
    let (nodes, urls) = (nodes.to_string(), servers.iter().map(|server| server.url()).collect::<Vec<_>>());
    let mut arguments = vec!["--listen", &listen, "--design", design(), "--nodes", &nodes];
    for url in &urls {
        arguments.extend(["--back-end", url]);
    }
    tier.folder.run("up", &arguments).worked();
}

/// Rows of a query at the tier, as text.
fn at_tier(tier: &Tier, sql: &str) -> String {
    let rows = tier.client().rows(sql).expect("rows");
    let line = |row: &tokio_postgres::SimpleQueryRow| {
        (0..row.len()).map(|place| row.get(place).unwrap_or("-")).collect::<Vec<_>>().join("|")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn console(tier: &Tier, command: &str) -> Vec<tokio_postgres::SimpleQueryRow> {
    let url = format!("postgres://postgres@127.0.0.1:{}/consort", tier.folder.port);
    Client::connect(&url).and_then(|mut console| console.rows(command)).unwrap_or_default()
}

/// State and reason of the first back end.
fn back_end(tier: &Tier) -> (String, String) {
    let shown = console(tier, "SHOW BACK_ENDS");
    let of = |column| shown.first().and_then(|row| row.get(column)).unwrap_or_default().to_owned();
    (of("state"), of("why"))
}

/// Waits until the back ends have everything, and compares all rows.
fn equal(tier: &Tier) {
    eventually("back ends that have everything", || !console(tier, "WAIT BACK_ENDS").is_empty());
    let said = tier.folder.run("verify", &[]).worked();
    assert!(said.contains("equal"), "{said}");
}

/// Definitions and rows in one transaction, savepoints, moved keys, swapped unique values, computed columns, rows without a key.
const CHANGES: &[&str] = &[
    "CREATE TABLE a (id int PRIMARY KEY, u int UNIQUE, v text DEFAULT 'x')",
    "CREATE TABLE c (k text, n numeric, d double precision, j json)",
    "ALTER TABLE c RENAME TO cc",
    "CREATE TABLE b (id serial PRIMARY KEY, a int REFERENCES a ON UPDATE CASCADE ON DELETE CASCADE, n numeric(10,2))",
    "CREATE TABLE d (x text, y text, t timestamptz, z bytea, f char(5), g boolean, PRIMARY KEY (x, y))",
    "CREATE INDEX ON b (n DESC)",
    "CREATE UNIQUE INDEX ON d (lower(y))",
    "CREATE VIEW w AS SELECT a.id, b.n FROM a JOIN b ON b.a = a.id",
    "INSERT INTO a VALUES (1, 10), (2, 20), (3, 30)",
    "INSERT INTO b (a, n) VALUES (1, 1.5), (1, 2), (2, 3), (3, NULL)",
    "INSERT INTO cc VALUES ('a', 1.0, 0.1, '{\"a\": 1}'), ('a', 1.00, 0.1, '{}'), ('a', 1.0, 0.1, '{\"a\": 1}'), (NULL, NULL, NULL, NULL)",
    "DELETE FROM cc WHERE n = 1.0 AND n::text = '1.00'",
    "INSERT INTO d VALUES ('a', 'b', '2026-01-31 12:34:56.789+00', '\\x00ff', 'q', true), ('t\tb', 'n\nl\\', NULL, NULL, NULL, false)",
    "UPDATE a SET id = id + 100 WHERE id = 1",
    "UPDATE a SET u = CASE u WHEN 20 THEN 31 ELSE 20 END WHERE id IN (2, 3)",
    "BEGIN; UPDATE a SET u = 30 WHERE id = 2; DELETE FROM a WHERE id = 3; INSERT INTO a VALUES (3, 77); COMMIT",
    "BEGIN; INSERT INTO a VALUES (5, 50); SAVEPOINT s; ALTER TABLE cc ADD COLUMN lost int DEFAULT 7; UPDATE cc SET lost = 8; \
     UPDATE a SET u = 51 WHERE id = 5; ROLLBACK TO s; INSERT INTO a VALUES (6, 60); COMMIT",
    "BEGIN; UPDATE b SET n = 9 WHERE id = 2; ALTER TABLE b ADD COLUMN at timestamptz DEFAULT now(); UPDATE b SET n = n + 1; \
     ALTER TABLE b ADD COLUMN r double precision DEFAULT random(); INSERT INTO b (a, n) VALUES (2, 4); COMMIT",
    "BEGIN; CREATE TABLE e (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text); INSERT INTO e (v) VALUES ('p'), ('q'); \
     ALTER TABLE e RENAME COLUMN v TO w; UPDATE e SET w = 'r' WHERE id = 1; COMMIT",
    "CREATE TABLE gone (id int PRIMARY KEY); INSERT INTO gone VALUES (1); DROP TABLE gone",
    "CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) SELECT i FROM generate_series(1, 500) i; DELETE FROM t",
    "INSERT INTO t (v) VALUES (1), (2)",
    "TRUNCATE t RESTART IDENTITY",
    "INSERT INTO t (v) VALUES (3)",
    "DELETE FROM a WHERE id = 101",
    "UPDATE d SET y = 'B', f = 'zz' WHERE x = 'a'",
    "INSERT INTO a VALUES (2, 1) ON CONFLICT (id) DO UPDATE SET v = 'upserted'",
    "ALTER TABLE e ADD COLUMN x int; ALTER TABLE e DROP COLUMN x",
    "CREATE SEQUENCE up; CREATE SEQUENCE down INCREMENT -3; CREATE SEQUENCE tens INCREMENT 10",
    "SELECT setval('up', 1, false), setval('down', -1, false), setval('tens', 5, false)",
    "CREATE TABLE former (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)",
    "ALTER TABLE former RENAME TO g; INSERT INTO g (v) VALUES ('a'), ('b')",
    "CREATE TABLE h (id int PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, v text); INSERT INTO h (id) VALUES (1), (2)",
    "UPDATE h SET n = DEFAULT, v = 'c' WHERE id = 1; UPDATE h SET v = 'd' WHERE id = 2",
];

const TABLES: &[&str] = &["a", "b", "cc", "d", "e", "g", "h", "t", "w"];

fn ordered(table: &str) -> String {
    let by = if table == "cc" { "k, n, n::text" } else { "1, 2" };
    format!("SELECT * FROM {table} ORDER BY {by}")
}

#[test]
fn back_end_gets_rows_and_definitions_in_order() {
    let (server, late) = (Server::start(), Server::start());
    let tier = tier_of(2, &[&server]);
    let mut client = tier.client();
    for change in CHANGES {
        client.rows(change).unwrap_or_else(|error| panic!("{change}: {error:?}"));
    }
    equal(&tier);
    for table in TABLES {
        let sql = ordered(table);
        assert_eq!(server.text(&sql), at_tier(&tier, &sql), "{table}");
    }
    let columns = "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns \
         WHERE table_schema = 'public' ORDER BY 1, ordinal_position";
    let defined = server.text(columns);
    assert!(
        defined.contains("b|at|timestamp with time zone|YES") && defined.contains("d|f|character|YES"),
        "{defined}"
    );
    assert_eq!(server.text("SELECT last_value, is_called FROM t_id_seq"), "1|t");
    let drawn = "SELECT nextval('up'), nextval('down'), nextval('tens')";
    assert_eq!(server.text(&format!("BEGIN; {drawn}")), "1|-1|5");
    server.rows("SELECT setval('up', 1, false), setval('down', -1, false), setval('tens', 5, false)");
    let status = tier.folder.run("status", &[]).worked();
    assert!(status.contains("BACK_END") && status.contains("applies"), "{status}");
    // A back end that comes later gets a copy, and then the same commits.
    tier.folder.run("down", &[]).worked();
    up(&tier, 2, &[&server, &late]);
    tier.until_whole(2);
    eventually("a copy", || late.scratch.query_in("shop", "SELECT to_regclass('e')")[0][0].is_some());
    tier.client().rows("INSERT INTO e (w) VALUES ('late'); UPDATE a SET v = 'late'").expect("a write");
    equal(&tier);
    for table in TABLES {
        let sql = ordered(table);
        assert_eq!(late.text(&sql), server.text(&sql), "{table}");
    }
    assert_eq!(late.text(columns), defined);
    let indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1";
    assert_eq!(late.text(indexes), server.text(indexes));
    // A row that only the back end has is found, by its key.
    late.rows("SET session_replication_role = replica; INSERT INTO a (id, u) VALUES (4711, 4711)");
    let found = tier.folder.run("verify", &[]).failed(1);
    assert!(found.contains("differ"), "{found}");
    assert_eq!(console(&tier, "VERIFY").iter().filter(|row| row.get("first_key") == Some("4711")).count(), 1);
    assert_eq!(late.text(drawn), "1|-1|5");
    // And so is a column that it has lost.
    late.rows(
        "SET session_replication_role = replica; DELETE FROM a WHERE id = 4711; ALTER TABLE d DROP COLUMN g",
    );
    let found = tier.folder.run("verify", &[]).failed(1);
    assert!(
        found.contains("d")
            && console(&tier, "VERIFY").iter().any(|row| {
                row.get("first_key")
                    .is_some_and(|key| key.contains("rows have 6 columns in the tier, 5 at the back end"))
            }),
        "{found}"
    );
}

/// pgbench with four clients.
fn pgbench(tier: &Tier, arguments: &[&str]) -> Command {
    let mut pgbench = program("pgbench");
    let port = tier.folder.port.to_string();
    pgbench.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres"]).args(arguments).arg("postgres");
    pgbench
}

const BALANCES: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches), \
     (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)";

/// A loaded tier goes on while its back end dies and comes back, and while Consort dies: every commit is applied once.
#[test]
fn commits_are_applied_once_while_processes_die() {
    let server = Server::start();
    let tier = tier_of(2, &[&server]);
    run(&mut pgbench(&tier, &["-i", "-I", "dtpg", "-s", "1", "-q"])).worked();
    let stops = AtomicBool::new(false);
    thread::scope(|threads| {
        let load = threads.spawn(|| {
            let mut runs = 0;
            while !stops.load(Ordering::Relaxed) {
                // A run ends when Consort dies.
                runs += u32::from(run(&mut pgbench(&tier, &["-n", "-c", "4", "-t", "300"])).status.success());
            }
            runs
        });
        for round in 0..3 {
            let before = server.text("SELECT version FROM consort.tier");
            eventually("a newer version", || server.text("SELECT version FROM consort.tier") != before);
            server.scratch.primary().kill();
            let seen = tier.nodes()[0].received;
            eventually("commits without the back end", || {
                tier.nodes().iter().any(|node| node.received > seen)
            });
            eventually("a back end that is missed", || back_end(&tier).0 == "away");
            server.scratch.primary().start().expect("the server starts");
            if round > 0 {
                eventually("a back end that is fed", || back_end(&tier).0 == "applies");
                tier.kill_consort();
                up(&tier, 2, &[&server]);
            }
        }
        stops.store(true, Ordering::Relaxed);
        assert!(load.join().expect("the load") > 0, "no run of the load has ended well");
    });
    equal(&tier);
    let balances = server.text(BALANCES);
    assert_eq!(balances, at_tier(&tier, BALANCES));
    let parts: Vec<&str> = balances.split('|').collect();
    assert!(parts[0] == parts[1] && parts[1] == parts[2] && parts[2] == parts[3], "{balances}");
}

/// Another session locks the row with the version: no change may be there before it is.
#[test]
fn rows_and_their_version_are_one_transaction() {
    let server = Server::start();
    let tier = tier_of(2, &[&server]);
    let mut client = tier.client();
    client.rows("CREATE TABLE t (v int)").expect("a table");
    equal(&tier);
    for round in 1..=3 {
        let mut holder = Client::connect(&server.url()).expect("a session at the server");
        holder.rows("BEGIN; SELECT version FROM consort.tier FOR UPDATE").expect("a lock");
        client.rows(&format!("INSERT INTO t VALUES ({round})")).expect("a row");
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'consort disk tier'";
        eventually("a feed that waits for the row", || server.text(waits) == "1");
        assert_eq!(server.text("SELECT count(*) FROM t"), (round - 1).to_string());
        server.scratch.primary().kill();
        server.scratch.primary().start().expect("the server starts");
        equal(&tier);
        assert_eq!(server.text("SELECT count(*) FROM t"), round.to_string());
    }
}

/// Nodes, Consort and log are lost. What the back end has is there again, and nothing of it is lost when that is cut short.
#[test]
fn tier_restarts_from_its_back_end_when_memory_and_log_are_lost() {
    let server = Server::start();
    let tier = tier_of(2, &[&server]);
    let mut client = tier.client();
    for change in CHANGES {
        client.rows(change).expect("a change");
    }
    client.rows("CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree)").expect("a table");
    client
        .rows("INSERT INTO tree SELECT i, nullif(i % 100, i) FROM generate_series(0, 5000) i")
        .expect("rows");
    equal(&tier);
    let before: Vec<String> = TABLES.iter().map(|table| at_tier(&tier, &ordered(table))).collect();
    let version: u64 = server.text("SELECT version FROM consort.tier").parse().expect("a version");
    for node in tier.nodes() {
        tier.signal(&node.name, Signal::KILL);
    }
    tier.kill_consort();
    fs::remove_dir_all(tier.folder.path().join("ledger")).expect("the log goes");
    // Without the back end the tier must not begin as an empty one.
    server.scratch.primary().stop(Stop::Immediate).expect("it stops");
    let listen = format!("127.0.0.1:{}", tier.folder.port);
    let refused =
        tier.folder.run("up", &["--listen", &listen, "--design", design(), "--nodes", "2"]).failed(1);
    assert!(refused.contains("may have the data"), "{refused}");
    server.scratch.primary().start().expect("it starts");
    up(&tier, 2, &[&server]);
    tier.until_whole(2);
    eventually("a tier that lets clients in", || psql(&tier.url(), "SELECT 1").status.success());
    let after: Vec<String> = TABLES.iter().map(|table| at_tier(&tier, &ordered(table))).collect();
    assert_eq!(after, before);
    assert!(tier.nodes()[0].received > version, "versions go on above {version}");
    // Sequences go on, keys hold, and the back end gets what comes.
    let mut client = tier.client();
    let next = client.number("INSERT INTO t (v) VALUES (4) RETURNING id").expect("a row");
    assert_eq!(next, 2);
    assert_eq!(client.number("INSERT INTO g (v) VALUES ('c') RETURNING id").expect("a row"), 3);
    client.rows("INSERT INTO g (id) VALUES (9)").expect_err("a value for GENERATED ALWAYS");
    assert_eq!(client.number("SELECT nextval('up')").expect("a value"), 1);
    let orphan = client.rows("INSERT INTO b (a) VALUES (4711)").expect_err("no such parent");
    assert_eq!(orphan.sqlstate.as_deref(), Some("23503"));
    let orphan = client.rows("INSERT INTO tree VALUES (-1, 4711111)").expect_err("no such parent");
    assert_eq!(orphan.sqlstate.as_deref(), Some("23503"));
    equal(&tier);
    assert_eq!(server.text("SELECT count(*) FROM t"), "2");
    // The log wins when it is there.
    tier.folder.run("down", &[]).worked();
    up(&tier, 2, &[&server]);
    tier.until_whole(2);
    equal(&tier);
}

#[test]
fn back_end_that_refuses_a_row_stops_by_name_and_the_tier_goes_on() {
    let server = Server::start();
    let tier = tier_of(2, &[&server]);
    let mut client = tier.client();
    client.rows("CREATE TABLE t (id int PRIMARY KEY, v text)").expect("a table");
    client.rows("INSERT INTO t VALUES (1, 'a')").expect("a row");
    equal(&tier);
    server.rows("INSERT INTO t VALUES (2, 'of others')");
    for id in [3, 2, 4] {
        client.rows(&format!("INSERT INTO t VALUES ({id}, 'b')")).expect("a row");
    }
    eventually("a back end that stops", || back_end(&tier).0 == "stopped");
    let why = back_end(&tier).1;
    assert!(why.contains("version") && why.contains("\"t\"") && why.contains("23505"), "{why}");
    assert_eq!(server.text("SELECT id FROM t ORDER BY 1"), "1\n2\n3");
    client.rows("INSERT INTO t VALUES (5, 'c')").expect("the tier goes on");
    let down = console(&tier, "WAIT BACK_ENDS");
    assert!(down.is_empty(), "it does not wait for what does not come");
    // The feed goes on when the row is corrected.
    server.rows("DELETE FROM t WHERE id = 2");
    eventually("a back end that goes on", || back_end(&tier).0 == "applies");
    equal(&tier);
    let done = tier.folder.run("down", &[]);
    assert!(done.err.contains("has everything"), "{done:?}");
    assert_eq!(server.text("SELECT id FROM t ORDER BY 1"), "1\n2\n3\n4\n5");
}

#[test]
fn import_lists_what_is_not_taken_and_brings_the_rest() {
    let server = Server::start();
    server.rows(
        "CREATE TABLE parent (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name varchar(20) NOT NULL UNIQUE, \
             at timestamptz DEFAULT now(), CHECK (length(name) > 1)); \
         CREATE TABLE child (id bigserial PRIMARY KEY, parent int NOT NULL REFERENCES parent ON DELETE CASCADE, n numeric(8,2)); \
         CREATE INDEX ON child (parent, n DESC); \
         CREATE VIEW both_of AS SELECT p.name, c.n FROM parent p JOIN child c ON c.parent = p.id; \
         INSERT INTO parent (name) SELECT 'name ' || i FROM generate_series(1, 50) i; \
         INSERT INTO child (parent, n) SELECT 1 + i % 50, i / 7.0 FROM generate_series(1, 5000) i; \
         CREATE TABLE odd (id int PRIMARY KEY, place point); \
         CREATE SEQUENCE numbers; SELECT setval('numbers', 70, false); CREATE SEQUENCE rounds MAXVALUE 9 CYCLE",
    );
    let tier = Tier::start(2);
    let from = server.url();
    // A policy would hide rows from a role that asks for them.
    let hidden = Server::start();
    hidden.rows(
        "CREATE TABLE hidden (id int PRIMARY KEY); INSERT INTO hidden VALUES (1); ALTER TABLE hidden ENABLE ROW LEVEL SECURITY; \
         CREATE ROLE reader LOGIN; GRANT SELECT ON hidden TO reader",
    );
    let as_reader = hidden.url().replace("postgres@", "reader@");
    let refused = tier.folder.run("import-tier", &["--from", &as_reader]).failed(1);
    assert!(refused.contains("row-level security"), "{refused}");
    let dry = tier.folder.run("import-tier", &["--from", &from, "--dry-run"]).worked();
    assert!(dry.contains("sequence rounds") && dry.contains("MAXVALUE"), "{dry}");
    assert!(dry.contains("odd") && dry.contains("NOT taken") && dry.contains("table child: taken"), "{dry}");
    tier.folder.run("import-tier", &["--from", &from]).failed(1);
    assert!(tier.client().rows("SELECT 1 FROM parent").is_err(), "nothing was written");
    tier.folder.run("import-tier", &["--from", &from, "--leave-out"]).worked();
    for table in ["parent", "child", "both_of"] {
        let sql = format!("SELECT * FROM {table} ORDER BY 1, 2");
        assert_eq!(at_tier(&tier, &sql), server.text(&format!("SET timezone = 'UTC'; {sql}")), "{table}");
    }
    let mut client = tier.client();
    assert_eq!(client.number("INSERT INTO child (parent) VALUES (1) RETURNING id").expect("a row"), 5001);
    assert_eq!(client.number("INSERT INTO parent (name) VALUES ('new') RETURNING id").expect("a row"), 51);
    assert_eq!(client.number("SELECT nextval('numbers')").expect("a value"), 70);
    for refused in ["INSERT INTO child (parent) VALUES (99)", "INSERT INTO parent (name) VALUES ('x')"] {
        client.rows(refused).expect_err("a rule");
    }
    assert!(psql(&tier.url(), "DELETE FROM parent WHERE id = 1").status.success());
    assert_eq!(client.number("SELECT count(*) FROM child WHERE parent = 1").expect("a count"), 0);
    let again = tier.folder.run("import-tier", &["--from", &from, "--leave-out"]).failed(1);
    assert!(again.contains("is in the tier already"), "{again}");
}
