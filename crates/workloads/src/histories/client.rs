//! One client of a list-append run: it runs transactions one after the other, writes down what it saw, and after a lost
//! connection goes on as a new session.

use super::plan::{Plan, Planner, Step};
use super::{Isolation, Workload};
use crate::check::{History, Key, Operation, Outcome, Transaction, Value};
use load_clients::session::{Cell, Rows, Session, Trouble};
use load_clients::stop::Stop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Pause of a client before it tries to log in again.
const LOGIN_PAUSE: Duration = Duration::from_millis(50);

/// Shared state of all clients of a run.
pub(crate) struct Shared {
    pub(crate) workload: Workload,
    pub(crate) planner: Planner,
    pub(crate) start: Instant,
    pub(crate) stop: Stop,
    pub(crate) next_process: AtomicU32,
    pub(crate) done: AtomicU64,
    pub(crate) reads: AtomicU64,
    /// Reads in transactions that only read.
    pub(crate) read_only_reads: AtomicU64,
    pub(crate) appends: AtomicU64,
    pub(crate) lost_sessions: AtomicU64,
    /// Identifiers of old snapshots that read-only transactions may be made to use.
    pub(crate) old_snapshots: std::sync::Mutex<Vec<String>>,
}

impl Shared {
    /// Waits while the run is ahead of its rate.
    async fn keep_rate(&self) {
        let rate = self.workload.rate;
        while rate > 0 && !self.is_over() {
            let allowed = u128::from(rate) * self.start.elapsed().as_millis() / 1000 + u128::from(rate) / 100;
            if u128::from(self.done.load(Ordering::Relaxed)) <= allowed {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_due() || self.done.load(Ordering::Relaxed) >= self.workload.transactions
    }
}

pub(crate) struct Client {
    shared: Arc<Shared>,
    chance: fastrand::Rng,
    read_only_snapshots: bool,
    process: u32,
    history: History,
    first_trouble: Option<String>,
}

/// Result of a client.
pub(crate) struct Brought {
    pub(crate) history: History,
    pub(crate) first_trouble: Option<String>,
}

/// End of a transaction that did not commit.
enum Ended {
    Failed(Trouble),
    Unknown(Trouble),
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>, seed: u64, read_only_snapshots: bool) -> Client {
        let chance = fastrand::Rng::with_seed(seed);
        Client {
            shared,
            chance,
            read_only_snapshots,
            process: 0,
            history: History::default(),
            first_trouble: None,
        }
    }

    /// Runs transactions until the workload stops.
    pub(crate) async fn live(mut self) -> Brought {
        while !self.shared.is_over() {
            match self.log_in().await {
                Ok(session) => self.run_session(session).await,
                Err(trouble) => {
                    self.remember(&trouble);
                    tokio::time::sleep(LOGIN_PAUSE).await;
                }
            }
        }
        Brought { history: self.history, first_trouble: self.first_trouble }
    }

    async fn log_in(&self) -> Result<Session, Trouble> {
        let workload = &self.shared.workload;
        let session =
            Session::open(&workload.url, workload.protocol).await?.with_limit(workload.statement_limit);
        if self.read_only_snapshots {
            session.execute("SET consort.read_only_snapshots = on").await?;
        }
        Ok(session)
    }

    async fn run_session(&mut self, mut session: Session) {
        self.process = self.shared.next_process.fetch_add(1, Ordering::SeqCst);
        while !self.shared.is_over() {
            self.shared.keep_rate().await;
            let plan = self.shared.planner.plan(&mut self.chance);
            if !self.run_transaction(&mut session, &plan).await {
                self.shared.lost_sessions.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        session.close().await;
    }

    /// Runs one transaction and logs it; returns whether the session can go on.
    async fn run_transaction(&mut self, session: &mut Session, plan: &Plan) -> bool {
        let mut operations = Vec::new();
        let began = self.now();
        let result = match self.shared.workload.isolation {
            Isolation::Autocommit => self.run_statement(session, plan, &mut operations).await,
            _ => self.run_block(session, plan, &mut operations).await,
        };
        let ended = self.now();
        self.shared.done.fetch_add(1, Ordering::Relaxed);
        let (outcome, goes_on) = match result {
            Ok(()) => {
                self.shared.planner.committed(&operations);
                (Outcome::Committed, true)
            }
            Err(Ended::Unknown(trouble)) => {
                self.remember(&trouble);
                (Outcome::Unknown, false)
            }
            Err(Ended::Failed(trouble)) => {
                self.remember(&trouble);
                let in_block = self.shared.workload.isolation != Isolation::Autocommit;
                let usable = trouble.leaves_session();
                (Outcome::Failed, usable && (!in_block || session.execute("ROLLBACK").await.is_ok()))
            }
        };
        let process = self.process;
        self.history.transactions.push(Transaction { process, began, ended, outcome, operations });
        goes_on
    }

    async fn run_block(
        &mut self,
        session: &mut Session,
        plan: &Plan,
        operations: &mut Vec<Operation>,
    ) -> Result<(), Ended> {
        session.execute(&self.begin(plan)).await.map_err(Ended::Failed)?;
        for step in &plan.steps {
            self.shared.read_only_reads.fetch_add(u64::from(plan.read_only), Ordering::Relaxed);
            self.run_step(session, step, operations).await.map_err(Ended::Failed)?;
        }
        session.execute("COMMIT").await.map_err(Ended::of_commit)
    }

    async fn run_statement(
        &mut self,
        session: &mut Session,
        plan: &Plan,
        operations: &mut Vec<Operation>,
    ) -> Result<(), Ended> {
        for step in &plan.steps {
            self.shared.read_only_reads.fetch_add(u64::from(plan.read_only), Ordering::Relaxed);
            self.run_step(session, step, operations).await.map_err(Ended::of_commit)?;
        }
        Ok(())
    }

    fn begin(&mut self, plan: &Plan) -> String {
        let level = self.shared.workload.isolation.level();
        let mode = if plan.read_only { " READ ONLY" } else { "" };
        let begin = format!("BEGIN ISOLATION LEVEL {level}{mode}");
        if !plan.read_only || self.chance.f64() >= self.shared.workload.snapshots.old {
            return begin;
        }
        let snapshots = self.shared.old_snapshots.lock().expect("no holder of the lock panics");
        match snapshots.as_slice() {
            [] => begin,
            known => {
                format!("{begin}; SET TRANSACTION SNAPSHOT '{}'", known[self.chance.usize(..known.len())])
            }
        }
    }

    async fn run_step(
        &mut self,
        session: &mut Session,
        step: &Step,
        operations: &mut Vec<Operation>,
    ) -> Result<(), Trouble> {
        match step {
            Step::Append(key, value) => {
                operations.push(Operation::Append(*key, *value));
                self.shared.appends.fetch_add(1, Ordering::Relaxed);
                let list = if self.shared.workload.texts {
                    "',' || ($2::bigint)::text"
                } else {
                    "ARRAY[$2::bigint]"
                };
                let text = format!(
                    "INSERT INTO consort_bench_list AS l (k, v) VALUES ($1, {list}) \
                     ON CONFLICT (k) DO UPDATE SET v = l.v || EXCLUDED.v"
                );
                session.run(&text, &[i64::from(key.0), i64::from(value.0)]).await?;
            }
            Step::AppendToAll(keys, value) => {
                operations.extend(keys.iter().map(|key| Operation::Append(*key, *value)));
                self.shared.appends.fetch_add(1, Ordering::Relaxed);
                let condition = among(keys, 2);
                let more =
                    if self.shared.workload.texts { "',' || ($1::bigint)::text" } else { "$1::bigint" };
                let text = format!("UPDATE consort_bench_list SET v = v || {more} WHERE {condition}");
                let values = std::iter::once(i64::from(value.0)).chain(numbers(keys));
                session.run(&text, &values.collect::<Vec<_>>()).await?;
            }
            Step::Read(keys) => {
                self.shared.reads.fetch_add(1, Ordering::Relaxed);
                let text = format!("SELECT k, v FROM consort_bench_list WHERE {}", among(keys, 1));
                let rows = session.run(&text, &numbers(keys).collect::<Vec<_>>()).await?;
                operations.extend(read(keys, &rows)?);
            }
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.shared.start.elapsed().as_nanos()).expect("a run is shorter than 584 years")
    }

    fn remember(&mut self, trouble: &Trouble) {
        if self.first_trouble.is_none() && !trouble.surely_rolled_back() {
            self.first_trouble = Some(trouble.to_string());
        }
    }
}

impl Ended {
    /// A statement that may have committed failed.
    fn of_commit(trouble: Trouble) -> Ended {
        if trouble.surely_rolled_back() { Ended::Failed(trouble) } else { Ended::Unknown(trouble) }
    }
}

/// The condition that names these keys by parameters, of which the first has this number.
fn among(keys: &[Key], first: usize) -> String {
    let places: Vec<String> = (first..).take(keys.len()).map(|place| format!("${place}")).collect();
    match places.as_slice() {
        [one] => format!("k = {one}"),
        several => format!("k IN ({})", several.join(", ")),
    }
}

fn numbers(keys: &[Key]) -> impl Iterator<Item = i64> + '_ {
    keys.iter().map(|key| i64::from(key.0))
}

/// The lists in an answer; a key without a row is an empty list.
fn read(keys: &[Key], rows: &Rows) -> Result<Vec<Operation>, Trouble> {
    let unexpected = || Trouble::Unexpected(format!("rows {rows:?} for keys {keys:?}"));
    let mut operations: Vec<Operation> = Vec::with_capacity(keys.len());
    let mut matched = 0;
    for key in keys {
        let row = rows.iter().find(|row| row.first().and_then(Cell::number) == Some(i64::from(key.0)));
        let Some(row) = row else {
            operations.push(Operation::Read(*key, Vec::new()));
            continue;
        };
        matched += 1;
        let Some(Cell::List(list)) = row.get(1) else { return Err(unexpected()) };
        let values = list.iter().map(|&value| u32::try_from(value).map(Value)).collect::<Result<_, _>>();
        operations.push(Operation::Read(*key, values.map_err(|_| unexpected())?));
    }
    if matched == rows.len() { Ok(operations) } else { Err(unexpected()) }
}
