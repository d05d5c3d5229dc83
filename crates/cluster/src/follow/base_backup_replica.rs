//! A server from a base backup joins: it follows the primary's WAL as a standby until commits are kept for it
//! and all older WAL is replayed. Then it stops following the WAL, and becomes a logical replica.
//!
//! ```text
//!   kept for it, database by database | T: end of the primary's WAL | replayed up to T | promoted at L >= T
//! ```
//!
//! **Why nothing is missing.** A commit that came out of a slot before commits were kept was on the primary's
//! disk by then. So it ends at or below T, and is in the copy. Commits that end after L are kept. Commits in
//! between are in both, and are not applied twice: the copy shows exactly the commits that end at or below L.
//!
//! Kept commits are dropped if the server is lost before it was taken over.

use super::replica_feed;
use crate::trouble::answered;
use crate::{Cluster, Database, Stage};
use history::{DatabaseId, Lsn};
use postgres::Error;
use postgres::address::{Address, Control, within_limit};
use postgres::attach;
use postgres::objects::CONTROL_DATABASE;
use replica_apply::clone::backup;
use scheduler::StandbyId;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval between queries of its replay position.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum wait for databases that are about to be followed.
const FOLLOWED_LIMIT: Duration = Duration::from_secs(10);
/// Time without replay progress after which the log says that a server receives no WAL.
const STANDSTILL: Duration = Duration::from_secs(10);
/// Maximum time for the answer of a server that is promoted, after which it counts as dead.
const PROMOTED_LIMIT: Duration = Duration::from_secs(90);

/// Commits kept for the databases of a server that joins. Dropping this drops those of databases that were
/// not taken over.
pub(super) struct Joining<'a> {
    cluster: &'a Cluster,
    id: StandbyId,
    databases: Vec<(Rc<Database>, DatabaseId)>,
}

/// Makes a server that is a base backup and still follows the primary stop following the primary's WAL.
pub(super) async fn join(cluster: &Cluster, id: StandbyId) -> Result<Joining<'_>, Error> {
    let address = &cluster.standby(id).address;
    let mut joining = Joining { cluster, id, databases: Vec::new() };
    if within_limit(address, backup::follows(&cluster.setup().primary, address)).await? {
        if !cluster.lead().is_sure(cluster.now()) {
            return Err(Error::NotReady(
                "the server is a base backup; only the leader promotes it".to_owned(),
            ));
        }
        tokio::select! {
            joined = joining.go(address) => joined?,
            () = cluster.lead().until_waits() => return Err(Error::NotReady("another Consort leads".to_owned())),
            () = cluster.replica_stopped(id) => return Err(Error::NotReady("the replica is paused or leaving".to_owned())),
        }
    }
    Ok(joining)
}

impl Joining<'_> {
    async fn go(&mut self, address: &Address) -> Result<(), Error> {
        let name = self.cluster.standby(self.id).name.clone();
        let primary = Control::connect(&self.cluster.setup().primary).await?;
        for database in all_followed(self.cluster, &primary).await? {
            self.keep(database).await?;
        }
        let goal = backup::written(&primary).await?;
        self.databases.iter().for_each(|(_, of)| self.cluster.feeds().keeps_behind(*of, self.id, goal));
        tracing::info!(replica = name, %goal, "base backup replays WAL up to the goal");
        let replica = Control::connect(&address.with_database(CONTROL_DATABASE)).await?;
        self.until_replayed(&replica, goal).await?;
        let promoted = tokio::time::timeout(PROMOTED_LIMIT, backup::promote(&primary, &replica)).await;
        promoted.map_err(|_| Error::Unreachable("the server does not answer".to_owned()))??;
        tracing::info!(replica = name, "base backup promoted");
        Ok(())
    }

    /// Keeps the commits of the database from here on, as soon as it is followed.
    async fn keep(&mut self, database: Rc<Database>) -> Result<(), Error> {
        let (cluster, id) = (self.cluster, self.id);
        let Some(of) = followed(cluster, &database).await else {
            tracing::warn!(database = database.name(), "database is not followed; a dump will copy it later");
            return Ok(());
        };
        replica_feed::log_commands(cluster, &database).await?;
        cluster.fed_takes(id, of);
        // The primary has not reported that position yet.
        cluster.feeds().keeps_behind(of, id, Lsn::MAX);
        self.databases.push((database, of));
        let why = "the base backup replays WAL until commits are kept for it".to_owned();
        cluster.feeds().set_stage(of, id, Stage::Waiting(why));
        loop {
            let moved = cluster.next_move();
            let is_kept = cluster.scheduler().order().resume(of).is_some();
            if is_kept || !cluster.feeds().takes(of, id) {
                return Ok(());
            }
            moved.await;
        }
    }

    /// Waits until the server has replayed the WAL up to a position. Returns the server's replay position.
    async fn until_replayed(&self, replica: &Control, goal: Lsn) -> Result<(), Error> {
        let (mut before, mut since) = (Lsn::ZERO, Instant::now());
        loop {
            let here = answered(backup::replayed(replica)).await?;
            if here >= goal {
                return Ok(());
            }
            if here > before {
                (before, since) = (here, Instant::now());
            }
            let megabytes = (goal.get() - here.get()) as f64 / f64::from(1 << 20);
            let gets_none =
                if since.elapsed() < STANDSTILL { "" } else { ", and receives none: see its server log" };
            let why = format!("the base backup has {megabytes:.1} MB of WAL to replay{gets_none}");
            for (_, of) in self.databases.iter().filter(|(database, _)| self.cluster.has(database)) {
                self.cluster.feeds().set_stage(*of, self.id, Stage::Waiting(why.clone()));
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        let (cluster, id) = (self.cluster, self.id);
        for (database, of) in &self.databases {
            let waits = cluster.feeds().kept_behind(*of, id).is_some();
            if waits && cluster.has(database) && cluster.is_here(id) {
                cluster.fed_leaves(id, *of);
            }
        }
    }
}

/// Returns the databases that are attached or in use. A database that no client has used yet is followed from
/// now on, because it came with the backup too. A database in use may be attached at this moment.
async fn all_followed(cluster: &Cluster, primary: &Control) -> Result<Vec<Rc<Database>>, Error> {
    let slots = answered(attach::slots(primary)).await?;
    let attached = slots.into_iter().filter_map(|slot| slot.database);
    attached.filter(|name| cluster.follows(name)).for_each(|name| drop(cluster.database(&name)));
    Ok(cluster.databases().into_iter().filter(|database| cluster.follows(database.name())).collect())
}

/// Returns the number of the database as soon as it is followed; `None` if that takes too long.
async fn followed(cluster: &Cluster, database: &Database) -> Option<DatabaseId> {
    let limit = Instant::now() + FOLLOWED_LIMIT;
    loop {
        let moved = cluster.next_move();
        let of = database.id().filter(|of| cluster.scheduler().order().followed(*of));
        if of.is_some() {
            return of;
        }
        tokio::time::timeout_at(limit, moved).await.ok()?;
    }
}
