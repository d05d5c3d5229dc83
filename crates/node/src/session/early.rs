//! What is written in a database before its commits are followed. No doubt can be noted there yet, so its reads stay at
//! the primary until it is over; once the database is followed, a doubt about everything takes its place.

use crate::cluster::{Cluster, Database};
use history::Footprint;
use std::rc::Rc;
use transaction::{Backend, Cluster as _};

/// A transaction that began before its database was followed.
pub(super) struct Early {
    cluster: Cluster,
    database: Rc<Database>,
    backend: Backend,
    answered: bool,
}

impl Early {
    /// It begins.
    pub(super) fn begin(cluster: &Cluster, database: &Rc<Database>, backend: Backend) -> Early {
        database.early_began();
        Early { cluster: cluster.clone(), database: database.clone(), backend, answered: false }
    }

    /// The primary has answered.
    pub(super) fn answered(mut self) {
        self.answered = true;
        if let Some(database) = self.database.id() {
            let mut scheduler = self.cluster.scheduler();
            let doubt = scheduler.order_mut().doubt(database, Footprint::Everything);
            scheduler.order_mut().answered(doubt);
            drop(scheduler);
            self.cluster.gauge_wanted();
        }
        self.database.early_ended();
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        // Its backend may go on. If the database is not followed even now, its reads stay as long as this process lives.
        if let Some(database) = self.database.id() {
            let mut scheduler = self.cluster.scheduler();
            let doubt = scheduler.order_mut().doubt(database, Footprint::Everything);
            scheduler.order_mut().connection_lost(doubt);
            drop(scheduler);
            self.cluster.orphaned(doubt, self.backend);
            self.database.early_ended();
        }
    }
}
