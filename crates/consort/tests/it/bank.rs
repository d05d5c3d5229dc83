//! A bank through every design, while a replica is killed and another hangs. No read shows money that is made
//! or lost, and where reads are fresh every client sees its own writes. The same while the primary is killed:
//! no acknowledged transfer is lost, and none is done twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use design::{Design, Reads};
use local_cluster::{Node, wait_until};

use crate::fed::rows;
use crate::fixture::{LIMIT, Serving, eventually};
use crate::load::{self, Client, Console, THROUGH, Trouble, past, served};
use crate::ordered::{serving_as, verified};
use crate::serving::figure;
use crate::waiting::{named, serving};

const BANK: [&str; 4] = [
    "CREATE TABLE account (id int PRIMARY KEY, v bigint NOT NULL)",
    "INSERT INTO account SELECT n, 100 FROM generate_series(1, 40) n",
    "CREATE TABLE mark (id int PRIMARY KEY, n bigint NOT NULL)",
    "INSERT INTO mark VALUES (1, 0), (2, 0)",
];
const ALL: &str = "4000";

/// Many accounts pay, and as many are paid.
fn transfer(round: u64) -> String {
    let (payers, payees) = (round % 4, (round + 1 + round / 4 % 3) % 4);
    format!(
        "UPDATE account SET v = v + CASE WHEN id % 4 = {payers} THEN -1 ELSE 1 END WHERE id % 4 IN ({payers}, {payees})"
    )
}

/// Nothing was done, and the client may try again.
fn may_be_repeated(trouble: &Trouble) -> bool {
    matches!(trouble.sqlstate.as_deref(), Some("40001" | "40P01"))
}

/// Clients that go on until they are to stop.
struct Clients {
    stop: Arc<AtomicBool>,
    transfers: Arc<AtomicU64>,
    sums: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(url: &str, fresh: bool) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let (transfers, sums) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let writers = (1..=2).map(|id| {
            let (url, stop, transfers) = (url.to_owned(), stop.clone(), transfers.clone());
            std::thread::spawn(move || write(&url, id, fresh, &stop, &transfers))
        });
        let readers = (1..=2).map(|_| {
            let (url, stop, sums) = (url.to_owned(), stop.clone(), sums.clone());
            std::thread::spawn(move || read(&url, fresh, &stop, &sums))
        });
        let threads = writers.chain(readers).collect();
        Clients { stop, transfers, sums, threads }
    }

    /// Waits until all of them have done something more.
    fn go_on(&self) {
        let now = || (self.transfers.load(Ordering::Relaxed), self.sums.load(Ordering::Relaxed));
        let before = now();
        eventually("transfers and sums", || {
            assert!(!self.threads.iter().any(JoinHandle::is_finished), "a client has given up");
            now() > (before.0 + 20, before.1) && now().1 > before.1 + 20
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a client"));
    }
}

fn write(url: &str, id: u64, fresh: bool, stop: &AtomicBool, transfers: &AtomicU64) {
    let mut client = Client::connect(url).expect("a log-in");
    let done = |client: &mut Client, sql: &str| match client.rows(sql) {
        Ok(_) => true,
        Err(trouble) if may_be_repeated(&trouble) => false,
        Err(trouble) => panic!("{sql}: {trouble:?}"),
    };
    let mut marks = 0;
    for round in id.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        done(&mut client, &transfer(round));
        marks += i64::from(done(&mut client, &format!("UPDATE mark SET n = n + 1 WHERE id = {id}")));
        match client.rows(&format!("SELECT n FROM mark WHERE id = {id}")) {
            Ok(rows) => {
                let read = rows.first().and_then(|row| row.get(0));
                let read = read.map_or(0, |n| n.parse::<i64>().expect("a number"));
                assert!(read == marks || !fresh && read < marks, "{read} of {marks} marks");
            }
            Err(trouble) => assert!(may_be_repeated(&trouble), "{trouble:?}"),
        }
        transfers.fetch_add(1, Ordering::Relaxed);
    }
}

fn read(url: &str, fresh: bool, stop: &AtomicBool, sums: &AtomicU64) {
    let mut client = Client::connect(url).expect("a log-in");
    while !stop.load(Ordering::Relaxed) {
        match client.rows("SELECT sum(v) FROM account") {
            // One that is killed may come back as it was before there were accounts.
            Ok(rows) if !fresh && rows[0].get(0).is_none() => {}
            Ok(rows) => assert_eq!(rows[0].get(0), Some(ALL)),
            Err(trouble) => assert!(may_be_repeated(&trouble), "{trouble:?}"),
        }
        sums.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until both replicas serve again.
fn all_serve(console: &mut Console) {
    eventually("replicas that serve", || {
        let serve =
            |replica| matches!(console.feed(replica, "postgres").state.as_str(), "serving" | "executing");
        ["replica1", "replica2"].into_iter().all(serve)
    });
}

fn bank(design: &Design) -> (Serving, Console, String) {
    match design.orders_first() {
        true => serving_as(design.name, ""),
        false => serving(design.name, 2, &format!("{THROUGH}\nstatement_rows = 1")),
    }
}

fn all_is_right_through(design: &Design) {
    let (serving, mut console, url) = bank(design);
    let mut client = Client::connect(&url).expect("a log-in");
    BANK.into_iter().for_each(|sql| drop(client.rows(sql).expect("the tables can be made")));
    all_serve(&mut console);
    let clients = Clients::start(&url, design.reads != Reads::AnyAge);
    let mut before = 0;
    eventually("reads at replicas", || {
        before = served(&mut console, "replica1") + served(&mut console, "replica2");
        before > 20
    });
    clients.go_on();
    let (killed, hung) = (serving.servers.replica(0), serving.servers.replica(1));
    killed.kill();
    clients.go_on();
    killed.start().expect("it starts again");
    all_serve(&mut console);
    clients.go_on();
    hung.hang();
    clients.go_on();
    hung.resume();
    all_serve(&mut console);
    clients.go_on();
    eventually("reads at replicas behind the faults", || {
        served(&mut console, "replica1") + served(&mut console, "replica2") > before
    });
    clients.end();
    let sum = serving.servers.primary().query("postgres", "SELECT sum(v) FROM account").expect("a sum");
    assert_eq!(sum[0][0].as_deref(), Some(ALL));
    verified(&serving);
    let travelled = figure(&serving, "consort_commits_as_statements_total");
    let travel = design.effects.are_statements() && !design.orders_first();
    assert!(travelled > 10 || !travel, "{travelled} statements have travelled");
}

#[test]
fn no_money_is_made_or_lost_in_any_design_whatever_happens_to_replicas() {
    for design in &design::PRIMARY_COPY {
        all_is_right_through(design);
    }
}

/// Each transfer's number, and how often it was done.
const MADE: &str = "CREATE TABLE made (number bigint PRIMARY KEY, times int NOT NULL)";

/// Shared state of clients that reconnect when they were cut off.
#[derive(Default)]
struct Ledger {
    stop: AtomicBool,
    /// True while no client begins a transfer.
    rest: AtomicBool,
    next: AtomicU64,
    acknowledged: Mutex<BTreeSet<u64>>,
    /// Sums that each reader has read.
    sums: [AtomicU64; 3],
}

impl Ledger {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Transfers that were acknowledged, and sums.
    fn counts(&self) -> [u64; 4] {
        let transfers = self.acknowledged.lock().expect("nobody panics with it").len() as u64;
        let [one, other, third] = self.sums.each_ref().map(|sums| sums.load(Ordering::Relaxed));
        [transfers, one, other, third]
    }

    /// Runs a transfer from one account to another, all but its COMMIT, and returns its number. The lower
    /// account comes first, which excludes deadlocks.
    fn begin(&self, client: &mut Client) -> Result<u64, Trouble> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (payer, payee) = (number % 40, (number + 1 + number / 40 % 39) % 40);
        let mut changes = [(payer, "v - 1"), (payee, "v + 1")];
        changes.sort_unstable();
        client.rows("BEGIN")?;
        for (account, v) in changes {
            client.rows(&format!("UPDATE account SET v = {v} WHERE id = {}", account + 1))?;
        }
        client.rows(&format!(
            "INSERT INTO made AS m VALUES ({number}, 1) \
             ON CONFLICT (number) DO UPDATE SET times = m.times + 1"
        ))?;
        Ok(number)
    }

    fn transfer(&self, client: &mut Client) -> Result<(), Trouble> {
        wait_until(LIMIT, || !self.rest.load(Ordering::Relaxed) || self.stops());
        let number = self.begin(client)?;
        client.rows("COMMIT")?;
        self.acknowledged.lock().expect("nobody panics with it").insert(number);
        Ok(())
    }

    fn sum(&self, client: &mut Client, reader: usize) -> Result<(), Trouble> {
        assert_eq!(client.one("SELECT sum(v) FROM account")?, ALL);
        self.sums[reader].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Repeats a transfer until the stop. A client that is cut off, or rolled back, comes again in another
    /// session.
    fn live(&self, url: &str, once: impl Fn(&mut Client) -> Result<(), Trouble>) {
        let is_expected =
            |trouble: &Trouble| assert!(trouble.says_away() || may_be_repeated(trouble), "{trouble:?}");
        while !self.stops() {
            let mut client = None;
            wait_until(LIMIT, || {
                client = Client::connect(url).inspect_err(is_expected).ok();
                client.is_some() || self.stops()
            });
            let Some(mut client) = client else { continue };
            let mut goes_on = true;
            while goes_on && !self.stops() {
                goes_on = once(&mut client).inspect_err(is_expected).is_ok();
            }
        }
    }
}

/// Two who transfer, and three who read sums: at the level `strong`, at the primary, and past Consort at the other server.
struct Comers {
    ledger: Arc<Ledger>,
    threads: Vec<JoinHandle<()>>,
}

impl Comers {
    fn start(url: &str, past: String) -> Comers {
        let ledger = Arc::new(Ledger::default());
        let writers = (0..2).map(|_| {
            let (ledger, url) = (ledger.clone(), url.to_owned());
            std::thread::spawn(move || ledger.live(&url, |client| ledger.transfer(client)))
        });
        let at_the_primary = format!("{url}?options=-c%20consort.consistency%3Dprimary");
        let readers = [url.to_owned(), at_the_primary, past].into_iter().enumerate().map(|(reader, url)| {
            let ledger = ledger.clone();
            std::thread::spawn(move || ledger.live(&url, |client| ledger.sum(client, reader)))
        });
        let threads = writers.chain(readers).collect();
        Comers { ledger, threads }
    }

    /// Waits until there are more transfers, and more sums of each who reads.
    fn go_on(&self) {
        let before = self.ledger.counts();
        eventually("transfers and sums", || {
            assert!(!self.threads.iter().any(JoinHandle::is_finished), "a client has given up");
            self.ledger.counts().into_iter().zip(before).all(|(now, before)| now >= before + 20)
        });
    }

    /// Kills the primary under a transfer that waits for its COMMIT, and under whatever the others do, and starts it again. The
    /// number of that transfer.
    fn cut_off(&self, url: &str, primary: &Node) -> u64 {
        let mut client = Client::connect(url).expect("a log-in");
        let number = self.ledger.begin(&mut client).expect("a transfer begins");
        primary.kill();
        let trouble = client.rows("COMMIT").expect_err("the primary is dead");
        assert!(trouble.says_away(), "{trouble:?}");
        primary.start().expect("it starts again");
        number
    }

    /// Stops all transfers until sums are read at a server once more.
    fn rest(&self, console: &mut Console, reader: &str) {
        self.ledger.rest.store(true, Ordering::Relaxed);
        load::serves(console, reader);
        self.ledger.rest.store(false, Ordering::Relaxed);
    }

    /// The numbers of the transfers that were acknowledged.
    fn end(mut self) -> BTreeSet<u64> {
        self.stop();
        std::mem::take(&mut *self.ledger.acknowledged.lock().expect("nobody panics with it"))
    }

    fn stop(&mut self) {
        self.ledger.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a client's thread panicked");
        }
    }
}

impl Drop for Comers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Over a primary and one server more that is read.
fn no_transfer_is_lost_through((serving, mut console, url): (Serving, Console, String)) {
    let [primary, reader] = serving.servers.cluster().nodes() else { panic!("a primary and a reader") };
    let mut client = Client::connect(&url).expect("a log-in");
    BANK.into_iter().chain([MADE]).for_each(|sql| drop(client.rows(sql).expect("the tables can be made")));
    let is_there = || reader.query("postgres", "SELECT sum(v) FROM account WHERE v = 100");
    eventually("accounts at the reader", || is_there().is_ok_and(|sum| sum[0][0].as_deref() == Some(ALL)));
    let clients = Comers::start(&url, past(reader));
    let mut cut_off = BTreeSet::new();
    for _ in 0..3 {
        clients.go_on();
        cut_off.insert(clients.cut_off(&url, primary));
        clients.go_on();
        clients.rest(&mut console, reader.name());
    }
    let acknowledged = clients.end();
    let sum = primary.query("postgres", "SELECT sum(v) FROM account").expect("a sum");
    assert_eq!(sum[0][0].as_deref(), Some(ALL));
    let repeated = primary.query("postgres", "SELECT number, times FROM made WHERE times <> 1");
    assert_eq!(repeated.expect("the primary answers"), Vec::<Vec<Option<String>>>::new());
    let made = primary.query("postgres", "SELECT number FROM made").expect("the primary answers");
    let number = |row: &Vec<Option<String>>| row[0].as_deref().and_then(|number| number.parse::<u64>().ok());
    let made: BTreeSet<u64> = made.iter().filter_map(number).collect();
    let lost: Vec<&u64> = acknowledged.difference(&made).collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged");
    assert!(made.is_disjoint(&cut_off), "{cut_off:?} were never to be committed");
    let held = |node: &Node| ["account", "made"].map(|table| rows(node, "postgres", table));
    eventually("equal rows", || held(reader) == held(primary));
    if !serving.servers.cluster().replicas().is_empty() {
        verified(&serving);
    }
}

#[test]
fn no_transfer_is_lost_or_done_twice_while_the_primary_is_killed() {
    no_transfer_is_lost_through(load::serving(1, THROUGH));
    let travel = named(|design| design.is_fed() && design.effects.are_statements());
    no_transfer_is_lost_through(serving(travel, 1, &format!("{THROUGH}\nstatement_rows = 1")));
}
