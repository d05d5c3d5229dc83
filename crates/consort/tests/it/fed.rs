//! Logical replicas: copied while clients work, equal to the primary under all faults, and never written to
//! by accident.

use std::sync::Arc;

use local_cluster::{Node, Options};
use testkit::Scratch;
use tokio_postgres::SimpleQueryRow;

use crate::fixture::{Serving, eventually, up_folder};
use crate::load::{
    ANYWHERE, Client, Console, Load, READ_QUIET, TABLES, THROUGH, Trouble, kill_a_backend, past, served,
    serves,
};
use crate::replicas::number;
use crate::serving::figure;
use crate::waiting::knows;

/// Consort in front of a primary, so many standbys and one replica, which is fed.
pub(crate) fn serving(standbys: usize, lines: &str) -> (Serving, Console, String) {
    let servers = Scratch::with(Options { standbys, replicas: 1, ..Scratch::options() });
    let serving = Serving::over(servers, lines);
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).expect("the tables can be made");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_equal(&serving, &mut console);
    (serving, console, url)
}

/// Waits until the replica shows all that Consort has decoded. Commits that were answered a moment ago may be missing.
fn is_fed(console: &mut Console, database: &str) {
    eventually("a replica that is fed", || {
        let feed = console.feed("replica1", database);
        matches!(feed.state.as_str(), "feeding" | "serving") && feed.version == feed.newest_version
    });
}

/// The rows of a table, as texts.
pub(crate) fn rows(node: &Node, database: &str, table: &str) -> Option<Vec<Vec<Option<String>>>> {
    node.query(database, &format!("SELECT t::text FROM {table} AS t ORDER BY 1")).ok()
}

/// Waits until the replica has the rows of the primary.
pub(crate) fn becomes_equal(servers: &Scratch, database: &str, table: &str) {
    let primary = rows(servers.primary(), database, table).expect("the primary answers");
    assert!(!primary.is_empty(), "{table} has rows");
    let mut there = None;
    eventually("equal rows", || {
        there = rows(servers.replica(0), database, table);
        there.as_ref() == Some(&primary)
    });
}

/// Copies the database to the replica again, at the operator's request.
fn rebuilt(serving: &Serving, console: &mut Console) {
    let before = number(serving.servers.replica(0));
    console.rows("REBUILD REPLICA replica1");
    eventually("a copy of its own", || {
        let now = number(serving.servers.replica(0));
        now.is_some() && now != before
    });
    all_equal(serving, console);
}

pub(crate) fn all_equal(serving: &Serving, console: &mut Console) {
    is_fed(console, "postgres");
    for table in ["counter", "quiet"] {
        becomes_equal(&serving.servers, "postgres", table);
    }
}

#[test]
fn a_replica_is_fed_beside_a_standby() {
    for lines in [THROUGH, ANYWHERE] {
        let (serving, mut console, url) = serving(1, lines);
        let load = Load::start(&url);
        load.goes_on(40, 20);
        serves(&mut console, "standby1");
        serves(&mut console, "replica1");
        load.end();
        all_equal(&serving, &mut console);
    }
}

#[test]
fn a_row_that_was_written_through_consort_is_read_at_the_replica() {
    let (_serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let before = served(&mut console, "replica1");
    let mut value = 7;
    eventually("reads at the replica", || {
        client.rows("UPDATE quiet SET v = v + 1").unwrap();
        value += 1;
        for _ in 0..5 {
            assert_eq!(client.number(READ_QUIET).unwrap(), value);
        }
        served(&mut console, "replica1") > before + 20
    });
    let routes = console.rows("SHOW ROUTES");
    let there = |row: &&SimpleQueryRow| row.get("node") == Some("replica1");
    let statement = routes.iter().find(there).and_then(|row| row.get("statement"));
    assert_eq!(statement, Some("SELECT v FROM quiet WHERE id = ?"));
}

const TYPES: &str = "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TYPE pair AS (a int, b text); \
    CREATE DOMAIN few AS int CHECK (VALUE < 10); \
    CREATE TABLE every (id int PRIMARY KEY, b bool, s smallint, g bigint, n numeric, r real, d double precision, \
      m money, t text, v varchar(20), c char(4), y bytea, ts timestamp, tz timestamptz, dt date, tm time, iv interval, \
      u uuid, i inet, mc macaddr, p point, bx box, bt bit(3), vb bit varying, x xml, j json, jb jsonb, tv tsvector, \
      a int[], aa text[], rg int4range, mr int4multirange, o mood, pr pair, f few, twice int GENERATED ALWAYS AS (id * 2) STORED); \
    CREATE TABLE bare (v text)";
const VALUES: &str = "true, -3, 9007199254740993, 1.10, 0.1, 1e300, 12.5, 'it''s \\', 'ä', 'ab', '\\xdead', \
    '2026-01-02 03:04:05.678', '2026-01-02 03:04:05+02', '2026-01-02', '03:04', '1 mon -2 days', \
    '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '10.0.0.1/8', '08:00:2b:01:02:03', '(1,2)', '((1,2),(3,4))', '101', '1', \
    '<a>b</a>', '{\"a\": 1}', '{\"b\": [1, null]}', 'a fat cat', '{1,NULL,3}', '{\"x y\",\"\\\"\"}', '[1,5)', \
    '{[1,2),[5,9)}', 'glad', '(1,\"a b\")', 7";

#[test]
fn all_types_survive() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    client.rows(TYPES).unwrap();
    client.rows(&format!("INSERT INTO every SELECT 1, {VALUES}")).unwrap();
    becomes_equal(&serving.servers, "postgres", "every");
    for sql in [
        &format!("INSERT INTO every SELECT n, {VALUES} FROM generate_series(2, 300) n"),
        "INSERT INTO every (id) SELECT n FROM generate_series(301, 310) n",
        "UPDATE every SET n = n + 0.01, t = repeat(t, 3000) WHERE id % 3 = 0",
        "UPDATE every SET id = id + 1000, o = 'sad' WHERE id % 7 = 0",
        "DELETE FROM every WHERE id % 11 = 0",
        "INSERT INTO bare SELECT n % 5 FROM generate_series(1, 50) n",
        "DELETE FROM bare WHERE v = '3'",
        "UPDATE bare SET v = v || '!' WHERE v = '4'",
    ] {
        client.rows(sql).unwrap();
    }
    is_fed(&mut console, "postgres");
    becomes_equal(&serving.servers, "postgres", "every");
    becomes_equal(&serving.servers, "postgres", "bare");
}

#[test]
fn a_replica_whose_server_dies_recovers_or_hangs_goes_on() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let load = Load::start(&url);
    let replica = serving.servers.replica(0);
    for fail in [Node::kill as fn(&Node), Node::hang] {
        serves(&mut console, "replica1");
        fail(replica);
        load.goes_on(20, 10);
        eventually("a replica that is left", || console.feed("replica1", "postgres").state == "waiting");
        replica.resume();
        replica.start().unwrap();
        is_fed(&mut console, "postgres");
    }
    load.goes_on(20, 10);
    kill_a_backend(replica);
    load.goes_on(20, 10);
    load.end();
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_that_comes_back_without_its_last_commits_is_given_them_again() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let replica = serving.servers.replica(0);
    replica.set("wal_writer_delay", "10s").unwrap();
    let mut client = Client::connect(&url).unwrap();
    for round in 1..6 {
        for n in 0..4 {
            client.rows(&format!("INSERT INTO counter VALUES ({round}{n}, 0)")).unwrap();
        }
        becomes_equal(&serving.servers, "postgres", "counter");
        replica.kill();
        replica.start().unwrap();
    }
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_goes_on_after_the_feeding_backend_was_killed() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let load = Load::start(&url);
    let feeding = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' \
        AND application_name LIKE 'consort%' AND pid <> pg_backend_pid()";
    for _ in 0..3 {
        load.goes_on(20, 10);
        eventually("a feeding backend", || {
            !serving.servers.replica(0).query("template1", feeding).unwrap().is_empty()
        });
    }
    load.end();
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_goes_on_after_consort_was_killed() {
    let (mut serving, console, url) = serving(0, THROUGH);
    drop(console);
    for _ in 0..2 {
        let load = Load::that_comes_back(&url);
        load.goes_on(20, 10);
        serving.signal("KILL");
        serving.ended();
        serving.start_again();
        load.goes_on(20, 10);
        load.end();
    }
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_goes_on_after_the_primary_was_killed() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let primary = serving.servers.primary();
    for fail in [Node::kill as fn(&Node), kill_a_backend] {
        let load = Load::that_comes_back(&url);
        load.goes_on(20, 10);
        fail(primary);
        primary.start().unwrap();
        load.goes_on(20, 10);
        load.end();
    }
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_that_differs_serves_nothing_until_it_is_made_anew() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    knows(&mut client, &mut console);
    let replica = serving.servers.replica(0);
    replica.query("postgres", "DELETE FROM quiet").unwrap();
    client.rows("UPDATE quiet SET v = 8").unwrap();
    assert_eq!(client.number(READ_QUIET).unwrap(), 8);
    eventually("a replica that has failed", || console.feed("replica1", "postgres").state == "failed");
    let why = console.feed("replica1", "postgres").why;
    assert!(why.contains("public.quiet differs at the replica") && why.contains("(id) = (1)"), "{why}");
    let said = serving.run("status", &[]).worked();
    assert!(said.contains("failed: public.quiet differs at the replica"), "{said}");
    let node = said.lines().find(|line| line.starts_with("replica1 ")).expect("it is a node");
    assert!(node.contains(" not serving ") && node.contains("all of its databases have failed"), "{node}");
    let labels = "{node=\"replica1\",database=\"postgres\"}";
    assert_eq!(figure(&serving, &format!("consort_replication_failed{labels}")), 1);
    let before = served(&mut console, "replica1");
    client.rows("UPDATE quiet SET v = 9").unwrap();
    for _ in 0..20 {
        assert_eq!(client.number(READ_QUIET).unwrap(), 9);
    }
    assert_eq!(served(&mut console, "replica1"), before, "nobody reads there");
    replica.query("template1", "DROP DATABASE postgres WITH (FORCE)").unwrap();
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_keeps_indexes_of_its_own() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let replica = serving.servers.replica(0);
    replica.query("postgres", "CREATE INDEX of_its_own ON quiet (v)").unwrap();
    client.rows("UPDATE quiet SET v = 8").unwrap();
    client.rows("ALTER TABLE quiet ADD COLUMN w text DEFAULT 'w'").unwrap();
    client.rows("INSERT INTO quiet SELECT n, n, 'x' FROM generate_series(100, 2000) n").unwrap();
    all_equal(&serving, &mut console);
    let said = serving.run("verify", &["postgres"]).worked();
    assert!(said.contains("public.quiet") && !said.contains("differs"), "{said}");
    let sql = "SET enable_seqscan = off; EXPLAIN SELECT id FROM quiet WHERE v = 1234";
    let plan = replica.query("postgres", sql).unwrap();
    let is_used =
        |line: &Vec<Option<String>>| line[0].as_deref().is_some_and(|line| line.contains("of_its_own"));
    assert!(plan.iter().any(is_used), "{plan:?}");
}

#[test]
fn a_replica_that_cannot_take_anything_in_is_not_noticed_and_says_why() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    knows(&mut client, &mut console);
    let replica = serving.servers.replica(0);
    // The server's error when its disk is full.
    let full = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
            $$ BEGIN RAISE disk_full USING MESSAGE = 'could not extend file: No space left on device'; END $$; \
        CREATE TRIGGER full_disk BEFORE UPDATE ON quiet FOR EACH ROW EXECUTE FUNCTION full_disk(); \
        ALTER TABLE quiet ENABLE ALWAYS TRIGGER full_disk";
    replica.query("postgres", full).unwrap();
    client.rows("UPDATE quiet SET v = 8").unwrap();
    for _ in 0..20 {
        assert_eq!(client.number(READ_QUIET).unwrap(), 8);
    }
    eventually("its reason", || {
        let feed = console.feed("replica1", "postgres");
        feed.state == "waiting" && feed.why.contains("No space left on device")
    });
    let said = serving.run("status", &[]).worked();
    assert!(said.contains("No space left on device"), "{said}");
    let waits = "consort_replication_waiting{node=\"replica1\",database=\"postgres\"}";
    eventually("a metric that says so", || figure(&serving, waits) == 1);
    client.rows("UPDATE quiet SET v = 9").unwrap();
    assert_eq!(client.number(READ_QUIET).unwrap(), 9);
    replica.query("postgres", "DROP FUNCTION full_disk() CASCADE").unwrap();
    all_equal(&serving, &mut console);
    assert_eq!(figure(&serving, waits), 0);
    let before = served(&mut console, "replica1");
    eventually("reads at the replica", || {
        assert_eq!(client.number(READ_QUIET).unwrap(), 9);
        served(&mut console, "replica1") > before
    });
}

#[test]
fn a_replica_that_is_too_far_behind_is_copied_anew() {
    let (serving, mut console, url) =
        serving(0, &format!("{THROUGH}\nreplication_buffer_size = \"1MB\"\nreplication_spill_size = \"0B\""));
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE TABLE big (id int PRIMARY KEY, v text NOT NULL)").unwrap();
    client.rows("INSERT INTO big VALUES (-1, 'the first')").unwrap();
    becomes_equal(&serving.servers, "postgres", "big");
    let replica = serving.servers.replica(0);
    replica.hang();
    for round in 0..40 {
        let sql = format!(
            "INSERT INTO big SELECT {round} * 1000 + n, repeat('x', 100) FROM generate_series(1, 1000) n"
        );
        client.rows(&sql).unwrap();
    }
    replica.resume();
    is_fed(&mut console, "postgres");
    becomes_equal(&serving.servers, "postgres", "big");
}

/// Writes at a node itself, past Consort.
pub(crate) fn write_past(node: &Node, role: &str, sql: &str) -> Result<(), Trouble> {
    let url = past(node).replace("user=postgres", &format!("user={role}"));
    Client::connect(&url)?.rows(sql).map(drop)
}

/// An accidental writer at this node gets PostgreSQL's own error.
pub(crate) fn refuses(node: &Node, role: &str) {
    for (sql, command) in [
        ("INSERT INTO quiet VALUES (99, 9)", "INSERT"),
        ("UPDATE quiet SET v = 99", "UPDATE"),
        ("DELETE FROM quiet", "DELETE"),
        ("CREATE TABLE mine (n int)", "CREATE TABLE"),
    ] {
        let refused = write_past(node, role, sql).expect_err(sql);
        assert_eq!(refused.text, format!("cannot execute {command} in a read-only transaction"), "{role}");
        assert_eq!(refused.sqlstate.as_deref(), Some("25006"));
    }
}

#[test]
fn nobody_writes_at_a_fed_replica_by_accident() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let replica = serving.servers.replica(0);
    refuses(replica, "postgres");
    // The guard is no lock, and Consort does not depend on it.
    let mut purpose = Client::connect(&past(replica)).unwrap();
    purpose.rows("BEGIN READ WRITE").unwrap();
    purpose.rows("CREATE TABLE mine (n int)").unwrap();
    purpose.rows("ROLLBACK").unwrap();
    drop(purpose);
    client.rows("UPDATE quiet SET v = 8").unwrap();
    client.rows("CREATE TABLE later AS SELECT 1 AS n").unwrap();
    becomes_equal(&serving.servers, "postgres", "later");
    all_equal(&serving, &mut console);
    // A client's session is the primary's, wherever its reads run.
    eventually("reads at the replica", || {
        let before = served(&mut console, "replica1");
        for setting in ["default_transaction_read_only", "transaction_read_only"] {
            assert_eq!(client.one(&format!("SHOW {setting}")).unwrap(), "off");
            assert_eq!(client.one(&format!("SELECT current_setting('{setting}')")).unwrap(), "off");
        }
        assert_eq!(client.number(READ_QUIET).unwrap(), 8);
        served(&mut console, "replica1") > before
    });
    let said = serving.run("verify", &["postgres"]).worked();
    assert!(said.contains("public.quiet") && !said.contains("differs"), "{said}");
    rebuilt(&serving, &mut console);
    refuses(replica, "postgres");
    // A copy that has lost its guard is guarded as soon as it is connected to again.
    replica.query("postgres", "ALTER DATABASE postgres RESET default_transaction_read_only").unwrap();
    console.rows("PAUSE REPLICA replica1");
    eventually("a replica that is paused", || console.feed("replica1", "postgres").state == "paused");
    console.rows("RESUME REPLICA replica1");
    all_equal(&serving, &mut console);
    refuses(replica, "postgres");
}

#[test]
fn what_the_primary_has_of_its_own_does_not_open_a_fed_replica() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let replica = serving.servers.replica(0);
    let settles = |mark: &str, is_there: bool| {
        let sql = format!(
            "SELECT FROM pg_db_role_setting WHERE setrole = 'clerk'::regrole AND setdatabase <> 0 \
             AND 'work_mem={mark}' = ANY (setconfig)"
        );
        eventually("roles that are in step", || {
            replica.query("template1", &sql).is_ok_and(|rows| rows.is_empty() != is_there)
        });
    };
    client.rows("CREATE ROLE clerk LOGIN").unwrap();
    for whose in ["DATABASE postgres", "ROLE clerk", "ROLE clerk IN DATABASE postgres"] {
        client.rows(&format!("ALTER {whose} SET default_transaction_read_only = off")).unwrap();
    }
    // The settings of roles are copied last.
    client.rows("ALTER ROLE clerk IN DATABASE postgres SET work_mem = '5MB'").unwrap();
    settles("5MB", true);
    refuses(replica, "postgres");
    refuses(replica, "clerk");
    // A dump of the database brings along what roles have in it.
    rebuilt(&serving, &mut console);
    refuses(replica, "clerk");
    // A primary whose own database is read-only by default goes on.
    client.rows("ALTER DATABASE postgres SET default_transaction_read_only = on").unwrap();
    for sql in ["BEGIN READ WRITE", "UPDATE quiet SET v = 8", "COMMIT"] {
        client.rows(sql).unwrap();
    }
    all_equal(&serving, &mut console);
    for sql in [
        "BEGIN READ WRITE",
        "ALTER DATABASE postgres RESET default_transaction_read_only",
        "ALTER ROLE clerk IN DATABASE postgres RESET work_mem",
        "COMMIT",
    ] {
        client.rows(sql).unwrap();
    }
    settles("5MB", false);
    refuses(replica, "postgres");
    refuses(replica, "clerk");
}

#[test]
fn what_was_fed_is_written_to_when_it_is_detached() {
    let (mut serving, console, url) = serving(0, THROUGH);
    drop(console);
    let servers = serving.servers.clone();
    serving.signal("TERM");
    serving.ended();
    assert!(Client::connect(&url).is_err(), "nobody feeds it");
    refuses(servers.replica(0), "postgres");
    assert_eq!(serving.run("detach", &[]).worked(), "postgres: detached\n");
    write_past(servers.replica(0), "postgres", "CREATE TABLE mine (n int)").unwrap();
}

/// DDL that a replica cannot run, and what it is about.
const UNREPLICABLE: [&str; 2] =
    ["-- no more\nALTER TABLE parts DETACH PARTITION first CONCURRENTLY", "DROP OWNED BY boss"];

#[test]
fn ddl_that_replicas_cannot_run_is_refused_where_that_is_wanted() {
    let (mut serving, mut console, url) = serving(0, &format!("{THROUGH}\nunreplicable_ddl = \"refuse\""));
    let mut client = Client::connect(&url).unwrap();
    let setup = "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id); \
                 CREATE TABLE first PARTITION OF parts FOR VALUES FROM (1) TO (10); \
                 CREATE ROLE boss; CREATE TABLE of_boss (id int PRIMARY KEY); ALTER TABLE of_boss OWNER TO boss";
    client.rows(setup).unwrap();
    client.rows("INSERT INTO of_boss VALUES (0)").unwrap();
    // With its new owner.
    becomes_equal(&serving.servers, "postgres", "of_boss");
    is_fed(&mut console, "postgres");
    let copy = |serving: &Serving| {
        let sql = "SELECT oid FROM pg_database WHERE datname = 'postgres'";
        serving.servers.replica(0).query("template1", sql).unwrap()
    };
    let before = copy(&serving);
    for sql in UNREPLICABLE {
        let refused = client.rows(sql).map(|_| ()).unwrap_err();
        assert_eq!(refused.sqlstate.as_deref(), Some("0A000"), "{sql}: {}", refused.text);
        assert!(refused.text.contains("cannot be run at replicas"), "{sql}: {}", refused.text);
    }
    client.rows("INSERT INTO of_boss VALUES (1); INSERT INTO parts VALUES (1)").unwrap();
    for table in ["of_boss", "parts"] {
        becomes_equal(&serving.servers, "postgres", table);
    }
    assert_eq!(copy(&serving), before, "the replica goes on");

    let text = std::fs::read_to_string(serving.config_file()).unwrap();
    std::fs::write(serving.config_file(), text.replace("\"refuse\"", "\"copy\"")).unwrap();
    serving.signal("TERM");
    serving.ended();
    serving.start_again();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let mut client = Client::connect(&url).unwrap();
    client.rows("INSERT INTO of_boss VALUES (2)").unwrap();
    is_fed(&mut console, "postgres");
    for sql in UNREPLICABLE {
        let before = copy(&serving);
        client.rows(sql).unwrap();
        eventually("a copy of its own", || {
            let now = copy(&serving);
            !now.is_empty() && now != before
        });
        is_fed(&mut console, "postgres");
    }
}

/// No event trigger fires for either.
#[test]
fn who_owns_what_and_who_is_called_how_follows_without_a_new_copy() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let (primary, replica) = (serving.servers.primary(), serving.servers.replica(0));
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE ROLE boss; CREATE ROLE heir; CREATE ROLE clerk LOGIN").unwrap();
    eventually("the roles at the replica", || {
        replica
            .query("template1", "SELECT FROM pg_roles WHERE rolname = 'clerk'")
            .is_ok_and(|rows| !rows.is_empty())
    });
    let setup = "CREATE TABLE ours (id int PRIMARY KEY, who text NOT NULL); GRANT SELECT ON ours TO PUBLIC; \
                 ALTER TABLE ours ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON ours TO clerk USING (who = 'clerk'); \
                 ALTER TABLE ours OWNER TO boss";
    client.rows(setup).unwrap();
    client.rows("INSERT INTO ours VALUES (1, 'clerk'), (2, 'boss')").unwrap();
    becomes_equal(&serving.servers, "postgres", "ours");
    is_fed(&mut console, "postgres");
    let copy =
        || replica.query("template1", "SELECT oid FROM pg_database WHERE datname = 'postgres'").unwrap();
    let before = copy();

    let whose = "SELECT pg_get_userbyid(c.relowner)::text, pg_get_userbyid(p.polroles[1])::text \
                 FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid";
    for (sql, owner, role) in [
        ("REASSIGN OWNED BY boss TO heir", "heir", "clerk"),
        ("ALTER ROLE clerk RENAME TO writer; CREATE ROLE clerk LOGIN", "heir", "writer"),
    ] {
        client.rows(sql).unwrap();
        let expected = vec![vec![Some(owner.to_owned()), Some(role.to_owned())]];
        assert_eq!(primary.query("postgres", whose).unwrap(), expected, "{sql}");
        eventually("the same at the replica", || {
            replica.query("postgres", whose).is_ok_and(|there| there == expected)
        });
    }
    client.rows("INSERT INTO ours VALUES (3, 'clerk')").unwrap();
    becomes_equal(&serving.servers, "postgres", "ours");
    let [mut writer, mut clerk] = ["writer", "clerk"]
        .map(|role| Client::connect(&serving.url(role, "postgres")).expect("the role comes in"));
    let so_far = served(&mut console, "replica1");
    eventually("reads at the replica", || {
        assert_eq!(writer.number("SELECT count(*) FROM ours").unwrap(), 2);
        assert_eq!(clerk.number("SELECT count(*) FROM ours").unwrap(), 0, "no policy is for it");
        served(&mut console, "replica1") > so_far + 4
    });
    assert_eq!(copy(), before, "nothing of that made a new copy necessary");
}

/// A table that the replica has, and how many copies were begun for it.
fn granted(serving: &Serving, console: &mut Console, client: &mut Client) -> u64 {
    client.rows("CREATE TABLE granted (id int PRIMARY KEY)").expect("a table");
    client.rows("INSERT INTO granted VALUES (1)").expect("a row");
    becomes_equal(&serving.servers, "postgres", "granted");
    is_fed(console, "postgres");
    console.feed("replica1", "postgres").copies
}

/// The replica gives this role, which is new, what the primary gives it, and is read again, without another copy.
fn grants_to(role: &str, stage: (&Serving, &mut Console, &mut Client), copies: u64) {
    let (serving, console, client) = stage;
    let may = format!(
        "SELECT FROM pg_roles WHERE rolname = '{role}' AND has_table_privilege(oid, 'granted', 'SELECT')"
    );
    eventually("the privilege at the replica", || {
        serving.servers.replica(0).query("postgres", &may).is_ok_and(|rows| !rows.is_empty())
    });
    let so_far = served(console, "replica1");
    eventually("reads at the replica", || {
        assert_eq!(client.number("SELECT count(*) FROM granted").expect("it answers"), 1);
        served(console, "replica1") > so_far
    });
    assert_eq!(console.feed("replica1", "postgres").copies, copies);
}

/// Role changes reach replicas after they are committed: a statement that needs the role may come first.
#[test]
fn what_needs_a_role_of_which_a_replica_has_not_heard_has_no_copy_made() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let replica = serving.servers.replica(0);
    let mut client = Client::connect(&url).unwrap();
    let copies = granted(&serving, &mut console, &mut client);
    client
        .rows("CREATE ROLE owns; CREATE ROLE deploys LOGIN; CREATE ROLE made; GRANT owns TO deploys")
        .unwrap();
    client.rows("ALTER TABLE granted OWNER TO owns").unwrap();
    let has = |sql: &str| replica.query("postgres", sql).is_ok_and(|rows| !rows.is_empty());
    eventually("a member at the replica", || {
        has("SELECT FROM pg_auth_members WHERE roleid = to_regrole('owns')")
    });
    eventually("its table", || has("SELECT FROM pg_class WHERE relowner = to_regrole('owns')"));
    // As if that had not come yet.
    replica.query("postgres", "REVOKE owns FROM deploys; DROP ROLE made").unwrap();
    let mut deploys = Client::connect(&serving.url("deploys", "postgres")).unwrap();
    deploys.rows("ALTER TABLE granted ADD COLUMN v int DEFAULT 7").unwrap();
    eventually("the column at the replica", || {
        has("SELECT FROM pg_attribute WHERE attname = 'v' AND attrelid = 'granted'::regclass")
    });
    replica.query("postgres", "DROP ROLE made").unwrap();
    client.rows("GRANT SELECT ON granted TO made").unwrap();
    grants_to("made", (&serving, &mut console, &mut client), copies);
}

/// A role is made while a replica is paused, then this is run, and the replica goes on: no copy is made.
fn behind_a_role_that_a_replica_hears_of(commands: &[&str]) {
    let (serving, mut console, url) = serving(1, THROUGH);
    let mut client = Client::connect(&url).expect("a client");
    let copies = granted(&serving, &mut console, &mut client);
    console.rows("PAUSE REPLICA replica1");
    eventually("a replica that is paused", || console.feed("replica1", "postgres").state == "paused");
    client.rows("CREATE ROLE made").expect("a role");
    // Reads are offloaded when the change of the role has come out: later statements follow it.
    let so_far = served(&mut console, "standby1");
    eventually("reads at the standby", || {
        assert_eq!(client.number("SELECT count(*) FROM granted").expect("a count"), 1);
        served(&mut console, "standby1") > so_far
    });
    for command in commands {
        client.rows(command).expect(command);
    }
    console.rows("RESUME REPLICA replica1");
    grants_to("made", (&serving, &mut console, &mut client), copies);
}

/// Grants that a replica lacks when it receives a role may be on their way.
#[test]
fn what_was_granted_when_a_replica_hears_of_a_role_has_no_copy_made() {
    behind_a_role_that_a_replica_hears_of(&["GRANT SELECT ON granted TO made"]);
}

/// Each command is checked for whom the table belonged to when it ran.
#[test]
fn what_has_another_owner_when_a_replica_hears_of_a_role_has_no_copy_made() {
    behind_a_role_that_a_replica_hears_of(&[
        "CREATE POLICY everything ON granted USING (true)",
        "ALTER TABLE granted OWNER TO made",
    ]);
}

/// Nothing on the way says that: the next command finds it so at the primary.
#[test]
fn what_was_reassigned_when_a_replica_hears_of_a_role_has_no_copy_made() {
    behind_a_role_that_a_replica_hears_of(&[
        "CREATE ROLE owner; ALTER TABLE granted OWNER TO owner; REASSIGN OWNED BY owner TO made",
        "ALTER TABLE granted ADD COLUMN v int DEFAULT 7",
    ]);
}

#[test]
fn the_copy_of_a_dropped_database_goes() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let there = || {
        let sql = "SELECT FROM pg_database WHERE datname = 'shop'";
        !serving.servers.replica(0).query("template1", sql).unwrap().is_empty()
    };
    for rows in [3, 5] {
        client.rows("CREATE DATABASE shop").unwrap();
        let mut shop = Client::connect(&serving.url("postgres", "shop")).unwrap();
        shop.rows(&format!("CREATE TABLE t AS SELECT generate_series(1, {rows}) AS n")).unwrap();
        is_fed(&mut console, "shop");
        becomes_equal(&serving.servers, "shop", "t");
        drop(shop);
        client.rows("DROP DATABASE shop").unwrap();
        eventually("a copy that is gone", || !there());
    }
}

/// Extensions are made and dropped by what a replica has not been given yet.
#[test]
fn extensions_that_came_and_went_while_a_replica_was_away_come_and_go_with_the_rest() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let extensions = "SELECT extname FROM pg_extension ORDER BY 1";
    let there = || serving.servers.replica(0).query("postgres", extensions).ok();
    client.rows("CREATE EXTENSION hstore").unwrap();
    eventually("the extension at the replica", || there() == Some(serving.servers.query(extensions)));
    let copies = console.feed("replica1", "postgres").copies;
    console.rows("PAUSE REPLICA replica1");
    eventually("a replica that is paused", || console.feed("replica1", "postgres").state == "paused");
    client.rows("DROP EXTENSION hstore").unwrap();
    client.rows("CREATE EXTENSION citext").unwrap();
    client.rows("CREATE TABLE named AS SELECT 'A'::citext AS name").unwrap();
    console.rows("RESUME REPLICA replica1");
    is_fed(&mut console, "postgres");
    becomes_equal(&serving.servers, "postgres", "named");
    assert_eq!(there(), Some(serving.servers.query(extensions)));
    assert_eq!(console.feed("replica1", "postgres").copies, copies, "it was copied anew");
}

/// The feed may wait for the replica until the database is forgotten.
#[test]
fn nothing_is_told_of_a_database_that_was_dropped_before_it_could_be_fed() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let mut fed = move || -> Vec<String> {
        console.rows("SHOW REPLICATION").iter().map(|row| row.get("database").unwrap().to_owned()).collect()
    };
    let mut holder = Client::connect(&past(serving.servers.replica(0))).unwrap();
    holder.rows("BEGIN; LOCK TABLE pg_database").unwrap();
    client.rows("CREATE DATABASE dropped").unwrap();
    Client::connect(&serving.url("postgres", "dropped")).unwrap().rows("SELECT 1").unwrap();
    eventually("a database that waits for the replica", || fed().contains(&"dropped".to_owned()));
    client.rows("DROP DATABASE dropped WITH (FORCE)").unwrap();
    eventually("a database that is forgotten", || fed() == ["postgres"]);
    holder.rows("COMMIT").unwrap();
    client.rows("CREATE DATABASE made").unwrap();
    Client::connect(&serving.url("postgres", "made"))
        .unwrap()
        .rows("CREATE TABLE t AS SELECT 1 AS n")
        .unwrap();
    becomes_equal(&serving.servers, "made", "t");
    eventually("what is there alone", || fed() == ["postgres", "made"]);
}

#[test]
fn a_server_that_is_somebody_elses_is_not_touched() {
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.replica(0).query("postgres", "CREATE TABLE mine AS SELECT 1 AS n").unwrap();
    let serving = Serving::over(Arc::new(servers), THROUGH);
    Client::connect(&serving.url("postgres", "postgres")).and_then(|mut client| client.rows(TABLES)).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    eventually("a refusal", || {
        console.feed("replica1", "postgres").why.contains("contains tables and was not created by Consort")
    });
    assert_eq!(serving.servers.replica(0).query("postgres", "SELECT n FROM mine").unwrap().len(), 1);
}

#[test]
fn up_makes_replicas_and_starts_them_again() {
    let folder = up_folder();
    let listen = format!("127.0.0.1:{}", folder.port);
    folder.run("up", &["--listen", &listen, "--standbys", "0", "--replicas", "1"]).worked();
    let mut client = Client::connect(&folder.url()).unwrap();
    client.rows(TABLES).unwrap();
    // A database may have collations that a fresh server lacks.
    client
        .rows("CREATE COLLATION own (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        .unwrap();
    let console = format!("postgres://postgres@{listen}/consort");
    is_fed(&mut Console::connect(&console), "postgres");
    drop(client);
    folder.run("down", &[]).worked();
    folder.run("up", &[]).worked();
    let mut client = Client::connect(&folder.url()).unwrap();
    assert_eq!(client.number(READ_QUIET).unwrap(), 7);
    is_fed(&mut Console::connect(&console), "postgres");
    assert!(folder.run("status", &[]).worked().contains("replica1"));
    assert!(folder.run("check", &[]).worked().contains("replica1: ok"));
}

/// Rows of a transaction whose meaning another transaction changes without locking their tables.
const MEANT: [(&str, &str); 5] = [
    (
        "INSERT INTO one.t VALUES (2)",
        "ALTER SCHEMA one RENAME TO spare; ALTER SCHEMA two RENAME TO one; ALTER SCHEMA spare RENAME TO two",
    ),
    (
        "INSERT INTO moods VALUES (2, 'a')",
        "ALTER TYPE mood RENAME VALUE 'a' TO 'spare'; ALTER TYPE mood RENAME VALUE 'b' TO 'a'; \
         ALTER TYPE mood RENAME VALUE 'spare' TO 'b'",
    ),
    ("INSERT INTO moody VALUES (2, ARRAY['a']::temper[])", "ALTER TYPE mood RENAME VALUE 'a' TO 'c'"),
    ("INSERT INTO pairs VALUES (2, '(2,22)')", "ALTER TYPE pair DROP ATTRIBUTE x, ADD ATTRIBUTE x int"),
    ("INSERT INTO of_rows VALUES (2, '(2,22)')", "ALTER TABLE rows ADD COLUMN z int"),
];

#[test]
fn what_an_open_transaction_has_written_means_the_same_everywhere_behind_ddl_beside_it() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let (primary, replica) = (serving.servers.primary(), serving.servers.replica(0));
    let mut client = Client::connect(&url).unwrap();
    let setup = "CREATE SCHEMA one; CREATE SCHEMA two; CREATE TABLE one.t (id int PRIMARY KEY); \
                 CREATE TABLE two.t (id int PRIMARY KEY); \
                 CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TABLE moods (id int PRIMARY KEY, mood mood); \
                 CREATE DOMAIN temper AS mood; CREATE TABLE moody (id int PRIMARY KEY, moods temper[]); \
                 CREATE TYPE pair AS (x int, y int); CREATE TABLE pairs (id int PRIMARY KEY, pair pair); \
                 CREATE TABLE rows (x int, y int); CREATE TABLE of_rows (id int PRIMARY KEY, of rows)";
    client.rows(setup).unwrap();
    let first = "INSERT INTO one.t VALUES (1); INSERT INTO two.t VALUES (0); INSERT INTO moods VALUES (1, 'b'); \
                 INSERT INTO moody VALUES (1, ARRAY['b']::temper[]); INSERT INTO pairs VALUES (1, '(1,11)'); \
                 INSERT INTO of_rows VALUES (1, '(1,11)')";
    client.rows(first).unwrap();
    let tables = ["one.t", "two.t", "moods", "moody", "pairs", "of_rows"];
    tables.iter().for_each(|table| becomes_equal(&serving.servers, "postgres", table));
    is_fed(&mut console, "postgres");
    let before = number(replica);
    for (write, ddl) in MEANT {
        let mut writer = Client::connect(&url).unwrap();
        writer.rows("BEGIN").unwrap();
        writer.rows(write).unwrap();
        std::thread::scope(|scope| {
            let other =
                scope.spawn(|| Client::connect(&url).and_then(|mut other| other.rows(ddl).map(|_| ())));
            let waits =
                "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER %'";
            eventually("DDL that waits, or has run", || {
                other.is_finished() || !primary.query("postgres", waits).unwrap().is_empty()
            });
            writer.rows("COMMIT").unwrap();
            other.join().unwrap().unwrap_or_else(|trouble| panic!("{ddl}: {trouble:?}"));
        });
        client.rows("INSERT INTO pairs VALUES ((SELECT max(id) + 100 FROM pairs), NULL)").unwrap();
        tables.iter().for_each(|table| becomes_equal(&serving.servers, "postgres", table));
        is_fed(&mut console, "postgres");
    }
    assert_eq!(number(replica), before, "nothing was copied anew");
}
