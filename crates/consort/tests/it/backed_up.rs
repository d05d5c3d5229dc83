//! Replicas of a base backup, of the primary or of another replica: they join while clients work, are equal
//! from the first read on, and leave no trace if they die in the middle.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use local_cluster::{Node, Options, Origin};
use testkit::Scratch;

use crate::fed::{all_equal, rows};
use crate::fixture::{
    CONSORT, Done, Serving, UpFolder, configuration, eventually, free_port, run, up_folder,
};
use crate::load::{ANYWHERE, Client, Console, Load, READ_QUIET, TABLES, THROUGH, past, served, serves};
use crate::replicas::number;

/// A primary and a base backup of it, which follows it; Consort, which learns of it when it follows the
/// database.
fn serving(prepare: impl FnOnce(&Scratch), lines: &str) -> (Serving, Console, String) {
    let mut servers = Scratch::with(Options { standbys: 0, ..Scratch::options() });
    servers.query("CREATE DATABASE shop");
    servers.query(TABLES);
    let cluster = servers.cluster_mut();
    let made = cluster.add_backed_up_replica(Origin::Backup, &Scratch::options(), &mut |_| {});
    made.and_then(|node| node.start()).expect("a base backup of the primary");
    prepare(&servers);
    let (port, metrics_port) = (free_port(), free_port());
    let lines = format!("metrics_listen = \"127.0.0.1:{metrics_port}\"\nauth_type = \"trust\"\n{lines}");
    let with = configuration(&servers, port, &lines);
    let (without, _) = with.split_once("[[replica]]").expect("there is one");
    let serving = Serving::configured(Arc::new(servers), port, metrics_port, without);
    let url = serving.url("postgres", "postgres");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    Client::connect(&url).and_then(|mut client| client.rows("SELECT 1")).expect("an answer");
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    std::fs::write(serving.config_file(), &with).expect("the configuration can be written");
    console.rows("RELOAD");
    (serving, console, url)
}

fn is_recovering(node: &Node) -> bool {
    node.query("template1", "SELECT pg_is_in_recovery()").is_ok_and(|rows| rows[0][0].as_deref() == Some("t"))
}

/// `consort replica` for what is in a folder.
pub(crate) fn replica(folder: &UpFolder, arguments: &[&str]) -> Done {
    run(&mut command(folder, arguments))
}

fn command(folder: &UpFolder, arguments: &[&str]) -> Command {
    let mut command = Command::new(CONSORT);
    command.arg("replica").args(arguments).arg("--dir").arg(folder.path());
    command
}

/// A folder of `up` with a standby and two databases, and writers in both.
fn up() -> (UpFolder, Load, Load) {
    let folder = up_folder();
    folder.up().worked();
    let made = |url: &str, sql| Client::connect(url).and_then(|mut client| client.rows(sql)).map(drop);
    let shop = of_shop(&folder);
    let all = made(&folder.url(), TABLES)
        .and_then(|()| made(&folder.url(), "CREATE DATABASE shop"))
        .and_then(|()| made(&shop, TABLES));
    all.expect("the tables can be made");
    let (here, there) = (Load::start(&folder.url()), Load::start(&shop));
    (folder, here, there)
}

fn of_shop(folder: &UpFolder) -> String {
    folder.url().replace("/postgres", "/shop").replace("//shop@", "//postgres@")
}

/// Output of `consort psql` for SQL at a node.
pub(crate) fn at(folder: &UpFolder, node: &str, database: &str, sql: &str) -> String {
    let arguments = ["--node", node, "-XAtd", database, "-c", sql];
    folder.run("psql", &arguments).worked().trim().to_owned()
}

/// Physical slots of the primary but the standby's.
const SLOTS: &str = "SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND slot_name <> 'standby_standby1'";

#[test]
fn a_replica_is_added_from_a_base_backup_while_everybody_writes() {
    let (folder, here, there) = up();
    here.goes_on(20, 10);
    let done = replica(&folder, &["add", "--from", "backup"]);
    assert!(done.err.contains("copying the primary to replica1 .."), "{done:?}");
    assert_eq!(done.worked(), "replica1: added\n");
    let mut console =
        Console::connect(&folder.url().replace("/postgres", "/consort").replace("//consort@", "//postgres@"));
    serves(&mut console, "replica1");
    let numbers = "SELECT string_agg(oid::text, ' ' ORDER BY oid) FROM pg_database WHERE datname IN ('postgres', 'shop')";
    // They are those that came with the backup: nothing was copied.
    assert_eq!(at(&folder, "replica1", "template1", numbers), at(&folder, "primary", "template1", numbers));
    let mut shop = Client::connect(&of_shop(&folder)).unwrap();
    shop.rows("CREATE TABLE later AS SELECT n FROM generate_series(1, 10) n").unwrap();
    shop.rows("ALTER TABLE quiet ADD COLUMN w int DEFAULT 5; DELETE FROM later WHERE n > 7").unwrap();
    here.goes_on(20, 10);
    there.goes_on(20, 10);
    for database in ["postgres", "shop"] {
        let verified = folder.run("verify", &[database]).worked();
        assert!(verified.contains("equal") && !verified.contains("differs"), "{verified}");
    }
    eventually("the new rows", || at(&folder, "replica1", "shop", "SELECT count(*) FROM later") == "7");
    assert_eq!(at(&folder, "replica1", "template1", numbers), at(&folder, "primary", "template1", numbers));
    here.end();
    there.end();
    // A read after a write sees it, at any node.
    let mut client = Client::connect(&folder.url()).unwrap();
    let before = served(&mut console, "replica1");
    let mut value = client.number(READ_QUIET).unwrap();
    eventually("fresh reads at the replica", || {
        client.rows("UPDATE quiet SET v = v + 1").unwrap();
        value += 1;
        assert_eq!(client.number(READ_QUIET).unwrap(), value);
        served(&mut console, "replica1") > before + 20
    });
    assert_eq!(at(&folder, "primary", "template1", SLOTS), "0", "nothing is kept at the primary");
    drop((client, shop, console));
    folder.run("down", &[]).worked();
    folder.run("up", &[]).worked();
    assert_eq!(at(&folder, "replica1", "template1", "SELECT pg_is_in_recovery()"), "f");
    assert_eq!(replica(&folder, &["remove", "replica1"]).worked(), "replica1: removed\n");
}

#[test]
fn a_seed_is_kept_and_replicas_are_made_of_it() {
    let (folder, here, there) = up();
    let refused = replica(&folder, &["add", "--from", "seed"]).failed(1);
    assert!(refused.contains("no seed exists") && refused.contains("consort replica seed"), "{refused}");
    assert!(!folder.path().join("replica1").exists());
    assert!(!folder.run("status", &[]).worked().contains("seed:"));
    assert_eq!(status(&folder)["seed"], serde_json::Value::Null);
    let made = replica(&folder, &["seed"]).worked();
    let from = made.strip_prefix("seed: created, from WAL position ").map(str::trim).expect("a place");
    let seed = status(&folder)["seed"].clone();
    assert_eq!((seed["from"].as_str(), seed["usable"].as_bool()), (Some(from), Some(true)), "{seed}");
    // Even an empty cluster has more.
    assert!(seed["bytes"].as_u64() > Some(10 << 20), "{seed}");
    let log_bytes = seed["log_bytes"].as_u64();
    let said = folder.run("status", &[]).worked();
    assert!(said.contains(&format!("from WAL position {from}; the primary retains ")), "{said}");
    assert!(folder.run("check", &[]).worked().contains("seed: ok"));
    assert_eq!(at(&folder, "primary", "template1", SLOTS), "1");
    here.goes_on(50, 20);
    there.goes_on(50, 20);
    assert!(status(&folder)["seed"]["log_bytes"].as_u64() > log_bytes, "{}", status(&folder)["seed"]);
    for name in ["replica1", "replica2"] {
        assert_eq!(replica(&folder, &["add", "--from", "seed"]).worked(), format!("{name}: added\n"));
    }
    here.end();
    there.end();
    for database in ["postgres", "shop"] {
        let verified = folder.run("verify", &[database]).worked();
        assert!(verified.contains("equal") && !verified.contains("differs"), "{verified}");
    }
    // A returning one is one that is made again; a seed whose log is gone is of no use.
    replica(&folder, &["remove", "replica1"]).worked();
    at(&folder, "primary", "template1", "SELECT pg_drop_replication_slot('consort_seed')");
    assert_eq!(status(&folder)["seed"]["usable"], false);
    assert!(folder.run("status", &[]).worked().contains("unusable"));
    let refused = replica(&folder, &["add", "--from", "seed"]).failed(1);
    assert!(refused.contains("no longer has the WAL since the seed was made"), "{refused}");
    replica(&folder, &["seed"]).worked();
    assert_eq!(replica(&folder, &["add", "--from", "seed"]).worked(), "replica1: added\n");
    assert_eq!(replica(&folder, &["seed", "--remove"]).worked(), "seed: removed\n");
    assert_eq!(replica(&folder, &["seed", "--remove"]).worked(), "seed: does not exist\n");
    assert_eq!(at(&folder, "primary", "template1", SLOTS), "0");
    assert!(!folder.path().join("seed").exists());
}

/// The console of what is in a folder of `up`.
fn console_of(folder: &UpFolder) -> Console {
    Console::connect(&folder.url().replace("/postgres", "/consort").replace("//consort@", "//postgres@"))
}

/// A folder of `up` with a replica that serves both databases, and writers there.
fn with_a_replica() -> (UpFolder, Load, Load, Console) {
    let (folder, here, there) = up();
    assert_eq!(replica(&folder, &["add"]).worked(), "replica1: added\n");
    let mut console = console_of(&folder);
    for database in ["postgres", "shop"] {
        eventually("a replica that serves", || console.feed("replica1", database).state == "serving");
    }
    (folder, here, there, console)
}

/// The log of a node in a folder of `up`.
fn log_of(folder: &UpFolder, node: &str) -> String {
    let files = std::fs::read_dir(folder.path().join(node).join("log")).expect("a folder of logs");
    let text = |file: std::io::Result<std::fs::DirEntry>| std::fs::read(file.expect("a log").path());
    files.map(|file| String::from_utf8_lossy(&text(file).expect("a log")).into_owned()).collect()
}

#[test]
fn a_replica_is_copied_from_a_running_one_while_everybody_writes() {
    let (folder, here, there, mut console) = with_a_replica();
    for node in ["primary", "replica1"] {
        at(&folder, node, "template1", "ALTER SYSTEM SET log_replication_commands = on");
        at(&folder, node, "template1", "SELECT pg_reload_conf()");
        eventually("a server that logs who replicates", || {
            at(&folder, node, "template1", "SHOW log_replication_commands") == "on"
        });
    }
    let done = replica(&folder, &["add", "--from", "replica1"]);
    assert!(done.err.contains("copying replica1 to replica2 .."), "{done:?}");
    assert_eq!(done.worked(), "replica2: added\n");
    serves(&mut console, "replica2");
    let numbers = "SELECT string_agg(oid::text, ' ' ORDER BY oid) FROM pg_database WHERE datname IN ('postgres', 'shop')";
    let numbers = |node| at(&folder, node, "template1", numbers);
    // Each copy by a dump has a number of its own.
    assert_eq!(numbers("replica2"), numbers("replica1"));
    assert_ne!(numbers("replica2"), numbers("primary"));
    eventually("a base backup of the replica", || log_of(&folder, "replica1").contains("BASE_BACKUP"));
    assert!(!log_of(&folder, "primary").contains("BASE_BACKUP"), "the primary was not read");
    let mut shop = Client::connect(&of_shop(&folder)).unwrap();
    shop.rows("CREATE TABLE later AS SELECT n FROM generate_series(1, 10) n").unwrap();
    here.goes_on(20, 10);
    there.goes_on(20, 10);
    for database in ["postgres", "shop"] {
        let verified = folder.run("verify", &[database]).worked();
        assert!(verified.contains("replica2") && verified.contains("equal"), "{verified}");
        assert!(!verified.contains("differs"), "{verified}");
    }
    eventually("the new rows", || at(&folder, "replica2", "shop", "SELECT count(*) FROM later") == "10");
    assert_eq!(numbers("replica2"), numbers("replica1"), "nothing was copied anew");
    // Each is a replica of its own: the other one may go.
    assert_eq!(replica(&folder, &["remove", "replica1"]).worked(), "replica1: removed\n");
    here.goes_on(20, 10);
    serves(&mut console, "replica2");
    here.end();
    there.end();
    drop((shop, console));
    let copy = numbers("replica2");
    folder.run("down", &[]).worked();
    folder.run("up", &[]).worked();
    let (mut client, mut console) = (Client::connect(&folder.url()).unwrap(), console_of(&folder));
    eventually("a read at the replica", || {
        assert_eq!(client.number(READ_QUIET).unwrap(), 7);
        served(&mut console, "replica2") > 0
    });
    assert_eq!(numbers("replica2"), copy, "it is fed on");
}

#[test]
fn a_copy_of_a_replica_that_is_broken_off_leaves_no_trace() {
    let (folder, here, there, mut console) = with_a_replica();
    // So that it takes a moment. Consort has no copy of this database.
    let big = "CREATE TABLE big AS SELECT n, repeat('x', 1000) AS v FROM generate_series(1, 100000) n";
    at(&folder, "replica1", "template1", big);
    let mut adding = begun(command(&folder, &["add", "--from", "replica1"]));
    let sender = "SELECT pid FROM pg_stat_progress_basebackup";
    let mut pid = String::new();
    eventually("a base backup", || {
        pid = at(&folder, "replica1", "template1", sender);
        !pid.is_empty()
    });
    run(Command::new("kill").args(["-STOP", &pid])).worked();
    let awaited = |console: &mut Console| {
        let rows = console.rows("SHOW REPLICAS");
        let row = rows.iter().find(|row| row.get("name") == Some("replica2"))?;
        row.get("why").map(str::to_owned)
    };
    let why = awaited(&mut console).expect("a replica that is awaited");
    assert!(why.contains("copy of that of replica1"), "{why}");
    here.goes_on(20, 10);
    eventually("rows that are kept for it", || console.feed("replica2", "postgres").pending_commits > 5);
    adding.kill().unwrap();
    adding.wait().unwrap();
    eventually("nobody who is awaited", || awaited(&mut console).is_none());
    assert!(console.rows("SHOW REPLICATION").iter().all(|row| row.get("name") == Some("replica1")));
    eventually("a folder that is gone", || !folder.path().join("replica2").exists());
    run(Command::new("kill").args(["-CONT", &pid])).worked();
    eventually("no backup", || at(&folder, "replica1", "template1", sender).is_empty());
    // Nothing is kept at the primary.
    let end = at(&folder, "primary", "template1", "SELECT pg_current_wal_lsn()");
    let behind = format!(
        "SELECT count(*) FROM pg_replication_slots WHERE plugin <> '' AND confirmed_flush_lsn < '{end}'"
    );
    eventually("slots that go on", || at(&folder, "primary", "template1", &behind) == "0");
    here.goes_on(20, 10);
    // The next one has its name.
    assert_eq!(replica(&folder, &["add", "--from", "replica1"]).worked(), "replica2: added\n");
    here.end();
    there.end();
}

#[test]
fn what_cannot_be_copied_to_a_replica_is_refused() {
    let (folder, here, there, mut console) = with_a_replica();
    let refused = |arguments: &[&str]| replica(&folder, &[&["add"][..], arguments].concat()).failed(1);
    let said = refused(&["--from", "nobody"]);
    assert!(said.contains("replica \"nobody\" does not exist\nLogical replicas: replica1."), "{said}");
    let said = refused(&["--from", "standby1"]);
    assert!(said.contains("\"standby1\" is not a logical replica"), "{said}");
    let said = refused(&["--from", "replica1", "--tables", "quiet"]);
    assert!(said.contains("--tables cannot be combined with --from replica1"), "{said}");
    assert_eq!(replica(&folder, &["pause", "replica1"]).worked(), "replica1: paused\n");
    eventually("a replica that is paused", || console.feed("replica1", "shop").state == "paused");
    let said = refused(&["--from", "replica1"]);
    assert!(
        said.contains("\"replica1\" does not serve the database") && said.contains("SHOW REPLICATION"),
        "{said}"
    );
    assert_eq!(replica(&folder, &["resume", "replica1"]).worked(), "replica1: resumed\n");
    assert_eq!(replica(&folder, &["add", "--tables", "quiet"]).worked(), "replica2: added\n");
    let said = refused(&["--from", "replica2"]);
    assert!(said.contains("\"replica2\" has only a part of the tables"), "{said}");
    assert!(!folder.path().join("replica3").exists());
    assert!(!folder.run("status", &[]).worked().contains("replica3"));
    here.end();
    there.end();
}

#[test]
fn one_that_is_awaited_is_copied_by_a_dump_if_its_source_was_given_up() {
    let (folder, here, there, mut console) = with_a_replica();
    console.rows("ADD REPLICA replica2 FROM replica1");
    assert_eq!(console.feed("replica2", "shop").state, "waiting");
    assert_eq!(replica(&folder, &["rebuild", "replica1"]).worked(), "replica1: rebuilding\n");
    let why = console.feed("replica2", "shop").why;
    assert!(why.contains("was given up"), "{why}");
    assert_eq!(replica(&folder, &["add"]).worked(), "replica2: added\n");
    serves(&mut console, "replica2");
    here.end();
    there.end();
}

/// Output of `consort status` for programs.
fn status(folder: &UpFolder) -> serde_json::Value {
    serde_json::from_str(&folder.run("status", &["--json"]).worked()).expect("it is JSON")
}

#[test]
fn a_seed_whose_log_is_about_to_go_is_told() {
    let folder = up_folder();
    folder.up().worked();
    replica(&folder, &["seed"]).worked();
    at(&folder, "primary", "template1", "ALTER SYSTEM SET max_slot_wal_keep_size = '32MB'");
    at(&folder, "primary", "template1", "SELECT pg_reload_conf()");
    let left = |folder: &UpFolder| status(folder)["seed"]["log_left_bytes"].as_u64();
    eventually("a bound", || left(&folder).is_some_and(|left| left <= 48 << 20));
    // WAL above the limit stays until the next checkpoint.
    for _ in 0..5 {
        at(&folder, "primary", "postgres", "SELECT pg_logical_emit_message(true, '', ''), pg_switch_wal()");
    }
    assert_eq!(status(&folder)["seed"]["log"], "going");
    assert_eq!(status(&folder)["seed"]["usable"], true);
    let said = folder.run("status", &[]).worked();
    assert!(said.contains("seed: ") && said.contains("about to become unusable"), "{said}");
    let advice = folder.run("check", &[]).worked();
    assert!(
        advice.contains("seed: advice: about to become unusable") && advice.contains("--remove"),
        "{advice}"
    );
    at(&folder, "primary", "template1", "CHECKPOINT");
    assert_eq!(status(&folder)["seed"]["log"], "gone");
    assert!(folder.run("check", &[]).worked().contains("seed: advice: unusable"));
    let refused = replica(&folder, &["add", "--from", "seed"]).failed(1);
    assert!(refused.contains("no longer has the WAL since the seed was made"), "{refused}");
}

/// A subcommand that runs alongside the test.
fn begun(mut command: Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs")
}

#[test]
fn a_base_backup_that_is_broken_off_leaves_no_trace() {
    let (folder, here, there) = up();
    here.end();
    there.end();
    let mut client = Client::connect(&folder.url()).unwrap();
    client
        .rows("CREATE TABLE big AS SELECT n, repeat('x', 1000) AS v FROM generate_series(1, 100000) n")
        .unwrap();
    let mut adding = begun(command(&folder, &["add", "--from", "backup"]));
    let sender = "SELECT pid FROM pg_stat_progress_basebackup";
    let mut pid = String::new();
    eventually("a base backup", || {
        pid = at(&folder, "primary", "template1", sender);
        !pid.is_empty()
    });
    run(Command::new("kill").args(["-STOP", &pid])).worked();
    assert!(folder.path().join("replica1").exists());
    adding.kill().unwrap();
    adding.wait().unwrap();
    eventually("a folder that is gone", || !folder.path().join("replica1").exists());
    run(Command::new("kill").args(["-CONT", &pid])).worked();
    eventually("no slot", || at(&folder, "primary", "template1", SLOTS) == "0");
    eventually("no backup", || at(&folder, "primary", "template1", sender).is_empty());
    assert!(!folder.run("status", &[]).worked().contains("replica1"));
    // The next one has its name.
    assert_eq!(replica(&folder, &["add", "--from", "backup"]).worked(), "replica1: added\n");
}

#[test]
fn a_server_that_ends_before_it_is_taken_in_is_removed_by_whoever_adds_it() {
    let (folder, here, there) = up();
    // The backup has it too, and replays no commit.
    at(&folder, "primary", "template1", "ALTER SYSTEM SET recovery_min_apply_delay = '1h'");
    let mut adding = command(&folder, &["add", "--from", "backup"]);
    let adding = std::thread::spawn(move || run(&mut adding));
    eventually("a backup that has log to replay", || {
        folder.run("status", &[]).worked().contains("MB of WAL to replay")
    });
    let pid = std::fs::read_to_string(folder.path().join("replica1/data/postmaster.pid")).unwrap();
    run(Command::new("kill").args(["-QUIT", pid.lines().next().unwrap()])).worked();
    let refused = adding.join().unwrap().failed(1);
    assert!(refused.contains("replica1 stopped before it joined, and is removed"), "{refused}");
    assert!(!folder.path().join("replica1").exists());
    assert!(!folder.run("status", &[]).worked().contains("replica1"));
    assert_eq!(at(&folder, "primary", "template1", SLOTS), "0");
    here.goes_on(20, 10);
    here.end();
    there.end();
}

#[test]
fn a_base_backup_that_dies_before_it_is_taken_in_leaves_nothing_behind() {
    let (serving, mut console, url) =
        serving(|servers| servers.replica(0).set("recovery_min_apply_delay", "1h").unwrap(), THROUGH);
    let load = Load::start(&url);
    let node = serving.servers.replica(0);
    eventually("a backup that has log to replay", || {
        console.feed("replica1", "postgres").why.contains("MB of WAL to replay")
    });
    load.goes_on(20, 10);
    let pending = |console: &mut Console| {
        let rows = console.rows("SHOW REPLICATION");
        let bytes =
            rows.iter().map(|row| row.get("pending_bytes").unwrap_or_default().parse().unwrap_or(0_u64));
        bytes.sum::<u64>()
    };
    eventually("rows that are kept", || pending(&mut console) > 0);
    node.kill();
    eventually("a replica that is left", || {
        console.feed("replica1", "postgres").why.contains("the server is unreachable")
    });
    eventually("nothing is kept", || pending(&mut console) == 0);
    let kept = || {
        let here = serving.servers.query("SELECT pg_current_wal_lsn()")[0][0].clone().unwrap();
        format!("SELECT FROM pg_replication_slots WHERE confirmed_flush_lsn < '{here}'")
    };
    load.goes_on(20, 10);
    load.end();
    let kept = kept();
    eventually("a slot that goes on", || serving.servers.query(&kept).is_empty());
    // The node joins when it is there again.
    node.start().unwrap();
    node.set("recovery_min_apply_delay", "0").unwrap();
    all_equal(&serving, &mut console);
    assert!(!is_recovering(node));
    let of = "SELECT oid FROM pg_database WHERE datname = 'postgres'";
    assert_eq!(node.query("template1", of).unwrap(), serving.servers.query(of), "it was not copied");
}

#[test]
fn a_base_backup_whose_commits_are_not_kept_is_copied_by_a_dump() {
    let promote = |servers: &Scratch| {
        servers.replica(0).query("template1", "SELECT pg_promote()").unwrap();
        servers.query("INSERT INTO counter VALUES (-1, 0)");
    };
    let (serving, mut console, url) = serving(promote, THROUGH);
    let node = serving.servers.replica(0);
    let before = number(node);
    let mut client = Client::connect(&url).unwrap();
    let mut why = String::new();
    eventually("a copy", || {
        client.rows("SELECT 1").unwrap();
        let feed = console.feed("replica1", "postgres");
        why = if feed.why.is_empty() { why.clone() } else { feed.why };
        feed.state == "serving"
    });
    assert!(
        why.contains("since the promotion of its base backup at") && why.contains("are not kept"),
        "{why}"
    );
    let load = Load::start(&url);
    load.goes_on(20, 10);
    load.end();
    all_equal(&serving, &mut console);
    assert_ne!(number(node), before, "it was copied");
    // A database that is not followed came with the backup too, and is as old as it: it is copied when it is
    // used.
    let mut shop = Client::connect(&serving.url("postgres", "shop")).unwrap();
    shop.rows("CREATE TABLE t AS SELECT 1 AS n").unwrap();
    eventually("the copy", || rows(node, "shop", "t").is_some_and(|rows| rows.len() == 1));
}

#[test]
fn who_dies_between_the_log_and_the_feeding_is_copied_by_a_dump() {
    let (mut serving, console, url) = serving(|_| {}, THROUGH);
    let load = Load::that_comes_back(&url);
    let node = serving.servers.replica(0);
    // Consort may die at any moment of it.
    eventually("a server that works alone", || !is_recovering(node));
    serving.signal("KILL");
    drop(console);
    serving.ended();
    serving.start_again();
    load.goes_on(20, 10);
    load.end();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    all_equal(&serving, &mut console);
}

/// A commit that waits for a standby is in the WAL, and so in the backup, long before any client may see it.
#[test]
fn what_hangs_in_the_log_is_not_shown_before_the_primary_shows_it() {
    let prepare = |servers: &Scratch| {
        servers.replica(0).set("recovery_min_apply_delay", "1h").unwrap();
        servers.primary().set("synchronous_commit", "local").unwrap();
        servers.primary().set("synchronous_standby_names", "nobody").unwrap();
    };
    let (mut serving, mut console, url) = serving(prepare, ANYWHERE);
    let mut client = Client::connect(&url).unwrap();
    let servers = serving.servers.clone();
    let (primary, node) = (servers.primary(), servers.replica(0));
    let before = number(node);
    eventually("a backup that has log to replay", || {
        client
            .rows("INSERT INTO counter VALUES (0, 0) ON CONFLICT (id) DO UPDATE SET n = counter.n + 1")
            .unwrap();
        console.feed("replica1", "postgres").why.contains("MB of WAL to replay")
    });
    let past = past(primary);
    let hanging = std::thread::spawn(move || {
        let mut client = Client::connect(&past).unwrap();
        client.rows("SET synchronous_commit = on").unwrap();
        client.rows("UPDATE quiet SET v = 100").unwrap();
    });
    let waits = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    eventually("a commit that hangs", || !primary.query("postgres", waits).unwrap().is_empty());
    node.set("recovery_min_apply_delay", "0").unwrap();
    eventually("what hangs, at the replica", || {
        node.query("postgres", "SELECT v FROM quiet").is_ok_and(|rows| rows[0][0].as_deref() == Some("100"))
    });
    // Nor is it when another Consort goes on with it.
    for life in 0..2 {
        eventually("a replica that is fed", || console.feed("replica1", "postgres").state == "feeding");
        for round in 0..300 {
            client.rows(&format!("INSERT INTO counter VALUES ({}, 0)", 1000 + 1000 * life + round)).unwrap();
            assert_eq!(client.number(READ_QUIET).unwrap(), 7, "the primary has not shown it");
        }
        assert_eq!(served(&mut console, "replica1"), 0);
        if life == 0 {
            serving.signal("KILL");
            serving.ended();
            serving.start_again();
            client = Client::connect(&url).unwrap();
            console = Console::connect(&serving.url("postgres", "consort"));
        }
    }
    primary.set("synchronous_standby_names", "").unwrap();
    hanging.join().unwrap();
    all_equal(&serving, &mut console);
    eventually("reads at the replica", || {
        assert_eq!(client.number(READ_QUIET).unwrap(), 100);
        served(&mut console, "replica1") > 20
    });
    assert_eq!(number(node), before, "it was not copied");
}

/// A session at a node itself.
fn directly(node: &Node) -> Client {
    Client::connect(&past(node)).expect("a log-in")
}

#[test]
fn a_base_backup_serves_its_first_reads_before_it_has_caught_up() {
    let prepare = |servers: &Scratch| {
        let node = servers.replica(0);
        servers.query("CREATE TABLE other (id int); CREATE MATERIALIZED VIEW rich AS SELECT 1 AS n");
        eventually("the view", || node.query("postgres", "SELECT FROM rich").is_ok());
        node.set("recovery_min_apply_delay", "1h").unwrap();
    };
    let (serving, mut console, url) = serving(prepare, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    let node = serving.servers.replica(0);
    eventually("a backup that has log to replay", || {
        client.rows("UPDATE counter SET n = n + 1").unwrap();
        console.feed("replica1", "postgres").why.contains("MB of WAL to replay")
    });
    // All that was counted so far is in the WAL that it is going to have.
    let written = serving.servers.query("SELECT pg_current_wal_flush_lsn()")[0][0].clone().expect("a place");
    let received = format!("SELECT FROM pg_stat_wal_receiver WHERE flushed_lsn >= '{written}'");
    eventually("the log", || node.query("postgres", &received).is_ok_and(|rows| !rows.is_empty()));
    // The node cannot be taken over before the view is emptied, and that waits for its readers.
    let mut reader = directly(node);
    reader.rows("BEGIN; SELECT FROM rich").unwrap();
    node.set("recovery_min_apply_delay", "0").unwrap();
    eventually("a server that works alone", || !is_recovering(node));
    // Nor can it take any commit that writes to this table.
    let mut holder = directly(node);
    holder.rows("BEGIN; LOCK TABLE counter IN SHARE MODE").unwrap();
    let newest = |console: &mut Console| -> u64 {
        console.feed("replica1", "postgres").newest_version.parse().expect("a number")
    };
    let before = newest(&mut console);
    client.rows("INSERT INTO other VALUES (1)").unwrap();
    eventually("a state that the primary has shown", || newest(&mut console) > before);
    let counted = client.number("UPDATE counter SET n = n + 1 RETURNING n").unwrap();
    assert_eq!(served(&mut console, "replica1"), 0);
    reader.rows("COMMIT").unwrap();
    // A feed with a row that the node cannot apply waits there, and stands still from now on, so that this
    // lasts.
    let waits = "SELECT pid FROM pg_stat_activity WHERE application_name = 'consort_feeder' AND wait_event_type = 'Lock'";
    let mut pid = String::new();
    eventually("a feeder that waits", || {
        let rows = node.query("postgres", waits).expect("it answers");
        pid = rows.first().and_then(|row| row[0].clone()).unwrap_or_default();
        !pid.is_empty()
    });
    run(Command::new("kill").args(["-STOP", &pid])).worked();
    let lacks = |console: &mut Console| {
        let feed = console
            .rows("SHOW REPLICATION")
            .into_iter()
            .find(|feed| feed.get("database") == Some("postgres"));
        let pending =
            feed.as_ref().and_then(|feed| feed.get("pending_commits")).unwrap_or_default().to_owned();
        pending.parse::<u64>().expect("a number") > 0
    };
    eventually("reads at a replica that is behind", || {
        assert_eq!(client.number(READ_QUIET).unwrap(), 7);
        assert!(lacks(&mut console), "it has caught up");
        served(&mut console, "replica1") > 20
    });
    let there = |sql| node.query("postgres", sql).expect("it answers")[0][0].clone();
    assert_eq!(there("SELECT n FROM counter WHERE id = 1"), Some((counted - 1).to_string()), "it is behind");
    // Reads of its missing rows run elsewhere.
    let here = served(&mut console, "replica1");
    for _ in 0..20 {
        assert_eq!(client.number("SELECT n FROM counter WHERE id = 1").unwrap(), counted);
    }
    assert_eq!(served(&mut console, "replica1"), here);
    drop(holder);
    run(Command::new("kill").args(["-CONT", &pid])).worked();
    all_equal(&serving, &mut console);
}
