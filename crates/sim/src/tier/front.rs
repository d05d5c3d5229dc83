//! Consort: membership over the nodes' reports, the query log on its disk, and the sessions' way to a node. It follows
//! `memory_tier::front`, whose decisions it shares by `eager_flow`.

use super::node::{Failure, Node, Report, Work, log_follows, progress};
use super::writer::Lists;
use super::{FRONT, World};
use crate::env::Env;
use crate::executor::{Micros, Signal, either};
use eager_flow::{Bugs, Epoch, Epochs, Members, Tags, master_of};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Time between two looks at the nodes.
const LOOK_EVERY: Micros = 2_000;
/// A node that gives no answer within this time is taken for gone.
const ANSWER_LIMIT: Micros = 20_000;
/// The model's time is so much faster than the limits of the decisions.
const FASTER: u64 = 100;
/// A session waits so long for a node.
const PLACE_LIMIT: Micros = 30_000;

/// The disk of Consort: query log and epochs.
pub(crate) struct Disk {
    env: Rc<Env>,
    /// Encoded write sets, from version 1 on.
    pub(crate) log: RefCell<Vec<Vec<u8>>>,
    pub(crate) durable: Cell<u64>,
    pub(crate) epochs: RefCell<Epochs>,
    syncs: Signal,
}

impl Disk {
    pub(crate) fn new(env: &Rc<Env>, bugs: Bugs) -> Disk {
        Disk {
            env: env.clone(),
            log: RefCell::default(),
            durable: Cell::new(0),
            epochs: RefCell::new(Epochs::new(Vec::new(), bugs)),
            syncs: env.executor.signal(),
        }
    }

    pub(crate) fn appended(&self) -> u64 {
        self.log.borrow().len() as u64
    }

    pub(crate) fn append(&self, version: u64, bytes: &[u8]) {
        if version == self.appended() + 1 {
            self.log.borrow_mut().push(bytes.to_vec());
        }
    }

    pub(crate) async fn sync(&self) {
        let appended = self.appended();
        self.env.step(|delays| delays.fsync).await;
        self.durable.set(self.durable.get().max(appended));
        self.syncs.notify();
    }

    /// Drops records that are not durable.
    pub(crate) fn lose_power(&self) {
        self.log.borrow_mut().truncate(usize::try_from(self.durable.get()).expect("few versions"));
    }

    fn above(&self, version: u64) -> Vec<Vec<u8>> {
        let place = |version: u64| usize::try_from(version).expect("few versions");
        let until = self.durable.get();
        self.log.borrow()[place(version.min(until))..place(until)].to_vec()
    }
}

/// Consort's process.
pub(crate) struct Front {
    world: Weak<World>,
    env: Rc<Env>,
    nodes: Vec<Rc<Node>>,
    tags: Cell<Tags>,
    master: Cell<Option<usize>>,
    serves: Vec<Cell<bool>>,
    /// Times that each node was given up.
    given_up: Vec<Cell<u64>>,
    silent: Vec<Cell<bool>>,
    epoch: Cell<u64>,
    members: RefCell<Members>,
    changed: Signal,
    /// The log follows this master's epoch.
    followed: Cell<u64>,
}

impl Front {
    pub(crate) fn new(world: &Rc<World>) -> Rc<Front> {
        let count = world.nodes.len();
        Rc::new(Front {
            world: Rc::downgrade(world),
            env: world.env.clone(),
            nodes: world.nodes.clone(),
            tags: Cell::new(Tags::new(world.bugs)),
            master: Cell::new(None),
            serves: vec![Cell::new(false); count],
            given_up: vec![Cell::new(0); count],
            silent: vec![Cell::new(false); count],
            epoch: Cell::new(world.disk.epochs.borrow().newest()),
            members: RefCell::new(Members::new(world.bugs)),
            changed: world.env.executor.signal(),
            followed: Cell::new(0),
        })
    }

    fn world(&self) -> Rc<World> {
        self.world.upgrade().expect("the world outlives its tasks")
    }

    fn acknowledge(&self, version: u64) {
        let mut tags = self.tags.get();
        tags.acknowledge(version);
        self.tags.set(tags);
    }

    fn gives_up(&self, node: usize) {
        self.given_up[node].set(self.given_up[node].get() + 1);
        self.serves[node].set(false);
        self.changed.notify();
    }

    /// Asks a node, and gives it up when it gives no answer in time.
    async fn order<T: 'static>(
        &self,
        node: usize,
        order: impl AsyncFnOnce(Rc<Node>) -> T + 'static,
    ) -> Option<T> {
        let answer = RefCell::new(None);
        let asked = async { *answer.borrow_mut() = self.nodes[node].ask(order).await };
        either(asked, self.env.executor.sleep(ANSWER_LIMIT)).await;
        answer.into_inner()
    }

    /// Decides on the nodes' parts for ever.
    pub(crate) async fn run(self: Rc<Front>) {
        loop {
            let mut reports = Vec::new();
            for node in 0..self.nodes.len() {
                let report = self.order(node, async |node: Rc<Node>| node.report()).await;
                let was_silent = self.silent[node].replace(report.is_none());
                if report.is_none() && !was_silent {
                    self.gives_up(node);
                }
                reports.push(report);
            }
            match self.master.get() {
                Some(master) if self.leads(reports[master].as_ref()) => {
                    self.integrates(master, &reports).await
                }
                _ => self.chooses(&reports).await,
            };
            let changes = self.changed.wait();
            either(changes, self.env.executor.sleep(LOOK_EVERY)).await;
        }
    }

    fn leads(&self, report: Option<&Report>) -> bool {
        report.is_some_and(|report| report.epoch == self.epoch.get() && report.is_master)
    }

    /// Makes slaves of the other nodes, and members of those that have caught up.
    async fn integrates(self: &Rc<Front>, master: usize, reports: &[Option<Report>]) -> Option<()> {
        let (world, epoch) = (self.world(), self.epoch.get());
        let leader = reports[master].as_ref()?;
        self.acknowledge(leader.received);
        for (node, report) in reports.iter().enumerate().filter(|(node, _)| *node != master) {
            let Some(report) = report else { continue };
            if !(report.epoch == epoch && report.has_part) {
                let keeps = world.disk.epochs.borrow().keeps(report.epoch);
                let support = self.members.borrow().list().iter().copied().find(|one| *one != node);
                let (lead, support) =
                    (self.nodes[master].clone(), self.nodes[support.unwrap_or(master)].clone());
                let known = report.epoch;
                let follows = self.order(node, async move |node: Rc<Node>| {
                    if node.stands((known, epoch), true, keeps) {
                        node.follows(epoch, lead, support);
                    }
                });
                follows.await;
            }
        }
        let of = |(node, report): (usize, &Option<Report>)| {
            let report = report.as_ref().filter(|_| node != master)?;
            Some(progress(report, &self.nodes[node].name(), epoch, leader))
        };
        let nodes: Vec<_> = reports.iter().enumerate().map(of).collect();
        let now = Duration::from_micros(self.env.now() * FASTER);
        let was = self.members.borrow().list().to_vec();
        let members = self.members.borrow_mut().after(&nodes, (leader.received, leader.made), now);
        was.iter().filter(|node| !members.contains(node)).for_each(|node| self.serves[*node].set(false));
        if members != was {
            let names = self.names(&members);
            self.order(master, async move |node: Rc<Node>| node.set_members(epoch, names)).await?;
            self.members.borrow_mut().set(members.clone());
        }
        members.iter().for_each(|node| self.serves[*node].set(true));
        self.follow(master);
        Some(())
    }

    fn names(&self, members: &[usize]) -> Vec<String> {
        let nodes = members.iter().map(|node| self.nodes[*node].name());
        std::iter::once("log".to_owned()).chain(nodes).collect()
    }

    /// Has the log follow the master, if it does not follow this epoch.
    fn follow(self: &Rc<Front>, master: usize) {
        let (world, epoch) = (self.world(), self.epoch.get());
        if self.followed.replace(epoch) == epoch {
            return;
        }
        let (front, node) = (self.clone(), self.nodes[master].clone());
        self.env.executor.spawn(FRONT, async move {
            log_follows(world, node, epoch, || front.followed.get() == epoch).await;
            if front.followed.get() == epoch {
                front.followed.set(0);
                front.changed.notify();
            }
        });
    }

    /// Begins an epoch with the master that has most of what is decided.
    async fn chooses(self: &Rc<Front>, reports: &[Option<Report>]) -> Option<()> {
        let world = self.world();
        let disk = &world.disk;
        if let Some(master) = self.master.take() {
            self.gives_up(master);
        }
        self.members.borrow_mut().begin(0);
        self.serves.iter().for_each(|serves| serves.set(false));
        self.followed.set(0);
        while disk.durable.get() < disk.appended() {
            disk.sync().await;
        }
        let decided = disk.durable.get();
        let each: Vec<_> = reports
            .iter()
            .map(|report| report.as_ref().map(|report| (report.epoch, report.received)))
            .collect();
        let (master, kept) = master_of(&each, decided, &disk.epochs.borrow())?;
        let highest = each.iter().flatten().map(|(epoch, _)| *epoch).max().unwrap_or(0);
        let number = self.epoch.get().max(highest) + 1;
        self.epoch.set(number);
        self.env.step(|delays| delays.fsync).await;
        let epochs = disk.epochs.borrow().with(Epoch { number, decided });
        *disk.epochs.borrow_mut() = epochs;
        let known = each[master].map_or(0, |(epoch, _)| epoch);
        let begun = self.order(master, async move |node: Rc<Node>| {
            node.stands((known, number), false, kept).then(|| node.report().received)
        });
        let has = begun.await??;
        let sets = disk.above(has);
        let names = self.names(&[]);
        let lead = self.order(master, async move |node: Rc<Node>| {
            node.take(number, &sets);
            node.leads(number, decided, &names).then(|| node.report().received)
        });
        let received = lead.await??;
        self.members.borrow_mut().begin(received);
        self.acknowledge(decided);
        self.follow(master);
        self.master.set(Some(master));
        self.changed.notify();
        Some(())
    }

    /// Asks a node for a session; `None`: the connection is lost, or the node was given up.
    async fn session<T: 'static>(
        &self,
        node: usize,
        work: impl AsyncFnOnce(Rc<Node>) -> T + 'static,
    ) -> Option<T> {
        let before = self.given_up[node].get();
        let answer = RefCell::new(None);
        let asked = async { *answer.borrow_mut() = self.nodes[node].ask(work).await };
        let is_lost = async {
            while self.given_up[node].get() == before {
                let changes = self.changed.wait();
                changes.await;
            }
        };
        either(asked, is_lost).await;
        let answer = answer.into_inner();
        if answer.is_none() && self.given_up[node].get() == before {
            self.serves[node].set(false);
            self.changed.notify();
        }
        answer
    }

    /// Waits for a node; `None`: none comes.
    async fn place(&self, node: impl Fn() -> Option<usize>) -> Option<usize> {
        let mut left = PLACE_LIMIT;
        loop {
            if let Some(node) = node() {
                return Some(node);
            }
            left = self.changed.wait_within(left).await?;
        }
    }

    /// Commits a transaction at the master.
    pub(crate) async fn write(&self, work: Work) -> Result<(Option<Lists>, u64), Failure> {
        let master = self.place(|| self.master.get()).await.ok_or(Failure::Elsewhere)?;
        let committed = self.session(master, async move |node: Rc<Node>| node.commit(work).await);
        let (found, version) = committed.await.unwrap_or(Err(Failure::Unknown))?;
        self.acknowledge(version);
        Ok((found, version))
    }

    /// Reads all lists at the newest acknowledged version.
    pub(crate) async fn read(&self) -> Option<(Lists, u64)> {
        let word = self.env.random.borrow_mut().word();
        let serving = || {
            let slaves: Vec<usize> = (0..self.nodes.len()).filter(|node| self.serves[*node].get()).collect();
            let count = slaves.len().max(1) as u64;
            let chosen = slaves.get(usize::try_from(word % count).expect("few nodes")).copied();
            chosen.or(self.master.get())
        };
        let node = self.place(serving).await?;
        let tag = self.tags.get().tag();
        let read = self.session(node, async move |node: Rc<Node>| node.read(tag).await).await??;
        // It may be newer than its tag: later reads elsewhere are not older.
        self.acknowledge(read.1);
        Some(read)
    }

    /// Starts a session's work in Consort's process.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        self.env.executor.spawn(FRONT, work);
    }
}
