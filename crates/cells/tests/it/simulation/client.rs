//! Clients: transfers, audits, appends to lists, inserts and deletes.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cells::{Begin, Consistency, Database, Error, Transaction};
use stores::{Direction, KeyRange};
use tokio::time::{Instant, sleep};

use super::World;
use super::history::{End, Observed};

/// Accounts, and the sum of their balances.
pub(crate) const ACCOUNTS: u64 = 4;
pub(crate) const TOTAL: i64 = 0;
const LISTS: u64 = 3;
const ROWS: u64 = 5;

fn account(number: u64) -> Bytes {
    format!("a/{number}").into()
}

fn list(number: u64) -> Bytes {
    format!("l/{number}").into()
}

fn row(number: u64) -> Bytes {
    format!("r/{number}").into()
}

/// A balance; an absent account has none. A value is the balance and a number that makes it unique.
pub(crate) fn balance(value: Option<&Bytes>) -> i64 {
    let text = value.map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The client's process has been killed.
struct Killed;

/// A transaction and what is noted of it.
struct Running<'a> {
    world: &'a World,
    transaction: Transaction,
    observed: Observed,
    life: u64,
}

/// Runs transactions until the end.
pub(crate) async fn behave(world: Rc<World>, number: u64, end: Instant) {
    let mut last = 0;
    while Instant::now() < end {
        let think = world.between(0, world.mix.think_ms);
        sleep(Duration::from_millis(think)).await;
        let database = world.database.borrow().clone();
        let Some(database) = database else {
            sleep(Duration::from_millis(1)).await;
            continue;
        };
        world.history.borrow_mut().enters();
        let life = world.life.get();
        let done = until_killed(&world, life, transact(&world, &database, number, last)).await;
        drop(database);
        world.history.borrow_mut().leaves();
        if let Ok(Some(timestamp)) = done {
            last = last.max(timestamp);
        }
    }
}

/// Waits for a future, unless the process is killed before. The future is dropped then.
async fn until_killed<T>(world: &World, life: u64, future: impl Future<Output = T>) -> Result<T, Killed> {
    let mut future = pin!(future);
    loop {
        match tokio::time::timeout(Duration::from_millis(1), &mut future).await {
            Ok(done) => return Ok(done),
            Err(_) if world.life.get() != life => return Err(Killed),
            Err(_) => {}
        }
    }
}

/// One transaction. Returns its commit timestamp.
async fn transact(world: &World, database: &Database, number: u64, last: u64) -> Option<u64> {
    let consistency = match world.between(0, 2) {
        0 => Consistency::Snapshot,
        1 => Consistency::Session(last),
        _ => Consistency::Strong,
    };
    let begun = world.history.borrow_mut().event();
    let read_only = world.random.borrow_mut().chance(250);
    let transaction = database.begin(Begin { read_only, consistency }).await.ok()?;
    if matches!(consistency, Consistency::Session(_)) && transaction.start() < last {
        world
            .history
            .borrow_mut()
            .breach(format!("start {} is below the session's {last}", transaction.start()));
    }
    let observed = Observed {
        begun,
        ended: 0,
        start: transaction.start(),
        reads: Vec::new(),
        writes: Vec::new(),
        watched: Vec::new(),
        end: End::Open,
    };
    let mut running = Running { world, transaction, observed, life: world.life.get() };
    let kind = if read_only { 9 } else { world.between(0, 8) };
    let worked = match kind {
        0..3 => running.transfers().await,
        3..5 => running.appends().await,
        5..7 => running.writes_rows().await,
        7 => running.writes_blindly(number).await,
        8 => running.watches(database).await,
        _ => running.audits().await,
    };
    match worked {
        Ok(()) => running.commits().await,
        Err(error) => {
            running.refused(error);
            None
        }
    }
}

impl Running<'_> {
    async fn pauses(&self) {
        let pause = self.world.between(0, self.world.mix.think_ms);
        sleep(Duration::from_millis(pause)).await;
    }

    async fn reads(&mut self, key: &Bytes) -> Result<Option<Bytes>, Error> {
        self.pauses().await;
        let value = self.transaction.get(key).await?;
        match self.observed.writes.iter().find(|(written, _)| written == key) {
            Some((_, own)) if *own != value => {
                self.world.history.borrow_mut().breach(format!("the own write of {key:?} is not read"));
            }
            Some(_) => {}
            None => self.observed.reads.push((key.clone(), value.clone())),
        }
        Ok(value)
    }

    fn writes(&mut self, key: Bytes, text: Option<String>) -> Result<(), Error> {
        let value = text.map(|text| {
            let unique = self.world.history.borrow_mut().unique();
            Bytes::from(format!("{text} #{unique}"))
        });
        match value.clone() {
            Some(value) => self.transaction.put(key.clone(), value)?,
            None => self.transaction.delete(key.clone())?,
        }
        self.observed.writes.retain(|(written, _)| *written != key);
        self.observed.writes.push((key, value));
        Ok(())
    }

    async fn transfers(&mut self) -> Result<(), Error> {
        let from = self.world.between(0, ACCOUNTS - 1);
        let to = (from + self.world.between(1, ACCOUNTS - 1)) % ACCOUNTS;
        let amount = i64::try_from(self.world.between(1, 9)).expect("a small amount");
        let (from, to) = (account(from), account(to));
        let left = balance(self.reads(&from).await?.as_ref()) - amount;
        let right = balance(self.reads(&to).await?.as_ref()) + amount;
        self.writes(from, Some(left.to_string()))?;
        self.pauses().await;
        self.writes(to, Some(right.to_string()))
    }

    async fn appends(&mut self) -> Result<(), Error> {
        let key = list(self.world.between(0, LISTS - 1));
        let before = self.reads(&key).await?;
        let before = before.map(|value| String::from_utf8_lossy(&value).into_owned()).unwrap_or_default();
        self.writes(key.clone(), Some(before))?;
        self.reads(&key).await.map(drop)
    }

    /// Puts and deletes rows, some of them several times.
    async fn writes_rows(&mut self) -> Result<(), Error> {
        for _ in 0..self.world.between(1, 3) {
            let key = row(self.world.between(0, ROWS - 1));
            let is_delete = self.world.random.borrow_mut().chance(500);
            self.writes(key.clone(), (!is_delete).then(String::new))?;
            self.reads(&key).await?;
        }
        Ok(())
    }

    async fn writes_blindly(&mut self, number: u64) -> Result<(), Error> {
        self.pauses().await;
        self.writes(row(number % ROWS), None)?;
        self.writes(row(number % ROWS), Some("blind".to_owned()))
    }

    /// Requires a row unchanged since a moment before the transaction, as WATCH does.
    async fn watches(&mut self, database: &Database) -> Result<(), Error> {
        let since = self.observed.start;
        let watched = row(self.world.between(0, ROWS - 1));
        self.pauses().await;
        database.changed_since(&watched, since)?;
        self.transaction.require_unchanged(watched.clone(), since)?;
        self.observed.watched.push((watched, since));
        self.writes(list(LISTS), Some("watched".to_owned()))?;
        self.pauses().await;
        Ok(())
    }

    /// Reads all keys by a scan or one by one, twice.
    async fn audits(&mut self) -> Result<(), Error> {
        for _ in 0..2 {
            self.pauses().await;
            if self.world.random.borrow_mut().chance(500) {
                self.scans().await?;
            } else {
                let mut sum = 0;
                for number in 0..ACCOUNTS {
                    sum += balance(self.reads(&account(number)).await?.as_ref());
                }
                self.sums_up(sum);
            }
        }
        self.reads(&row(self.world.between(0, ROWS - 1))).await.map(drop)
    }

    async fn scans(&mut self) -> Result<(), Error> {
        let direction = self.world.random.borrow_mut().one(&[Direction::Forward, Direction::Reverse]);
        let rows = self.transaction.scan_towards(KeyRange::all(), 100, direction).await?;
        let is_ordered = match direction {
            Direction::Forward => rows.is_sorted_by(|one, next| one.0 < next.0),
            Direction::Reverse => rows.is_sorted_by(|one, next| one.0 > next.0),
        };
        if !is_ordered {
            self.world.history.borrow_mut().breach("a scan is not in order".to_owned());
        }
        let accounts = (0..ACCOUNTS).map(account);
        let all = accounts.chain((0..=LISTS).map(list)).chain((0..ROWS).map(row));
        for key in all {
            let found = rows.iter().find(|(found, _)| *found == key).map(|(_, value)| value.clone());
            self.observed.reads.push((key, found));
        }
        let sum = rows
            .iter()
            .filter(|(key, _)| key.starts_with(b"a/"))
            .map(|(_, value)| balance(Some(value)))
            .sum();
        self.sums_up(sum);
        Ok(())
    }

    fn sums_up(&self, sum: i64) {
        if sum != TOTAL {
            self.world
                .history
                .borrow_mut()
                .breach(format!("snapshot {} has balances of {sum}", self.observed.start));
        }
    }

    fn notes(world: &World, mut observed: Observed, end: End) {
        observed.end = end;
        let mut history = world.history.borrow_mut();
        observed.ended = history.event();
        history.transactions.push(observed);
    }

    fn refused(self, error: Error) {
        let is_expected = match &error {
            Error::SnapshotTooOld { lost: cells::Lost::Version, .. } => self.world.mix.is_short,
            Error::SnapshotTooOld { lost: cells::Lost::Window, .. } => self.world.mix.is_narrow,
            _ => true,
        };
        if !is_expected {
            let start = self.observed.start;
            self.world
                .history
                .borrow_mut()
                .breach(format!("start {start} was refused without need: {error}"));
        }
        Running::notes(self.world, self.observed, End::Refused(error));
    }

    async fn commits(self) -> Option<u64> {
        let Running { world, transaction, observed, life } = self;
        // A kill while the commit runs leaves its outcome open.
        let mut guard = Unknown { world, observed: Some(observed) };
        let committed = transaction.commit().await;
        let observed = guard.observed.take()?;
        match committed {
            Ok(committed) => {
                Running::notes(world, observed, End::Committed(committed.timestamp));
                Some(committed.timestamp)
            }
            Err(Error::NotVisible { timestamp }) => {
                // The client was told, but no start covers it yet.
                Running::notes(world, observed, End::Unknown);
                Some(timestamp).filter(|_| world.life.get() == life)
            }
            Err(error @ (Error::Ledger(_) | Error::Closed | Error::StoreTaken { .. })) => {
                drop(error);
                Running::notes(world, observed, End::Unknown);
                None
            }
            Err(error) => {
                let start = observed.start;
                let is_expected = match &error {
                    Error::SnapshotTooOld { .. } => world.mix.is_narrow,
                    _ => true,
                };
                if !is_expected {
                    world.history.borrow_mut().breach(format!("commit from {start} was refused: {error}"));
                }
                Running::notes(world, observed, End::Refused(error));
                None
            }
        }
    }
}

/// Notes a commit whose task is dropped as unknown.
struct Unknown<'a> {
    world: &'a World,
    observed: Option<Observed>,
}

impl Drop for Unknown<'_> {
    fn drop(&mut self) {
        if let Some(observed) = self.observed.take() {
            Running::notes(self.world, observed, End::Unknown);
        }
    }
}
