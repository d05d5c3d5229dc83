//! Where the sequences of a database stand at the primary, for all replicas that Consort feeds: nothing that is decoded tells it,
//! so it is asked for now and then. An answer counts once all has come out that may have moved what it shows: DDL draws numbers,
//! too, and a replica that has not run it yet is going to draw the same.

use crate::{Asked, Cluster, Database};
use history::DatabaseId;
use postgres::Error;
use postgres::address::Control;
use replica_apply::sequences::Look;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How often they are asked.
const ROUND: Duration = Duration::from_secs(3);

/// Where there are so many that it takes long, the rest between is so many times as long.
const REST: u32 = 50;

/// But no longer, whatever it waited for: a server, or a Consort, that hung for a while does not tell how many there are.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// An answer for which what had committed does not come out within this is nobody's.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// Whoever asks them, over all connections.
pub(super) struct Watch {
    look: Look,
    due: Instant,
}

impl Watch {
    /// They are asked for the first time soon.
    pub(super) fn begin() -> Watch {
        Watch { look: Look::default(), due: Instant::now() + ROUND }
    }

    /// Asks now and then, if there are replicas that are told, for as long as it goes well. Servers that execute by themselves draw
    /// the numbers, too, and are told nothing.
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
            // Whoever gives it up in its middle has waited for too long: it is not begun anew at once.
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
                    tracing::debug!(database = database.name(), %error, "where sequences stand is not known");
                }
                Err(error) => return error,
            }
        }
    }
}

/// Completes when all that the primary has shown by now is handed out to replicas. `false`: it was not in time.
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

/// How long they are not asked behind a look that took so long.
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
