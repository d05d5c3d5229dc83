//! Roles and databases have no event trigger: a digest of their catalogs is compared every second.

use super::{RECONNECT_AFTER, answered};
use crate::barrier::Everywhere;
use crate::cluster::Cluster;
use postgres::address::Control;
use postgres::{Error, roles};
use std::time::Duration;

const ROUND: Duration = Duration::from_secs(1);

/// Compares, for ever.
pub(crate) async fn run(cluster: Cluster) {
    let mut last = None;
    while !cluster.stopping() {
        if let Err(error) = follow(&cluster, &mut last).await {
            tracing::debug!(%error, "the roles cannot be compared");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn follow(cluster: &Cluster, last: &mut Option<u64>) -> Result<(), Error> {
    let control = Control::connect(&cluster.setup().primary).await?;
    while !cluster.stopping() {
        let digest = answered(roles::digest(&control)).await?;
        if last.replace(digest).is_some_and(|before| before != digest) {
            tracing::debug!("roles or their settings changed");
            Everywhere::begin(cluster, None).end().await;
        }
        tokio::time::sleep(ROUND).await;
    }
    Ok(())
}
