//! Clusters whose nodes all take writes: the real certifier, ledger and flows over models of nodes and a simulated disk, under
//! one seed. Nodes die and hang, connections are cut, Consort is killed and its ledger torn.

mod applier;
mod check;
mod client;
mod engine;
mod order;
mod process;
mod session;
mod timer;
mod write_set;

use crate::bugs::Planted;
use crate::env::{Delays, Env};
use crate::executor::{Micros, Signal};
use crate::random::Random;
use crate::run::Outcome;
use certified_flow::{Bugs, CommitOrder};
use check::{End, Record};
use disk::Faults;
use engine::Engine;
use history::Version;
use process::{PROCESS, Process};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The group of the clients' tasks.
const CLIENTS: u32 = 760;
/// The group of the tasks that make faults.
const FAULTS: u32 = 761;
/// Time until everything is at rest: several of the flows' longest limits.
const REST: Micros = 60_000_000;
/// A server that has died is there again after this at least: what was on its way over the network is over.
const RESTART_US: (Micros, Micros) = (2_000, 20_000);

/// Probabilities and sizes of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) until: Micros,
    pub(crate) think: Micros,
    /// Records that the certifier remembers.
    pub(crate) window: usize,
    /// Records that are applied in one transaction at most.
    pub(crate) group: usize,
    /// Sessions flush their commits.
    pub(crate) flushes: bool,
    pub(crate) forget_every: Micros,
}

/// The cluster and what is recorded of it.
pub(crate) struct World {
    pub(crate) env: Rc<Env>,
    pub(crate) mix: Mix,
    pub(crate) record: Rc<RefCell<Record>>,
    /// Consort, while it runs.
    pub(crate) process: RefCell<Option<Rc<Process>>>,
    engines: Vec<Rc<Engine>>,
    faults: Faults,
    bugs: Bugs,
    lives: Cell<u64>,
    /// The ledger of a process has failed.
    fails: Signal,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
enum Strike {
    /// A node dies; so many commits in a thousand of those in memory are kept.
    Crash { node: usize, written: u64 },
    /// A node gives no answer for so long.
    Hang { node: usize, time: Micros },
    /// The connection of a session that has written something is cut.
    Cut { node: usize, which: u64 },
    /// Consort is killed. Its ledger's writer may be in the midst of a group, and the machine may lose power.
    Kill { torn: Option<usize>, tears: bool, power: Option<u64> },
    /// The disk of the ledger fails once.
    Disk,
    /// All nodes and Consort die at once.
    All { power: u64 },
}

impl Strike {
    fn drawn(random: &mut Random, nodes: usize) -> Strike {
        let node = usize::try_from(random.below(nodes as u64)).expect("few nodes");
        let torn = random.chance(500).then(|| usize::try_from(random.below(300)).expect("few bytes"));
        match random.below(13) {
            0..4 => Strike::Crash { node, written: random.below(1001) },
            4 => Strike::Hang { node, time: random.one(&[3_000, 20_000, 3_000_000, 8_000_000]) },
            5..8 => Strike::Cut { node, which: random.word() },
            8..11 => {
                let power = random.chance(600).then(|| random.word());
                Strike::Kill { torn, tears: random.chance(600), power }
            }
            11 => Strike::Disk,
            _ => Strike::All { power: random.word() },
        }
    }
}

/// Runs one seed with these bugs planted.
pub fn run(seed: u64, planted: Planted) -> Outcome {
    run_over(seed, planted, |_| CommitOrder::Sessions)
}

/// The same with nodes that keep the order of commits: several COMMITs are under way at once.
pub fn run_ordered(seed: u64, planted: Planted) -> Outcome {
    run_over(seed ^ 0x0DE2_0000, planted, |random| random.one(&[CommitOrder::Gate, CommitOrder::Chain]))
}

fn run_over(seed: u64, planted: Planted, keeps_order: fn(&mut Random) -> CommitOrder) -> Outcome {
    let mut random = Random::new(seed ^ 0xCE27);
    let env = Env::new(seed, Delays::drawn(&mut random), planted.model);
    let mix = Mix {
        until: random.between(20_000, 80_000),
        think: random.one(&[100, 500, 3_000]),
        window: random.one(&[8, 100_000, 100_000]),
        group: random.one(&[1, 3, 100]),
        flushes: random.chance(300),
        forget_every: random.one(&[1_000, 5_000, 20_000]),
    };
    let record = Rc::new(RefCell::new(Record::default()));
    let nodes = usize::try_from(random.between(2, 4)).expect("few nodes");
    let is_durable = random.chance(300);
    let engine = |number| {
        let keeps_order = keeps_order(&mut random);
        // Commits that wait for their turn are in memory.
        let is_durable = is_durable && keeps_order == CommitOrder::Sessions;
        Engine::new(number, &env, is_durable, keeps_order, &record)
    };
    let engines = (0..nodes).map(engine).collect();
    let world = Rc::new(World {
        fails: env.executor.signal(),
        env,
        mix,
        record,
        process: RefCell::new(None),
        engines,
        faults: Faults::in_memory(),
        bugs: planted.certified,
        lives: Cell::new(0),
    });
    world.start();
    for _ in 0..random.between(2, 6) {
        world.record.borrow_mut().clients += 1;
        world.env.executor.spawn(CLIENTS, client::behave(world.clone()));
    }
    world.env.executor.spawn(FAULTS, world.clone().supervises());
    for _ in 0..random.below(7) {
        let (at, strike) = (random.between(500, mix.until), Strike::drawn(&mut random, nodes));
        world.env.executor.spawn(FAULTS, world.clone().strikes(at, strike));
    }
    world.env.executor.run(mix.until);
    *world.env.delays.borrow_mut() = Delays::quick();
    world.env.executor.run(mix.until + REST);
    let outcome = world.judge();
    world.env.executor.end();
    outcome
}

impl World {
    /// Starts Consort, if it does not run.
    fn start(&self) {
        if self.process.borrow().is_some() {
            return;
        }
        self.lives.set(self.lives.get() + 1);
        let World { env, mix, engines, faults, fails, bugs, lives, .. } = self;
        match Process::start(lives.get(), env, *mix, engines, faults, fails, *bugs) {
            Ok(process) => *self.process.borrow_mut() = Some(process),
            Err(why) => self.record.borrow_mut().breach(format!("Consort does not start: {why}")),
        }
    }

    /// Kills Consort. The sockets of its sessions are closed: servers end their backends when they hear of it.
    fn kill(&self) {
        let Some(process) = self.process.borrow_mut().take() else { return };
        self.env.executor.kill(PROCESS);
        let number = process.number;
        drop(process);
        for engine in &self.engines {
            let engine = engine.clone();
            let hears = self.env.random.borrow_mut().between(1, 5_000);
            self.env.executor.spawn(engine::group(engine.number), async move {
                engine.env.executor.sleep(hears).await;
                engine.network().await;
                engine.terminate_all(|process, is_applier, _| process == number && !is_applier);
            });
        }
    }

    async fn restarts_later(&self) {
        let (least, most) = RESTART_US;
        let pause = self.env.random.borrow_mut().between(least, most);
        self.env.executor.sleep(pause).await;
    }

    /// Kills and starts Consort when its ledger has failed, as whoever runs it does.
    async fn supervises(self: Rc<World>) {
        loop {
            let fails = self.fails.wait();
            let has_failed = self.process.borrow().as_ref().is_some_and(|process| process.has_failed());
            match has_failed {
                true => self.killed(None).await,
                false => drop(fails.await),
            }
        }
    }

    async fn strikes(self: Rc<World>, at: Micros, strike: Strike) {
        self.env.executor.sleep(at).await;
        match strike {
            Strike::Crash { node, written } => self.crashes(node, written).await,
            Strike::Hang { node, time } => {
                self.engines[node].hangs(true);
                self.env.executor.sleep(time).await;
                self.engines[node].hangs(false);
            }
            Strike::Cut { node, which } => self.engines[node].cut_one(which),
            Strike::Kill { torn, tears, power } => {
                if let Some(process) = self.process.borrow().as_ref().filter(|_| tears) {
                    process.tear(&self.faults, torn);
                }
                self.killed(power).await;
            }
            Strike::Disk => self.faults.plan(ledger::points::SYNC, disk::Fault::broken()),
            Strike::All { power } => {
                let all: Vec<usize> =
                    (0..self.engines.len()).filter(|node| self.engines[*node].is_up()).collect();
                all.iter().for_each(|node| self.engines[*node].crash(power % 1001));
                self.killed(Some(power)).await;
                all.iter().for_each(|node| self.engines[*node].restart());
            }
        }
    }

    async fn killed(&self, power: Option<u64>) {
        self.kill();
        ledger_faults_end(&self.faults);
        if let Some(seed) = power {
            self.faults.lose_power(seed).expect("a disk in memory can be written");
        }
        self.restarts_later().await;
        self.start();
    }

    async fn crashes(&self, node: usize, written: u64) {
        if self.engines[node].is_up() {
            self.engines[node].crash(written);
            self.restarts_later().await;
            self.engines[node].restart();
        }
    }

    fn judge(&self) -> Outcome {
        let newest = self.process.borrow().as_ref().map_or(Version::ZERO, |process| process.newest());
        let record = self.record.borrow();
        let ends = |what: fn(&End) -> bool| record.transactions.iter().filter(|one| what(&one.end)).count();
        Outcome {
            violations: check::check(&record, &self.engines, newest),
            reads: record.transactions.iter().map(|one| one.reads.len()).sum(),
            commits: ends(|end| matches!(end, End::Committed(_))),
            reasons: [
                ("refused", ends(|end| *end == End::Refused) as u64),
                ("without an answer", ends(|end| matches!(end, End::Unknown | End::Open)) as u64),
                ("versions", newest.get()),
                ("lives of Consort", self.lives.get()),
            ]
            .into(),
            ..Outcome::default()
        }
    }
}

/// Faults that no operation has met end with the process.
fn ledger_faults_end(faults: &Faults) {
    for point in [ledger::points::WRITE, ledger::points::SYNC] {
        faults.clear(point);
    }
}
