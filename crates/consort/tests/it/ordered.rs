//! The design in which every server executes what the scheduler has ordered: all copies are equal, whatever the clients send
//! and whoever fails; what servers might execute differently is refused.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use local_cluster::{Node, Options};
use testkit::Scratch;

use crate::barriers::{Raw, batch, frame};
use crate::fed::{refuses, rows};
use crate::fixture::{Done, Serving, eventually, load, psql, run, temporary, up_folder};
use crate::load::{Client, Console, kill_a_backend, past, served};
use crate::serving::{figure, page};
use crate::waiting::named;

pub(crate) fn design() -> &'static str {
    named(|design| design.orders_first() && !design.declares_tables())
}

fn serving(lines: &str) -> (Serving, Console, String) {
    serving_as(design(), lines)
}

/// Consort in front of a primary and two replicas, which execute all that it executes.
pub(crate) fn serving_as(design: &str, lines: &str) -> (Serving, Console, String) {
    let servers = Scratch::with(Options { standbys: 0, replicas: 2, ..Scratch::options() });
    serving_over(servers, design, lines)
}

/// The same in front of these servers.
fn serving_over(servers: Scratch, design: &str, lines: &str) -> (Serving, Console, String) {
    let lines = format!("design = \"{design}\"\nattach_on_first_use = true\n{lines}");
    let serving = Serving::over(Arc::new(servers), &lines);
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).expect("the first client comes in");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_execute(&mut console);
    (serving, console, url)
}

fn executes(console: &mut Console, replica: &str) {
    eventually("a replica that executes", || console.feed(replica, "postgres").state == "executing");
}

pub(crate) fn all_execute(console: &mut Console) {
    executes(console, "replica1");
    executes(console, "replica2");
}

/// The rows of a table are the same at all three servers.
fn equal(serving: &Serving, table: &str) -> Vec<Vec<Option<String>>> {
    let servers = &serving.servers;
    let primary = rows(servers.primary(), "postgres", table).expect("the primary answers");
    for replica in 0..2 {
        let there = rows(servers.replica(replica), "postgres", table).expect("the replica answers");
        assert_eq!(there, primary, "{table} at replica {replica}");
    }
    primary
}

/// `consort verify` finds nothing.
pub(crate) fn verified(serving: &Serving) {
    let said = serving.run("verify", &["postgres"]).worked();
    assert!(said.contains("equal") && !said.contains("differs") && !said.contains("unreached"), "{said}");
}

pub(crate) fn sqlstate(client: &mut Client, sql: &str) -> String {
    let trouble = client.rows(sql).expect_err(sql);
    trouble.sqlstate.unwrap_or(trouble.text)
}

/// Runs pgbench with 8 clients against an address.
pub(crate) fn pgbench(url: &str, arguments: &[&str]) -> Done {
    run(testkit::program("pgbench").args(["-n", "-c", "8", "-j", "2"]).args(arguments).arg(url))
}

/// The tables of pgbench, made at the primary before the replicas copy them.
pub(crate) fn pgbench_tables(servers: &Scratch) {
    let node = servers.primary();
    let url = past(node);
    run(testkit::program("pgbench").args(["-i", "-q", "-s", "2"]).arg(url)).worked();
}

#[test]
fn pgbench_leaves_all_copies_equal_while_a_replica_dies_and_comes_back() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 2, ..Scratch::options() });
    pgbench_tables(&servers);
    // All write the same tables, one after the other: on a slow machine that takes its time.
    let lines =
        format!("design = \"{}\"\nattach_on_first_use = true\nreplica_wait_timeout = \"60s\"\n", design());
    let serving = Serving::over(Arc::new(servers), &lines);
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_execute(&mut console);
    for protocol in ["simple", "extended", "prepared"] {
        let said = pgbench(&url, &["-T", "4", "-M", protocol]).worked();
        assert!(said.contains("number of failed transactions: 0"), "{said}");
    }
    verified(&serving);
    // Numbers of a sequence are drawn too while the replica is copied and comes back.
    psql(&url, "CREATE TABLE drawn (id serial PRIMARY KEY, v int)").worked();
    let script = temporary("drawn").with_extension("sql");
    std::fs::write(&script, "INSERT INTO drawn (v) VALUES (1), (2);\n")
        .expect("a temporary file can be written");
    let file = script.to_str().expect("a plain name");
    std::thread::scope(|scope| {
        let load =
            scope.spawn(|| pgbench(&url, &["-T", "12", "-b", "tpcb-like@3", "-f", &format!("{file}@1")]));
        serving.servers.replica(0).kill();
        eventually("a replica that is left", || console.feed("replica1", "postgres").state != "executing");
        serving.servers.replica(0).start().unwrap();
        let said = load.join().expect("it ends").worked();
        assert!(said.contains("number of failed transactions: 0"), "{said}");
    });
    all_execute(&mut console);
    pgbench(&url, &["-t", "5", "-f", file]).worked();
    std::fs::remove_file(&script).expect("it is there");
    equal(&serving, "drawn");
    equal(&serving, "pgbench_history");
    verified(&serving);
}

#[test]
fn nobody_writes_by_accident_at_a_replica_that_executes() {
    let (serving, _console, url) = serving("");
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE TABLE quiet (id int PRIMARY KEY, v bigint NOT NULL)").unwrap();
    for replica in 0..2 {
        refuses(serving.servers.replica(replica), "postgres");
    }
    client.rows("INSERT INTO quiet VALUES (1, 7), (2, 7)").unwrap();
    client.rows("UPDATE quiet SET v = 8 WHERE id = 1").unwrap();
    assert_eq!(equal(&serving, "quiet").len(), 2);
    verified(&serving);
}

const TABLES: &str = "CREATE TABLE parent (id serial PRIMARY KEY, v int NOT NULL UNIQUE, at timestamptz); \
    CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent int NOT NULL REFERENCES parent ON DELETE CASCADE)";

#[test]
fn what_clients_send_is_executed_by_all() {
    let (serving, _console, url) = serving("");
    let mut client = Client::connect(&url).unwrap();
    client.rows(TABLES).unwrap();
    for sql in [
        "INSERT INTO parent (v) VALUES (1), (2), (3)",
        "INSERT INTO parent (v, at) VALUES (4, now()), (5, CURRENT_TIMESTAMP)",
        "INSERT INTO child (parent) VALUES (1), (2), (2)",
        "UPDATE parent SET v = v + 10, at = LOCALTIMESTAMP WHERE id < 3",
        "DELETE FROM parent WHERE id = 1",
        "SELECT nextval('parent_id_seq')",
        "WITH gone AS (DELETE FROM parent WHERE id = 3 RETURNING v) INSERT INTO parent (id, v) SELECT 100 + v, v + 100 FROM gone",
        "ALTER TABLE parent ADD COLUMN note text DEFAULT 'none'",
        "UPDATE parent p SET note = p.note || '!' FROM child c WHERE c.parent = p.id",
        "UPDATE child c SET parent = p.id FROM parent p WHERE p.id = c.parent",
        "INSERT INTO parent (v, note) VALUES (50, 'x') ON CONFLICT (v) DO NOTHING",
    ] {
        client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
        equal(&serving, "parent");
        equal(&serving, "child");
    }
    assert_eq!(sqlstate(&mut client, "INSERT INTO parent (v) VALUES (50)"), "23505");
    for sql in [
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "INSERT INTO parent (v) VALUES (60)",
        "SAVEPOINT s",
        "INSERT INTO child (parent) VALUES (2)",
    ] {
        client.rows(sql).unwrap();
    }
    assert_eq!(sqlstate(&mut client, "INSERT INTO child (parent) VALUES (999)"), "23503");
    assert_eq!(sqlstate(&mut client, "SELECT 1"), "25P02");
    for sql in ["ROLLBACK TO s", "INSERT INTO parent (v, at) VALUES (61, now())", "COMMIT"] {
        client.rows(sql).unwrap();
    }
    // Days and local times are those of the zone by then.
    for sql in [
        "BEGIN",
        "UPDATE parent SET note = LOCALTIMESTAMP::text WHERE v = 60",
        "SET TimeZone = 'Pacific/Kiritimati'",
        "UPDATE parent SET note = LOCALTIMESTAMP::text WHERE v = 61",
        "COMMIT",
        "RESET TimeZone",
    ] {
        client.rows(sql).unwrap_or_else(|trouble| panic!("{sql}: {trouble:?}"));
    }
    equal(&serving, "parent");
    client.rows("BEGIN").unwrap();
    client.rows("INSERT INTO parent (v) VALUES (70)").unwrap();
    client.rows("ROLLBACK").unwrap();
    client.rows("INSERT INTO parent (v) VALUES (71)").unwrap();
    for sql in [
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "INSERT INTO parent (v) VALUES (80)",
        "COMMIT AND CHAIN",
        "INSERT INTO parent (v) VALUES (81)",
        "COMMIT",
    ] {
        client.rows(sql).unwrap();
    }
    let parents = equal(&serving, "parent");
    assert_eq!(parents.len(), 10, "{parents:?}");
    equal(&serving, "child");
    let last = "SELECT last_value FROM parent_id_seq";
    let at = |node: &Node| node.query("postgres", last).unwrap();
    assert_eq!(at(serving.servers.primary()), at(serving.servers.replica(1)), "rolled back or not");
    verified(&serving);
}

/// The commits have no in-flight write set, and look like those of another writer.
#[test]
fn nobody_is_taken_for_a_bypass_behind_a_reload() {
    let (_serving, mut console, _) = serving("writers = \"through-consort\"");
    assert_eq!(console.writers(), "anywhere");
    console.rows("RELOAD");
    assert_eq!(console.writers(), "anywhere");
}

#[test]
fn reads_are_answered_by_all_servers() {
    let (_serving, mut console, url) = serving("");
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE TABLE quiet (id int PRIMARY KEY, v int)").unwrap();
    client.rows("INSERT INTO quiet VALUES (1, 7)").unwrap();
    eventually("reads at a replica", || {
        assert_eq!(client.number("SELECT v FROM quiet WHERE id = 1").unwrap(), 7);
        let metrics = console.rows("SHOW ROUTES");
        metrics.iter().any(|row| row.get("node").is_some_and(|node| node.starts_with("replica")))
    });
}

#[test]
fn what_servers_might_execute_differently_is_refused() {
    let (serving, _console, url) = serving("");
    let mut client = Client::connect(&url).unwrap();
    client
        .rows("CREATE TABLE t (id serial PRIMARY KEY, v int, at timestamptz DEFAULT now(), u uuid)")
        .unwrap();
    client.rows("CREATE TABLE k (id int PRIMARY KEY, v int)").unwrap();
    client.rows("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'").unwrap();
    client.rows("INSERT INTO t (v, at) VALUES (1, NULL), (2, NULL)").unwrap();
    for sql in [
        "INSERT INTO t (v) VALUES (1)",
        "INSERT INTO t (v, at, u) VALUES (1, NULL, gen_random_uuid())",
        "UPDATE t SET v = random() * 100",
        "UPDATE t SET at = clock_timestamp()",
        "UPDATE t SET v = f()",
        "DELETE FROM t WHERE id IN (SELECT id FROM t LIMIT 1)",
        "INSERT INTO t (v, at) SELECT v, NULL FROM t",
        "UPDATE k SET v = t.id FROM t WHERE t.v = k.v",
        "INSERT INTO k SELECT v, id FROM t ON CONFLICT DO NOTHING",
        "INSERT INTO k SELECT v, id FROM t ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        "UPDATE t SET at = 'now'",
        "INSERT INTO t (id, v, at) SELECT 1000, 1, y.now FROM (SELECT now()) y",
        "INSERT INTO t (id, v, at) SELECT 1000, 1, x FROM now() AS x",
        "CREATE TABLE c (id int PRIMARY KEY, at timestamptz DEFAULT 'now')",
        "CREATE VIEW c AS SELECT 'now'::timestamptz AS made",
        "INSERT INTO t (id, v, at) VALUES (lastval(), 1, NULL)",
        "UPDATE t SET v = pg_backend_pid()",
        "CREATE TABLE c AS SELECT random()",
        "CREATE TEMP TABLE c (a int)",
        "ALTER TABLE t ADD COLUMN n serial",
        "CREATE TABLE c (id int GENERATED ALWAYS AS IDENTITY (CACHE 10) PRIMARY KEY, v int)",
        "ALTER TABLE t ADD COLUMN n int GENERATED ALWAYS AS IDENTITY (CACHE 10)",
        "ALTER SEQUENCE t_id_seq CACHE 10",
        "CREATE DOMAIN drawn AS float8 DEFAULT random()",
        "ALTER DOMAIN drawn SET DEFAULT random()",
        "ALTER TABLE t ADD COLUMN n information_schema.time_stamp",
        "CREATE EVENT TRIGGER noisy ON ddl_command_end EXECUTE FUNCTION f()",
        "ALTER EVENT TRIGGER noisy ENABLE",
        "CREATE ROLE nobody",
        "DO 'BEGIN NULL; END'",
        "COPY t FROM STDIN",
        "BEGIN; INSERT INTO t (v, at) VALUES (1, NULL); COMMIT",
        "PREPARE TRANSACTION 'x'",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    ] {
        assert_eq!(sqlstate(&mut client, sql), "0A000", "{sql}");
    }
    // An analysis from before DDL does not hold after it.
    client.rows("CREATE TABLE d (id int, at timestamptz)").unwrap();
    for _ in 0..5 {
        client.rows("INSERT INTO d (id) VALUES (1)").unwrap();
        client.rows("ALTER TABLE d ALTER COLUMN at SET DEFAULT now()").unwrap();
        assert_eq!(sqlstate(&mut client, "INSERT INTO d (id) VALUES (1)"), "0A000");
        client.rows("ALTER TABLE d ALTER COLUMN at DROP DEFAULT").unwrap();
    }
    for (sql, code) in
        [("SELEC 1", "42601"), ("SELECT * FROM nothing", "42P01"), ("INSERT INTO t (x) VALUES (1)", "42703")]
    {
        assert_eq!(sqlstate(&mut client, sql), code, "{sql}");
    }
    client.rows("BEGIN").unwrap();
    assert_eq!(sqlstate(&mut client, "UPDATE t SET v = random()"), "0A000");
    assert_eq!(sqlstate(&mut client, "SELECT 1"), "25P02", "the block has failed");
    client.rows("ROLLBACK").unwrap();
    assert_eq!(client.number("SELECT f()").unwrap(), 1, "it may read");
    assert_eq!(client.number("SELECT count(*) FROM pg_class WHERE relname = 't'").unwrap(), 1);
    assert_eq!(equal(&serving, "t").len(), 2);
    verified(&serving);
}

/// Random numbers in a range came with 17, and two functions for UUIDs with 18.
#[test]
fn random_functions_of_new_majors_are_refused() {
    let options = Options { standbys: 0, replicas: 2, ..Scratch::options() };
    let (serving, _console, url) = serving_over(Scratch::of_major(18, &options), design(), "");
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE TABLE t (id int PRIMARY KEY, v int, u uuid)").unwrap();
    client.rows("INSERT INTO t VALUES (1, 1, NULL)").unwrap();
    for sql in [
        "INSERT INTO t VALUES (2, 1, uuidv7())",
        "INSERT INTO t VALUES (2, 1, uuidv7(interval '1 day'))",
        "INSERT INTO t VALUES (2, 1, uuidv4())",
        "UPDATE t SET v = random(1, 9)",
        "UPDATE t SET v = random_normal()",
        "UPDATE t SET v = (array_shuffle(ARRAY[1, 2, 3]))[1]",
        "UPDATE t SET v = (array_sample(ARRAY[1, 2, 3], 1))[1]",
        "ALTER TABLE t ADD COLUMN later uuid DEFAULT uuidv7()",
    ] {
        let refused = client.rows(sql).err().and_then(|trouble| trouble.sqlstate);
        assert_eq!(refused.as_deref(), Some("0A000"), "{sql}");
    }
    client.rows("CREATE TABLE c (id int PRIMARY KEY, u uuid DEFAULT uuidv7())").unwrap();
    assert_eq!(sqlstate(&mut client, "INSERT INTO c (id) VALUES (1)"), "0A000");
    client.rows("UPDATE t SET v = 7, u = '00000000-0000-0000-0000-000000000001'").unwrap();
    assert_eq!(equal(&serving, "t").len(), 1);
    verified(&serving);
}

/// Objects that were made before Consort came, or past it.
#[test]
fn a_replica_executes_when_nothing_is_there_that_would_have_it_differ() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    for sql in [
        "CREATE TABLE t (given int GENERATED ALWAYS AS IDENTITY (CACHE 10))",
        "CREATE UNLOGGED SEQUENCE taken CACHE 10",
        "SELECT setval('taken', 70)",
        "CREATE DOMAIN drawn AS float8 DEFAULT random()",
        "CREATE DOMAIN plain AS varchar(5) DEFAULT 'none'",
        "CREATE FUNCTION hears() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''heard''; END'",
        "CREATE EVENT TRIGGER noisy ON ddl_command_end EXECUTE FUNCTION hears()",
    ] {
        servers.query(sql);
    }
    let lines = format!("design = \"{}\"\nattach_on_first_use = true", design());
    let serving = Serving::over(servers, &lines);
    Client::connect(&serving.url("postgres", "postgres")).expect("the first client comes in");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    for (why, mend) in [
        ("the event trigger \"noisy\" exists at the primary only", "ALTER EVENT TRIGGER noisy DISABLE"),
        ("the domain public.drawn has a DEFAULT", "ALTER DOMAIN drawn DROP DEFAULT"),
        ("\"t_given_seq\" has a CACHE", "ALTER SEQUENCE t_given_seq CACHE 1"),
        ("\"taken\" has a CACHE", "ALTER SEQUENCE taken CACHE 1"),
    ] {
        eventually(why, || console.feed("replica1", "postgres").why.contains(why));
        serving.servers.query(mend);
    }
    executes(&mut console, "replica1");
    let at = |node: &Node| node.query("postgres", "SELECT last_value, is_called FROM taken").unwrap();
    assert_eq!(at(serving.servers.replica(0)), at(serving.servers.primary()));
}

#[test]
fn a_copy_to_the_client_waits_for_the_tables_that_it_reads_and_for_no_others() {
    for design in both() {
        let (serving, _console, url) = serving_as(design, "replica_wait_timeout = \"1s\"\n");
        let mut client = Client::connect(&url).unwrap();
        for sql in [
            "CREATE TABLE a (id int PRIMARY KEY, v int)",
            "CREATE TABLE b (id int PRIMARY KEY, v int)",
            "INSERT INTO a VALUES (1, 1)",
            "INSERT INTO b VALUES (2, 2)",
            "BEGIN /* consort: tables_written = 'a' */",
            "UPDATE a SET v = 3",
        ] {
            client.rows(sql).unwrap_or_else(|trouble| panic!("{design}: {sql}: {trouble:?}"));
        }
        for sql in ["COPY b TO STDOUT", "COPY b (id, v) TO STDOUT", "COPY (SELECT * FROM b) TO STDOUT"] {
            assert_eq!(psql(&url, sql).worked(), "2\t2\n", "{design}: {sql}");
        }
        for sql in ["COPY a TO STDOUT", "COPY (SELECT * FROM a) TO STDOUT"] {
            assert!(psql(&url, sql).failed_saying(1).contains("timed out waiting"), "{design}: {sql}");
        }
        client.rows("COMMIT").unwrap();
        assert_eq!(psql(&url, "COPY a TO STDOUT").worked(), "1\t3\n", "{design}");
        let refused = psql(&url, "COPY a FROM STDIN").failed_saying(1);
        assert!(refused.contains("COPY FROM STDIN is not supported"), "{design}: {refused}");
        verified(&serving);
    }
}

/// Both designs in which transactions are ordered before they are executed.
pub(crate) fn both() -> Vec<&'static str> {
    let all: Vec<_> = design::PRIMARY_COPY
        .iter()
        .filter(|design| design.orders_first())
        .map(|design| design.name)
        .collect();
    assert_eq!(all.len(), 2, "by locks, and by declared tables");
    all
}

/// The rows of a table become the same at all three servers; how many there are.
pub(crate) fn become_equal(serving: &Serving, table: &str) -> usize {
    // Queried each time: a client's statement may still run after the client has left.
    let at = |node: &Node| rows(node, "postgres", table);
    let mut count = 0;
    eventually("equal rows", || {
        let primary = at(serving.servers.primary()).expect("the primary answers");
        count = primary.len();
        (0..2).all(|replica| at(serving.servers.replica(replica)).as_ref() == Some(&primary))
    });
    count
}

#[test]
fn no_statement_of_a_request_changes_what_another_was_judged_by() {
    for design in both() {
        let (serving, _console, url) = serving_as(design, "");
        let mut client = Client::connect(&url).unwrap();
        for sql in [
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE SCHEMA s2",
            "CREATE TABLE s2.t (id int PRIMARY KEY)",
            "CREATE TABLE d (id int, at timestamptz)",
            "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS 'INSERT INTO public.t VALUES (100) RETURNING id'",
            "SET consort.tables_written = '*'",
        ] {
            client.rows(sql).unwrap();
        }
        for sql in [
            "SET search_path = s2; INSERT INTO t VALUES (1)",
            "SELECT set_config('search_path', 's2', false); INSERT INTO t VALUES (1)",
            "ALTER TABLE d ALTER at SET DEFAULT now(); INSERT INTO d (id) VALUES (1)",
            "SELECT writes(); INSERT INTO t VALUES (1)",
            "SET TRANSACTION READ WRITE; SELECT writes()",
        ] {
            assert_eq!(sqlstate(&mut client, sql), "0A000", "{sql}");
        }
        client.rows("SET datestyle = 'ISO'; SET lock_timeout = 0").unwrap();
        // After the end of a block the primary would execute a statement that its replicas do not get.
        for sql in ["BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT s", "INSERT INTO t VALUES (2)"] {
            client.rows(sql).unwrap();
        }
        assert_eq!(sqlstate(&mut client, "INSERT INTO t VALUES (1)"), "23505");
        for sql in ["ROLLBACK TO s; RELEASE s", "ROLLBACK; INSERT INTO t VALUES (3)"] {
            assert_eq!(sqlstate(&mut client, sql), "0A000", "{sql}");
        }
        client.rows("ROLLBACK TO s").unwrap();
        client.rows("COMMIT").unwrap();
        assert_eq!(become_equal(&serving, "t"), 1);

        let mut raw = Raw::connect(serving.port);
        let refused = |error: Option<String>| error.is_some_and(|error| error.contains("0A000"));
        assert!(refused(
            raw.answer(&batch(&["SET consort.tables_written = 't'", "INSERT INTO t VALUES (4)"], false))
        ));

        assert_eq!(raw.answer(&batch(&["SET consort.tables_written = 't'"], false)), None);
        for sql in ["BEGIN", "INSERT INTO t VALUES (4)"] {
            assert_eq!(raw.answer(&batch(&[sql], false)), None, "{sql}");
        }
        let mut commits = batch(&["COMMIT"], false);
        commits.truncate(commits.len() - frame(b'S', b"").len());
        commits.extend(frame(b'P', b"\0SELECT * FROM nothing\0\0\0"));
        commits.extend(frame(b'S', b""));
        assert!(refused(raw.answer(&commits)), "a COMMIT that an error follows");
        assert_eq!(raw.answer(&batch(&["ROLLBACK"], false)), None);
        // A portal runs with the statement that it was bound to.
        let mut rebound = frame(b'P', b"\0DELETE FROM t WHERE id = 1\0\0\0");
        rebound.extend(frame(b'B', b"\0\0\0\0\0\0\0\0"));
        rebound.extend(frame(b'P', b"\0SELECT 1\0\0\0"));
        rebound.extend(frame(b'E', b"\0\0\0\0\0"));
        rebound.extend(frame(b'S', b""));
        assert_eq!(raw.answer(&rebound), None);
        assert_eq!((become_equal(&serving, "t"), become_equal(&serving, "d")), (0, 0));
        verified(&serving);
    }
}

#[test]
fn what_is_made_in_the_same_request_is_no_error_but_refused() {
    for design in both() {
        let (serving, _console, url) = serving_as(design, "");
        let mut client = Client::connect(&url).unwrap();
        let mut raw = Raw::connect(serving.port);
        let mut refused = |bytes: &[u8]| {
            let error = raw.answer(bytes).expect("it is refused");
            assert!(error.contains("0A000") && error.contains("in a separate request"), "{design}: {error}");
        };
        for behind in
            ["INSERT INTO made VALUES (1)", "SELECT * FROM made", "COPY (SELECT a FROM made) TO STDOUT"]
        {
            let make = "CREATE TABLE made (a int)";
            refused(&frame(b'Q', format!("{make}; {behind}\0").as_bytes()));
            refused(&batch(&[make, behind], false));
        }
        // In a block, which has failed then.
        client.rows("BEGIN").unwrap();
        let together = "CREATE TABLE made (a int); INSERT INTO made VALUES (1)";
        assert_eq!(sqlstate(&mut client, together), "0A000", "{design}");
        assert_eq!(sqlstate(&mut client, "SELECT 1"), "25P02", "{design}");
        client.rows("ROLLBACK").unwrap();
        for node in [serving.servers.primary(), serving.servers.replica(0)] {
            let made = node.query("postgres", "SELECT relname FROM pg_class WHERE relname = 'made'").unwrap();
            assert!(made.is_empty(), "{design}: nothing of it was executed");
        }
        assert_eq!(sqlstate(&mut client, "INSERT INTO made VALUES (1)"), "42P01", "{design}");
    }
}

#[test]
fn numbers_stay_drawn_when_the_client_leaves() {
    for design in both() {
        let (serving, _console, url) = serving_as(design, "");
        let mut client = Client::connect(&url).unwrap();
        client.rows("CREATE TABLE drawn (id serial PRIMARY KEY, v int)").unwrap();
        client.rows("INSERT INTO drawn (v) VALUES (0)").unwrap();
        for _ in 0..20 {
            let insert = frame(b'Q', b"INSERT INTO drawn (v) VALUES (1), (2), (3) RETURNING id\0");
            Raw::connect(serving.port).ask_and_leave(&insert);
        }
        client.rows("INSERT INTO drawn (v) VALUES (9)").unwrap();
        eventually("equal numbers", || {
            client.rows("INSERT INTO drawn (v) VALUES (9)").unwrap();
            become_equal(&serving, "drawn");
            let last = "SELECT last_value FROM drawn_id_seq";
            let at = |node: &Node| node.query("postgres", last).unwrap();
            at(serving.servers.primary()) == at(serving.servers.replica(0))
        });
        verified(&serving);
    }
}

#[test]
fn a_table_that_copies_had_no_rows_of_is_copied_before_it_is_read() {
    for design in both() {
        let (serving, mut console, url) = serving_as(design, "");
        let mut client = Client::connect(&url).unwrap();
        for sql in [
            "CREATE TABLE t (id int PRIMARY KEY, v int)",
            "INSERT INTO t VALUES (1, 0)",
            "CREATE TABLE odd (id int PRIMARY KEY, r regclass)",
        ] {
            client.rows(sql).unwrap();
        }
        serving.servers.primary().query("postgres", "INSERT INTO odd VALUES (1, 't'), (2, 't')").unwrap();
        become_equal(&serving, "t");
        // Both are copied again, without the rows of the one.
        for replica in 0..2 {
            serving.servers.replica(replica).query("postgres", "DELETE FROM t").unwrap();
        }
        client.rows("UPDATE t SET v = v + 1").unwrap();
        eventually("copies without its rows", || {
            (0..2).all(|replica| {
                rows(serving.servers.replica(replica), "postgres", "odd").is_some_and(|rows| rows.is_empty())
            })
        });
        all_execute(&mut console);
        client.rows("ALTER TABLE odd DROP COLUMN r").unwrap();
        for _ in 0..20 {
            assert_eq!(client.number("SELECT count(*) FROM odd").unwrap(), 2);
        }
        all_execute(&mut console);
        assert_eq!(become_equal(&serving, "odd"), 2);
        for _ in 0..20 {
            assert_eq!(client.number("SELECT count(*) FROM odd").unwrap(), 2);
        }
    }
}

#[test]
fn who_waits_in_a_circle_or_for_too_long_is_refused() {
    let (serving, _console, url) = serving("replica_wait_timeout = \"2s\"\n");
    let mut one = Client::connect(&url).unwrap();
    let mut other = Client::connect(&url).unwrap();
    one.rows("CREATE TABLE a (v int); CREATE TABLE b (v int)").unwrap();
    one.rows("INSERT INTO a VALUES (0)").unwrap();
    one.rows("INSERT INTO b VALUES (0)").unwrap();
    for (client, table) in [(&mut one, "a"), (&mut other, "b")] {
        client.rows("BEGIN").unwrap();
        client.rows(&format!("UPDATE {table} SET v = v + 1")).unwrap();
    }
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| one.rows("UPDATE b SET v = v + 1"));
        let refused = other.rows("UPDATE a SET v = v + 1");
        if refused.is_err() {
            other.rows("ROLLBACK").unwrap();
        }
        let waited = waits.join().expect("it ends");
        let codes: Vec<_> = [refused.err(), waited.as_ref().err().cloned()].into_iter().flatten().collect();
        assert_eq!(codes.len(), 1, "{codes:?}");
        assert_eq!(codes[0].sqlstate.as_deref(), Some("40P01"));
    });
    let _ = one.rows("ROLLBACK");
    let _ = other.rows("ROLLBACK");
    one.rows("BEGIN").unwrap();
    one.rows("UPDATE a SET v = v + 1").unwrap();
    assert_eq!(
        sqlstate(&mut other, "SELECT v FROM a"),
        "40001",
        "it waits no longer than replica_wait_timeout"
    );
    one.rows("COMMIT").unwrap();
    other.rows("SELECT v FROM a").unwrap();
    equal(&serving, "a");
}

#[test]
fn a_replica_that_answers_otherwise_is_copied_anew() {
    for design in both() {
        let (serving, mut console, url) = serving_as(design, "");
        let mut client = Client::connect(&url).unwrap();
        client.rows("CREATE TABLE t (id int PRIMARY KEY, v int)").unwrap();
        client.rows("INSERT INTO t SELECT n, 0 FROM generate_series(1, 10) n").unwrap();
        become_equal(&serving, "t");
        serving.servers.replica(1).query("postgres", "DELETE FROM t WHERE id = 3").unwrap();
        client.rows("UPDATE t SET v = v + 1").unwrap();
        eventually("a replica that is equal again", || {
            console.feed("replica2", "postgres").state == "executing"
                && rows(serving.servers.replica(1), "postgres", "t").is_some_and(|rows| rows.len() == 10)
        });
        client.rows("UPDATE t SET v = v + 1").unwrap();
        assert_eq!(become_equal(&serving, "t"), 10);
    }
}

/// A copy lacks checks whose outcome may be another there. A statement that such a check refuses at the primary may fail there too,
/// of something else and at another row: it has drawn other numbers by then.
#[test]
fn a_replica_that_has_drawn_other_numbers_before_it_failed_is_copied_anew() {
    for design in both() {
        let servers = Scratch::with(Options { standbys: 0, replicas: 2, ..Scratch::options() });
        let checked =
            "CREATE TABLE o (id serial PRIMARY KEY, ref int UNIQUE, zip int CHECK (length(zip::text) = 5))";
        servers.query(checked);
        let (serving, mut console, url) = serving_over(servers, design, "");
        let checks = "SELECT conname FROM pg_constraint WHERE conrelid = 'o'::regclass AND contype = 'c'";
        let there = serving.servers.replica(0).query("postgres", checks).unwrap();
        assert_eq!(there.len(), 0, "the copy lacks the check");
        let taken_out = || figure(&serving, "consort_replicas_taken_out_total");
        let mut client = Client::connect(&url).unwrap();
        // At all servers alike: none is lost.
        assert_eq!(sqlstate(&mut client, "INSERT INTO o (ref, zip) VALUES (1, 12345), (1, 12345)"), "23505");
        client.rows("INSERT INTO o (ref, zip) VALUES (2, 12345)").unwrap();
        assert_eq!(become_equal(&serving, "o"), 1);
        assert_eq!(taken_out(), 0, "{design}");
        // The primary fails at the first row, the copies at the second.
        assert_eq!(sqlstate(&mut client, "INSERT INTO o (ref, zip) VALUES (3, 1), (3, 12345)"), "23514");
        eventually("replicas that are taken out", || taken_out() == 2);
        all_execute(&mut console);
        client.rows("INSERT INTO o (ref, zip) VALUES (4, 12345)").unwrap();
        assert_eq!(become_equal(&serving, "o"), 2);
    }
}

#[test]
fn after_the_primary_or_consort_was_killed_all_are_equal() {
    let (mut serving, mut console, url) = serving("");
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).unwrap();
    let insert = "INSERT INTO parent (v) VALUES (1) ON CONFLICT (v) DO UPDATE SET at = now()";
    let write = || Client::connect(&url).and_then(|mut client| client.rows(insert)).is_ok();
    eventually("a write", write);
    kill_a_backend(serving.servers.replica(0));
    eventually("a write", write);
    serving.servers.primary().kill();
    serving.servers.primary().start().unwrap();
    eventually("a write", write);
    all_execute(&mut console);
    equal(&serving, "parent");
    serving.signal("KILL");
    serving.ended();
    serving.start_again();
    eventually("a write", write);
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_execute(&mut console);
    eventually("a write", write);
    equal(&serving, "parent");
    verified(&serving);
}

#[test]
fn histories_are_serializable() {
    let (serving, mut shown, url) = serving("replica_wait_timeout = \"1s\"\n");
    let console = serving.url("postgres", "consort");
    let line = ["histories", "--url", &url, "--console", &console, "--time", "4s", "--rate", "400"];
    let levels = ["--isolation", "serializable,autocommit", "--read-only", "0.4"];
    let told = load(&[&line[..], &levels, &["--together", "0.3"]].concat());
    assert_eq!(told.matches("strict serializable  valid").count(), 2, "{told}");
    assert!(served(&mut shown, "replica1") > 20, "{told}");
    verified(&serving);
}

#[test]
fn up_makes_replicas_that_execute() {
    let folder = up_folder();
    let listen = format!("127.0.0.1:{}", folder.port);
    folder.run("up", &["--listen", &listen, "--design", design()]).worked();
    folder.run("check", &[]).worked();
    let mut console = Console::connect(&format!("postgres://postgres@{listen}/consort"));
    psql(&folder.url(), "CREATE TABLE t (id serial PRIMARY KEY, v int)").worked();
    all_execute(&mut console);
    psql(&folder.url(), "INSERT INTO t (v) VALUES (7)").worked();
    let said = folder.run("verify", &["postgres"]).worked();
    assert!(said.contains("equal") && !said.contains("differs"), "{said}");
}

/// A statement that draws numbers goes on to its end, also if its client cancels it, and no copy is lost.
#[test]
fn no_copy_is_lost_with_a_cancelled_statement_that_draws_numbers() {
    for design in both() {
        let (serving, mut console, url) = serving_as(design, "");
        let primary = serving.servers.primary();
        psql(&url, "CREATE TABLE drawn (id serial PRIMARY KEY, v int)").worked();
        let (folder, port) = (primary.socket_folder().display(), primary.port());
        let past = format!("host={folder} port={port} user=postgres dbname=postgres");
        let mut past = Client::connect(&past).unwrap();
        past.rows("BEGIN; INSERT INTO drawn VALUES (1)").unwrap();
        let mut client = testkit::program("psql");
        client.args(["-XAt", "-d", &url, "-c", "INSERT INTO drawn (v) VALUES (1), (2)"]);
        client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut client = client.spawn().expect("psql runs");
        let waits = "SELECT FROM pg_stat_activity WHERE query LIKE 'INSERT INTO drawn (v)%' \
                     AND wait_event = 'transactionid'";
        eventually("a statement that waits", || !primary.query("postgres", waits).unwrap().is_empty());
        run(Command::new("kill").args(["-INT", &client.id().to_string()])).worked();
        let mut said = BufReader::new(client.stderr.take().unwrap()).lines();
        let sent = said.by_ref().any(|line| line.unwrap().contains("Cancel request sent"));
        assert!(sent, "it is taken");
        assert!(!primary.query("postgres", waits).unwrap().is_empty(), "it goes on");
        past.rows("ROLLBACK").unwrap();
        // The statement ends as a cancelled one, with any answer.
        client.wait().unwrap();
        let said: Vec<String> = said.map(Result::unwrap).collect();
        assert_eq!(said, [""; 0], "no error");
        assert_eq!(become_equal(&serving, "drawn"), 2);
        let (_, counted) = page(&serving, "/metrics");
        assert!(counted.contains("\nconsort_replicas_taken_out_total 0\n"), "{counted}");
        all_execute(&mut console);
        verified(&serving);
    }
}

/// A COMMIT, and a statement that draws numbers, go on to their end: their client is disconnected after them,
/// and no copy is lost.
#[test]
fn no_copy_is_lost_with_a_client_that_is_sent_away() {
    for design in both() {
        let (serving, mut console, url) = serving_as(design, "");
        let primary = serving.servers.primary();
        let mut client = Client::connect(&url).unwrap();
        client.rows("CREATE TABLE plain (id int PRIMARY KEY)").unwrap();
        client.rows("CREATE TABLE drawn (id serial PRIMARY KEY, v int)").unwrap();
        let waits = |pid: &str| {
            let waits = format!(
                "SELECT FROM pg_stat_activity WHERE pid = {pid} AND wait_event IN ('transactionid', 'SyncRep')"
            );
            !primary.query("postgres", &waits).unwrap().is_empty()
        };
        // A statement that has drawn its number everywhere, and waits at the primary alone.
        let (folder, port) = (primary.socket_folder().display(), primary.port());
        let past = format!("host={folder} port={port} user=postgres dbname=postgres");
        let mut past = Client::connect(&past).unwrap();
        past.rows("BEGIN; INSERT INTO drawn VALUES (1)").unwrap();
        let pid = client.one("SELECT pg_backend_pid()").unwrap();
        let draws = std::thread::spawn(move || client.rows("INSERT INTO drawn (v) VALUES (1)"));
        eventually("a statement that waits", || waits(&pid));
        let clients = console.rows("SHOW CLIENTS");
        let client = clients.iter().find(|row| row.get("remote_pid") == Some(&pid)).expect("it is there");
        console.rows(&format!("KILL_CLIENT {}", client.get("id").unwrap()));
        assert!(waits(&pid), "it goes on");
        past.rows("ROLLBACK").unwrap();
        let trouble = draws.join().unwrap().expect_err("it was sent away");
        assert_eq!(trouble.sqlstate.as_deref(), Some("57P01"), "{trouble:?}");
        // A COMMIT that waits at the primary alone, until another client is disconnected for the same reason.
        primary.set("synchronous_commit", "local").unwrap();
        primary.set("synchronous_standby_names", "nobody").unwrap();
        let mut client = Client::connect(&url).unwrap();
        client.rows("SET synchronous_commit = on").unwrap();
        let pid = client.one("SELECT pg_backend_pid()").unwrap();
        let commits = std::thread::spawn(move || client.rows("INSERT INTO plain VALUES (1)"));
        eventually("a commit that waits", || waits(&pid));
        let mut other = Client::connect(&url).unwrap();
        let idle = other.one("SELECT pg_backend_pid()").unwrap();
        console.rows("SET client_idle_timeout = '300ms'");
        console.rows("SET query_timeout = '300ms'");
        eventually("another one that is sent away", || {
            console.rows("SHOW CLIENTS").iter().all(|row| row.get("remote_pid") != Some(&idle))
        });
        assert!(waits(&pid), "it goes on");
        console.rows("SET query_timeout = 0");
        console.rows("SET client_idle_timeout = 0");
        primary.set("synchronous_standby_names", "").unwrap();
        let trouble = commits.join().unwrap().expect_err("it was sent away");
        assert_eq!(trouble.sqlstate.as_deref(), Some("57014"), "{trouble:?}");
        assert_eq!((become_equal(&serving, "drawn"), become_equal(&serving, "plain")), (0, 1));
        let (_, counted) = page(&serving, "/metrics");
        assert!(counted.contains("\nconsort_replicas_taken_out_total 0\n"), "{counted}");
        all_execute(&mut console);
        verified(&serving);
    }
}
