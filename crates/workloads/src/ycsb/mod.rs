//! `consort bench ycsb`: the Yahoo Cloud Serving Benchmark (Cooper and others, SoCC 2010): one table with a key and ten
//! fields of a hundred bytes; single reads, updates, inserts, scans and read-modify-writes in its core workloads A to F, and
//! in Hihooi's mixes.
//!
//! The choice of rows follows Zipf's law, scrambled over the keys, so that popular rows do not lie side by
//! side; workload D prefers the newest rows instead. Keys are dense numbers: a scan is a range of them, and
//! inserted rows can be counted.

mod keys;
mod report;

pub use report::{Mix, Options, measure, run};

use crate::workload::{Blocks, Check, Ending, Ledger, Loader, Outcome, Touches, Workload, weighted};
use keys::Keys;
use load_clients::chance::{Zipf, letters_and_digits, scrambled};
use load_clients::session::{Session, Trouble};
use load_clients::value::Value;
use load_clients::values;
use report::Weights;
use std::sync::Mutex;

const READ: usize = 0;
const UPDATE: usize = 1;
const INSERT: usize = 2;
const SCAN: usize = 3;

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;

/// Scans have one to so many rows.
const LONGEST_SCAN: i64 = 100;

const SELECT: &str = "SELECT ycsb_key, field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 \
    FROM ycsb_usertable WHERE ycsb_key = $1";
const SELECT_RANGE: &str = "SELECT ycsb_key, field0, field1, field2, field3, field4, field5, field6, field7, field8, \
    field9 FROM ycsb_usertable WHERE ycsb_key >= $1 AND ycsb_key < $2";
const INSERT_ROW: &str = "INSERT INTO ycsb_usertable (ycsb_key, field0, field1, field2, field3, field4, field5, field6, \
    field7, field8, field9) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

/// An update of one field: each is a statement of its own.
const UPDATES: [&str; FIELDS] = [
    "UPDATE ycsb_usertable SET field0 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field1 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field2 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field3 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field4 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field5 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field6 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field7 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field8 = $1 WHERE ycsb_key = $2",
    "UPDATE ycsb_usertable SET field9 = $1 WHERE ycsb_key = $2",
];

/// The tables that it touches.
const TOUCHES: Touches = Touches { reads: "", writes: "ycsb_usertable" };

/// YCSB of a size, in a mix.
struct Ycsb {
    rows: i64,
    mix: Mix,
    weights: Weights,
    theta: f64,
    blocks: Blocks,
    keys: Keys,
    missing: Mutex<Missing>,
}

/// Rows that were there for sure and that a client did not find.
#[derive(Default)]
struct Missing {
    count: u64,
    first: Option<String>,
}

/// State of a client: its random numbers, and Zipf's law for the number of rows at its last look.
struct Client {
    chance: fastrand::Rng,
    zipf: Zipf,
    known: i64,
}

/// An operation.
struct Work {
    kind: usize,
    key: i64,
    length: i64,
    field: usize,
    text: String,
}

impl Workload for Ycsb {
    type Client = Client;
    type Work = Work;

    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn describe(&self) -> String {
        format!("YCSB {}, {} rows, theta {}", self.mix.name(), self.rows, self.theta)
    }

    fn transactions(&self) -> &'static [&'static str] {
        &["read", "update", "insert", "scan", "read-modify-write"]
    }

    fn tables(&self) -> String {
        let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field} text NOT NULL")).collect();
        let fields = fields.join(", ");
        format!(
            "DROP TABLE IF EXISTS ycsb_usertable; CREATE TABLE ycsb_usertable (ycsb_key bigint NOT NULL, {fields})"
        )
    }

    async fn fill(&self, loader: &mut Loader<'_>) -> Result<(), Trouble> {
        let mut chance = fastrand::Rng::with_seed(1);
        loader
            .copy("ycsb_usertable", 0..self.rows, |key, row| {
                row.put(key);
                (0..FIELDS).for_each(|_| {
                    row.put(letters_and_digits(&mut chance, FIELD_BYTES, FIELD_BYTES));
                });
            })
            .await
    }

    fn finish(&self) -> Vec<String> {
        vec![
            "ALTER TABLE ycsb_usertable ADD PRIMARY KEY (ycsb_key)".to_owned(),
            "ANALYZE ycsb_usertable".to_owned(),
        ]
    }

    fn probe(&self) -> String {
        format!("SELECT 1 FROM ycsb_usertable WHERE ycsb_key = {} - 1", self.rows)
    }

    async fn look(&mut self, session: &mut Session) -> Result<(), Trouble> {
        let found = session.ask("SELECT max(ycsb_key), count(*) FROM ycsb_usertable", &[]).await?;
        let row = found.first()?;
        let (Some(newest), Some(count)) = (row.number(0), row.number(1)) else {
            return Err(Trouble::Unexpected("ycsb_usertable is empty".to_owned()));
        };
        // Keys that an earlier run lost are missing; not finding them is no fault.
        self.keys = Keys::new(newest + 1, count);
        Ok(())
    }

    fn client(&self, _: u64, chance: fastrand::Rng) -> Client {
        let known = self.keys.sure();
        Client { chance, zipf: Zipf::new(known.unsigned_abs(), self.theta), known }
    }

    fn plan(&self, client: &mut Client) -> Work {
        let kind = weighted(&self.weights.kinds, &mut client.chance);
        let key = if kind == INSERT { self.keys.next() } else { self.choose(client) };
        let (length, field) = (client.chance.i64(1..=LONGEST_SCAN), client.chance.usize(0..FIELDS));
        let texts = if kind == INSERT { FIELDS } else { 1 };
        let text = letters_and_digits(&mut client.chance, texts * FIELD_BYTES, texts * FIELD_BYTES);
        Work { kind, key, length, field, text }
    }

    fn kind(&self, work: &Work) -> usize {
        work.kind
    }

    async fn run(&self, _: &mut Client, work: &Work, session: &mut Session) -> Result<Ending, Trouble> {
        match work.kind {
            READ => self.read(work, session).await?,
            UPDATE => update(work, session).await?,
            INSERT => insert(work, session).await?,
            SCAN => self.scan(work, session).await?,
            // Read, modify, write.
            _ => {
                self.blocks.begin(session, TOUCHES).await?;
                self.read(work, session).await?;
                update(work, session).await?;
                return self.blocks.commit(session).await;
            }
        }
        Ok(Ending::Committed)
    }

    fn ended(&self, _: &mut Client, work: &Work, outcome: Outcome) {
        if work.kind == INSERT {
            self.keys.ended(work.key, outcome);
        }
    }

    fn checks(&self, ledger: &Ledger) -> Vec<Check> {
        let (least, most) = ledger.bounds(INSERT);
        let before = self.keys.at_first().unsigned_abs();
        let missing = self.missing.lock().expect("no holder of the lock panics");
        vec![
            Check::within(
                "rows",
                "the table has its initial rows and all acknowledged inserts",
                "SELECT count(*) FROM ycsb_usertable",
                (before + least, before + most),
            ),
            Check::query(
                "fields",
                "every field of every row has its hundred bytes",
                "SELECT ycsb_key FROM ycsb_usertable WHERE length(field0 || field1 || field2 || field3 || field4 || \
                 field5 || field6 || field7 || field8 || field9) <> 1000",
            ),
            Check::seen("found", "every existing row was found", missing.count, missing.first.clone()),
        ]
    }
}

impl Ycsb {
    /// A key that is there.
    fn choose(&self, client: &mut Client) -> i64 {
        let there = self.keys.sure();
        // The law changes little with a few rows more.
        if there > client.known + client.known / 100 {
            client.known = there;
            client.zipf = Zipf::new(there.unsigned_abs(), self.theta);
        }
        let rank = client.zipf.draw(&mut client.chance);
        let there = there.unsigned_abs();
        let key = if self.weights.newest { there - 1 - rank.min(there - 1) } else { scrambled(rank) % there };
        i64::try_from(key).expect("one of the keys")
    }

    async fn read(&self, work: &Work, session: &mut Session) -> Result<(), Trouble> {
        let rows = session.ask(SELECT, values![work.key]).await?.rows;
        if rows.is_empty() && self.keys.is_there(work.key) {
            self.miss(|| format!("key {}", work.key));
        }
        Ok(())
    }

    /// A range of keys. Rows that are inserted meanwhile may be in it or not.
    async fn scan(&self, work: &Work, session: &mut Session) -> Result<(), Trouble> {
        let end = work.key + work.length;
        let there = self.keys.count_there(work.key, end);
        let rows = session.ask(SELECT_RANGE, values![work.key, end]).await?.rows;
        if i64::try_from(rows.len()).unwrap_or(i64::MAX) < there {
            let (found, key) = (rows.len(), work.key);
            self.miss(|| format!("{found} of at least {there} rows from key {key} to {end}"));
        }
        Ok(())
    }

    fn miss(&self, tell: impl FnOnce() -> String) {
        let mut missing = self.missing.lock().expect("no holder of the lock panics");
        missing.count += 1;
        missing.first.get_or_insert_with(tell);
    }
}

async fn update(work: &Work, session: &mut Session) -> Result<(), Trouble> {
    session.ask(UPDATES[work.field], values![&work.text, work.key]).await.map(drop)
}

async fn insert(work: &Work, session: &mut Session) -> Result<(), Trouble> {
    let fields =
        (0..FIELDS).map(|field| Value::from(&work.text[field * FIELD_BYTES..(field + 1) * FIELD_BYTES]));
    let row: Vec<Value> = std::iter::once(Value::from(work.key)).chain(fields).collect();
    session.ask(INSERT_ROW, &row).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    fn shares(theta: f64, newest: bool) -> Vec<usize> {
        let workload = Ycsb {
            rows: 1000,
            mix: Mix::C,
            weights: Weights { kinds: [1.0, 0.0, 0.0, 0.0, 0.0], newest },
            theta,
            blocks: Blocks::default(),
            keys: Keys::new(1000, 1000),
            missing: Mutex::default(),
        };
        let mut client = workload.client(0, fastrand::Rng::with_seed(5));
        let mut counts = vec![0; 1000];
        for _ in 0..50_000 {
            counts[usize::try_from(workload.plan(&mut client).key).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn popular_keys_are_spread_or_the_newest() {
        let even = shares(0.0, false);
        assert!(even.iter().filter(|&&count| count == 0).count() < 500, "hashing leaves out some keys");
        let skewed = shares(1.0, false);
        let most = skewed.iter().max().unwrap();
        assert!((5500..9500).contains(most), "the first of 1,000 has 13 of 100: {most}");
        let newest = shares(0.99, true);
        assert!(newest[999] == *newest.iter().max().unwrap() && newest[999] > 5500);
    }
}
