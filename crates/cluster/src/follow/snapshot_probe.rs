//! The snapshot probe loop: one connection to the primary, one probe in flight, one waiting.

use super::FIRST_EPOCH;
use crate::Cluster;
use crate::barrier::{Change, Everywhere};
use crate::trouble::{Trouble, answered};
use order::Gauge;
use postgres::Error;
use postgres::address::within_limit;
use postgres::snapshot_probe::{self, Gauger};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Maximum interval between probes.
const IDLE_ROUND: Duration = Duration::from_secs(1);

/// Maximum interval between probes while commits wait for a probe that sees them: no other event reports a
/// commit that hung and is visible at last.
const WAITING_ROUND: Duration = Duration::from_millis(10);

/// Sends probes on demand, for ever. Connects again when the primary is lost.
pub(crate) async fn run(cluster: Cluster) {
    let mut trouble = Trouble::default();
    while !cluster.stopping() {
        let began = Instant::now();
        let Err(error) = follow(&cluster).await else { return };
        let (is_new, pause) = trouble.met(&error.to_string(), &error, began.elapsed());
        if is_new {
            let primary = &cluster.setup().primary;
            tracing::warn!(%primary, %error, "cannot read snapshot and LSN from the primary; retrying");
        }
        cluster.scheduler().order_mut().primary_lost();
        cluster.moved();
        tokio::time::sleep(pause).await;
    }
}

async fn follow(cluster: &Cluster) -> Result<(), Error> {
    let address = &cluster.setup().primary;
    let mut gauger = within_limit(address, Gauger::connect(address, FIRST_EPOCH)).await?;
    let incarnation = gauger.sighting().incarnation;
    tracing::info!(primary = %address, %incarnation, "probing snapshots of the primary");
    cluster.primary_lives(incarnation);
    // After a restart of the primary everything is in flight, until the log-ins were checked again.
    cluster.backends().distrust();
    cluster.moved();
    let mut last = Instant::now();
    while !cluster.stopping() {
        let now = cluster.now();
        let wanted = cluster.scheduler().gauge_to_send(now);
        let Some(number) = wanted else {
            // Also without demand: decoded commits must become settled, or the slot keeps its WAL.
            let waiting = cluster.scheduler().order().waiting() > 0;
            let round = if waiting { WAITING_ROUND } else { IDLE_ROUND };
            // A primary that has gone may be another one when it is back: it is noticed at once.
            let asked = tokio::select! {
                asked = timeout_at(last + round, cluster.gauge_asked()) => asked,
                lost = gauger.lost() => return Err(lost),
            };
            if asked.is_err() {
                cluster.scheduler().order_mut().want_gauge();
            }
            continue;
        };
        last = Instant::now();
        // Every possible change of roles is in flight until a probe that is sent after its answer has
        // settled.
        let with_roles = cluster.scheduler().order().anything_in_doubt();
        let (gauge, roles) = if with_roles {
            let (gauge, roles) = answered(gauger.gauge_with_roles()).await?;
            (gauge, Some(roles))
        } else {
            (answered(gauger.gauge()).await?, None)
        };
        cluster.gauge_took(last.elapsed());
        // Reads are held at the primary before the probe that has seen the change counts.
        let _reloaded = find_reload(cluster, &gauge).await?;
        let _changed = roles
            .is_some_and(|roles| cluster.roles_seen(roles))
            .then(|| Everywhere::begin(cluster, Change::Roles, None));
        let gauge =
            Gauge { incarnation: gauge.incarnation, snapshot: gauge.snapshot, insert_lsn: gauge.insert_lsn };
        cluster.note_written(gauge.insert_lsn);
        if let Err(void) = cluster.scheduler().gauge_answered(number, gauge) {
            tracing::debug!(?void, "discarded a snapshot probe");
        }
        cluster.moved();
    }
    Ok(())
}

/// Finds, if the configuration was reloaded, from when on a backend of the primary has applied it. Reads stay
/// at the primary until the returned value is dropped, and marked.
async fn find_reload(cluster: &Cluster, gauge: &snapshot_probe::Gauge) -> Result<Option<Everywhere>, Error> {
    let configured = cluster.configured();
    if !configured.is_news(gauge.loaded) {
        return Ok(None);
    }
    let kept_in = Everywhere::begin(cluster, Change::Configuration, None);
    // A log-in may take longer than a query.
    let address = &cluster.setup().primary;
    let floor = within_limit(address, snapshot_probe::loaded_first(address)).await?;
    configured.found(gauge.loaded, floor);
    tracing::debug!(%floor, "primary reloaded its configuration");
    Ok(Some(kept_in))
}
