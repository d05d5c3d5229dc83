//! Faults of servers while clients run: one is killed and started again, or replication is held up at all
//! logical replicas.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load_clients::session::{Protocol, Session, Trouble};
use local_cluster::{Cluster, Node};
use serde::Serialize;
use tokio::sync::oneshot;

use super::ground::{Ground, Machines, SERVED, start_again};
use super::point::Which;
use super::table::{Blow, Fault};
use consort::failure::Failure;

/// Interval of the check that a server has come back.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Recovery of a server, in seconds since it could; nothing if it did not before the clients ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Recovery {
    /// Until it had answered a read.
    pub(super) first_read_s: Option<f64>,
    /// Until it had all that the primary had.
    pub(super) caught_up_s: Option<f64>,
    /// First estimate of the recovery time, in proportion to the time that it took from then on.
    pub(super) estimated: Option<f64>,
    /// Until a tier in memory had another master, since the end of the one before.
    pub(super) master_s: Option<f64>,
    /// The part of a tier's reads that were sent to spares before the fault.
    pub(super) spare_reads: Option<f64>,
    /// Versions that a node has taken in from its return on, a second.
    pub(super) applied_a_second: Option<f64>,
}

/// A smaller backlog than this is not worth an estimate.
const LITTLE_BYTES: u64 = 256 * 1024;

/// Waits until the clients begin, then for the moment, strikes, and watches how it ends. If they never begin nothing happens.
pub(super) async fn strike(
    ground: &Ground,
    which: &Which<'_>,
    began: oneshot::Receiver<()>,
) -> Result<Option<Recovery>, Failure> {
    let (Some(fault), Ok(())) = (&which.experiment.fault, began.await) else { return Ok(None) };
    let until = Instant::now() + which.experiment.warm_up() + which.experiment.time();
    tokio::time::sleep(Duration::from_secs(fault.at_s)).await;
    if let (Some(tier), Some(console)) = (ground.tier(), ground.tier_console()) {
        return Ok(Some(tier.strike(fault, &console, &ground.machines, until).await?));
    }
    let struck: Vec<String> = match &fault.node {
        Some(name) => vec![name.clone()],
        None => ground.fed(which.setup).map(|node| node.name().to_owned()).collect(),
    };
    let over = match fault.what {
        Blow::Kill => kill(fault, &struck, &ground.cluster, &ground.machines).await?,
        Blow::Hold => hold(fault, &struck, &ground.cluster).await?,
    };
    if let (Some(_), Some(console), [name, ..]) = (fault.back_after_s, ground.ledger_console(), &struck[..]) {
        return Ok(Some(peer_recovery(&console, name, (over, until)).await));
    }
    match (fault.back_after_s, ground.console(), &struck[..]) {
        (Some(_), Some(console), [name, ..]) => Ok(Some(recovery(&console, name, (over, until)).await)),
        _ => Ok(None),
    }
}

/// The end of the fault.
async fn kill(
    fault: &Fault,
    struck: &[String],
    cluster: &Arc<Cluster>,
    machines: &Arc<Machines>,
) -> Result<Instant, Failure> {
    for name in struck {
        let killed = at(cluster.clone(), name.clone(), |node| {
            node.kill();
            Ok(())
        });
        killed.await?;
    }
    let Some(back_after_s) = fault.back_after_s else { return Ok(Instant::now()) };
    tokio::time::sleep(Duration::from_secs(back_after_s)).await;
    let over = Instant::now();
    for name in struck {
        let machines = machines.clone();
        at(cluster.clone(), name.clone(), move |node| start_again(&machines, node)).await?;
    }
    Ok(over)
}

/// Holds up the apply at logical replicas: each apply writes its position, and waits for that. (It gives up
/// after 10 s.)
async fn hold(fault: &Fault, struck: &[String], cluster: &Arc<Cluster>) -> Result<Instant, Failure> {
    let for_s = fault.back_after_s.unwrap_or_default();
    let hold = format!("BEGIN; LOCK TABLE consort.position IN SHARE MODE; SELECT pg_sleep({for_s}); COMMIT");
    let all = struck.iter().map(|name| {
        let hold = hold.clone();
        tokio::spawn(at(cluster.clone(), name.clone(), move |node| {
            Ok(node.query(SERVED, &hold).map(drop)?)
        }))
    });
    for held in all.collect::<Vec<_>>() {
        held.await.map_err(|error| Failure::new(error.to_string()))??;
    }
    Ok(Instant::now())
}

/// Fault actions take their time: clients go on meanwhile.
async fn at(
    cluster: Arc<Cluster>,
    name: String,
    what: impl FnOnce(&Node) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    meanwhile(move || {
        let node = cluster.nodes().iter().find(|node| node.name() == name);
        node.map_or_else(|| Err(Failure::new(format!("server {name} does not exist"))), what)
    })
    .await
}

/// Work that blocks, while clients go on.
pub(super) async fn meanwhile(
    work: impl FnOnce() -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let done = tokio::task::spawn_blocking(work);
    done.await.map_err(|error| Failure::new(error.to_string()))?
}

/// Asks the console until the server has read and has all that was written before, or the clients end. An answer that is lost is
/// asked for again.
async fn recovery(console: &str, name: &str, (since, until): (Instant, Instant)) -> Recovery {
    let mut recovery = Recovery::default();
    let (mut at_first, mut estimate) = (None, None);
    let all = |so_far: &Recovery| so_far.first_read_s.and(so_far.caught_up_s).and(so_far.estimated).is_some();
    while Instant::now() < until && !all(&recovery) {
        if let Ok(seen) = look(console, name).await {
            let passed = Some(since.elapsed().as_secs_f64());
            let before = at_first.get_or_insert(seen);
            if seen.reads > before.reads {
                recovery.first_read_s = recovery.first_read_s.or(passed);
            }
            if seen.version >= Some(before.newest_version) {
                recovery.caught_up_s = recovery.caught_up_s.or(passed);
            }
            match (seen.left, estimate) {
                (Some(left), None) if seen.pending > LITTLE_BYTES => estimate = Some((Instant::now(), left)),
                (_, Some((made, left))) if seen.pending <= LITTLE_BYTES => {
                    let took: Duration = made.elapsed();
                    recovery.estimated = recovery.estimated.or(Some(left.as_secs_f64() / took.as_secs_f64()));
                }
                _ => {}
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    recovery
}

/// The same for a node that takes writes: until it shows what was newest when it was reached again, or the clients end.
async fn peer_recovery(console: &str, name: &str, (since, until): (Instant, Instant)) -> Recovery {
    let mut recovery = Recovery::default();
    let mut at_first = None;
    while Instant::now() < until && recovery.caught_up_s.is_none() {
        if let Ok(Some((version, newest))) = versions(console, name).await {
            let (had, wanted, begun) = *at_first.get_or_insert((version, newest, Instant::now()));
            if version >= wanted {
                recovery.caught_up_s = Some(since.elapsed().as_secs_f64());
                let took = begun.elapsed().as_secs_f64();
                recovery.applied_a_second = (version > had).then(|| (version - had) / took);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    recovery
}

/// The version that a connected node shows, and the newest one.
async fn versions(console: &str, name: &str) -> Result<Option<(f64, f64)>, Trouble> {
    let session = Session::open(console, Protocol::Simple).await?;
    let nodes = session.texts("SHOW NODES").await?;
    session.close().await;
    let node = nodes.into_iter().find(|row| {
        let is = |column: &str, text: &str| row.get(column).is_some_and(|there| there == text);
        is("node", name) && is("database", SERVED)
    });
    let figure = |column: &str| node.as_ref()?.get(column)?.parse().ok();
    Ok(figure("version").zip(figure("newest")))
}

#[derive(Clone, Copy)]
struct Seen {
    reads: u64,
    version: Option<u64>,
    newest_version: u64,
    pending: u64,
    left: Option<Duration>,
}

async fn look(console: &str, name: &str) -> Result<Seen, Trouble> {
    let session = Session::open(console, Protocol::Simple).await?;
    let replicas = session.texts("SHOW REPLICAS").await?;
    let feeds = session.texts("SHOW REPLICATION").await?;
    session.close().await;
    let text = |rows: &[HashMap<String, String>], column: &str| {
        let row = rows.iter().find(|row| row.get("name").is_some_and(|text| text == name))?;
        row.get(column).cloned()
    };
    let figure = |rows: &[HashMap<String, String>], column: &str| text(rows, column)?.parse().ok();
    // Before the replica is fed again the time is unknown.
    let is_fed = matches!(text(&feeds, "state").as_deref(), Some("feeding" | "serving"));
    Ok(Seen {
        reads: figure(&replicas, "reads_served").unwrap_or_default(),
        version: figure(&feeds, "version"),
        newest_version: figure(&feeds, "newest_version").unwrap_or_default(),
        pending: figure(&feeds, "pending_bytes").unwrap_or_default(),
        left: figure(&feeds, "catch_up_left_ms").filter(|_| is_fed).map(Duration::from_millis),
    })
}
