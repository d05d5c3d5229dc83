//! The demo's workload, by the name of "bank and catalogue": many readers, some writers. Transfers between
//! accounts in blocks, visits of one account in single statements, the writers reading their own writes.
//! Readers of accounts that others write, of one hot account that all clients touch, of the sum over all
//! accounts (which never changes), and of a catalogue without writers.
//!
//! Every account counts its writes, so stale reads and reads that go backwards show themselves (see `knowledge`). Transfers may
//! leave their numbers, so that what is lost or done twice shows itself when servers fail (see `numbers`).

mod clients;
mod numbers;
mod report;

pub use numbers::Transfers;
pub use report::{Options, Report, demo, side_by_side};

use crate::knowledge::Knowledge;
use crate::session::{Cell, Protocol, Rows, Session, Trouble};
use crate::stop::Stop;
use crate::tally::Tally;
use numbers::Numbers;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table of the accounts.
pub const ACCOUNTS: &str = "consort_bench_account";

/// The table of the catalogue.
pub const CATALOGUE: &str = "consort_bench_catalogue";

/// The table of the numbers that transfers leave.
pub const TRANSFERS: &str = "consort_bench_transfer";

/// Number of accounts; number 0 is the hot one.
const ACCOUNT_ROWS: i64 = 100;

/// Number of articles in the catalogue.
const CATALOGUE_ROWS: i64 = 1000;

/// Initial balance of every account.
const FIRST_BALANCE: i64 = 1000;

/// Shared state of all clients of a run.
struct Run {
    url: String,
    protocol: Protocol,
    stop: Stop,
    accounts: Vec<Knowledge>,
    /// If transfers have some.
    numbers: Option<Numbers>,
    own: Mutex<Tally>,
    other: Mutex<Tally>,
    catalogue: Mutex<Tally>,
    sums: Mutex<Tally>,
    writes: Mutex<Tally>,
    wrong_sums: AtomicU64,
    account_scans: AtomicU64,
    account_writes: AtomicU64,
    catalogue_scans: AtomicU64,
}

impl Run {
    fn new(options: &Options, stop: Stop) -> Run {
        Run {
            url: options.url.clone(),
            protocol: options.protocol,
            stop,
            accounts: (0..ACCOUNT_ROWS).map(|_| Knowledge::default()).collect(),
            numbers: options.numbered.then(Numbers::default),
            own: Mutex::default(),
            other: Mutex::default(),
            catalogue: Mutex::default(),
            sums: Mutex::default(),
            writes: Mutex::default(),
            wrong_sums: AtomicU64::new(0),
            account_scans: AtomicU64::new(0),
            account_writes: AtomicU64::new(0),
            catalogue_scans: AtomicU64::new(0),
        }
    }

    fn account(&self, id: i64) -> &Knowledge {
        &self.accounts[usize::try_from(id).expect("accounts count from 0")]
    }
}

/// The numbers of the answer's first row.
fn first_row(rows: &Rows) -> Result<Vec<i64>, Trouble> {
    rows.first().map_or_else(|| Err(Trouble::Unexpected("no row".to_owned())), |row| numbers_of(row))
}

/// The numbers of a row.
fn numbers_of(row: &[Cell]) -> Result<Vec<i64>, Trouble> {
    let numbers: Option<Vec<i64>> = row.iter().map(Cell::number).collect();
    numbers.ok_or_else(|| Trouble::Unexpected(format!("row {row:?}")))
}

/// Notes what came of a statement.
fn note(tally: &Mutex<Tally>, what: impl FnOnce(&mut Tally)) {
    what(&mut tally.lock().expect("no holder of the lock panics"));
}

async fn open(run: &Run) -> Option<Session> {
    match Session::open(&run.url, run.protocol).await {
        Ok(session) => Some(session),
        Err(trouble) => {
            note(&run.other, |tally| tally.failed(&trouble));
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            None
        }
    }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
