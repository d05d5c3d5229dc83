//! One point of an experiment: the tables loaded again, clients while every node has its quota, the checks,
//! the comparison of the replicas. Loading, checks and comparison run without quotas: they are not measured.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load_clients::progress::{Phase, Progress};
use load_clients::stop::Stop;
use serde::Serialize;
use tokio::sync::oneshot;
use workloads::workload::Report;

use super::busy::Busy;
use super::faults::{self, Recovery};
use super::ground::{Ground, Machines};
use super::ledger::Syncs;
use super::slow_disk;
use super::table::{Experiment, Load, Setup};
use super::tier;
use consort::failure::Failure;

/// A single measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    /// From 1.
    pub(super) round: u64,
    pub(super) setup: String,
    pub(super) load: String,
    /// Results of the clients and of the checks.
    pub(super) report: Report,
    /// Usage of each node while clients ran.
    pub(super) nodes: BTreeMap<String, NodeUse>,
    /// Share of all cores' time that any process used meanwhile, 0 to 1.
    pub(super) machine_busy: f64,
    pub(super) verified: Verified,
    /// Commits that shared a sync of the ledger, on average.
    pub(super) commits_a_sync: Option<f64>,
    /// Recovery of the struck server.
    pub(super) recovery: Option<Recovery>,
    /// True if reads there may be old: then they may miss rows.
    pub(super) may_be_old: bool,
    /// Counts of a tier in memory while clients ran.
    pub(super) tier: Option<tier::Counts>,
}

/// The processor time of a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct NodeUse {
    /// 1 is a whole core.
    pub(super) of_a_core: f64,
    /// 1 is all that it may use.
    pub(super) of_its_quota: Option<f64>,
}

impl NodeUse {
    /// Usage of its quota; without one of a core.
    pub(super) fn shown(&self) -> f64 {
        self.of_its_quota.unwrap_or(self.of_a_core)
    }
}

/// Name of the first of the nodes that all take writes.
const FIRST_PEER: &str = "node1";

/// Result of VERIFY.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Verified {
    /// Tables of replicas that have the primary's rows.
    pub(super) equal: usize,
    /// The others.
    pub(super) different: Vec<String>,
}

/// The check of what clients have read, not of what is in the tables.
const FOUND: &str = "found";

impl Point {
    /// The usage of the node that stands for the primary.
    pub(super) fn primary(&self) -> Option<&NodeUse> {
        self.nodes.get("primary").or_else(|| self.nodes.get(FIRST_PEER))
    }

    /// Usage of the busiest server: of its quota, without one of a core.
    pub(super) fn busiest_server(&self) -> f64 {
        let servers = self.nodes.iter().filter(|(name, _)| *name != "consort");
        servers.map(|(_, node)| node.shown()).fold(0.0, f64::max)
    }

    /// Part of its quota that the busiest node used.
    pub(super) fn busiest(&self) -> f64 {
        self.nodes.values().filter_map(|node| node.of_its_quota).fold(0.0, f64::max)
    }

    /// Errors of the data afterwards, in words.
    pub(super) fn wrong(&self) -> Vec<String> {
        let stale = |number: &str| self.may_be_old && number == FOUND;
        let broken = self.report.checks.iter().filter(|check| !check.holds && !stale(&check.number));
        let broken = broken.map(|check| {
            format!("check {}: {}", check.number, check.broken_by.as_deref().unwrap_or("violated"))
        });
        broken.chain(self.verified.different.iter().map(|line| format!("VERIFY: {line}"))).collect()
    }
}

/// Key of a point.
pub(super) struct Which<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) setup: &'a Setup,
    pub(super) load: &'a Load,
    pub(super) round: u64,
    pub(super) seed: u64,
}

/// Measures a point.
pub(super) async fn measure(ground: &mut Ground, which: &Which<'_>, stop: &Stop) -> Result<Point, Failure> {
    let Which { experiment, setup, load, round, seed } = which;
    let with = |ground: &Ground, url: &str, time: Duration, keep: bool| {
        let mut command = load.command(url).map_err(Failure::new)?;
        let options = command.workload().expect("the table of experiments has nothing but workloads");
        options.check_url = ground.check_url();
        options.clients = setup.clients.unwrap_or(options.clients);
        options.seed = *seed;
        options.warm_up = experiment.warm_up();
        options.console = ground.console();
        (options.time, options.keep) = (time, keep);
        Ok::<_, Failure>(command)
    };
    slow_disk::set(0, None)?;
    if setup.loads_at_primary() {
        ground.rest()?;
        let loading = with(ground, &ground.primary_url(setup), Duration::ZERO, false)?;
        workloads::measure(&loading, stop, &mut Progress::silent()).await.map_err(crate::failed)?;
        ground.vacuum_primary(setup)?;
        ground.serve(setup).await?;
    } else {
        ground.serve(setup).await?;
        ground.wait_ready().await?;
        let loading = with(ground, &ground.url(), Duration::ZERO, false)?;
        workloads::measure(&loading, stop, &mut Progress::silent()).await.map_err(crate::failed)?;
        ground.wait_ready().await?;
        ground.vacuum_primary(setup)?;
    }
    ground.wait_ready().await?;
    ground.vacuum_replicas(setup)?;
    ground.wait_ready().await?;

    slow_disk::set(load.disk_ms, setup.slow.as_deref())?;
    let meter = Rc::new(RefCell::new(Meter::new(&ground.machines, setup.read_ms)));
    let console = ground.tier_console();
    let tier_before = tier_counts(console.as_deref()).await?;
    let ((strikes, struck), (limits, limited)) = (oneshot::channel(), oneshot::channel());
    let mut progress = watched(&meter, vec![strikes, limits]);
    let measured = with(ground, &ground.url(), experiment.time(), true)?;
    // A waiter for the clients wakes, too, if they never begin: the progress is dropped with its sender.
    let running = async move { workloads::measure(&measured, stop, &mut progress).await };
    let limited = limit(&meter, ground, experiment.unlimited(), limited);
    let struck = faults::strike(ground, which, struck);
    let (report, before, struck) = tokio::join!(running, limited, struck);
    let commits_a_sync =
        Syncs::now(ground).await.zip(before).and_then(|(now, before)| now.commits_of_each(before));
    ground.machines.lift()?;
    slow_disk::set(0, None)?;
    let (report, recovery) = (report.map_err(crate::failed)?, struck?);
    let (mut nodes, machine_busy) = meter.borrow_mut().result()?;
    let machines = ground.machines.clone();
    nodes.retain(|name, _| machines.works_for(setup, name));

    let tier = tier_counts(console.as_deref()).await?.map(|now| now.since(tier_before.unwrap_or_default()));
    ground.heal()?;
    ground.wait_ready().await?;
    let verified = ground.verify().await?;
    let may_be_old = setup.may_be_old();
    let (setup, load) = (setup.name.clone(), load.name.clone());
    Ok(Point {
        round: *round,
        setup,
        load,
        report,
        nodes,
        machine_busy,
        verified,
        commits_a_sync,
        recovery,
        may_be_old,
        tier,
    })
}

async fn tier_counts(console: Option<&str>) -> Result<Option<tier::Counts>, Failure> {
    match console {
        Some(console) => tier::counts(console).await.map(Some),
        None => Ok(None),
    }
}

/// Tells when the clients begin; quotas and counts end with them.
fn watched(meter: &Rc<RefCell<Meter>>, mut began: Vec<oneshot::Sender<()>>) -> Progress {
    let meter = meter.clone();
    Progress::watched(move |phase| match phase {
        // Without a fault there is no receiver.
        Phase::Clients => began.drain(..).for_each(|began| {
            let _ = began.send(());
        }),
        Phase::Checks => meter.borrow_mut().end(),
    })
}

/// Quotas and counts begin so long after the clients. Returns the ledger's count.
async fn limit(
    meter: &RefCell<Meter>,
    ground: &Ground,
    after: Duration,
    began: oneshot::Receiver<()>,
) -> Option<Syncs> {
    began.await.ok()?;
    tokio::time::sleep(after).await;
    meter.borrow_mut().begin();
    Syncs::now(ground).await
}

/// Meter of the machines' usage while clients run.
struct Meter {
    machines: Arc<Machines>,
    /// Milliseconds by which reads of the disk take longer.
    read_ms: u64,
    began: Option<(Count, Instant)>,
    result: Result<Used, postgres::Error>,
}

type Used = (BTreeMap<String, NodeUse>, f64);

struct Count {
    used: BTreeMap<String, Duration>,
    busy: Busy,
}

impl Meter {
    fn new(machines: &Arc<Machines>, read_ms: u64) -> Self {
        let result = Err(postgres::Error::Setup("the clients never ran".to_owned()));
        Self { machines: machines.clone(), read_ms, began: None, result }
    }

    fn begin(&mut self) {
        let slow = slow_disk::set_reads(self.read_ms);
        let slow = slow.map_err(|error| postgres::Error::Setup(format!("reads cannot be delayed: {error}")));
        let counted = slow.and_then(|()| self.machines.limit()).and_then(|()| count(&self.machines));
        match counted {
            Ok(count) => self.began = Some((count, Instant::now())),
            Err(error) => self.result = Err(error),
        }
    }

    fn end(&mut self) {
        let Some((before, since)) = self.began.take() else { return };
        let time = since.elapsed();
        // A file that could be written before can be written now.
        let _ = slow_disk::set_reads(0);
        self.result = count(&self.machines).and_then(|after| {
            self.machines.lift()?;
            let nodes = self.machines.between(&before.used, &after.used, time);
            Ok((nodes, before.busy.until(&after.busy)))
        });
    }

    fn result(&mut self) -> Result<Used, postgres::Error> {
        std::mem::replace(&mut self.result, Ok((BTreeMap::new(), 0.0)))
    }
}

fn count(machines: &Machines) -> Result<Count, postgres::Error> {
    Ok(Count { used: machines.used()?, busy: Busy::now() })
}
