//! BEGIN and COMMIT that Consort answers before the primary does: the client sees one server.

use crate::pooled::shared;
use crate::session::{answer, query, until_it_leaves_behind};
use crate::stage::{LIMIT, Open, Raw, apart, database_at, until};
use config::pooling::Pools;
use scheduler::Writers;
use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;
use testkit::Scratch;
use wire::{Asks, Complaint, Frame, Target};

const READ: &str = "SELECT name FROM items WHERE id = 7";

/// A session before servers of its own, with its backend at the primary. It has run a block.
fn session(servers: &Scratch) -> (Open, Raw, String) {
    database_at(servers, "ahead");
    let open = Open::before(servers, Writers::Anywhere, |_| {});
    let mut raw = Raw::ready(&open, "ahead");
    let pid = query(&mut raw, "SELECT pg_backend_pid()").remove(0);
    reads(&open, &mut raw);
    assert_eq!(raw.status_after("COMMIT"), 'I');
    (open, raw, pid)
}

/// Begins blocks until the read has left one. It stays open.
fn reads(open: &Open, raw: &mut Raw) {
    assert_eq!(until_it_leaves_behind(open, raw, &["BEGIN"], READ), ["item 7"]);
}

/// Stops or continues a server process.
fn signal(pid: &str, signal: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

/// True if nothing comes for a while.
fn is_silent(raw: &Raw) -> bool {
    raw.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let came = raw.stream.peek(&mut [0]);
    raw.stream.set_read_timeout(Some(LIMIT)).unwrap();
    came.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// Begins blocks until one is answered while the session's backend is stopped, which it then is. A change of
/// the catalog, or a statement at the primary, may leave a question of Consort's to the next BEGIN.
fn begins_ahead(open: &Open, raw: &mut Raw, pid: &str, begin: impl Fn(&mut Vec<u8>)) -> String {
    let mut tags = String::new();
    until(|| {
        reads(open, raw);
        assert_eq!(raw.status_after("COMMIT"), 'I');
        signal(pid, "-STOP");
        raw.ask(|out| begin(out));
        let is_ahead = !is_silent(raw);
        if !is_ahead {
            signal(pid, "-CONT");
        }
        tags = answer(raw).1;
        if !is_ahead {
            assert_eq!(raw.status_after("ROLLBACK"), 'I');
        }
        is_ahead
    });
    tags
}

/// The answers of the block wait: its time must not be later than theirs.
#[test]
fn begin_is_answered_before_the_primary() {
    let servers = apart();
    let (open, mut raw, pid) = session(&servers);
    let in_one_batch = |out: &mut Vec<u8>| {
        out.parse(b"", b"BEGIN", &[]);
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.sync();
    };
    for is_batch in [false, true] {
        let begin = |out: &mut Vec<u8>| if is_batch { in_one_batch(out) } else { out.query(b"BEGIN") };
        let tags = begins_ahead(&open, &mut raw, &pid, begin);
        assert_eq!(tags, if is_batch { "12CZ" } else { "CZ" });
        raw.ask(|out| out.query(READ.as_bytes()));
        assert!(is_silent(&raw), "the block has not begun");
        let before = servers.query("SELECT clock_timestamp()")[0][0].clone().unwrap();
        signal(&pid, "-CONT");
        assert_eq!(answer(&mut raw).0, ["item 7"]);
        assert_eq!(query(&mut raw, &format!("SELECT now() > '{before}'")), ["t"]);
        assert_eq!(raw.status_after("COMMIT"), 'I');
    }
    // The next Bind of the unnamed statement finds the BEGIN there.
    raw.ask(in_one_batch);
    assert_eq!(answer(&mut raw).1, "12CZ");
    raw.ask(|out| {
        out.bind_plain(b"");
        out.execute(b"", 0);
        out.sync();
    });
    assert!(answer(&mut raw).1.ends_with("CZ"));
    assert_eq!(raw.status_after("ROLLBACK"), 'I');
}

/// Runs the unnamed statement.
fn begins(out: &mut Vec<u8>) {
    out.bind_plain(b"");
    out.execute(b"", 0);
    out.sync();
}

/// Writes the messages of a request.
type Messages = dyn Fn(&mut Vec<u8>);

/// A request with more in it than the BEGIN is the primary's: each part is answered as there, and has its effect.
#[test]
fn begin_among_other_messages_is_the_primarys() {
    let servers = apart();
    let (open, mut raw, _) = session(&servers);
    let mut direct = Raw::past(&servers, "ahead");
    let named = |out: &mut Vec<u8>| {
        out.parse(b"named", b"BEGIN", &[]);
        out.bind_plain(b"named");
        out.execute(b"", 0);
        out.sync();
    };
    let beside = |out: &mut Vec<u8>| {
        out.parse(b"read", READ.as_bytes(), &[]);
        out.parse(b"", b"BEGIN", &[]);
        begins(out);
    };
    let described = |out: &mut Vec<u8>| {
        out.describe(Target::Statement, b"read");
        out.parse(b"", b"BEGIN", &[]);
        begins(out);
    };
    let closed = |out: &mut Vec<u8>| {
        out.close(Target::Statement, b"read");
        out.parse(b"", b"BEGIN", &[]);
        begins(out);
    };
    let declared = |out: &mut Vec<u8>| {
        out.parse(b"", b"BEGIN", &23_u32.to_be_bytes());
        begins(out);
    };
    let requests: [&Messages; 5] = [&named, &beside, &described, &closed, &declared];
    for (number, request) in requests.into_iter().enumerate() {
        reads(&open, &mut raw);
        assert_eq!(raw.status_after("COMMIT"), 'I');
        raw.ask(request);
        direct.ask(request);
        assert_eq!(answer(&mut raw).1, answer(&mut direct).1, "request {number}");
        raw.ask(|out| out.query(b"ROLLBACK"));
        direct.ask(|out| out.query(b"ROLLBACK"));
        assert_eq!(answer(&mut raw), answer(&mut direct), "after request {number}");
    }
    // What was prepared once begins each later block.
    for _ in 0..3 {
        raw.ask(|out| {
            out.bind_plain(b"named");
            out.execute(b"", 0);
            out.sync();
        });
        assert_eq!(answer(&mut raw).1, "2CZ");
        assert_eq!(query(&mut raw, READ), ["item 7"]);
        assert_eq!(raw.status_after("COMMIT"), 'I');
    }
}

#[test]
fn commit_is_answered_before_the_primary() {
    let servers = apart();
    let (open, mut raw, pid) = session(&servers);
    reads(&open, &mut raw);
    signal(&pid, "-STOP");
    assert_eq!(raw.status_after("COMMIT"), 'I');
    raw.ask(|out| out.query(b"SELECT count(pg_backend_pid())"));
    assert!(is_silent(&raw), "the block has not ended");
    signal(&pid, "-CONT");
    assert_eq!(answer(&mut raw).0, ["1"]);
    // A block that the primary has seen more of.
    reads(&open, &mut raw);
    query(&mut raw, "UPDATE items SET name = name WHERE id = 9");
    signal(&pid, "-STOP");
    raw.ask(|out| out.query(b"COMMIT"));
    assert!(is_silent(&raw), "the block is not committed");
    signal(&pid, "-CONT");
    assert_eq!(answer(&mut raw).1, "CZ");
}

/// The next client need not wait for another request of the one that has ended its block.
#[test]
fn commit_answered_ahead_frees_its_connection() {
    let servers = apart();
    database_at(&servers, "ahead");
    let open = Open::before(&servers, Writers::Anywhere, |setup| setup.pools = Pools::of_all(shared(1)));
    let (mut raw, mut other) = (Raw::ready(&open, "ahead"), Raw::ready(&open, "ahead"));
    reads(&open, &mut raw);
    assert_eq!(raw.status_after("COMMIT"), 'I');
    assert_eq!(query(&mut other, "SELECT count(pg_backend_pid())"), ["1"]);
}

#[test]
fn begin_answered_ahead_of_a_lost_backend_fails() {
    let servers = apart();
    let (open, mut raw, pid) = session(&servers);
    assert_eq!(begins_ahead(&open, &mut raw, &pid, |out| out.query(b"BEGIN")), "CZ");
    servers.query(&format!("SELECT pg_terminate_backend({pid})"));
    signal(&pid, "-CONT");
    let message = raw.message().expect("an error");
    let frame = Frame::new(&message).unwrap();
    assert_eq!(Complaint::read(&frame).sqlstate(), b"57P01");
    assert_eq!(raw.message(), None);
}
