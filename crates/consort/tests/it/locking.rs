//! The design in which a refresh locks its replica: who reads there holds it back, who comes waits for it, and who reads for
//! too long is let go.

use std::io::{Read, Write};
use std::net::TcpStream;

use local_cluster::Node;

use crate::fixture::{LIMIT, Serving, eventually};
use crate::load::{Client, Console, READ, READ_QUIET, THROUGH, past, served};
use crate::waiting::{is_so, knows, named, serving, sqlstate};

const UPDATE: &str = "UPDATE quiet SET v = v + 1";

/// A query that never ends in practice, if `n` is large.
fn long(n: u32) -> String {
    format!(
        "SELECT count(*) FROM quiet, generate_series(1, {n}) a, generate_series(1, {n}) b, generate_series(1, {n}) c"
    )
}

/// A query with more rows than memory holds, if `n` is large.
fn large(n: u32) -> String {
    format!("SELECT repeat('x', {n}) FROM quiet, generate_series(1, {n}) a, generate_series(1, {n}) b")
}

/// Consort of this design, a client that reads and one that writes.
fn stage(replicas: usize, replica_wait_timeout: &str) -> (Serving, Console, Client, Client) {
    let lines = format!("{THROUGH}\nreplica_wait_timeout = \"{replica_wait_timeout}\"");
    let (serving, mut console, url) = serving(named(|design| design.intake.locks()), replicas, &lines);
    let connect = || Client::connect(&url).expect("a log-in");
    let (mut reader, writer) = (connect(), connect());
    knows(&mut reader, &mut console);
    (serving, console, reader, writer)
}

/// Statements of this shape are known: they run at the replica.
fn learn(client: &mut Client, console: &mut Console, sql: &str) {
    let before = served(console, "replica1");
    eventually("reads at the replica", || {
        client.rows(sql).expect("an answer");
        served(console, "replica1") > before
    });
}

/// A figure of SHOW REPLICATION, by replica.
fn figures(console: &mut Console, column: &str) -> Vec<u64> {
    let rows = console.rows("SHOW REPLICATION");
    rows.iter().map(|row| row.get(column).expect("a figure").parse().expect("a number")).collect()
}

/// The replica's value in a direct query.
fn shown(replica: &Node) -> i64 {
    let rows = replica.query("postgres", READ_QUIET).expect("an answer");
    rows[0][0].as_deref().expect("a value").parse().expect("a number")
}

#[test]
fn a_reader_holds_the_refresh_back_and_nobody_sees_a_state_between() {
    let (serving, mut console, mut reader, mut writer) = stage(2, "4min");
    let mut other = Client::connect(&serving.url("postgres", "postgres")).unwrap();
    let shown = || {
        let mut shown = [shown(serving.servers.replica(0)), shown(serving.servers.replica(1))];
        shown.sort_unstable();
        shown
    };
    reader.rows("BEGIN READ ONLY").unwrap();
    assert_eq!(reader.number(READ_QUIET).unwrap(), 7);
    for value in 8..28 {
        writer.rows(UPDATE).unwrap();
        assert_eq!(other.number(READ_QUIET).unwrap(), value, "the other replica goes on");
        assert_eq!(shown(), [7, value], "nothing comes to where somebody reads");
    }
    assert_eq!(reader.number(READ_QUIET).unwrap(), 7);
    let mut pending = figures(&mut console, "pending_commits");
    pending.sort_unstable();
    assert_eq!(pending, [0, 20]);
    reader.rows("COMMIT").unwrap();
    eventually("what was held back", || shown() == [27, 27]);
    assert!(figures(&mut console, "waited_for_readers_ms").iter().sum::<u64>() > 0);
    assert_eq!(figures(&mut console, "readers_let_go"), [0, 0]);
}

#[test]
fn a_read_waits_for_the_end_of_a_refresh_however_old_it_may_be() {
    let (serving, mut console, mut reader, mut writer) = stage(1, "2s");
    let replica = serving.servers.replica(0);
    reader.rows("SET consort.consistency = 'weak'").unwrap();
    learn(&mut reader, &mut console, READ);
    let direct = past(replica);
    let mut holds = Client::connect(&direct).unwrap();
    holds.rows("BEGIN; LOCK TABLE quiet IN SHARE MODE").unwrap();
    writer.rows(UPDATE).unwrap();
    is_so(replica, "wait_event_type = 'Lock'");
    assert_eq!(sqlstate(&mut reader, READ).as_deref(), Some("40001"), "also of what is not refreshed");
    holds.rows("ROLLBACK").unwrap();
    assert_eq!(reader.number(READ).unwrap(), 0);
    reader.rows("SET consort.consistency = 'strong'").unwrap();
    assert_eq!(reader.number(READ_QUIET).unwrap(), 8);
}

#[test]
fn who_reads_for_too_long_is_let_go() {
    let (serving, mut console, mut reader, mut writer) = stage(1, "6s");
    let replica = serving.servers.replica(0);
    let url = serving.url("postgres", "postgres");
    let mut other = Client::connect(&url).unwrap();
    learn(&mut other, &mut console, &long(1));
    learn(&mut other, &mut console, &large(1));
    let mut let_go = |count: u64| assert_eq!(figures(&mut console, "readers_let_go"), [count]);

    reader.rows("BEGIN READ ONLY").unwrap();
    assert_eq!(reader.number(READ_QUIET).unwrap(), 7);
    writer.rows(UPDATE).unwrap();
    assert_eq!(other.number(READ_QUIET).unwrap(), 8, "an idle transaction is waited for no longer");
    let_go(1);
    assert_eq!(sqlstate(&mut reader, READ_QUIET).as_deref(), Some("40001"));
    assert_eq!(sqlstate(&mut reader, READ_QUIET).as_deref(), Some("25P02"));
    reader.rows("ROLLBACK").unwrap();
    assert_eq!(reader.number(READ_QUIET).unwrap(), 8);

    let mut value = 8;
    for begin in ["SELECT 1", "BEGIN READ ONLY"] {
        reader.rows(begin).unwrap();
        let runs = std::thread::spawn(move || {
            let ended = sqlstate(&mut reader, &long(10_000));
            (reader, ended)
        });
        is_so(replica, "state = 'active' AND query LIKE '%10000%'");
        writer.rows(UPDATE).unwrap();
        value += 1;
        assert_eq!(other.number(READ_QUIET).unwrap(), value, "nor is a statement that runs");
        let ended;
        (reader, ended) = runs.join().unwrap();
        assert_eq!(ended.as_deref(), Some("40001"));
        reader.rows("ROLLBACK").unwrap();
    }
    let_go(3);
    eventually("statements that are cancelled", || {
        let runs = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%10000%' \
                    AND pid <> pg_backend_pid()";
        replica.query("postgres", runs).unwrap().is_empty()
    });

    let hangs = hanging(serving.port, &large(1_000));
    is_so(replica, "wait_event = 'ClientWrite'");
    writer.rows(UPDATE).unwrap();
    assert_eq!(other.number(READ_QUIET).unwrap(), value + 1, "nor is a client that does not read its answer");
    let_go(4);
    drop(hangs);
}

#[test]
fn a_client_that_goes_away_holds_nothing_back() {
    let (serving, mut console, mut reader, mut writer) = stage(1, "4min");
    reader.rows("BEGIN READ ONLY").unwrap();
    assert_eq!(reader.number(READ_QUIET).unwrap(), 7);
    writer.rows(UPDATE).unwrap();
    assert_eq!(shown(serving.servers.replica(0)), 7);
    drop(reader);
    eventually("what was held back", || shown(serving.servers.replica(0)) == 8);
    assert_eq!(figures(&mut console, "readers_let_go"), [0]);
}

/// A client that has asked for this and reads nothing of the answer.
fn hanging(port: u16, sql: &str) -> TcpStream {
    let message = |tag: Option<u8>, body: &[u8]| {
        let length = u32::try_from(body.len() + 4).expect("it is short").to_be_bytes();
        tag.into_iter().chain(length).chain(body.iter().copied()).collect::<Vec<u8>>()
    };
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let startup = [&196_608_u32.to_be_bytes()[..], b"user\0postgres\0database\0postgres\0\0"].concat();
    socket.write_all(&message(None, &startup)).expect("it takes a start-up packet");
    let mut head = [0; 5];
    while head[0] != b'Z' {
        socket.read_exact(&mut head).expect("a message");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        socket.read_exact(&mut vec![0; length]).expect("all of it");
    }
    socket.write_all(&message(Some(b'Q'), &[sql.as_bytes(), b"\0"].concat())).expect("it takes a query");
    socket
}
