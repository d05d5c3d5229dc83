//! A node: its store and its part in an epoch. As the master it has the writer and the line, as a slave a subscription.

use super::writer::{Lists, Writer, list};
use super::{NODES, World};
use crate::env::Env;
use crate::executor::{Micros, Signal, once};
use eager_flow::{Bugs, Line, Master, Next, NodeProgress, Standing, commit_eager};
use pages::{Options, Policy, Store, View, WriteSet};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Pause before the next attempt to subscribe.
const AGAIN_AFTER: Micros = 400;
/// A read waits so long for its version.
const VERSION_LIMIT: Micros = 5_000;

/// A node.
pub(crate) struct Node {
    pub(crate) number: usize,
    env: Rc<Env>,
    /// Number of the process; zero: it does not run.
    life: Cell<u64>,
    lives: Cell<u64>,
    pub(crate) hangs: Cell<bool>,
    /// Nothing that its master ships arrives.
    pub(crate) stalls: Cell<bool>,
    store: RefCell<Store>,
    standing: Cell<Standing>,
    is_master: Cell<bool>,
    line: RefCell<Line<WriteSet, Vec<u8>>>,
    /// The writer, if no transaction holds it.
    writer: RefCell<Option<Writer>>,
    /// Something about the node has changed.
    pub(crate) moved: Signal,
    /// A step that must not fail has failed.
    pub(crate) breach: RefCell<Option<String>>,
    kept: usize,
    bugs: Bugs,
    page_bugs: pages::Bugs,
}

/// A report of a node.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) epoch: u64,
    pub(crate) is_master: bool,
    pub(crate) has_part: bool,
    pub(crate) received: u64,
    pub(crate) made: u64,
    pub(crate) acknowledged: Vec<(String, u64)>,
}

/// Failure of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing was changed.
    Elsewhere,
    /// The transaction may have taken effect.
    Unknown,
}

/// A transaction that runs under the writer.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Reads all lists.
    Read,
    /// Appends the item to a list, and maybe to the first one.
    Append(u32, u32, bool),
    /// The same, if the lists are still those.
    AppendIf(u32, u32, Lists),
}

impl Node {
    pub(crate) fn new(
        number: usize,
        env: &Rc<Env>,
        kept: usize,
        bugs: Bugs,
        page_bugs: pages::Bugs,
    ) -> Rc<Node> {
        Rc::new(Node {
            number,
            env: env.clone(),
            life: Cell::new(1),
            lives: Cell::new(1),
            hangs: Cell::new(false),
            stalls: Cell::new(false),
            store: RefCell::new(store(page_bugs)),
            standing: Cell::default(),
            is_master: Cell::new(false),
            line: RefCell::new(Line::new(kept, bugs)),
            writer: RefCell::new(None),
            moved: env.executor.signal(),
            breach: RefCell::default(),
            kept,
            bugs,
            page_bugs,
        })
    }

    fn group(&self) -> u32 {
        NODES + u32::try_from(self.number).expect("few nodes")
    }

    pub(crate) fn name(&self) -> String {
        format!("node{}", self.number)
    }

    /// The process dies. False: it did not run.
    pub(crate) fn crash(&self) -> bool {
        if self.life.replace(0) == 0 {
            return false;
        }
        self.env.executor.kill(self.group());
        *self.store.borrow_mut() = store(self.page_bugs);
        self.standing.set(Standing::default());
        self.is_master.set(false);
        *self.line.borrow_mut() = Line::new(self.kept, self.bugs);
        self.writer.borrow_mut().take();
        self.moved.notify();
        true
    }

    /// The process starts, without anything in its memory.
    pub(crate) fn start(&self) {
        self.lives.set(self.lives.get() + 1);
        self.life.set(self.lives.get());
    }

    pub(crate) fn store(&self) -> Store {
        self.store.borrow().clone()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.life.get() > 0
    }

    async fn until(&self, so: impl Fn() -> bool) {
        while !so() {
            let moves = self.moved.wait();
            moves.await;
        }
    }

    async fn until_it_runs(&self) {
        self.until(|| !self.hangs.get()).await;
    }

    /// Asks the node over the network; `None`: it has died, or cannot be reached.
    pub(crate) async fn ask<T: 'static>(
        self: &Rc<Node>,
        answer: impl AsyncFnOnce(Rc<Node>) -> T + 'static,
    ) -> Option<T> {
        self.env.step(|delays| delays.network).await;
        if !self.is_up() {
            return None;
        }
        let (give, take) = once(&self.env.executor);
        let node = self.clone();
        self.env.executor.spawn(self.group(), async move {
            node.until_it_runs().await;
            give.give(answer(node.clone()).await);
        });
        let answer = take.take().await?;
        self.env.step(|delays| delays.network).await;
        Some(answer)
    }

    pub(crate) fn report(&self) -> Report {
        let line = self.line.borrow();
        let Standing { epoch, has_part } = self.standing.get();
        Report {
            epoch,
            is_master: self.is_master.get() && line.epoch() == Some(epoch),
            has_part,
            received: self.store().received(),
            made: line.made(),
            acknowledged: line.acknowledged(),
        }
    }

    /// Takes a part: versions above the decided one are dropped. False: the order is refused.
    pub(crate) fn stands(&self, (known, epoch): (u64, u64), has_part: bool, decided: u64) -> bool {
        if !self.standing.get().obeys(known, epoch, has_part) {
            return false;
        }
        self.line.borrow_mut().end();
        self.writer.borrow_mut().take();
        self.is_master.set(false);
        if let Some(decided) = Standing::drops_above(self.store().received(), decided, self.bugs)
            && let Err(error) = self.store().discard_above(decided)
        {
            self.breach.replace(Some(format!("{} cannot drop versions: {error}", self.name())));
        }
        self.standing.set(Standing { epoch, has_part });
        self.moved.notify();
        true
    }

    /// Becomes the master.
    pub(crate) fn leads(&self, epoch: u64, decided: u64, members: &[String]) -> bool {
        if !self.stands((epoch, epoch), true, decided) {
            return false;
        }
        let mut writer = Writer::open(&self.store());
        self.line.borrow_mut().begin(epoch, members, writer.version);
        self.is_master.set(true);
        let first = (writer.version == 0).then(|| writer.found());
        if let Some(set) = first {
            self.push(epoch, set);
        }
        *self.writer.borrow_mut() = Some(writer);
        self.moved.notify();
        true
    }

    pub(crate) fn set_members(&self, epoch: u64, names: Vec<String>) {
        self.line.borrow_mut().set_members(epoch, names);
        self.advance();
    }

    /// Takes write sets of the log.
    pub(crate) fn take(&self, epoch: u64, sets: &[Vec<u8>]) {
        for set in sets.iter().filter(|_| self.standing.get().epoch == epoch) {
            let set = WriteSet::decode(set).expect("a whole write set");
            if set.version > self.store().received() {
                let _ = self.store().receive(set);
            }
        }
        self.moved.notify();
    }

    fn push(&self, epoch: u64, set: WriteSet) -> Option<u64> {
        let (version, mut bytes) = (set.version, Vec::new());
        set.encode(&mut bytes);
        let size = bytes.len();
        let is_pushed = self.line.borrow_mut().push(epoch, version, set, (bytes, size));
        self.advance();
        is_pushed.then_some(version)
    }

    fn advance(&self) {
        let store = self.store();
        let mut line = self.line.borrow_mut();
        if line.advance(|_, set| store.receive(set).is_ok()) {
            store.acknowledge(line.shown());
        }
        drop(line);
        store.examine();
        self.moved.notify();
    }

    /// A subscriber has all versions up to this one.
    pub(crate) fn received(&self, epoch: u64, whose: (&str, u64), version: u64) {
        self.line.borrow_mut().received(epoch, whose, version);
        self.advance();
    }

    /// Runs a transaction under the writer: what it has found, and the version that shows it.
    pub(crate) async fn commit(self: Rc<Node>, work: Work) -> Result<(Option<Lists>, u64), Failure> {
        let master = SimMaster { node: self.clone(), epoch: Cell::new(0) };
        let env = self.env.clone();
        let done = commit_eager(&master, async |held: &mut Held| {
            env.step(|delays| delays.work).await;
            held.node.until_it_runs().await;
            let writer = held.writer.as_mut().expect("held");
            let found = writer.lists();
            match work {
                Work::Read => (Some(found), None),
                Work::Append(list, item, both) => (Some(found), Some(writer.append(list, item, both))),
                Work::AppendIf(_, _, read) if read != found => (None, None),
                Work::AppendIf(list, item, _) => (Some(found), Some(writer.append(list, item, true))),
            }
        });
        done.await
    }

    /// Reads all lists at a version, one after the other.
    pub(crate) async fn read(self: Rc<Node>, tag: u64) -> Option<(Lists, u64)> {
        let mut left = VERSION_LIMIT;
        while self.store().received() < tag {
            left = self.moved.wait_within(left).await?;
        }
        let view = View::begin(&self.store(), tag).ok()?;
        let mut lists = Vec::new();
        for place in 0..super::writer::LISTS {
            self.env.step(|delays| delays.work).await;
            self.until_it_runs().await;
            lists.push(list(&view, place)?);
        }
        Some((lists, view.at()))
    }

    /// Follows the master for as long as the epoch lasts.
    pub(crate) fn follows(self: &Rc<Node>, epoch: u64, master: Rc<Node>, support: Rc<Node>) {
        let node = self.clone();
        self.env.executor.spawn(self.group(), async move {
            while node.standing.get().epoch == epoch {
                node.subscribe(epoch, &master, &support).await;
                node.env.executor.sleep(AGAIN_AFTER).await;
            }
        });
    }

    /// One subscription, until it breaks.
    async fn subscribe(&self, epoch: u64, master: &Rc<Node>, support: &Rc<Node>) {
        let (store, name, life) = (self.store(), self.name(), master.life.get());
        self.env.step(|delays| delays.network).await;
        if !is_master(master, life, epoch) {
            return;
        }
        let has_all = master.line.borrow().keeps_above(store.received());
        let mut above = store.received();
        if !has_all {
            above = master.line.borrow().shown();
            // The support may have been left out meanwhile.
            if !self.copies(epoch, support, above).await && !self.copies(epoch, master, above).await {
                return;
            }
        }
        let number = master.line.borrow_mut().subscribe();
        loop {
            self.env.step(|delays| delays.network).await;
            self.until(|| !self.stalls.get() && !self.hangs.get()).await;
            master.until_it_runs().await;
            if !is_master(master, life, epoch) {
                return master.line.borrow_mut().leave(epoch, (&name, number));
            }
            master.received(epoch, (&name, number), store.received());
            let Some(sets) = master.ships(life, epoch, above).await else {
                return master.line.borrow_mut().leave(epoch, (&name, number));
            };
            let decided = master.line.borrow().shown();
            self.env.step(|delays| delays.network).await;
            self.until(|| !self.stalls.get() && !self.hangs.get()).await;
            for (version, bytes) in sets {
                above = version;
                if self.standing.get().epoch != epoch {
                    return;
                }
                if version > store.received() {
                    let set = WriteSet::decode(&bytes).expect("a whole write set");
                    if store.receive(set).is_err() {
                        return;
                    }
                }
                store.acknowledge(decided.min(store.received()));
            }
            store.examine();
            self.moved.notify();
        }
    }

    /// Write sets above a version, when there are some; `None`: the subscription ends.
    pub(crate) async fn ships(&self, life: u64, epoch: u64, above: u64) -> Option<Vec<(u64, Rc<Vec<u8>>)>> {
        loop {
            let moves = self.moved.wait();
            self.until_it_runs().await;
            if self.life.get() != life {
                return None;
            }
            match self.line.borrow().next(epoch, above) {
                Next::Sets(sets) if !sets.is_empty() => {
                    let sets = sets.into_iter().map(|(version, bytes)| (version, Rc::new(bytes.to_vec())));
                    return Some(sets.collect());
                }
                Next::Sets(_) => {}
                Next::TooOld | Next::Over => return None,
            }
            moves.await;
        }
    }

    /// Copies the pages that have changed since the node's version from another node. False: it failed.
    async fn copies(&self, epoch: u64, support: &Rc<Node>, at_least: u64) -> bool {
        let newer_than = self.store().received();
        let copied = support.ask(async move |support: Rc<Node>| {
            if support.store().received() < at_least {
                return None;
            }
            let mut at = at_least;
            let images = loop {
                match support.store().images(newer_than, at) {
                    Ok(images) => break images,
                    Err(pages::Error::Gone { oldest, .. }) if oldest > at => at = oldest,
                    Err(_) => return None,
                }
            };
            let pages =
                images.map(|image| image.map(|(number, version, page)| (number, version, Box::new(*page))));
            Some((pages.collect::<Result<Vec<_>, _>>().ok()?, at))
        });
        let Some(Some((pages, at))) = copied.await else { return false };
        self.until_it_runs().await;
        self.standing.get().epoch == epoch && self.store().load(at, pages.into_iter()).is_ok()
    }
}

fn is_master(node: &Node, life: u64, epoch: u64) -> bool {
    life > 0 && node.life.get() == life && node.line.borrow().epoch() == Some(epoch)
}

fn store(bugs: pages::Bugs) -> Store {
    Store::with_bugs(Options { policy: Policy::Keep, max_bytes: usize::MAX }, bugs)
}

/// The progress of a node, as the front judges it.
pub(crate) fn progress(report: &Report, name: &str, epoch: u64, master: &Report) -> NodeProgress {
    let heard =
        master.acknowledged.iter().find(|(known, _)| known == name).map_or(0, |(_, version)| *version);
    NodeProgress {
        follows: report.epoch == epoch && report.has_part && !report.is_master,
        received: report.received.min(heard),
    }
}

/// The query log follows a master until the connection ends.
pub(crate) async fn log_follows(
    world: Rc<World>,
    master: Rc<Node>,
    epoch: u64,
    is_current: impl Fn() -> bool,
) {
    let disk = &world.disk;
    let (life, number) = (master.life.get(), master.line.borrow_mut().subscribe());
    let mut above = disk.appended();
    loop {
        world.env.step(|delays| delays.network).await;
        if !is_master(&master, life, epoch) || !is_current() {
            return;
        }
        master.received(epoch, ("log", number), disk.durable.get());
        let Some(sets) = master.ships(life, epoch, above).await else { return };
        world.env.step(|delays| delays.network).await;
        if !is_current() {
            return;
        }
        for (version, bytes) in sets {
            above = version;
            disk.append(version, &bytes);
        }
        disk.sync().await;
    }
}

/// The master of a transaction.
struct SimMaster {
    node: Rc<Node>,
    epoch: Cell<u64>,
}

/// The writer while it is held.
struct Held {
    node: Rc<Node>,
    epoch: u64,
    writer: Option<Writer>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.node.line.borrow().epoch() == Some(self.epoch) {
            *self.node.writer.borrow_mut() = self.writer.take();
        }
        self.node.moved.notify();
    }
}

impl Master for SimMaster {
    type Writer = Held;
    type WriteSet = WriteSet;
    type Failure = Failure;

    async fn writer(&self) -> Result<Held, Failure> {
        loop {
            let moves = self.node.moved.wait();
            let epoch = self.node.line.borrow().epoch().ok_or(Failure::Elsewhere)?;
            let writer = self.node.writer.borrow_mut().take();
            if writer.is_some() {
                self.epoch.set(epoch);
                return Ok(Held { node: self.node.clone(), epoch, writer });
            }
            moves.await;
        }
    }

    fn push(&self, writer: &Held, set: WriteSet) -> Result<u64, Failure> {
        self.node.push(writer.epoch, set).ok_or(Failure::Elsewhere)
    }

    fn made(&self, _: &Held) -> u64 {
        self.node.line.borrow().made()
    }

    async fn until_shown(&self, version: u64, is_change: bool) -> Result<(), Failure> {
        loop {
            let moves = self.node.moved.wait();
            let shown = self.node.line.borrow().has_shown(self.epoch.get(), version);
            match shown {
                Some(true) => return Ok(()),
                Some(false) => drop(moves.await),
                None if is_change => return Err(Failure::Unknown),
                None => return Err(Failure::Elsewhere),
            }
        }
    }

    fn bugs(&self) -> Bugs {
        self.node.bugs
    }
}
