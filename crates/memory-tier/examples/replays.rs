//! Interactive transactions at a master whose slave receives every commit, and the memory that both take:
//! `cargo run --profile dist -p memory-tier --example replays`.
//!
//! Clients are threads that think after each statement, so that the master's writer runs all statements again at the commit. All
//! nodes and clients share this process and its processors.

use memory_tier::message::{
    self, Begin, Hello, Order, Part, Purpose, Reply, Report, Request, Run, State, Version,
};
use memory_tier::node::{Limits, Node, Options, Policy};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const SECRET: [u8; 32] = [7; 32];
const ITEMS: u64 = 100_000;
const TIME: Duration = Duration::from_secs(10);
const UPDATE: &str = "UPDATE item SET stock = stock - 1 WHERE id = $1";
const INSERT: &str = "INSERT INTO line (item, about) VALUES ($1, 'of the example')";
/// PostgreSQL's year 2000, in microseconds since 1970.
const TIME_US: i64 = 946_684_800_000_000;

fn main() {
    let master = Member::start();
    let slave = Member::start();
    master.becomes(&Part::Master { members: vec!["slave".to_owned()], rows: false });
    let address = master.address.to_string();
    slave.becomes(&Part::Slave { name: "slave".to_owned(), master: address.clone(), support: address });
    let session = Session::open(&master);
    session.once("CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL, about text NOT NULL)");
    session.once("CREATE TABLE line (id serial PRIMARY KEY, item int NOT NULL, about text NOT NULL)");
    for from in (0..ITEMS).step_by(10_000) {
        let to = from + 9_999;
        session.once(&format!(
            "INSERT INTO item SELECT i, 10, repeat('x', 200) FROM generate_series({from}, {to}) i"
        ));
    }
    println!("{:44} {:>8} {:>12} {:>14}", "", "clients", "a second", "refused 40001");
    for (name, inserts) in [("3 updates", 0), ("an update and 2 inserts", 2)] {
        for clients in [1, 16, 64] {
            let (committed, refused) = load(&master, clients, inserts);
            println!("{name:44} {clients:>8} {:>12.0} {refused:>14}", committed as f64 / TIME.as_secs_f64());
        }
    }
    memory(&master, &slave);
}

/// Runs clients for a while: transactions that committed, and that were refused.
fn load(master: &Member, clients: u64, inserts: u64) -> (u64, u64) {
    let (committed, refused, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let think = || thread::sleep(Duration::from_millis(1));
    thread::scope(|scope| {
        for client in 0..clients {
            let session = Session::open(master);
            let (committed, refused, stop) = (&committed, &refused, &stop);
            scope.spawn(move || {
                let mut number = client * 7_919;
                while !stop.load(Ordering::Relaxed) {
                    session.ask(&Request::Begin(begin(true)));
                    assert!(matches!(session.reply(), Reply::Begun { .. }));
                    for statement in 0..3 {
                        number = (number * 6_364_136_223_846_793_005 % 4_294_967_291).wrapping_add(client);
                        let item = number % ITEMS;
                        let text = if statement >= 3 - inserts { INSERT } else { UPDATE };
                        session.run(text, item);
                        think();
                    }
                    session.ask(&Request::Commit);
                    let counter = if session.is_committed() { committed } else { refused };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(TIME);
        stop.store(true, Ordering::Relaxed);
    });
    (committed.into_inner(), refused.into_inner())
}

/// Memory of the nodes, to the size of the database.
fn memory(master: &Member, slave: &Member) {
    // Diffs that the examiner has not applied yet are gone after its next turns.
    thread::sleep(Duration::from_secs(1));
    let pages = master.copied_pages();
    let database = pages * 4096;
    println!("\n{:44} {:>12} {:>8}", "memory", "bytes", "ratio");
    println!("{:44} {database:>12} {:8.2}", format!("the database: {pages} pages"), 1.0);
    let line = |name: &str, bytes: u64| {
        println!("{name:44} {bytes:>12} {:8.2}", bytes as f64 / database as f64);
    };
    line("pages and diffs at the master", master.report().bytes);
    line("pages and diffs at the slave", slave.report().bytes);
    line("the process: two nodes, clients", resident_bytes());
}

/// Memory that the process has.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells it");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

struct Member {
    address: SocketAddr,
    control: TcpStream,
}

impl Member {
    fn start() -> Member {
        let node = Node::bind(&Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            secret: SECRET.to_vec(),
            tls: None,
            max_bytes: 4 << 30,
            policy: Policy::Keep,
            limits: Limits::default(),
        })
        .expect("a port");
        let address = node.address().expect("an address");
        thread::spawn(move || node.run());
        Member { address, control: connect(address, Purpose::Control) }
    }

    fn order(&self, order: &Order) -> Report {
        message::write(&mut &self.control, order).expect("an order");
        message::read(&mut &self.control).expect("an answer")
    }

    fn becomes(&self, part: &Part) {
        let order = Order::Become { known: 0, epoch: 1, decided: 0, part: part.clone() };
        assert!(matches!(self.order(&order), Report::State(_)));
    }

    fn report(&self) -> State {
        match self.order(&Order::Report) {
            Report::State(state) => state,
            other => panic!("{other:?}"),
        }
    }

    /// Number of the database's pages.
    fn copied_pages(&self) -> u64 {
        let at_least = self.report().received;
        let stream = connect(self.address, Purpose::Pages { newer_than: 0, at_least });
        let mut count = 0;
        loop {
            match message::read(&mut &stream).expect("a part") {
                message::Ship::Pages(pages) => count += pages.len() as u64,
                _ => return count,
            }
        }
    }
}

fn connect(address: SocketAddr, purpose: Purpose) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the node listens");
    stream.set_nodelay(true).expect("a socket");
    message::write(&mut &stream, &Hello { secret: SECRET.to_vec(), purpose }).expect("a hello");
    stream
}

/// A client's session at the master.
struct Session(TcpStream);

impl Session {
    fn open(member: &Member) -> Session {
        let session = Session(connect(member.address, Purpose::Session));
        assert!(matches!(session.reply(), Reply::Welcome { .. }));
        session
    }

    fn ask(&self, request: &Request) {
        message::write(&mut &self.0, request).expect("a request");
    }

    fn reply(&self) -> Reply {
        message::read(&mut &self.0).expect("an answer")
    }

    fn run(&self, text: &str, item: u64) {
        let parameters = vec![(0, Some(item.to_string().into_bytes()))];
        self.ask(&Request::Run(Run { parameters, ..statement(text) }));
        self.done();
    }

    /// A transaction of one statement.
    fn once(&self, text: &str) {
        self.ask(&Request::Once(begin(true), statement(text)));
        self.done();
    }

    fn done(&self) {
        loop {
            match self.reply() {
                Reply::Done { .. } => return,
                Reply::Failed(failure) => panic!("{failure:?}"),
                _ => {}
            }
        }
    }

    fn is_committed(&self) -> bool {
        loop {
            match self.reply() {
                Reply::Committed { .. } => return true,
                Reply::Failed(_) => return false,
                _ => {}
            }
        }
    }
}

fn begin(writes: bool) -> Begin {
    Begin { at: Version::MIN, wait_ms: 10_000, writes, time_us: TIME_US, seed: 1 }
}

fn statement(text: &str) -> Run {
    Run {
        text: text.to_owned(),
        types: Vec::new(),
        parameters: Vec::new(),
        result_formats: Vec::new(),
        time_us: TIME_US,
        describes: false,
        expects: 0,
    }
}
