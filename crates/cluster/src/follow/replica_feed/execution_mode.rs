//! A replica that executes the primary's transactions on its own: how that begins, and how it ends.
//!
//! ```text
//!   fed --nothing is open, and all that has committed is there--> sequences as the primary's, no position
//!       --> it executes --fails, differs, or the primary restarts--> copied again
//! ```
//!
//! Once it executes, its position does not say which transactions it has: the position is gone. So any end of
//! this mode, also the end of this process, makes the database be copied again.

use super::{Feeding, Line, STRETCH_BYTES, Stop};
use crate::scheduled::{Quiet, TakesPart};
use crate::{Stage, Stands, Wanted};
use replica_apply::clone;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time within which committed transactions settle while nothing runs; otherwise the attempt is repeated.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);
/// Maximum wait of new transactions, at first, for a moment in which nothing is open.
const FIRST_HOLD: Duration = Duration::from_millis(200);
/// Maximum wait of a comparison for a moment in which nothing runs.
const REST_LIMIT: Duration = Duration::from_secs(10);

/// Maximum time for which new transactions are held for a moment in which nothing is open, at this try.
fn hold(tries: u32, replica_wait_timeout: Duration) -> Duration {
    FIRST_HOLD.saturating_mul(2_u32.saturating_pow(tries)).min(replica_wait_timeout / 2)
}

/// Pause for normal work before the next try.
pub(super) fn rest_behind(tries: u32, replica_wait_timeout: Duration) -> Duration {
    4 * hold(tries, replica_wait_timeout)
}

impl Line<'_> {
    /// Adds the replica to the participants, in a moment in which nothing runs. `None`: there was no such
    /// moment.
    pub(super) async fn joins(&mut self, tries: u32) -> Result<Option<TakesPart>, Stop> {
        let Feeding { cluster, database, id, of, .. } = *self.by;
        let Some(quiet) = database.scheduled().quiet(hold(tries, cluster.setup().replica_wait_timeout)).await
        else {
            return Ok(None);
        };
        if !self.has_all().await? {
            return Ok(None);
        }
        clone::executes(&self.by.primary, &self.by.replica).await?;
        // Nothing is waited for from here on: the feed's loop must not take the replica for given up.
        cluster.fed_leaves(id, of);
        cluster.feeds().set_stage(of, id, Stage::Executing);
        let name = cluster.standby(id).name.clone();
        tracing::info!(
            replica = name,
            database = database.name(),
            "replica joined the execution of transactions"
        );
        Ok(Some(database.scheduled().join(quiet, id, self.life)))
    }

    /// Sends the replica all commits, while nothing commits. `false`: they did not settle in time.
    async fn has_all(&mut self) -> Result<bool, Stop> {
        let Feeding { cluster, id, of, .. } = *self.by;
        let wanted = cluster.scheduler().order_mut().want_gauge();
        cluster.gauge_now();
        let limit = Instant::now() + SETTLE_LIMIT;
        let state = loop {
            let moved = cluster.next_move();
            let settled = cluster
                .scheduler()
                .order()
                .settled(of)
                .map(|(number, gauge)| (number, gauge.snapshot.clone()));
            if let Some((number, snapshot)) = settled
                && number >= wanted
            {
                break snapshot;
            }
            if timeout_at(limit, moved).await.is_err() {
                return Ok(false);
            }
        };
        cluster.take_boundaries();
        while let Some(stretch) = cluster.feeds().next(of, id, STRETCH_BYTES)? {
            self.give(&stretch).await?;
        }
        self.finish().await?;
        self.step_again().await?;
        Ok(self.unequal.is_none() && self.at.snapshot().covers(&state))
    }
}

impl Feeding<'_> {
    /// Keeps the replica in execution mode for as long as it goes well.
    pub(super) async fn executes(&self, takes_part: TakesPart) -> Result<Infallible, Stop> {
        let Feeding { cluster, id, of, .. } = *self;
        let life = cluster.scheduler().order().incarnation();
        loop {
            let (more, moved) = (cluster.feeds().more(), cluster.next_move());
            self.heed()?;
            if cluster.scheduler().order().incarnation() != life {
                let why = "the primary has restarted and may lack commits that the replica has";
                return Err(Stop::Anew(why.to_owned()));
            }
            if !cluster.feeds().executes(of, id) {
                return Err(Stop::GivenUp);
            }
            if cluster.feeds().wanted(of, id) != Wanted::Nothing
                && let Some(quiet) = self.database.scheduled().quiet(REST_LIMIT).await
            {
                self.rest_executing(quiet).await;
                continue;
            }
            tokio::select! {
                why = takes_part.taken_out() => return Err(Stop::Anew(why)),
                () = more => {}
                () = moved => {}
            }
        }
    }

    /// Holds all transactions back until the comparison is done.
    async fn rest_executing(&self, quiet: Quiet) {
        let Feeding { cluster, id, of, .. } = *self;
        loop {
            let more = cluster.feeds().more();
            match cluster.feeds().wanted(of, id) {
                Wanted::Nothing => break,
                Wanted::Rest => cluster.feeds().stands(of, id, Stands::Still),
                Wanted::At(_) => cluster.feeds().stands(of, id, Stands::There),
            }
            more.await;
        }
        drop(quiet);
    }
}
