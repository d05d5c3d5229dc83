//! The server of a logical replica: its reachability, its fitness to answer for the primary, and its flushed
//! state. Its feed is in [`super::replica_feed`].

use super::standby::{IDLE_ROUND, primary_facts};
use super::{FIRST_EPOCH, base_backup_replica};
use crate::Cluster;
use crate::trouble::answered;
use postgres::Error;
use postgres::address::{Address, Control, within_limit};
use postgres::facts;
use postgres::snapshot_probe::Gauger;
use scheduler::StandbyId;
use std::time::Duration;

/// Interval between flushes of the visible state, if not all of it is flushed.
const KEEP_ROUND: Duration = Duration::from_millis(500);

/// Watches the server until it is lost, or has left.
pub(super) async fn follow(cluster: &Cluster, id: StandbyId) -> Result<(), Error> {
    let setup = cluster.standby(id);
    let address = &setup.address;
    within_limit(address, demand_a_replica(cluster, address)).await?;
    let joining = base_backup_replica::join(cluster, id).await?;
    let looker = within_limit(address, Gauger::connect(address, FIRST_EPOCH)).await?;
    let keeper = within_limit(address, Gauger::connect(address, FIRST_EPOCH)).await?;
    if cluster.is_gone(id) {
        return Ok(());
    }
    cluster.standby_watched(id);
    cluster.replica_serves(id);
    cluster.feeds().changed();
    tracing::info!(replica = setup.name, "replica connected");
    let ended = tokio::select! {
        ended = look(cluster, id, looker) => ended,
        ended = keep(cluster, id, keeper) => ended,
        () = cluster.until_gone(id) => Ok(()),
    };
    drop(joining);
    ended
}

/// Checks repeatedly that the server lives.
async fn look(cluster: &Cluster, id: StandbyId, mut looker: Gauger) -> Result<(), Error> {
    let life = looker.sighting().incarnation;
    while !cluster.stopping() {
        let _ = tokio::time::timeout(IDLE_ROUND, cluster.mark_asked(id)).await;
        cluster.standby_asked(id);
        answered(looker.gauge()).await?;
        cluster.standby_heard(id, life);
    }
    Ok(())
}

/// Flushes applied commits. They are applied without a wait for the disk; a later commit that waits flushes
/// all before it.
async fn keep(cluster: &Cluster, id: StandbyId, mut keeper: Gauger) -> Result<(), Error> {
    let life = keeper.sighting().incarnation;
    while !cluster.stopping() {
        tokio::time::sleep(KEEP_ROUND).await;
        let unkept = cluster.feeds().take_unkept(id, life);
        if unkept.is_empty() {
            continue;
        }
        keeper.flush().await?;
        for (of, resume, below) in unkept {
            cluster.fed_keeps(id, of, resume, below);
        }
    }
    Ok(())
}

/// Returns an error unless the server may be a replica: a server of its own, or a base backup that is to be
/// one, equal to the primary in everything that answers depend on.
async fn demand_a_replica(cluster: &Cluster, address: &Address) -> Result<(), Error> {
    let replica = facts::facts(&Control::connect(address).await?).await?;
    let primary = primary_facts(cluster).await?;
    let differences = facts::fed_differences(&primary, &replica);
    if differences.is_empty() { Ok(()) } else { Err(Error::Setup(differences.join("; "))) }
}
