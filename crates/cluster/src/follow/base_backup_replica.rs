//! A server that comes of a base backup joins: it follows the primary's log as a standby, until what commits is kept for it,
//! and the log that was written before is replayed. Then it leaves the log, and is fed.
//!
//! ```text
//!   kept for it, database by database | T: what the primary has written by then | replayed up to T | promoted at L >= T
//! ```
//!
//! **Why nothing is missing.** What came out of a slot before it was kept was on the primary's disk by then, so it ends at or
//! below T, and is in the copy. What ends behind L is kept. What lies in between is in both, and is not given twice: the copy
//! shows what ends at or below L, and no more.
//!
//! What is kept goes when the server is lost before it was taken over.

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

/// How often is looked how far it has replayed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Databases that are about to be followed are waited for, for so long.
const FOLLOWED_LIMIT: Duration = Duration::from_secs(10);
/// How long a server may stand still before it is said to people that it is given no log.
const STANDSTILL: Duration = Duration::from_secs(10);
/// A server that is promoted answers within this, or is taken for dead.
const PROMOTED_LIMIT: Duration = Duration::from_secs(90);

/// What is kept for the databases of a server that joins. Of those that were not taken over it goes with this.
pub(super) struct Joining<'a> {
    cluster: &'a Cluster,
    id: StandbyId,
    databases: Vec<(Rc<Database>, DatabaseId)>,
}

/// If the server is a base backup that follows the primary still: has it leave the primary's log.
pub(super) async fn join(cluster: &Cluster, id: StandbyId) -> Result<Joining<'_>, Error> {
    let address = &cluster.standby(id).address;
    let mut joining = Joining { cluster, id, databases: Vec::new() };
    if within_limit(address, backup::follows(&cluster.setup().primary, address)).await? {
        if !cluster.lead().is_sure(cluster.now()) {
            return Err(Error::NotReady(
                "it is a base backup, which the Consort that leads takes in".to_owned(),
            ));
        }
        tokio::select! {
            joined = joining.go(address) => joined?,
            () = cluster.lead().until_waits() => return Err(Error::NotReady("another Consort leads".to_owned())),
            () = cluster.replica_stopped(id) => return Err(Error::NotReady("it is paused, or leaves".to_owned())),
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
        tracing::info!(replica = name, %goal, "the base backup follows the primary up to here");
        let replica = Control::connect(&address.with_database(CONTROL_DATABASE)).await?;
        self.until_replayed(&replica, goal).await?;
        let promoted = tokio::time::timeout(PROMOTED_LIMIT, backup::promote(&primary, &replica)).await;
        promoted.map_err(|_| Error::Unreachable("the server does not answer".to_owned()))??;
        tracing::info!(replica = name, "the base backup has left the primary's log");
        Ok(())
    }

    /// Keeps what commits in the database from here on, as soon as it is followed.
    async fn keep(&mut self, database: Rc<Database>) -> Result<(), Error> {
        let (cluster, id) = (self.cluster, self.id);
        let Some(of) = followed(cluster, &database).await else {
            tracing::warn!(database = database.name(), "it is not followed, and copied by a dump when it is");
            return Ok(());
        };
        replica_feed::log_commands(cluster, &database).await?;
        cluster.fed_takes(id, of);
        // How far that is the primary has not said yet.
        cluster.feeds().keeps_behind(of, id, Lsn::MAX);
        self.databases.push((database, of));
        let why = "its base backup follows the primary until what commits is kept for it".to_owned();
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

    /// Waits until the server has replayed the primary's log up to a place, and tells how far it is.
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
                if since.elapsed() < STANDSTILL { "" } else { ", and is given none: look at its log" };
            let why =
                format!("its base backup has {megabytes:.1} MB of the primary's log to replay{gets_none}");
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

/// The databases that are attached, followed from now on if nobody has used them yet, for they came with the backup too; and
/// those that are used, and may be attached just now.
async fn all_followed(cluster: &Cluster, primary: &Control) -> Result<Vec<Rc<Database>>, Error> {
    let slots = answered(attach::slots(primary)).await?;
    let attached = slots.into_iter().filter_map(|slot| slot.database);
    attached.filter(|name| cluster.follows(name)).for_each(|name| drop(cluster.database(&name)));
    Ok(cluster.databases().into_iter().filter(|database| cluster.follows(database.name())).collect())
}

/// The number of the database as soon as it is followed; `None` if that takes too long.
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
