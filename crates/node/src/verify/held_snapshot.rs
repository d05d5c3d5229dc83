//! One state of a database, held at the primary and at replicas by a snapshot each.
//!
//! ```text
//! primary    tables locked ----------------- snapshot P -------------------------------------> released
//! feeders               --> all at rest --/     \--> each gives what P sees and no more --\     / go on
//! replicas                                                                                 snapshot
//! ```
//!
//! P is taken when the feeds rest, so it sees all that they have given. Its further commits come with the
//! next boundary whose snapshot probe was sent after it. The feeds rest for a moment only: reads of later
//! commits run at the primary meanwhile.

use cluster::{Cluster, Database, Resting, Stands};
use history::DatabaseId;
use postgres::Error;
use replica_apply::verify::{Side, Source};
use scheduler::StandbyId;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// A replica that shows less than what was new so long ago is not made to rest: the others would wait for it.
const LAG_LIMIT: Duration = Duration::from_secs(1);
/// Maximum time of the catch-up.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(60);
/// Interval of the check that it is done.
const CATCH_UP_LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum time for which a replica rests.
const REST_LIMIT: Duration = Duration::from_secs(10);

/// The database that is held.
pub(super) struct Hold<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) database: &'a Rc<Database>,
    pub(super) of: DatabaseId,
}

/// The same state everywhere.
pub(super) struct Held {
    pub(super) primary: Side,
    pub(super) ids: Vec<StandbyId>,
    /// In the order of `ids`.
    pub(super) replicas: Vec<Side>,
}

/// Replicas that could not be held, and why.
pub(super) type Late = Vec<(StandbyId, String)>;

impl Hold<'_> {
    /// Takes snapshots of one state at the primary and at these replicas.
    pub(super) async fn take(&self, replicas: &[StandbyId]) -> Result<(Held, Late), Error> {
        let (held, late, resting) = self.rest(replicas).await?;
        drop(resting);
        Ok((held, late))
    }

    /// The same, and the replicas rest at that state for as long as the last value lives.
    pub(super) async fn rest(&self, replicas: &[StandbyId]) -> Result<(Held, Late, Resting<'_>), Error> {
        let mut late = Late::new();
        let mut sides = Vec::new();
        for id in replicas {
            match self.caught_up(*id).await {
                Ok(side) => sides.push((*id, side)),
                Err(why) => late.push((*id, why.to_string())),
            }
        }
        let source = Source::lock(&self.cluster.setup().primary.with_database(self.database.name())).await?;
        let feeds = self.cluster.feeds();
        let ids: Vec<_> = sides.iter().map(|(id, _)| *id).collect();
        let resting = feeds
            .rest(self.of, &ids)
            .ok_or_else(|| Error::NotReady("another session is comparing the database".to_owned()))?;
        late.extend(self.until(&resting, Stands::Still).await);
        let (primary, state) = within(source.look()).await?;
        resting.come_to(state);
        // A boundary comes with a snapshot probe that is sent from now on.
        self.cluster.scheduler().order_mut().want_gauge();
        self.cluster.gauge_now();
        late.extend(self.until(&resting, Stands::There).await);
        sides.retain(|(id, _)| !late.iter().any(|(other, _)| other == id));
        for (_, side) in &mut sides {
            within(side.look()).await?;
        }
        let (ids, replicas) = sides.into_iter().unzip();
        Ok((Held { primary, ids, replicas }, late, resting))
    }

    /// A connection to the replica, when it has nearly caught up.
    async fn caught_up(&self, id: StandbyId) -> Result<Side, Error> {
        let deadline = Instant::now() + CATCH_UP_LIMIT;
        loop {
            let lag = self.lag(id);
            if lag < LAG_LIMIT {
                break;
            }
            if Instant::now() > deadline {
                return Err(Error::NotReady(format!("the replica lags by {} ms", lag.as_millis())));
            }
            tokio::time::sleep(CATCH_UP_LOOK_EVERY).await;
        }
        Side::open(&self.cluster.standby(id).address.with_database(self.database.name())).await
    }

    /// Replication lag: time for which the replica has lacked a commit that the primary has shown.
    fn lag(&self, id: StandbyId) -> Duration {
        let courses = self.cluster.courses();
        let mine = courses.into_iter().find(|course| course.replica == id && course.database == self.of);
        let since = mine.and_then(|course| course.pending.since);
        since.map_or(Duration::ZERO, |since| self.cluster.now().saturating_sub(since))
    }

    /// Waits until all have caught up to there. Replicas that are too late go on.
    async fn until(&self, resting: &Resting<'_>, stands: Stands) -> Late {
        if timeout_at(Instant::now() + REST_LIMIT, resting.all(stands)).await.is_ok() {
            return Late::new();
        }
        let late = resting.not_yet(stands);
        late.iter().for_each(|id| resting.without(*id));
        late.into_iter()
            .map(|id| (id, format!("the replica did not reach the snapshot within {REST_LIMIT:?}")))
            .collect()
    }

    /// Runs a future for as long as the primary and these replicas answer, and no session needs the database
    /// alone.
    pub(super) async fn undisturbed<T>(
        &self,
        replicas: &[StandbyId],
        doing: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            done = doing => done,
            id = self.one_lost(replicas) => {
                let name = self.cluster.standby(id).name.clone();
                Err(Error::Unreachable(format!("lost the connection to {name}; compare again")))
            }
            () = self.primary_lost() => Err(Error::Unreachable("lost the connection to the primary; compare again".to_owned())),
            () = self.database.wanted_alone() => {
                Err(Error::NotReady("another session needs exclusive use of the database; compare again".to_owned()))
            }
        }
    }

    /// Completes when the watcher of one of them finds it dead or hanging.
    async fn one_lost(&self, replicas: &[StandbyId]) -> StandbyId {
        let lost = |id: &StandbyId| (*id, Box::pin(self.cluster.standby_lost(*id)));
        let mut lost: Vec<_> = replicas.iter().map(lost).collect();
        poll_fn(|cx| {
            let gone =
                lost.iter_mut().find_map(|(id, lost)| lost.as_mut().poll(cx).is_ready().then_some(*id));
            gone.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    async fn primary_lost(&self) {
        loop {
            let moved = self.cluster.next_move();
            if !self.cluster.scheduler().order().primary_here() {
                return;
            }
            moved.await;
        }
    }
}

/// Runs a cheap query with a time limit: no replica rests for longer than that.
async fn within<T>(question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let answered = timeout(REST_LIMIT, question).await;
    answered.unwrap_or_else(|_| Err(Error::Unreachable(format!("no answer within {REST_LIMIT:?}"))))
}
