//! YCSB's core workloads (Cooper and others, 2010) over keys and values, and a mix with transactions of ten updates.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use consort::failure::Failure;
use fastrand::Rng;
use load_clients::chance::{Zipf, scrambled};

use super::client::Client;

/// Exponent of the popularity of keys, as in YCSB.
const THETA: f64 = 0.99;
/// Most rows of a scan.
const SCAN: usize = 100;

/// Choice of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Each is as likely as every other.
    Uniform,
    /// By Zipf's law, the popular ones scattered.
    Zipfian,
    /// By Zipf's law, the newest first.
    Latest,
}

/// Parts of a load, in thousandths. The rest are transactions of several updates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) keys: Keys,
    /// Bytes of a value.
    pub(super) value: usize,
    /// Updates of a transaction of several.
    pub(super) many: usize,
    pub(super) reads: u32,
    pub(super) updates: u32,
    pub(super) inserts: u32,
    pub(super) scans: u32,
    /// A read and an update of the same key.
    pub(super) modifications: u32,
}

/// The table of a load: rows from 0 on.
#[derive(Debug)]
pub(super) struct Rows {
    /// Rows that every client may read.
    first: u64,
    next: AtomicU64,
}

impl Rows {
    /// A table of so many rows, in which new ones begin at a number of their own.
    pub(super) fn of(first: u64, next: u64) -> Rows {
        Rows { first, next: AtomicU64::new(next) }
    }
}

/// One operation, drawn before its transaction begins: a repetition after a conflict does the same.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Read(Bytes),
    Update(Bytes, Bytes),
    Insert(Bytes, Bytes),
    Scan(Bytes, usize),
    Modify(Bytes, Bytes),
    MultiUpdate(Vec<(Bytes, Bytes)>),
}

impl Operation {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Operation::Read(_) => "read",
            Operation::Update(..) => "update",
            Operation::Insert(..) => "insert",
            Operation::Scan(..) => "scan",
            Operation::Modify(..) => "read, update",
            Operation::MultiUpdate(_) => "updates together",
        }
    }

    /// Does it within the client's transaction.
    pub(super) async fn run(&self, client: &mut dyn Client) -> Result<(), Failure> {
        match self {
            Operation::Read(key) => there(client.get(key.clone()).await?, key),
            Operation::Update(key, value) => client.put(key.clone(), value.clone()).await,
            Operation::Insert(key, value) => client.insert(key.clone(), value.clone()).await,
            Operation::Scan(from, limit) => client.scan(from.clone(), *limit).await.map(drop),
            Operation::Modify(key, value) => {
                there(client.get(key.clone()).await?, key)?;
                client.put(key.clone(), value.clone()).await
            }
            Operation::MultiUpdate(rows) => {
                for (key, value) in rows {
                    client.put(key.clone(), value.clone()).await?;
                }
                Ok(())
            }
        }
    }
}

/// Every drawn row was loaded.
fn there(found: Option<Bytes>, key: &Bytes) -> Result<(), Failure> {
    found.map(drop).ok_or_else(|| Failure::new(format!("row {key:?} is gone")))
}

/// The key of a row.
pub(super) fn key(row: u64) -> Bytes {
    format!("user{row:012}").into()
}

/// A value of so many random bytes.
pub(super) fn value(bytes: usize, random: &mut Rng) -> Bytes {
    let mut value = vec![0; bytes];
    random.fill(&mut value);
    value.into()
}

impl Mix {
    /// Draws an operation.
    pub(super) fn draw(&self, rows: &Rows, random: &mut Rng) -> Operation {
        let Mix { reads, updates, inserts, scans, modifications, .. } = *self;
        let drawn = random.u32(..1_000);
        let bounds = [reads, updates, inserts, scans, modifications];
        let mut bound = 0;
        let kind = bounds.iter().position(|part| {
            bound += part;
            drawn < bound
        });
        match kind {
            Some(0) => Operation::Read(self.row(rows, random)),
            Some(1) => Operation::Update(self.row(rows, random), value(self.value, random)),
            Some(2) => {
                Operation::Insert(key(rows.next.fetch_add(1, Ordering::Relaxed)), value(self.value, random))
            }
            Some(3) => Operation::Scan(self.row(rows, random), random.usize(1..=SCAN)),
            Some(_) => Operation::Modify(self.row(rows, random), value(self.value, random)),
            None => {
                let many = (0..self.many).map(|_| (self.row(rows, random), value(self.value, random)));
                Operation::MultiUpdate(many.collect())
            }
        }
    }

    fn row(&self, rows: &Rows, random: &mut Rng) -> Bytes {
        let zipf = Zipf::new(rows.first, THETA);
        key(match self.keys {
            Keys::Uniform => random.u64(..rows.first),
            Keys::Zipfian => scrambled(zipf.draw(random)) % rows.first,
            Keys::Latest => rows.first - 1 - zipf.draw(random),
        })
    }
}
