//! Old snapshots, for testing the checker: a few transactions stay open and lend their snapshots to readers,
//! which then see the past. A stale replica does the same to its clients.

use super::client::Shared;
use load_clients::session::{Protocol, Session, Trouble};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum age of a lent snapshot.
const OLDEST: Duration = Duration::from_millis(300);

/// Interval of new snapshots.
const EVERY: Duration = Duration::from_millis(100);

/// Lends snapshots until the workload stops.
pub(crate) async fn keep(shared: Arc<Shared>) -> Result<(), Trouble> {
    let mut kept = VecDeque::<(Instant, String, Session)>::new();
    while !shared.is_over() {
        let session = Session::open(&shared.workload.url, Protocol::Simple).await?;
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        let rows = session.texts("SELECT pg_export_snapshot() AS name").await?;
        if let Some(name) = rows.first().and_then(|row| row.get("name")) {
            kept.push_back((Instant::now(), name.clone(), session));
        }
        while kept.front().is_some_and(|(taken, _, _)| taken.elapsed() > OLDEST) {
            kept.pop_front();
        }
        let names = kept.iter().map(|(_, name, _)| name.clone()).collect();
        *shared.old_snapshots.lock().expect("no holder of the lock panics") = names;
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}
