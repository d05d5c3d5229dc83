//! A bank through every design, while a replica is killed and another hangs: in nothing that anybody reads is money made or
//! lost, and where reads are fresh nobody misses what he has written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use design::{Design, Reads};

use crate::fixture::{Serving, eventually};
use crate::load::{Client, Console, THROUGH, Trouble, served};
use crate::ordered::{serving_as, verified};
use crate::serving::figure;
use crate::waiting::serving;

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
    for design in &design::ALL {
        all_is_right_through(design);
    }
}
