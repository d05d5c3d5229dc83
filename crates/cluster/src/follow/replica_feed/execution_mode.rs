//! A replica that executes by itself what the primary executes: how it comes to that, and how it ends.
//!
//! ```text
//!   fed --nothing is open, and all that has committed is there--> its sequences stand as the primary's, its position goes
//!       --> it executes --fails, differs, or the primary begins another life--> copied anew
//! ```
//!
//! Once it executes nobody can say from its own position what it has: there is none any more. Whatever ends this, also the
//! end of this process, makes it be copied anew.

use super::{Feeding, Line, STRETCH_BYTES, Stop};
use crate::scheduled::{Quiet, TakesPart};
use crate::{Stage, Stands, Wanted};
use replica_apply::clone;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What is committed is settled within this while nothing runs; or it is tried again.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);
/// New transactions wait no longer than this at first for a moment in which nothing is open.
const FIRST_HOLD: Duration = Duration::from_millis(200);
/// A comparison waits so long for a moment in which nothing runs.
const REST_LIMIT: Duration = Duration::from_secs(10);

/// How long new transactions are kept waiting for a moment in which nothing is open, at this try.
fn hold(tries: u32, wait_limit: Duration) -> Duration {
    FIRST_HOLD.saturating_mul(2_u32.saturating_pow(tries)).min(wait_limit / 2)
}

/// How long they go on before the next try.
pub(super) fn rest_behind(tries: u32, wait_limit: Duration) -> Duration {
    4 * hold(tries, wait_limit)
}

impl Line<'_> {
    /// Has the replica take part in the execution, in a moment in which nothing runs. `None`: there was none.
    pub(super) async fn joins(&mut self, tries: u32) -> Result<Option<TakesPart>, Stop> {
        let Feeding { cluster, database, id, of, .. } = *self.by;
        let Some(quiet) = database.scheduled().quiet(hold(tries, cluster.setup().wait_limit)).await else {
            return Ok(None);
        };
        if !self.has_all().await? {
            return Ok(None);
        }
        clone::executes(&self.by.primary, &self.by.replica).await?;
        // Nothing is waited for from here on: whoever feeds it must not take it for given up.
        cluster.fed_leaves(id, of);
        cluster.feeds().set_stage(of, id, Stage::Executing);
        let name = cluster.standby(id).name.clone();
        tracing::info!(replica = name, database = database.name(), "the replica executes by itself");
        Ok(Some(database.scheduled().join(quiet, id, self.life)))
    }

    /// Gives it all that has committed, while nothing commits. `false`: that was not settled in time.
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
    /// It executes, for as long as it goes well.
    pub(super) async fn executes(&self, takes_part: TakesPart) -> Result<Infallible, Stop> {
        let Feeding { cluster, id, of, .. } = *self;
        let life = cluster.scheduler().order().incarnation();
        loop {
            let (more, moved) = (cluster.feeds().more(), cluster.next_move());
            self.heed()?;
            if cluster.scheduler().order().incarnation() != life {
                let why = "the primary has begun another life, in which it may lack what the replica has";
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

    /// Nothing runs until somebody has looked.
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
