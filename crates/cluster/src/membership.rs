//! Who is in the cluster: standbys and replicas join it, and replicas leave it while everybody works.

use super::timeline_proofs::Proven;
use super::{Cluster, StandbySetup};
use crate::follow;
use history::{DatabaseId, Incarnation, Lsn};
use scheduler::{Kind, Serving, StandbyId};
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::task::spawn_local;

/// Whether a standby is in the cluster.
///
/// ```text
///   Coming --it joins under a number of its own, or is not awaited any longer----------> Gone
///   Here --leaves--> Leaving --its reads have ended, or are not waited for any longer--> Gone
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Coming,
    Here,
    Leaving,
    Gone,
}

/// One standby, or a replica that Consort feeds.
pub(super) struct Standby {
    pub(super) setup: Rc<StandbySetup>,
    pub(super) member: Cell<Member>,
    pub(super) lost: Notify,
    pub(super) watched: Cell<bool>,
    /// Wakes its watcher: something lies above its mark that somebody waits for.
    pub(super) ask: Notify,
    /// Its watcher's questions: begun, and answered in this life.
    pub(super) begun: Cell<u64>,
    pub(super) answered: Cell<(u64, Option<Incarnation>)>,
    pub(super) heard: Notify,
    /// The life of the primary whose history a standby was found to be on; only a whole proof holds when the primary returns.
    pub(super) proven: Cell<Option<Proven>>,
    /// How far it has received, as it said last.
    pub(super) received: Cell<Option<Lsn>>,
    /// An operator wants nothing to be read or written there.
    pub(super) paused: Cell<bool>,
    /// An operator has said something else of it.
    pub(super) told: Notify,
}

impl Standby {
    fn new(setup: StandbySetup, member: Member) -> Standby {
        Standby {
            setup: Rc::new(setup),
            member: Cell::new(member),
            lost: Notify::new(),
            watched: Cell::new(false),
            ask: Notify::new(),
            begun: Cell::default(),
            answered: Cell::default(),
            heard: Notify::new(),
            proven: Cell::default(),
            received: Cell::default(),
            paused: Cell::default(),
            told: Notify::new(),
        }
    }
}

impl Cluster {
    /// A standby or a replica is in the cluster from now on. To a replica every followed database is copied that is not
    /// about to be followed only now, unless it was awaited as a copy of another one's server.
    pub fn join(&self, setup: StandbySetup) {
        let (kind, weight) = (setup.kind, setup.weight);
        let awaited = self.awaited(&setup.name).filter(|_| kind == Kind::Fed);
        let id = self.enter(setup, Member::Here);
        match kind {
            Kind::Standby => self.scheduler().standby_joined(id, weight),
            Kind::Fed => {
                self.scheduler().fed_joined(id, weight);
                self.feed_all_to(id, awaited);
            }
        }
        if let Some(awaited) = awaited {
            self.comes_no_more(awaited);
        }
        spawn_local(follow::standby_probe::run(self.clone(), id));
    }

    /// Gives it a number.
    pub(super) fn enter(&self, setup: StandbySetup, member: Member) -> StandbyId {
        let mut standbys = self.0.standbys.borrow_mut();
        let id = numbered(standbys.len());
        standbys.push(Rc::new(Standby::new(setup, member)));
        id
    }

    fn feed_all_to(&self, id: StandbyId, awaited: Option<StandbyId>) {
        if !self.0.handing_out.replace(true) {
            spawn_local(follow::replica_feed::hand_out(self.clone()));
        }
        for database in self.databases().into_iter().filter(|database| self.follows(database.name())) {
            if let Some(of) = database.id() {
                self.feed_to(id, of, awaited);
            }
            database.replicas_changed();
            spawn_local(follow::replica_feed::run(self.clone(), database, id));
        }
    }

    /// A replica that has joined takes over what was kept of a database until it came; if nothing was, it is copied.
    fn feed_to(&self, id: StandbyId, of: DatabaseId, awaited: Option<StandbyId>) {
        if awaited.is_some_and(|awaited| self.joins_beside(id, awaited, of)) {
            return;
        }
        self.feeds().begin_anew(of, id);
        if awaited.is_some() {
            let (replica, database) = (self.standby(id), self.name_of(of));
            let why = "what committed since its server was copied is not kept".to_owned();
            tracing::warn!(replica = replica.name, database, why, "it is copied by a dump");
            self.feeds().copied_well(of, id, why);
        }
    }

    /// A replica leaves the cluster: no read begins there, and nothing is kept for it. What runs there may end until it is
    /// [gone](Cluster::replica_gone).
    pub fn replica_leaves(&self, id: StandbyId) {
        self.entry(id).member.set(Member::Leaving);
        self.scheduler().standby_serving(id, Serving::No("it leaves the cluster".into()));
        for of in self.feeds().of_replica(id) {
            self.fed_leaves(id, of);
        }
        self.told(id);
        self.databases().iter().for_each(|database| database.replicas_changed());
    }

    /// Nothing is done any more at a replica that has left.
    pub fn replica_gone(&self, id: StandbyId) {
        self.entry(id).member.set(Member::Gone);
        self.standby_gone(id, "it has left the cluster".to_owned());
        self.scheduler().replica_left(id);
        self.feeds().forget_replica(id);
        self.told(id);
    }

    /// Whether it is in the cluster, and does not leave it.
    pub(crate) fn is_here(&self, id: StandbyId) -> bool {
        self.entry(id).member.get() == Member::Here
    }

    /// Whether nothing is done there any more.
    pub(crate) fn is_gone(&self, id: StandbyId) -> bool {
        self.entry(id).member.get() == Member::Gone
    }

    /// How many reads run there.
    pub fn pending_at(&self, id: StandbyId) -> u32 {
        let scheduler = self.scheduler();
        scheduler.standbys().find(|standby| standby.id == id).map_or(0, |standby| standby.pending)
    }
}

/// Standbys are numbered as they join, and no number is given twice.
pub(super) fn numbered(place: usize) -> StandbyId {
    StandbyId::new(u32::try_from(place).expect("standbys are few"))
}
