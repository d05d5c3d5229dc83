//! Work that pgbench does not know: large values, and COPY in both directions.

use super::script::{Run, Said, Script};
use crate::Error;
use load_clients::session::{Session, Trouble};
use std::time::Instant;

/// Rows of a kilobyte each, 64 MB in all.
const OUT: &str = "COPY (SELECT repeat('x', 1023) FROM generate_series(1, 65536)) TO STDOUT";

/// The table is the session's own and goes with its transaction: what is measured is the way, not the disk.
const IN: (&str, &str, &str) = (
    "BEGIN; CREATE TEMPORARY TABLE bench_copy (v text) ON COMMIT DROP",
    "COPY bench_copy FROM STDIN",
    "COMMIT",
);

/// A piece of what is copied in: 64 rows of a kilobyte.
const PIECES: usize = 1024;
const ROWS_OF_A_PIECE: usize = 64;

const LARGE: &str = "SELECT repeat('x', 8388608)";

/// Runs the clients until the time is over; whatever has begun is ended.
///
/// # Errors
/// The address cannot be used, or what the server says.
pub(super) async fn run(url: &str, run: &Run) -> Result<Said, Error> {
    let began = Instant::now();
    let clients = (0..run.clients).map(|_| client(url, run, began));
    let done: u64 = futures_util::future::try_join_all(clients).await?.into_iter().sum();
    let took = began.elapsed().as_secs_f64();
    let one = took * 1000.0 * load_clients::share::ratio(u64::from(run.clients), done);
    Ok(Said { transactions: done, per_second: load_clients::share::ratio(done, 1) / took, latency_ms: one })
}

async fn client(url: &str, run: &Run, began: Instant) -> Result<u64, Trouble> {
    let session = Session::open(url, run.protocol).await?;
    let mut done = 0;
    while done == 0 || began.elapsed() < run.time {
        match run.script {
            Script::CopyIn => copy_in(&session).await?,
            Script::CopyOut => session.copy_out(OUT).await?,
            _ => session.execute(LARGE).await?,
        }
        done += 1;
    }
    session.close().await;
    Ok(done)
}

async fn copy_in(session: &Session) -> Result<(), Trouble> {
    let mut row = vec![b'x'; 1023];
    row.push(b'\n');
    session.execute(IN.0).await?;
    session.copy_in(IN.1, &row.repeat(ROWS_OF_A_PIECE).into(), PIECES).await?;
    session.execute(IN.2).await
}
