//! The cluster as one process of Consort knows it: the one scheduler, the databases that are followed, the standbys, and
//! the clock. Sessions and the loops of `follow` hold it as a cheap handle; everything runs in one thread.
//!
//! It does not know what a client is.

mod arrival_rate;
mod backends;
pub mod barrier;
mod configuration_reloads;
mod database;
pub mod follow;
mod joining_replicas;
mod leadership;
mod membership;
mod name_changes;
pub mod plan;
mod replica_commands;
mod replication_buffer;
mod replication_progress;
mod resting_replicas;
mod round_trip;
pub mod routes;
pub mod scheduled;
pub mod shadow;
mod statement_replication;
mod timeline_proofs;
pub mod trouble;
pub mod understanding;
mod wal_clock;

pub(crate) use arrival_rate::Work;
pub use backends::Backends;
pub use backends::{Orphan, OrphanOf};
pub use configuration_reloads::Configured;
pub use database::{Asked, Hold};
pub use database::{CATALOG_BEING_READ, Database};
pub use joining_replicas::Awaited;
pub use leadership::Lead;
pub use leadership::Standing;
pub use name_changes::{Names, NamesAt};
pub use replication_buffer::Pending;
pub(crate) use replication_buffer::{NotFed, Place, Rows, Stretch};
pub use replication_progress::{CourseView, InVain, Stage, Waited};
pub(crate) use replication_progress::{Feeds, TO_BE_COPIED};
pub use resting_replicas::{Resting, Stands, Wanted};
pub use statement_replication::Told;

use crate::barrier::Unmarked;
use crate::routes::Routes;
use crate::understanding::Understanding;
use config::pooling::Pools;
use counters::Metrics;
use design::{Design, Orderer, Reads};
use history::{DatabaseId, Footprint, Grain, Incarnation, Lsn};
use joining_replicas::Coming;
use membership::{Member, Standby, numbered};
use order::DoubtId;
use postgres::address::Address;
use postgres::attach::{SlotFault, SlotState, UnreplicableDdl};
use postgres::facts::Facts;
use postgres::timelines::PrimaryHistory;
use replica_apply::clone::Chosen;
use round_trip::RoundTrip;
use scheduler::{Kind, Pass, Scheduler, StandbyId, Writers};
use statement_analysis::catalog::Procedure;
use statement_replication::Reruns;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use transaction::Backend;
use wal_clock::Written;

/// In this time after its start, or after it has taken over, statements wait until their database is followed: that its
/// clients come all at once is usual then.
const FIRST_MOMENT: Duration = Duration::from_secs(2);

/// One standby, or a replica that Consort feeds, as the configuration names it.
#[derive(Clone, Debug)]
pub struct StandbySetup {
    /// The name that people use.
    pub name: String,
    /// What feeds it.
    pub kind: Kind,
    /// Where it is, and the role that watches it.
    pub address: Address,
    /// Its share of reads relative to the others; 0 takes none.
    pub weight: u32,
    /// The tables that a replica is to have.
    pub tables: Chosen,
}

/// What a cluster is started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The primary, and the role that gauges, decodes and analyses there.
    pub primary: Address,
    /// The standbys, and behind them the replicas that Consort feeds at first.
    pub standbys: Vec<StandbySetup>,
    /// Who may write besides the clients of this process.
    pub writers: Writers,
    /// How long this Consort leads behind the last word of the primary, zero: until it hears of another one that does. `None`:
    /// there is no other one.
    pub lease: Option<Duration>,
    /// Which design.
    pub design: Design,
    /// How long an answer that is not yet proven is held before the statement runs at the primary; longer while the primary
    /// itself takes longer to answer.
    pub proof_limit: Duration,
    /// Where reads wait for replicas, commits for their turn, and statements for their tables: how long.
    pub wait_limit: Duration,
    /// Where commits take turns: so many replicas show one before its client hears of it.
    pub acknowledged_by: usize,
    /// Whether a database is attached by itself when it is first used (`consort up`), or by `consort attach` alone.
    pub attach: bool,
    /// The databases that are followed, so that their reads may leave; `*` is all.
    pub follows: Vec<String>,
    /// Bound of the analysis cache, bytes.
    pub analysis_bytes: usize,
    /// Bounds of the scheduler.
    pub bounds: scheduler::Options,
    /// Functions and extensions whose functions are declared harmless: they may run at a standby.
    pub harmless: Vec<String>,
    /// How sessions come to their connections at the primary.
    pub pools: Pools,
    /// Bound of the connections of clients to one standby.
    pub standby_connections: usize,
    /// So many bytes of an answer are held until it is proven.
    pub held_answer_bytes: usize,
    /// Bound of the rows that are kept for replicas in memory, bytes.
    pub fed_buffer_bytes: usize,
    /// Bound of those that are kept in files, bytes.
    pub fed_archive_bytes: usize,
    /// What becomes of DDL that replicas cannot run with the same effect.
    pub unreplicable_ddl: UnreplicableDdl,
    /// Connections on which a replica that is behind executes at once.
    pub apply_connections: usize,
    /// Where statements travel: one that wrote fewer rows travels as rows.
    pub statement_rows: u64,
    /// What reads and writes tell apart at most, where a read asks whether what it reads was written.
    pub footprint_grain: Grain,
    /// Statements of blocks that may write may leave the primary one by one.
    pub reads_in_blocks: bool,
    /// Shadow mode, for tests: where differences are written down.
    pub shadow: Option<Rc<shadow::Report>>,
}

/// A handle to the cluster.
#[derive(Clone)]
pub struct Cluster(Rc<Shared>);

struct Shared {
    setup: Setup,
    scheduler: RefCell<Scheduler>,
    /// By their numbers. Who has left stays here: what it served is shown with its name.
    standbys: RefCell<Vec<Rc<Standby>>>,
    /// Replicas that are awaited.
    coming: RefCell<Vec<Coming>>,
    databases: RefCell<BTreeMap<String, Rc<Database>>>,
    understanding: Understanding,
    backends: Backends,
    unmarked: Unmarked,
    /// The digest of the roles as it was last seen, and how often it was looked at.
    roles: Cell<(u64, Option<u64>)>,
    configured: Configured,
    lead: Lead,
    metrics: Metrics,
    round_trip: RoundTrip,
    routes: Routes,
    written: RefCell<Written>,
    slots: RefCell<Vec<(SlotState, Option<SlotFault>)>>,
    feeds: Feeds,
    reruns: Reruns,
    /// Declared procedures, where the design has other servers execute statements.
    procedures: RefCell<Rc<[Procedure]>>,
    /// Boundaries are handed out to the replicas that Consort feeds.
    handing_out: Cell<bool>,
    primary_facts: RefCell<Option<Rc<Facts>>>,
    primary_history: RefCell<Option<Rc<PrimaryHistory>>>,
    moved: Notify,
    /// Readers were let go.
    let_go: Notify,
    gauge_wanted: Notify,
    started: Instant,
    stopping: Cell<bool>,
}

impl Cluster {
    /// Starts the loops that follow the primary and its standbys, on the current thread's `LocalSet` or local runtime.
    /// Databases are followed from their first use on.
    pub fn start(setup: Setup) -> Cluster {
        let mut bounds = setup.bounds;
        bounds.writers = proven_against(&setup.design, setup.writers);
        bounds.refresh_locks = setup.design.intake.locks();
        let cluster = Cluster(Rc::new(Shared {
            scheduler: RefCell::new(Scheduler::new(bounds)),
            standbys: RefCell::default(),
            coming: RefCell::default(),
            databases: RefCell::default(),
            understanding: Understanding::new(setup.analysis_bytes),
            backends: Backends::default(),
            unmarked: Unmarked::default(),
            roles: Cell::default(),
            configured: Configured::default(),
            lead: Lead::new(setup.lease, must_be_alone(&setup, setup.writers)),
            metrics: Metrics::default(),
            round_trip: RoundTrip::default(),
            routes: Routes::default(),
            written: RefCell::default(),
            slots: RefCell::default(),
            feeds: Feeds::default(),
            reruns: Reruns::default(),
            procedures: RefCell::default(),
            handing_out: Cell::default(),
            primary_facts: RefCell::default(),
            primary_history: RefCell::default(),
            moved: Notify::new(),
            let_go: Notify::new(),
            gauge_wanted: Notify::new(),
            started: Instant::now(),
            stopping: Cell::new(false),
            setup,
        }));
        if let Some(lease) = cluster.setup().lease {
            tokio::task::spawn_local(follow::leader_lease::run(cluster.clone(), lease));
        }
        tokio::task::spawn_local(follow::snapshot_probe::run(cluster.clone()));
        tokio::task::spawn_local(follow::backends::run(cluster.clone()));
        tokio::task::spawn_local(follow::roles::run(cluster.clone()));
        tokio::task::spawn_local(barrier::run(cluster.clone()));
        for standby in cluster.setup().standbys.clone() {
            cluster.join(standby);
        }
        cluster
    }

    /// What it was started with.
    pub fn setup(&self) -> &Setup {
        &self.0.setup
    }

    /// The operator says which procedures do the same at every server, and what they touch. What was understood before is void
    /// if that is something else than before.
    pub fn declare_procedures(&self, procedures: &[Procedure]) {
        let is_asked = self.orders_first() || self.statements_travel() || !self.0.setup.harmless.is_empty();
        if !is_asked || **self.0.procedures.borrow() == *procedures {
            return;
        }
        *self.0.procedures.borrow_mut() = procedures.into();
        for database in self.databases() {
            if let Some(id) = database.id() {
                self.understanding().forget(id);
            }
            database.catalog_changed(None);
        }
        self.moved();
    }

    /// The declared procedures.
    pub(crate) fn procedures(&self) -> Rc<[Procedure]> {
        self.0.procedures.borrow().clone()
    }

    /// Reads wait at a replica for the whole latest version.
    pub fn reads_wait(&self) -> bool {
        self.0.setup.design.reads == Reads::LatestWaiting
    }

    /// Transactions are ordered before they are executed, and every server executes them.
    pub fn orders_first(&self) -> bool {
        self.0.setup.design.orders_first()
    }

    /// A transaction says before it begins which tables it will touch.
    pub fn declares_tables(&self) -> bool {
        self.0.setup.design.declares_tables()
    }

    /// The primary gets one commit at a time.
    pub fn commits_take_turns(&self) -> bool {
        self.0.setup.design.orderer == Orderer::PrimaryOneByOne
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// The scheduler. The borrow must end before the next `await`; call [`Cluster::moved`] after a change.
    pub fn scheduler(&self) -> RefMut<'_, Scheduler> {
        self.0.scheduler.borrow_mut()
    }

    /// Something moved in the scheduler: wakes whoever waits for it.
    pub fn moved(&self) {
        self.0.moved.notify_waiters();
        self.0.gauge_wanted.notify_one();
    }

    /// Completes with the next call of [`Cluster::moved`]. Registered as soon as it is made.
    pub fn next_move(&self) -> tokio::sync::futures::Notified<'_> {
        self.0.moved.notified()
    }

    /// Completes when the reader with this pass is let go; never, if it holds nobody back.
    pub async fn reader_let_go(&self, pass: Option<Pass>) {
        let Some(pass) = pass else { return std::future::pending().await };
        loop {
            let told = self.0.let_go.notified();
            if !self.scheduler().may_read(pass) {
                return;
            }
            told.await;
        }
    }

    /// Completes when a gauge may be wanted.
    pub(crate) async fn gauge_asked(&self) {
        self.0.gauge_wanted.notified().await;
    }

    /// The database of this name, which a session has begun to use: it is followed from now on.
    pub fn database(&self, name: &str) -> Rc<Database> {
        if let Some(database) = self.0.databases.borrow().get(name) {
            return database.clone();
        }
        let database = Rc::new(Database::new(name, self.declares_tables()));
        self.0.databases.borrow_mut().insert(name.to_owned(), database.clone());
        if !self.follows(name) {
            database.set_trouble(Some("the setting databases does not name it".into()));
            return database;
        }
        database.is_awaited_until(self.0.lead.since().unwrap_or(self.0.started) + FIRST_MOMENT);
        tokio::task::spawn_local(follow::database::run(self.clone(), database.clone()));
        for replica in self.fed_ids() {
            tokio::task::spawn_local(follow::replica_feed::run(self.clone(), database.clone(), replica));
        }
        database
    }

    /// Whether the setting `databases` names it.
    pub(crate) fn follows(&self, name: &str) -> bool {
        self.0.setup.follows.iter().any(|followed| followed == "*" || followed == name)
    }

    /// The databases that are followed.
    pub fn databases(&self) -> Vec<Rc<Database>> {
        self.0.databases.borrow().values().cloned().collect()
    }

    /// The primary says which database it is. If that was not known for sure, something may have been written there that
    /// was noted nowhere, or under another name of it: all of it is in doubt until a gauge has settled that is sent later.
    pub(crate) fn identified(&self, database: &Database, id: DatabaseId) {
        if database.id() == Some(id) {
            return;
        }
        let before = database.last_id().filter(|before| *before != id);
        database.set_id(id);
        self.scheduler().forget_slot(id);
        self.nobody_has(before);
    }

    /// Forgets a database that is no more.
    pub(crate) fn forget_database(&self, database: &Database) {
        self.0.databases.borrow_mut().remove(database.name());
        self.nobody_has(database.last_id());
        self.feeds().changed();
    }

    /// Nobody feeds a replica with the database any more. If it is no more either, what was told of it since it was forgotten
    /// is forgotten too.
    pub(crate) fn feeding_ends(&self, database: &Database) {
        self.nobody_has(database.last_id());
    }

    /// A name does not mean this database any more: it is forgotten, if no other name means it.
    fn nobody_has(&self, id: Option<DatabaseId>) {
        let Some(id) = id else { return };
        if !self.databases().iter().any(|other| other.last_id() == Some(id)) {
            self.scheduler().database_dropped(id);
            self.0.understanding.forget(id);
            self.feeds().forget(id);
        }
    }

    /// The identities of the standbys and the replicas that are in the cluster, in the order in which they joined.
    pub fn standby_ids(&self) -> impl Iterator<Item = StandbyId> + use<> {
        let standbys = self.0.standbys.borrow();
        let here = standbys.iter().enumerate().filter(|(_, standby)| standby.member.get() == Member::Here);
        here.map(|(place, _)| numbered(place)).collect::<Vec<_>>().into_iter()
    }

    /// What the configuration says of a standby, or said of one that has left.
    pub fn standby(&self, id: StandbyId) -> Rc<StandbySetup> {
        self.entry(id).setup.clone()
    }

    /// Completes when the watcher of this standby finds it dead or hanging; at once if it is known to be so. To be
    /// selected beside every wait for a standby's answer.
    pub async fn standby_lost(&self, id: StandbyId) {
        let entry = self.entry(id);
        let lost = entry.lost.notified();
        if entry.watched.get() {
            lost.await;
        }
    }

    /// Completes when this life of a standby has ended, as its watcher found, or the watcher has lost it for so long. One that is
    /// very busy may not answer for a while, and goes on with what it was asked.
    pub async fn standby_lost_for(&self, (id, life): (StandbyId, Incarnation), limit: Duration) {
        loop {
            self.standby_lost(id).await;
            let back = async {
                let mut moved = self.next_move();
                while !self.is_watched(id) {
                    moved.await;
                    moved = self.next_move();
                }
            };
            if tokio::time::timeout(limit, back).await.is_err() {
                return;
            }
            if self.standby_life(id).await.is_some_and(|now| now != life) {
                return;
            }
        }
    }

    /// The life in which a standby is now: that of an answer to a question that its watcher asks after this call. `None`
    /// if it is lost.
    pub async fn standby_life(&self, id: StandbyId) -> Option<Incarnation> {
        let entry = self.entry(id);
        let wanted = entry.begun.get() + 1;
        loop {
            let heard = entry.heard.notified();
            let (answered, life) = entry.answered.get();
            if answered >= wanted || !entry.watched.get() {
                return life.filter(|_| entry.watched.get());
            }
            entry.ask.notify_one();
            heard.await;
        }
    }

    /// Its watcher asks.
    pub(crate) fn standby_asked(&self, id: StandbyId) {
        let entry = self.entry(id);
        entry.begun.set(entry.begun.get() + 1);
    }

    /// Its watcher has heard the answer to its last question, in this life.
    pub(crate) fn standby_heard(&self, id: StandbyId, life: Incarnation) {
        let entry = self.entry(id);
        entry.answered.set((entry.begun.get(), Some(life)));
        entry.heard.notify_waiters();
    }

    /// How far it has received.
    pub(crate) fn standby_received(&self, id: StandbyId, received: Lsn) {
        self.entry(id).received.set(Some(received));
    }

    /// How far a standby has received the primary's log, as it said last in this life.
    pub fn received(&self, id: StandbyId) -> Option<Lsn> {
        self.entry(id).received.get()
    }

    /// The primary answered a gauge after this time.
    pub(crate) fn gauge_took(&self, time: Duration) {
        self.0.metrics.gauge_round_trip.took(time);
        self.0.round_trip.took(time);
    }

    /// The primary's log ended here when it was gauged.
    pub(crate) fn note_written(&self, end: Lsn) {
        self.0.written.borrow_mut().note(self.now(), end);
    }

    /// How long ago the primary's log ended where a standby with this mark is now; zero if nothing newer is known.
    pub fn lag(&self, mark: Lsn) -> Duration {
        self.0.written.borrow().first_beyond(mark).map_or(Duration::ZERO, |at| self.now().saturating_sub(at))
    }

    /// What the primary was when a standby was compared with it last.
    pub(crate) fn primary_facts(&self) -> Option<Rc<Facts>> {
        self.0.primary_facts.borrow().clone()
    }

    pub(crate) fn set_primary_facts(&self, facts: Rc<Facts>) {
        *self.0.primary_facts.borrow_mut() = Some(facts);
    }

    pub(crate) fn set_slots(&self, slots: Vec<(SlotState, Option<SlotFault>)>) {
        *self.0.slots.borrow_mut() = slots;
    }

    /// The slots at the primary, what each keeps, and what is wrong with it, as they were seen last.
    pub fn slots(&self) -> Vec<(SlotState, Option<SlotFault>)> {
        self.0.slots.borrow().clone()
    }

    pub(crate) fn standby_watched(&self, id: StandbyId) {
        self.entry(id).watched.set(true);
    }

    /// Whether its watcher is connected.
    pub(crate) fn is_watched(&self, id: StandbyId) -> bool {
        self.entry(id).watched.get()
    }

    /// The watcher has no connection to the standby any more: its mark is unknown.
    pub(crate) fn standby_gone(&self, id: StandbyId, why: String) {
        let entry = self.entry(id);
        entry.watched.set(false);
        entry.proven.set(None);
        entry.received.set(None);
        entry.lost.notify_waiters();
        entry.heard.notify_waiters();
        let mut scheduler = self.scheduler();
        scheduler.standby_lost(id);
        scheduler.standby_serving(id, scheduler::Serving::No(why.into()));
        drop(scheduler);
        self.moved();
    }

    /// Wakes the watchers of the standbys that have something above their mark.
    pub(crate) fn wake_watchers(&self) {
        for (place, standby) in self.0.standbys.borrow().iter().enumerate() {
            let wanted = self.scheduler().mark_wanted(numbered(place));
            if wanted {
                standby.ask.notify_one();
            }
        }
    }

    pub(crate) async fn mark_asked(&self, id: StandbyId) {
        self.entry(id).ask.notified().await;
    }

    fn entry(&self, id: StandbyId) -> Rc<Standby> {
        self.0.standbys.borrow()[id.get() as usize].clone()
    }

    /// What transactions have run that are on their way.
    fn reruns(&self) -> &Reruns {
        &self.0.reruns
    }

    /// What statements touch.
    pub fn understanding(&self) -> &Understanding {
        &self.0.understanding
    }

    /// The backends at the primary that are ours, and those of lost connections.
    pub fn backends(&self) -> &Backends {
        &self.0.backends
    }

    /// A transaction that began before its database was followed is over. Where the database is followed by now, a doubt about
    /// everything takes its place until a gauge has settled.
    pub fn early_over(&self, database: &Database) {
        if let Some(id) = database.id() {
            let mut scheduler = self.0.scheduler.borrow_mut();
            let doubt = scheduler.order_mut().doubt(id, Footprint::Everything);
            scheduler.order_mut().answered(doubt);
            drop(scheduler);
            self.gauge_now();
        }
        database.early_ended();
    }

    /// Changes without an event trigger that are not marked yet.
    pub(crate) fn unmarked(&self) -> &Unmarked {
        &self.0.unmarked
    }

    /// The digest of the roles, as it is now. Whether it is another than before.
    pub(crate) fn roles_seen(&self, digest: u64) -> bool {
        let (looks, before) = self.0.roles.get();
        self.0.roles.set((looks + 1, Some(digest)));
        before.is_some_and(|before| before != digest)
    }

    /// How often the roles were looked at.
    pub(crate) fn roles_looks(&self) -> u64 {
        self.0.roles.get().0
    }

    /// What is known of the primary's configuration.
    pub fn configured(&self) -> &Configured {
        &self.0.configured
    }

    /// Whether this Consort leads, among several.
    pub fn lead(&self) -> &Lead {
        &self.0.lead
    }

    /// It leads from now on. Whoever comes in this moment comes from the one that led: statements wait until their databases are
    /// followed.
    pub(crate) fn takes_over(&self) {
        for database in self.databases().iter().filter(|database| self.follows(database.name())) {
            database.is_awaited_until(Instant::now() + FIRST_MOMENT);
        }
        self.0.lead.begin();
    }

    /// Why nobody may be served now: another Consort leads, or may do so, and two at a time would do harm.
    pub fn serves_nobody(&self) -> bool {
        self.0.lead.is_alone() && !self.0.lead.is_sure(self.now())
    }

    /// What the process counts.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Where statements went.
    pub fn routes(&self) -> &Routes {
        &self.0.routes
    }

    /// A gauge may be wanted.
    pub fn gauge_now(&self) {
        self.0.gauge_wanted.notify_one();
    }

    /// The operator says anew who writes. The way back to writers through this process alone leads through here: everything is in
    /// doubt until no other backend is left.
    pub fn set_writers(&self, writers: Writers) {
        self.scheduler().set_writers(proven_against(&self.setup().design, writers));
        self.0.lead.set_alone(must_be_alone(self.setup(), writers));
        self.0.backends.distrust();
        self.moved();
    }

    /// How much each node takes of the reads, by its name.
    pub fn weigh(&self, weights: &BTreeMap<&str, u32>) {
        for id in self.standby_ids() {
            if let Some(weight) = weights.get(self.standby(id).name.as_str()) {
                self.scheduler().standby_weight(id, *weight);
            }
        }
        self.moved();
    }

    /// The loops end at their next turn.
    pub fn stop(&self) {
        self.0.stopping.set(true);
        self.moved();
    }

    pub(crate) fn stopping(&self) -> bool {
        self.0.stopping.get()
    }
}

/// Who writes, as far as what is known here tells: what is ordered before it is executed is in no doubt, and its commits look like those of
/// somebody else.
fn proven_against(design: &Design, writers: Writers) -> Writers {
    if design.orders_first() { Writers::Anywhere } else { writers }
}

/// Whether two Consorts at a time would do harm: no gauge tells of the other's commits, or both give turns.
fn must_be_alone(setup: &Setup, writers: Writers) -> bool {
    let by_turns = setup.design.orderer == Orderer::PrimaryOneByOne;
    writers == Writers::ThroughConsort || setup.design.orders_first() || by_turns
}

impl transaction::Cluster for Cluster {
    fn scheduler(&self) -> RefMut<'_, Scheduler> {
        self.0.scheduler.borrow_mut()
    }

    async fn changed(&self, within: Duration) -> Option<Duration> {
        let moved = self.0.moved.notified();
        let end = Instant::now() + within;
        tokio::time::timeout_at(end, moved).await.ok()?;
        Some(end.saturating_duration_since(Instant::now()))
    }

    fn gauge_wanted(&self) {
        self.0.gauge_wanted.notify_one();
    }

    fn moved(&self) {
        Cluster::moved(self);
    }

    fn let_go(&self) {
        self.0.let_go.notify_waiters();
        Cluster::moved(self);
    }

    fn orphaned(&self, doubt: DoubtId, backend: Backend) {
        self.0.backends.orphaned(OrphanOf::Doubt(doubt), backend);
    }

    fn proof_limit(&self) -> Duration {
        self.0.round_trip.proof_limit(self.0.setup.proof_limit)
    }

    fn leads(&self) -> bool {
        self.0.lead.is_sure(self.now())
    }
}
