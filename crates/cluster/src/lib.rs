//! The cluster as one process of Consort knows it: the one scheduler, the followed databases, the standbys,
//! and the clock. Sessions and the loops of `follow` hold it as a cheap handle. Everything runs in one
//! thread.
//!
//! The cluster does not know clients.

mod arrival_rate;
mod backends;
pub mod barrier;
pub mod commit_tokens;
mod configuration_reloads;
mod database;
mod extension_tables;
pub mod follow;
mod joining_replicas;
mod leadership;
mod membership;
mod name_changes;
pub mod plan;
mod replica_commands;
mod replication_buffer;
mod replication_lag;
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

pub(crate) use arrival_rate::Work;
pub use backends::Backends;
pub use backends::{Orphan, OrphanOf};
pub use configuration_reloads::Configured;
pub use database::{Asked, Hold, extension_differences};
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
pub use timeline_proofs::primary_took_log_in;

use crate::barrier::Unmarked;
use crate::routes::Routes;
use crate::understanding::Understanding;
use config::OffloadInTransactions;
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
use replication_lag::Written;
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

/// Time after a start, a take-over, or the first use of a database, in which statements wait until their database is followed:
/// then clients usually come all at once, and code of a statement that runs earlier stays unknown as long as its session lives.
const FIRST_MOMENT: Duration = Duration::from_secs(2);

/// One standby or logical replica, as the configuration names it.
#[derive(Clone, Debug)]
pub struct StandbySetup {
    /// Name in the configuration, for operators.
    pub name: String,
    /// Kind of its replication.
    pub kind: Kind,
    /// Its address, and the role that watches it.
    pub address: Address,
    /// Share of the reads, relative to the others; 0 takes none.
    pub weight: u32,
    /// Tables that a replica receives.
    pub tables: Chosen,
}

/// Settings with which a cluster starts.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The primary, and the role of the connections that probe, decode and analyse there.
    pub primary: Address,
    /// The standbys, followed by the logical replicas of the start.
    pub standbys: Vec<StandbySetup>,
    /// Allowed writers in addition to the clients of this process.
    pub writers: Writers,
    /// Time for which this Consort leads after the primary's last answer. Zero: until another Consort leads.
    /// `None`: there is no other Consort.
    pub lease: Option<Duration>,
    /// Replication design.
    pub design: Design,
    /// Maximum time for which an unproven answer is held before the statement runs at the primary; longer
    /// while the primary itself takes longer to answer.
    pub proof_timeout: Duration,
    /// Maximum wait of reads for replicas, of commits for their turn, and of statements for their tables, in
    /// designs that wait.
    pub replica_wait_timeout: Duration,
    /// Number of replicas that show a commit before its client receives the answer, where commits take turns.
    pub commit_replica_quorum: usize,
    /// True if a database is attached automatically at its first use (`consort up`), false if
    /// `consort attach` alone does so.
    pub attach: bool,
    /// Databases that are followed, so that their reads may be offloaded; `*` is all.
    pub follows: Vec<String>,
    /// Bound of the analysis cache, bytes.
    pub analysis_bytes: usize,
    /// Bounds of the scheduler.
    pub bounds: scheduler::Options,
    /// Functions and extensions whose functions are declared safe: they may run at a standby.
    pub harmless: Vec<String>,
    /// Pooling of connections at the primary.
    pub pools: Pools,
    /// Bound of the connections of clients to one standby.
    pub standby_connections: usize,
    /// Maximum bytes of an answer that are held until it is proven.
    pub held_answer_bytes: usize,
    /// Maximum bytes of the rows that are kept for replicas in memory.
    pub fed_buffer_bytes: usize,
    /// Maximum bytes of the rows that are kept for replicas in files.
    pub fed_archive_bytes: usize,
    /// Handling of DDL that replicas cannot run with the same effect.
    pub unreplicable_ddl: UnreplicableDdl,
    /// Connections on which a replica that lags applies concurrently.
    pub apply_connections: usize,
    /// Minimum rows of a statement that travels as such, in designs that replicate statements: a smaller one
    /// travels as rows.
    pub statement_rows: u64,
    /// Finest grain at which a read is compared with writes.
    pub footprint_grain: Grain,
    /// Offload of statements of blocks that may write.
    pub offload_in_transactions: OffloadInTransactions,
    /// Report of shadow mode, for tests.
    pub shadow: Option<Rc<shadow::Report>>,
}

/// A handle to the cluster.
#[derive(Clone)]
pub struct Cluster(Rc<Shared>);

struct Shared {
    setup: Setup,
    scheduler: RefCell<Scheduler>,
    /// Standbys by number. One that has left stays here: its counts are shown with its name.
    standbys: RefCell<Vec<Rc<Standby>>>,
    /// Replicas to come.
    coming: RefCell<Vec<Coming>>,
    databases: RefCell<BTreeMap<String, Rc<Database>>>,
    understanding: Understanding,
    backends: Backends,
    unmarked: Unmarked,
    /// Last digest of the roles, and the number of comparisons.
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
    /// True if boundaries are handed out to logical replicas.
    handing_out: Cell<bool>,
    primary_facts: RefCell<Option<Rc<Facts>>>,
    primary_history: RefCell<Option<Rc<PrimaryHistory>>>,
    moved: Notify,
    /// Notifies of released readers.
    let_go: Notify,
    gauge_wanted: Notify,
    started: Instant,
    stopping: Cell<bool>,
}

impl Cluster {
    /// Starts the loops that follow the primary and its standbys, on the current thread's `LocalSet` or local
    /// runtime. Databases are followed from their first use on.
    pub fn start(setup: Setup) -> Cluster {
        let mut bounds = setup.bounds;
        bounds.writers = proven_against(&setup.design, setup.writers);
        bounds.refresh_locks = setup.design.intake.locks();
        bounds.by_position = !setup.design.follows_commits();
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

    /// Settings with which the cluster was started.
    pub fn setup(&self) -> &Setup {
        &self.0.setup
    }

    /// Declares the procedures that do the same at every server, with their footprints. If they differ from
    /// the earlier ones, the known footprints of statements are void.
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

    /// Returns true if reads wait at a replica for the whole latest version.
    pub fn reads_wait(&self) -> bool {
        self.0.setup.design.reads == Reads::LatestWaiting
    }

    /// Returns true if transactions are ordered before they are executed, and every server executes them.
    pub fn orders_first(&self) -> bool {
        self.0.setup.design.orders_first()
    }

    /// Returns true if a transaction declares the tables that it will touch before it begins.
    pub fn declares_tables(&self) -> bool {
        self.0.setup.design.declares_tables()
    }

    /// Returns true if the primary receives one commit at a time.
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

    /// Wakes all waiters after a change in the scheduler.
    pub fn moved(&self) {
        self.0.moved.notify_waiters();
        self.0.gauge_wanted.notify_one();
    }

    /// Completes with the next call of [`Cluster::moved`]. Registered at once.
    pub fn next_move(&self) -> tokio::sync::futures::Notified<'_> {
        self.0.moved.notified()
    }

    /// Completes when the reader with this pass is released. Never completes if the reader holds up no write.
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

    /// Completes when a snapshot probe may be wanted.
    pub(crate) async fn gauge_asked(&self) {
        self.0.gauge_wanted.notified().await;
    }

    /// Returns the database of this name, which a session has begun to use: it is followed from now on.
    pub fn database(&self, name: &str) -> Rc<Database> {
        if let Some(database) = self.0.databases.borrow().get(name) {
            return database.clone();
        }
        let database = Rc::new(Database::new(name, self.declares_tables()));
        self.0.databases.borrow_mut().insert(name.to_owned(), database.clone());
        if !self.follows(name) {
            database.set_trouble(Some("the database is not listed (databases)".into()));
            return database;
        }
        database.is_awaited_until(Instant::now() + FIRST_MOMENT);
        tokio::task::spawn_local(follow::database::run(self.clone(), database.clone()));
        for replica in self.fed_ids() {
            tokio::task::spawn_local(follow::replica_feed::run(self.clone(), database.clone(), replica));
        }
        database
    }

    /// Returns true if the setting `databases` names it.
    pub(crate) fn follows(&self, name: &str) -> bool {
        self.0.setup.follows.iter().any(|followed| followed == "*" || followed == name)
    }

    /// The databases that are followed.
    pub fn databases(&self) -> Vec<Rc<Database>> {
        self.0.databases.borrow().values().cloned().collect()
    }

    /// Notes the identity that the primary reports for the database. If it was uncertain before, writes may
    /// have been noted nowhere, or under another name of the database. Then all of it is in flight until a
    /// probe that is sent later has settled.
    pub(crate) fn identified(&self, database: &Database, id: DatabaseId) {
        if database.id() == Some(id) {
            return;
        }
        let before = database.last_id().filter(|before| *before != id);
        database.set_id(id);
        self.scheduler().forget_slot(id);
        self.nobody_has(before);
    }

    /// Forgets a database that was dropped.
    pub(crate) fn forget_database(&self, database: &Database) {
        self.0.databases.borrow_mut().remove(database.name());
        self.nobody_has(database.last_id());
        self.feeds().changed();
    }

    /// Notes that no replica is fed with the database any more. If the database was dropped too, everything
    /// noted since it was forgotten is forgotten too.
    pub(crate) fn feeding_ends(&self, database: &Database) {
        self.nobody_has(database.last_id());
    }

    /// Forgets a database that a name no longer means, if no other name means it.
    fn nobody_has(&self, id: Option<DatabaseId>) {
        let Some(id) = id else { return };
        if !self.databases().iter().any(|other| other.last_id() == Some(id)) {
            self.scheduler().database_dropped(id);
            self.0.understanding.forget(id);
            self.feeds().forget(id);
        }
    }

    /// The identities of the standbys and the replicas that are in the cluster, in the order in which they
    /// joined.
    pub fn standby_ids(&self) -> impl Iterator<Item = StandbyId> + use<> {
        let standbys = self.0.standbys.borrow();
        let here = standbys.iter().enumerate().filter(|(_, standby)| standby.member.get() == Member::Here);
        here.map(|(place, _)| numbered(place)).collect::<Vec<_>>().into_iter()
    }

    /// Configuration of a standby, or of one that has left.
    pub fn standby(&self, id: StandbyId) -> Rc<StandbySetup> {
        self.entry(id).setup.clone()
    }

    /// Completes when the watcher of this standby finds it dead or hanging; at once if that is known already.
    /// Select this alongside every wait for a standby's answer.
    pub async fn standby_lost(&self, id: StandbyId) {
        let entry = self.entry(id);
        let lost = entry.lost.notified();
        if entry.watched.get() {
            lost.await;
        }
    }

    /// Completes when this incarnation of a standby has ended, as its watcher found, or the watcher has lost
    /// it for `limit`. A very busy standby may not answer for a while, and goes on with its work.
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

    /// Incarnation in which a standby is now: that of an answer to a query that its watcher sends after this
    /// call. `None` if it is lost.
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

    /// Notes that the standby's watcher has sent a query.
    pub(crate) fn standby_asked(&self, id: StandbyId) {
        let entry = self.entry(id);
        entry.begun.set(entry.begun.get() + 1);
    }

    /// Notes that the standby's watcher has received the answer to its last query, in this incarnation.
    pub(crate) fn standby_heard(&self, id: StandbyId, life: Incarnation) {
        let entry = self.entry(id);
        entry.answered.set((entry.begun.get(), Some(life)));
        entry.heard.notify_waiters();
    }

    /// Notes the standby's received position.
    pub(crate) fn standby_received(&self, id: StandbyId, received: Lsn) {
        self.entry(id).received.set(Some(received));
    }

    /// WAL position up to which a standby has received, as it last reported in this incarnation.
    pub fn received(&self, id: StandbyId) -> Option<Lsn> {
        self.entry(id).received.get()
    }

    /// Notes the time that the primary took to answer a snapshot probe.
    pub(crate) fn gauge_took(&self, time: Duration) {
        self.0.metrics.gauge_round_trip.took(time);
        self.0.round_trip.took(time);
    }

    /// Notes the end of the primary's WAL at the time of a probe.
    pub(crate) fn note_written(&self, end: Lsn) {
        self.0.written.borrow_mut().note(self.now(), end);
    }

    /// Lag of a standby with this mark: the time since the primary's WAL ended there. Zero if nothing newer
    /// is known.
    pub fn lag(&self, mark: Lsn) -> Duration {
        self.0.written.borrow().first_beyond(mark).map_or(Duration::ZERO, |at| self.now().saturating_sub(at))
    }

    /// Facts about the primary at the last comparison with a standby.
    pub(crate) fn primary_facts(&self) -> Option<Rc<Facts>> {
        self.0.primary_facts.borrow().clone()
    }

    pub(crate) fn set_primary_facts(&self, facts: Rc<Facts>) {
        *self.0.primary_facts.borrow_mut() = Some(facts);
    }

    pub(crate) fn set_slots(&self, slots: Vec<(SlotState, Option<SlotFault>)>) {
        *self.0.slots.borrow_mut() = slots;
    }

    /// The slots at the primary, with their WAL and faults, as they were last seen.
    pub fn slots(&self) -> Vec<(SlotState, Option<SlotFault>)> {
        self.0.slots.borrow().clone()
    }

    pub(crate) fn standby_watched(&self, id: StandbyId) {
        self.entry(id).watched.set(true);
    }

    /// Returns true if its watcher is connected.
    pub(crate) fn is_watched(&self, id: StandbyId) -> bool {
        self.entry(id).watched.get()
    }

    /// Notes that the watcher has no connection to the standby any more: its mark is unknown.
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

    /// Wakes the watchers of the standbys with a position above their mark.
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

    /// Statements of the transactions that are on their way.
    fn reruns(&self) -> &Reruns {
        &self.0.reruns
    }

    /// Knowledge about the footprints of statements.
    pub fn understanding(&self) -> &Understanding {
        &self.0.understanding
    }

    /// Own backends at the primary, and those of lost connections.
    pub fn backends(&self) -> &Backends {
        &self.0.backends
    }

    /// Notes the end of a transaction that began before its database was followed. If the database is
    /// followed by now, a write set over everything takes the transaction's place until a probe has settled.
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

    /// Notes the current digest of the roles. Returns true if it has changed.
    pub(crate) fn roles_seen(&self, digest: u64) -> bool {
        let (looks, before) = self.0.roles.get();
        self.0.roles.set((looks + 1, Some(digest)));
        before.is_some_and(|before| before != digest)
    }

    /// Number of comparisons of the roles.
    pub(crate) fn roles_looks(&self) -> u64 {
        self.0.roles.get().0
    }

    /// Known state of the primary's configuration.
    pub fn configured(&self) -> &Configured {
        &self.0.configured
    }

    /// Leadership of this Consort, among several.
    pub fn lead(&self) -> &Lead {
        &self.0.lead
    }

    /// Takes over the leadership. Clients that connect now come from the former leader, so statements wait
    /// until their databases are followed.
    pub(crate) fn takes_over(&self) {
        for database in self.databases().iter().filter(|database| self.follows(database.name())) {
            database.is_awaited_until(Instant::now() + FIRST_MOMENT);
        }
        self.0.lead.begin();
    }

    /// Returns true if no client may be served now: another Consort leads, or may do so, and two at a time
    /// would do harm.
    pub fn serves_nobody(&self) -> bool {
        self.0.lead.is_alone() && !self.0.lead.is_sure(self.now())
    }

    /// Counters of the process.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Routes of statements.
    pub fn routes(&self) -> &Routes {
        &self.0.routes
    }

    /// Requests a snapshot probe.
    pub fn gauge_now(&self) {
        self.0.gauge_wanted.notify_one();
    }

    /// Sets the allowed writers again, on an operator's command. A change back to writers through this
    /// process alone puts everything in flight until no other backend is left.
    pub fn set_writers(&self, writers: Writers) {
        self.scheduler().set_writers(proven_against(&self.setup().design, writers));
        self.0.lead.set_alone(must_be_alone(self.setup(), writers));
        self.0.backends.distrust();
        self.moved();
    }

    /// Sets each node's share of the reads, by its name.
    pub fn weigh(&self, weights: &BTreeMap<&str, u32>) {
        for id in self.standby_ids() {
            if let Some(weight) = weights.get(self.standby(id).name.as_str()) {
                self.scheduler().standby_weight(id, *weight);
            }
        }
        self.moved();
    }

    /// Ends the loops at their next turn.
    pub fn stop(&self) {
        self.0.stopping.set(true);
        self.moved();
    }

    pub(crate) fn stopping(&self) -> bool {
        self.0.stopping.get()
    }
}

/// Returns the writers that reads must be proven against, as far as it is known here. A transaction that is
/// ordered before it is executed is never in flight, and its commits look like foreign ones.
fn proven_against(design: &Design, writers: Writers) -> Writers {
    if design.orders_first() { Writers::Anywhere } else { writers }
}

/// Returns true if two Consorts at a time would do harm: no probe reports the other's commits, or both give
/// turns.
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

    fn proof_timeout(&self) -> Duration {
        self.0.round_trip.proof_timeout(self.0.setup.proof_timeout)
    }

    fn leads(&self) -> bool {
        self.0.lead.is_sure(self.now())
    }
}
