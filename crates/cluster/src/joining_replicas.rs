//! Replicas to come, whose servers are copies of another replica's server. They are copied while that replica
//! is fed and read, without a query to the primary (Ganymed, 4.4).
//!
//! ```text
//!   the source     ------- K -- copied: pg_basebackup ------------------------------------> fed on
//!   one to come            kept for it from K on .................| joins: fed from its own position on
//! ```
//!
//! **Why nothing is missing, and nothing is applied twice.** A logical replica writes its position in the
//! transaction that makes the state. So a copy of its server, of any moment, names the state that it shows,
//! as that server itself would after a crash. The copy shows at least the state that the source had on its
//! disk when the copy was begun. From there on, K, all commits are kept: the source's pending boundaries are
//! kept for the copy too, and the slot is not confirmed in the meantime. The copy's position says which of
//! them it already has.
//!
//! Kept commits live as long as the copying task: if it dies in the middle, they are dropped. A source that
//! is given up, because it differs or has to be copied again, takes along the replicas that are being copied
//! from it.

use super::membership::Member;
use super::{Cluster, CourseView, Stage, StandbySetup};
use history::DatabaseId;
use scheduler::{Serving, StandbyId};

/// A replica to come.
pub(super) struct Coming {
    id: StandbyId,
    name: String,
    /// Replica whose server is copied.
    source: StandbyId,
}

/// Keeps everything for a replica to come, until it has joined or this is dropped.
pub struct Awaited {
    cluster: Cluster,
    id: StandbyId,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.cluster.comes_no_more(self.id);
    }
}

impl Cluster {
    /// Name of a database that this replica does not serve, if any; a copy of its server would be useless for
    /// it.
    pub fn unserved(&self, id: StandbyId) -> Option<String> {
        let serves = |course: &CourseView| {
            course.stage == Stage::Feeding && self.scheduler().surely_shown(id, course.database).is_some()
        };
        let mut mine = self.courses().into_iter().filter(|course| course.replica == id);
        mine.find(|course| !serves(course)).map(|course| self.name_of(course.database))
    }

    /// Keeps from here on everything that a copy of this replica's server will lack, for a replica that joins
    /// under this name.
    pub fn awaits(&self, name: &str, source: StandbyId) -> Awaited {
        let from = self.standby(source);
        let setup = StandbySetup { name: name.to_owned(), weight: 0, ..(*from).clone() };
        let id = self.enter(setup, Member::Coming);
        self.scheduler().fed_joined(id, 0);
        let why = format!("waiting for the replica: its server is a copy of that of {}", from.name);
        self.scheduler().standby_serving(id, Serving::No(why.into()));
        for of in self.feeds().of_replica(source) {
            self.joins_beside(id, source, of);
        }
        self.0.coming.borrow_mut().push(Coming { id, name: name.to_owned(), source });
        tracing::info!(replica = name, source = from.name, "waiting for the replica to join");
        Awaited { cluster: self.clone(), id }
    }

    /// The replica to come under this name.
    pub(super) fn awaited(&self, name: &str) -> Option<StandbyId> {
        self.0.coming.borrow().iter().find(|coming| coming.name == name).map(|coming| coming.id)
    }

    /// Notes that the source replica was given up: copies of its database that are in progress could not be
    /// fed.
    pub(super) fn copies_are_void(&self, source: StandbyId, of: DatabaseId) {
        let coming = self.0.coming.borrow();
        let copies = coming.iter().filter(|coming| coming.source == source).map(|coming| coming.id);
        let copies: Vec<StandbyId> = copies.collect();
        drop(coming);
        for copy in copies {
            self.fed_leaves(copy, of);
            let why = "the source of the server copy was given up: a dump will copy the database";
            self.feeds().set_stage(of, copy, Stage::Waiting(why.to_owned()));
        }
    }

    /// Returns true if it is a replica to come.
    pub(super) fn is_coming(&self, id: StandbyId) -> bool {
        self.entry(id).member.get() == Member::Coming
    }

    /// Notes that a replica to come has joined under a number of its own, or is not awaited any longer:
    /// nothing is kept for it.
    pub(super) fn comes_no_more(&self, id: StandbyId) {
        if !self.is_coming(id) {
            return;
        }
        self.0.coming.borrow_mut().retain(|coming| coming.id != id);
        self.feeds().of_replica(id).into_iter().for_each(|of| self.fed_leaves(id, of));
        self.entry(id).member.set(Member::Gone);
        self.scheduler().replica_left(id);
        self.feeds().forget_replica(id);
        self.moved();
    }
}
