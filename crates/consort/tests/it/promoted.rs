//! A standby is promoted while reads run there, and gets writes at once, past Consort. No read shows these
//! writes, in any way of running, and only a transaction that has begun there gets an error.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use local_cluster::Node;

use crate::fixture::eventually;
use crate::load::{ANYWHERE, Client, Console, READ_QUIET, THROUGH, Trouble, served, serves, serving};

/// Sessions that read in the same way.
const READERS: usize = 2;

/// Value of the quiet row, at the primary.
const RIGHT: &str = "7";

/// Longer than what is held of an answer.
const READ_LARGE: &str = "SELECT v, repeat('x', 100000) FROM quiet WHERE id = 1";

/// One read of the quiet row, or several in one transaction, each time it is called.
type Read = fn(&mut Client) -> Result<Vec<String>, Trouble>;

const KINDS: [(&str, Read); 4] = [
    ("simple", |client| Ok(vec![client.one(READ_QUIET)?])),
    ("batch", |client| {
        let statement = client.prepare("SELECT v::text FROM quiet WHERE id = 1");
        Ok((0..20).map(|_| client.execute(&statement)).collect())
    }),
    ("large", |client| Ok(vec![client.one(READ_LARGE)?])),
    ("snapshot", |client| {
        client.rows("SET consort.read_only_snapshots = on")?;
        client.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let reads = (0..5).map(|_| client.one(READ_QUIET)).collect::<Result<_, _>>();
        client.rows("ROLLBACK")?;
        match reads {
            Err(lost) if matches!(lost.sqlstate.as_deref(), Some("08006" | "40001")) => Ok(Vec::new()),
            reads => reads,
        }
    }),
];

/// Sessions that read in one way, until [`Readers::end`].
struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    reads: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Shared {
    fn read(&self, client: &mut Client, read: Read) {
        while !self.stopped.load(Ordering::Relaxed) {
            let wrong = match read(client) {
                Ok(values) => values.into_iter().find(|value| value != RIGHT),
                Err(trouble) => Some(trouble.text),
            };
            self.wrong.lock().expect("nobody panics").extend(wrong);
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Readers {
    fn start(url: &str, read: Read) -> Readers {
        let shared = Arc::new(Shared::default());
        let thread = |_| {
            let (shared, mut client) = (shared.clone(), Client::connect(url).expect("a log-in"));
            std::thread::spawn(move || shared.read(&mut client, read))
        };
        Readers { threads: (0..READERS).map(thread).collect(), shared }
    }

    /// Waits until they have read so often from now on.
    fn go_on(&self, reads: u64) {
        let before = self.shared.reads.load(Ordering::Relaxed);
        eventually("reads", || self.shared.reads.load(Ordering::Relaxed) >= before + reads);
    }

    /// Wrong values that they have read.
    fn end(self) -> Vec<String> {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no reader panics"));
        std::mem::take(&mut self.shared.wrong.lock().expect("nobody panics"))
    }
}

/// Promotes a standby, and writes there as soon as it can be done.
fn promote_and_write(standby: &Node) {
    let (host, port) = (standby.socket_folder().display(), standby.port());
    let mut past = Client::connect(&format!("host={host} port={port} user=postgres dbname=postgres"))
        .expect("the standby lets us in");
    past.rows("SELECT pg_promote(false)").expect("it can be promoted");
    eventually("a server of its own", || past.rows("UPDATE quiet SET v = 666").is_ok());
}

/// Reads until one has run at the second standby.
fn reads_there(console: &mut Console, client: &mut Client) {
    eventually("a read there", || {
        assert_eq!(client.one(READ_QUIET).expect("an answer"), RIGHT);
        served(console, "standby2") > 0
    });
}

fn nobody_sees_what_a_promoted_standby_shows(lines: &str) {
    let (serving, mut console, url) = serving(KINDS.len(), lines);
    for ((kind, read), standby) in KINDS.into_iter().zip(serving.servers.cluster().standbys()) {
        let readers = Readers::start(&url, read);
        serves(&mut console, standby.name());
        promote_and_write(standby);
        eventually("a standby that is left", || !console.node(standby.name()).serving);
        let before = served(&mut console, standby.name());
        readers.go_on(20);
        assert_eq!(served(&mut console, standby.name()), before);
        let wrong = readers.end();
        assert!(wrong.is_empty(), "{kind}: {} wrong reads, {:?} ..", wrong.len(), wrong[0]);
    }
}

#[test]
fn what_is_written_at_a_promoted_standby_is_not_seen() {
    nobody_sees_what_a_promoted_standby_shows(THROUGH);
    nobody_sees_what_a_promoted_standby_shows(ANYWHERE);
}

/// The second standby follows the promoted one, and no connection of it ends.
#[test]
fn what_a_standby_takes_from_a_promoted_one_is_not_seen() {
    let (mut serving, mut console, url) = serving(2, THROUGH);
    let servers = serving.servers.clone();
    let (first, second) = (servers.standby(0), servers.standby(1));
    let (host, port) = (first.socket_folder().display(), first.port());
    for sql in [
        &format!("ALTER SYSTEM SET primary_conninfo = 'host={host} port={port} user=postgres'"),
        "ALTER SYSTEM SET primary_slot_name = ''",
        "SELECT pg_reload_conf()",
    ] {
        second.query("postgres", sql).unwrap();
    }
    let replicated = "SELECT FROM pg_stat_replication WHERE state = 'streaming'";
    eventually("a standby of a standby", || !first.query("postgres", replicated).unwrap().is_empty());
    let mut client = Client::connect(&url).unwrap();
    reads_there(&mut console, &mut client);
    promote_and_write(first);
    let shown = || second.query("postgres", READ_QUIET).unwrap()[0][0].clone();
    eventually("what is written there", || shown().as_deref() == Some("666"));
    let why = |console: &mut Console| console.node("standby2").why;
    eventually("a standby that is left", || why(&mut console).contains("timeline 2"));
    let before = served(&mut console, "standby2");
    for _ in 0..20 {
        assert_eq!(client.one(READ_QUIET).unwrap(), RIGHT);
    }
    assert_eq!(served(&mut console, "standby2"), before);
    // Also when it receives nothing any more, and a new Consort connects to it.
    first.kill();
    let received = "SELECT FROM pg_stat_wal_receiver";
    eventually("no receiver", || second.query("postgres", received).unwrap().is_empty());
    serving.signal("TERM");
    assert!(serving.ended().success());
    serving.start_again();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    let mut client = Client::connect(&url).unwrap();
    eventually("a look at it", || {
        assert_eq!(client.one(READ_QUIET).unwrap(), RIGHT);
        why(&mut console).contains("timeline 2")
    });
}

/// Nothing is streamed to it: it takes what the other one has become from an archive.
#[test]
fn what_a_standby_takes_from_an_archive_is_not_seen() {
    let (serving, mut console, url) = serving(2, THROUGH);
    let servers = serving.servers.clone();
    let (first, second) = (servers.standby(0), servers.standby(1));
    let log = first.data_folder().join("pg_wal");
    for sql in [
        &format!("ALTER SYSTEM SET restore_command = 'cp {}/%f %p'", log.display()),
        "ALTER SYSTEM SET primary_conninfo = ''",
        "SELECT pg_reload_conf()",
    ] {
        second.query("postgres", sql).unwrap();
    }
    let received = "SELECT FROM pg_stat_wal_receiver";
    eventually("no receiver", || second.query("postgres", received).unwrap().is_empty());
    let mut client = Client::connect(&url).unwrap();
    reads_there(&mut console, &mut client);
    promote_and_write(first);
    let shown = || second.query("postgres", READ_QUIET).unwrap()[0][0].clone();
    eventually("what is written there", || {
        // The writes are in a segment that the next one shows to be whole.
        let next = "SELECT pg_switch_wal() WHERE NOT pg_is_in_recovery()";
        first.query("postgres", next).unwrap();
        shown().as_deref() == Some("666")
    });
    let why = |console: &mut Console| console.node("standby2").why;
    eventually("a standby that is left", || why(&mut console).contains("timeline 2"));
    for _ in 0..20 {
        assert_eq!(client.one(READ_QUIET).unwrap(), RIGHT);
    }
}
