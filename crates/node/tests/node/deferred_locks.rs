//! Reads of a block before its first statement at the primary (`offload_in_transactions = "on"`): the client,
//! and every other one, sees one server.

use crate::messages::{parse_named, run_named};
use crate::pooled::shared;
use crate::session::{answer, query, until_it_leaves_behind};
use crate::stage::{Open, Raw, SERVERS, apart, database, database_at, until};
use cluster::Setup;
use config::OffloadInTransactions;
use config::pooling::Pools;
use scheduler::Writers;
use std::process::Command;
use testkit::Scratch;
use wire::Asks;

const READ: &str = "SELECT name FROM items WHERE id = 7";
const OTHER: &str = "SELECT name FROM others WHERE id = 7";
const WRITE: &str = "UPDATE others SET name = 'mine' WHERE id = 8";
const NOTHING: [&str; 0] = [];

fn on(setup: &mut Setup) {
    setup.offload_in_transactions = OffloadInTransactions::On;
}

/// A frontend that defers locks, before a database with two tables.
fn serving(name: &str, writers: Writers) -> Open {
    database(name);
    SERVERS.query_in(
        name,
        "CREATE TABLE others AS SELECT * FROM items; ALTER TABLE others ADD PRIMARY KEY (id)",
    );
    Open::before(&SERVERS, writers, on)
}

/// Begins blocks until this read has left one. It stays open.
fn begins(open: &Open, raw: &mut Raw, read: &str) -> Vec<String> {
    until_it_leaves_behind(open, raw, &["BEGIN"], read)
}

/// Makes this read known, outside a block.
fn learns(open: &Open, raw: &mut Raw, read: &str) {
    begins(open, raw, read);
    query(raw, "COMMIT");
}

/// Empties a table past Consort, if no lock prevents it.
fn truncates(database: &str, table: &str) -> bool {
    let truncate = format!("SET lock_timeout = '100ms'; TRUNCATE {table}; RESET lock_timeout");
    SERVERS.primary().query(database, &truncate).is_ok()
}

#[test]
fn deferred_short_reads_leave() {
    for (name, writers) in [("short_anywhere", Writers::Anywhere), ("short_consort", Writers::ThroughConsort)]
    {
        let open = serving(name, writers);
        let mut raw = Raw::ready(&open, name);
        learns(&open, &mut raw, OTHER);
        learns(&open, &mut raw, READ);
        // A proof may be late: not every round offloads all.
        until(|| {
            let before = open.reads_at_standbys();
            query(&mut raw, "BEGIN");
            for _ in 0..3 {
                assert_eq!(query(&mut raw, READ), ["item 7"]);
                assert_eq!(query(&mut raw, OTHER), ["item 7"]);
            }
            assert_eq!(raw.status_after("COMMIT"), 'I');
            open.reads_at_standbys() == before + 6
        });
        begins(&open, &mut raw, READ);
        let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'items'::regclass";
        assert_eq!(SERVERS.query_in(name, locks)[0][0].as_deref(), Some("0"));
        // Its first write takes them.
        assert_eq!(query(&mut raw, WRITE), NOTHING);
        assert!(!truncates(name, "items"));
        assert_eq!(query(&mut raw, "SELECT name FROM others WHERE id = 8"), ["mine"]);
        query(&mut raw, "COMMIT");
        assert_eq!(query(&mut raw, "SELECT name FROM others WHERE id = 8"), ["mine"]);
        assert!(truncates(name, "items"));
    }
}

#[test]
fn block_time_is_that_of_begin() {
    let open = serving("block_time", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "block_time");
    begins(&open, &mut raw, READ);
    let now = SERVERS.query("SELECT clock_timestamp()")[0][0].clone().unwrap();
    assert_eq!(query(&mut raw, &format!("SELECT now() < '{now}'")), ["t"]);
    query(&mut raw, "COMMIT");
}

#[test]
fn deferred_set_transaction_is_refused() {
    let open = serving("set_deferred", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "set_deferred");
    begins(&open, &mut raw, READ);
    assert_eq!(query(&mut raw, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), ["25001"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
}

/// Commands that one server would have made wait for the block.
const PASSING: [&str; 3] = ["TRUNCATE items", "ALTER TABLE items ADD COLUMN more int", "DROP TABLE items"];

fn fails_after_passing(name: &str, next: &str) {
    let open = serving(name, Writers::Anywhere);
    let mut raw = Raw::ready(&open, name);
    learns(&open, &mut raw, OTHER);
    for passing in PASSING {
        begins(&open, &mut raw, READ);
        SERVERS.query_in(name, passing);
        assert_eq!(query(&mut raw, next), ["40001"], "{passing}");
        assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
        assert_eq!(raw.status_after("ROLLBACK"), 'I');
        SERVERS.query_in(name, "DROP TABLE IF EXISTS items");
        SERVERS.query_in(name, "CREATE TABLE items (id int PRIMARY KEY, name text)");
        SERVERS.query_in(name, "INSERT INTO items SELECT g, 'item ' || g FROM generate_series(1, 100) g");
    }
    // A block that begins afterwards is not concerned.
    begins(&open, &mut raw, READ);
    assert_eq!(query(&mut raw, WRITE), NOTHING);
    assert_eq!(raw.status_after("COMMIT"), 'I');
}

#[test]
fn deferred_write_after_truncate_fails() {
    fails_after_passing("write_passed", WRITE);
}

#[test]
fn deferred_read_after_truncate_fails() {
    fails_after_passing("read_passed", OTHER);
}

/// Stops or continues the process that decodes for Consort.
fn decoder(servers: &Scratch, signal: &str) {
    let slot = "SELECT active_pid FROM pg_replication_slots WHERE active AND slot_type = 'logical'";
    let pid = servers.query(slot)[0][0].clone().unwrap();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

#[test]
fn deferred_locks_wait_for_the_decoder() {
    let servers = apart();
    database_at(&servers, "undecoded");
    let twin = "CREATE TABLE others AS SELECT * FROM items; ALTER TABLE others ADD PRIMARY KEY (id)";
    servers.query_in("undecoded", twin);
    let open = Open::before(&servers, Writers::Anywhere, on);
    let mut raw = Raw::ready(&open, "undecoded");
    for comes in [true, false] {
        begins(&open, &mut raw, READ);
        decoder(&servers, "-STOP");
        servers.query_in("undecoded", "ALTER TABLE items ADD COLUMN IF NOT EXISTS more int");
        raw.ask(|out| out.query(WRITE.as_bytes()));
        let locked = "SELECT 1 FROM pg_locks WHERE relation = 'items'::regclass AND mode = 'AccessShareLock'";
        until(|| !servers.query_in("undecoded", locked).is_empty());
        // It comes out now, or too late.
        if comes {
            decoder(&servers, "-CONT");
        }
        assert_eq!(answer(&mut raw).0, ["40001"]);
        if !comes {
            decoder(&servers, "-CONT");
        }
        assert_eq!(raw.status_after("ROLLBACK"), 'I');
    }
    assert_eq!(query(&mut raw, "SELECT name FROM others WHERE id = 8"), ["item 8"]);
}

#[test]
fn deferred_locks_end_with_commit() {
    let open = serving("passed_end", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "passed_end");
    for (number, end) in ["COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN"].iter().enumerate() {
        begins(&open, &mut raw, READ);
        SERVERS.query_in("passed_end", &format!("ALTER TABLE items ADD COLUMN more{number} int"));
        assert_eq!(raw.status_after(end), if end.ends_with("CHAIN") { 'T' } else { 'I' }, "{end}");
        if end.ends_with("CHAIN") {
            assert_eq!(query(&mut raw, WRITE), NOTHING);
            assert_eq!(raw.status_after("COMMIT"), 'I');
        }
    }
}

#[test]
fn deferred_error_fails_the_block() {
    let open = serving("failed_read", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "failed_read");
    let read = |n: u32| format!("SELECT sum(1 / (id - {n})) FROM items");
    until(|| {
        begins(&open, &mut raw, &read(1000));
        let before = open.reads_at_standbys();
        assert_eq!(query(&mut raw, &read(7)), ["22012"]);
        assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
        raw.ask(|out| out.query(b"COMMIT"));
        assert_eq!(answer(&mut raw).1, "CZ");
        open.reads_at_standbys() > before
    });
}

#[test]
fn deferred_savepoint_keeps_locks() {
    let open = serving("deferred_savepoint", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "deferred_savepoint");
    begins(&open, &mut raw, READ);
    query(&mut raw, "SAVEPOINT a");
    query(&mut raw, "ROLLBACK TO a");
    assert!(!truncates("deferred_savepoint", "items"));
    query(&mut raw, "ROLLBACK");
    assert!(truncates("deferred_savepoint", "items"));
}

#[test]
fn deferred_locks_end_at_the_primary() {
    let open = serving("deferred_end", Writers::Anywhere);
    for statement in [
        "DECLARE c CURSOR FOR SELECT 1",
        "SELECT id FROM others WHERE id = 1 FOR SHARE",
        "SELECT count(pg_advisory_xact_lock(1))",
        "SELECT count(pg_export_snapshot())",
        "CREATE TEMP TABLE scratch ()",
        "SET LOCAL work_mem = '1MB'",
        "SELECT count(lo_create(0))",
        "SELECT count(now())",
        WRITE,
    ] {
        let mut raw = Raw::ready(&open, "deferred_end");
        begins(&open, &mut raw, READ);
        query(&mut raw, statement);
        assert!(!truncates("deferred_end", "items"), "{statement}");
        // Wherever a later read runs, it locks its tables.
        query(&mut raw, OTHER);
        assert!(!truncates("deferred_end", "others"), "{statement}");
        assert_eq!(raw.status_after("ROLLBACK"), 'I');
    }
    // The rows of a portal with a limit come from one server.
    let mut raw = Raw::ready(&open, "deferred_end");
    begins(&open, &mut raw, READ);
    raw.ask(|out| {
        out.parse(b"", b"SELECT id FROM items ORDER BY id", &[]);
        out.bind_plain(b"");
        out.execute(b"", 2);
        out.sync();
    });
    assert_eq!(answer(&mut raw).0, ["1", "2"]);
    assert!(!truncates("deferred_end", "items"));
    query(&mut raw, "ROLLBACK");
}

#[test]
fn deferred_read_heeds_lock_table() {
    let open = serving("locked_out", Writers::Anywhere);
    let (mut raw, mut locker) = (Raw::ready(&open, "locked_out"), Raw::ready(&open, "locked_out"));
    learns(&open, &mut raw, OTHER);
    learns(&open, &mut raw, READ);
    query(&mut raw, "SET lock_timeout = '100ms'");
    // While the lock is held, the read waits for it.
    query(&mut locker, "BEGIN");
    query(&mut locker, "LOCK TABLE items IN ACCESS EXCLUSIVE MODE");
    query(&mut raw, "BEGIN");
    assert_eq!(query(&mut raw, READ), ["55P03"]);
    query(&mut raw, "ROLLBACK");
    query(&mut locker, "COMMIT");
    // A lock that came after the read, and its commit.
    begins(&open, &mut raw, READ);
    query(&mut locker, "BEGIN");
    query(&mut locker, "LOCK TABLE items IN ACCESS EXCLUSIVE MODE");
    query(&mut locker, "UPDATE others SET name = 'later' WHERE id = 7");
    query(&mut locker, "COMMIT");
    assert_eq!(query(&mut raw, OTHER), ["40001"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
}

#[test]
fn deferred_locks_need_strong() {
    let open = serving("deferred_weak", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "deferred_weak");
    learns(&open, &mut raw, READ);
    query(&mut raw, "SET consort.consistency = 'session'");
    query(&mut raw, "BEGIN");
    // At a standby too, if such reads take long on average.
    assert_eq!(query(&mut raw, READ), ["item 7"]);
    assert!(!truncates("deferred_weak", "items"));
    query(&mut raw, "COMMIT");
}

#[test]
fn deferred_locks_are_bounded() {
    let open = serving("deferred_bound", Writers::Anywhere);
    for sql in [
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (50)",
        "INSERT INTO parts SELECT generate_series(1, 40)",
    ] {
        SERVERS.query_in("deferred_bound", sql);
    }
    let mut raw = Raw::ready(&open, "deferred_bound");
    // Values choose the partitions: each read is kept.
    let read = |n: usize| format!("SELECT id FROM parts WHERE id = {n}");
    let locked = || {
        let locks = "SELECT 1 FROM pg_locks WHERE relation = 'low'::regclass AND mode = 'AccessShareLock'";
        !SERVERS.query_in("deferred_bound", locks).is_empty()
    };
    until(|| {
        let before = open.reads_at_standbys();
        query(&mut raw, "BEGIN");
        for n in 1..=16 {
            assert_eq!(query(&mut raw, &read(n)), [n.to_string()]);
        }
        let all_left = open.reads_at_standbys() == before + 16;
        assert_eq!(locked(), !all_left);
        assert_eq!(query(&mut raw, &read(17)), ["17"]);
        assert!(locked());
        // A read that runs at the primary does not end the deferral.
        let before = open.reads_at_standbys();
        assert_eq!(query(&mut raw, &read(18)), ["18"]);
        let goes_on = open.reads_at_standbys() > before;
        assert_eq!(raw.status_after("COMMIT"), 'I');
        all_left && goes_on
    });
}

#[test]
fn deferred_parse_opens_the_block() {
    let open = serving("deferred_parse", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "deferred_parse");
    begins(&open, &mut raw, READ);
    assert_eq!(parse_named(&mut raw, b"later", OTHER), "");
    assert!(!truncates("deferred_parse", "items"));
    assert_eq!(run_named(&mut raw, b"later"), ["item 7"]);
    query(&mut raw, "COMMIT");
    // A named statement defers its locks like others.
    until(|| {
        query(&mut raw, "BEGIN");
        let before = open.reads_at_standbys();
        assert_eq!(run_named(&mut raw, b"later"), ["item 7"]);
        let left = open.reads_at_standbys() > before;
        query(&mut raw, "SAVEPOINT a");
        assert!(!truncates("deferred_parse", "others"));
        query(&mut raw, "ROLLBACK");
        left
    });
}

#[test]
fn deferred_locks_wait_as_one_server() {
    let open = serving("deferred_wait", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "deferred_wait");
    let mut locker = Raw::past(&SERVERS, "deferred_wait");
    query(&mut raw, "SET lock_timeout = '100ms'");
    begins(&open, &mut raw, READ);
    query(&mut locker, "BEGIN");
    query(&mut locker, "LOCK TABLE items IN ACCESS EXCLUSIVE MODE");
    assert_eq!(query(&mut raw, WRITE), ["55P03"]);
    assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
    query(&mut locker, "COMMIT");
}

#[test]
fn deferred_locks_allow_harmless_ddl() {
    let open = serving("harmless_ddl", Writers::Anywhere);
    let body = "BEGIN RETURN NEW; END";
    let function = format!("CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS $${body}$$");
    SERVERS.query_in("harmless_ddl", &function);
    let mut raw = Raw::ready(&open, "harmless_ddl");
    for command in [
        "GRANT SELECT ON items TO PUBLIC",
        "CREATE INDEX ON items (name)",
        "CREATE TRIGGER keeps BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION keeps()",
        "ANALYZE items",
    ] {
        begins(&open, &mut raw, READ);
        SERVERS.query_in("harmless_ddl", command);
        assert_eq!(query(&mut raw, WRITE), NOTHING, "{command}");
        assert_eq!(raw.status_after("COMMIT"), 'I');
    }
}

/// A pooled connection lacks a named statement that was read in the block, and its table is gone.
#[test]
fn deferred_lacked_statement_fails_once() {
    let servers = apart();
    database_at(&servers, "lacked");
    let twin = "CREATE TABLE others AS SELECT * FROM items; ALTER TABLE others ADD PRIMARY KEY (id)";
    servers.query_in("lacked", twin);
    let open = Open::before(&servers, Writers::Anywhere, |setup| {
        on(setup);
        setup.pools = Pools::of_all(shared(2));
    });
    let mut raw = Raw::ready(&open, "lacked");
    let (mut holder, mut other) = (Raw::ready(&open, "lacked"), Raw::ready(&open, "lacked"));
    learns(&open, &mut raw, READ);
    let mut names = (0..).map(|number| format!("kept{number}").into_bytes());
    until(|| {
        // The connection that has parsed it is another's, and the second one lacks it.
        let name = names.next().expect("numbers go on");
        query(&mut holder, "BEGIN");
        assert_eq!(parse_named(&mut raw, &name, READ), "");
        query(&mut other, "BEGIN");
        query(&mut holder, "ROLLBACK");
        let before = open.reads_at_standbys();
        // A BEGIN of its own would have the connection learn it.
        raw.ask(|out| {
            out.parse(b"", b"BEGIN", &[]);
            for statement in [&b""[..], &name] {
                out.bind_plain(statement);
                out.execute(b"", 0);
            }
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["item 7".to_owned()], "12C2DCZ".to_owned()));
        let left = open.reads_at_standbys() > before;
        if !left {
            query(&mut raw, "ROLLBACK");
        }
        query(&mut other, "ROLLBACK");
        left
    });
    servers.query_in("lacked", "DROP TABLE items");
    raw.ask(|out| out.query(WRITE.as_bytes()));
    assert_eq!(answer(&mut raw), (vec!["40001".to_owned()], "EZ".to_owned()));
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
}

#[test]
fn deferred_locks_end_with_a_chain() {
    let open = serving("chained", Writers::Anywhere);
    let mut raw = Raw::ready(&open, "chained");
    learns(&open, &mut raw, OTHER);
    until(|| {
        begins(&open, &mut raw, READ);
        query(&mut raw, "COMMIT AND CHAIN");
        let before = open.reads_at_standbys();
        query(&mut raw, OTHER);
        let left = open.reads_at_standbys() > before;
        assert_eq!(query(&mut raw, WRITE), NOTHING);
        let locks = "SELECT 1 FROM pg_locks WHERE relation = 'items'::regclass";
        assert!(SERVERS.query_in("chained", locks).is_empty());
        assert_eq!(raw.status_after("COMMIT"), 'I');
        left
    });
}

/// Drivers send BEGIN together with the first statement.
#[test]
fn deferred_begin_comes_with_a_read() {
    let open = serving("pipelined_begin", Writers::Anywhere);
    let (mut raw, mut other) = (Raw::ready(&open, "pipelined_begin"), Raw::ready(&open, "pipelined_begin"));
    learns(&open, &mut other, OTHER);
    learns(&open, &mut raw, READ);
    until(|| {
        let before = open.reads_at_standbys();
        raw.ask(|out| {
            for text in ["BEGIN", READ] {
                out.parse(b"", text.as_bytes(), &[]);
                out.bind_plain(b"");
                out.execute(b"", 0);
            }
            out.sync();
        });
        assert_eq!(answer(&mut raw), (vec!["item 7".to_owned()], "12C12DCZ".to_owned()));
        let left = open.reads_at_standbys() > before;
        assert_eq!(raw.status_after("COMMIT"), 'I');
        left
    });
    // One query with both runs at the primary, and others go on.
    raw.ask(|out| out.query(format!("BEGIN; {READ}").as_bytes()));
    assert_eq!(answer(&mut raw).0, ["item 7"]);
    begins(&open, &mut other, OTHER);
    query(&mut other, "COMMIT");
    assert_eq!(raw.status_after("COMMIT"), 'I');
    // A lock among them keeps others away.
    raw.ask(|out| out.query(b"BEGIN; LOCK TABLE others IN ACCESS EXCLUSIVE MODE"));
    answer(&mut raw);
    query(&mut other, "SET lock_timeout = '100ms'");
    query(&mut other, "BEGIN");
    assert_eq!(query(&mut other, OTHER), ["55P03"]);
}

#[test]
fn deferred_locks_are_judged_until_cancelled() {
    let servers = apart();
    database_at(&servers, "cancelled_opening");
    let twin = "CREATE TABLE others AS SELECT * FROM items; ALTER TABLE others ADD PRIMARY KEY (id)";
    servers.query_in("cancelled_opening", twin);
    let open = Open::before(&servers, Writers::Anywhere, on);
    let (mut raw, key) = Raw::ready_with_key(&open, "cancelled_opening");
    begins(&open, &mut raw, READ);
    decoder(&servers, "-STOP");
    // A commit to be decoded, so that no probe settles.
    servers.query_in("cancelled_opening", "UPDATE items SET name = name WHERE id = 9");
    raw.ask(|out| out.query(WRITE.as_bytes()));
    let locked = "SELECT 1 FROM pg_locks WHERE relation = 'items'::regclass AND mode = 'AccessShareLock'";
    until(|| !servers.query_in("cancelled_opening", locked).is_empty());
    let mut canceller = Raw::connect(&open);
    canceller.ask(|out| out.cancel(&key));
    assert_eq!(canceller.message(), None);
    decoder(&servers, "-CONT");
    assert_eq!(answer(&mut raw).0, ["57014"]);
    assert_eq!(query(&mut raw, "SELECT 1"), ["25P02"]);
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
}

/// Commands through Consort that lock readers out without a trace in the stream, before other writes.
#[test]
fn deferred_read_after_an_untold_lock_fails() {
    let open = serving("untold", Writers::Anywhere);
    for sql in ["CREATE ROLE untold_a", "CREATE ROLE untold_b"] {
        SERVERS.query(sql);
    }
    let (mut raw, mut locker) = (Raw::ready(&open, "untold"), Raw::ready(&open, "untold"));
    learns(&open, &mut raw, OTHER);
    let mut passed = Vec::new();
    for commands in [
        &["SAVEPOINT a", "TRUNCATE items", "ROLLBACK TO a"][..],
        &["SAVEPOINT a", "ALTER TABLE items ADD COLUMN more int", "ROLLBACK TO a"],
        &["SAVEPOINT a", "TRUNCATE items", "ROLLBACK TO a; SELECT 1"],
        &["REASSIGN OWNED BY untold_a TO untold_b"],
    ] {
        SERVERS.query_in("untold", "ALTER TABLE items OWNER TO untold_a");
        begins(&open, &mut raw, READ);
        query(&mut locker, "BEGIN");
        for command in commands {
            query(&mut locker, command);
        }
        query(&mut locker, "UPDATE others SET name = 'later' WHERE id = 7");
        assert_eq!(locker.status_after("COMMIT"), 'I');
        if query(&mut raw, OTHER) != ["40001"] {
            passed.push(commands);
        }
        assert_eq!(raw.status_after("ROLLBACK"), 'I');
    }
    assert_eq!(passed, Vec::<&[&str]>::new());
}
