//! One life of Consort: the order with its real ledger, which writes when the simulated disk has taken its time; the appliers;
//! and the task that forgets records.

use super::Mix;
use super::applier;
use super::engine::Engine;
use super::write_set::Effects;
use crate::env::Env;
use crate::executor::{Micros, Signal};
use certified_flow::{Bugs, CommitOrder, Order};
use disk::{Disk, Fault, Faults};
use history::Version;
use ledger::{Ledger, Steps, points};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

/// The group of the tasks of Consort's process.
pub(crate) const PROCESS: u32 = 750;
/// Records are forgotten this often while clients rest.
const REST_FORGET_EVERY: Micros = 1_000_000;
/// The folder of the ledger on the simulated disk.
const FOLDER: &str = "/ledger";
/// Bytes of a segment: few, so that some are forgotten.
const SEGMENT_BYTES: u64 = 150;

/// The database at one node.
pub(crate) type Site = certified_flow::Site<Life>;

/// Knowledge of one life of a node's server.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// The keeper of the order of commits there; `None` until the node has caught up: no session can begin before.
    pub(crate) commit_order: Option<CommitOrder>,
}

/// See the file's first lines.
pub(crate) struct Process {
    pub(crate) number: u64,
    pub(crate) env: Rc<Env>,
    pub(crate) mix: Mix,
    pub(crate) order: Order<Effects, Life>,
    pub(crate) engines: Vec<Rc<Engine>>,
    steps: RefCell<Steps>,
    /// Something may wait for the ledger's writer.
    appended: Signal,
    /// The ledger has failed: the process must stop.
    failed: Cell<bool>,
    fails: Signal,
}

impl Process {
    /// Starts the process: opens the ledger, and has the appliers begin.
    ///
    /// # Errors
    /// The ledger cannot be opened.
    pub(crate) fn start(
        number: u64,
        env: &Rc<Env>,
        mix: Mix,
        engines: &[Rc<Engine>],
        faults: &Faults,
        fails: &Signal,
        bugs: Bugs,
    ) -> Result<Rc<Process>, String> {
        let options = ledger::Options { segment_size: SEGMENT_BYTES };
        let opened = Ledger::open_stepped(Path::new(FOLDER), &Disk::with_faults(faults), options);
        let (ledger, reader, steps) = opened.map_err(|error| error.to_string())?;
        let options =
            certified_flow::Options { nodes: (0..engines.len()).collect(), window: mix.window, bugs };
        let process = Rc::new(Process {
            number,
            env: env.clone(),
            mix,
            order: Order::open(options, ledger, reader)?,
            engines: engines.to_vec(),
            steps: RefCell::new(steps),
            appended: env.executor.signal(),
            failed: Cell::new(false),
            fails: fails.clone(),
        });
        let spawn = |task: std::pin::Pin<Box<dyn Future<Output = ()>>>| env.executor.spawn(PROCESS, task);
        let this = process.clone();
        spawn(Box::pin(async move { this.writes().await }));
        let this = process.clone();
        spawn(Box::pin(async move { this.forgets().await }));
        for number in 0..engines.len() {
            let this = process.clone();
            spawn(Box::pin(async move { applier::run(&this, number).await }));
        }
        Ok(process)
    }

    /// The database at a node.
    pub(crate) fn site(&self, number: usize) -> Rc<Site> {
        self.order.site(number).expect("no node leaves")
    }

    /// The node with the fewest sessions among those that take some.
    pub(crate) fn place(&self) -> Option<usize> {
        let up = self.order.sites().into_iter().filter(|site| site.is_up());
        up.min_by_key(|site| site.sessions()).map(|site| site.number)
    }

    /// A record is about to be appended.
    pub(crate) fn appends(&self) {
        self.appended.notify();
    }

    /// Groups of records, each with one sync, after the time that the disk takes.
    async fn writes(&self) {
        loop {
            let appended = self.appended.wait();
            if !self.steps.borrow().has_work() {
                appended.await;
                continue;
            }
            self.env.step(|delays| delays.fsync).await;
            if self.steps.borrow_mut().step().is_err() {
                self.failed.set(true);
                return self.fails.notify();
            }
        }
    }

    /// Whether the ledger has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// The writer is in the midst of its group when the process is killed: a part is written, or all of it and not synced.
    pub(crate) fn tear(&self, faults: &Faults, torn: Option<usize>) {
        match torn {
            Some(bytes) => faults.plan(points::WRITE, Fault::Torn(bytes)),
            None => faults.plan(points::SYNC, Fault::broken()),
        }
        if self.steps.borrow().has_work() {
            // It fails, and the process is killed.
            drop(self.steps.borrow_mut().step());
        }
    }

    /// Forgets again and again what every node has on its disk, as `certified::placement` does.
    async fn forgets(&self) {
        loop {
            let rests = self.env.now() > self.mix.until;
            self.env.executor.sleep(if rests { REST_FORGET_EVERY } else { self.mix.forget_every }).await;
            for site in self.order.sites() {
                if site.is_up() && site.visible() > site.flushed() {
                    self.flush(&site).await;
                }
            }
            self.order.forget(None);
            self.appended.notify();
        }
    }

    /// Brings what a node shows to its disk, as `certified::applier::flush` does.
    async fn flush(&self, site: &Site) {
        let engine = &self.engines[site.number];
        let Some(pid) = engine.connect(self.number, true) else { return };
        engine.network().await;
        if engine.is_connected(pid) {
            let shown = site.visible().min(engine.shown());
            engine.network().await;
            self.env.step(|delays| delays.fsync).await;
            if engine.is_connected(pid) {
                engine.prune(site.bringing.prunable(shown));
                engine.flush();
                site.has_flushed(shown);
            }
        }
        engine.terminate(pid);
    }

    /// The newest version.
    pub(crate) fn newest(&self) -> Version {
        self.order.newest()
    }
}
