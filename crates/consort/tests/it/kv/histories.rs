//! List-append histories by the Redis protocol, judged by a checker that knows nothing of the system, while Consort and its
//! store are killed, and the store stands still.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use testkit::RedisServer;
use testkit::redis::{Client, Frame};
use workloads::check::{History, Key, Model, Operation, Outcome, Transaction, Value, check};

use super::design;
use crate::fixture::{eventually, free_port, history_time, serve, temporary};

/// Lists, and clients that append to them.
const LISTS: u32 = 4;
const CLIENTS: usize = 5;
/// Elements of a list, after which the clients turn to new lists.
const FULL: u32 = 60;
/// Commits between two faults.
const COMMITS: usize = 40;

/// State that the clients share.
struct Run {
    port: u16,
    consistency: &'static str,
    since: Instant,
    values: AtomicU32,
    processes: AtomicU32,
    commits: AtomicUsize,
    is_over: AtomicBool,
    log: Mutex<Vec<Transaction>>,
}

impl Run {
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).expect("a short run")
    }

    /// Runs transactions until the run is over. Each connection is a session of its own.
    fn play(&self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        while !self.is_over.load(Ordering::SeqCst) {
            let Ok(mut client) = Client::connect(self.port) else {
                std::thread::yield_now();
                continue;
            };
            let process = self.processes.fetch_add(1, Ordering::SeqCst);
            if client.text(&format!("CONSISTENCY {}", self.consistency)).is_err() {
                continue;
            }
            while !self.is_over.load(Ordering::SeqCst) {
                let transaction = self.transaction(&mut client, process, &mut random);
                let is_lost = transaction.outcome == Outcome::Unknown;
                if transaction.outcome == Outcome::Committed {
                    self.commits.fetch_add(1, Ordering::SeqCst);
                }
                self.log.lock().expect("no client panics").push(transaction);
                if is_lost {
                    break;
                }
            }
        }
    }

    /// One transaction of reads and appends. Its outcome is unknown if the answer to COMMIT says so, or is lost.
    fn transaction(&self, client: &mut Client, process: u32, random: &mut fastrand::Rng) -> Transaction {
        let (began, mut operations) = (self.now(), Vec::new());
        let outcome = match self.attempt(client, &mut operations, random) {
            Ok(answer) if answer == "OK" || answer.starts_with("NOTVISIBLE") => Outcome::Committed,
            Ok(answer) if answer.starts_with("UNKNOWN") => Outcome::Unknown,
            Ok(_) => Outcome::Failed,
            // A connection that breaks: COMMIT may have been on its way.
            Err(_) => Outcome::Unknown,
        };
        Transaction { process, began, ended: self.now(), outcome, operations }
    }

    /// Returns the answer to COMMIT, or the error that went before.
    fn attempt(
        &self,
        client: &mut Client,
        operations: &mut Vec<Operation>,
        random: &mut fastrand::Rng,
    ) -> std::io::Result<String> {
        let begun = client.text("BEGIN")?;
        if begun != "OK" {
            return Ok(begun);
        }
        let first = self.values.load(Ordering::SeqCst) / (FULL * LISTS) * LISTS;
        for _ in 0..random.usize(1..=4) {
            let list = first + random.u32(..LISTS);
            let text = match client.ask(&format!("GET list:{list}"))? {
                Frame::Null => String::new(),
                Frame::Error(error) => return self.rolls_back(client, error),
                frame => testkit::redis::shown(&frame),
            };
            let read = text.split(',').filter(|word| !word.is_empty());
            let read = read.map(|word| Value(word.parse().expect("a number"))).collect();
            operations.push(Operation::Read(Key(list), read));
            if random.bool() {
                let value = self.values.fetch_add(1, Ordering::SeqCst);
                let set = client.text(&format!("SET list:{list} {text},{value}"))?;
                if set != "OK" {
                    return self.rolls_back(client, set);
                }
                operations.push(Operation::Append(Key(list), Value(value)));
            }
        }
        client.text("COMMIT")
    }

    fn rolls_back(&self, client: &mut Client, error: String) -> std::io::Result<String> {
        client.text("ROLLBACK")?;
        Ok(error)
    }

    /// Waits until the clients have committed more.
    fn commits(&self) {
        let before = self.commits.load(Ordering::SeqCst);
        eventually("commits", || self.commits.load(Ordering::SeqCst) >= before + COMMITS);
    }

    /// Waits until each client has ended a transaction.
    fn ends(&self) {
        let ended = || self.log.lock().expect("no client panics").len();
        let before = ended();
        eventually("ended transactions", || ended() >= before + CLIENTS);
    }
}

/// Consort over a Redis server.
struct Serving {
    folder: PathBuf,
    process: Child,
}

impl Serving {
    fn start(file: &Path) -> Child {
        serve(file).spawn().expect("the program runs")
    }

    fn over(server: &RedisServer, port: u16) -> Serving {
        let folder = temporary("kv-histories");
        fs::create_dir_all(&folder).expect("a temporary folder can be made");
        let file = folder.join("consort.toml");
        let text = format!(
            "design = \"{}\"\nlisten = [\"127.0.0.1:{port}\"]\nauth_type = \"trust\"\nledger_dir = \"ledger\"\n\
             [store]\nredis = [\"{}\"]\nrequest_timeout = \"1s\"\nversions_size = \"1MB\"\n",
            design(),
            server.address(),
        );
        fs::write(&file, text).expect("a temporary file can be written");
        Serving { process: Serving::start(&file), folder }
    }

    /// Kills the process, and starts it again over its ledger.
    fn dies(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it has ended");
        self.process = Serving::start(&self.folder.join("consort.toml"));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process ends with the test in any case.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Faults in turn: Consort dies, the store dies, the store stands still.
fn strikes(run: &Run, serving: &mut Serving, server: &mut RedisServer) {
    let until = Instant::now() + history_time(0);
    loop {
        run.commits();
        serving.dies();
        run.commits();
        server.kill();
        server.restart();
        run.commits();
        server.hang();
        run.ends();
        server.resume();
        run.commits();
        if Instant::now() >= until {
            return;
        }
    }
}

fn judged(consistency: &'static str, owed: Model) {
    let (mut server, port) = (RedisServer::start(), free_port());
    let mut serving = Serving::over(&server, port);
    let run = Run {
        port,
        consistency,
        since: Instant::now(),
        values: AtomicU32::new(1),
        processes: AtomicU32::new(0),
        commits: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        log: Mutex::new(Vec::new()),
    };
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let run = &run;
            scope.spawn(move || run.play(client as u64));
        }
        // Clients end, also if a wait fails.
        let struck = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            strikes(&run, &mut serving, &mut server);
        }));
        run.is_over.store(true, Ordering::SeqCst);
        if let Err(failure) = struck {
            std::panic::resume_unwind(failure);
        }
    });
    let transactions = run.log.into_inner().expect("no client panics");
    let unknown = transactions.iter().filter(|each| each.outcome == Outcome::Unknown).count();
    let findings = check(&History { transactions });
    assert!(findings.holds(owed), "{consistency}: {findings}");
    assert!(findings.living >= 4 * COMMITS && unknown > 0, "{unknown} unknown: {findings}");
}

#[test]
fn histories_hold_while_consort_and_its_store_die() {
    judged("session", Model::StrongSessionSnapshotIsolation);
    judged("strong", Model::StrongSnapshotIsolation);
}
