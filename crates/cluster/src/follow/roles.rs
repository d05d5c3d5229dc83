//! Roles and databases have no event trigger. So a digest of their catalogs is compared every second, for
//! changes that bypass Consort. Changes by Consort's own sessions are recognised, or found by the snapshot
//! probes.

use crate::Cluster;
use crate::barrier::{Change, Everywhere};
use crate::trouble::{RECONNECT_AFTER, answered};
use postgres::address::Control;
use postgres::{Error, roles};
use std::time::Duration;

const ROUND: Duration = Duration::from_secs(1);

/// Compares the digest, for ever.
pub(crate) async fn run(cluster: Cluster) {
    while !cluster.stopping() {
        if let Err(error) = follow(&cluster).await {
            tracing::debug!(%error, "cannot compare roles");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn follow(cluster: &Cluster) -> Result<(), Error> {
    let control = Control::connect(&cluster.setup().primary).await?;
    let sql = answered(roles::digest_sql(&control)).await?;
    while !cluster.stopping() {
        let looks = cluster.roles_looks();
        let digest = answered(roles::digest(&control, &sql)).await?;
        // If a probe has compared roles in the meantime, the newer of the two digests is unknown.
        if cluster.roles_looks() == looks && cluster.roles_seen(digest) {
            tracing::debug!("roles or their settings changed");
            Everywhere::begin(cluster, Change::Roles, None).end();
        }
        tokio::time::sleep(ROUND).await;
    }
    Ok(())
}
