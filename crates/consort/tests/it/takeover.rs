//! Online restart: another process takes over from one that serves, and its clients do not notice.

mod corners;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::NoTls;

use crate::fixture::{LIMIT, Serving, eventually, run, serve, temporary};
use crate::load::{ANYWHERE, Client, Console, Load, READ_QUIET, THROUGH, past, serves, serving};

/// Clients share connections at the primary, and come through a Unix socket too.
fn shared(lines: &str) -> String {
    format!("{lines}\npool_mode = \"transaction\"")
}

fn console(serving: &Serving) -> Console {
    Console::connect(&serving.url("postgres", "consort"))
}

/// Number of this process's clients of the database.
fn clients(serving: &Serving) -> usize {
    let is_one = |row: &&tokio_postgres::SimpleQueryRow| row.get("database") == Some("postgres");
    console(serving).rows("SHOW CLIENTS").iter().filter(is_one).count()
}

/// True if all clients of the database rest.
fn is_idle(serving: &Serving) -> bool {
    let ours = |row: &&tokio_postgres::SimpleQueryRow| row.get("database") == Some("postgres");
    console(serving).rows("SHOW CLIENTS").iter().filter(ours).all(|row| row.get("state") == Some("idle"))
}

/// A session that can be cancelled while it waits.
struct Sleeper {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Sleeper {
    fn connect(url: &str) -> Sleeper {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let connected = runtime.block_on(tokio_postgres::connect(url, NoTls));
        let (client, connection) = connected.expect("it is let in");
        runtime.spawn(connection);
        Sleeper { runtime, client }
    }

    fn asks(&self, sql: &str) {
        self.runtime.block_on(self.client.simple_query(sql)).expect("an answer");
    }

    /// The error of a statement that would run for ever, and is cancelled with the key of its log-in again
    /// and again until then.
    fn is_cancelled(&self) -> Option<String> {
        let token = self.client.cancel_token();
        let cancelled = async {
            let sleeping = self.client.simple_query("SELECT pg_sleep(3600)");
            tokio::pin!(sleeping);
            loop {
                match tokio::time::timeout(Duration::from_millis(50), &mut sleeping).await {
                    Ok(slept) => return slept.expect_err("it is cancelled"),
                    Err(_) => token.cancel_query(NoTls).await.expect("it is taken"),
                }
            }
        };
        let error = self.runtime.block_on(async { tokio::time::timeout(LIMIT, cancelled).await });
        let error = error.expect("it is cancelled in time");
        error.code().map(|code| code.code().to_owned())
    }
}

#[test]
fn idle_clients_go_on_at_the_new_process_as_they_are() {
    let folder = temporary("takeover");
    std::fs::create_dir(&folder).unwrap();
    let lines = format!("{}\nunix_socket_dir = \"{}\"", shared(ANYWHERE), folder.display());
    let (mut serving, _, url) = serving(1, &lines);
    let url = format!("{url}?application_name=till");
    let mut client = Client::connect(&url).unwrap();
    let here = format!("host={} port={} user=postgres dbname=postgres", folder.display(), serving.port);
    let mut local = Client::connect(&here).unwrap();
    let sleeper = Sleeper::connect(&url);
    sleeper.asks("SELECT 1");
    client.rows("SET timezone = 'Asia/Tokyo'; SET app.tenant = 'seven'").unwrap();
    client.rows("SET consort.consistency = 'session'").unwrap();
    client.rows("PREPARE by_sql (bigint) AS SELECT v + $1 FROM quiet WHERE id = 1").unwrap();
    let by_protocol =
        client.prepare("SELECT current_setting('app.tenant') || v::text FROM quiet WHERE id = 1");
    assert_eq!(client.execute(&by_protocol), "seven7");
    local.rows("SET app.tenant = 'eight'").unwrap();
    let servers = serving.servers.clone();
    let standby = servers.standby(0);
    standby.query("postgres", "SELECT pg_wal_replay_pause()").unwrap();
    eventually("a standby that stands still", || {
        let state = standby.query("postgres", "SELECT pg_get_wal_replay_pause_state()").unwrap();
        state[0][0].as_deref() == Some("paused")
    });
    client.rows("UPDATE quiet SET v = 8 WHERE id = 1").unwrap();
    let before_us = console(&serving).rows("SHOW CLIENTS");
    let connected = |rows: &[tokio_postgres::SimpleQueryRow]| {
        let mut times: Vec<_> = rows
            .iter()
            .filter(|row| row.get("application_name") == Some("till"))
            .map(|row| (row.get("port").map(str::to_owned), row.get("connect_time").map(str::to_owned)))
            .collect();
        times.sort();
        times
    };

    serving.is_taken_over().ends();
    assert_eq!(clients(&serving), 3);
    assert_eq!(connected(&console(&serving).rows("SHOW CLIENTS")), connected(&before_us));
    // The standby serves, and has not the write.
    let mut lenient = Client::connect(&url).unwrap();
    lenient.rows("SET consort.consistency = 'weak'").unwrap();
    let mut shown = console(&serving);
    eventually("weak reads at the standby", || {
        let before = shown.node("standby1").served;
        lenient.number(READ_QUIET).unwrap() == 7 && shown.node("standby1").served > before
    });
    for _ in 0..20 {
        assert_eq!(client.number(READ_QUIET).unwrap(), 8, "its own write");
    }
    assert_eq!(client.one("SHOW timezone").unwrap(), "Asia/Tokyo");
    assert_eq!(client.one("SHOW app.tenant").unwrap(), "seven");
    assert_eq!(client.one("SHOW application_name").unwrap(), "till");
    assert_eq!(client.one("SHOW consort.consistency").unwrap(), "session");
    assert_eq!(client.one("EXECUTE by_sql (100)").unwrap(), "108");
    assert_eq!(client.execute(&by_protocol), "seven8");
    assert_eq!(local.one("SHOW app.tenant").unwrap(), "eight");
    assert_eq!(sleeper.is_cancelled().as_deref(), Some("57014"));
    client.rows("RESET app.tenant; RESET timezone").unwrap();
    assert_eq!(client.one("SHOW app.tenant").unwrap(), "");
    // The Unix socket is there, and goes with the process that has it now.
    Client::connect(&here).unwrap();
    standby.query("postgres", "SELECT pg_wal_replay_resume()").unwrap();
    serves_with(&mut client, &serving);
    serving.signal("TERM");
    assert!(serving.ended().success());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir(folder).unwrap();
}

/// The reads of a client leave for the standby.
fn serves_with(client: &mut Client, serving: &Serving) {
    let mut shown = console(serving);
    eventually("its reads at the standby", || {
        let before = shown.node("standby1").served;
        client.number(READ_QUIET).expect("it reads");
        shown.node("standby1").served > before
    });
}

#[test]
fn what_the_database_said_when_a_client_came_is_so_at_the_new_process() {
    let (mut serving, _, url) = serving(0, &shared(ANYWHERE));
    let connect = || Client::connect(&url).unwrap();
    connect().rows("ALTER DATABASE postgres SET app.house = 'blue'").unwrap();
    let (mut one, mut other) = (connect(), connect());
    one.rows("SET app.tenant = 'seven'").unwrap();
    other.rows("UPDATE quiet SET v = 8").unwrap();
    one.rows("ALTER DATABASE postgres SET app.house = 'green'").unwrap();
    serving.is_taken_over().ends();
    assert_eq!(connect().one("SHOW app.house").unwrap(), "green");
    for before in [&mut one, &mut other] {
        assert_eq!(before.one("SHOW app.house").unwrap(), "blue");
    }
}

#[test]
fn whoever_is_in_a_transaction_ends_it_and_comes_behind() {
    let (mut serving, _, url) = serving(1, &shared(ANYWHERE));
    let mut busy = Client::connect(&url).unwrap();
    busy.rows("BEGIN; UPDATE quiet SET v = 8").unwrap();
    let sleeping = Sleeper::connect(&url);
    sleeping.asks("BEGIN");
    let mut before = serving.is_taken_over();
    // The client's statement there is cancelled through the new process.
    assert_eq!(sleeping.is_cancelled().as_deref(), Some("57014"));
    assert!(before.is_there());
    assert_eq!(busy.number(READ_QUIET).unwrap(), 8);
    assert_eq!(Client::connect(&url).unwrap().number(READ_QUIET).unwrap(), 7);
    busy.rows("COMMIT").unwrap();
    sleeping.asks("ROLLBACK");
    before.ends();
    serves_with(&mut busy, &serving);
    assert_eq!(busy.number(READ_QUIET).unwrap(), 8);
    assert_eq!(clients(&serving), 2);
}

#[test]
fn whoever_is_on_the_way_is_waited_for_by_the_process_before() {
    let (mut serving, _, url) = serving(0, &shared(ANYWHERE));
    let mut client = Client::connect(&url).unwrap();
    // More than the socket between the two holds.
    for number in 0..40 {
        client.rows(&format!("PREPARE p{number} AS SELECT '{}'", "x".repeat(50_000))).unwrap();
    }
    client.rows("BEGIN").unwrap();
    let status = format!("/proc/{}/status", serving.pid());
    let looked = || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        waits.and_then(|waits| waits.trim().parse::<u64>().ok())
    };
    let mut before = serving.is_taken_over();
    serving.signal("STOP");
    client.rows("COMMIT").unwrap();
    let first = looked();
    // The successor waits for the client to have arrived, and for nothing else.
    eventually("a process that has looked around for a while", || {
        !before.is_there() || looked() > first.map(|first| first + 20)
    });
    assert!(before.is_there(), "the new one has not read the client yet");
    serving.signal("CONT");
    before.ends();
    assert_eq!(client.one("EXECUTE p7").unwrap().len(), 50_000);
    assert_eq!(clients(&serving), 1);
}

#[test]
fn whoever_is_two_processes_behind_comes_too() {
    let (mut serving, _, url) = serving(0, &shared(ANYWHERE));
    let sleeping = Sleeper::connect(&url);
    sleeping.asks("BEGIN");
    let mut first = serving.is_taken_over();
    let mut second = serving.is_taken_over();
    assert_eq!(sleeping.is_cancelled().as_deref(), Some("57014"));
    assert!(first.is_there() && second.is_there());
    sleeping.asks("ROLLBACK");
    first.ends();
    second.ends();
    sleeping.asks("SELECT 1");
    assert_eq!(clients(&serving), 1);
}

#[test]
fn where_writers_must_pass_the_one_that_leads_the_old_one_is_empty_before_the_new_one_serves() {
    let lines = shared(&format!("{THROUGH}\nshutdown_drain_timeout = \"60s\""));
    let (mut serving, _, url) = serving(1, &lines);
    let mut busy = Client::connect(&url).unwrap();
    let mut idle = Client::connect(&url).unwrap();
    let mut tied = Client::connect(&url).unwrap();
    idle.rows("SET app.tenant = 'seven'").unwrap();
    tied.rows("CREATE TEMPORARY TABLE mine (v int)").unwrap();
    busy.rows("BEGIN; UPDATE quiet SET v = 8").unwrap();
    let committed = Arc::new(AtomicBool::new(false));
    let told = committed.clone();
    let taking = std::thread::scope(|scope| {
        let ends = scope.spawn(move || {
            // The old one serves while it waits for the transaction.
            assert_eq!(idle.one("SHOW app.tenant").unwrap(), "seven");
            assert_eq!(busy.number(READ_QUIET).unwrap(), 8);
            told.store(true, Ordering::SeqCst);
            busy.rows("COMMIT").unwrap();
            (idle, busy)
        });
        let before = serving.is_taken_over();
        assert!(committed.load(Ordering::SeqCst));
        before.ends();
        ends.join().unwrap()
    });
    let (mut idle, mut busy) = taking;
    assert_eq!(idle.number(READ_QUIET).unwrap(), 8);
    assert_eq!(idle.one("SHOW app.tenant").unwrap(), "seven");
    assert_eq!(busy.number(READ_QUIET).unwrap(), 8);
    let gone = tied.rows("SELECT 1").unwrap_err();
    assert_eq!(gone.sqlstate.as_deref(), Some("57P01"), "{gone:?}");
    assert_eq!(console(&serving).writers(), "through-consort", "nobody is taken for a bypass");
    serves_with(&mut idle, &serving);
}

#[test]
fn a_load_goes_on_through_take_overs() {
    for lines in [THROUGH, ANYWHERE] {
        let (mut serving, _, url) = serving(1, &shared(lines));
        let load = Load::start(&url);
        for _ in 0..3 {
            load.goes_on(20, 5);
            serving.is_taken_over().ends();
            load.goes_on(20, 5);
            serves(&mut console(&serving), "standby1");
        }
        load.end();
    }
}

/// A client that sends bytes as it likes.
struct Raw(TcpStream);

impl Raw {
    fn connect(serving: &Serving) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", serving.port)).expect("it is let in");
        stream.set_read_timeout(Some(LIMIT)).expect("a time");
        let body = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        let length = u32::try_from(body.len() + 4).expect("it is short");
        let mut raw = Raw(stream);
        raw.0.write_all(&[&length.to_be_bytes()[..], body].concat()).expect("it is heard");
        assert!(raw.is_answered());
        raw
    }

    /// A query, as bytes.
    fn query(text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len() + 5).expect("it is short");
        [b"Q", &length.to_be_bytes()[..], text.as_bytes(), b"\0"].concat()
    }

    /// Reads an answer to its end. `false`: the connection has ended.
    fn is_answered(&mut self) -> bool {
        loop {
            let mut header = [0; 5];
            if self.0.read_exact(&mut header).is_err() {
                return false;
            }
            let length = u32::from_be_bytes(header[1..].try_into().expect("four bytes")) as usize - 4;
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).expect("the rest of it");
            match header[0] {
                b'E' => panic!("{}", String::from_utf8_lossy(&body)),
                b'Z' => return true,
                _ => {}
            }
        }
    }
}

#[test]
fn what_a_client_has_sent_already_goes_along() {
    for lines in [THROUGH, ANYWHERE] {
        let (mut serving, _, _) = serving(0, &shared(&format!("{lines}\nshutdown_drain_timeout = \"600s\"")));
        let query = Raw::query("SELECT 1");
        let mut half = Raw::connect(&serving);
        half.0.write_all(&[&query[..], &query[..7]].concat()).unwrap();
        assert!(half.is_answered());
        // This one is hardly ever found waiting for its client.
        let mut busy = Raw::connect(&serving);
        let mut sends = busy.0.try_clone().unwrap();
        let (answered, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, is_over) = (answered.clone(), over.clone());
        // Large, so that few of them are on their way.
        let many = Raw::query(&format!("SELECT '{}'", "x".repeat(20_000))).repeat(10);
        let sending = std::thread::spawn(move || {
            let mut sent = 0;
            while !is_over.load(Ordering::SeqCst) {
                sends.write_all(&many).unwrap();
                sent += 10;
            }
            sends.write_all(b"X\0\0\0\x04").unwrap();
            sent
        });
        let reading = std::thread::spawn(move || {
            while busy.is_answered() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        eventually("a client that is busy", || answered.load(Ordering::SeqCst) > 0);
        let before = serving.is_taken_over();
        half.0.write_all(&query[7..]).unwrap();
        assert!(half.is_answered());
        before.ends();
        over.store(true, Ordering::SeqCst);
        let sent = sending.join().unwrap();
        reading.join().unwrap();
        assert_eq!(answered.load(Ordering::SeqCst), sent, "each is answered once");
    }
}

#[test]
fn whoever_has_always_asked_already_comes_between_two_requests() {
    let (mut serving, _, _) = serving(0, &shared(ANYWHERE));
    let primary = serving.servers.primary();
    let past = past(primary);
    let mut holder = Client::connect(&past).unwrap();
    holder.rows("SELECT pg_advisory_lock(1), pg_advisory_lock(2)").unwrap();
    let mut eager = Raw::connect(&serving);
    let requests = [1, 2].map(|lock| Raw::query(&format!("SELECT pg_advisory_xact_lock({lock})")));
    eager.0.write_all(&requests.concat()).unwrap();
    eventually("its first request", || {
        holder.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").unwrap()
            == 1
    });
    let mut before = serving.is_taken_over();
    assert!(before.is_there());
    holder.rows("SELECT pg_advisory_unlock(1)").unwrap();
    assert!(eager.is_answered());
    before.ends();
    holder.rows("SELECT pg_advisory_unlock(2)").unwrap();
    assert!(eager.is_answered());
}

/// Clients that connect, query and leave, one after the other, until this is dropped.
struct Comers {
    stop: Arc<AtomicBool>,
    came: Arc<AtomicUsize>,
    task: Option<std::thread::JoinHandle<Vec<String>>>,
}

impl Comers {
    fn to(url: String) -> Comers {
        let (stop, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (stop.clone(), came.clone());
        let task = std::thread::spawn(move || {
            let mut refused = Vec::new();
            while !stopped.load(Ordering::SeqCst) {
                match Client::connect(&url).and_then(|mut client| client.one("SELECT 1")) {
                    Ok(_) => drop(count.fetch_add(1, Ordering::SeqCst)),
                    Err(trouble) => refused.push(format!("{trouble:?}")),
                }
            }
            refused
        });
        Comers { stop, came, task: Some(task) }
    }

    fn go_on(&self) {
        let before = self.came.load(Ordering::SeqCst);
        eventually("clients that come", || self.came.load(Ordering::SeqCst) > before + 20);
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let refused = self.task.take().expect("it runs").join().expect("it ends");
        assert_eq!(refused, Vec::<String>::new());
    }
}

#[test]
fn nobody_who_comes_meanwhile_is_refused() {
    for lines in [ANYWHERE, THROUGH] {
        let folder = temporary("takeover");
        std::fs::create_dir(&folder).unwrap();
        let lines = format!("{}\nunix_socket_dir = \"{}\"", shared(lines), folder.display());
        let (mut serving, _, url) = serving(0, &lines);
        let here = format!("host={} port={} user=postgres dbname=postgres", folder.display(), serving.port);
        let comers = [url, here].map(Comers::to);
        for _ in 0..3 {
            comers.iter().for_each(Comers::go_on);
            serving.is_taken_over().ends();
            comers.iter().for_each(Comers::go_on);
        }
        comers.into_iter().for_each(Comers::end);
        drop(serving);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn clients_that_keep_a_connection_at_the_primary_stay_where_they_are() {
    let (mut serving, _, url) = serving(1, ANYWHERE);
    let mut client = Client::connect(&url).unwrap();
    client.rows("CREATE TEMPORARY TABLE mine (v int); INSERT INTO mine VALUES (7)").unwrap();
    let mut before = serving.is_taken_over();
    client.rows("UPDATE quiet SET v = 8").unwrap();
    assert_eq!(Client::connect(&url).unwrap().number(READ_QUIET).unwrap(), 8);
    assert_eq!(client.number(READ_QUIET).unwrap(), 8);
    assert_eq!(client.one("SELECT v FROM mine").unwrap(), "7");
    assert!(before.is_there());
    // The new one leads, and the old one never again.
    serves_with(&mut Client::connect(&url).unwrap(), &serving);
    Client::connect(&url).unwrap().rows("UPDATE quiet SET v = 9").unwrap();
    assert_eq!(client.number(READ_QUIET).unwrap(), 9);
    drop(client);
    before.ends();
}

#[test]
fn without_a_process_to_take_over_from_it_says_so() {
    let (mut serving, _, _) = serving(0, ANYWHERE);
    serving.signal("TERM");
    assert!(serving.ended().success());
    for word in ["--takeover", "--reboot", "-R"] {
        let said = serving.run("serve", &[word]).failed(3);
        assert!(said.contains("no process to take over from"), "{said}");
    }
}

#[test]
fn a_new_process_that_is_wrong_or_ends_early_changes_nothing() {
    let (mut serving, _, url) = serving(1, &shared(ANYWHERE));
    let mut client = Client::connect(&url).unwrap();
    client.rows("SET app.tenant = 'seven'").unwrap();
    let mut goes_on = || {
        assert_eq!(client.one("SHOW app.tenant").unwrap(), "seven");
        assert_eq!(Client::connect(&url).unwrap().number(READ_QUIET).unwrap(), 7);
        serves_with(&mut client, &serving);
    };
    let right = std::fs::read_to_string(&serving.config_file).unwrap();
    let with = |text: &str| std::fs::write(&serving.config_file, text).unwrap();
    with("listen = 7");
    let said = serving.run("serve", &["--takeover"]).failed(1);
    assert!(said.contains("listen"), "{said}");
    goes_on();
    with(&format!("auth_file = \"/nowhere\"\n{right}"));
    assert!(!serving.run("serve", &["--takeover"]).status.success());
    goes_on();
    with(&right.replace(&serving.port.to_string(), &crate::fixture::free_port().to_string()));
    let said = serving.run("serve", &["--takeover"]).failed(1);
    assert!(said.contains("listens on none of the configured addresses"), "{said}");
    goes_on();
    // Its primary answers nothing: it never gets ready, and is killed when it has the sockets.
    let socket = run(Command::new("sh").args(["-c", &format!("ls -l /proc/{}/fd", serving.pid())])).worked();
    let nowhere = format!("host = \"127.0.0.1\"\nport = {}", crate::fixture::free_port());
    let primary = right.find("[primary]").expect("there is one");
    let host = primary + right[primary..].find("host").expect("it has one");
    let rest = host + right[host..].find("[[standby]]").expect("there is one");
    with(&format!("{}{nowhere}\n{}", &right[..host], &right[rest..]));
    let mut new = serve(&serving.config_file).arg("--takeover").stdin(Stdio::null()).spawn().unwrap();
    eventually("a process with the same sockets", || {
        let its = run(Command::new("sh").args(["-c", &format!("ls -l /proc/{}/fd", new.id())])).out;
        let inodes = its.lines().filter_map(|line| line.split_once("socket:[")).map(|(_, inode)| inode);
        inodes.into_iter().any(|inode| socket.contains(inode))
    });
    goes_on();
    new.kill().unwrap();
    new.wait().unwrap();
    goes_on();
    with(&right);
    goes_on();
    serving.is_taken_over().ends();
    assert_eq!(client.one("SHOW app.tenant").unwrap(), "seven");
}

/// In which processes hand over, as `session::CARRIED_VERSION` has it.
const VERSION: u32 = 6;

/// A stranger that speaks to the predecessor as a successor does.
struct Stranger(UnixStream);

impl Stranger {
    fn to(serving: &Serving) -> Stranger {
        let file = std::fs::canonicalize(&serving.config_file).expect("it is there");
        let command = "printf %s \"$1\" | sha256sum | cut -d ' ' -f 1; id -u";
        let said = run(Command::new("sh").args(["-c", command, "sh"]).arg(file)).worked();
        let (digest, user) = said.split_once('\n').expect("two lines");
        let place = format!("consort-takeover-{}-{digest}", user.trim());
        let place = SocketAddr::from_abstract_name(place).expect("a name");
        let stream = UnixStream::connect_addr(&place).expect("somebody listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a time");
        Stranger(stream)
    }

    fn says(&mut self, letter: &[u8]) {
        let length = u32::try_from(letter.len()).expect("it is short");
        self.0.write_all(&[&length.to_be_bytes()[..], &[0], letter].concat()).expect("it is heard");
    }

    /// Begins a takeover in this version.
    fn hello(&mut self, version: u32) {
        self.says(&[&[0][..], &version.to_be_bytes()].concat());
    }

    /// The next handover message, or nothing at the end.
    fn hears(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 5];
        self.0.read_exact(&mut header).ok()?;
        let mut letter = vec![0; u32::from_be_bytes(header[..4].try_into().expect("four bytes")) as usize];
        self.0.read_exact(&mut letter).ok()?;
        Some(letter)
    }

    fn hears_until(&mut self, tag: u8) -> usize {
        let letters = std::iter::from_fn(|| self.hears()).take_while(|letter| letter[0] != tag);
        letters.filter(|letter| letter[0] == 6).count()
    }
}

#[test]
fn until_all_is_handed_over_everything_can_be_taken_back() {
    for lines in [ANYWHERE, THROUGH] {
        let (mut serving, _, url) = serving(1, &shared(lines));
        let mut stranger = Stranger::to(&serving);
        stranger.hello(99);
        let refused = stranger.hears().expect("an answer");
        assert_eq!(refused[0], 1, "{refused:?}");
        assert!(String::from_utf8_lossy(&refused).contains("version 99 of the successor"), "{refused:?}");
        let mut paused = console(&serving);
        paused.rows("PAUSE");
        let mut stranger = Stranger::to(&serving);
        stranger.hello(VERSION);
        assert!(String::from_utf8_lossy(&stranger.hears().unwrap()).contains("RESUME"));
        paused.rows("RESUME");

        // Paused when the other one is ready.
        let mut stranger = Stranger::to(&serving);
        stranger.hello(VERSION);
        stranger.hears_until(4);
        paused.rows("PAUSE");
        stranger.says(&[5, 0]);
        let refused = stranger.hears().unwrap();
        assert_eq!(refused[0], 1, "{refused:?}");
        paused.rows("RESUME");

        let mut client = Client::connect(&url).unwrap();
        client.rows("SET app.tenant = 'seven'").unwrap();
        // Behind the answer the session looks at the primary.
        eventually("a client at rest", || is_idle(&serving));
        let mut stranger = Stranger::to(&serving);
        stranger.hello(VERSION);
        stranger.hears_until(4);
        stranger.says(&[5, 0]);
        // The successor has the client, and sends nothing more.
        assert_eq!(stranger.hears_until(7), 1);
        drop(stranger);
        assert_eq!(client.one("SHOW app.tenant").unwrap(), "seven");
        client.rows("UPDATE quiet SET v = 8").unwrap();
        assert_eq!(Client::connect(&url).unwrap().number(READ_QUIET).unwrap(), 8);
        serves_with(&mut client, &serving);
        eventually("it alone", || clients(&serving) == 1);

        serving.is_taken_over().ends();
        assert_eq!(client.one("SHOW app.tenant").unwrap(), "seven");
    }
}

#[test]
fn who_is_ready_and_reads_nothing_gets_nothing() {
    let (serving, _, url) = serving(0, &shared(ANYWHERE));
    let mut client = Client::connect(&url).unwrap();
    for number in 0..20 {
        client.rows(&format!("PREPARE large{number} AS SELECT '{}'", "x".repeat(50_000))).unwrap();
    }
    let mut stranger = Stranger::to(&serving);
    stranger.hello(VERSION);
    stranger.hears_until(4);
    stranger.says(&[5, 0]);
    assert_eq!(client.one("EXECUTE large7").unwrap().len(), 50_000);
    assert_eq!(Client::connect(&url).unwrap().number(READ_QUIET).unwrap(), 7);
}

#[test]
fn a_new_process_that_is_told_to_end_takes_nothing_over() {
    let folder = temporary("takeover");
    std::fs::create_dir(&folder).unwrap();
    let lines =
        format!("{THROUGH}\nshutdown_drain_timeout = \"600s\"\nunix_socket_dir = \"{}\"", folder.display());
    let (serving, _, url) = serving(0, &shared(&lines));
    let mut busy = Client::connect(&url).unwrap();
    busy.rows("BEGIN; UPDATE quiet SET v = 8").unwrap();
    let mut new = serve(&serving.config_file).arg("--takeover").stdin(Stdio::null()).spawn().unwrap();
    let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    let waits = || serving.servers.primary().query("postgres", waits).is_ok_and(|rows| !rows.is_empty());
    eventually("a process that waits for the lead", waits);
    run(Command::new("kill").arg("-TERM").arg(new.id().to_string())).worked();
    eventually("its end", || new.try_wait().unwrap().is_some());
    busy.rows("COMMIT").unwrap();
    assert_eq!(Client::connect(&url).unwrap().number(READ_QUIET).unwrap(), 8);
    let here = format!("host={} port={} user=postgres dbname=postgres", folder.display(), serving.port);
    Client::connect(&here).expect("the socket is there still");
    drop(serving);
    std::fs::remove_dir_all(folder).unwrap();
}

/// The number in this file.
fn number_in(file: &std::path::Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Kills the process of this number when it is dropped.
struct Kills(u32);

impl Drop for Kills {
    fn drop(&mut self) {
        run(Command::new("kill").arg("-KILL").arg(self.0.to_string()));
    }
}

#[test]
fn a_signal_has_the_program_started_again() {
    let (mut serving, _, url) = serving(0, &shared(ANYWHERE));
    serving.signal("TERM");
    assert!(serving.ended().success());
    let pid_file = temporary("pid");
    let supervisor_at = temporary("notify");
    let supervisor = std::os::unix::net::UnixDatagram::bind(&supervisor_at).unwrap();
    supervisor.set_read_timeout(Some(LIMIT)).unwrap();
    let mut old = serve(&serving.config_file)
        .arg("--pid-file")
        .arg(&pid_file)
        .env("NOTIFY_SOCKET", &supervisor_at)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    old.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    let _kills = Kills(old.id());
    let mut client = Client::connect(&url).unwrap();
    client.rows("SET app.tenant = 'seven'").unwrap();
    assert_eq!(number_in(&pid_file), Some(old.id()));
    run(Command::new("kill").arg("-USR2").arg(old.id().to_string())).worked();
    eventually("the number of another process", || {
        number_in(&pid_file).is_some_and(|number| number != old.id())
    });
    let new = number_in(&pid_file).unwrap();
    let _kills = Kills(new);
    eventually("the end of the old one", || old.try_wait().unwrap().is_some_and(|status| status.success()));
    assert_eq!(client.one("SHOW app.tenant").unwrap(), "seven");
    // The supervisor heard which process it is to look after now.
    let mut said = [0; 4096];
    let wanted = format!("MAINPID={new}");
    loop {
        let length = supervisor.recv(&mut said).expect("it is said");
        if String::from_utf8_lossy(&said[..length]).lines().any(|line| line == wanted) {
            break;
        }
    }
    // No other process may hold the file meanwhile.
    let held = serving.run("serve", &["--pid-file", &pid_file.display().to_string()]).failed(1);
    assert!(held.contains("is already running"), "{held}");
    run(Command::new("kill").arg("-TERM").arg(new.to_string())).worked();
    eventually("the end of the new one", || client.one("SELECT 1").is_err());
    std::fs::remove_file(pid_file).unwrap();
    std::fs::remove_file(supervisor_at).unwrap();
}
