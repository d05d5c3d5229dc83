//! Memory of the process when values are large, and when only one side of a conversation goes on: all data
//! pass through memory in pieces, and no fast sender fills it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::fixture::{LIMIT, Serving, eventually, psql};
use crate::load::{ANYWHERE, Client, served, serves_all};

/// A large value has so many bytes.
const LARGE: usize = 256 << 20;

/// Most further memory for data of any size: far below one such value.
const MORE_KB: u64 = 48 * 1024;

/// Notices of a COPY, which have so many bytes together.
const NOTICES: usize = 4096;

/// The clients of these tests write and read so much at a time.
const PIECE: usize = 64 << 10;

/// A query that does not end before the test.
const ENDLESS: &str = "SELECT generate_series(1, 1000000000)";

/// The most memory that the process has ever had.
fn peak_kb(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of the kernel");
    line.trim().trim_end_matches(" kB").parse().expect("a line of the kernel")
}

/// Memory of the process before anything large came.
struct Memory {
    pid: u32,
    before_kb: u64,
}

impl Memory {
    fn of(serving: &Serving) -> Memory {
        Memory { pid: serving.pid(), before_kb: peak_kb(serving.pid()) }
    }

    /// Little has come to that.
    fn is_little(&self, what: &str) {
        let more = peak_kb(self.pid) - self.before_kb;
        assert!(more <= MORE_KB, "{what}: {more} kB beside the {} kB of before", self.before_kb);
    }
}

/// Somebody's statement is so, at any node.
fn any(serving: &Serving, so: &str) -> bool {
    let sql = format!(
        "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND {so}"
    );
    let nodes = serving.servers.cluster().nodes();
    nodes.iter().any(|node| !node.query("postgres", &sql).expect("it answers").is_empty())
}

/// Waits until a server cannot go on, because its client reads nothing.
fn waits_for_its_client(serving: &Serving, memory: &Memory, what: &str) {
    eventually("a server that waits for its client", || {
        memory.is_little(what);
        any(serving, "wait_event = 'ClientWrite'")
    });
}

/// A message of this tag.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("it is short");
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

/// The beginning of a message that is long; so many bytes are its body.
fn head(tag: u8, body: usize) -> Vec<u8> {
    let length = u32::try_from(body + 4).expect("no message is longer");
    [&[tag], &length.to_be_bytes()[..]].concat()
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

/// A client that reads and writes as it likes, and holds nothing large itself.
struct Raw(TcpStream);

impl Raw {
    fn connect(serving: &Serving) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", serving.port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a time");
        stream.set_write_timeout(Some(LIMIT)).expect("a time");
        let mut raw = Raw(stream);
        let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        let length = u32::try_from(body.len() + 4).expect("it is short");
        raw.send(&[&length.to_be_bytes()[..], body].concat());
        raw.is_ready();
        raw
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("it is heard");
    }

    /// Reads so many bytes.
    fn skip(&mut self, bytes: usize) {
        let mut piece = vec![0; PIECE];
        let mut left = bytes;
        while left > 0 {
            let some = left.min(PIECE);
            self.0.read_exact(&mut piece[..some]).expect("more of it");
            left -= some;
        }
    }

    /// Reads up to a message of this tag, and its header. So many bytes are its body.
    fn hears(&mut self, tag: u8) -> usize {
        loop {
            let mut header = [0; 5];
            self.0.read_exact(&mut header).expect("a message");
            let length = u32::from_be_bytes(header[1..].try_into().expect("four bytes")) as usize - 4;
            if header[0] == tag {
                return length;
            }
            if header[0] == b'E' {
                let mut body = vec![0; length];
                self.0.read_exact(&mut body).expect("the rest of it");
                panic!("{}", String::from_utf8_lossy(&body));
            }
            self.skip(length);
        }
    }

    /// Reads up to the end of an answer.
    fn is_ready(&mut self) {
        let length = self.hears(b'Z');
        self.skip(length);
    }
}

/// A trigger that says more than fits, while the client sends rows and reads nothing: the server waits.
#[test]
fn copy_with_many_notices_takes_little_memory() {
    let peers = crate::peers::Peers::start(crate::peers::in_memory());
    let mut client = peers.client();
    client.rows("CREATE TABLE loud (id int PRIMARY KEY)").expect("a table");
    let says = format!("BEGIN RAISE NOTICE '%', repeat('x', {}); RETURN NEW; END", LARGE / NOTICES);
    client
        .rows(&format!("CREATE FUNCTION says() RETURNS trigger LANGUAGE plpgsql AS $$ {says} $$"))
        .expect("it");
    client
        .rows("CREATE TRIGGER says BEFORE INSERT ON loud FOR EACH ROW EXECUTE FUNCTION says()")
        .expect("it");
    peers.equal("SELECT count(*) FROM loud");
    let memory = Memory::of(&peers.serving);
    let mut raw = Raw::connect(&peers.serving);
    let parse = message(b'P', b"\0COPY loud FROM STDIN\0\0\0");
    let (bind, execute) = (message(b'B', &[0; 8]), message(b'E', &[0; 5]));
    raw.send(&[parse, bind, execute, message(b'S', b"")].concat());
    let length = raw.hears(b'G');
    raw.skip(length);
    let mut sends = Raw(raw.0.try_clone().expect("a socket"));
    let rows: String = (0..NOTICES).map(|row| format!("{row}\n")).collect();
    let sender = std::thread::spawn(move || {
        for piece in rows.as_bytes().chunks(100) {
            sends.send(&message(b'd', piece));
        }
        sends.send(&[message(b'c', b""), message(b'S', b"")].concat());
    });
    waits_for_its_client(&peers.serving, &memory, "notices during a COPY");
    raw.is_ready();
    sender.join().expect("all is sent");
    memory.is_little("notices during a COPY");
    client.rows("SET consort.consistency = strong").expect("a setting");
    assert_eq!(
        client.number("SELECT count(*) FROM loud").expect("a count"),
        i64::try_from(NOTICES).expect("few")
    );
}

/// A large value in an answer whose client stops before each quarter of it.
fn is_read_slowly(serving: &Serving, memory: &Memory) {
    let mut client = Raw::connect(serving);
    client.send(&query(&format!("SELECT repeat('x', {LARGE}) FROM quiet WHERE id = 1")));
    let mut left = client.hears(b'D');
    assert!(left > LARGE, "{left} bytes");
    for _ in 0..4 {
        waits_for_its_client(serving, memory, "a large value that is read");
        client.skip(LARGE / 4);
        left -= LARGE / 4;
    }
    client.skip(left);
    client.is_ready();
    memory.is_little("a large value that was read");
}

/// A large value as a parameter.
fn is_bound(serving: &Serving, memory: &Memory) {
    let mut client = Raw::connect(serving);
    client.send(&message(b'P', b"\0INSERT INTO lengths VALUES (length($1::text))\0\0\0"));
    // The unnamed portal and statement, no formats, one value.
    let front = [&b"\0\0\0\0\0\x01"[..], &u32::try_from(LARGE).expect("it fits").to_be_bytes()].concat();
    client.send(&[head(b'B', front.len() + LARGE + 2), front].concat());
    let piece = vec![b'x'; PIECE];
    (0..LARGE / PIECE).for_each(|_| client.send(&piece));
    client.send(&[&b"\0\0"[..], &message(b'E', b"\0\0\0\0\0"), &message(b'S', b"")].concat());
    client.is_ready();
    memory.is_little("a large value that was bound");
    let kept = serving.servers.query("SELECT n FROM lengths");
    assert_eq!(kept, [[Some(LARGE.to_string())]]);
}

/// A large message with rows, none of which is kept.
fn is_copied(serving: &Serving, memory: &Memory) {
    let mut client = Raw::connect(serving);
    client.send(&query("COPY texts FROM STDIN WHERE v = ''"));
    let length = client.hears(b'G');
    client.skip(length);
    let mut row = vec![b'x'; PIECE];
    row[PIECE - 1] = b'\n';
    client.send(&head(b'd', LARGE));
    (0..LARGE / PIECE).for_each(|_| client.send(&row));
    client.send(&message(b'c', b""));
    client.is_ready();
    memory.is_little("a large message of a COPY");
}

/// A client runs an endless query, reads nothing or some of its rows, and disconnects.
fn is_left(serving: &Serving, memory: &Memory, sql: &str, reads: bool) {
    let mut client = Raw::connect(serving);
    client.send(&query(sql));
    match reads {
        true => client.skip(16 * PIECE),
        false => waits_for_its_client(serving, memory, sql),
    }
    drop(client);
    is_over(serving, memory, "query ~ 'generate_series.1, 1000000000'");
}

/// A client sends more and more requests, and reads nothing.
fn asks_without_end(serving: &Serving, memory: &Memory) {
    let mut client = Raw::connect(serving);
    client.send(&message(b'P', b"\0SELECT repeat('x', 10000)\0\0\0"));
    let asks = [message(b'B', &[0; 8]), message(b'E', &[0; 5])].concat().repeat(50_000);
    client.0.set_nonblocking(true).expect("a socket");
    let mut at = 0;
    eventually("the end of what is taken of him", || {
        memory.is_little("requests without end");
        let takes = match client.0.write(&asks[at..]) {
            Ok(some) => {
                at = (at + some) % asks.len();
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        };
        !takes && any(serving, "wait_event = 'ClientWrite'")
    });
    drop(client);
    is_over(serving, memory, "query ~ 'repeat..x., 10000'");
}

/// Waits until the query has ended, the only connection at the primary is free, and no state is left there.
fn is_over(serving: &Serving, memory: &Memory, so: &str) {
    eventually("the end of what nobody hears", || {
        memory.is_little(so);
        !any(serving, &format!("state = 'active' AND {so}"))
    });
    let left = "SELECT count(*) FROM pg_cursors, pg_backend_pid()";
    assert_eq!(psql(&serving.url("postgres", "postgres"), left).worked(), "0\n");
    memory.is_little(so);
}

#[test]
fn large_values_and_peers_of_which_one_alone_goes_on_take_little_memory() {
    // The nodes are asked past Consort. A proof that is late on a busy machine would only take the read to the primary.
    let lines = format!("{ANYWHERE}\ndefault_pool_size = 1\nproof_timeout = \"1s\"");
    let (serving, mut console, url) = serves_all(Serving::start(1, &lines));
    let tables = "CREATE TABLE lengths (n int); CREATE TABLE texts (v text)";
    Client::connect(&url).and_then(|mut client| client.rows(tables)).unwrap();
    let memory = Memory::of(&serving);
    let before = served(&mut console, "standby1");
    eventually("a large value that comes from the standby", || {
        is_read_slowly(&serving, &memory);
        served(&mut console, "standby1") > before
    });
    is_bound(&serving, &memory);
    is_copied(&serving, &memory);
    for sql in [ENDLESS, &format!("COPY ({ENDLESS}) TO STDOUT")] {
        for reads in [false, true] {
            is_left(&serving, &memory, sql, reads);
        }
    }
    asks_without_end(&serving, &memory);
}
