//! The designs in which reads wait at replicas for the latest state; and of those the one in which commits take turns at the
//! primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use design::{Design, Orderer, Reads};
use local_cluster::{Node, Options};
use testkit::Scratch;

use crate::fixture::{Serving, eventually, load, up_folder};
use crate::load::{ANYWHERE, Client, Console, Load, READ_QUIET, TABLES, THROUGH, served};

/// Their names.
fn all() -> impl Iterator<Item = &'static str> {
    let waits = |design: &&Design| design.reads == Reads::LatestWaiting;
    let all: Vec<_> = design::PRIMARY_COPY.iter().filter(waits).collect();
    assert_eq!(all.len(), 2, "with turns, and with refreshes that lock");
    all.into_iter().map(|design| design.name)
}

/// The name of the one in which commits take turns.
fn with_turns() -> &'static str {
    named(|design| design.orderer == Orderer::PrimaryOneByOne)
}

/// The name of the one of which this is true.
pub(crate) fn named(so: fn(&Design) -> bool) -> &'static str {
    design::PRIMARY_COPY.iter().find(|design| so(design)).expect("there is one").name
}

/// Consort of this design in front of a primary and so many replicas, which all show what the primary has.
pub(crate) fn serving(design: &str, replicas: usize, lines: &str) -> (Serving, Console, String) {
    let servers = Scratch::with(Options { standbys: 0, replicas, ..Scratch::options() });
    let serving = Serving::over(Arc::new(servers), &format!("design = \"{design}\"\n{lines}"));
    let url = serving.url("postgres", "postgres");
    Client::connect(&url).and_then(|mut client| client.rows(TABLES)).expect("the tables can be made");
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    eventually("reads that may leave", || console.stays("postgres").is_empty());
    for replica in 1..=replicas {
        let tables = || serving.servers.replica(replica - 1).query("postgres", "SELECT FROM quiet");
        eventually("the tables at the replica", || tables().is_ok_and(|rows| !rows.is_empty()));
        shows_all(&mut console, replica);
    }
    (serving, console, url)
}

/// Waits until the replica shows all that Consort has decoded. Commits that were answered a moment ago may be missing.
pub(crate) fn shows_all(console: &mut Console, replica: usize) {
    eventually("a replica that is fed", || {
        let feed = console.feed(&format!("replica{replica}"), "postgres");
        matches!(feed.state.as_str(), "feeding" | "serving") && feed.version == feed.newest_version
    });
}

/// Number of reads that the replicas have served.
fn all_served(console: &mut Console, replicas: usize) -> u64 {
    (1..=replicas).map(|replica| served(console, &format!("replica{replica}"))).sum()
}

/// Its statements are known.
pub(crate) fn knows(client: &mut Client, console: &mut Console) {
    let before = all_served(console, 1);
    eventually("reads at the replica", || {
        assert_eq!(client.number(READ_QUIET).expect("an answer"), 7);
        all_served(console, 1) > before
    });
}

#[test]
fn whoever_reads_only_sees_the_latest_state_at_a_replica() {
    for (design, lines) in all().flat_map(|design| [(design, THROUGH), (design, ANYWHERE)]) {
        let (_serving, mut console, url) = serving(design, 2, lines);
        let (mut writer, mut reader) = (Client::connect(&url).unwrap(), Client::connect(&url).unwrap());
        knows(&mut reader, &mut console);
        let mut value = 7;
        // A machine that stands still for a second loses its replicas for a moment.
        eventually("rounds none of which burdens the primary", || {
            let before = all_served(&mut console, 2);
            (0..12).for_each(|round| read_what_is_written(&mut writer, &mut reader, &mut value, round));
            all_served(&mut console, 2) >= before + 12
        });
    }
}

/// One commit, and one read after it, which sees it; in a transaction that goes on it sees no other.
fn read_what_is_written(writer: &mut Client, reader: &mut Client, value: &mut i64, round: usize) {
    let write: &[&str] = match round % 2 {
        0 => &["UPDATE quiet SET v = v + 1"],
        _ => &["BEGIN", "UPDATE quiet SET v = v + 1", "COMMIT"],
    };
    write.iter().for_each(|sql| writer.rows(sql).map(drop).expect("an answer"));
    *value += 1;
    if round.is_multiple_of(3) {
        assert_eq!(reader.number(READ_QUIET).expect("an answer"), *value);
        return;
    }
    let level = if round % 3 == 1 { "" } else { "ISOLATION LEVEL REPEATABLE READ " };
    reader.rows(&format!("BEGIN {level}READ ONLY")).expect("an answer");
    assert_eq!(reader.number(READ_QUIET).expect("an answer"), *value);
    writer.rows("UPDATE quiet SET v = v + 1").expect("an answer");
    assert_eq!(reader.number(READ_QUIET).expect("an answer"), *value, "one snapshot");
    reader.rows("COMMIT").expect("an answer");
    *value += 1;
}

/// Since when the primary's process of a client has not been asked anything.
fn asked_last(serving: &Serving, pid: &str) -> Option<String> {
    let sql = format!("SELECT query_start || query FROM pg_stat_activity WHERE pid = {pid}");
    serving.servers.primary().query("postgres", &sql).expect("an answer")[0][0].clone()
}

#[test]
fn a_declared_transaction_that_reads_at_a_replica_does_not_touch_the_primary() {
    for design in all() {
        let (serving, mut console, url) = serving(design, 1, THROUGH);
        let mut client = Client::connect(&url).unwrap();
        knows(&mut client, &mut console);
        let pid = client.one("SELECT pg_backend_pid()").unwrap();
        // The first one may ask whether the session has the names by which replicas know it.
        eventually("transactions of which the primary does not hear", || {
            let before = (asked_last(&serving, &pid), all_served(&mut console, 1));
            for begin in ["BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"] {
                client.rows(begin).unwrap();
                assert_eq!(client.number(READ_QUIET).unwrap(), 7);
                client.rows("COMMIT").unwrap();
            }
            (asked_last(&serving, &pid), all_served(&mut console, 1) - 2) == before
        });
    }
}

#[test]
fn what_a_declared_transaction_wants_of_the_primary_runs_in_it() {
    for design in all() {
        let (_serving, mut console, url) = serving(design, 1, THROUGH);
        let mut client = Client::connect(&url).unwrap();
        knows(&mut client, &mut console);
        let prepared = client.prepare("SELECT v::text FROM quiet WHERE id = 1");
        let is_in_one =
            "SELECT current_setting('transaction_read_only') || (now() = transaction_timestamp())";
        for round in 0..3 {
            client.rows("BEGIN READ ONLY").unwrap();
            assert_eq!(sqlstate(&mut client, "UPDATE quiet SET v = 8").as_deref(), Some("25006"));
            assert_eq!(sqlstate(&mut client, READ_QUIET).as_deref(), Some("25P02"));
            client.rows("ROLLBACK").unwrap();
            client.rows("BEGIN READ ONLY").unwrap();
            assert_eq!(client.one(is_in_one).unwrap(), "ontrue");
            assert_eq!(client.number(READ_QUIET).unwrap(), 7, "what began at the primary goes on there");
            client.rows("COMMIT").unwrap();
            client.rows("BEGIN READ ONLY").unwrap();
            assert_eq!(sqlstate(&mut client, "SELECT nonsense").as_deref(), Some("42703"));
            assert_eq!(sqlstate(&mut client, READ_QUIET).as_deref(), Some("25P02"));
            client.rows("COMMIT").unwrap();
            for nothing in ["COMMIT", "ROLLBACK", "SAVEPOINT s; COMMIT", "SET LOCAL work_mem = '8MB'; COMMIT"]
            {
                client.rows("BEGIN READ ONLY").unwrap();
                client.rows(nothing).unwrap();
            }
            client.rows("BEGIN READ ONLY").unwrap();
            let other = client.prepare(&format!("SELECT (v + {round})::text FROM quiet WHERE id = 1"));
            assert_eq!(client.execute(&other), (7 + round).to_string());
            assert_eq!(client.execute(&prepared), "7");
            client.rows("COMMIT").unwrap();
            // Outside again: it may write.
            client.rows("UPDATE quiet SET v = 7").unwrap();
            assert_eq!(client.one("SELECT current_setting('transaction_read_only')").unwrap(), "off");
        }
    }
}

/// Its session shares connections at the primary, and has none when it begins.
#[test]
fn a_declared_transaction_at_a_replica_is_answered_what_the_primary_says() {
    let asks = [("SHOW work_mem", None), ("SELECT nonsense", Some("42703")), ("COMMIT AND CHAIN", None)];
    for design in all() {
        let (_serving, mut console, url) = serving(design, 1, THROUGH);
        let mut client = Client::connect(&url).unwrap();
        knows(&mut client, &mut console);
        // The first one may ask whether the session has the names by which replicas know it.
        for round in 0..2 {
            let begins = |client: &mut Client| {
                client.rows("BEGIN READ ONLY").unwrap();
                assert_eq!(client.number(READ_QUIET).unwrap(), 7);
            };
            for (sql, says) in asks {
                begins(&mut client);
                assert_eq!(sqlstate(&mut client, sql).as_deref(), says, "{sql}");
                client.rows("ROLLBACK").unwrap();
            }
            begins(&mut client);
            let other = client.prepare(&format!("SELECT (v + {round})::text FROM quiet WHERE id = 1"));
            assert_eq!(client.execute(&other), (7 + round).to_string());
            client.rows("COMMIT").unwrap();
        }
    }
}

/// One client holds the only connection there.
#[test]
fn a_declared_transaction_at_a_replica_needs_no_connection_at_the_primary() {
    let pool = "default_pool_size = 1\nquery_wait_timeout = \"10s\"";
    for design in all() {
        let (_serving, mut console, url) = serving(design, 1, &format!("{THROUGH}\n{pool}"));
        let mut client = Client::connect(&url).unwrap();
        knows(&mut client, &mut console);
        let reads = |client: &mut Client| {
            client.rows("BEGIN READ ONLY").unwrap();
            assert_eq!(client.number(READ_QUIET).unwrap(), 7);
            assert_eq!(client.number(READ_QUIET).unwrap(), 7);
            client.rows("COMMIT").unwrap();
        };
        // The first one may ask whether the session has the names by which replicas know it.
        reads(&mut client);
        let mut busy = Client::connect(&url).unwrap();
        busy.rows("BEGIN; SELECT pg_backend_pid()").unwrap();
        let before = all_served(&mut console, 1);
        for _ in 0..3 {
            reads(&mut client);
        }
        assert!(all_served(&mut console, 1) > before, "they were read at the replica");
        busy.rows("COMMIT").unwrap();
        reads(&mut client);
        client.rows("UPDATE quiet SET v = 7").unwrap();
    }
}

#[test]
fn whoever_may_write_reads_at_the_primary() {
    for design in all() {
        let (_serving, mut console, url) = serving(design, 1, THROUGH);
        let mut client = Client::connect(&url).unwrap();
        knows(&mut client, &mut console);
        let before = all_served(&mut console, 1);
        for begin in
            ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"]
        {
            client.rows(begin).unwrap();
            assert_eq!(client.number(READ_QUIET).unwrap(), 7);
            client.rows("COMMIT").unwrap();
        }
        client.rows("SET consort.consistency = 'primary'").unwrap();
        assert_eq!(client.number(READ_QUIET).unwrap(), 7);
        assert_eq!(all_served(&mut console, 1), before);
    }
}

#[test]
fn a_replica_that_is_lost_is_not_noticed() {
    for design in all() {
        let (serving, mut console, url) = serving(design, 2, THROUGH);
        let load = Load::start(&url);
        load.goes_on(40, 20);
        for fail in [Node::kill as fn(&Node), Node::hang] {
            let replica = serving.servers.replica(0);
            fail(replica);
            load.goes_on(40, 20);
            replica.resume();
            replica.start().unwrap();
            let before = served(&mut console, "replica1");
            eventually("reads at the replica", || served(&mut console, "replica1") > before + 20);
        }
        serving.servers.replica(0).kill();
        serving.servers.replica(1).kill();
        load.goes_on(20, 10);
        load.end();
    }
}

/// Waits until this is so of a client's backend at the server.
pub(crate) fn is_so(server: &Node, condition: &str) {
    let others = "backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let sql = format!("SELECT 1 FROM pg_stat_activity WHERE {others} AND {condition}");
    eventually(condition, || !server.query("postgres", &sql).expect("an answer").is_empty());
}

/// From now on every commit at this server waits for a standby that does not exist. The server applies the
/// setting at any time, so this waits until a commit does.
pub(crate) fn no_commit_ends(server: &Arc<Scratch>) {
    server.primary().set("synchronous_standby_names", "nobody").expect("the setting");
    let seen = Arc::new(AtomicBool::new(false));
    let committing = std::thread::spawn({
        let (server, seen) = (server.clone(), seen.clone());
        move || {
            while !seen.load(Ordering::Relaxed) {
                let message = "SELECT pg_logical_emit_message(true, 'a commit that waits', '')";
                server
                    .primary()
                    .query("postgres", message)
                    .expect("a commit, in the end without the standby");
            }
        }
    });
    is_so(server.primary(), "wait_event = 'SyncRep'");
    seen.store(true, Ordering::Relaxed);
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    server.primary().query("postgres", cancel).expect("a cancelled wait");
    committing.join().expect("the commit that waited");
}

pub(crate) fn sqlstate(client: &mut Client, sql: &str) -> Option<String> {
    client.rows(sql).err().and_then(|trouble| trouble.sqlstate)
}

#[test]
fn the_primary_gets_one_commit_at_a_time_and_reads_go_on() {
    let (serving, mut console, url) =
        serving(with_turns(), 1, &format!("{THROUGH}\nreplica_wait_timeout = \"3s\""));
    let (mut reader, mut other) = (Client::connect(&url).unwrap(), Client::connect(&url).unwrap());
    knows(&mut reader, &mut console);
    other.rows("SET synchronous_commit = local").unwrap();
    other.rows("UPDATE quiet SET v = v").unwrap();
    no_commit_ends(&serving.servers);
    let hangs = std::thread::spawn({
        let mut client = Client::connect(&url).unwrap();
        move || client.rows("UPDATE quiet SET v = v + 1").map(drop)
    });
    is_so(serving.servers.primary(), "wait_event = 'SyncRep'");
    assert_eq!(sqlstate(&mut other, "INSERT INTO counter VALUES (2, 0)").as_deref(), Some("40001"));
    other.rows("BEGIN").unwrap();
    other.rows("INSERT INTO counter VALUES (2, 0)").unwrap();
    assert_eq!(sqlstate(&mut other, "COMMIT").as_deref(), Some("40001"));
    let before = all_served(&mut console, 1);
    assert_eq!(reader.number(READ_QUIET).unwrap(), 7);
    assert_eq!(reader.number("SELECT count(*) FROM counter").unwrap(), 1);
    assert!(all_served(&mut console, 1) > before, "reads wait for no commit that nobody has seen");
    serving.servers.primary().set("synchronous_standby_names", "").unwrap();
    hangs.join().unwrap().unwrap();
    other.rows("INSERT INTO counter VALUES (2, 0)").unwrap();
    assert_eq!(reader.number(READ_QUIET).unwrap(), 8);
    assert_eq!(reader.number("SELECT count(*) FROM counter").unwrap(), 2);
}

#[test]
fn who_waits_for_rows_has_not_the_turn() {
    let (serving, _console, url) = serving(with_turns(), 1, THROUGH);
    let mut client = Client::connect(&url).unwrap();
    client
        .rows(
            "CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1); \
             CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
    for (holds, waits, told) in [
        ("UPDATE quiet SET v = 8", "UPDATE quiet SET v = v + 1", None),
        ("DELETE FROM parent", "INSERT INTO child VALUES (1)", Some("23503")),
        ("DELETE FROM parent", "BEGIN; INSERT INTO child VALUES (1)", Some("23503")),
    ] {
        client.rows("INSERT INTO parent VALUES (1) ON CONFLICT DO NOTHING").unwrap();
        client.rows("BEGIN").unwrap();
        client.rows(holds).unwrap();
        let waiting = std::thread::spawn({
            let mut other = Client::connect(&url).unwrap();
            move || {
                let done = waits.split("; ").chain(waits.starts_with("BEGIN").then_some("COMMIT"));
                let told = done.map(|sql| sqlstate(&mut other, sql)).last().flatten();
                assert_eq!(other.number("SELECT count(*) FROM child").unwrap(), 0);
                told
            }
        });
        is_so(serving.servers.primary(), "wait_event_type = 'Lock'");
        client.rows("COMMIT").unwrap();
        assert_eq!(waiting.join().unwrap().as_deref(), told, "{waits}");
    }
    assert_eq!(client.number(READ_QUIET).unwrap(), 9);
}

#[test]
fn a_commit_is_acknowledged_when_replicas_show_it() {
    let (serving, mut console, url) = serving(
        with_turns(),
        2,
        &format!("{THROUGH}\ncommit_replica_quorum = 2\nreplica_wait_timeout = \"4s\""),
    );
    let mut client = Client::connect(&url).unwrap();
    knows(&mut client, &mut console);
    let shown = |value: i64| {
        (0..2).for_each(|replica| {
            let rows = serving.servers.replica(replica).query("postgres", READ_QUIET).unwrap();
            assert_eq!(rows[0][0], Some(value.to_string()));
        });
    };
    for value in 8..40 {
        for sql in ["BEGIN", "UPDATE quiet SET v = v + 1", "COMMIT"].iter().skip(value as usize % 2) {
            let sql = if value % 2 == 1 && *sql == "COMMIT" { "SELECT 1" } else { sql };
            client.rows(sql).unwrap();
        }
        shown(value);
    }
    serving.servers.replica(1).hang();
    assert_eq!(sqlstate(&mut client, "UPDATE quiet SET v = v + 1").as_deref(), Some("40003"));
    client.rows("BEGIN").unwrap();
    client.rows("UPDATE quiet SET v = v + 1").unwrap();
    assert_eq!(sqlstate(&mut client, "COMMIT").as_deref(), Some("40003"));
    serving.servers.replica(1).resume();
    eventually("an acknowledgement", || client.rows("UPDATE quiet SET v = v").is_ok());
    shown(41);
}

#[test]
fn histories_are_what_one_server_would_give() {
    for (design, lines) in all().flat_map(|design| [(design, THROUGH), (design, ANYWHERE)]) {
        let (serving, mut shown, url) = serving(design, 2, lines);
        let before = all_served(&mut shown, 2);
        let console = serving.url("postgres", "consort");
        let line = ["histories", "--url", &url, "--console", &console, "--time", "3s", "--rate", "1000"];
        let levels = ["--isolation", "repeatable-read,read-committed,autocommit", "--read-only", "0.5"];
        let told = load(&[&line[..], &levels, &["--together", "0.3"]].concat());
        assert_eq!(told.matches("  valid").count(), 3, "{told}");
        assert!(all_served(&mut shown, 2) > before + 100, "{told}");
    }
}

#[test]
fn up_makes_replicas_for_it() {
    for design in all() {
        let folder = up_folder();
        let listen = format!("127.0.0.1:{}", folder.port);
        let standby = ["--listen", &listen, "--design", design, "--standbys", "1"];
        let refused = folder.run("up", &standby).failed(1);
        assert!(refused.contains("does not support standbys") && refused.contains("--replicas"), "{refused}");
        assert!(!folder.path().join("primary").exists(), "nothing is made that could not be used");
        folder.run("up", &["--listen", &listen, "--design", design]).worked();
        let mut client = Client::connect(&folder.url()).unwrap();
        client.rows(TABLES).unwrap();
        let mut console = Console::connect(&format!("postgres://postgres@{listen}/consort"));
        shows_all(&mut console, 2);
        assert!(folder.run("status", &[]).worked().contains(&format!("design {design}")));
        folder.run("down", &[]).worked();
        folder.run("up", &["--standbys", "1"]).failed(1);
        assert!(!folder.path().join("standby1").exists());
        folder.run("up", &[]).worked();
    }
}
