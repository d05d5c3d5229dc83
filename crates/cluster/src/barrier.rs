//! Changes that fire no event trigger: roles and memberships, databases, owners, and reloads of the configuration, which
//! change what statements of open sessions mean. Nothing of them comes out of a slot, so reads are kept in until a mark is
//! written behind them in every followed database: it comes out as DDL would, and whoever reads at a standby reads behind
//! it.
//!
//! ```text
//!   recognised before its first byte ---answered-----------------\
//!        \--session lost--> its backend is gone ------------------> marked everywhere --> reads may leave
//!   found by a gauge, before that gauge counts ------------------/
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
/// How often a walsender that ends is looked for.
const SLOT_ROUND: Duration = Duration::from_millis(5);
/// So long a mark is tried again, although the primary answers, when the connection broke: other databases wait for it.
const MARK_PATIENCE: Duration = Duration::from_secs(2);

/// Such a change, from before its first byte is sent until it is over. As long as it lives, and then until it is marked,
/// no read leaves.
pub struct Everywhere {
    cluster: Cluster,
    /// Who makes it; nobody if it was only found.
    backend: Option<Backend>,
    over: bool,
    of: Change,
    doubts: Vec<DoubtId>,
}

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Roles, memberships, databases, owners.
    Roles,
    /// The configuration: schemas that a role may use are the same.
    Configuration,
}

/// Changes that are to be marked: they outlive their sessions.
#[derive(Default)]
pub(crate) struct Unmarked {
    changes: RefCell<Vec<(Change, Vec<DoubtId>)>>,
    more: Notify,
}

impl Everywhere {
    /// It begins.
    pub fn begin(cluster: &Cluster, of: Change, backend: Option<Backend>) -> Everywhere {
        cluster.scheduler().close();
        let doubts = doubts(cluster).into_iter().map(|(doubt, ..)| doubt).collect();
        Everywhere { cluster: cluster.clone(), backend, over: backend.is_none(), of, doubts }
    }

    /// The primary has answered, whatever it said.
    pub fn end(mut self) {
        self.over = true;
    }
}

/// Dropped before its end: the backend may go on, and the change be made later.
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

/// A doubt about everything in every followed database.
fn doubts(cluster: &Cluster) -> Vec<(DoubtId, Rc<Database>, DatabaseId)> {
    let doubt = |database: Rc<Database>| {
        let id = database.id()?;
        Some((cluster.scheduler().order_mut().doubt(id, Footprint::Everything), database, id))
    };
    cluster.databases().into_iter().filter_map(doubt).collect()
}

/// Marks what is over, for ever.
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

/// The way from the end of a change to reads that may leave again.
async fn finish(cluster: Cluster, of: Change, doubts_before: Vec<DoubtId>) {
    while doubts_before.iter().any(|doubt| is_lost(&cluster, *doubt)) {
        cluster.next_move().await;
    }
    // A database that began to be followed meanwhile may have been marked before the change.
    for (doubt, database, id) in doubts(&cluster) {
        if of == Change::Roles {
            // A schema that a role may not use is passed over when its names are looked for.
            database.names().changed(None);
        }
        mark(&cluster, of, &database, id).await;
        cluster.scheduler().order_mut().answered(doubt);
    }
    cluster.scheduler().open();
    cluster.moved();
}

/// Its backend lives, and may commit still.
fn is_lost(cluster: &Cluster, doubt: DoubtId) -> bool {
    cluster.scheduler().order().doubt_state(doubt) == Some(DoubtState::Lost)
}

/// Writes the mark, however often it must be tried; unless no read of the database can leave before it is followed anew,
/// which begins with a mark. Another database that has its name by now is not meant: its doubt would be nobody's. A database in
/// which none can be written, although the primary answers, holds up itself alone: its reads stay until it is followed anew.
async fn mark(cluster: &Cluster, of: Change, database: &Database, id: DatabaseId) {
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
            let why = "a change of roles could not be marked yet";
            tracing::warn!(database = database.name(), %error, "{why}");
        }
        tokio::time::sleep(pause).await;
    }
}

/// What Consort itself commits in a database, for no session's sake: everything of it is in doubt meanwhile.
pub(crate) struct Upkeep {
    cluster: Cluster,
    doubt: Option<DoubtId>,
}

impl Upkeep {
    /// It begins. A database that was never followed has no doubts.
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

/// Lets go of a database until what this returns is dropped. The server refuses at once if a slot of the database is
/// active, so its walsender must be gone too.
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
        tracing::debug!(database = database.name(), %error, "its slot may be active still");
    }
    hold
}
