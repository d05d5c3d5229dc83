//! Common ground of the tests: one primary with one standby for all of them, a frontend on a thread of its
//! own, and clients that speak raw bytes.

use backend::service::Service;
use cluster::{Cluster, Setup, StandbySetup};
use config::OffloadInTransactions;
use config::pooling::Pools;
use conn::secrets::Secrets;
use conn::socket::Place;
use frontend::{Door, Listen, Listener, Options};
use local_cluster::{Node, wait_until};
use postgres::address::Address;
use postgres::attach::UnreplicableDdl;
use replica_apply::clone::Chosen;
use scheduler::{Kind, Writers};
use session_state::Own;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use testkit::Scratch;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use wire::{Asks, Complaint, Frame, HEADER_BYTES};

/// The servers of all tests.
pub(crate) static SERVERS: LazyLock<Scratch> = LazyLock::new(|| {
    // Each test has a database of its own, and each of these a slot and connections.
    let mut options = Scratch::options();
    options.standbys = 1;
    for limit in ["max_replication_slots", "max_wal_senders", "max_connections"] {
        options.settings.push((limit.to_owned(), "256".to_owned()));
    }
    Scratch::with(options)
});

/// A primary and a standby where no other test makes a database or a role: whatever is known of a statement is doubted with that.
pub(crate) fn apart() -> Scratch {
    let mut options = Scratch::options();
    options.standbys = 1;
    Scratch::with(options)
}

/// The address of a server of the tests.
pub(crate) fn place(node: &Node) -> Place {
    Place::Unix(node.socket_folder().join(format!(".s.PGSQL.{}", node.port())))
}

/// A database of its own for a test, with `items (id, name)` of a hundred rows.
pub(crate) fn database(name: &str) {
    database_at(&SERVERS, name);
}

/// The same at other servers.
pub(crate) fn database_at(servers: &Scratch, name: &str) {
    servers.query(&format!("CREATE DATABASE {name}"));
    servers.query_in(name, "CREATE TABLE items (id int PRIMARY KEY, name text)");
    servers.query_in(name, "INSERT INTO items SELECT n, 'item ' || n FROM generate_series(1, 100) n");
}

/// Runs a future on a runtime like the frontend's.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(LIMIT, future).await.expect("a test ends within its limit")
    })
}

/// Time limit of all waits: shared machines stand still for most of a minute now and then.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until something is so, no longer than [`LIMIT`].
pub(crate) fn until(is_so: impl FnMut() -> bool) {
    assert!(wait_until(LIMIT, is_so), "it did not become so within {LIMIT:?}");
}

/// Makes a cluster's setup, on the cluster's own thread.
type MakeSetup = Box<dyn FnOnce() -> Setup + Send>;

/// A cluster of these servers.
fn setup(servers: &Scratch, writers: Writers, set: impl FnOnce(&mut Setup) + Send + 'static) -> MakeSetup {
    let primary = servers.address("postgres");
    let read_node = |node: &Node, kind, name: &str| StandbySetup {
        name: name.to_owned(),
        kind,
        address: node.address("postgres", "postgres"),
        weight: 1,
        tables: Chosen::default(),
    };
    let cluster = servers.cluster();
    let standbys = cluster.standbys().iter().map(|node| read_node(node, Kind::Standby, "standby"));
    let replicas = cluster.replicas().iter().map(|node| read_node(node, Kind::Fed, "replica"));
    let read_nodes = standbys.chain(replicas).collect();
    Box::new(move || {
        let mut setup = setup_of(primary, read_nodes, writers);
        set(&mut setup);
        setup
    })
}

fn setup_of(primary: Address, standbys: Vec<StandbySetup>, writers: Writers) -> Setup {
    Setup {
        primary,
        standbys,
        writers,
        lease: None,
        design: design::CONSORT,
        proof_timeout: Duration::from_millis(20),
        replica_wait_timeout: Duration::from_secs(60),
        commit_replica_quorum: 0,
        attach: true,
        follows: vec!["*".to_owned()],
        analysis_bytes: 1 << 20,
        bounds: scheduler::Options::default(),
        harmless: Vec::new(),
        pools: Pools::default(),
        standby_connections: 20,
        held_answer_bytes: 64 * 1024,
        fed_buffer_bytes: 1 << 20,
        fed_archive_bytes: 1 << 20,
        unreplicable_ddl: UnreplicableDdl::default(),
        apply_connections: 2,
        statement_rows: 1,
        footprint_grain: history::Grain::Row,
        offload_in_transactions: OffloadInTransactions::default(),
        shadow: None,
    }
}

/// A query that runs on the frontend's thread.
type Question = Box<dyn FnOnce(&Rc<Door>, &Cluster) + Send>;

/// A frontend on a thread of its own; closed when dropped.
pub(crate) struct Open {
    pub(crate) address: SocketAddr,
    questions: UnboundedSender<Question>,
    close: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Open {
    /// A frontend to the primary that lets local clients in.
    pub(crate) fn trusting() -> Open {
        Open::serving(Writers::Anywhere)
    }

    /// A frontend with read offload, with these writers.
    pub(crate) fn serving(writers: Writers) -> Open {
        Open::start(|_| {}, &[], setup(&SERVERS, writers, |_| {}))
    }

    /// A frontend to other servers, with read offload; `set` changes the cluster's initial setup.
    pub(crate) fn before(
        servers: &Scratch,
        writers: Writers,
        set: impl FnOnce(&mut Setup) + Send + 'static,
    ) -> Open {
        Open::start(|_| {}, &[], setup(servers, writers, set))
    }

    /// A frontend with the options of `set`, and with these secrets.
    pub(crate) fn with(set: impl FnOnce(&mut Options) + Send + 'static, secrets: &[(&str, &str)]) -> Open {
        Open::start(set, secrets, setup(&SERVERS, Writers::Anywhere, |_| {}))
    }

    fn start(
        set: impl FnOnce(&mut Options) + Send + 'static,
        secrets: &[(&str, &str)],
        setup: MakeSetup,
    ) -> Open {
        let secrets: Vec<(String, String)> =
            secrets.iter().map(|(r, s)| ((*r).into(), (*s).into())).collect();
        let (say, hear) = mpsc::channel();
        let (close, closed) = tokio::sync::oneshot::channel();
        let (questions, mut asked) = unbounded_channel::<Question>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, async move {
                let mut options = Options::default();
                set(&mut options);
                let secrets = Secrets::gather(secrets.iter().map(|(r, s)| (r.as_str(), s.as_str())));
                let setup = setup();
                let door = Door::new(options, secrets, Some(Place::from(&setup.primary)));
                let cluster = Cluster::start(setup);
                let service = Service::new(cluster.clone(), Box::new(|_, _| Own::default()));
                door.leads_to(service);
                let asks = door.clone();
                tokio::task::spawn_local(async move {
                    while let Some(question) = asked.recv().await {
                        question(&asks, &cluster);
                    }
                });
                let listener = Listener::open(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.unwrap();
                say.send(listener.address().unwrap()).unwrap();
                tokio::select! {
                    () = door.serve(listener) => {}
                    _ = closed => {}
                }
            });
        });
        let address = hear.recv().unwrap();
        Open { address, questions, close: Some(close), thread: Some(thread) }
    }

    /// Runs a closure on the frontend's cluster.
    pub(crate) fn cluster<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Cluster) -> T + Send + 'static,
    ) -> T {
        self.asks(move |_, cluster, say| say.send(question(cluster)).unwrap())
    }

    /// Runs a closure on the frontend.
    pub(crate) fn door<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Rc<Door>) -> T + Send + 'static,
    ) -> T {
        self.asks(move |door, _, say| say.send(question(door)).unwrap())
    }

    /// SUSPEND.
    pub(crate) fn suspend(&self, limit: Duration) -> Result<(), String> {
        self.asks(move |door, _, say| {
            let door = door.clone();
            tokio::task::spawn_local(async move { say.send(door.suspend(limit).await).unwrap() });
        })
    }

    fn asks<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Rc<Door>, &Cluster, mpsc::Sender<T>) + Send + 'static,
    ) -> T {
        let (say, hear) = mpsc::channel();
        self.questions.send(Box::new(move |door, cluster| question(door, cluster, say))).unwrap();
        hear.recv().unwrap()
    }

    /// Reasons why reads ran at the primary, to explain a failed test.
    pub(crate) fn why_at_primary(&self) -> String {
        self.cluster(|cluster| {
            let reasons = cluster.metrics().statements_at_primary.get();
            let databases = cluster.databases();
            let state = |database: &std::rc::Rc<cluster::Database>| {
                let catalog = (database.version(), database.loaded().is_some());
                format!("{}: {:?} {catalog:?}", database.name(), database.not_serving())
            };
            let databases: Vec<String> = databases.iter().map(state).collect();
            let counters = cluster.understanding().counters();
            let gauge = cluster.scheduler().order().newest_gauge().map(|(number, _)| number);
            let copies: Vec<_> = cluster.courses().into_iter().map(|course| course.stage).collect();
            format!("{reasons:?}; {databases:?}; {copies:?}; {counters:?}; newest gauge {gauge:?}")
        })
    }

    /// Number of reads that standbys have answered.
    pub(crate) fn reads_at_standbys(&self) -> u64 {
        self.cluster(|cluster| cluster.metrics().reads_at_standbys.get().values().sum())
    }

    /// A client's command (psql, pgbench, ..) that connects through this frontend.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.address.port().to_string());
        command.env("PGUSER", "postgres").env("PGDATABASE", "postgres").env("PGSSLMODE", "disable");
        command
    }

    /// The output of psql for this script.
    pub(crate) fn psql(&self, database: &str, script: &str) -> String {
        let mut command = self.command("psql");
        command.args(["-XAtq", "-v", "VERBOSITY=verbose", "-d", database]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.close.take());
        self.thread.take().map(JoinHandle::join);
    }
}

/// A message of this tag: one that Consort never sends itself.
pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES - 1 + body.len()).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

/// A client that speaks raw bytes. Every wait is bounded.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
}

impl Raw {
    pub(crate) fn connect(open: &Open) -> Raw {
        let stream = TcpStream::connect(open.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Raw { stream }
    }

    /// Reports of this setting up to ReadyForQuery, and all values of all rows.
    pub(crate) fn told_of(&mut self, setting: &str) -> (Vec<String>, Vec<String>) {
        let (mut told, mut values) = (Vec::new(), Vec::new());
        loop {
            let message = self.message().expect("the session goes on");
            let frame = Frame::new(&message).expect("a message");
            match frame.tag() {
                b'S' => {
                    let (name, value) = wire::parameter_status(&frame).expect("a setting");
                    if name == setting.as_bytes() {
                        told.push(String::from_utf8_lossy(value).into_owned());
                    }
                }
                b'D' => values.extend(wire::row_texts(&frame).expect("a row").into_iter().flatten()),
                b'Z' => return (told, values),
                _ => {}
            }
        }
    }

    /// Logged in, ready.
    pub(crate) fn ready(open: &Open, database: &str) -> Raw {
        Raw::ready_as(open, "postgres", database)
    }

    /// The same at the primary itself, to compare with.
    pub(crate) fn at_primary(database: &str) -> Raw {
        Raw::past(&SERVERS, database)
    }

    /// The same at the primary of these servers, past Consort.
    pub(crate) fn past(servers: &Scratch, database: &str) -> Raw {
        Raw::past_as(servers, "postgres", database)
    }

    /// Connected to the primary of these servers, past Consort.
    pub(crate) fn connect_past(servers: &Scratch) -> Raw {
        let Place::Unix(path) = place(servers.primary()) else { unreachable!("it listens there alone") };
        let stream = TcpStream::from(OwnedFd::from(UnixStream::connect(path).unwrap()));
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Raw { stream }
    }

    /// The same as another role.
    pub(crate) fn past_as(servers: &Scratch, user: &str, database: &str) -> Raw {
        let mut raw = Raw::connect_past(servers);
        raw.ask(|out| out.startup(&[("user", user), ("database", database)]));
        raw.until_ready();
        raw
    }

    /// The same as another role.
    pub(crate) fn ready_as(open: &Open, user: &str, database: &str) -> Raw {
        let mut raw = Raw::connect(open);
        let mut hello = Vec::new();
        hello.startup(&[("user", user), ("database", database)]);
        raw.send(&hello);
        raw.until_ready();
        raw
    }

    /// Logged in, ready, with what cancels the session's statements.
    pub(crate) fn ready_with_key(open: &Open, database: &str) -> (Raw, wire::CancelRequest) {
        Raw::ready_with_key_as(open, "postgres", database)
    }

    /// The same as another role.
    pub(crate) fn ready_with_key_as(open: &Open, user: &str, database: &str) -> (Raw, wire::CancelRequest) {
        let mut raw = Raw::connect(open);
        raw.ask(|out| out.startup(&[("user", user), ("database", database)]));
        let key = loop {
            let message = raw.message().unwrap();
            if message[0] == b'K' {
                let (pid, secret) = wire::key_data(&Frame::new(&message).unwrap()).unwrap();
                break wire::CancelRequest { pid, secret: secret.to_vec() };
            }
        };
        raw.until_ready();
        (raw, key)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Writes and sends.
    pub(crate) fn ask(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        write(&mut bytes);
        self.send(&bytes);
    }

    /// The next message; `None` when the frontend has closed, in the middle of one too.
    pub(crate) fn message(&mut self) -> Option<Vec<u8>> {
        let mut message = vec![0; HEADER_BYTES];
        if let Err(error) = self.stream.read_exact(&mut message) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "nothing came within {LIMIT:?}");
            return None;
        }
        let length = u32::from_be_bytes(message[1..5].try_into().unwrap()) as usize;
        message.resize(length + 1, 0);
        self.stream.read_exact(&mut message[HEADER_BYTES..]).ok()?;
        Some(message)
    }

    /// The tags of all messages up to ReadyForQuery.
    pub(crate) fn until_ready(&mut self) -> String {
        let mut tags = String::new();
        loop {
            let message = self.message().expect("the session goes on");
            tags.push(message[0].into());
            if message[0] == b'Z' {
                return tags;
            }
        }
    }

    /// The transaction status after this query, as ReadyForQuery says.
    pub(crate) fn status_after(&mut self, text: &str) -> char {
        self.ask(|out| out.query(text.as_bytes()));
        loop {
            let message = self.message().expect("the session goes on");
            if message[0] == b'Z' {
                return message[5].into();
            }
        }
    }

    /// The SQLSTATE of the next error, which must be the last message.
    pub(crate) fn last_word(&mut self) -> String {
        self.last_word_if_in_time().expect("a last word")
    }

    /// The same; `None` for a client that reads so late that the frontend has closed before.
    pub(crate) fn last_word_if_in_time(&mut self) -> Option<String> {
        loop {
            let message = self.message()?;
            if message[0] == b'E' {
                let frame = Frame::new(&message).unwrap();
                let complaint = Complaint::read(&frame);
                assert!(complaint.is_fatal());
                assert_eq!(self.message(), None);
                return Some(String::from_utf8(complaint.sqlstate().to_vec()).unwrap());
            }
        }
    }
}
