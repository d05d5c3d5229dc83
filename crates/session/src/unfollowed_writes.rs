//! What is written in a database before its commits are followed. No doubt can be noted there yet, so its reads stay at
//! the primary until it is over; once the database is followed, a doubt about everything takes its place.

use cluster::{Cluster, Database, OrphanOf};
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
        self.cluster.early_over(&self.database);
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        // The backend may go on until the primary shows that it is gone.
        let Some(database) = self.database.id() else {
            let early = OrphanOf::Early(self.database.clone());
            return self.cluster.backends().orphaned(early, self.backend);
        };
        let mut scheduler = self.cluster.scheduler();
        let doubt = scheduler.order_mut().doubt(database, Footprint::Everything);
        scheduler.order_mut().connection_lost(doubt);
        drop(scheduler);
        self.cluster.orphaned(doubt, self.backend);
        self.database.early_ended();
    }
}
