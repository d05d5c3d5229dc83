//! The watcher of one standby: its reachability, its primary, and its replay position.

use super::{FIRST_EPOCH, extensions};
use crate::Cluster;
use crate::trouble::answered;
use history::Lsn;
use postgres::Error;
use postgres::address::{Address, Control, within_limit};
use postgres::facts::{self, Facts};
use postgres::timelines::{self, PrimaryHistory, Proof};
use postgres::watcher::Watcher;
use scheduler::{Serving, StandbyId};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// Interval of position queries while no read waits above the mark: the answer proves that the standby lives.
pub(super) const IDLE_ROUND: Duration = Duration::from_millis(100);
/// Pause between two queries while a read waits above the mark and the last answer brought nothing new.
const BUSY_ROUND: Duration = Duration::from_millis(1);

/// Interval between queries of a standby's received position, which is only shown to operators.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches the standby until it is lost. Its history is compared with the primary's before it serves, and
/// again in each incarnation of either.
pub(super) async fn follow(cluster: &Cluster, id: StandbyId) -> Result<(), Error> {
    let address = &cluster.standby(id).address;
    let mut watcher = within_limit(address, Watcher::connect(address, FIRST_EPOCH)).await?;
    within_limit(address, demand_a_twin(cluster, address)).await?;
    extensions::joins(cluster, id).await?;
    while !cluster.stopping() {
        let proof = within_limit(address, prove(cluster, address)).await?;
        watcher.hold_to(&proof).await?;
        let replayed = answered(watcher.replayed()).await?;
        if !cluster.standby_proven(id, &proof) {
            return Err(Error::NotReady("the primary has restarted meanwhile".to_owned()));
        }
        serve(cluster, id, &mut watcher, replayed).await.inspect_err(|error| {
            if matches!(error, Error::Protocol(_)) {
                cluster.scheduler().standby_left_history(id);
            }
        })?;
    }
    Ok(())
}

/// Serves with the standby, and notes its replay position, as long as it is proven to be on the primary's
/// history.
async fn serve(cluster: &Cluster, id: StandbyId, watcher: &mut Watcher, replayed: Lsn) -> Result<(), Error> {
    let incarnation = watcher.sighting().incarnation;
    {
        let mut scheduler = cluster.scheduler();
        scheduler.standby_marked(id, incarnation, replayed);
        scheduler.standby_serving(id, Serving::Yes);
    }
    cluster.standby_watched(id);
    cluster.moved();
    tracing::info!(standby = cluster.standby(id).name, %replayed, "the standby serves reads");
    let mut last = replayed;
    let mut looked: Option<Instant> = None;
    while !cluster.stopping() {
        rest(cluster, id).await;
        cluster.standby_asked(id);
        let replayed = answered(watcher.replayed()).await?;
        cluster.standby_heard(id, incarnation);
        if looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            looked = Some(Instant::now());
            cluster.standby_received(id, answered(watcher.received()).await?);
        }
        if !cluster.is_proven(id) {
            return Ok(());
        }
        if replayed != last {
            last = replayed;
            cluster.scheduler().standby_marked(id, incarnation, replayed);
            cluster.moved();
        }
    }
    Ok(())
}

/// Pauses before the next query: until a read asks for it, or briefly while a position lies above the mark.
async fn rest(cluster: &Cluster, id: StandbyId) {
    let wanted = cluster.scheduler().mark_wanted(id);
    if wanted {
        tokio::time::sleep(BUSY_ROUND).await;
    } else {
        let _ = tokio::time::timeout(IDLE_ROUND, cluster.mark_asked(id)).await;
    }
}

/// Facts about the primary. While it is down the old ones hold, because they cannot change: a lost standby
/// comes back without it.
pub(super) async fn primary_facts(cluster: &Cluster) -> Result<Rc<Facts>, Error> {
    let here = cluster.scheduler().order().primary_here();
    if let Some(known) = cluster.primary_facts().filter(|_| !here) {
        return Ok(known);
    }
    let control = Control::connect(&cluster.setup().primary).await?;
    let facts = Rc::new(facts::facts(&control).await?);
    cluster.set_primary_facts(facts.clone());
    Ok(facts)
}

/// Returns an error unless the standby may serve: it must follow this primary and equal it in everything that
/// answers depend on.
async fn demand_a_twin(cluster: &Cluster, address: &Address) -> Result<(), Error> {
    let standby = facts::facts(&Control::connect(address).await?).await?;
    let primary = primary_facts(cluster).await?;
    let differences = facts::differences(&primary, &standby);
    if differences.is_empty() { Ok(()) } else { Err(Error::Setup(differences.join("; "))) }
}

/// Proves that the standby is on the primary's history, without which it may not serve. While the primary is
/// down its history stays the same.
async fn prove(cluster: &Cluster, standby: &Address) -> Result<Proof, Error> {
    let here = cluster.scheduler().order().primary_here();
    if let Some(known) = cluster.primary_history().filter(|_| !here) {
        return timelines::prove(standby, &known, None).await;
    }
    let control = Control::connect(&cluster.setup().primary).await?;
    let history = Rc::new(PrimaryHistory::read(&cluster.setup().primary, &control, FIRST_EPOCH).await?);
    cluster.set_primary_history(history.clone());
    timelines::prove(standby, &history, Some(&control)).await
}
