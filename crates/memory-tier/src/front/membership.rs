//! Which node is the master, which nodes are slaves, and what happens when one fails.
//!
//! The front decides alone. It looks at all nodes again and again, and at once when a session has lost a node. Each change of
//! the master is an epoch; nodes obey the newest one that they have heard of.
//!
//! # Invariants
//!
//! - Decided is what is durable in the log. It is never dropped; what only nodes have is.
//! - An epoch is durable before a node hears of it.
//! - A node that does not answer is no member, and serves no reads, from the first look on that misses it.

use super::checkpoint;
use super::log::{Log, read};
use super::tier_state::Tier;
use crate::message::{self, Hello, Order, Part, Purpose, Report, SILENCE_LIMIT, State, Version};
use eager_flow::{Bugs, Epoch, Members, NodeProgress, master_of};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};

/// Time between two looks at the nodes.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A node that gives no answer within this time is taken for gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Orders that move many pages take longer.
const LOAD_LIMIT: Duration = Duration::from_secs(60);
/// The query log becomes durable within this time, or the next look tries again.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of the log after which a checkpoint is made.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// Time between two looks at the log's growth.
const CHECKPOINT_LOOK: Duration = Duration::from_secs(5);
/// The first master is chosen when every node has answered, or after this time.
const FIRST_LIMIT: Duration = Duration::from_secs(5);

/// The control connection to a node.
#[derive(Default)]
struct Control {
    stream: Mutex<Option<BufReader<TcpStream>>>,
}

/// Decides on the nodes' parts.
pub struct Membership {
    tier: Rc<Tier>,
    log: Rc<Log>,
    controls: Vec<Control>,
    epoch: Cell<u64>,
    members: RefCell<Members>,
    began: Instant,
    subscription: RefCell<Option<JoinHandle<()>>>,
    fatal: RefCell<Option<String>>,
}

impl Membership {
    /// Nothing is decided yet.
    pub fn new(tier: Rc<Tier>, log: Rc<Log>) -> Rc<Membership> {
        let controls = tier.options.nodes.iter().map(|_| Control::default()).collect();
        let epoch = Cell::new(log.epoch());
        Rc::new(Membership {
            tier,
            log,
            controls,
            epoch,
            members: RefCell::new(Members::new(Bugs::default())),
            began: Instant::now(),
            subscription: RefCell::default(),
            fatal: RefCell::default(),
        })
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Decides for ever. Completes with the reason when the process must stop.
    pub async fn run(self: &Rc<Membership>) -> String {
        loop {
            self.tier.look_begins();
            let states = self.look().await;
            let may_choose = self.began.elapsed() > FIRST_LIMIT || states.iter().all(Option::is_some);
            let done = match self.tier.master() {
                Some(master) if self.leads(states[master].as_ref()) => self.integrate(master, &states).await,
                _ if may_choose || self.tier.newest() > 0 => self.choose(&states).await,
                _ => Ok(()),
            };
            if let Err(error) = done {
                tracing::warn!(%error, "the nodes' parts are not settled; trying again");
            }
            if let Some(why) = self.fatal.take() {
                return why;
            }
            tokio::select! {
                () = sleep(LOOK_EVERY) => {}
                (node, why) = self.tier.failure() => {
                    tracing::info!(node = self.tier.options.nodes[node].name, why, "a session has lost the node");
                }
                why = self.log.failed() => return format!("the query log has failed: {why}"),
            }
        }
    }

    /// Gives a node an order.
    ///
    /// # Errors
    /// The node does not answer, or refuses.
    pub async fn order(&self, node: usize, order: &Order) -> io::Result<Report> {
        let limit = match order {
            Order::Take { .. } | Order::Load { .. } | Order::Hash { .. } | Order::Become { .. } => LOAD_LIMIT,
            _ => ANSWER_LIMIT,
        };
        let mut held = self.controls[node].stream.lock().await;
        // What has not been answered in time is never answered on this connection.
        let open = held.take();
        let ask = async {
            let mut stream = match open {
                Some(stream) => stream,
                None => self.connect(node).await?,
            };
            stream.get_mut().write_all(&message::frame(order)).await?;
            let report: Report = read(&mut stream).await?;
            Ok::<_, io::Error>((stream, report))
        };
        let (stream, report) =
            timeout(limit, ask).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        *held = Some(stream);
        match report {
            Report::Refused(why) => Err(io::Error::other(why)),
            report => Ok(report),
        }
    }

    async fn connect(&self, node: usize) -> io::Result<BufReader<TcpStream>> {
        let mut stream = self.tier.options.connect(node).await?;
        let hello = Hello { secret: self.tier.options.secret.clone(), purpose: Purpose::Control };
        stream.write_all(&message::frame(&hello)).await?;
        Ok(BufReader::new(stream))
    }

    /// The order's answer as a state.
    async fn state_after(&self, node: usize, order: &Order) -> io::Result<State> {
        match self.order(node, order).await? {
            Report::State(state) => Ok(state),
            Report::Hash(_) | Report::Refused(_) => Err(io::Error::other("an answer to another order")),
        }
    }

    /// Asks every node how it is.
    async fn look(self: &Rc<Membership>) -> Vec<Option<State>> {
        let asked: Vec<_> = (0..self.controls.len())
            .map(|node| {
                let this = self.clone();
                spawn_local(async move { this.state_after(node, &Order::Report).await })
            })
            .collect();
        let mut states = Vec::new();
        for (node, asked) in asked.into_iter().enumerate() {
            let state = match asked.await {
                Ok(Ok(state)) => Some(state),
                Ok(Err(error)) => {
                    if self.tier.state(node).is_some() {
                        self.tier.give_up(node);
                    }
                    let why = format!("no answer: {error}");
                    if self.tier.why(node) != why {
                        let options = &self.tier.options.nodes[node];
                        tracing::warn!(node = options.name, address = options.address, why, "a node is lost");
                    }
                    self.tier.set_serves(node, false, &why);
                    None
                }
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            self.tier.set_state(node, state.clone());
            states.push(state);
        }
        states
    }

    /// Whether a node is the master of this epoch.
    fn leads(&self, state: Option<&State>) -> bool {
        state
            .is_some_and(|state| state.epoch == self.epoch.get() && matches!(state.part, Part::Master { .. }))
    }

    /// Makes slaves of the other nodes, and members of those that have caught up.
    async fn integrate(self: &Rc<Membership>, master: usize, states: &[Option<State>]) -> io::Result<()> {
        let epoch = self.epoch.get();
        let Some(leader) = &states[master] else { return Ok(()) };
        // What the master shows is decided, also if the session that waited for it was lost.
        self.tier.acknowledged(leader.received);
        let follows = |state: &State| state.epoch == epoch && matches!(state.part, Part::Slave { .. });
        for (node, state) in states.iter().enumerate().filter(|(node, _)| *node != master) {
            let Some(state) = state else { continue };
            if state.epoch > epoch {
                // Another front has ruled it.
                return self.choose(states).await;
            }
            if !follows(state) {
                self.enlist(node, master, state).await.unwrap_or_else(|error| {
                    self.tier.set_serves(node, false, &format!("not a slave yet: {error}"));
                });
            }
        }
        // A node that stands still may receive and not say so: what the master has heard counts.
        let heard = |node: usize| {
            let name = &self.tier.options.nodes[node].name;
            leader.acknowledged.iter().find(|(known, _)| known == name).map_or(0, |(_, version)| *version)
        };
        let progress = |(node, state): (usize, &Option<State>)| {
            let state = state.as_ref().filter(|_| node != master)?;
            Some(NodeProgress { follows: follows(state), received: state.received.min(heard(node)) })
        };
        let nodes: Vec<_> = states.iter().enumerate().map(progress).collect();
        let newest = (leader.received, leader.made);
        let was = self.members.borrow().list().to_vec();
        let members = self.members.borrow_mut().after(&nodes, newest, self.began.elapsed());
        for node in was.iter().filter(|node| !members.contains(node)) {
            if self.tier.serves(*node) {
                self.tier.set_serves(*node, false, "not caught up yet");
            }
        }
        if members != was {
            let names = self.names(&members);
            tracing::info!(epoch, members = names.join(", "), "members change");
            self.order(master, &Order::Members { epoch, names }).await?;
            self.members.borrow_mut().set(members.clone());
        }
        for node in members {
            if !self.tier.serves(node) {
                self.tier.set_serves(node, true, "");
            }
        }
        self.subscribe_log(master);
        self.tier.look_settles();
        Ok(())
    }

    /// Subscribers whose acknowledgement a commit needs: the log and these nodes.
    fn names(&self, members: &[usize]) -> Vec<String> {
        let nodes = members.iter().map(|node| self.tier.options.nodes[*node].name.clone());
        std::iter::once(crate::LOG.to_owned()).chain(nodes).collect()
    }

    /// Makes a node a slave of the master.
    async fn enlist(&self, node: usize, master: usize, state: &State) -> io::Result<()> {
        let support =
            self.members.borrow().list().iter().copied().find(|member| *member != node).unwrap_or(master);
        let address = |node: usize| self.tier.options.nodes[node].address.clone();
        let part = Part::Slave {
            name: self.tier.options.nodes[node].name.clone(),
            master: address(master),
            support: address(support),
        };
        let decided = self.log.epochs().keeps(state.epoch);
        self.order(node, &Order::Become { known: state.epoch, epoch: self.epoch.get(), decided, part })
            .await
            .map(drop)
    }

    /// Begins an epoch with the master that has most of what is decided.
    async fn choose(self: &Rc<Membership>, states: &[Option<State>]) -> io::Result<()> {
        if let Some(subscription) = self.subscription.take() {
            subscription.abort();
            let _ = subscription.await;
        }
        if let Some(master) = self.tier.master() {
            self.tier.give_up(master);
        }
        self.tier.set_master(None);
        self.members.borrow_mut().begin(0);
        let answer = (0..states.len()).filter(|node| states[*node].is_some());
        answer.for_each(|node| {
            self.tier.set_serves(node, false, "an epoch begins when the query log is durable")
        });
        let decided = match timeout(SETTLE_LIMIT, self.log.settled()).await {
            Ok(Ok(decided)) => decided,
            Err(_) => return Err(io::Error::other("the disk of the query log does not answer")),
            Ok(Err(why)) => {
                self.fatal.replace(Some(format!("the query log has failed: {why}")));
                return Ok(());
            }
        };
        let epochs = self.log.epochs();
        let each: Vec<_> =
            states.iter().map(|state| state.as_ref().map(|state| (state.epoch, state.received))).collect();
        let Some((master, kept)) = master_of(&each, decided, &epochs) else { return Ok(()) };
        let highest = each.iter().flatten().map(|(epoch, _)| *epoch).max().unwrap_or(0);
        let number = self.epoch.get().max(highest) + 1;
        if let Err(error) = self.log.begins(Epoch { number, decided }) {
            self.fatal.replace(Some(format!("cannot write the epochs: {error}")));
            return Ok(());
        }
        self.epoch.set(number);
        let known = each[master].map_or(0, |(epoch, _)| epoch);
        let begin = Order::Become { known, epoch: number, decided: kept, part: Part::Idle };
        let state = self.state_after(master, &begin).await?;
        self.bring(master, number, state.received).await?;
        let part = Part::Master { members: self.names(&[]), rows: self.log.notes_changes() };
        let lead = Order::Become { known: number, epoch: number, decided, part };
        let state = self.state_after(master, &lead).await?;
        let name = &self.tier.options.nodes[master].name;
        tracing::info!(epoch = number, master = name, version = decided, "an epoch begins");
        self.members.borrow_mut().begin(state.received);
        self.tier.acknowledged(decided);
        self.subscribe_log(master);
        self.tier.set_master(Some(master));
        // Whatever the masters before have not made durable is dropped: nothing that was lost until now is open.
        self.tier.look_begins();
        self.tier.look_settles();
        Ok(())
    }

    /// Sends a node what it lacks of the log.
    async fn bring(&self, node: usize, epoch: u64, has: Version) -> io::Result<()> {
        let mut portions = self.log.above(has).map_err(io::Error::other)?;
        if portions.is_none() {
            let at = self.load(node, epoch).await?;
            portions = self.log.above(at).map_err(io::Error::other)?;
        }
        let portions =
            portions.ok_or_else(|| io::Error::other("the log does not go back to the checkpoint"))?;
        for sets in portions {
            self.order(node, &Order::Take { epoch, sets: sets.map_err(io::Error::other)? }).await?;
        }
        Ok(())
    }

    /// Sends a node the checkpoint. Returns its version.
    async fn load(&self, node: usize, epoch: u64) -> io::Result<Version> {
        let parts = checkpoint::read(self.log.folder())?;
        for part in parts
            .ok_or_else(|| io::Error::other("the log does not go back so far, and there is no checkpoint"))?
        {
            let (pages, whole) = part?;
            self.order(node, &Order::Load { epoch, pages, whole }).await?;
            if let Some(version) = whole {
                return Ok(version);
            }
        }
        Err(io::Error::other("the checkpoint has no end"))
    }

    /// Makes a checkpoint when the log has grown, for ever.
    pub async fn checkpoint(self: &Rc<Membership>) {
        let mut last = 0;
        loop {
            sleep(CHECKPOINT_LOOK).await;
            if self.log.appended_bytes() - last < CHECKPOINT_BYTES {
                continue;
            }
            let appended = self.log.appended_bytes();
            match self.make_checkpoint().await {
                Ok(version) => {
                    tracing::info!(version, "a checkpoint is made");
                    last = appended;
                }
                Err(error) => tracing::warn!(%error, "no checkpoint can be made; trying again"),
            }
        }
    }

    /// Copies a member's pages into the checkpoint, and has the log forget what is older.
    async fn make_checkpoint(&self) -> io::Result<Version> {
        let epoch = self.epoch.get();
        let node = self.members.borrow().list().first().copied().or(self.tier.master());
        let node = node.ok_or_else(|| io::Error::other("no node serves"))?;
        let (folder, options) = (self.log.folder().to_owned(), self.tier.options.clone());
        let at = self.tier.newest();
        let written = tokio::task::spawn_blocking(move || {
            checkpoint::write(&folder, &options, node, at, SILENCE_LIMIT)
        });
        let version = written.await.map_err(io::Error::other)??;
        let durable = async {
            while self.log.newest() < version && self.epoch.get() == epoch {
                sleep(LOOK_EVERY).await;
            }
        };
        durable.await;
        if !checkpoint::is_decided(&self.log, epoch, version) {
            return Err(io::Error::other("its version was dropped"));
        }
        checkpoint::counts(self.log.folder())?;
        self.log.forget(version);
        Ok(version)
    }

    /// Has the log follow the master, if it does not.
    fn subscribe_log(self: &Rc<Membership>, master: usize) {
        if self.subscription.borrow().as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let this = self.clone();
        let epoch = self.epoch.get();
        let follow = spawn_local(async move {
            if let Err(error) = this.log.follow(&this.tier.options, master, epoch).await {
                tracing::info!(%error, "the query log has lost the master");
                this.tier.failed(master, "the query log has lost it");
            }
        });
        self.subscription.replace(Some(follow));
    }
}
