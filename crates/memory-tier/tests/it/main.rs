//! Nodes as they are, driven by a front that the test plays: it holds back the log's acknowledgements, and begins epochs.

mod epochs;
mod limits;
mod stalled_member;
mod writer;

use memory_tier::message::{
    self, Begin, Hello, Order, Part, Purpose, Received, Reply, Report, Request, Run, Ship, State, Version,
};
use memory_tier::node::{Limits, Node, Options, Policy};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything takes.
const LIMIT: Duration = Duration::from_secs(60);
/// The secret of all nodes here.
const SECRET: [u8; 32] = [3; 32];

/// Looks until it is so.
fn eventually(event: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "{event} did not come");
        thread::yield_now();
    }
}

fn connect(address: SocketAddr, purpose: Purpose) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the node listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    message::write(&mut &stream, &Hello { secret: SECRET.to_vec(), purpose }).expect("a hello");
    stream
}

/// A node in threads of this process, and the connection that gives it orders.
struct Member {
    name: String,
    address: SocketAddr,
    control: TcpStream,
}

impl Member {
    fn start(name: &str) -> Member {
        Member::start_with(name, Policy::Keep, Limits::default())
    }

    fn start_with(name: &str, policy: Policy, limits: Limits) -> Member {
        let options = Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            secret: SECRET.to_vec(),
            tls: None,
            max_bytes: 1 << 30,
            policy,
            limits,
        };
        let node = Node::bind(&options).expect("a port");
        let address = node.address().expect("an address");
        thread::spawn(move || node.run());
        Member { name: name.to_owned(), address, control: connect(address, Purpose::Control) }
    }

    fn order(&self, order: &Order) -> Report {
        message::write(&mut &self.control, order).expect("an order");
        message::read(&mut &self.control).expect("an answer")
    }

    fn state(&self, order: &Order) -> State {
        match self.order(order) {
            Report::State(state) => state,
            other => panic!("{order:?}: {other:?}"),
        }
    }

    fn received(&self) -> Version {
        self.state(&Order::Report).received
    }

    fn becomes(&self, epoch: u64, decided: Version, part: Part) -> State {
        let known = self.state(&Order::Report).epoch;
        self.state(&Order::Become { known, epoch, decided, part })
    }

    fn leads(&self, epoch: u64, decided: Version, members: &[&str]) -> State {
        let members = members.iter().map(|name| (*name).to_owned()).collect();
        self.becomes(epoch, decided, Part::Master { members, rows: false })
    }

    fn follows(&self, epoch: u64, decided: Version, master: &Member) -> State {
        let (name, master) = (self.name.clone(), master.address.to_string());
        self.becomes(epoch, decided, Part::Slave { name, master: master.clone(), support: master })
    }

    fn hash(&self, at: Version) -> u64 {
        match self.order(&Order::Hash { at }) {
            Report::Hash(hash) => hash,
            other => panic!("{other:?}"),
        }
    }

    /// A subscription as the query log has it.
    fn log(&self, epoch: u64, has: Version) -> Log {
        let purpose = Purpose::Subscription { name: "log".to_owned(), has: Some(has), epoch };
        let log = Log(connect(self.address, purpose));
        log.acknowledge(has);
        log
    }

    /// Copies all pages at an acknowledged version. Returns the version of the copy.
    fn copy(&self, at_least: Version) -> Version {
        let stream = connect(self.address, Purpose::Pages { newer_than: 0, at_least });
        loop {
            match message::read(&mut &stream).expect("a part") {
                Ship::Pages(_) => {}
                Ship::Whole(version) => return version,
                other => panic!("{other:?}"),
            }
        }
    }

    fn session(&self) -> Session {
        let stream = connect(self.address, Purpose::Session);
        match message::read(&mut &stream).expect("a welcome") {
            Reply::Welcome { session } => Session { stream, number: session },
            other => panic!("{other:?}"),
        }
    }
}

/// The log's subscription, whose acknowledgements the test sends.
struct Log(TcpStream);

impl Log {
    fn acknowledge(&self, version: Version) {
        message::write(&mut &self.0, &Received(version)).expect("an acknowledgement");
    }

    /// The next write set's version.
    fn next(&self) -> Version {
        match message::read(&mut &self.0).expect("a write set") {
            Ship::Set { version, .. } => version,
            other => panic!("{other:?}"),
        }
    }

    fn take(&self, version: Version) {
        assert_eq!(self.next(), version);
        self.acknowledge(version);
    }
}

/// A session at a node.
struct Session {
    stream: TcpStream,
    number: u64,
}

impl Session {
    fn reply(&self) -> Reply {
        message::read(&mut &self.stream).expect("an answer")
    }

    fn ask(&self, request: &Request) {
        message::write(&mut &self.stream, request).expect("a request");
    }

    fn send(&self, at: Version, writes: bool, text: &str) {
        self.ask(&Request::Once(begin(at, writes), run(text)));
    }

    /// A block with one statement, up to its COMMIT.
    fn send_block(&self, at: Version, text: &str) {
        self.ask(&Request::Begin(begin(at, true)));
        assert!(matches!(self.reply(), Reply::Begun { .. }));
        self.ask(&Request::Run(run(text)));
        assert!(matches!(self.reply(), Reply::Done { .. }));
        self.ask(&Request::Commit);
    }

    /// SQLSTATE of the failure of what was sent.
    fn failed(&self) -> String {
        match self.reply() {
            Reply::Failed(failure) => failure.sqlstate,
            Reply::Seen(_) => self.failed(),
            other => panic!("{other:?}"),
        }
    }

    /// The writer is waited for no longer than this.
    fn lock_timeout(&self, ms: u64) {
        let (user, database) = ("postgres".to_owned(), "postgres".to_owned());
        self.ask(&Request::Client { user, database, settings: Vec::new(), lock_timeout_ms: ms });
    }

    /// The version of the statement that was sent, and the number of rows that it returned.
    fn done(&self) -> (Version, u32) {
        let mut rows = 0;
        loop {
            match self.reply() {
                Reply::Rows { count, .. } => rows += count,
                Reply::Done { version, .. } => return (version.expect("a version"), rows),
                Reply::Described { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn describe(&self, at: Version, text: &str) {
        let describe = Request::Describe { at, text: text.to_owned(), types: Vec::new() };
        self.ask(&describe);
        assert!(matches!(self.reply(), Reply::Described { .. }));
    }

    fn rows(&self, at: Version, text: &str) -> u32 {
        self.send(at, false, text);
        self.done().1
    }
}

fn begin(at: Version, writes: bool) -> Begin {
    Begin { at, wait_ms: 60_000, writes, time_us: 946_684_800_000_000, seed: 1 }
}

fn run(text: &str) -> Run {
    Run {
        text: text.to_owned(),
        types: Vec::new(),
        parameters: Vec::new(),
        result_formats: Vec::new(),
        time_us: 946_684_800_000_000,
        describes: false,
        expects: 0,
    }
}
