//! `consort bench stale`: does a read ever show less than was known before it began?
//!
//! Writers raise counters in hot rows; the session that wrote and others read them back after chosen gaps, or all the
//! time while a writer writes at an interval. A cold table is read meanwhile, to see that it stays at the standbys.

mod interval;
mod report;
mod rounds;

pub use report::{Kind, Line, Options, Report, Who, measure, run};

use clap::ValueEnum;
use load_clients::knowledge::{Fault, Knowledge};
use load_clients::session::{Cell, Protocol, Session, Trouble};
use load_clients::stop::Stop;
use load_clients::tally::Tally;
use report::Setting;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The table of the hot rows.
pub const HOT: &str = "consort_bench_hot";

/// A writer's statement.
const UPDATE: &str = "UPDATE consort_bench_hot SET n = n + 1 WHERE id = $1 RETURNING n";

/// Readers' statements on a hot row, and on a cold one.
const READ_HOT: &str = "SELECT n FROM consort_bench_hot WHERE id = $1";
const READ_COLD: &str = "SELECT v FROM consort_bench_cold WHERE id = $1";

/// The table without writers.
pub const COLD: &str = "consort_bench_cold";

/// Number of rows of the cold table.
const COLD_ROWS: i64 = 1000;

/// Most wrong reads that are reported one by one.
const MAX_VIOLATIONS: usize = 100;

/// Pause of a session before it logs in again after an error.
const LOGIN_PAUSE: Duration = Duration::from_millis(50);

/// Demand of the writers on the primary's commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Commit {
    /// `synchronous_commit = on`.
    On,
    /// `synchronous_commit = off`.
    Off,
    /// Alternate between on and off.
    Mixed,
    /// `synchronous_commit = remote_apply` (the servers must have synchronous standbys).
    #[value(name = "remote_apply")]
    RemoteApply,
}

impl Commit {
    /// The setting for a writer's transaction of that number.
    fn value(self, number: u64) -> &'static str {
        match self {
            Commit::On => "on",
            Commit::Off => "off",
            Commit::RemoteApply => "remote_apply",
            Commit::Mixed if number.is_multiple_of(2) => "on",
            Commit::Mixed => "off",
        }
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Commit::On => "on",
            Commit::Off => "off",
            Commit::Mixed => "mixed",
            Commit::RemoteApply => "remote_apply",
        })
    }
}

/// Shared state of all tasks of a run.
struct Run {
    setting: Setting,
    rows: Vec<Knowledge>,
    stop: Stop,
    tallies: Mutex<BTreeMap<Kind, Tally>>,
    done: AtomicU64,
    hot_reads: AtomicU64,
    hot_writes: AtomicU64,
    cold_reads: AtomicU64,
    violations: Mutex<Vec<String>>,
}

impl Run {
    fn new(setting: Setting, stop: Stop) -> Run {
        let rows = (0..setting.rows).map(|_| Knowledge::default()).collect();
        Run {
            setting,
            rows,
            stop,
            tallies: Mutex::default(),
            done: AtomicU64::new(0),
            hot_reads: AtomicU64::new(0),
            hot_writes: AtomicU64::new(0),
            cold_reads: AtomicU64::new(0),
            violations: Mutex::default(),
        }
    }

    fn knowledge(&self, row: i64) -> &Knowledge {
        &self.rows[usize::try_from(row).expect("rows count from 0")]
    }

    fn record(&self, kind: Kind, note: impl FnOnce(&mut Tally)) {
        let mut tallies = self.tallies.lock().expect("no holder of the lock panics");
        note(tallies.entry(kind).or_default());
    }

    /// Writes a wrong read down, unless there are enough to find out why.
    fn note_violation(&self, tell: impl FnOnce() -> String) {
        let mut violations = self.violations.lock().expect("no holder of the lock panics");
        if violations.len() < MAX_VIOLATIONS {
            violations.push(tell());
        }
    }

    fn record_read(&self, kind: Kind, answer: Result<(Duration, Fault), Trouble>) {
        self.record(kind, |tally| match &answer {
            Ok((took, fault)) => tally.read(*took, *fault),
            Err(trouble) => tally.failed(trouble),
        });
    }
}

/// The time of day in microseconds since 1970, to find a moment in the servers' logs.
fn clock_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros())
}

/// A session that opens itself again after an error.
struct Lasting {
    url: String,
    protocol: Protocol,
    session: Option<Session>,
    commit: Option<&'static str>,
}

impl Lasting {
    fn new(url: &str, protocol: Protocol) -> Lasting {
        Lasting { url: url.to_owned(), protocol, session: None, commit: None }
    }

    async fn run(&mut self, statement: &str, values: &[i64]) -> Result<i64, Trouble> {
        let answer = self.try_run(statement, values).await;
        if answer.is_err() {
            self.session = None;
            self.commit = None;
            tokio::time::sleep(LOGIN_PAUSE).await;
        }
        answer
    }

    async fn try_run(&mut self, statement: &str, values: &[i64]) -> Result<i64, Trouble> {
        let session = match &mut self.session {
            Some(session) => session,
            none => none.insert(Session::open(&self.url, self.protocol).await?),
        };
        session.speak(self.protocol);
        let rows = session.run(statement, values).await?;
        let number = rows.first().and_then(|row| row.first()).and_then(Cell::number);
        number.ok_or_else(|| Trouble::Unexpected(format!("rows {rows:?} for {statement}")))
    }

    /// Raises the row's counter; what was acknowledged is known from then on.
    async fn write(&mut self, run: &Run, row: i64, commit: &'static str) -> Result<Duration, Trouble> {
        if self.commit != Some(commit) {
            self.execute(&format!("SET synchronous_commit = {commit}")).await?;
            self.commit = Some(commit);
        }
        run.hot_writes.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let value = if run.setting.savepoints {
            self.update_behind_savepoint(row).await?
        } else {
            self.run(UPDATE, &[row]).await?
        };
        run.knowledge(row).acknowledged(value);
        Ok(began.elapsed())
    }

    /// The same in a block, by a sub-transaction.
    async fn update_behind_savepoint(&mut self, row: i64) -> Result<i64, Trouble> {
        self.execute("BEGIN; SAVEPOINT s").await?;
        let value = self.run(UPDATE, &[row]).await?;
        self.execute("RELEASE s; COMMIT").await.map(|()| value)
    }

    async fn execute(&mut self, statements: &str) -> Result<(), Trouble> {
        let session = match &mut self.session {
            Some(session) => session,
            none => none.insert(Session::open(&self.url, self.protocol).await?),
        };
        let done = session.execute(statements).await;
        if done.is_err() {
            self.session = None;
            self.commit = None;
        }
        done
    }

    async fn read_hot(&mut self, run: &Run, row: i64) -> Result<(Duration, Fault), Trouble> {
        run.hot_reads.fetch_add(1, Ordering::Relaxed);
        let known = run.knowledge(row).now();
        let began = Instant::now();
        let value = self.run(READ_HOT, &[row]).await?;
        let took = began.elapsed();
        let fault = run.knowledge(row).read(known, value);
        if fault.is_any() {
            let (protocol, at) = (self.protocol, clock_us());
            run.note_violation(|| {
                format!(
                    "{at}: row {row} read {value} by {protocol} in {} us; known: {known}",
                    took.as_micros()
                )
            });
        }
        Ok((took, fault))
    }

    async fn read_cold(&mut self, run: &Run, row: i64) -> Result<(Duration, Fault), Trouble> {
        run.cold_reads.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let value = self.run(READ_COLD, &[row]).await?;
        if value != 2 * row {
            return Err(Trouble::Unexpected(format!("{value} in row {row} of the cold table")));
        }
        Ok((began.elapsed(), Fault::default()))
    }

    async fn close(self) {
        if let Some(session) = self.session {
            session.close().await;
        }
    }
}
