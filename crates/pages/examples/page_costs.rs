//! Processor time of readers and of the writer against a plain database in memory:
//! `cargo run --profile dist -p pages --example page_costs`.
//!
//! Each round measures everything once, so that a disturbed minute disturbs both sides. Ratios are medians of rounds.

use std::collections::BTreeMap;
use std::hint::black_box;

use pages::{Options, Policy, Reader, Store, WriteSet, Writer};
use rusqlite::Connection;

const ROUNDS: usize = 5;
const ITEMS: u32 = 10_000;
const ORDER_LINES: u32 = 78_000;
const POINT: &str = "select stock from item where id = ?1";
const JOIN: &str = "select i.id, sum(l.quantity) from line l join item i on i.id = l.item
    where l.id between ?1 and ?1 + 999 group by i.id order by 2 desc limit 50";
const UPDATE: [&str; 1] = ["update item set stock = stock - 1 where id = ?1"];
const ORDER: [&str; 3] = [
    "update item set stock = stock - 1 where id = ?1",
    "insert into line (item, quantity, comment) values (?1, 2, 'from the example')",
    "insert into line (item, quantity, comment) values (?1, 1, 'from the example')",
];

/// Measured microseconds of one round by name.
type Times = BTreeMap<&'static str, f64>;

fn main() {
    let rounds: Vec<Times> = (0..ROUNDS as u64).map(round).collect();
    let median = |of: &dyn Fn(&Times) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    println!("{:44} {:>9} {:>7}", format!("median of {ROUNDS} rounds"), "us CPU", "ratio");
    for (name, control) in [
        ("point select", "plain point select"),
        ("point select, another version each time", "plain point select"),
        ("join of 1,000 lines", "plain join of 1,000 lines"),
        ("commit and encode, 1 statement", "plain commit, 1 statement"),
        ("commit and encode, 3 statements", "plain commit, 3 statements"),
        ("decode and receive, 1 statement", "commit and encode, 1 statement"),
        ("decode and receive, 3 statements", "commit and encode, 3 statements"),
        ("cold point select, 10 diffs", "cold point select, 0 diffs"),
        ("cold point select, 100 diffs", "cold point select, 0 diffs"),
    ] {
        println!("{control:44} {:9.2} {:7.2}", median(&|times| times[control]), 1.0);
        println!(
            "{name:44} {:9.2} {:7.2}",
            median(&|times| times[name]),
            median(&|times| times[name] / times[control])
        );
    }
    for name in ["bytes, 1 statement", "bytes, 3 statements", "pages, 1 statement", "pages, 3 statements"] {
        println!("{name:44} {:9.1}", median(&|times| times[name]));
    }
}

fn round(seed: u64) -> Times {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut times = Times::new();
    let plain = Connection::open_in_memory().expect("memory");
    fill(&plain);
    let [master, slave] =
        [(); 2].map(|()| Store::new(Options { policy: Policy::Keep, max_bytes: usize::MAX }));
    let mut writer = Writer::open(&master).expect("memory");
    writer.begin().expect("a new writer");
    fill(writer.connection());
    publish(&mut writer, &[&master, &slave]);
    let mut reader = Reader::open(&slave).expect("memory");

    let mut both = |name, control, sql, count| {
        let ids: Vec<u32> = (0..count).map(|_| random.u32(1..=ITEMS)).collect();
        let run = |connection: &Connection, id: u32| {
            let mut statement = connection.prepare_cached(sql).expect("a statement");
            black_box(
                statement
                    .query([id])
                    .and_then(|mut rows| rows.next().map(|row| row.is_some()))
                    .expect("rows"),
            );
        };
        for _warm in 0..2 {
            let plain_time = cpu_us(&ids, |id| {
                plain.execute_batch("begin").expect("no transaction");
                run(&plain, *id);
                plain.execute_batch("rollback").expect("a transaction");
            });
            times.insert(control, plain_time);
            let time = cpu_us(&ids, |id| {
                reader.begin(1).expect("version 1");
                run(reader.connection(), *id);
                reader.end();
            });
            times.insert(name, time);
        }
    };
    both("point select", "plain point select", POINT, 40_000);
    both("join of 1,000 lines", "plain join of 1,000 lines", JOIN, 400);
    drop(reader);
    for (statements, names) in [(&UPDATE[..], NAMES[0]), (&ORDER[..], NAMES[1])] {
        commits(&mut times, &mut random, &plain, &mut writer, [&master, &slave], statements, names);
    }
    changing(&mut times, &mut random, &mut writer, [&master, &slave]);
    times
}

/// Names of the measurements of a transaction: plain, commit, receive, bytes, pages.
const NAMES: [[&str; 5]; 2] = [
    [
        "plain commit, 1 statement",
        "commit and encode, 1 statement",
        "decode and receive, 1 statement",
        "bytes, 1 statement",
        "pages, 1 statement",
    ],
    [
        "plain commit, 3 statements",
        "commit and encode, 3 statements",
        "decode and receive, 3 statements",
        "bytes, 3 statements",
        "pages, 3 statements",
    ],
];

/// Commits at the master, with encoding and publishing, and receives at a slave.
fn commits(
    times: &mut Times,
    random: &mut fastrand::Rng,
    plain: &Connection,
    writer: &mut Writer,
    [master, slave]: [&Store; 2],
    statements: &[&str],
    names: [&'static str; 5],
) {
    let ids: Vec<u32> = (0..5000).map(|_| random.u32(1..=ITEMS)).collect();
    for _warm in 0..2 {
        let plain_time = cpu_us(&ids, |id| {
            plain.prepare_cached("begin").and_then(|mut begin| begin.execute([])).expect("no transaction");
            run(plain, statements, *id);
            plain.prepare_cached("commit").and_then(|mut commit| commit.execute([])).expect("a transaction");
        });
        let mut encoded = Vec::new();
        let mut changed = 0;
        let time = cpu_us(&ids, |id| {
            writer.begin().expect("no transaction");
            run(writer.connection(), statements, *id);
            let set = writer.commit().expect("a transaction").expect("a change");
            let mut bytes = Vec::new();
            set.encode(&mut bytes);
            changed += set.pages();
            encoded.push(bytes);
            master.receive(set).expect("the next version");
            master.acknowledge(master.received());
        });
        let bytes: usize = encoded.iter().map(Vec::len).sum();
        let received = cpu_us(&encoded, |bytes| {
            slave.receive(WriteSet::decode(bytes).expect("a write set")).expect("the next version");
        });
        let mean = |sum: usize| sum as f64 / ids.len() as f64;
        times.extend(names.into_iter().zip([plain_time, time, received, mean(bytes), mean(changed)]));
        for store in [master, slave] {
            store.acknowledge(store.received());
            store.examine();
        }
    }
}

/// Point selects at another version each time, and of pages that are not cached and have some diffs to apply.
fn changing(times: &mut Times, random: &mut fastrand::Rng, writer: &mut Writer, stores: [&Store; 2]) {
    let mut reader = Reader::open(stores[1]).expect("memory");
    let mut update = |id: u32| {
        writer.begin().expect("no transaction");
        run(writer.connection(), &UPDATE, id);
        publish(writer, &stores);
    };
    let select = |reader: &Reader, id: u32| {
        let mut point = reader.connection().prepare_cached(POINT).expect("a statement");
        black_box(point.query_row([id], |row| row.get::<_, i64>(0)).expect("a row"));
    };
    let first = stores[1].received() + 1;
    let versions: Vec<u64> = (first..first + 2000).collect();
    versions.iter().for_each(|_| update(random.u32(1..=ITEMS)));
    let time = cpu_us(&versions, |version| {
        reader.begin(*version).expect("a version that was received");
        select(&reader, random.u32(1..=ITEMS));
        reader.end();
    });
    times.insert("point select, another version each time", time);
    // A leaf has fewer rows than this step: each select reads another one.
    let ids: Vec<u32> = (1..=ITEMS).step_by(25).collect();
    for (name, diffs) in [
        ("cold point select, 0 diffs", 0),
        ("cold point select, 10 diffs", 10),
        ("cold point select, 100 diffs", 100),
    ] {
        stores.iter().for_each(|store| store.acknowledge(store.received()));
        stores.iter().for_each(|store| store.examine());
        let mut made = |id: &u32| {
            (0..diffs).for_each(|_| update(*id));
            update(2);
            (*id, stores[1].received())
        };
        let reads: Vec<(u32, u64)> = ids[1..].iter().map(&mut made).collect();
        let time = cpu_us(&reads, |(id, version)| {
            reader.begin(*version).expect("a version that was received");
            select(&reader, *id);
            reader.end();
        });
        times.insert(name, time);
    }
}

fn fill(connection: &Connection) {
    let sql = format!(
        "create table item (id integer primary key, stock integer, title text, description text);
         create table line (id integer primary key, item integer, quantity integer, comment text);
         with recursive n (i) as (select 1 union all select i + 1 from n where i < {ITEMS})
         insert into item select i, 1000, 'title of ' || i, hex(zeroblob(100)) from n;
         with recursive n (i) as (select 1 union all select i + 1 from n where i < {ORDER_LINES})
         insert into line select i, i * 7919 % {ITEMS} + 1, i % 5 + 1, 'a comment of some length' from n;"
    );
    connection.execute_batch(&sql).expect("a new database");
}

fn run(connection: &Connection, statements: &[&str], id: u32) {
    for sql in statements {
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([id]))
            .expect("a statement");
    }
}

fn publish(writer: &mut Writer, stores: &[&Store]) {
    let set = writer.commit().expect("a transaction").expect("a change");
    stores.iter().for_each(|store| store.receive(set.clone()).expect("the next version"));
}

/// Mean processor time of this thread for each input, in microseconds.
fn cpu_us<T>(inputs: &[T], mut action: impl FnMut(&T)) -> f64 {
    let begun = thread_cpu_us();
    inputs.iter().for_each(&mut action);
    (thread_cpu_us() - begun) / inputs.len() as f64
}

fn thread_cpu_us() -> f64 {
    // The scheduler counts when it looks, which is at each yield.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let ns: f64 = stat.split(' ').next().and_then(|field| field.parse().ok()).expect("nanoseconds");
    ns / 1000.0
}
