//! Watches one standby, or the server of a replica, repeatedly.

use super::{replica_server, standby};
use crate::Cluster;
use crate::trouble::{RECONNECT_AFTER, Trouble};
use scheduler::{Kind, StandbyId};
use tokio::time::Instant;

/// Watches the standby until it has left the cluster.
pub(crate) async fn run(cluster: Cluster, id: StandbyId) {
    let setup = cluster.standby(id);
    let mut trouble = Trouble::default();
    while !cluster.stopping() && !cluster.is_gone(id) {
        let began = Instant::now();
        let followed = match setup.kind {
            Kind::Standby => standby::follow(&cluster, id).await,
            Kind::Fed => replica_server::follow(&cluster, id).await,
        };
        let Err(error) = followed else { return };
        let why = error.to_string();
        let (is_new, pause) = trouble.met(&why, &error, began.elapsed());
        if is_new {
            tracing::warn!(node = setup.name, %error, "node serves no reads");
        }
        cluster.standby_gone(id, why);
        // A standby that has diverged is compared with the primary each time.
        let pause = if setup.kind == Kind::Standby { pause } else { RECONNECT_AFTER };
        tokio::time::sleep(pause).await;
    }
}
