//! A database in which nothing is installed: no slot reports its commits, and no event trigger its DDL. Every snapshot
//! probe counts as decoded, so that in-flight write sets end. A digest of the catalogs is compared every second, and a
//! difference counts as DDL. No read of such a database is proven to be the latest.

use super::database::read_catalogs;
use crate::trouble::{Task, answered};
use crate::{Cluster, Database, understanding};
use history::{Commit, DatabaseId, Footprint, Lsn, Xid};
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::{attach, catalogs};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Interval between two digests of the catalogs.
const ROUND: Duration = Duration::from_secs(1);

/// Transaction of a change that was found: every snapshot sees it (`FrozenTransactionId`).
const LONG_AGO: Xid = Xid::new(2);

/// Follows the database until the primary restarts.
pub(super) async fn follow(
    cluster: &Cluster,
    database: &Rc<Database>,
    address: &Address,
) -> Result<(), Error> {
    let control = Control::connect(address).await?;
    let id = attach::identity(&control).await?;
    cluster.identified(database, id);
    let life = cluster.scheduler().order().incarnation();
    let newest = cluster.scheduler().order().newest_gauge().map(|(_, gauge)| gauge.clone());
    let Some(gauge) = newest.filter(|gauge| Some(gauge.incarnation) == life) else {
        return Err(Error::NotReady("no snapshot probe of the primary since its restart".to_owned()));
    };
    // The digest comes first: a change during the load of the catalogs is found afterwards.
    let (mut known, _) = answered(catalogs::digest(&control)).await?;
    database.names().changed(None);
    cluster.scheduler().slot_created(id, gauge.insert_lsn);
    cluster.understanding().forget(id);
    database.catalog_changed(None);
    database.set_trouble(None);
    cluster.moved();
    let _analysts = understanding::serve(cluster, database, address);
    let catalogs = read_catalogs(cluster.clone(), database.clone(), Control::connect(address).await?);
    let _catalogs = Task(tokio::task::spawn_local(catalogs));
    tracing::info!(database = database.name(), "reading at standbys by WAL position");
    let mut next = Instant::now() + ROUND;
    while !cluster.stopping() {
        if !cluster.scheduler().order().followed(id) {
            return Err(Error::NotReady("the primary has restarted".to_owned()));
        }
        let moved = cluster.next_move();
        shown(cluster, id);
        tokio::select! {
            () = moved => {}
            () = sleep_until(next) => {
                next = Instant::now() + ROUND;
                let (digest, position) = answered(catalogs::digest(&control)).await?;
                if std::mem::replace(&mut known, digest) != digest {
                    changed(cluster, database, id, position);
                }
            }
        }
    }
    Ok(())
}

/// All that the newest snapshot probe sees counts as decoded.
fn shown(cluster: &Cluster, id: DatabaseId) {
    let newest = cluster.scheduler().order().newest_gauge().map(|(_, gauge)| gauge.insert_lsn);
    let decoded = cluster.scheduler().order().position(id);
    if let Some(newest) = newest.filter(|newest| Some(*newest) > decoded) {
        cluster.scheduler().decoded_to(id, newest);
        cluster.moved();
    }
}

/// The catalogs differ: all that is known of statements is void.
fn changed(cluster: &Cluster, database: &Database, id: DatabaseId, position: Lsn) {
    tracing::debug!(database = database.name(), "catalogs changed");
    cluster.understanding().forget(id);
    database.catalog_changed(None);
    database.names().changed(None);
    let start = position.max(cluster.scheduler().order().position(id).unwrap_or(position));
    let end = Lsn::new(start.get() + 1);
    let _ = cluster.scheduler().ddl(Commit {
        database: id,
        xid: LONG_AGO,
        start,
        end,
        wrote: Footprint::Everything,
    });
    cluster.moved();
}
