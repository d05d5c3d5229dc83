//! Transactions in an applier's way: a record that is certified comes before every transaction that is not. The backend that
//! applies is watched by another connection, and transactions that hold what it needs are ended.

use crate::database::Site;
use crate::node_connection::{ANSWER_LIMIT, Connections, SILENT, Trouble, said};
use certified_flow::Sends;
use postgres::address::Control;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::SimpleQueryMessage;

/// A transaction that applies is left alone so long.
const LOOK_AFTER: Duration = Duration::from_millis(5);
/// Then is looked this often.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Any backend that blocks this long is ended. A session whose transaction has a version is served by the applier then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a text did not run.
pub(crate) enum Failure {
    /// The server says so, or the connection has ended.
    Server(tokio_postgres::Error),
    /// The server gives no answer at all.
    Silent,
    /// The server has other rows than those that the records change.
    Differs(String),
}

impl Failure {
    /// For a person.
    pub(crate) fn said(self) -> Trouble {
        match self {
            Failure::Server(error) => said(&error),
            Failure::Silent => SILENT.to_owned(),
            Failure::Differs(why) => why,
        }
    }
}

/// Since when backends are seen in the way.
type Seen = BTreeMap<i32, Instant>;

/// Runs a text on the connection that applies, and ends what blocks it.
/// Answers how many rows each of its statements concerns.
pub(crate) async fn run(connections: &Connections, site: &Site, sql: &str) -> Result<Vec<u64>, Failure> {
    let mut seen = Seen::new();
    let applied = async {
        let said = connections.applies.simple_query(sql).await.map_err(Failure::Server)?;
        let rows = said.into_iter().filter_map(|said| match said {
            SimpleQueryMessage::CommandComplete(rows) => Some(rows),
            _ => None,
        });
        Ok(rows.collect())
    };
    tokio::pin!(applied);
    tokio::select! {
        done = &mut applied => return done,
        () = sleep(LOOK_AFTER) => {}
    }
    loop {
        let look = async {
            let looked = timeout(ANSWER_LIMIT, end_blockers(connections, site, &mut seen)).await;
            if let Ok(Err(error)) = &looked {
                tracing::debug!(%error, "the transactions that block an applier could not be asked for");
            }
            sleep(LOOK_EVERY).await;
            looked.is_ok()
        };
        let answers = tokio::select! {
            done = &mut applied => return done,
            answers = look => answers,
        };
        if !answers {
            return Err(Failure::Silent);
        }
    }
}

async fn end_blockers(
    connections: &Connections,
    site: &Site,
    seen: &mut Seen,
) -> Result<(), postgres::Error> {
    let blocking = format!("SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids({}))", connections.pid);
    let rows = connections.looks.rows(&blocking).await?;
    let pids = rows.into_iter().flatten().flatten().filter_map(|pid| pid.parse::<i32>().ok());
    let blocking: BTreeSet<i32> = pids.filter(|pid| *pid > 0).collect();
    seen.retain(|pid, _| blocking.contains(pid));
    for pid in blocking {
        let claim = site.claim(pid);
        let doomed = claim.as_ref().is_some_and(|claim| claim.doom());
        if let Some(claim) = claim.filter(|claim| doomed && claim.runs.get()) {
            cancel(connections.looks.clone(), pid, claim.sends_cancellation()).await;
        }
        if seen.entry(pid).or_insert_with(Instant::now).elapsed() > PATIENCE {
            tracing::warn!(pid, "ending a backend that blocks an applier");
            connections.looks.rows(&format!("SELECT pg_catalog.pg_terminate_backend({pid})")).await?;
        }
    }
    Ok(())
}

/// Cancels what a backend runs. Goes on when it is dropped: a request of the client waits until the server has sent the
/// cancellation, which would reach that request otherwise.
async fn cancel(looks: Rc<Control>, pid: i32, sends: Sends) {
    let asked = spawn_local(async move {
        let sql = format!("SELECT pg_catalog.pg_cancel_backend({pid})");
        if !matches!(timeout(ANSWER_LIMIT, looks.rows(&sql)).await, Ok(Ok(_))) {
            tracing::debug!(pid, "a backend that blocks an applier could not be cancelled");
        }
        drop(sends);
    });
    // A task ends without a result only with the process.
    let _ = asked.await;
}
