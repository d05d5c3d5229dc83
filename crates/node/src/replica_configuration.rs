//! The replicas that the configuration names, while the process runs: who is new joins, who is not named any more leaves.

use backend::service::Service;
use cluster::StandbySetup;
use conn::socket::Place;
use postgres::Error;
use replica_apply::clone;
use scheduler::StandbyId;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

/// Interval of the check that the last read has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A server that does not answer is left as it is after this.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// From now on these are the replicas. Reads at those who leave may end, at most for this time.
pub(crate) fn renew(service: &Rc<Service>, wanted: Vec<StandbySetup>, shutdown_drain_timeout: Duration) {
    let cluster = &service.cluster;
    let mut here = Vec::new();
    for id in cluster.fed_ids() {
        let replica = cluster.standby(id);
        if wanted.iter().any(|setup| is_same(setup, &replica)) {
            here.push(replica);
            continue;
        }
        tracing::info!(replica = replica.name, "removing replica");
        cluster.replica_leaves(id);
        spawn_local(let_go(service.clone(), id, shutdown_drain_timeout));
    }
    for setup in wanted {
        if !here.iter().any(|replica| is_same(&setup, replica)) {
            tracing::info!(replica = setup.name, "adding replica");
            cluster.join(setup);
        }
    }
}

/// Another server under an old name is another replica, and so is one that is to have other tables.
fn is_same(one: &StandbySetup, other: &StandbySetup) -> bool {
    let place = |setup: &StandbySetup| (setup.address.host.clone(), setup.address.port);
    one.name == other.name && place(one) == place(other) && one.tables == other.tables
}

/// Waits for the reads that run at a replica, gives its server back to whoever owns it, and closes all connections to it.
async fn let_go(service: Rc<Service>, id: StandbyId, shutdown_drain_timeout: Duration) {
    let cluster = &service.cluster;
    let deadline = Instant::now() + shutdown_drain_timeout;
    while cluster.pending_at(id) > 0 && Instant::now() < deadline {
        sleep(LOOK_EVERY).await;
    }
    let replica = cluster.standby(id);
    let place = Place::from(&replica.address);
    let is_another = || cluster.standby_ids().any(|id| Place::from(&cluster.standby(id).address) == place);
    // Another Consort that leads may feed it still.
    if !is_another() && cluster.lead().is_sure(cluster.now()) {
        release(&replica).await;
    }
    cluster.replica_gone(id);
    tracing::info!(replica = replica.name, "replica removed");
    // A leased connection may be returned still.
    while service.pool.open(&place) > 0 && !is_another() {
        service.pool.close(&place);
        sleep(LOOK_EVERY).await;
    }
}

/// Releases the replica for writes: from now on writes there are deliberate.
async fn release(replica: &StandbySetup) {
    let released = match timeout(RELEASE_LIMIT, clone::release(&replica.address, |_| true)).await {
        Ok(released) => released,
        Err(_) => Err(Error::Unreachable(format!("no answer within {RELEASE_LIMIT:?}"))),
    };
    if let Err(error) = released {
        tracing::warn!(replica = replica.name, %error, "cannot reset default_transaction_read_only at the removed replica");
    }
}
