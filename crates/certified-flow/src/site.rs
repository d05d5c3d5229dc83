//! One database at one node: the version that it shows, the sessions there, and the commits that are on their way.

use crate::bringing::Bringing;
use crate::claim::Claim;
use history::Version;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::watch;

/// Reason of a node that was not tried yet.
const NOT_TRIED: &str = "not reached yet";

/// Whether a node takes sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not connected yet, or recovering.
    Down(String),
    /// Takes sessions.
    Up,
}

/// Sessions at a node.
#[derive(Default)]
struct Sessions {
    claims: RefCell<BTreeMap<i32, Rc<Claim>>>,
    /// One clone for each place that is taken.
    places: Rc<()>,
}

/// A session's place at a node.
pub struct Place(#[expect(dead_code, reason = "its life counts")] Rc<()>);

/// One database at one node.
///
/// Invariants: `visible` never falls but by a restart of the server; every version up to it is committed there.
pub struct Site<L> {
    /// Which node.
    pub number: usize,
    visible: Cell<Version>,
    state: RefCell<State>,
    /// Versions whose own session commits them here. The number of the transaction stands with each that is a link of the
    /// chain of locks.
    pending: RefCell<BTreeMap<Version, Option<u64>>>,
    sessions: Sessions,
    /// Versions up to here are on this node's disk.
    flushed: Cell<Version>,
    /// True if the node does not answer: sessions there do not wait for it.
    silent: Cell<bool>,
    /// True while it is down because it shows durable versions too late.
    lags: Cell<bool>,
    /// True if the node leaves the cluster.
    leaving: Cell<bool>,
    /// True if the node has left the cluster: its applier ends.
    removed: Cell<bool>,
    /// Nothing after this version is committed here meanwhile.
    held: Cell<Option<Version>>,
    /// Versions on their way through its applier.
    pub bringing: Bringing,
    /// Rung after every change.
    bell: watch::Sender<()>,
    /// Rung after every change but those of versions.
    state_bell: watch::Sender<()>,
    /// The life of the server that `visible` is of.
    life: RefCell<String>,
    /// Knowledge of this life of the server.
    pub of_life: RefCell<L>,
}

impl<L: Default> Site<L> {
    /// A site that was not connected to yet.
    pub fn new(number: usize) -> Site<L> {
        Site {
            number,
            visible: Cell::default(),
            state: RefCell::new(State::Down(NOT_TRIED.to_owned())),
            pending: RefCell::default(),
            sessions: Sessions::default(),
            flushed: Cell::default(),
            silent: Cell::default(),
            lags: Cell::default(),
            leaving: Cell::default(),
            removed: Cell::default(),
            held: Cell::default(),
            bringing: Bringing::default(),
            bell: watch::Sender::new(()),
            state_bell: watch::Sender::new(()),
            life: RefCell::default(),
            of_life: RefCell::default(),
        }
    }

    /// The version that the database shows here.
    pub fn visible(&self) -> Version {
        self.visible.get()
    }

    /// Whether it takes sessions.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Takes sessions.
    pub fn is_up(&self) -> bool {
        *self.state.borrow() == State::Up
    }

    /// Whether it takes sessions, or has said why not.
    pub fn was_tried(&self) -> bool {
        !matches!(&*self.state.borrow(), State::Down(why) if why == NOT_TRIED)
    }

    /// The node is connected to and shows this version. A new life of its server: commits that were not on its disk are lost.
    /// No applier before this one is at work.
    pub fn comes_up(&self, visible: Version, new_life: Option<String>) {
        self.bringing.ends();
        if new_life.is_some() || visible > self.visible.get() {
            self.visible.set(visible);
        }
        if let Some(life) = new_life {
            self.life.replace(life);
            // The server may be another one's copy.
            self.of_life.take();
        }
        self.ring();
    }

    /// Whether `visible` is of this life of the server.
    pub fn is_life(&self, life: &str) -> bool {
        *self.life.borrow() == life
    }

    /// Takes sessions from now on, unless the node leaves.
    pub fn serves(&self) {
        self.silent.set(false);
        self.lags.set(false);
        if !self.leaving.get() {
            *self.state.borrow_mut() = State::Up;
        }
        self.ring();
    }

    /// Takes no sessions until the node is reached again.
    pub fn goes_down(&self, why: String) {
        self.lags.set(false);
        *self.state.borrow_mut() = State::Down(why);
        self.ring();
    }

    /// Takes no sessions until the node has caught up: it shows durable versions too late.
    pub fn falls_behind(&self, why: String) {
        self.goes_down(why);
        self.lags.set(true);
        self.silent.set(true);
        self.ring();
    }

    /// Whether it takes no sessions because it is too far behind.
    pub fn is_behind(&self) -> bool {
        self.lags.get()
    }

    /// The node leaves the cluster: it takes no new sessions, and those outside of transactions end.
    pub fn begins_to_leave(&self, why: &str) {
        self.leaving.set(true);
        self.goes_down(why.to_owned());
    }

    /// Whether the node leaves the cluster.
    pub fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// The node has left the cluster: its sessions and its applier end.
    pub fn has_left(&self) {
        self.removed.set(true);
        self.silent.set(true);
        self.ring();
    }

    /// Completes when the node has left the cluster.
    pub async fn removed(&self) {
        self.until(|site| site.removed.get()).await;
    }

    /// Commits nothing after this version until it is told another one.
    pub fn holds_at(&self, version: Option<Version>) {
        self.held.set(version);
        self.ring();
    }

    /// Whether this version must not be committed here now.
    pub fn is_held(&self, version: Version) -> bool {
        self.held.get().is_some_and(|held| version > held)
    }

    /// Whether the applier may bring this version: no session does.
    pub fn may_apply(&self, version: Version) -> bool {
        !self.is_expected(version) && !self.is_held(version)
    }

    /// Notes that the node does not answer within the bound.
    pub fn falls_silent(&self) {
        self.silent.set(true);
    }

    /// Whether it gives no answer.
    pub fn is_silent(&self) -> bool {
        self.silent.get()
    }

    /// Notes that the node shows this version too.
    pub fn shows(&self, version: Version) {
        self.pending.borrow_mut().remove(&version);
        if version > self.visible.get() {
            self.visible.set(version);
        }
        self.ring_version();
    }

    /// A session commits this version here. `link` is the number of its transaction, if that holds its lock of the chain.
    pub fn expects(&self, version: Version, link: Option<u64>) {
        self.pending.borrow_mut().insert(version, link);
    }

    /// The open transaction here that commits this version, and holds the lock that the next version's COMMIT waits for. It is
    /// of this life of the server: sessions of a new life begin when all versions of the one before are shown.
    pub fn link(&self, version: Version) -> Option<u64> {
        self.pending.borrow().get(&version).copied().flatten()
    }

    /// The session does not: the applier does.
    pub fn gives_up(&self, version: Version) {
        self.pending.borrow_mut().remove(&version);
        self.ring();
    }

    /// Whether a session commits this version here.
    pub fn is_expected(&self, version: Version) -> bool {
        self.pending.borrow().contains_key(&version)
    }

    /// Versions up to this one are on its disk.
    pub fn has_flushed(&self, version: Version) {
        self.flushed.set(version);
    }

    /// The newest version that is surely on its disk.
    pub fn flushed(&self) -> Version {
        self.flushed.get()
    }

    /// A session is here.
    pub fn enters(&self, claim: &Rc<Claim>) {
        self.sessions.claims.borrow_mut().insert(claim.pid.get(), claim.clone());
    }

    /// A session has left. A restarted server may have given its process number to another one.
    pub fn leaves(&self, claim: &Rc<Claim>) {
        let mut claims = self.sessions.claims.borrow_mut();
        if claims.get(&claim.pid.get()).is_some_and(|here| Rc::ptr_eq(here, claim)) {
            claims.remove(&claim.pid.get());
        }
    }

    /// The session of this backend.
    pub fn claim(&self, pid: i32) -> Option<Rc<Claim>> {
        self.sessions.claims.borrow().get(&pid).cloned()
    }

    /// A place for a session that is about to log in here. It counts until it is dropped.
    pub fn place(&self) -> Place {
        Place(self.sessions.places.clone())
    }

    /// Places that are taken: by sessions here, and by those that are about to log in.
    pub fn placed(&self) -> usize {
        Rc::strong_count(&self.sessions.places) - 1
    }

    /// Sessions here.
    pub fn sessions(&self) -> usize {
        self.sessions.claims.borrow().len()
    }

    /// Something has changed.
    pub fn ring(&self) {
        self.state_bell.send_replace(());
        self.bell.send_replace(());
    }

    /// A version is durable, or shown. Both happen often: waiters for a state are not woken.
    pub fn ring_version(&self) {
        self.bell.send_replace(());
    }

    /// Completes when `so` holds, which is asked after every change.
    pub async fn until(&self, so: impl Fn(&Site<L>) -> bool) {
        self.until_rung(&self.bell, so).await;
    }

    /// The same for what no version changes.
    pub async fn until_state(&self, so: impl Fn(&Site<L>) -> bool) {
        self.until_rung(&self.state_bell, so).await;
    }

    async fn until_rung(&self, bell: &watch::Sender<()>, so: impl Fn(&Site<L>) -> bool) {
        let mut heard = bell.subscribe();
        while !so(self) {
            if heard.changed().await.is_err() {
                return;
            }
        }
    }
}
