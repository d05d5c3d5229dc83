//! Replicas to come, whose servers are copies of that of another replica: copied while that one is fed and read, with no
//! question to the primary (Ganymed, 4.4).
//!
//! ```text
//!   the source     ------- K -- copied: pg_basebackup ------------------------------------> fed on
//!   one to come            kept for it from K on .................| joins: fed from its own position on
//! ```
//!
//! **Why nothing is missing, and nothing is given twice.** A fed replica writes its position in the transaction that makes
//! the state. So a copy of its server says what it shows, of whatever moment it is, as that server itself would after a crash.
//! It shows at least what the source had on its disk when the copy was begun. From there on, K, all is kept: what waits for
//! the source waits for the copy too, and the slot is not confirmed meanwhile. What the copy has of it already its
//! position says.
//!
//! Whoever copies has it kept for as long as he lives: if he dies in the middle nothing is. A source that is given up, for it
//! differs or has to be copied anew, takes those along that are being copied from it.

use super::membership::Member;
use super::{Cluster, CourseView, Stage, StandbySetup};
use history::DatabaseId;
use scheduler::{Serving, StandbyId};

/// A replica to come.
pub(super) struct Coming {
    id: StandbyId,
    name: String,
    /// From whom its server is copied.
    source: StandbyId,
}

/// All is kept for a replica to come, until it has joined or this ends.
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
    /// The name of a database that this replica does not serve; a copy of its server would be of no use for it.
    pub fn unserved(&self, id: StandbyId) -> Option<String> {
        let serves = |course: &CourseView| {
            course.stage == Stage::Feeding && self.scheduler().surely_shown(id, course.database).is_some()
        };
        let mut mine = self.courses().into_iter().filter(|course| course.replica == id);
        mine.find(|course| !serves(course)).map(|course| self.name_of(course.database))
    }

    /// From here on all is kept that a copy of this replica's server is going to lack, for a replica that joins under this
    /// name.
    pub fn awaits(&self, name: &str, source: StandbyId) -> Awaited {
        let from = self.standby(source);
        let setup = StandbySetup { name: name.to_owned(), weight: 0, ..(*from).clone() };
        let id = self.enter(setup, Member::Coming);
        self.scheduler().fed_joined(id, 0);
        let why = format!("it is awaited: its server is a copy of that of {}", from.name);
        self.scheduler().standby_serving(id, Serving::No(why.into()));
        for of in self.feeds().of_replica(source) {
            self.joins_beside(id, source, of);
        }
        self.0.coming.borrow_mut().push(Coming { id, name: name.to_owned(), source });
        tracing::info!(replica = name, source = from.name, "the replica is awaited");
        Awaited { cluster: self.clone(), id }
    }

    /// The replica to come under this name.
    pub(super) fn awaited(&self, name: &str) -> Option<StandbyId> {
        self.0.coming.borrow().iter().find(|coming| coming.name == name).map(|coming| coming.id)
    }

    /// This replica was given up: what is copied of its database meanwhile is no copy that could be fed.
    pub(super) fn copies_are_void(&self, source: StandbyId, of: DatabaseId) {
        let coming = self.0.coming.borrow();
        let copies = coming.iter().filter(|coming| coming.source == source).map(|coming| coming.id);
        let copies: Vec<StandbyId> = copies.collect();
        drop(coming);
        for copy in copies {
            self.fed_leaves(copy, of);
            let why =
                "the replica whose server is copied was given up meanwhile: it will be copied by a dump";
            self.feeds().set_stage(of, copy, Stage::Waiting(why.to_owned()));
        }
    }

    /// Whether it is a replica to come.
    pub(super) fn is_coming(&self, id: StandbyId) -> bool {
        self.entry(id).member.get() == Member::Coming
    }

    /// A replica to come has joined under a number of its own, or is not awaited any longer: nothing is kept for it.
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
