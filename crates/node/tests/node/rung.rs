//! Clients that are asked to leave, that cancel, or that are held: while they wait, and while they are
//! answered.

use crate::pooled::{pooling, shared, sharing};
use crate::session::{query, until_it_leaves_behind};
use crate::stage::{Open, Raw, SERVERS, database, until};
use crate::turns::{by_batch, by_query, shared_stage, told};
use config::pooling::{Pooling, Pools};
use conn::registry::Leave;
use local_cluster::Options;
use std::io::Read;
use std::time::{Duration, Instant};
use testkit::Scratch;
use wire::{Asks, Complaint, Frame, Target};

/// Waits until this many clients wait for a connection.
pub(crate) fn wait(open: &Open, count: usize) {
    until(|| open.door(|door| door.registry.seats().iter().filter(|seat| seat.is_queued()).count()) == count);
}

/// The error of the next answer.
fn complaint(raw: &mut Raw) -> String {
    let message = raw.message().expect("the session goes on");
    assert_eq!(message[0], b'E');
    let frame = Frame::new(&message).unwrap();
    String::from_utf8(Complaint::read(&frame).sqlstate().to_vec()).unwrap()
}

/// Its next request is there already while one is answered.
#[test]
fn who_must_leave_runs_nothing_more() {
    database("rung_between");
    let open = Open::trusting();
    let mut holder = Raw::ready(&open, "rung_between");
    query(&mut holder, "SELECT pg_advisory_lock(77)");
    let mut raw = Raw::ready(&open, "rung_between");
    raw.ask(|out| {
        out.query(b"SELECT pg_advisory_lock(77)");
        out.query(b"INSERT INTO items VALUES (500, 'too late')");
    });
    let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = 'rung_between' AND wait_event = 'advisory'";
    until(|| !SERVERS.query(waits).is_empty());
    open.door(|door| door.close(false));
    assert_eq!(raw.until_ready(), "TDCZ");
    assert_eq!(raw.last_word(), "57P01");
    assert!(SERVERS.query_in("rung_between", "SELECT 1 FROM items WHERE id = 500").is_empty());
}

/// A row is sent in parts, and its client does not read.
#[test]
fn nothing_is_said_inside_a_row() {
    let open = Open::trusting();
    let mut raw = Raw::ready(&open, "postgres");
    raw.ask(|out| out.query(b"SELECT repeat('x', 100000000) AS large_and_unread"));
    assert_eq!(raw.message().expect("its description")[0], b'T');
    // A server that waits to write shows nothing of what the client has received.
    let mut first = [0];
    raw.stream.peek(&mut first).unwrap();
    assert_eq!(first, *b"D");
    let stuck =
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'ClientWrite' AND query ~ 'large_and_unread'";
    until(|| !SERVERS.query(stuck).is_empty());
    open.door(|door| {
        let all = door.registry.seats();
        all.iter().for_each(|seat| seat.ring(true, Leave::Killed));
    });
    let mut rest = Vec::new();
    raw.stream.read_to_end(&mut rest).unwrap();
    let value = &rest[11..];
    assert_eq!(rest[0], b'D');
    assert!(value.len() < 100_000_000 && value.iter().all(|byte| *byte == b'x'), "{} bytes", value.len());
}

#[test]
fn a_statement_that_waits_for_a_connection_is_cancelled() {
    database("cancelled_in_queue");
    let open = sharing(1);
    let mut busy = Raw::ready(&open, "cancelled_in_queue");
    let (mut raw, key) = Raw::ready_with_key(&open, "cancelled_in_queue");
    query(&mut busy, "BEGIN");
    query(&mut busy, "SELECT 1 FROM pg_backend_pid()");
    type Write = fn(&mut Vec<u8>);
    let requests: [Write; 3] = [
        |out| out.query(b"UPDATE items SET name = 'never'"),
        |out| out.query(b"SELECT name FROM items"),
        |out| {
            out.parse(b"", b"UPDATE items SET name = 'never'", &[]);
            out.bind_plain(b"");
            out.execute(b"", 0);
            out.sync();
        },
    ];
    for write in requests {
        raw.ask(write);
        wait(&open, 1);
        Raw::connect(&open).ask(|out| out.cancel(&key));
        assert_eq!(complaint(&mut raw), "57014");
        assert_eq!(raw.until_ready(), "Z");
        wait(&open, 0);
    }
    // The Sync of this one comes later, and ReadyForQuery with it.
    raw.ask(|out| {
        out.parse(b"", b"UPDATE items SET name = 'never'", &[]);
        out.describe(Target::Statement, b"");
        out.flush();
    });
    wait(&open, 1);
    Raw::connect(&open).ask(|out| out.cancel(&key));
    assert_eq!(complaint(&mut raw), "57014");
    raw.ask(|out| out.sync());
    assert_eq!(raw.until_ready(), "Z");
    query(&mut busy, "COMMIT");
    assert_eq!(query(&mut raw, "SELECT count(*)::text FROM items WHERE name = 'never'"), ["0"]);
}

/// Its BEGIN was answered, and no connection is there. The transaction fails as at one server.
#[test]
fn a_statement_that_waits_for_a_connection_behind_its_begin_is_cancelled() {
    const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let servers = Scratch::with(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    servers.query("CREATE TABLE here (id int PRIMARY KEY)");
    let (open, mut busy) = shared_stage(&servers);
    let (mut raw, key) = Raw::ready_with_key(&open, "postgres");
    query(&mut raw, "SET consort.read_only_snapshots = on");
    until_it_leaves_behind(&open, &mut raw, &[BEGIN], "SELECT id FROM here WHERE id = 1");
    assert_eq!(by_query(&mut raw, "COMMIT"), "CZI");
    query(&mut busy, "BEGIN");
    query(&mut busy, "SELECT 1 FROM pg_backend_pid()");
    let is_cancelled = |raw: &mut Raw| {
        assert_eq!(by_query(raw, BEGIN), "CZT");
        raw.ask(|out| out.query(b"SELECT pg_backend_pid()"));
        wait(&open, 1);
        Raw::connect(&open).ask(|out| out.cancel(&key));
        assert_eq!(told(raw), "E57014ZE");
    };
    // There is nothing of it at the primary, and its end needs no connection.
    is_cancelled(&mut raw);
    assert_eq!(by_query(&mut raw, "ROLLBACK"), "CZI");
    is_cancelled(&mut raw);
    assert_eq!(by_batch(&mut raw, "COMMIT"), "12nCZI");
    // The primary answers any other statement.
    is_cancelled(&mut raw);
    raw.ask(|out| out.query(b"SELECT 1"));
    wait(&open, 1);
    query(&mut busy, "COMMIT");
    assert_eq!(told(&mut raw), "E25P02ZE");
    assert_eq!(by_query(&mut raw, "ROLLBACK"), "CZI");
    assert_eq!(by_query(&mut raw, "INSERT INTO here VALUES (1)"), "CZI");
}

/// The one connection is held in a transaction, which is suspended: whoever waits for it cannot have it before RESUME.
#[test]
fn who_waits_for_a_connection_does_not_keep_suspend_waiting() {
    database("suspended_queue");
    let open = sharing(1);
    let (mut busy, mut raw) = (Raw::ready(&open, "suspended_queue"), Raw::ready(&open, "suspended_queue"));
    query(&mut busy, "BEGIN");
    query(&mut busy, "SELECT 1 FROM pg_backend_pid()");
    raw.ask(|out| out.query(b"UPDATE items SET name = 'later' WHERE id = 1"));
    wait(&open, 1);
    assert_eq!(open.suspend(Duration::from_secs(5)), Ok(()));
    open.door(|door| door.resume(None));
    query(&mut busy, "COMMIT");
    assert_eq!(raw.until_ready(), "CZ");
}

/// The client does not wait for a connection meanwhile, and its time runs on at RESUME.
#[test]
fn who_waits_for_a_connection_while_all_is_suspended_is_not_refused() {
    const WAIT: Duration = Duration::from_secs(2);
    database("suspended_wait");
    let open = pooling(Pools::of_all(Pooling { wait: WAIT, ..shared(1) }));
    let (mut busy, mut raw) = (Raw::ready(&open, "suspended_wait"), Raw::ready(&open, "suspended_wait"));
    query(&mut busy, "BEGIN");
    query(&mut busy, "SELECT 1 FROM pg_backend_pid()");
    raw.ask(|out| out.query(b"UPDATE items SET name = 'later' WHERE id = 1"));
    wait(&open, 1);
    assert_eq!(open.suspend(Duration::from_secs(5)), Ok(()));
    let suspended = Instant::now();
    until(|| suspended.elapsed() > WAIT);
    wait(&open, 1);
    open.door(|door| door.resume(None));
    assert_eq!(raw.last_word(), "53300", "nobody gives it one");
    query(&mut busy, "COMMIT");
}

/// No client gets a connection while everything is suspended, also when one is free.
#[test]
fn a_connection_that_becomes_free_is_nobodys_while_all_is_suspended() {
    database("suspended_and_free");
    let open = sharing(1);
    let (mut busy, mut raw) =
        (Raw::ready(&open, "suspended_and_free"), Raw::ready(&open, "suspended_and_free"));
    query(&mut busy, "BEGIN");
    query(&mut busy, "SELECT 1 FROM pg_backend_pid()");
    raw.ask(|out| out.query(b"UPDATE items SET name = 'later' WHERE id = 1"));
    wait(&open, 1);
    assert_eq!(open.suspend(Duration::from_secs(5)), Ok(()));
    drop(busy);
    until(|| open.door(|door| door.registry.seats().len()) == 1);
    assert!(SERVERS.query_in("suspended_and_free", "SELECT 1 FROM items WHERE name = 'later'").is_empty());
    wait(&open, 1);
    open.door(|door| door.resume(None));
    assert_eq!(raw.until_ready(), "CZ");
}

/// A client that goes on without a pause does not get its connection again before a client of another role
/// that came first.
#[test]
fn who_came_first_is_served_first_also_of_another_role() {
    database("fair_to_all");
    SERVERS.query("CREATE ROLE fair_one LOGIN SUPERUSER");
    SERVERS.query("CREATE ROLE fair_other LOGIN SUPERUSER");
    SERVERS.query_in("fair_to_all", "CREATE TABLE turns (number serial, who text)");
    let mut pools = crate::pools::two_shared();
    pools.all.database_connections = 1;
    let open = pooling(pools);
    let mut other = Raw::ready_as(&open, "fair_other", "fair_to_all");
    let mut one = Raw::ready_as(&open, "fair_one", "fair_to_all");
    query(&mut one, "BEGIN");
    query(&mut one, "SELECT 1 FROM pg_backend_pid()");
    other.ask(|out| out.query(b"INSERT INTO turns (who) VALUES ('other')"));
    wait(&open, 1);
    one.ask(|out| {
        out.query(b"COMMIT");
        (0..20).for_each(|_| out.query(b"INSERT INTO turns (who) VALUES ('one')"));
    });
    (0..21).for_each(|_| drop(one.until_ready()));
    assert_eq!(other.until_ready(), "CZ");
    let first = SERVERS.query_in("fair_to_all", "SELECT who FROM turns ORDER BY number LIMIT 1");
    assert_eq!(first[0][0].as_deref(), Some("other"));
}

/// An idle connection of another role would make room in the database; but the user has its connection
/// elsewhere.
#[test]
fn nothing_is_closed_for_who_may_have_no_connection() {
    for name in ["closed_in_vain", "used_elsewhere"] {
        database(name);
    }
    SERVERS.query("CREATE ROLE used_up LOGIN SUPERUSER");
    let mut pools = crate::pools::two_shared();
    let limited = config::pooling::Said { connections: Some(1), ..Default::default() };
    pools.users.insert("used_up".to_owned(), limited);
    pools.databases.insert("closed_in_vain".to_owned(), limited);
    let open = pooling(pools);
    let mut idle = Raw::ready(&open, "closed_in_vain");
    let pid = query(&mut idle, "SELECT pg_backend_pid()::text");
    let mut used = Raw::ready_as(&open, "used_up", "used_elsewhere");
    query(&mut used, "BEGIN");
    query(&mut used, "SELECT 1 FROM pg_backend_pid()");
    let mut waits = Raw::connect(&open);
    waits.ask(|out| out.startup(&[("user", "used_up"), ("database", "closed_in_vain")]));
    wait(&open, 1);
    assert_eq!(query(&mut idle, "SELECT pg_backend_pid()::text"), pid);
    query(&mut used, "COMMIT");
    waits.until_ready();
}

/// Reads of a block are offloaded by their cost, which must not be the time that they have waited.
#[test]
fn wait_for_connection_is_no_cost() {
    const WAIT: Duration = Duration::from_millis(200);
    const READ: &str = "SELECT name FROM items WHERE id = 3";
    database("wait_is_no_cost");
    let open = sharing(1);
    let (mut busy, mut raw) = (Raw::ready(&open, "wait_is_no_cost"), Raw::ready(&open, "wait_is_no_cost"));
    query(&mut busy, "BEGIN");
    query(&mut busy, "SELECT 1 FROM pg_backend_pid()");
    raw.ask(|out| out.query(READ.as_bytes()));
    wait(&open, 1);
    let began = Instant::now();
    until(|| began.elapsed() > WAIT);
    query(&mut busy, "COMMIT");
    assert_eq!(raw.until_ready(), "TDCZ");
    let rows = open.cluster(|cluster| cluster.routes().rows());
    let row = rows.iter().find(|row| row.statement.starts_with("SELECT name")).expect("the read has a row");
    assert!(row.time > WAIT && row.at_server < row.time - WAIT, "{row:?}");
}
