//! A tier in memory under one seed: the real versions of pages, line, epochs and members over models of nodes, a network and the
//! query log. Nodes die and hang, subscriptions stand still, Consort is killed.

mod check;
mod client;
mod front;
mod node;
mod writer;

use crate::bugs::Planted;
use crate::env::{Delays, Env};
use crate::executor::Micros;
use crate::random::Random;
use crate::run::Outcome;
use check::{End, Operation};
use front::Front;
use node::Node;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Longer than any run.
const FOR_EVER: Micros = 1 << 40;
/// The group of the clients' tasks.
const CLIENTS: u32 = 860;
/// The group of the tasks that make faults.
const FAULTS: u32 = 861;
/// The group of Consort's tasks.
const FRONT: u32 = 862;
/// The group of the first node's tasks.
const NODES: u32 = 870;
/// Time until every client has ended, at most.
const REST: Micros = 3_000_000;
/// Time in which the nodes get what is left.
const LAST: Micros = 60_000;
/// A process that has died is there again after this.
const RESTART_US: (Micros, Micros) = (2_000, 20_000);

/// The tier and what is recorded of it.
pub(crate) struct World {
    pub(crate) env: Rc<Env>,
    pub(crate) nodes: Vec<Rc<Node>>,
    /// Consort, while it runs.
    pub(crate) front: RefCell<Option<Rc<Front>>>,
    /// The disk of Consort.
    pub(crate) disk: front::Disk,
    pub(crate) record: RefCell<Vec<Operation>>,
    pub(crate) until: Micros,
    pub(crate) think: Micros,
    pub(crate) bugs: eager_flow::Bugs,
    clients: Cell<usize>,
    moments: Cell<u64>,
    lives: Cell<u64>,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A node dies and loses its memory.
    Crash(usize),
    /// A node gives no answer for so long.
    Hang(usize, Micros),
    /// Write sets reach a node no more for so long, and the node answers all the same.
    Stall(usize, Micros),
    /// Consort is killed.
    Kill,
    /// All memory is lost, and Consort is killed.
    All,
}

impl Fault {
    fn drawn(random: &mut Random, nodes: usize) -> Fault {
        let node = usize::try_from(random.below(nodes as u64)).expect("few nodes");
        match random.below(10) {
            0..4 => Fault::Crash(node),
            4..6 => Fault::Hang(node, random.one(&[2_000, 30_000, 60_000])),
            6..8 => Fault::Stall(node, random.one(&[3_000, 40_000, FOR_EVER])),
            8 => Fault::Kill,
            _ => Fault::All,
        }
    }
}

/// Runs one seed with these bugs planted.
pub fn run(seed: u64, planted: Planted) -> Outcome {
    let mut random = Random::new(seed ^ 0x71E6);
    let env = Env::new(seed, Delays::drawn(&mut random), planted.model);
    let count = usize::try_from(random.between(2, 4)).expect("few nodes");
    let kept = random.one(&[100, 400, 1 << 20]);
    let nodes = (0..count).map(|number| Node::new(number, &env, kept, planted.tier, planted.pages));
    let world = Rc::new(World {
        nodes: nodes.collect(),
        front: RefCell::new(None),
        disk: front::Disk::new(&env, planted.tier),
        record: RefCell::default(),
        until: random.between(30_000, 100_000),
        think: random.one(&[500, 1_000, 5_000]),
        bugs: planted.tier,
        clients: Cell::new(0),
        moments: Cell::new(0),
        lives: Cell::new(0),
        env,
    });
    world.start();
    for _ in 0..random.between(2, 6) {
        world.clients.set(world.clients.get() + 1);
        world.env.executor.spawn(CLIENTS, client::behave(world.clone()));
    }
    for _ in 0..random.below(6) {
        let (at, fault) = (random.between(500, world.until), Fault::drawn(&mut random, count));
        world.env.executor.spawn(FAULTS, world.clone().strike(at, fault));
    }
    world.env.executor.run(world.until);
    *world.env.delays.borrow_mut() = Delays::quick();
    let end = world.until + REST;
    while world.clients.get() > 0 && world.env.now() < end {
        world.env.executor.run(world.env.now() + LAST);
    }
    world.env.executor.run(world.env.now() + LAST);
    let outcome = world.judge();
    world.env.executor.end();
    outcome
}

impl World {
    /// The next moment: all moments have one order.
    pub(crate) fn moment(&self) -> u64 {
        self.moments.set(self.moments.get() + 1);
        self.moments.get()
    }

    /// A client has ended.
    pub(crate) fn leaves(&self) {
        self.clients.set(self.clients.get() - 1);
    }

    fn start(self: &Rc<World>) {
        self.lives.set(self.lives.get() + 1);
        let front = Front::new(self);
        *self.front.borrow_mut() = Some(front.clone());
        self.env.executor.spawn(FRONT, front.run());
    }

    async fn kills(self: &Rc<World>) {
        if self.front.borrow_mut().take().is_none() {
            return;
        }
        self.env.executor.kill(FRONT);
        self.disk.lose_power();
        self.pause().await;
        self.start();
    }

    async fn pause(&self) {
        let (least, most) = RESTART_US;
        let pause = self.env.random.borrow_mut().between(least, most);
        self.env.executor.sleep(pause).await;
    }

    async fn strike(self: Rc<World>, at: Micros, fault: Fault) {
        self.env.executor.sleep(at).await;
        match fault {
            Fault::Crash(node) => {
                if self.nodes[node].crash() {
                    self.pause().await;
                    self.nodes[node].start();
                }
            }
            Fault::Hang(node, time) => {
                self.nodes[node].hangs.set(true);
                self.env.executor.sleep(time).await;
                self.nodes[node].hangs.set(false);
                self.nodes[node].moved.notify();
            }
            Fault::Stall(node, time) => {
                self.nodes[node].stalls.set(true);
                self.env.executor.sleep(time).await;
                self.nodes[node].stalls.set(false);
                self.nodes[node].moved.notify();
            }
            Fault::Kill => self.kills().await,
            Fault::All => {
                let crashed: Vec<_> = self.nodes.iter().filter(|node| node.crash()).collect();
                self.kills().await;
                crashed.iter().for_each(|node| node.start());
            }
        }
    }

    fn judge(&self) -> Outcome {
        let mut violations = check::check(self);
        if self.clients.get() > 0 {
            violations.push(check::waits(format!("{} clients wait for ever", self.clients.get())));
        }
        let record = self.record.borrow();
        let ends = |what: fn(&End) -> bool| record.iter().filter(|one| what(&one.end)).count();
        Outcome {
            violations,
            reads: record.iter().filter(|one| one.append.is_none() && one.lists.is_some()).count(),
            commits: ends(|end| matches!(end, End::Done { .. })),
            reasons: [
                ("refused", ends(|end| *end == End::Refused) as u64),
                ("without an answer", ends(|end| *end == End::Unknown) as u64),
                ("lives of Consort", self.lives.get()),
                ("epochs", self.disk.epochs.borrow().newest()),
            ]
            .into(),
            ..Outcome::default()
        }
    }
}
