//! Changes that fire no event trigger: roles and memberships, databases, owners, and reloads of the
//! configuration, which change what statements of open sessions mean. No slot reports such a change. So reads
//! stay at the primary until a mark is written after the change in every followed database. The mark comes
//! out of the slot as DDL would, and a read at a standby then sees the change.
//!
//! ```text
//!   recognised before its first byte ---answered---------\
//!        \--session lost--> its backend is gone ----------> marked everywhere --> reads are offloaded
//!   found by a probe, before that probe counts ----------/
//! ```

use crate::trouble::{Trouble, answered};
use crate::{Cluster, Database, Hold};
use history::{DatabaseId, Footprint};
use order::{DoubtId, DoubtState};
use postgres::Error;
use postgres::address::{CONNECT_LIMIT, Control};
use postgres::attach;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use transaction::{Backend, Cluster as _};

const ACTIVE_SLOTS: &str = "SELECT FROM pg_catalog.pg_replication_slots WHERE database = $1 AND active";
/// Interval between checks for a walsender that ends.
const SLOT_ROUND: Duration = Duration::from_millis(5);
/// Time for which a mark is retried, although the primary answers, when the connection broke: other databases
/// wait for it.
const MARK_PATIENCE: Duration = Duration::from_secs(2);

/// A change without an event trigger, from before its first byte is sent until it is over. As long as it
/// lives, and then until it is marked, no read is offloaded.
pub struct Everywhere {
    cluster: Cluster,
    /// Backend that makes the change. `None` if the change was only found by a probe.
    backend: Option<Backend>,
    over: bool,
    of: Change,
    doubts: Vec<DoubtId>,
}

/// Kind of a change that fires no event trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Roles, memberships, databases, owners.
    Roles,
    /// The configuration: the schemas that a role may use stay the same.
    Configuration,
}

/// Changes that are to be marked: they outlive their sessions.
#[derive(Default)]
pub(crate) struct Unmarked {
    changes: RefCell<Vec<(Change, Vec<DoubtId>)>>,
    more: Notify,
}

impl Everywhere {
    /// Begins the change: reads of every followed database stay at the primary.
    pub fn begin(cluster: &Cluster, of: Change, backend: Option<Backend>) -> Everywhere {
        cluster.scheduler().close();
        let doubts = doubts(cluster).into_iter().map(|(doubt, ..)| doubt).collect();
        Everywhere { cluster: cluster.clone(), backend, over: backend.is_none(), of, doubts }
    }

    /// Notes that the primary has answered, with success or an error.
    pub fn end(mut self) {
        self.over = true;
    }
}

/// A drop before its end: the backend may go on, and the change be made later.
impl Drop for Everywhere {
    fn drop(&mut self) {
        let backend = self.backend.filter(|_| !self.over);
        for doubt in &self.doubts {
            match backend {
                Some(backend) => {
                    self.cluster.scheduler().order_mut().connection_lost(*doubt);
                    self.cluster.orphaned(*doubt, backend);
                }
                None => self.cluster.scheduler().order_mut().answered(*doubt),
            }
        }
        let unmarked = self.cluster.unmarked();
        unmarked.changes.borrow_mut().push((self.of, std::mem::take(&mut self.doubts)));
        unmarked.more.notify_one();
        self.cluster.gauge_wanted();
    }
}

/// Notes an in-flight write set over everything in every followed database.
fn doubts(cluster: &Cluster) -> Vec<(DoubtId, Rc<Database>, DatabaseId)> {
    let doubt = |database: Rc<Database>| {
        let id = database.id()?;
        Some((cluster.scheduler().order_mut().doubt(id, Footprint::Everything), database, id))
    };
    cluster.databases().into_iter().filter_map(doubt).collect()
}

/// Marks finished changes, for ever.
pub(crate) async fn run(cluster: Cluster) {
    while !cluster.stopping() {
        let more = cluster.unmarked().more.notified();
        let changes = std::mem::take(&mut *cluster.unmarked().changes.borrow_mut());
        if changes.is_empty() {
            more.await;
        }
        for (of, doubts) in changes {
            tokio::task::spawn_local(finish(cluster.clone(), of, doubts));
        }
    }
}

/// Waits from the end of a change until reads may be offloaded again.
async fn finish(cluster: Cluster, of: Change, doubts_before: Vec<DoubtId>) {
    while doubts_before.iter().any(|doubt| is_lost(&cluster, *doubt)) {
        cluster.next_move().await;
    }
    // A database that began to be followed in the meantime may have been marked before the change.
    for (doubt, database, id) in doubts(&cluster) {
        if of == Change::Roles {
            // A schema that a role may not use is skipped in the look-up of its names.
            database.names().changed(None);
        }
        mark(&cluster, of, &database, id).await;
        cluster.scheduler().order_mut().answered(doubt);
    }
    cluster.scheduler().open();
    cluster.moved();
}

/// Returns true if its backend lives, and may still commit.
fn is_lost(cluster: &Cluster, doubt: DoubtId) -> bool {
    cluster.scheduler().order().doubt_state(doubt) == Some(DoubtState::Lost)
}

/// Writes the mark, and retries until it succeeds. Stops early if the database must be followed again before
/// any read of it is offloaded, because following begins with a mark. Another database that has taken over
/// its name is not meant: its write set would belong to no session. A database in which no mark can be
/// written, although the primary answers, holds up itself alone: its reads stay at the primary until it is
/// followed again.
async fn mark(cluster: &Cluster, of: Change, database: &Database, id: DatabaseId) {
    if !cluster.setup().design.follows_commits() {
        // There is no log table. The digest of the catalogs does not show it either.
        cluster.understanding().forget(id);
        database.catalog_changed(None);
        return;
    }
    let address = cluster.setup().primary.with_database(database.name());
    let (mut trouble, began) = (Trouble::default(), Instant::now());
    while database.is_of_use() && database.id() == Some(id) && !cluster.stopping() {
        let marking = async {
            let control = Control::connect(&address).await?;
            if attach::identity(&control).await? == id {
                let mark = attach::mark(&control, of == Change::Roles).await?;
                if of == Change::Configuration {
                    database.names().marked(mark);
                }
            }
            Ok::<_, Error>(())
        };
        let late = || Error::Unreachable(format!("no mark within {CONNECT_LIMIT:?}"));
        let Err(error) = timeout(CONNECT_LIMIT, marking).await.unwrap_or_else(|_| Err(late())) else {
            return;
        };
        let may_pass = matches!(error, Error::Unreachable(_) | Error::NotReady(_));
        let is_patient = may_pass && began.elapsed() < MARK_PATIENCE;
        if !is_patient && cluster.scheduler().order().primary_here() {
            database.cannot_be_marked(error);
            return;
        }
        let (is_new, pause) = trouble.met(&error.to_string(), &error, Duration::ZERO);
        if is_new {
            let why = "cannot mark a change of roles yet; retrying";
            tracing::warn!(database = database.name(), %error, "{why}");
        }
        tokio::time::sleep(pause).await;
    }
}

/// A commit of Consort itself in a database, on behalf of no session. Until it ends, everything of the
/// database is in flight.
pub(crate) struct Upkeep {
    cluster: Cluster,
    doubt: Option<DoubtId>,
}

impl Upkeep {
    /// Begins the upkeep. A database that was never followed has no in-flight write sets.
    pub(crate) fn begin(cluster: &Cluster, database: &Database) -> Upkeep {
        let doubt = database.id().map(|id| cluster.scheduler().order_mut().doubt(id, Footprint::Everything));
        Upkeep { cluster: cluster.clone(), doubt }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        if let Some(doubt) = self.doubt {
            self.cluster.scheduler().order_mut().answered(doubt);
            self.cluster.gauge_wanted();
        }
    }
}

/// Releases a database until the returned value is dropped. The server refuses at once if a slot of the
/// database is active, so its walsender must be gone too.
pub async fn let_go(cluster: &Cluster, database: &Rc<Database>) -> Hold {
    let hold = database.let_go().await;
    let gone = async {
        let control = Control::connect(&cluster.setup().primary).await?;
        while !control.query(ACTIVE_SLOTS, &[&database.name()]).await?.is_empty() {
            tokio::time::sleep(SLOT_ROUND).await;
        }
        Ok(())
    };
    if let Err(error) = answered(gone).await {
        tracing::debug!(database = database.name(), %error, "replication slot may still be active");
    }
    hold
}
