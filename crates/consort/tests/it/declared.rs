//! The design in which transactions declare their tables and replicas follow in the order of the tables' versions.

use std::sync::Arc;

use local_cluster::Options;
use testkit::Scratch;

use crate::fixture::{Serving, eventually, load, psql};
use crate::load::{Client, Console, kill_a_backend, past, served};
use crate::ordered::{all_execute, become_equal, pgbench, pgbench_tables, serving_as, sqlstate, verified};
use crate::waiting::named;

const TABLES: &str = "CREATE TABLE parent (id serial PRIMARY KEY, v int NOT NULL UNIQUE, at timestamptz); \
    CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent int NOT NULL REFERENCES parent ON DELETE CASCADE); \
    CREATE TABLE apart (id int PRIMARY KEY, v int)";

fn design() -> &'static str {
    named(|design| design.declares_tables())
}

fn serving(lines: &str) -> (Serving, Console, String) {
    serving_as(design(), lines)
}

/// An address whose sessions declare these tables.
fn declaring(url: &str, reads: &str, writes: &str) -> String {
    format!("{url}?options=-c%20consort.tables_read%3D{reads}%20-c%20consort.tables_written%3D{writes}")
}

#[test]
fn followers_are_equal_behind_pgbench_and_after_a_death() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 2, ..Scratch::options() });
    pgbench_tables(&servers);
    let lines =
        format!("design = \"{}\"\nattach_on_first_use = true\nreplica_wait_timeout = \"60s\"\n", design());
    let serving = Serving::over(Arc::new(servers), &lines);
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_execute(&mut console);
    let written = "pgbench_accounts,pgbench_branches,pgbench_tellers,pgbench_history";
    let url = declaring(&url, "", written);
    for protocol in ["simple", "extended", "prepared"] {
        let said = pgbench(&url, &["-T", "3", "-M", protocol]).worked();
        assert!(said.contains("number of failed transactions: 0"), "{said}");
    }
    verified(&serving);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| pgbench(&url, &["-T", "10", "-b", "tpcb-like@2", "-b", "select-only@2"]));
        serving.servers.replica(0).kill();
        eventually("a replica that is left", || console.feed("replica1", "postgres").state != "executing");
        serving.servers.replica(0).start().unwrap();
        let said = load.join().expect("it ends").worked();
        assert!(said.contains("number of failed transactions: 0"), "{said}");
    });
    all_execute(&mut console);
    pgbench(&url, &["-t", "5"]).worked();
    become_equal(&serving, "pgbench_history");
    verified(&serving);
}

#[test]
fn what_a_transaction_has_not_declared_is_refused_and_nothing_of_it_is_done() {
    let (serving, _console, url) = serving("");
    let mut client = Client::connect(&url).unwrap();
    for sql in TABLES.split("; ") {
        client.rows(sql).unwrap();
    }
    client.rows("BEGIN").unwrap();
    assert_eq!(sqlstate(&mut client, "SELECT v FROM apart"), "55000", "nothing is declared");
    assert_eq!(sqlstate(&mut client, "SELECT v FROM apart"), "25P02");
    client.rows("ROLLBACK").unwrap();
    let said = psql(&url, "/* consort: tables_read = 'parent' */ SELECT v FROM apart").failed(1);
    assert!(said.contains("was not declared") && said.contains("HINT:"), "{said}");
    for (reads, writes, sql) in [
        ("apart", "", "INSERT INTO apart VALUES (1, 1)"),
        ("apart", "", "SELECT v FROM apart FOR UPDATE"),
        ("parent", "", "SELECT v FROM apart"),
        ("", "apart", "SELECT v FROM parent"),
        ("apart", "parent", "INSERT INTO parent (v) VALUES (1)"),
        ("", "parent, parent_id_seq", "DELETE FROM parent"),
        ("", "parent", "DROP TABLE apart"),
    ] {
        client.rows(&format!("SET consort.tables_read = '{reads}'")).unwrap();
        client.rows(&format!("SET consort.tables_written = '{writes}'")).unwrap();
        client.rows("BEGIN").unwrap();
        assert_eq!(sqlstate(&mut client, sql), "55000", "{sql} with {reads} and {writes}");
        client.rows("COMMIT").unwrap();
    }
    let trouble = client.rows("SET consort.tables_read = 'a b'").unwrap_err();
    assert_eq!(trouble.sqlstate.as_deref(), Some("22023"));
    client.rows("SET consort.tables_written = 'nothing'").unwrap();
    client.rows("BEGIN").unwrap();
    assert_eq!(sqlstate(&mut client, "SELECT v FROM apart"), "42P01");
    client.rows("ROLLBACK").unwrap();
    // Declared for one transaction, in it; a part that it did not declare is not done, and the rest of it is.
    client.rows("RESET consort.tables_written").unwrap();
    for sql in [
        "BEGIN",
        "SET LOCAL consort.tables_written = 'apart'",
        "INSERT INTO apart VALUES (1, 1)",
        "SAVEPOINT s",
    ] {
        client.rows(sql).unwrap();
    }
    assert_eq!(sqlstate(&mut client, "INSERT INTO parent (v) VALUES (1)"), "55000");
    client.rows("ROLLBACK TO s").unwrap();
    for sql in ["INSERT INTO apart VALUES (3, 3)", "ROLLBACK TO s", "INSERT INTO apart VALUES (2, 2)"] {
        client.rows(sql).unwrap();
    }
    client.rows("COMMIT").unwrap();
    assert_eq!((become_equal(&serving, "apart"), become_equal(&serving, "parent")), (2, 0));
    verified(&serving);
}

#[test]
fn what_is_declared_is_executed_by_all() {
    let (serving, _console, url) = serving("");
    let mut client = Client::connect(&url).unwrap();
    for sql in TABLES.split("; ") {
        client.rows(sql).unwrap();
    }
    for sql in [
        "INSERT INTO parent (v) VALUES (1), (2), (3)",
        "INSERT INTO parent (v, at) VALUES (4, now()), (5, CURRENT_TIMESTAMP)",
        "INSERT INTO child (parent) VALUES (1), (2), (2)",
        "DELETE FROM parent WHERE id = 1",
        "SELECT nextval('parent_id_seq')",
        "ALTER TABLE parent ADD COLUMN note text DEFAULT 'none'",
        "INSERT INTO parent (v, note) VALUES (50, 'x') ON CONFLICT (v) DO NOTHING",
        "SET consort.tables_written = 'parent, child, parent_id_seq'",
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "SELECT count(*) FROM child",
        "INSERT INTO parent (v, at) VALUES (60, now())",
        "SAVEPOINT s",
        "INSERT INTO child (parent) VALUES (2)",
    ] {
        client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
    }
    assert_eq!(sqlstate(&mut client, "INSERT INTO child (parent) VALUES (999)"), "23503");
    assert_eq!(sqlstate(&mut client, "SELECT 1"), "25P02");
    for sql in [
        "ROLLBACK TO s",
        "SET datestyle = 'SQL, DMY'",
        "INSERT INTO parent (v, at) VALUES (61, '02/03/2001')",
        "COMMIT",
    ] {
        client.rows(sql).unwrap();
    }
    for sql in [
        "BEGIN",
        "INSERT INTO parent (v) VALUES (70)",
        "ROLLBACK",
        "BEGIN",
        "INSERT INTO parent (v) VALUES (80)",
        "COMMIT AND CHAIN",
        "INSERT INTO parent (v) VALUES (81)",
        "COMMIT",
        "SET consort.tables_written = '*'",
        "BEGIN",
        "ALTER TABLE child ADD COLUMN w int",
        "COMMIT",
        "INSERT INTO child (parent, w) VALUES (2, 7)",
    ] {
        client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
    }
    assert_eq!(become_equal(&serving, "parent"), 9);
    become_equal(&serving, "child");
    verified(&serving);
    let last = "SELECT last_value FROM child_id_seq";
    let at = |node: &local_cluster::Node| node.query("postgres", last).unwrap();
    // Also the numbers of a failed statement.
    assert_eq!(at(serving.servers.primary()), at(serving.servers.replica(1)));
}

#[test]
fn what_comments_declare_counts_as_set_local_would() {
    let (serving, _console, url) = serving("");
    let mut client = Client::connect(&url).unwrap();
    for sql in TABLES.split("; ") {
        client.rows(sql).unwrap();
    }
    for sql in [
        "BEGIN /* consort: tables_read = 'parent', tables_written = 'apart' */",
        "SELECT count(*) FROM parent",
        "INSERT INTO apart VALUES (1, 1)",
        "COMMIT",
        "/* app */ /* Consort: tables_written='apart' */ START TRANSACTION",
        "INSERT INTO apart VALUES (2, 2)",
        "COMMIT",
        "/* consort: tables_written = 'apart' */ INSERT INTO apart VALUES (3, 3)",
        "/* consort: tables_read = '*' */ SELECT count(*) FROM parent JOIN apart USING (id)",
    ] {
        client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
    }
    assert_eq!(client.rows("SHOW consort.tables_written").unwrap()[0].get(0), Some(""), "it has ended");
    for (sql, state) in [
        ("/* consort: tables_read = 'parent' */ INSERT INTO apart VALUES (4, 4)", "55000"),
        ("/* consort: tables_written = 'apart' */ SELECT count(*) FROM parent", "55000"),
        ("/* consort: tables_written = 'nothing' */ INSERT INTO apart VALUES (4, 4)", "42P01"),
        ("/* consort: table_written = 'apart' */ INSERT INTO apart VALUES (4, 4)", "42704"),
        ("/* consort: tables_written = 'a b' */ INSERT INTO apart VALUES (4, 4)", "42704"),
        ("BEGIN /* consort: tables_reed = 'apart' */", "42704"),
    ] {
        assert_eq!(sqlstate(&mut client, sql), state, "{sql}");
    }
    let trouble = client.rows("BEGIN /* consort: tables_reed = 'apart' */").unwrap_err();
    assert!(trouble.text.contains("tables_reed"), "{trouble:?}");
    // In the middle of a block it comes too late.
    client.rows("BEGIN /* consort: tables_written = 'apart' */").unwrap();
    assert_eq!(sqlstate(&mut client, "/* consort: tables_written = 'apart' */ DELETE FROM apart"), "55000");
    client.rows("ROLLBACK").unwrap();
    client.rows("BEGIN /* consort: tables_written = 'apart' */").unwrap();
    assert_eq!(sqlstate(&mut client, "SELECT count(*) FROM parent"), "55000");
    client.rows("ROLLBACK").unwrap();
    assert_eq!(become_equal(&serving, "apart"), 3);
    verified(&serving);
}

#[test]
fn a_read_waits_at_its_replica_for_what_was_committed_before_it() {
    let (serving, mut console, url) = serving("");
    let mut writer = Client::connect(&url).unwrap();
    let mut reader = Client::connect(&url).unwrap();
    writer.rows("CREATE TABLE a (id int PRIMARY KEY, v int)").unwrap();
    writer.rows("CREATE TABLE b (id int PRIMARY KEY, v int)").unwrap();
    writer.rows("INSERT INTO a VALUES (1, 0)").unwrap();
    writer.rows("INSERT INTO b VALUES (1, 0)").unwrap();
    all_execute(&mut console);
    writer.rows("SET consort.tables_written = 'a, b'").unwrap();
    for round in 1..=100 {
        for sql in ["BEGIN", "UPDATE a SET v = v + 1", "UPDATE b SET v = v + 1", "COMMIT"] {
            writer.rows(sql).unwrap();
        }
        for sql in ["SELECT v FROM a", "SELECT a.v FROM a JOIN b ON a.v = b.v"] {
            assert_eq!(reader.number(sql).unwrap(), round, "{sql}");
        }
    }
    let at_replicas = |console: &mut Console| {
        let routes = console.rows("SHOW ROUTES");
        routes.iter().any(|row| row.get("node").is_some_and(|node| node.starts_with("replica")))
    };
    eventually("reads at a replica", || {
        assert_eq!(reader.number("SELECT v FROM b").unwrap(), 100);
        at_replicas(&mut console)
    });
    let counted =
        |console: &mut Console| (1..3).map(|n| served(console, &format!("replica{n}"))).sum::<u64>();
    assert!(counted(&mut console) > 0, "and they are counted");
    // A replica that is held up delays no client: a commit is answered, and reads run elsewhere.
    let node = serving.servers.replica(0);
    let holds = past(node);
    let mut holder = Client::connect(&holds).unwrap();
    holder.rows("BEGIN; LOCK TABLE a IN ACCESS EXCLUSIVE MODE").unwrap();
    for round in 101..=120 {
        writer.rows("UPDATE a SET v = v + 1").unwrap();
        assert_eq!(reader.number("SELECT v FROM a").unwrap(), round);
    }
    holder.rows("ROLLBACK").unwrap();
    assert_eq!(become_equal(&serving, "a"), 1);
    verified(&serving);
}

#[test]
fn who_comes_later_waits_no_longer_than_the_limit() {
    let (serving, _console, url) = serving("replica_wait_timeout = \"1s\"\n");
    let mut one = Client::connect(&url).unwrap();
    let mut other = Client::connect(&declaring(&url, "", "a")).unwrap();
    one.rows("CREATE TABLE a (v int)").unwrap();
    one.rows("CREATE TABLE b (v int)").unwrap();
    one.rows("INSERT INTO a VALUES (0)").unwrap();
    one.rows("SET consort.tables_written = 'a, b'").unwrap();
    one.rows("BEGIN").unwrap();
    one.rows("UPDATE b SET v = v + 1").unwrap();
    assert_eq!(sqlstate(&mut other, "SELECT v FROM a"), "40001", "it may be written yet");
    other.rows("BEGIN").unwrap();
    assert_eq!(sqlstate(&mut other, "UPDATE a SET v = 9"), "40001");
    other.rows("ROLLBACK").unwrap();
    one.rows("UPDATE a SET v = v + 1").unwrap();
    drop(one);
    eventually("those who waited", || other.rows("UPDATE a SET v = 5 WHERE v = 0").is_ok());
    assert_eq!(other.number("SELECT v FROM a").unwrap(), 5, "who goes away is rolled back");
    become_equal(&serving, "a");
    verified(&serving);
}

#[test]
fn followers_are_equal_after_the_primary_or_consort_was_killed() {
    let (mut serving, mut console, url) = serving("");
    let create = |sql: &str| Client::connect(&url).and_then(|mut client| client.rows(sql)).map(drop);
    create("CREATE TABLE t (id int PRIMARY KEY, v int, at timestamptz)").unwrap();
    let insert = "INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1, at = now()";
    let write = || create(insert).is_ok();
    eventually("a write", write);
    kill_a_backend(serving.servers.replica(0));
    eventually("a write", write);
    serving.servers.primary().kill();
    serving.servers.primary().start().unwrap();
    eventually("a write", write);
    all_execute(&mut console);
    become_equal(&serving, "t");
    serving.signal("KILL");
    serving.ended();
    serving.start_again();
    eventually("a write", write);
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_execute(&mut console);
    eventually("a write", write);
    become_equal(&serving, "t");
    verified(&serving);
}

#[test]
fn histories_of_declared_transactions_are_serializable() {
    let (serving, mut shown, url) = serving("replica_wait_timeout = \"1s\"\n");
    let console = serving.url("postgres", "consort");
    let url = declaring(&url, "", "consort_bench_list");
    let line = ["histories", "--url", &url, "--console", &console, "--time", "4s", "--rate", "400"];
    let levels = ["--isolation", "serializable,autocommit", "--read-only", "0.4"];
    let told = load(&[&line[..], &levels, &["--together", "0.3"]].concat());
    assert_eq!(told.matches("strict serializable  valid").count(), 2, "{told}");
    assert!(served(&mut shown, "replica1") > 20, "{told}");
    verified(&serving);
}
