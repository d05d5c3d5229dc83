//! A server that is killed while clients run, and started again if the experiment wants that.

use std::sync::Arc;
use std::time::Duration;

use postgres::local::Cluster;
use tokio::sync::oneshot;

use super::ground::{Machines, start_again};
use super::table::Fault;
use crate::failure::Failure;

/// Waits until the clients begin, then for the moment, and strikes. If they never begin nothing happens.
pub(super) async fn strike(
    fault: Option<&Fault>,
    began: oneshot::Receiver<()>,
    cluster: &Arc<Cluster>,
    machines: &Arc<Machines>,
) -> Result<(), Failure> {
    let (Some(fault), Ok(())) = (fault, began.await) else { return Ok(()) };
    tokio::time::sleep(Duration::from_secs(fault.at_s)).await;
    do_to(fault, cluster, |node| {
        node.kill();
        Ok(())
    })
    .await?;
    if let Some(back_after_s) = fault.back_after_s {
        tokio::time::sleep(Duration::from_secs(back_after_s)).await;
        let machines = machines.clone();
        do_to(fault, cluster, move |node| start_again(&machines, node)).await?;
    }
    Ok(())
}

/// What is done to a server takes its time: clients go on meanwhile.
async fn do_to(
    fault: &Fault,
    cluster: &Arc<Cluster>,
    what: impl FnOnce(&postgres::local::Node) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let (cluster, name) = (cluster.clone(), fault.node.clone());
    let done = tokio::task::spawn_blocking(move || {
        let node = cluster.nodes().iter().find(|node| node.name() == name);
        node.map_or_else(|| Err(Failure::new(format!("there is no server {name}"))), what)
    });
    done.await.map_err(|error| Failure::new(error.to_string()))?
}
