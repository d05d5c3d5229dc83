//! One Consort: the real scheduler and order, fed by snapshot probes, decoders and watchers over the model's
//! network. The flows see it as [`Handle`].

use crate::bugs::Bug;
use crate::executor::{Micros, Signal, either};
use crate::feed_buffer::Buffer;
use crate::model::primary::Primary;
use crate::model::schema::{Cell as Place, SERVED, Table, database};
use crate::model::standby::Standby;
use crate::model::statement::trigger_there;
use crate::world::World;
use history::{Commit, DatabaseId, Footprint, Incarnation, Lsn, Rows, Xid};
use order::{DoubtId, Gauge, GaugeNumber};
use scheduler::{Options, Scheduler, Serving, Writers};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use transaction::{Backend, Cluster};

/// Interval of snapshot probes as long as commits wait that none has seen.
const WAITING: Micros = 3_000;

/// One life of one Consort.
pub struct Consort {
    /// The run.
    pub world: Rc<World>,
    /// Its number; the group of its tasks is this plus one.
    pub number: u32,
    scheduler: RefCell<Scheduler>,
    changed: Signal,
    gauges: Signal,
    /// There are new boundaries.
    pub(crate) fed_on: Signal,
    pub(crate) buffer: RefCell<Buffer>,
    gauged: RefCell<Rc<Primary>>,
    generation: Cell<u64>,
    earlier: BTreeSet<i32>,
    /// Definitions that filled the analysis cache, by database.
    understood: RefCell<BTreeMap<DatabaseId, Definitions>>,
    /// Counts the changes of catalogs that were decoded.
    catalogs: Cell<u64>,
    /// Changes of catalogs that were decoded and that no settled snapshot probe has seen: the primary may not
    /// show them yet, and an analysis there meanwhile has the older state.
    unseen: RefCell<Vec<(DatabaseId, Xid)>>,
}

/// Definitions in a catalog.
#[derive(Clone, Copy, Debug)]
pub struct Definitions {
    /// The view's definition.
    pub view: u32,
    /// True if the trigger is there.
    pub trigger: bool,
}

/// State that the flows hold.
#[derive(Clone)]
pub struct Handle(pub Rc<Consort>);

impl Cluster for Handle {
    fn scheduler(&self) -> RefMut<'_, Scheduler> {
        self.0.scheduler.borrow_mut()
    }

    async fn changed(&self, within: Duration) -> Option<Duration> {
        let micros = u64::try_from(within.as_micros()).expect("limits are short");
        self.0.changed.wait_within(micros).await.map(Duration::from_micros)
    }

    fn gauge_wanted(&self) {
        self.0.gauges.notify();
    }

    fn moved(&self) {
        self.0.changed.notify();
        self.0.fed_on.notify();
    }

    fn orphaned(&self, doubt: DoubtId, backend: Backend) {
        let consort = self.0.clone();
        self.0.spawn(async move { consort.watch_backend(doubt, backend).await });
    }

    fn proof_timeout(&self) -> Duration {
        Duration::from_micros(self.0.world.proof_timeout.get())
    }

    fn bugs(&self) -> transaction::Bugs {
        self.0.world.planted.flows
    }
}

impl Consort {
    /// Starts it: connected to the primary, its slots open, its watchers at work. `fresh`: its slots are new.
    pub fn start(world: &Rc<World>, number: u32, writers: Writers, bounds: Options) -> Rc<Consort> {
        let options = Options {
            writers,
            order: order::Options { bugs: world.planted.order, ..bounds.order },
            bugs: world.planted.scheduler,
            refresh_locks: world.ways.get().locking,
            ..bounds
        };
        let executor = &world.env.executor;
        let consort = Rc::new(Consort {
            world: world.clone(),
            number,
            scheduler: RefCell::new(Scheduler::new(options)),
            changed: executor.signal(),
            gauges: executor.signal(),
            fed_on: executor.signal(),
            buffer: RefCell::default(),
            gauged: RefCell::new(world.primary()),
            generation: Cell::new(0),
            earlier: world.opened.borrow().get(&number).cloned().unwrap_or_default(),
            understood: RefCell::default(),
            catalogs: Cell::new(0),
            unseen: RefCell::default(),
        });
        let run = consort.clone();
        consort.spawn(async move { run.follow_primary().await });
        let run = consort.clone();
        consort.spawn(async move { run.gauge_loop().await });
        for standby in world.standbys.clone() {
            if standby.is_fed() {
                consort.feeds(&standby);
                continue;
            }
            consort.scheduler.borrow_mut().standby_joined(standby.id, 1);
            let run = consort.clone();
            consort.spawn(async move { run.watch(&standby).await });
        }
        consort
    }

    /// Only the first Consort feeds.
    fn feeds(self: &Rc<Self>, replica: &Rc<Standby>) {
        if self.number > 0 {
            return;
        }
        if replica.joins > self.world.env.now() {
            let (run, replica) = (self.clone(), replica.clone());
            self.spawn(async move {
                run.world.env.executor.sleep(replica.joins - run.world.env.now()).await;
                run.feeds(&replica);
            });
            return;
        }
        self.input(|s| s.fed_joined(replica.id, 1));
        for of in (0..SERVED).map(database) {
            self.input(|s| s.fed_takes(replica.id, of));
            let (run, replica) = (self.clone(), replica.clone());
            self.spawn(async move { run.feed(replica, of).await });
        }
    }

    /// Starts a task that dies with it.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.world.env.executor.spawn(self.number + 1, future);
    }

    /// The number of open in-flight write sets.
    pub fn doubts(&self) -> usize {
        self.scheduler.borrow().order().doubts().count()
    }

    /// The configured writers: through Consort only, or anywhere.
    pub fn writers(&self) -> Writers {
        self.scheduler.borrow().writers()
    }

    /// The catalog's definitions, for an analysis: from the cache, or from the primary. `None` if it changed
    /// meanwhile: the definitions may be older.
    pub async fn definitions(&self, of: DatabaseId) -> Option<Definitions> {
        let cached = self.understood.borrow().get(&of).copied();
        if cached.is_some() {
            return cached;
        }
        if self.catalog_between(of) && !self.world.planted.model.has(Bug::AnalysedBetween) {
            return None;
        }
        let (env, before) = (&self.world.env, self.catalogs.get());
        env.step(|d| d.network).await;
        let states = self.world.primary().states(of);
        let state = &states.last().expect("never empty").1;
        let learnt =
            Definitions { view: state.get(Place::a(Table::Catalog, 0)), trigger: trigger_there(state) };
        env.step(|d| d.network).await;
        if self.catalogs.get() != before {
            return None;
        }
        self.understood.borrow_mut().insert(of, learnt);
        Some(learnt)
    }

    /// True if a change of the catalog is decoded that the primary may not show yet; then a snapshot probe is
    /// wanted that shows it.
    fn catalog_between(&self, of: DatabaseId) -> bool {
        let mut scheduler = self.scheduler.borrow_mut();
        let settled = scheduler.order().settled(of).map(|(_, gauge)| &gauge.snapshot);
        let mut unseen = self.unseen.borrow_mut();
        unseen
            .retain(|(database, xid)| *database != of || settled.is_none_or(|snapshot| !snapshot.sees(*xid)));
        let between = unseen.iter().any(|(database, _)| *database == of);
        if between {
            scheduler.order_mut().want_gauge();
            self.gauges.notify();
        }
        between
    }

    pub(crate) fn input<T>(&self, act: impl FnOnce(&mut Scheduler) -> T) -> T {
        let mut scheduler = self.scheduler.borrow_mut();
        let result = act(&mut scheduler);
        let boundaries = scheduler.take_boundaries();
        drop(scheduler);
        if !boundaries.is_empty() {
            self.buffer.borrow_mut().extend(boundaries);
            self.fed_on.notify();
        }
        self.changed.notify();
        self.gauges.notify();
        result
    }

    // The primary's lives.

    async fn follow_primary(self: Rc<Consort>) {
        let env = self.world.env.clone();
        let mut known = None;
        loop {
            let primary = self.world.primary();
            let (life, other) = (primary.life_changed.wait(), self.world.failed_over.wait());
            match primary.incarnation() {
                None => self.input(|s| s.order_mut().primary_lost()),
                Some(incarnation) => {
                    self.connected(&primary, incarnation, known);
                    known = Some(incarnation);
                }
            }
            either(life, other).await;
            env.step(|d| d.network).await;
        }
    }

    fn connected(
        self: &Rc<Self>,
        primary: &Rc<Primary>,
        incarnation: Incarnation,
        known: Option<Incarnation>,
    ) {
        self.generation.set(self.generation.get() + 1);
        self.understood.borrow_mut().clear();
        self.unseen.borrow_mut().clear();
        self.catalogs.set(self.catalogs.get() + 1);
        if !self.world.gauge_lingers.get() {
            *self.gauged.borrow_mut() = primary.clone();
        }
        self.input(|s| s.order_mut().incarnate(incarnation));
        let other_server = known.is_some_and(|known| known.epoch != incarnation.epoch);
        for place in 0..SERVED {
            self.open_slot(primary, database(place), other_server);
        }
        let run = self.clone();
        self.spawn(async move { run.wait_for_orphans().await });
    }

    fn open_slot(self: &Rc<Self>, primary: &Rc<Primary>, of: DatabaseId, other_server: bool) {
        let confirmed = self.world.slots.borrow().get(&(self.number, of)).copied();
        let from = match confirmed {
            Some(from) if !other_server => {
                self.input(|s| s.order_mut().slot_closed(of));
                self.input(|s| s.slot_opened(of, from));
                from
            }
            _ => {
                let from = primary.flush_lsn();
                self.input(|s| s.slot_created(of, from));
                from
            }
        };
        self.world.slots.borrow_mut().insert((self.number, of), from);
        let (run, primary, generation) = (self.clone(), primary.clone(), self.generation.get());
        self.spawn(async move { run.decode(&primary, of, from, generation).await });
    }

    /// Everything counts as in flight until no backend of an earlier life is left.
    async fn wait_for_orphans(&self) {
        let env = &self.world.env;
        let generation = self.generation.get();
        loop {
            env.step(|d| d.network).await;
            let left = self.world.primary().backends().intersection(&self.earlier).count();
            env.step(|d| d.network).await;
            if self.generation.get() != generation {
                return;
            }
            if left == 0 {
                self.input(|s| s.order_mut().orphans_gone());
                return;
            }
            env.executor.sleep(500).await;
        }
    }

    async fn watch_backend(&self, doubt: DoubtId, backend: Backend) {
        let env = &self.world.env;
        loop {
            env.step(|d| d.network).await;
            let primary = self.world.primary();
            let there = primary.incarnation().is_none() || primary.has_backend(backend.pid);
            env.step(|d| d.network).await;
            if !there {
                self.input(|s| s.order_mut().backend_gone(doubt));
                return;
            }
            env.executor.sleep(300).await;
        }
    }

    // Gauges.

    async fn gauge_loop(self: Rc<Consort>) {
        loop {
            let wanted = self.gauges.wait();
            let now = Duration::from_micros(self.world.env.now());
            let number = self.scheduler.borrow_mut().gauge_to_send(now);
            match number {
                Some(number) => self.gauge(number).await,
                None if self.waiting() => {
                    // A Consort that hangs is not seen by others.
                    let pause = self.world.env.executor.sleep(WAITING);
                    either(wanted, pause).await;
                    self.scheduler.borrow_mut().order_mut().want_gauge();
                }
                None => drop(wanted.await),
            }
        }
    }

    fn waiting(&self) -> bool {
        self.scheduler.borrow().order().waiting() > 0
    }

    async fn gauge(&self, number: GaugeNumber) {
        let (world, env) = (&self.world, &self.world.env);
        let primary = self.gauged.borrow().clone();
        let life = primary.incarnation();
        env.step(|d| d.network).await;
        env.executor.sleep(world.gauge_request.get()).await;
        let snapshot = primary.snapshot().filter(|_| primary.incarnation() == life);
        env.step(|d| d.position).await;
        let flushed = world.planted.model.has(Bug::TokenFlushLsn);
        let insert_lsn = if flushed { primary.flush_lsn() } else { primary.insert_lsn() };
        env.step(|d| d.network).await;
        env.executor.sleep(world.gauge_answer.get()).await;
        let same = primary.incarnation() == life;
        match (snapshot, life) {
            (Some(snapshot), Some(incarnation)) if same => {
                let gauge = Gauge { incarnation, snapshot, insert_lsn };
                if self.input(|s| s.gauge_answered(number, gauge)).is_err() {
                    // Void: the connection is of no use any more.
                    *self.gauged.borrow_mut() = world.primary();
                }
            }
            _ => {
                self.input(|s| s.order_mut().gauge_lost(number));
                env.executor.sleep(100).await;
            }
        }
    }

    // Decoders.

    async fn decode(&self, primary: &Rc<Primary>, of: DatabaseId, from: Lsn, generation: u64) {
        let (world, env) = (&self.world, &self.world.env);
        let mut at = from;
        loop {
            let (flushed, on) = (primary.flushed_on.wait(), world.decoders_on.wait());
            let batch = primary.records_after(at);
            let paused = || world.decoders_paused.get() || world.decoder_paused.get() == Some(of);
            if paused() || batch.is_empty() {
                either(flushed, on).await;
                continue;
            }
            env.step(|d| d.decode).await;
            if self.generation.get() != generation {
                return;
            }
            if paused() {
                continue;
            }
            for record in &batch {
                if let Some(commit) = &record.commit
                    && commit.database == of
                    && let Some(wrote) = &commit.wrote
                {
                    let (start, end) = (Lsn::new(record.start), Lsn::new(record.end));
                    let commit_ddl = commit.ddl;
                    self.buffer.borrow_mut().came_out(end, commit);
                    let commit =
                        Commit { database: of, xid: Xid::new(commit.xid), start, end, wrote: wrote.clone() };
                    self.give(commit, commit_ddl);
                }
                at = Lsn::new(record.end);
            }
            self.input(|s| s.decoded_to(of, at));
            if let Some(confirmed) = self.scheduler.borrow_mut().confirmable(of) {
                world.slots.borrow_mut().insert((self.number, of), confirmed);
            }
        }
    }

    fn give(&self, commit: Commit, ddl: bool) {
        let mut emptied = Footprint::NOTHING;
        for (table, access) in commit.wrote.tables().into_iter().flatten() {
            if access.existence && access.rows == Rows::All {
                emptied.add(table, access.clone());
            }
        }
        let locked_out = if ddl { Footprint::Everything } else { emptied };
        self.input(|s| s.lock_marks.mark(commit.database, &locked_out));
        if !ddl {
            self.input(|s| s.decoded(commit));
            return;
        }
        // A barrier: what was analysed before is forgotten before the commit counts as decoded.
        if !self.world.planted.model.has(Bug::StaleAnalysis) {
            self.understood.borrow_mut().remove(&commit.database);
            self.catalogs.set(self.catalogs.get() + 1);
        }
        self.unseen.borrow_mut().push((commit.database, commit.xid));
        self.input(|s| s.ddl(commit));
    }

    // Watchers.

    async fn watch(&self, standby: &Standby) {
        let (world, env) = (&self.world, &self.world.env);
        let mut connected = None;
        loop {
            env.step(|d| d.network).await;
            let incarnation = standby.incarnation().filter(|_| !standby.hangs.get());
            let lying = world.planted.model.has(Bug::StandbySnapshotFunction);
            let replayed = if lying { standby.seems_replayed() } else { standby.replayed() };
            env.step(|d| d.network).await;
            let compared = !world.planted.model.has(Bug::HistoryNotCompared);
            let on_history = !compared || standby.is_on(&world.primary().history());
            match incarnation.filter(|_| on_history) {
                Some(incarnation) if connected.is_none_or(|before| before == incarnation) => {
                    connected = Some(incarnation);
                    self.input(|s| {
                        s.standby_marked(standby.id, incarnation, replayed);
                        s.standby_serving(standby.id, Serving::Yes);
                    });
                }
                _ => {
                    connected = None;
                    self.input(|s| {
                        s.standby_lost(standby.id);
                        s.standby_serving(standby.id, Serving::No("lost".into()));
                    });
                    env.executor.sleep(200).await;
                }
            }
            while world.watchers_paused.get() {
                env.executor.sleep(50).await;
            }
            let (low, high) = env.delays.borrow().watch;
            let mut left = Some(env.random.borrow_mut().between(low, high.max(low)));
            while let Some(micros) = left
                && !self.scheduler.borrow().mark_wanted(standby.id)
            {
                left = self.changed.wait_within(micros).await;
            }
            env.executor.sleep(20).await;
        }
    }
}
