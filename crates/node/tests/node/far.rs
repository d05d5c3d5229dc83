//! A primary that is far away, by a relay through which everything takes its time, or in which answers stay
//! for a while.

use crate::pooled::{connections, shared};
use crate::session::{answer, query};
use crate::stage::{Open, Raw, SERVERS, database, place, until};
use config::pooling::Pools;
use conn::socket::Place;
use postgres::address::Host;
use scheduler::Writers;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use wire::Asks;

/// Delay of each message, in each direction.
const LATE: Duration = Duration::from_millis(10);

/// Hands connections that are meant for the primary to who relays them. Its threads end with the process.
fn relay(mut relayed: impl FnMut(TcpStream, UnixStream) + Send + 'static) -> SocketAddr {
    let Place::Unix(primary) = place(SERVERS.primary()) else {
        panic!("the servers of tests listen on sockets")
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        listener.incoming().for_each(|near| {
            let near = near.unwrap();
            near.set_nodelay(true).unwrap();
            relayed(near, UnixStream::connect(&primary).unwrap());
        });
    });
    address
}

/// Everything takes its time.
fn late(near: TcpStream, far: UnixStream) {
    let (to, from) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    std::thread::spawn(move || carry(from, &to, || to.shutdown(Shutdown::Write)));
    std::thread::spawn(move || carry(far, &near, || near.shutdown(Shutdown::Write)));
}

/// Until one of them ends.
fn carry(mut from: impl Read, mut to: impl Write, end: impl Fn() -> std::io::Result<()>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        let due = Instant::now() + LATE;
        while Instant::now() < due {
            std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        }
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = end();
}

/// No look at the primary comes within the limit for proofs, and the reads leave all the same: they would wait there too.
#[test]
fn reads_leave_a_primary_that_takes_longer_to_answer_than_a_proof_may() {
    database("far");
    let primary = relay(late);
    let open = Open::before(&SERVERS, Writers::Anywhere, move |setup| {
        setup.proof_timeout = LATE / 2;
        setup.primary.host = Host::Name(primary.ip().to_string());
        setup.primary.port = primary.port();
    });
    until(|| {
        assert_eq!(open.psql("far", "SELECT count(*) FROM items"), "100\n");
        open.reads_at_standbys() >= 3
    });
}

/// The last query of a session before it returns a connection to the pool.
const LAST_QUESTION: &str = "SELECT pg_catalog.string_agg(name ";

/// Holds the answer to that query in the relay, and all that follow it, until the release.
fn held(near: TcpStream, mut far: UnixStream, released: Receiver<()>) {
    let (mut to, mut from) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    let (asks, asked) = channel();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if String::from_utf8_lossy(&bytes[..length]).contains(LAST_QUESTION) {
                asks.send(()).ok();
            }
            to.write_all(&bytes[..length]).ok();
        }
        to.shutdown(Shutdown::Write).ok();
    });
    std::thread::spawn(move || {
        let (mut bytes, mut kept) = (vec![0; 64 * 1024], Vec::new());
        while let Ok(length @ 1..) = far.read(&mut bytes) {
            kept.extend_from_slice(&bytes[..length]);
            if asked.try_recv().is_err() {
                (&near).write_all(&std::mem::take(&mut kept)).ok();
                continue;
            }
            far.read_to_end(&mut kept).ok();
            released.recv().ok();
            (&near).write_all(&kept).ok();
        }
        near.shutdown(Shutdown::Write).ok();
    });
}

/// The end of a backend ends the session that has it. A session that received this error does not go on at
/// another backend.
#[test]
fn a_client_that_was_told_of_its_end_while_its_connection_was_left_has_ended() {
    database("ended_while_left");
    let mut releases: Vec<Sender<()>> = Vec::new();
    let (say, hear) = channel();
    let primary = relay(move |near, far| {
        let (release, released) = channel();
        say.send(release).ok();
        held(near, far, released);
    });
    let open = Open::before(&SERVERS, Writers::Anywhere, move |setup| {
        setup.pools = Pools::of_all(shared(1));
        setup.primary.host = Host::Name(primary.ip().to_string());
        setup.primary.port = primary.port();
    });
    let mut one = Raw::ready(&open, "ended_while_left");
    assert_eq!(query(&mut one, "UPDATE items SET name = name WHERE id = 1 RETURNING name"), ["item 1"]);
    let of_it = "FROM pg_stat_activity WHERE datname = 'ended_while_left' AND application_name = ''";
    let is_answered = format!("SELECT {of_it} AND state = 'idle' AND query LIKE '{LAST_QUESTION}%'");
    until(|| !SERVERS.query(&is_answered).is_empty());
    SERVERS.query(&format!("SELECT pg_terminate_backend(pid) {of_it}"));
    until(|| connections("ended_while_left") == 0);
    releases.extend(hear.try_iter());
    releases.iter().for_each(|release| release.send(()).unwrap_or_default());
    assert_eq!(one.last_word(), "57P01");
}

/// BEGIN in words that only the client uses.
const BEGIN: &str = "START TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// Makes BEGIN an error at the primary.
fn refuses_begin(near: TcpStream, far: UnixStream) {
    let (mut to, mut from) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            let begin = bytes[..length].windows(BEGIN.len()).position(|window| window == BEGIN.as_bytes());
            if let Some(at) = begin {
                bytes[at] = b'X';
            }
            to.write_all(&bytes[..length]).ok();
        }
        to.shutdown(Shutdown::Write).ok();
    });
    std::thread::spawn(move || std::io::copy(&mut &far, &mut &near));
}

/// The next statement would run outside the block, and commit.
#[test]
fn begin_refused_after_its_answer_ends_the_session() {
    refused_begin_ends_session("begin_refused", |_| {});
}

/// Consort answers statements about its own settings itself; the block does not exist after them either.
#[test]
fn begin_refused_before_own_setting_ends_the_session() {
    refused_begin_ends_session("begin_refused_own", |out| out.query(b"SHOW consort.consistency"));
    refused_begin_ends_session("begin_refused_parsed", |out| {
        out.parse(b"later", b"SELECT 1", &[]);
        out.parse(b"", b"SHOW consort.consistency", &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.sync();
    });
}

/// The client asks for this between its BEGIN, which the primary refuses, and an update. The session ends before the update.
fn refused_begin_ends_session(name: &str, between: impl Fn(&mut Vec<u8>)) {
    database(name);
    let primary = relay(refuses_begin);
    let open = Open::before(&SERVERS, Writers::Anywhere, move |setup| {
        setup.primary.host = Host::Name(primary.ip().to_string());
        setup.primary.port = primary.port();
    });
    let mut raw = Raw::ready(&open, name);
    assert_eq!(query(&mut raw, "SELECT count(*) FROM items"), ["100"]);
    raw.ask(|out| out.query(BEGIN.as_bytes()));
    assert_eq!(answer(&mut raw).1, "CZ");
    raw.ask(|out| {
        between(out);
        out.query(b"UPDATE items SET name = 'alone' WHERE id = 7");
    });
    assert_eq!(raw.last_word(), "08006");
    let names = SERVERS.query_in(name, "SELECT name FROM items WHERE id = 7");
    assert_eq!(names[0][0].as_deref(), Some("item 7"));
}
