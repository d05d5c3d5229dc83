//! Operations on a logical replica while clients work: pause, resume, copy again.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use local_cluster::Node;

use crate::fed::{all_equal, rows, serving};
use crate::fixture::{CONSORT, Done, Serving, eventually, run, temporary};
use crate::load::{Client, Console, Load, READ_QUIET, THROUGH, past, served, serves};
use crate::waiting::{self, named};

/// `consort replica` for what is served.
fn replica(serving: &Serving, what: &str, name: &str) -> Done {
    let mut command = Command::new(CONSORT);
    run(command.args(["replica", what, name, "--config"]).arg(serving.config_file()))
}

/// The number of a database, which is new for each copy of it.
pub(crate) fn number(node: &Node) -> Option<String> {
    let sql = "SELECT oid FROM pg_database WHERE datname = 'postgres'";
    node.query("template1", sql).ok()?.first()?.first()?.clone()
}

/// A serial and an identity column, and sequences that no column owns.
const NUMBERED: &str = "CREATE TABLE kept (id serial PRIMARY KEY, v int); \
    CREATE TABLE always (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int); \
    CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE \"Odd one\"; \
    INSERT INTO kept (v) VALUES (1), (2), (3); INSERT INTO always (v) VALUES (1), (2), (3)";

/// Values of the sequences of [`NUMBERED`] at a node.
fn sequences(node: &Node) -> Option<Vec<Vec<Option<String>>>> {
    let one = |name: &str| format!("SELECT '{name}', last_value, is_called FROM \"{name}\"");
    let all = ["kept_id_seq", "always_id_seq", "down", "Odd one"].map(one).join(" UNION ALL ");
    node.query("postgres", &all).ok()
}

/// Waits until the replica's sequences have the primary's values, after the written rows.
fn sequences_follow(serving: &Serving, behind: &str) {
    let (primary, replica) = (serving.servers.primary(), serving.servers.replica(0));
    for table in ["kept", "always"] {
        let written = rows(primary, "postgres", table).expect("the primary answers");
        eventually(behind, || rows(replica, "postgres", table).as_ref() == Some(&written));
    }
    let there = sequences(primary).expect("the primary answers");
    eventually(behind, || sequences(replica).as_ref() == Some(&there));
}

fn state(console: &mut Console) -> String {
    console.feed("replica1", "postgres").state
}

/// More than a megabyte of rows, in several commits.
fn write_much(client: &mut Client) {
    for round in 1..20 {
        let sql =
            format!("INSERT INTO counter SELECT {round} * 10000 + n, 0 FROM generate_series(1, 10000) n");
        client.rows(&sql).expect("the rows are written");
    }
}

#[test]
fn a_paused_replica_takes_nothing_until_it_is_resumed() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let load = Load::start(&url);
    serves(&mut console, "replica1");
    assert_eq!(replica(&serving, "pause", "replica1").worked(), "replica1: paused\n");
    eventually("a replica that is paused", || state(&mut console) == "paused");
    assert_eq!(console.node("replica1").why, "paused");
    load.goes_on(20, 10);
    let there = || rows(serving.servers.replica(0), "postgres", "counter");
    let (before, shown) = (served(&mut console, "replica1"), there());
    load.goes_on(20, 10);
    assert_eq!((served(&mut console, "replica1"), there()), (before, shown));
    assert_eq!(replica(&serving, "resume", "replica1").worked(), "replica1: resumed\n");
    assert_ne!(state(&mut console), "paused");
    serves(&mut console, "replica1");
    load.end();
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_that_is_paused_for_too_long_is_copied_anew() {
    let (serving, mut console, url) =
        serving(0, &format!("{THROUGH}\nreplication_buffer_size = \"1MB\"\nreplication_spill_size = \"0B\""));
    let mut client = Client::connect(&url).unwrap();
    let before = number(serving.servers.replica(0));
    console.rows("PAUSE REPLICA replica1");
    write_much(&mut client);
    console.rows("RESUME REPLICA replica1");
    all_equal(&serving, &mut console);
    assert_ne!(number(serving.servers.replica(0)), before);
}

#[test]
fn what_memory_has_no_room_for_waits_in_files_for_a_replica_that_is_paused() {
    let (serving, mut console, url) = serving(0, &format!("{THROUGH}\nreplication_buffer_size = \"1MB\""));
    let mut client = Client::connect(&url).unwrap();
    let before = number(serving.servers.replica(0));
    console.rows("PAUSE REPLICA replica1");
    write_much(&mut client);
    eventually("rows in files", || console.feed("replica1", "postgres").pending_file_bytes > 5 << 20);
    console.rows("RESUME REPLICA replica1");
    all_equal(&serving, &mut console);
    assert_eq!(number(serving.servers.replica(0)), before, "it was not copied anew");
    let feed = console.feed("replica1", "postgres");
    assert_eq!((feed.pending_file_bytes, &*feed.catch_up_left_ms), (0, "0"));
}

/// Each row of a table takes a replica as long as any other, whatever the machine does meanwhile: it waits when it has read them.
const SLOWLY: &str = "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$; \
    CREATE TRIGGER slowly AFTER INSERT ON heavy FOR EACH ROW EXECUTE FUNCTION slowly(); \
    ALTER TABLE heavy ENABLE ALWAYS TRIGGER slowly";

/// Has the replica lack so many commits of so many rows of such a length, and catch up. How many times as long as it then took it
/// was said to take: the middle of all that was said meanwhile.
fn told_to_truth(
    (serving, mut console, url): (Serving, Console, String),
    commits: u64,
    (rows_of_each, length): (u64, u64),
) -> f64 {
    let mut client = Client::connect(&url).expect("a log-in");
    client.rows("CREATE TABLE heavy (id int PRIMARY KEY, v text NOT NULL)").expect("the table can be made");
    let node = serving.servers.replica(0);
    eventually("the table at the replica", || rows(node, "postgres", "heavy").is_some());
    // DDL at the replica does not fire it: this follows the DDL.
    node.query("postgres", SLOWLY).expect("the replica may have triggers of its own");
    all_equal(&serving, &mut console);
    console.rows("PAUSE REPLICA replica1");
    eventually("a replica that is paused", || state(&mut console) == "paused");
    for commit in 1..=commits {
        let sql = format!(
            "INSERT INTO heavy SELECT {commit} * 100 + n, repeat('x', {length}) \
             FROM generate_series(1, {rows_of_each}) n"
        );
        client.rows(&sql).expect("the rows are written");
        // Each has a boundary of its own.
        eventually("a commit that the replica lacks", || {
            console.feed("replica1", "postgres").pending_commits >= commit
        });
    }
    console.rows("RESUME REPLICA replica1");
    let mut told: Vec<(Instant, f64)> = Vec::new();
    eventually("a replica that has caught up", || {
        let left = console.feed("replica1", "postgres").catch_up_left_ms;
        told.extend(left.parse().ok().map(|left| (Instant::now(), left)));
        left == "0"
    });
    let (end, _) = told.pop().expect("it was told that nothing is left");
    let times = |(at, left): (Instant, f64)| left / 1000.0 / (end - at).as_secs_f64();
    let mut all: Vec<f64> = told.into_iter().map(times).collect();
    all.sort_by(f64::total_cmp);
    assert!(all.len() > 20, "how long it takes is told meanwhile: {all:?}");
    all[all.len() / 2]
}

#[test]
fn how_long_a_replica_takes_to_catch_up_is_told_within_a_factor_of_two() {
    // Two of these commits are too much for one step.
    let times = told_to_truth(serving(0, THROUGH), 18, (22, 100_000));
    assert!((0.5..=2.0).contains(&times), "{times} times what it took");
}

#[test]
fn so_it_is_where_small_commits_are_taken_in_one_by_one() {
    let locking = named(|design| design.intake.locks());
    let times = told_to_truth(waiting::serving(locking, 1, THROUGH), 200, (1, 10));
    assert!((0.5..=2.0).contains(&times), "{times} times what it took");
}

#[test]
fn a_copy_that_falls_too_far_behind_is_broken_off() {
    let (serving, mut console, url) =
        serving(0, &format!("{THROUGH}\nreplication_buffer_size = \"1MB\"\nreplication_spill_size = \"0B\""));
    let mut client = Client::connect(&url).unwrap();
    let still = Still::made(&mut client);
    console.rows("REBUILD REPLICA replica1");
    is_half_copied(&mut console);
    write_much(&mut client);
    eventually("a copy that is given up", || {
        let why = console.feed("replica1", "postgres").why;
        why.contains(
            "the copy was given up: the replication backlog exceeds replication_buffer_size and \
                      replication_spill_size",
        )
    });
    drop(still);
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_is_made_anew_while_everybody_works() {
    let (serving, mut console, url) = serving(1, THROUGH);
    let load = Load::start(&url);
    let node = serving.servers.replica(0);
    let before = number(node);
    let done = replica(&serving, "rebuild", "replica1");
    assert!(done.err.contains("replica1, database postgres: "), "{done:?}");
    assert_eq!(done.worked(), "replica1: rebuilding\n");
    assert_ne!(number(node), before);
    load.goes_on(20, 10);
    serves(&mut console, "replica1");
    load.end();
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_that_hangs_in_what_it_was_given_is_made_anew() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let node = serving.servers.replica(0);
    let before = number(node);
    let url_there = past(node);
    let mut holder = Client::connect(&url_there).unwrap();
    holder.rows("BEGIN; LOCK TABLE quiet IN ACCESS EXCLUSIVE MODE").unwrap();
    Client::connect(&url).and_then(|mut client| client.rows("UPDATE quiet SET v = v + 1")).unwrap();
    let waiting = "SELECT FROM pg_locks WHERE NOT granted";
    eventually("a feeder that waits", || !node.query("template1", waiting).unwrap().is_empty());
    console.rows("REBUILD REPLICA replica1");
    all_equal(&serving, &mut console);
    assert_ne!(number(node), before);
}

#[test]
fn a_replica_that_has_failed_is_made_anew() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    serving.servers.replica(0).query("postgres", "DELETE FROM quiet").unwrap();
    client.rows("UPDATE quiet SET v = v + 1").unwrap();
    eventually("a replica that has failed", || state(&mut console) == "failed");
    console.rows("REBUILD REPLICA replica1");
    all_equal(&serving, &mut console);
    assert_eq!(client.number(READ_QUIET).unwrap(), 8);
}

#[test]
fn what_is_no_replica_is_refused() {
    let (serving, _console, _url) = serving(1, THROUGH);
    let refused = replica(&serving, "pause", "replica9").failed(1);
    assert!(
        refused.contains("replica \"replica9\" does not exist\nLogical replicas: replica1."),
        "{refused}"
    );
    let refused = replica(&serving, "rebuild", "standby1").failed(1);
    assert!(refused.contains("\"standby1\" is not a logical replica"), "{refused}");
    let console = serving.url("postgres", "consort");
    let mut psql = testkit::program("psql");
    psql.args(["-X", "-v", "VERBOSITY=verbose", "-d", &console, "-c", "RESUME REPLICA nobody"]);
    let refused = run(&mut psql).err;
    assert!(refused.contains("42704") && refused.contains("HINT:  Logical replicas: replica1."), "{refused}");
}

#[test]
fn sequences_of_a_replica_follow_those_of_the_primary() {
    let (mut serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    client.rows(NUMBERED).unwrap();
    let copy = number(serving.servers.replica(0));
    sequences_follow(&serving, "sequences that were made");
    for moves in [
        "INSERT INTO kept (v) VALUES (4); INSERT INTO always (v) VALUES (4); SELECT nextval('down'), nextval('down')",
        "SELECT setval('kept_id_seq', 1000), setval('\"Odd one\"', 50, false)",
        "SELECT setval('\"Odd one\"', 70, false)",
        "TRUNCATE always RESTART IDENTITY",
        "INSERT INTO always (v) VALUES (1), (2), (3), (4)",
        // They come to stand where they stood, and did not meanwhile.
        "TRUNCATE always RESTART IDENTITY; INSERT INTO always (v) VALUES (11), (12), (13), (14)",
        "TRUNCATE kept RESTART IDENTITY",
        "ALTER SEQUENCE down RESTART WITH -20",
    ] {
        client.rows(moves).unwrap();
        sequences_follow(&serving, moves);
    }
    for moves in ["DROP SEQUENCE down", "CREATE SEQUENCE down INCREMENT -1", "SELECT nextval('down')"] {
        client.rows(moves).unwrap();
    }
    sequences_follow(&serving, "a sequence that was made anew");
    assert_eq!(number(serving.servers.replica(0)), copy, "nothing of that made a new copy necessary");
    drop((client, console));
    serving.signal("KILL");
    serving.ended();
    let elsewhere = "SELECT setval('kept_id_seq', 5), setval('always_id_seq', 500)";
    serving.servers.replica(0).query("postgres", elsewhere).unwrap();
    serving.servers.primary().query("postgres", "SELECT nextval('down')").unwrap();
    serving.start_again();
    let mut client = Client::connect(&url).unwrap();
    client.rows("INSERT INTO kept (v) VALUES (1)").unwrap();
    sequences_follow(&serving, "sequences behind a start of Consort");
    console = Console::connect(&serving.url("postgres", "consort"));
    let before = number(serving.servers.replica(0));
    console.rows("REBUILD REPLICA replica1");
    eventually("a copy anew", || number(serving.servers.replica(0)).is_some_and(|now| Some(now) != before));
    client.rows("INSERT INTO kept (v) VALUES (2); INSERT INTO always (v) VALUES (5)").unwrap();
    sequences_follow(&serving, "sequences behind a new copy");
}

/// A lagging replica has not run the DDL yet when the primary's sequences are queried.
#[test]
fn what_ddl_has_drawn_is_told_to_no_replica_that_has_not_run_it() {
    let (serving, _console, url) = waiting::serving(design::CONSORT.name, 2, THROUGH);
    let servers = &serving.servers;
    let (primary, behind) = (servers.primary(), servers.replica(0));
    let mut client = Client::connect(&url).unwrap();
    client.rows(NUMBERED).unwrap();
    client.rows("SELECT nextval('down')").unwrap();
    let follows = |replica: usize| sequences(servers.replica(replica)) == sequences(primary);
    eventually("sequences at both", || follows(0) && follows(1));
    let copy = number(behind);
    let mut holder = Client::connect(&past(behind)).unwrap();
    holder.rows("BEGIN; LOCK TABLE quiet IN SHARE MODE").unwrap();
    client.rows("ALTER TABLE quiet ADD COLUMN w int").unwrap();
    let waits = "SELECT FROM pg_locks WHERE NOT granted";
    eventually("a feeder that waits", || !behind.query("template1", waits).unwrap().is_empty());
    client.rows("ALTER TABLE kept ADD COLUMN n int DEFAULT nextval('down')").unwrap();
    client.rows("SELECT nextval('\"Odd one\"')").unwrap();
    eventually("sequences at the other one", || follows(1));
    holder.rows("ROLLBACK").unwrap();
    let written = rows(primary, "postgres", "kept").expect("the primary answers");
    eventually("the rows", || rows(behind, "postgres", "kept").as_ref() == Some(&written));
    eventually("sequences at this one", || follows(0));
    assert_eq!(number(behind), copy, "nothing of that made a new copy necessary");
}

/// A table of three whose copy stands still in its middle for as long as this lives.
struct Still(PathBuf);

impl Still {
    fn made(client: &mut Client) -> Still {
        let file = temporary("still");
        let there =
            format!("EXISTS (SELECT FROM pg_stat_file('{}', true) WHERE size IS NOT NULL)", file.display());
        let wait = format!("WHILE id = 500 AND {there} LOOP PERFORM pg_sleep(0.01); END LOOP; RETURN true;");
        client
            .rows(&format!(
                "CREATE FUNCTION waited(id int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN {wait} END $$; \
                 CREATE TABLE still (id int PRIMARY KEY, v text NOT NULL, w bool GENERATED ALWAYS AS (waited(id)) STORED); \
                 INSERT INTO still SELECT n, repeat('x', 1000) FROM generate_series(1, 1000) n"
            ))
            .expect("the table can be made");
        fs::write(&file, "").expect("a temporary file can be written");
        Still(file)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Waits until some of a table has been copied. How far that is: tables, all of them, bytes, all of them.
fn is_half_copied(console: &mut Console) -> [u64; 4] {
    let mut far = [0; 4];
    eventually("a copy half-way", || {
        let rows = console.rows("SHOW REPLICATION");
        let figure = |column| rows.first()?.get::<&str>(column)?.parse().ok();
        let figures = ["copied_tables", "tables_to_copy", "copied_bytes", "bytes_to_copy"]
            .map(|of| figure(of).unwrap_or_default());
        far = figures;
        far[2] > 100_000 && rows[0].get::<&str>("copy_left_ms").is_some()
    });
    far
}

#[test]
fn how_far_a_copy_is_can_be_seen() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let still = Still::made(&mut Client::connect(&url).unwrap());
    console.rows("REBUILD REPLICA replica1");
    let [tables, all_tables, bytes, all_bytes] = is_half_copied(&mut console);
    assert!(tables < all_tables && all_tables == 3, "{tables} of {all_tables}");
    assert!(bytes < all_bytes && all_bytes > 1_000_000, "{bytes} of {all_bytes}");
    let status = serving.run("status", &[]).worked();
    assert!(
        status.contains("replica1, database postgres: copying: ") && status.contains(" of 3 tables, "),
        "{status}"
    );
    drop(still);
    all_equal(&serving, &mut console);
    assert!(serving.run("status", &[]).worked().contains("replica1, database postgres: serving, version "));
}

#[test]
fn a_copy_that_fails_is_begun_again() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let still = Still::made(&mut Client::connect(&url).unwrap());
    console.rows("REBUILD REPLICA replica1");
    is_half_copied(&mut console);
    let node = serving.servers.replica(0);
    let before = number(node);
    let filling = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY %'";
    assert_eq!(node.query("template1", filling).unwrap().len(), 1);
    eventually("another copy", || number(node).is_some_and(|now| Some(now) != before));
    let why = console.feed("replica1", "postgres").why;
    assert!(
        why.starts_with("attempt 2; the last one failed: ") && why.contains("pg_restore failed"),
        "{why}"
    );
    let status = serving.run("status", &[]).worked();
    assert!(status.contains("attempt 2; the last one failed: "), "{status}");
    drop(still);
    all_equal(&serving, &mut console);
}

#[test]
fn a_replica_that_dies_in_the_middle_of_its_copy_leaves_no_trace() {
    let (serving, mut console, url) = serving(0, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let still = Still::made(&mut client);
    console.rows("REBUILD REPLICA replica1");
    is_half_copied(&mut console);
    let node = serving.servers.replica(0);
    node.kill();
    eventually("a replica that is left", || state(&mut console) == "waiting");
    let primary = serving.servers.primary();
    let copying = "SELECT FROM pg_stat_activity WHERE application_name = 'consort' AND backend_type = 'client backend' \
        AND pid <> pg_backend_pid() AND (query LIKE 'COPY %' OR query LIKE '%pg_export_snapshot%' OR state = 'idle in transaction')";
    eventually("no locks and no snapshot", || primary.query("postgres", copying).unwrap().is_empty());
    let folders = format!("consort-copy-{}-", serving.pid());
    let mine = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(&folders);
    let left = fs::read_dir(std::env::temp_dir())
        .unwrap()
        .filter(|entry| mine(&entry.as_ref().unwrap().file_name()));
    assert_eq!(left.count(), 0);
    // Neither log nor rows are kept for it.
    client.rows("UPDATE quiet SET v = v + 1").unwrap();
    let here = primary.query("postgres", "SELECT pg_current_wal_lsn()").unwrap()[0][0].clone().unwrap();
    let kept = format!("SELECT FROM pg_replication_slots WHERE confirmed_flush_lsn < '{here}'");
    eventually("a slot that goes on", || {
        client.rows("UPDATE quiet SET v = v + 1").unwrap();
        primary.query("postgres", &kept).unwrap().is_empty()
    });
    assert_eq!(console.rows("SHOW REPLICATION")[0].get("pending_commits"), Some("0"));
    drop(still);
    node.start().unwrap();
    all_equal(&serving, &mut console);
}

/// Nothing is written meanwhile that would show the difference again.
#[test]
fn replica_that_verify_found_to_differ_is_not_used_by_the_next_process() {
    let (mut serving, mut console, _) = serving(0, THROUGH);
    let servers = serving.servers.clone();
    servers.replica(0).query("postgres", "UPDATE quiet SET v = 4711").expect("a change of others");
    serving.run("verify", &["postgres"]).failed(1);
    eventually("a replica that has failed", || console.feed("replica1", "postgres").state == "failed");
    let why = console.feed("replica1", "postgres").why;
    let noted = "SELECT obj_description('consort.position'::regclass) LIKE 'failed: %'";
    eventually("the note there", || {
        servers.replica(0).query("postgres", noted).is_ok_and(|rows| rows[0][0].as_deref() == Some("t"))
    });
    serving.signal("KILL");
    serving.ended();
    serving.start_again();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let state = |console: &mut Console| console.feed("replica1", "postgres").state;
    eventually("a state", || ["failed", "feeding", "serving"].contains(&state(&mut console).as_str()));
    assert_eq!((state(&mut console).as_str(), console.feed("replica1", "postgres").why), ("failed", why));
}
