//! Random transactions on the master and on a plain database in memory: rows of each version agree, at the master and at
//! a slave, for the writer and for readers.

use fastrand::Rng;
use pages::{Reader, Store, Version, Writer};
use rusqlite::Connection;

use crate::setup::{dump, receive, same, store};

/// One statement of a random transaction. Some fail, half way in the table or at once.
fn statement(random: &mut Rng) -> String {
    let id = random.u32(0..400);
    let table = random.u8(0..3);
    match random.u8(0..20) {
        0..6 => format!("insert into t{table} values ({id}, {}, '{}')", random.u32(0..50), text(random)),
        6..10 => format!("update t{table} set n = n + 1, v = '{}' where id = {id}", text(random)),
        10..12 => format!("delete from t{table} where id between {id} and {}", id + random.u32(0..60)),
        12 => format!("update t{table} set id = id + 1 where id > {id}"),
        13 => format!(
            "insert or replace into t{table} select id + 1, n, v from t{} where n = 7",
            random.u8(0..3)
        ),
        14 => "savepoint s".into(),
        15 => "rollback to s".into(),
        16 => "release s".into(),
        17 => format!("create index if not exists i{table} on t{table} (n)"),
        18 => format!("drop index if exists i{table}"),
        _ => match random.u8(0..4) {
            0 => format!("drop table t{table}"),
            1 => format!("alter table t{table} add column c{} default 3", random.u8(..)),
            _ => create(table),
        },
    }
}

fn text(random: &mut Rng) -> String {
    let longest = if random.u8(..) < 10 { 9000 } else { 200 };
    (0..random.usize(0..longest)).map(|_| random.alphanumeric()).collect()
}

fn create(table: u8) -> String {
    let end = if table == 2 { "" } else { ", unique (n, v)" };
    format!("create table t{table} (id integer primary key, n integer not null, v text check (v <> ''){end})")
}

/// Runs a statement in both databases: both accept it or both refuse it.
fn both(plain: &Connection, tier: &Connection, sql: &str) {
    let [expected, found] =
        [plain, tier].map(|connection| connection.execute_batch(sql).map_err(|error| error.to_string()));
    assert_eq!(expected, found, "{sql}");
}

struct Cluster {
    random: Rng,
    plain: Connection,
    master: Store,
    slave: Store,
    writer: Writer,
    /// Readers with the content that they must see.
    readers: Vec<(Reader, Vec<String>)>,
    contents: Vec<Vec<String>>,
}

impl Cluster {
    fn transaction(&mut self) {
        let Cluster { random, plain, writer, .. } = self;
        plain.execute_batch("begin").unwrap();
        writer.begin().unwrap();
        for table in 0..3 {
            if self.contents.len() % 40 == 1 {
                both(plain, writer.connection(), &create(table));
            }
        }
        for _ in 0..random.usize(1..6) {
            both(plain, writer.connection(), &statement(random));
        }
        if random.u8(..) < 40 {
            plain.execute_batch("rollback").unwrap();
            writer.rollback();
            return;
        }
        plain.execute_batch("commit").unwrap();
        if let Some(set) = writer.commit().unwrap() {
            assert_eq!(set.version, self.contents.len() as Version);
            receive(&[&self.master, &self.slave], &set);
            self.contents.push(dump(plain).unwrap());
        }
    }

    fn newest(&self) -> Version {
        self.contents.len() as Version - 1
    }

    /// A reader reads what it must see, writes into its own pages, and sees what a plain database would.
    fn check(&mut self) {
        let place = self.random.usize(0..self.readers.len());
        let (reader, expected) = &mut self.readers[place];
        same(&dump(reader.connection()).unwrap(), expected);
        reader
            .connection()
            .execute_batch("savepoint mine; create table mine (v); insert into mine values (1)")
            .unwrap();
        for _ in 0..self.random.usize(0..6) {
            // A failure is of no interest here: the content afterwards is.
            drop(reader.connection().execute_batch(&statement(&mut self.random)));
        }
        if self.random.bool() {
            drop(reader.connection().execute_batch("rollback to mine"));
            same(&dump(reader.connection()).unwrap(), expected);
        } else if self.random.bool() {
            drop(reader.connection().execute_batch("commit"));
        }
        let newest = self.contents.len() as Version - 1;
        let at = self.random.u64(newest.saturating_sub(5)..=newest);
        let at = reader.begin(at).unwrap();
        *expected = self.contents[at as usize].clone();
    }
}

#[test]
fn random_transactions_are_read_alike_everywhere() {
    let mut versions = 0;
    for seed in 0..4 {
        let (master, slave) = (store(), store());
        let writer = Writer::open(&master).unwrap();
        let readers = (0..6).map(|at| Reader::open(if at < 2 { &master } else { &slave }).unwrap());
        let readers = readers.map(|reader| (reader, Vec::new())).collect();
        let plain = Connection::open_in_memory().unwrap();
        let empty = dump(&plain).unwrap();
        let mut cluster = Cluster {
            random: Rng::with_seed(seed),
            plain,
            master,
            slave,
            writer,
            readers,
            contents: vec![empty.clone()],
        };
        for (reader, content) in &mut cluster.readers {
            reader.begin(0).unwrap();
            content.clone_from(&empty);
        }
        for round in 0..1600 {
            cluster.transaction();
            cluster.check();
            if round % 50 == 0 {
                let newest = cluster.newest();
                assert_eq!(cluster.master.hash(newest).unwrap(), cluster.slave.hash(newest).unwrap());
                cluster.slave.examine();
                cluster.master.examine();
            }
        }
        versions += cluster.newest();
    }
    assert!(versions > 2000, "{versions} versions");
}
