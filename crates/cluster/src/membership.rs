//! Membership of the cluster: standbys and replicas join it, and replicas leave it, during normal service.

use super::timeline_proofs::Proven;
use super::{Cluster, StandbySetup};
use crate::follow;
use history::{DatabaseId, Incarnation, Lsn};
use scheduler::{Kind, Serving, StandbyId};
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::task::spawn_local;

/// Membership of a standby in the cluster.
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

/// One standby or logical replica.
pub(super) struct Standby {
    pub(super) setup: Rc<StandbySetup>,
    pub(super) member: Cell<Member>,
    pub(super) lost: Notify,
    pub(super) watched: Cell<bool>,
    /// Wakes its watcher: a read waits for a position above the standby's mark.
    pub(super) ask: Notify,
    /// Queries of its watcher: begun, and answered in this incarnation.
    pub(super) begun: Cell<u64>,
    pub(super) answered: Cell<(u64, Option<Incarnation>)>,
    pub(super) heard: Notify,
    /// The incarnation of the primary whose history a standby was found to be on; only a whole proof holds
    /// when the primary returns.
    pub(super) proven: Cell<Option<Proven>>,
    /// Its received position, as it last reported.
    pub(super) received: Cell<Option<Lsn>>,
    /// True if an operator has paused it.
    pub(super) paused: Cell<bool>,
    /// Notifies of an operator's command.
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
    /// Adds a standby or a replica to the cluster. Every followed database is copied to a replica, except
    /// those about to be followed only now, and those of an awaited copy of another one's server.
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

    /// Gives a new member its number.
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

    /// Feeds a database to a replica that has joined: from the kept commits if there are any; otherwise it is
    /// copied.
    fn feed_to(&self, id: StandbyId, of: DatabaseId, awaited: Option<StandbyId>) {
        if awaited.is_some_and(|awaited| self.joins_beside(id, awaited, of)) {
            return;
        }
        self.feeds().begin_anew(of, id);
        if awaited.is_some() {
            let (replica, database) = (self.standby(id), self.name_of(of));
            let why = "commits since the copy of its server are not kept".to_owned();
            tracing::warn!(replica = replica.name, database, why, "copying the database by a dump");
            self.feeds().copied_well(of, id, why);
        }
    }

    /// Begins a replica's departure: no new read runs there, and nothing is kept for it. Running reads may
    /// end until it is [gone](Cluster::replica_gone).
    pub fn replica_leaves(&self, id: StandbyId) {
        self.entry(id).member.set(Member::Leaving);
        self.scheduler().standby_serving(id, Serving::No("the replica is leaving the cluster".into()));
        for of in self.feeds().of_replica(id) {
            self.fed_leaves(id, of);
        }
        self.told(id);
        self.databases().iter().for_each(|database| database.replicas_changed());
    }

    /// Notes that no work is done any more at a replica that has left.
    pub fn replica_gone(&self, id: StandbyId) {
        self.entry(id).member.set(Member::Gone);
        self.standby_gone(id, "the replica has left the cluster".to_owned());
        self.scheduler().replica_left(id);
        self.feeds().forget_replica(id);
        self.told(id);
    }

    /// Returns true if it is in the cluster, and does not leave it.
    pub(crate) fn is_here(&self, id: StandbyId) -> bool {
        self.entry(id).member.get() == Member::Here
    }

    /// Returns true if nothing is done there any more.
    pub(crate) fn is_gone(&self, id: StandbyId) -> bool {
        self.entry(id).member.get() == Member::Gone
    }

    /// Number of reads that run there.
    pub fn pending_at(&self, id: StandbyId) -> u32 {
        let scheduler = self.scheduler();
        scheduler.standbys().find(|standby| standby.id == id).map_or(0, |standby| standby.pending)
    }
}

/// Returns the number of a new standby: they are numbered as they join, and no number is reused.
pub(super) fn numbered(place: usize) -> StandbyId {
    StandbyId::new(u32::try_from(place).expect("standbys are few"))
}
