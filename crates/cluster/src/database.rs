//! One database that clients use: its identity, its catalog, and whether its reads may leave the primary.

use super::{Cluster, Names, Place};
use crate::scheduled::Scheduled;
use counters::Traffic;
use history::{DatabaseId, Xid};
use postgres::Error;
use postgres::catalogs::Loaded;
use replica_apply::sequences::Sequences;
use scheduler::Reason;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// DDL came out of the decoder, and the catalog is being read again: for a moment nobody knows what statements touch.
pub const CATALOG_BEING_READ: Reason = Reason::Stay("catalog_being_read");

/// One database.
///
/// Invariant: the catalog that is handed out is at least as new as every DDL command that came out of the decoder.
pub struct Database {
    name: String,
    /// Its OID, as the primary said it last.
    id: Cell<Option<DatabaseId>>,
    /// It has not been let go since: the name means this database still.
    identified: Cell<bool>,
    catalog: RefCell<Option<Rc<Loaded>>>,
    /// Why it could not be read when that was last tried.
    catalog_trouble: RefCell<Option<String>>,
    arrived: Notify,
    /// Statements ask what only the process knows that used a sequence (`currval`, `lastval`).
    pub asks_sequences: Cell<bool>,
    /// Where its sequences stood when the primary was asked last, for the replicas that Consort feeds.
    sequences: RefCell<Option<Rc<Asked>>>,
    version: Cell<u64>,
    names: Names,
    /// DDL transactions that the next catalog must see.
    owed: RefCell<Vec<Xid>>,
    reload: Notify,
    trouble: RefCell<Option<Cow<'static, str>>>,
    /// The trouble is that the primary is away.
    away: Cell<bool>,
    /// Transactions that may have written before its commits were followed, and go on.
    early: Cell<usize>,
    traffic: Traffic,
    /// So many statements need the primary's database for themselves.
    holds: Cell<usize>,
    following: Cell<bool>,
    /// Why no mark can be written in it.
    unmarked: RefCell<Option<Error>>,
    held: Notify,
    /// Statements wait for it to be followed, at most until then.
    awaited: Cell<Option<Instant>>,
    /// Its transactions, where they are ordered before they are executed.
    scheduled: Rc<Scheduled>,
}

/// Where the sequences of a database stood, and when they were asked: between two places of what is handed out to replicas.
#[derive(Debug)]
pub struct Asked {
    /// The answer.
    pub(crate) standing: Sequences,
    /// All below had committed before they were asked.
    pub(crate) from: Place,
    /// All that had committed by then lies below.
    pub(crate) to: Place,
}

/// The database is not followed while this lives: somebody needs it alone (DROP DATABASE).
pub struct Hold(Rc<Database>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds.set(self.0.holds.get() - 1);
        self.0.held.notify_waiters();
    }
}

impl Database {
    /// `declares`: its transactions say before they begin which tables they will touch.
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
            owed: RefCell::default(),
            reload: Notify::new(),
            trouble: RefCell::new(Some("it has only just been used for the first time".into())),
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

    /// It will soon be followed: until then, or until this moment at the latest, statements wait. What is prepared before it
    /// is followed, in a session of which nothing is known, could not leave as long as that session lives.
    pub(crate) fn is_awaited_until(&self, limit: Instant) {
        self.awaited.set(Some(limit));
    }

    /// Completes when statements need not wait for it to be followed, or not any more. What its slot repeats must have come out,
    /// too: a change of names in it would count as one behind what is prepared before.
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

    /// Its transactions, where they are ordered before they are executed.
    pub fn scheduled(&self) -> &Rc<Scheduled> {
        &self.scheduled
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets go of the database: all connections that follow it are closed, and none is opened, as long as what this
    /// returns lives. Then the name may mean another database, until the primary has been asked.
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

    /// Completes when somebody needs the database alone.
    pub async fn wanted_alone(&self) {
        loop {
            let moved = self.held.notified();
            if self.holds.get() > 0 {
                return;
            }
            moved.await;
        }
    }

    /// Completes when nobody needs it alone.
    pub(crate) async fn left_to_us(&self) {
        loop {
            let moved = self.held.notified();
            if self.holds.get() == 0 {
                return;
            }
            moved.await;
        }
    }

    /// A change could not be marked in it: its reads stay at the primary until it is followed anew, which begins with a mark.
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

    /// What went through it.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Its OID, once the primary has been asked; `None` again while the name may mean another database.
    pub fn id(&self) -> Option<DatabaseId> {
        self.last_id().filter(|_| self.identified.get())
    }

    /// Its OID as the primary said it last.
    pub(crate) fn last_id(&self) -> Option<DatabaseId> {
        self.id.get()
    }

    pub(crate) fn set_id(&self, id: DatabaseId) {
        self.id.set(Some(id));
        self.identified.set(true);
    }

    /// It is followed, or about to be, or its reads go on without the primary.
    pub(crate) fn is_of_use(&self) -> bool {
        self.following.get() || self.away.get()
    }

    /// Why its reads stay at the primary; `None` when they may leave.
    pub fn not_serving(&self) -> Option<Cow<'static, str>> {
        if let Some(trouble) = &*self.trouble.borrow() {
            return Some(trouble.clone());
        }
        if self.early.get() > 0 {
            return Some("a transaction goes on that began before it was followed".into());
        }
        let unread = || {
            let trouble = self.catalog_trouble.borrow();
            trouble.as_ref().map_or("its catalog changes".into(), |why| why.clone().into())
        };
        self.catalog.borrow().is_none().then(unread)
    }

    /// A transaction begins to write while no doubt can be noted.
    pub fn early_began(&self) {
        self.early.set(self.early.get() + 1);
    }

    /// It is over, or a doubt has taken its place.
    pub fn early_ended(&self) {
        self.early.set(self.early.get() - 1);
    }

    /// Whether its reads may leave the primary. They still may when only the primary is away: what was decoded and
    /// doubted until then holds, and whatever runs there now is in doubt.
    pub fn reads_may_leave(&self) -> bool {
        self.is_followed() && self.catalog.borrow().is_some()
    }

    /// Why its reads stay at the primary, if they do, in one word.
    pub(crate) fn stays(&self) -> Reason {
        if self.is_followed() { CATALOG_BEING_READ } else { Reason::DatabaseNotFollowed }
    }

    /// What was written in it since it began to be followed is known.
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

    /// The primary is away, or not ready yet.
    pub(crate) fn set_away(&self, why: String) {
        // Nothing but a database that was followed has anything to go on with.
        self.away.set(self.away.get() || self.trouble.borrow().is_none());
        *self.trouble.borrow_mut() = Some(why.into());
    }

    /// Counts the changes of the catalog: what was understood under another version is void.
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// What its names stand for. Unlike the version they do not change when the database begins to be followed (anew): what
    /// happened meanwhile comes out of its slot.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The catalog; `None` while a newer one is read.
    pub fn loaded(&self) -> Option<Rc<Loaded>> {
        self.catalog.borrow().clone()
    }

    /// Completes when a new catalog was read.
    pub(crate) async fn catalog_arrived(&self) {
        self.arrived.notified().await;
    }

    /// A replica has joined the cluster or left it: whoever follows the database looks whether its rows are to be kept, as
    /// when a catalog arrives.
    pub(crate) fn replicas_changed(&self) {
        self.arrived.notify_one();
    }

    /// Where its sequences stood when the primary was asked last, if it was; each answer has a place of its own.
    pub(crate) fn sequences(&self) -> Option<Rc<Asked>> {
        self.sequences.borrow().clone()
    }

    /// The primary was asked where its sequences stand.
    pub(crate) fn set_sequences(&self, asked: Asked) {
        *self.sequences.borrow_mut() = Some(Rc::new(asked));
    }

    /// A DDL command came out of the decoder, or the roles changed: the catalog in hand is void.
    pub(crate) fn catalog_changed(&self, by: Option<Xid>) {
        self.owed.borrow_mut().extend(by);
        self.version.set(self.version.get() + 1);
        *self.catalog.borrow_mut() = None;
        self.reload.notify_one();
    }

    /// The transactions that a catalog must see to be good.
    pub(crate) fn owed(&self) -> Vec<Xid> {
        self.owed.borrow().clone()
    }

    /// A catalog was read under `version`. Void, and `false`, if it changed meanwhile.
    pub(crate) fn set_catalog(&self, version: u64, loaded: Loaded) -> bool {
        if self.version.get() != version {
            return false;
        }
        self.owed.borrow_mut().clear();
        *self.catalog_trouble.borrow_mut() = None;
        *self.catalog.borrow_mut() = Some(Rc::new(loaded));
        self.arrived.notify_one();
        true
    }

    /// The catalog could not be read.
    pub(crate) fn set_catalog_trouble(&self, why: String) {
        *self.catalog_trouble.borrow_mut() = Some(why);
    }

    pub(crate) async fn reload_asked(&self) {
        self.reload.notified().await;
    }
}
