//! Makes the tables of a workload and waits until every server has them: a run must not begin while a standby still
//! answers "no such table".

use crate::session::{Protocol, Session, Trouble};
use crate::share::Server;
use std::time::{Duration, Instant};

/// Time limit of the servers until they have the tables.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Answers in a row through a load-balanced address after which all servers at it count as ready.
const ANSWERS_IN_A_ROW: u32 = 20;

/// Runs the statements at `writer`, one after the other, then waits until `probe` gives rows at each server and through `url`.
///
/// # Errors
/// The statements fail, or the rows do not come in time.
pub async fn prepare(
    writer: &str,
    url: &str,
    servers: &[Server],
    statements: &[String],
    probe: &str,
) -> Result<(), Trouble> {
    let session = Session::open(writer, Protocol::Simple).await?;
    for statement in statements {
        session.execute(statement).await?;
    }
    session.close().await;
    for server in servers {
        wait(&server.url, probe, 1, READY_LIMIT).await?;
    }
    wait_ready(url, probe, READY_LIMIT).await
}

/// Waits until `probe` returns rows through `url`, from any server.
///
/// # Errors
/// The rows do not come in time.
pub async fn wait_ready(url: &str, probe: &str, limit: Duration) -> Result<(), Trouble> {
    wait(url, probe, ANSWERS_IN_A_ROW, limit).await
}

async fn wait(url: &str, probe: &str, in_a_row: u32, limit: Duration) -> Result<(), Trouble> {
    let since = Instant::now();
    let mut good = 0;
    while good < in_a_row {
        let answer = match Session::open(url, Protocol::Simple).await {
            Ok(session) => session.texts(probe).await,
            Err(trouble) => Err(trouble),
        };
        match answer {
            Ok(rows) if !rows.is_empty() => good += 1,
            Err(trouble) if since.elapsed() > limit => return Err(trouble),
            Ok(_) if since.elapsed() > limit => return Err(Trouble::Silent(limit)),
            _ => {
                good = 0;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    Ok(())
}
