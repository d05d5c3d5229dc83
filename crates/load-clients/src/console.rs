//! Counts of an admin console while a workload runs: `SHOW REPLICAS` (name, role, reads) and, where there is
//! one, `SHOW ROUTES` (statement, node, reason, count).
//!
//! The console is queried repeatedly and the differences are added up. So a console that restarts in the
//! middle of a run, because its process was killed, loses only its counts since the last query.

use crate::session::{Protocol, Session, Trouble};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Interval of the queries.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Time for which the console may be away at the end of a run; then its earlier counts are all.
const LAST_LOOK_LIMIT: Duration = Duration::from_secs(13);

/// Time limit of decoders and standbys to catch up, after few writes.
pub const CATCH_UP_LIMIT: Duration = Duration::from_secs(60);

/// Interval of the check that they have.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A row of `SHOW ROUTES`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The database.
    pub database: String,
    /// The name of the node at which the statement ran.
    pub node: String,
    /// The statement, `?` for each literal.
    pub statement: String,
    /// The reason why it ran there.
    pub reason: String,
}

impl Route {
    /// True if it is a statement that reads the table. (Where nothing was to be run, it was only prepared.)
    pub(crate) fn reads(&self, table: &str) -> bool {
        let statement = self.statement.trim_start();
        let begins = statement.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select"));
        begins && statement.contains(table) && self.reason != "nothing"
    }
}

/// Answers of the console, or a sum of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The nodes that were ever standbys.
    pub standbys: BTreeSet<String>,
    /// Reads that each node served.
    pub served: BTreeMap<String, u64>,
    /// Statements by shape, node and reason; nothing if it knows no such command.
    pub routes: Option<BTreeMap<Route, u64>>,
}

impl Told {
    /// Adds the difference between two answers. A count below the last one belongs to a restarted console.
    fn add(&mut self, before: &Told, after: &Told) {
        fn since<K: Ord>(before: &BTreeMap<K, u64>, key: &K, count: u64) -> u64 {
            let known = before.get(key).copied().unwrap_or(0);
            if count >= known { count - known } else { count }
        }
        self.standbys.extend(after.standbys.iter().cloned());
        for (node, &count) in &after.served {
            *self.served.entry(node.clone()).or_default() += since(&before.served, node, count);
        }
        let Some(routes) = &after.routes else { return };
        let nothing = BTreeMap::new();
        let known = before.routes.as_ref().unwrap_or(&nothing);
        let sums = self.routes.get_or_insert_default();
        for (route, &count) in routes {
            *sums.entry(route.clone()).or_default() += since(known, route, count);
        }
    }
}

struct State {
    last: Told,
    sum: Told,
}

/// A console that is asked until the watch is finished or dropped.
pub struct Watch {
    url: String,
    state: Arc<Mutex<State>>,
    asking: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

impl Watch {
    /// Asks for the first time: from here on it counts.
    pub async fn begin(url: &str) -> Result<Watch, Trouble> {
        let session = Session::open(url, Protocol::Simple).await?;
        let first = look(&session).await?;
        let sum = Told { standbys: first.standbys.clone(), ..Told::default() };
        let state = Arc::new(Mutex::new(State { last: first, sum }));
        let asking = tokio::spawn(ask(url.to_owned(), session, state.clone()));
        Ok(Watch { url: url.to_owned(), state, asking })
    }

    /// Asks for the last time; the sum.
    pub async fn finish(&self) -> Result<Told, Trouble> {
        self.asking.abort();
        let since = Instant::now();
        loop {
            let told = match Session::open(&self.url, Protocol::Simple).await {
                Ok(session) => look(&session).await,
                Err(trouble) => Err(trouble),
            };
            match told {
                Ok(told) => note(&self.state, told),
                Err(Trouble::Unexpected(problem)) => return Err(Trouble::Unexpected(problem)),
                Err(_) if since.elapsed() < LAST_LOOK_LIMIT => {
                    tokio::time::sleep(ASK_EVERY).await;
                    continue;
                }
                Err(_) => {}
            }
            return Ok(self.state.lock().expect("no holder of the lock panics").sum.clone());
        }
    }
}

/// Waits until all earlier writes are decoded, and replayed by every standby, as far as the console at `url`
/// reports it (`replayed_lsn` in `SHOW REPLICAS`, `decoded_lsn` in `SHOW SNAPSHOTS`). Otherwise the loading
/// before the run, and the run's own tables, would be measured too.
///
/// # Errors
/// No console answers, or the wait exceeds the limit.
pub async fn wait_caught_up(url: &str, writer: &str, limit: Duration) -> Result<(), Trouble> {
    let session = Session::open(writer, Protocol::Simple).await?;
    let end = session.texts("SELECT pg_current_wal_insert_lsn() AS end").await?;
    let end = end.first().and_then(|row| position(row.get("end")?));
    session.close().await;
    let reached = |row: &HashMap<String, String>, column: &str| {
        row.get(column).is_none_or(|reached| position(reached) >= end)
    };
    let console = Session::open(url, Protocol::Simple).await?;
    let since = Instant::now();
    while since.elapsed() < limit {
        let nodes = console.texts("SHOW REPLICAS").await?;
        let databases = match console.texts("SHOW SNAPSHOTS").await {
            Err(Trouble::Refused { .. }) => Vec::new(),
            answer => answer?,
        };
        if nodes.iter().filter(|row| is_standby(row)).all(|row| reached(row, "replayed_lsn"))
            && databases.iter().all(|row| reached(row, "decoded_lsn"))
        {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(Trouble::Silent(limit))
}

/// A WAL position, as PostgreSQL writes it.
fn position(text: &str) -> Option<(u32, u32)> {
    let (high, low) = text.split_once('/')?;
    Some((u32::from_str_radix(high, 16).ok()?, u32::from_str_radix(low, 16).ok()?))
}

fn is_standby(row: &HashMap<String, String>) -> bool {
    row.get("role").is_some_and(|role| role == "standby")
}

async fn ask(url: String, session: Session, state: Arc<Mutex<State>>) {
    let mut session = Some(session);
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        if session.is_none() {
            session = Session::open(&url, Protocol::Simple).await.ok();
        }
        let Some(open) = &session else { continue };
        match look(open).await {
            Ok(told) => note(&state, told),
            Err(_) => session = None,
        }
    }
}

fn note(state: &Mutex<State>, told: Told) {
    let mut state = state.lock().expect("no holder of the lock panics");
    let State { last, sum } = &mut *state;
    sum.add(last, &told);
    *last = told;
}

async fn look(session: &Session) -> Result<Told, Trouble> {
    let mut told = Told::default();
    for row in session.texts("SHOW REPLICAS").await? {
        let reads = ["reads", "reads_served", "total_reads"].iter().find_map(|&name| row.get(name));
        let reads = reads.and_then(|reads| reads.parse().ok());
        let (Some(name), Some(role), Some(reads)) = (row.get("name"), row.get("role"), reads) else {
            let problem = "SHOW REPLICAS has no columns name, role and reads (or reads_served)";
            return Err(Trouble::Unexpected(problem.to_owned()));
        };
        if role == "standby" || role == "replica" {
            told.standbys.insert(name.clone());
        }
        told.served.insert(name.clone(), reads);
    }
    told.routes = match session.texts("SHOW ROUTES").await {
        Ok(rows) => Some(rows.iter().filter_map(route).collect()),
        Err(Trouble::Refused { .. }) => None,
        Err(trouble) => return Err(trouble),
    };
    Ok(told)
}

fn route(row: &HashMap<String, String>) -> Option<(Route, u64)> {
    let text = |column: &str| row.get(column).cloned();
    let count = row.get("count")?.parse().ok()?;
    let route = Route {
        database: text("database").unwrap_or_default(),
        node: text("node")?,
        statement: text("statement")?,
        reason: text("reason")?,
    };
    Some((route, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_compared_as_numbers() {
        assert!(position("0/9") < position("0/10") && position("F/FFFFFFFF") < position("10/0"));
        assert_eq!(position("joining"), None);
    }

    fn told(served: u64, routed: u64) -> Told {
        let route = Route {
            database: String::new(),
            node: "s1".to_owned(),
            statement: "SELECT a FROM consort_bench_hot".to_owned(),
            reason: "plain".to_owned(),
        };
        Told {
            standbys: BTreeSet::from(["s1".to_owned()]),
            served: BTreeMap::from([("s1".to_owned(), served)]),
            routes: Some(BTreeMap::from([(route, routed)])),
        }
    }

    #[test]
    fn a_console_that_begins_anew_loses_only_what_it_was_not_asked_for() {
        let mut sum = Told::default();
        sum.add(&told(100, 10), &told(150, 30));
        sum.add(&told(150, 30), &told(20, 7));
        assert_eq!(sum.served["s1"], 70);
        assert_eq!(sum.routes.unwrap().into_values().collect::<Vec<_>>(), [27]);
    }

    #[test]
    fn only_statements_that_read_the_table_count() {
        let route = |statement: &str| Route {
            database: String::new(),
            node: String::new(),
            statement: statement.to_owned(),
            reason: String::new(),
        };
        assert!(route(" select n FROM consort_bench_hot WHERE id = ?").reads("consort_bench_hot"));
        assert!(!route("UPDATE consort_bench_hot SET n = 1").reads("consort_bench_hot"));
        assert!(!route("SELECT v FROM consort_bench_cold").reads("consort_bench_hot"));
        assert!(!route("é").reads("t"));
    }
}
