//! Positions of a database's sequences at the primary, for all logical replicas. No decoded change reports
//! them, so the primary is asked now and then. An answer counts once every change that may have moved the
//! sequences has come out: DDL draws numbers, too, and a replica that has not run it yet is going to draw the
//! same.

use crate::{Asked, Cluster, Database};
use history::DatabaseId;
use postgres::Error;
use postgres::address::Control;
use replica_apply::sequences::Look;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Interval between readings.
const ROUND: Duration = Duration::from_secs(3);

/// Ratio of the pause to the duration of a long reading, for databases with many sequences.
const REST: u32 = 50;

/// Upper bound of the pause: a server, or a Consort, that hung for a while gives no measure of the number of
/// sequences.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Time limit for the preceding commits of a reading to come out of the slot. After it the reading is
/// dropped.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// The reading of sequences, over all connections.
pub(super) struct Watch {
    look: Look,
    due: Instant,
}

impl Watch {
    /// Creates a reading that is due soon.
    pub(super) fn begin() -> Watch {
        Watch { look: Look::default(), due: Instant::now() + ROUND }
    }

    /// Reads the sequences now and then while there are replicas to send them to. Returns the error that ends
    /// it. Replicas that execute transactions on their own draw the numbers, too, and receive nothing.
    pub(super) async fn look(&mut self, cluster: &Cluster, database: &Database, control: &Control) -> Error {
        loop {
            sleep_until(self.due).await;
            let began = Instant::now();
            self.due = began + ROUND;
            if cluster.orders_first() || cluster.fed_ids().next().is_none() {
                continue;
            }
            let Some(of) = database.id() else { continue };
            let from = cluster.feeds().end(of);
            // A reading that is abandoned half-way has taken too long, so it does not begin again at once.
            self.due = began + LONGEST_REST;
            let read = self.look.read(control).await;
            self.due = Instant::now() + rest_behind(began.elapsed());
            match read {
                Ok(standing) => {
                    if came_out(cluster, of).await {
                        let to = cluster.feeds().end(of);
                        database.set_sequences(Asked { standing, from, to });
                        cluster.feeds().changed();
                    }
                }
                Err(error @ Error::Refused { .. }) => {
                    tracing::debug!(database = database.name(), %error, "cannot read the positions of sequences");
                }
                Err(error) => return error,
            }
        }
    }
}

/// Completes when everything that the primary has shown by now is handed out to replicas. `false`: not in
/// time.
async fn came_out(cluster: &Cluster, of: DatabaseId) -> bool {
    let wanted = cluster.scheduler().order_mut().want_gauge();
    cluster.gauge_now();
    let limit = Instant::now() + SETTLE_LIMIT;
    loop {
        let moved = cluster.next_move();
        let settled = cluster.scheduler().order().settled(of).map(|(number, _)| number);
        if settled >= Some(wanted) {
            cluster.take_boundaries();
            return true;
        }
        if timeout_at(limit, moved).await.is_err() {
            return false;
        }
    }
}

/// Pause after a reading that took this long.
fn rest_behind(took: Duration) -> Duration {
    took.saturating_mul(REST).clamp(ROUND, LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_look_took_the_longer_is_the_rest_up_to_a_bound() {
        let rests = [0, 60, 200, 60_000].map(|took| rest_behind(Duration::from_millis(took)));
        assert_eq!(rests, [ROUND, ROUND, Duration::from_secs(10), LONGEST_REST]);
    }
}
