//! Writes in a database before its commits are followed. An in-flight write set cannot be recorded there yet,
//! so reads stay at the primary until the write is over. Once the database is followed, an in-flight write
//! set of everything takes its place.

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
    /// Begins the transaction.
    pub(super) fn begin(cluster: &Cluster, database: &Rc<Database>, backend: Backend) -> Early {
        database.early_began();
        Early { cluster: cluster.clone(), database: database.clone(), backend, answered: false }
    }

    /// Records the primary's answer.
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
        // The backend may go on until the primary shows that it has ended.
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
