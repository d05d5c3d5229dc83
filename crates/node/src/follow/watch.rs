//! Watches one standby, or the server of a replica, again and again.

use super::{RECONNECT_AFTER, replica, standby};
use crate::cluster::Cluster;
use scheduler::{Kind, StandbyId};

/// Watches it until it is in the cluster no more.
pub(crate) async fn run(cluster: Cluster, id: StandbyId) {
    let setup = cluster.standby(id);
    let mut said = String::new();
    while !cluster.stopping() && !cluster.is_gone(id) {
        let followed = match setup.kind {
            Kind::Standby => standby::follow(&cluster, id).await,
            Kind::Fed => replica::follow(&cluster, id).await,
        };
        let Err(error) = followed else { return };
        let why = error.to_string();
        if why != said {
            tracing::warn!(node = setup.name, %error, "it serves no reads");
            said = why.clone();
        }
        cluster.standby_gone(id, why);
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}
