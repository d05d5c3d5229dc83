//! Compares the feeder with PostgreSQL's own logical apply worker, in turns on one machine: both are given the same
//! backlog of committed updates from the same primary, each for a replica of its own, and the time and the CPU until it
//! is applied are taken. Once while the feeder decodes the stream, and once when it has: what one more replica costs, for the
//! stream is decoded once for all of them, and what a replica that was away or paused is given.
//!
//! `cargo run --release -p replica-apply --example apply [ROUNDS [ROWS [ROWS PER BATCH]]]`
//!
//! The CPU of the feeder is that of its thread and of the replica's backend; that of the worker is its own process, which
//! also reads the stream. Sending the stream is the primary's work in both.

#![expect(clippy::unwrap_used, reason = "a measurement that fails says where")]

use history::{Commit, Epoch, Lsn, Shown};
use postgres::address::{Control, Host};
use postgres::attach;
use postgres::decoder::{Decoded, Decoder};
use postgres::snapshot_probe::Gauger;
use replica_apply::apply::{Batch, Feeder, Part, settle};
use std::time::{Duration, Instant};
use testkit::Scratch;

const EPOCH: Epoch = Epoch::new(1);
const TABLE_ROWS: u32 = 200_000;
const TABLES: &str = "CREATE TABLE accounts (id int PRIMARY KEY, branch int, balance int, filler char(84)); \
                      CREATE TABLE marker (id int PRIMARY KEY, n int)";

fn main() {
    let argument = |place: usize, otherwise: u32| {
        std::env::args().nth(place).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (rounds, rows, batch) = (argument(1, 5), argument(2, 100_000), argument(3, 5000));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure(rounds, rows, u64::from(batch)));
}

/// Measurements of one run.
#[derive(Clone, Copy)]
struct Run {
    rows: u32,
    wall: Duration,
    ours_us: u64,
    server_us: u64,
}

impl Run {
    fn rows_per_second(&self) -> f64 {
        f64::from(self.rows) / self.wall.as_secs_f64()
    }

    fn cpu_us_per_row(&self) -> f64 {
        (self.ours_us + self.server_us) as f64 / f64::from(self.rows)
    }
}

/// The part of the feed that its time is taken of.
#[derive(Clone, Copy, PartialEq)]
enum Timed {
    /// Decoding the stream, and applying what has come out meanwhile.
    Both,
    /// Applying what has come out before.
    Apply,
}

async fn measure(rounds: u32, rows: u32, batch: u64) {
    let mut bench = Bench::prepare().await;
    println!(
        "timed,rows/txn,rows,feeder rows/s,worker rows/s,ratio,feeder us/row,of it thread,of it backend,worker us/row,ratio"
    );
    for (timed, name) in [(Timed::Both, "decode and apply"), (Timed::Apply, "apply")] {
        for rows_each in [1, 10] {
            let mut all = Vec::new();
            for round in 0..rounds {
                bench.write(rows, rows_each);
                let (fed, native) = if round % 2 == 0 {
                    let fed = bench.fed(rows, batch, timed).await;
                    (fed, bench.native(rows).await)
                } else {
                    let native = bench.native(rows).await;
                    (bench.fed(rows, batch, timed).await, native)
                };
                bench.compare();
                line(&format!("{name},{rows_each}"), &fed, &native);
                all.push((fed, native));
            }
            let median = |of: &dyn Fn(&(Run, Run)) -> f64| {
                let mut values: Vec<f64> = all.iter().map(of).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let faster = median(&|(fed, native)| fed.rows_per_second() / native.rows_per_second());
            let cheaper = median(&|(fed, native)| fed.cpu_us_per_row() / native.cpu_us_per_row());
            println!(
                "median of {rounds}, {name}, {rows_each} rows per transaction: {faster:.2} times the rows a second, \
                 {cheaper:.2} of the CPU per row"
            );
        }
    }
}

fn line(what: &str, fed: &Run, native: &Run) {
    let per_row = |us: u64| us as f64 / f64::from(fed.rows);
    println!(
        "{what},{},{:.0},{:.0},{:.2},{:.2},{:.2},{:.2},{:.2},{:.2}",
        fed.rows,
        fed.rows_per_second(),
        native.rows_per_second(),
        fed.rows_per_second() / native.rows_per_second(),
        fed.cpu_us_per_row(),
        per_row(fed.ours_us),
        per_row(fed.server_us),
        native.cpu_us_per_row(),
        fed.cpu_us_per_row() / native.cpu_us_per_row(),
    );
}

/// A primary and two replicas.
struct Bench {
    primary: Scratch,
    fed: Scratch,
    native: Scratch,
    slot: String,
    database: history::DatabaseId,
    written: u32,
}

fn server(wal_level: &str) -> Scratch {
    let mut options = Scratch::options();
    options.standbys = 0;
    for (name, value) in [
        ("shared_buffers", "256MB"),
        ("max_wal_size", "8GB"),
        ("checkpoint_timeout", "1h"),
        ("wal_level", wal_level),
    ] {
        options.settings.push((name.to_owned(), value.to_owned()));
    }
    Scratch::with(options)
}

impl Bench {
    async fn prepare() -> Bench {
        let (primary, fed, native) = (server("logical"), server("replica"), server("replica"));
        let filled = format!(
            "{TABLES}; INSERT INTO accounts SELECT n, n % 10, 0, 'x' FROM generate_series(1, {TABLE_ROWS}) n; \
             INSERT INTO marker VALUES (1, 0)"
        );
        for server in [&primary, &fed, &native] {
            server.query(&filled);
            server.query("VACUUM ANALYZE accounts");
        }
        primary.query("CREATE PUBLICATION worker FOR TABLE accounts, marker");
        let address = primary.address("postgres");
        let control = Control::connect(&address).await.unwrap();
        let attached = attach::attach(&control).await.unwrap();
        let mut gauger = Gauger::connect(&address, EPOCH).await.unwrap();
        let gauge = gauger.gauge().await.unwrap();
        let start = Shown::new(gauge.snapshot, gauge.insert_lsn, Lsn::ZERO);
        let there = Control::connect(&fed.address("postgres")).await.unwrap();
        settle(&there, &start).await.unwrap();
        let Host::Socket(folder) = &address.host else { panic!("a local server is reached by its socket") };
        // A slot of its own, made by hand: nothing is copied.
        primary.query("SELECT pg_create_logical_replication_slot('worker', 'pgoutput')");
        native.query(&format!(
            "CREATE SUBSCRIPTION worker CONNECTION 'host={} port={} user=postgres dbname=postgres' \
             PUBLICATION worker WITH (copy_data = false, enabled = false, create_slot = false, connect = false, \
             slot_name = 'worker')",
            folder.display(),
            address.port
        ));
        native.query("ALTER SUBSCRIPTION worker ENABLE");
        native.query("ALTER SUBSCRIPTION worker REFRESH PUBLICATION WITH (copy_data = false)");
        native.query("ALTER SUBSCRIPTION worker DISABLE");
        Bench { primary, fed, native, slot: attached.slot, database: attached.database, written: 0 }
    }

    /// Commits this number of updates of random rows, and a mark after them.
    fn write(&mut self, rows: u32, rows_each: u32) {
        self.written += 1;
        let work = format!(
            "k := 1 + floor(random() * {TABLE_ROWS}); UPDATE accounts SET balance = balance + 1 WHERE id = k;"
        );
        for _ in 0..10 {
            self.primary.query(&format!(
                "DO $$ DECLARE k int; BEGIN FOR i IN 1..{} LOOP FOR j IN 1..{rows_each} LOOP {work} END LOOP; COMMIT; \
                 END LOOP; END $$",
                rows / rows_each / 10
            ));
        }
        self.primary.query(&format!("UPDATE marker SET n = {}", self.written));
    }

    async fn fed(&self, rows: u32, batch: u64, timed: Timed) -> Run {
        let address = self.primary.address("postgres");
        let mut gauger = Gauger::connect(&address, EPOCH).await.unwrap();
        gauger.flush().await.unwrap();
        let gauge = gauger.gauge().await.unwrap();
        let mut feeder = Feeder::open(&self.fed.address("postgres"), EPOCH).await.unwrap();
        let backend = self.newest_backend();
        let mut began = (Instant::now(), own_us(), process_us(backend));
        let mut decoder = loop {
            match Decoder::open(&address, &self.slot, self.database, EPOCH).await {
                Err(postgres::Error::NotReady(_)) => tokio::task::yield_now().await,
                opened => break opened.unwrap(),
            }
        };
        decoder.keep_rows(true);
        let (mut parts, mut last, mut gathered) = (Vec::new(), Lsn::ZERO, 0);
        let mut decoded = Vec::new();
        // Everything is visible already: a batch is what came out by now, cut when it has so many rows.
        let cut = |parts: &mut Vec<Part>, last: Lsn| {
            let to = Shown::new(gauge.snapshot.clone(), last, Lsn::ZERO);
            Batch { parts: std::mem::take(parts), to }
        };
        loop {
            match decoder.next().await.unwrap() {
                Decoded::Commit { commit: commit @ Commit { end, .. }, changes, .. } => {
                    let changes = changes.unwrap();
                    gathered += changes.count();
                    parts.push(Part::new(&commit, changes));
                    last = end;
                    if gathered >= batch {
                        gathered = 0;
                        decoded.push(cut(&mut parts, last));
                    }
                }
                Decoded::Position(position) if position >= gauge.insert_lsn => break,
                Decoded::Position(_) => {}
            }
            if timed == Timed::Both
                && let Some(batch) = decoded.pop()
            {
                feeder.send(batch).await.unwrap();
            }
        }
        if !parts.is_empty() {
            decoded.push(cut(&mut parts, last));
        }
        if timed == Timed::Apply {
            began = (Instant::now(), own_us(), process_us(backend));
        }
        for batch in decoded {
            feeder.send(batch).await.unwrap();
        }
        feeder.finish().await.unwrap();
        let run = Run {
            rows,
            wall: began.0.elapsed(),
            ours_us: own_us() - began.1,
            server_us: process_us(backend) - began.2,
        };
        decoder.confirm(last);
        while self.confirmed() < last {
            // The confirmation is sent while more is requested.
            let _ = tokio::time::timeout(Duration::from_millis(50), decoder.next()).await;
        }
        run
    }

    /// The feeder's, which has just connected.
    fn newest_backend(&self) -> u32 {
        let pid = "SELECT pid FROM pg_stat_activity WHERE application_name = 'consort' AND pid <> pg_backend_pid() \
             ORDER BY backend_start DESC LIMIT 1";
        self.fed.query(pid)[0][0].as_deref().unwrap().parse().unwrap()
    }

    fn confirmed(&self) -> Lsn {
        let sql =
            format!("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{}'", self.slot);
        self.primary.query(&sql)[0][0].as_deref().unwrap().parse().unwrap()
    }

    async fn native(&self, rows: u32) -> Run {
        let reader = Control::connect(&self.native.address("postgres")).await.unwrap();
        let marker = reader.prepare("SELECT n FROM public.marker").await.unwrap();
        let began = Instant::now();
        self.native.query("ALTER SUBSCRIPTION worker ENABLE");
        while reader.query_one(&marker, &[]).await.unwrap().get::<_, i32>(0).cast_unsigned() < self.written {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let wall = began.elapsed();
        let worker = self.native.query("SELECT pid FROM pg_stat_subscription WHERE relid IS NULL");
        let server_us = process_us(worker[0][0].as_deref().unwrap().parse().unwrap());
        self.native.query("ALTER SUBSCRIPTION worker DISABLE");
        while self
            .primary
            .query("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'worker' AND active")
            .len()
            == 1
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Run { rows, wall, ours_us: 0, server_us }
    }

    fn compare(&self) {
        let sum = "SELECT md5(string_agg(a::text, ',' ORDER BY id)) FROM accounts a";
        let sums = [&self.primary, &self.fed, &self.native].map(|server| server.query(sum));
        assert!(sums[0] == sums[1] && sums[0] == sums[2], "the replicas are not what the primary is");
    }
}

fn own_us() -> u64 {
    scheduled_us("/proc/thread-self/schedstat")
}

fn process_us(pid: u32) -> u64 {
    scheduled_us(&format!("/proc/{pid}/schedstat"))
}

fn scheduled_us(path: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1000
}
