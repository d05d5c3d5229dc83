//! One database that clients use: its identity, its catalog, and the state of its read offload.

use super::{Cluster, Names, Place};
use crate::extension_tables::ExtensionTables;
use crate::scheduled::Scheduled;
use counters::Traffic;
use history::{DatabaseId, Footprint, Xid};
use postgres::Error;
use postgres::catalogs::Loaded;
use replica_apply::sequences::Sequences;
use scheduler::{Reason, StandbyId};
use statement_analysis::Catalog;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// DDL came out of the decoder, and the catalog is being read again: until then, no footprint of a statement
/// is known.
pub const CATALOG_BEING_READ: Reason = Reason::Stay("catalog_being_read");

/// One database.
///
/// Invariant: the catalog that is handed out is at least as new as every DDL command that came out of the
/// decoder.
pub struct Database {
    name: String,
    /// OID of the database, as the primary last reported it.
    id: Cell<Option<DatabaseId>>,
    /// True as long as the name still means this database: it has not been released since.
    identified: Cell<bool>,
    catalog: RefCell<Option<Rc<Loaded>>>,
    /// Error of the last attempt to read the catalog.
    catalog_trouble: RefCell<Option<String>>,
    arrived: Notify,
    /// True if statements use functions that depend on the backend that used a sequence (`currval`,
    /// `lastval`).
    pub asks_sequences: Cell<bool>,
    /// Positions of its sequences at the last query of the primary, for the logical replicas.
    sequences: RefCell<Option<Rc<Asked>>>,
    version: Cell<u64>,
    names: Names,
    /// Requirements on the next catalog.
    next: RefCell<NextCatalog>,
    reload: Notify,
    trouble: RefCell<Option<Cow<'static, str>>>,
    /// True if the trouble is that the primary is down.
    away: Cell<bool>,
    /// Number of open transactions that may have written before the database's commits were followed.
    early: Cell<usize>,
    traffic: Traffic,
    /// Number of statements that need the primary's database for themselves.
    holds: Cell<usize>,
    following: Cell<bool>,
    /// Reason why no mark can be written in it.
    unmarked: RefCell<Option<Error>>,
    held: Notify,
    /// Time until which statements wait, at most, for the database to be followed.
    awaited: Cell<Option<Instant>>,
    /// Transactions of the database, where they are ordered before they are executed.
    scheduled: Rc<Scheduled>,
}

/// Positions of the sequences of a database, and the time of the query: between two positions of the
/// replication feed.
#[derive(Debug)]
pub struct Asked {
    /// Positions of the sequences.
    pub(crate) standing: Sequences,
    /// Position below which all boundaries had committed before the query.
    pub(crate) from: Place,
    /// Position below which all boundaries lie that had committed by the end of the query.
    pub(crate) to: Place,
}

/// Requirements on the next catalog of a database.
#[derive(Debug, Default)]
struct NextCatalog {
    /// DDL transactions that it must see.
    owed: Vec<Xid>,
    /// Tables that functions of extensions read.
    tables: ExtensionTables,
    /// Extensions whose libraries are the same at all nodes, with their versions.
    agreed: BTreeMap<String, String>,
    /// Differences between the nodes' files of extensions, a sentence each.
    differences: BTreeSet<String>,
    /// Extensions whose libraries are the primary's at standbys that have joined since.
    joined: BTreeMap<StandbyId, BTreeMap<String, String>>,
}

/// Keeps the database from being followed while this lives, because a statement needs it alone (DROP
/// DATABASE).
pub struct Hold(Rc<Database>);

/// Differences between nodes that keep reads of the database with an extension at the primary, if there are any.
pub fn extension_differences(database: &Database) -> Option<String> {
    let next = database.next.borrow();
    let all = &next.differences;
    (!all.is_empty()).then(|| all.iter().map(String::as_str).collect::<Vec<_>>().join("; "))
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds.set(self.0.holds.get() - 1);
        self.0.held.notify_waiters();
    }
}

impl Database {
    /// Creates a database. `declares`: its transactions declare the tables that they will touch before they
    /// begin.
    pub(crate) fn new(name: &str, declares: bool) -> Database {
        Database {
            name: name.to_owned(),
            id: Cell::default(),
            identified: Cell::default(),
            catalog: RefCell::default(),
            catalog_trouble: RefCell::default(),
            arrived: Notify::new(),
            asks_sequences: Cell::default(),
            sequences: RefCell::default(),
            version: Cell::default(),
            names: Names::default(),
            next: RefCell::default(),
            reload: Notify::new(),
            trouble: RefCell::new(Some("the database is used for the first time".into())),
            away: Cell::new(false),
            early: Cell::default(),
            traffic: Traffic::default(),
            holds: Cell::default(),
            following: Cell::default(),
            unmarked: RefCell::default(),
            held: Notify::new(),
            awaited: Cell::default(),
            scheduled: Scheduled::new(declares),
        }
    }

    /// Announces that the database will soon be followed. Until then, or until this moment at the latest,
    /// statements wait. A statement that is prepared earlier, in a session of unknown state, could not be
    /// offloaded as long as that session lives.
    pub(crate) fn is_awaited_until(&self, limit: Instant) {
        self.awaited.set(Some(limit));
    }

    /// Completes when statements need not wait for the database to be followed, or not any more. The
    /// transactions that its slot repeats must have come out, too: a change of names among them would count
    /// as later than a statement prepared before.
    pub async fn no_more_awaited(&self, cluster: &Cluster) {
        let is_followed = || {
            let settled = |id| cluster.scheduler().order().settled(id).is_some();
            self.not_serving().is_none() && self.id().is_some_and(settled)
        };
        while let Some(limit) = self.awaited.get() {
            let moved = cluster.next_move();
            if is_followed() || timeout_at(limit, moved).await.is_err() {
                self.awaited.set(None);
            }
        }
    }

    /// Transactions of the database, where they are ordered before they are executed.
    pub fn scheduled(&self) -> &Rc<Scheduled> {
        &self.scheduled
    }

    /// Name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Releases the database: all connections that follow it are closed, and none is opened, as long as the
    /// returned value lives. Afterwards the name may mean another database, until the primary has been asked.
    pub(crate) async fn let_go(self: &Rc<Database>) -> Hold {
        self.holds.set(self.holds.get() + 1);
        let hold = Hold(self.clone());
        self.held.notify_waiters();
        loop {
            let moved = self.held.notified();
            if !self.following.get() {
                self.identified.set(false);
                return hold;
            }
            moved.await;
        }
    }

    /// Completes when a statement needs the database alone.
    pub async fn wanted_alone(&self) {
        loop {
            let moved = self.held.notified();
            if self.holds.get() > 0 {
                return;
            }
            moved.await;
        }
    }

    /// Completes when no statement needs the database alone.
    pub(crate) async fn left_to_us(&self) {
        loop {
            let moved = self.held.notified();
            if self.holds.get() == 0 {
                return;
            }
            moved.await;
        }
    }

    /// Notes that a change could not be marked in the database. Its reads stay at the primary until it is
    /// followed again, which begins with a mark.
    pub(crate) fn cannot_be_marked(&self, why: Error) {
        self.set_trouble(Some(why.to_string().into()));
        *self.unmarked.borrow_mut() = Some(why);
        self.held.notify_waiters();
    }

    /// Completes, with the reason, when a change could not be marked since it began to be followed.
    pub(crate) async fn unmarked(&self) -> Error {
        loop {
            let moved = self.held.notified();
            if let Some(why) = self.unmarked.borrow_mut().take() {
                return why;
            }
            moved.await;
        }
    }

    pub(crate) fn set_following(&self, following: bool) {
        if following {
            *self.unmarked.borrow_mut() = None;
        }
        self.following.set(following);
        self.held.notify_waiters();
    }

    /// Traffic counters of the database.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// OID of the database, once the primary has been asked; `None` again while the name may mean another
    /// database.
    pub fn id(&self) -> Option<DatabaseId> {
        self.last_id().filter(|_| self.identified.get())
    }

    /// OID of the database as the primary last reported it.
    pub(crate) fn last_id(&self) -> Option<DatabaseId> {
        self.id.get()
    }

    pub(crate) fn set_id(&self, id: DatabaseId) {
        self.id.set(Some(id));
        self.identified.set(true);
    }

    /// Returns true if the database is followed, or about to be, or its reads go on without the primary.
    pub(crate) fn is_of_use(&self) -> bool {
        self.following.get() || self.away.get()
    }

    /// Reason why its reads stay at the primary. `None`: they may be offloaded.
    pub fn not_serving(&self) -> Option<Cow<'static, str>> {
        if let Some(trouble) = &*self.trouble.borrow() {
            return Some(trouble.clone());
        }
        if self.early.get() > 0 {
            return Some("a transaction that began before the database was followed is still open".into());
        }
        let unread = || {
            let trouble = self.catalog_trouble.borrow();
            trouble.as_ref().map_or("the catalog is changing".into(), |why| why.clone().into())
        };
        self.catalog.borrow().is_none().then(unread)
    }

    /// Notes a transaction that begins to write while no in-flight write set can be noted.
    pub fn early_began(&self) {
        self.early.set(self.early.get() + 1);
    }

    /// Notes the end of such a transaction, or the write set that has taken its place.
    pub fn early_ended(&self) {
        self.early.set(self.early.get() - 1);
    }

    /// Returns true if reads of the database may be offloaded. They still may while only the primary is down:
    /// everything decoded or in flight until then holds, and any later work there is in flight.
    pub fn reads_may_leave(&self) -> bool {
        self.is_followed() && self.catalog.borrow().is_some()
    }

    /// Reason why its reads stay at the primary, in one word.
    pub(crate) fn stays(&self) -> Reason {
        if self.is_followed() { CATALOG_BEING_READ } else { Reason::DatabaseNotFollowed }
    }

    /// Returns true if all writes since the database began to be followed are known.
    fn is_followed(&self) -> bool {
        (self.away.get() || self.trouble.borrow().is_none()) && self.early.get() == 0
    }

    pub(crate) fn set_trouble(&self, trouble: Option<Cow<'static, str>>) {
        self.away.set(false);
        if trouble.is_some() {
            self.awaited.set(None);
        }
        *self.trouble.borrow_mut() = trouble;
    }

    /// Notes that the primary is down, or not ready yet.
    pub(crate) fn set_away(&self, why: String) {
        // Only a database that was followed has anything to go on with.
        self.away.set(self.away.get() || self.trouble.borrow().is_none());
        *self.trouble.borrow_mut() = Some(why.into());
    }

    /// Number of changes of the catalog: knowledge from another version is void.
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// Changes of the objects that names stand for. Unlike the version, they do not change when the database
    /// begins to be followed (again): changes in the meantime come out of its slot.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The catalog; `None` while a newer one is read.
    pub fn loaded(&self) -> Option<Rc<Loaded>> {
        self.catalog.borrow().clone()
    }

    /// Completes when a new catalog has been read.
    pub(crate) async fn catalog_arrived(&self) {
        self.arrived.notified().await;
    }

    /// Notes that a replica has joined the cluster or left it. The follower of the database then checks if
    /// rows must be kept, as it does when a catalog arrives.
    pub(crate) fn replicas_changed(&self) {
        self.arrived.notify_one();
    }

    /// Positions of its sequences at the last query of the primary, if there was one. Each answer is an
    /// allocation of its own.
    pub(crate) fn sequences(&self) -> Option<Rc<Asked>> {
        self.sequences.borrow().clone()
    }

    /// Sets the positions of the sequences that the primary has reported.
    pub(crate) fn set_sequences(&self, asked: Asked) {
        *self.sequences.borrow_mut() = Some(Rc::new(asked));
    }

    /// Notes that a DDL command came out of the decoder, or the roles changed: the present catalog is void.
    pub(crate) fn catalog_changed(&self, by: Option<Xid>) {
        self.next.borrow_mut().owed.extend(by);
        self.version.set(self.version.get() + 1);
        *self.catalog.borrow_mut() = None;
        self.reload.notify_one();
    }

    /// Notes a commit that wrote these relations. Returns true if a table of an extension is among them that backends keep rows
    /// of: the present catalog is void then.
    pub(crate) fn extension_table_written(&self, wrote: &Footprint, xid: Xid) -> bool {
        let in_force = self.catalog.borrow().is_some();
        let is_void = self.next.borrow_mut().tables.wrote(wrote, xid, in_force);
        if is_void {
            self.catalog_changed(Some(xid));
        }
        is_void
    }

    /// Sets the extensions that are the same at all nodes, and the differences of the others. `compared`: a node that has joined is
    /// among them, or has left. Returns true if the extensions are others than before.
    pub(crate) fn set_agreed(
        &self,
        agreed: BTreeMap<String, String>,
        differences: &BTreeSet<String>,
        compared: impl Fn(StandbyId) -> bool,
    ) -> bool {
        let mut next = self.next.borrow_mut();
        next.differences.clone_from(differences);
        let before = next.joined.len();
        next.joined.retain(|node, _| !compared(*node));
        let joined = next.joined.len() < before;
        std::mem::replace(&mut next.agreed, agreed) != next.agreed || joined
    }

    /// Sets the extensions whose libraries are the primary's at a standby that joins. Returns true if not all are.
    pub(crate) fn joined(&self, standby: StandbyId, agreed: BTreeMap<String, String>) -> bool {
        let mut next = self.next.borrow_mut();
        let differs = next.agreed.iter().any(|(name, version)| agreed.get(name) != Some(version));
        next.joined.insert(standby, agreed);
        differs
    }

    /// Takes the classes of functions back whose extensions may differ between nodes, or whose tables were written, in a new
    /// catalog.
    fn distrust(&self, catalog: &mut Catalog) {
        let mut next = self.next.borrow_mut();
        let written = next.tables.distrusted(catalog);
        let others: Vec<String> = catalog
            .extensions()
            .iter()
            .filter(|(name, (version, _))| {
                let mut nodes = next.joined.values().chain([&next.agreed]);
                !nodes.all(|agreed| agreed.get(**name).is_some_and(|agreed| agreed == version))
            })
            .map(|(name, _)| (*name).to_owned())
            .collect();
        others.iter().for_each(|extension| catalog.distrust_extension(extension));
        catalog.distrust_tables(&written);
    }

    /// The transactions that a catalog must see to be valid.
    pub(crate) fn owed(&self) -> Vec<Xid> {
        self.next.borrow().owed.clone()
    }

    /// Sets a catalog that was read under `version`. Returns `false`, without effect, if it has changed
    /// since.
    pub(crate) fn set_catalog(&self, version: u64, mut loaded: Loaded) -> bool {
        if self.version.get() != version {
            return false;
        }
        self.distrust(&mut loaded.catalog);
        self.next.borrow_mut().owed.clear();
        *self.catalog_trouble.borrow_mut() = None;
        *self.catalog.borrow_mut() = Some(Rc::new(loaded));
        self.arrived.notify_one();
        true
    }

    /// Notes that the catalog could not be read.
    pub(crate) fn set_catalog_trouble(&self, why: String) {
        *self.catalog_trouble.borrow_mut() = Some(why);
    }

    pub(crate) async fn reload_asked(&self) {
        self.reload.notified().await;
    }
}
