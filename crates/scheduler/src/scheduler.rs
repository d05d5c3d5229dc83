//! What the scheduler knows, and how it learns it. Decisions before a read are in `route`, those after it in `judge`.

use crate::Reason;
use crate::bugs::{Bug, Bugs};
use crate::freshness::Freshness;
use crate::patience::Patience;
use crate::placed_commits::Fed;
use crate::probe_ages::Ages;
use crate::question::{End, Proof, Ticket};
use crate::recent_commits::{Limits, Recent};
use crate::row_freshness::Rows;
use crate::standby::{Kind, Serving, Standby, StandbyId, StandbyView, Standbys};
use crate::turns::{TurnId, Turns};
use crate::waiting_reads::Waiters;
use history::{Commit, DatabaseId, Footprint, Incarnation, Lsn, Version};
use order::{Gauge, GaugeNumber, Order, Void};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Who writes at the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Only sessions of this Consort: nobody else can log in. What may commit is always in doubt first.
    ThroughConsort,
    /// Anybody. Only a gauge sent after a read's arrival says what it must see.
    Anywhere,
}

/// Bounds and behaviour of a [`Scheduler`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Who writes, at first.
    pub writers: Writers,
    /// Rows of all databases whose last commit is remembered; older ones fold into a floor. The default fills two
    /// tables of 2^19 slots: 18 MB at most.
    pub max_rows: usize,
    /// Tables of one database whose last commit is remembered; when there are more, all fold into a floor.
    pub max_tables: usize,
    /// Commits of one database that are kept for comparing; older ones fold into a floor.
    pub max_recent: usize,
    /// Commits of one database that no settled gauge has seen; when there are more, everything counts as unseen until a
    /// gauge sees them all. At half of it a gauge is wanted.
    pub max_unseen: usize,
    /// Whole reads that wait for a replica.
    pub max_whole_reads: usize,
    /// Commits that wait for their turn at the primary.
    pub max_turns: usize,
    /// Whether a replica that is brought further is locked for that: whole reads there wait, and are waited for.
    pub refresh_locks: bool,
    /// Bounds of the order.
    pub order: order::Options,
    /// For the simulator's tests of its checkers.
    pub bugs: Bugs,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            writers: Writers::Anywhere,
            max_rows: 7 << 17,
            max_tables: 16_384,
            max_recent: 4_096,
            max_unseen: 4_096,
            max_whole_reads: 4_096,
            max_turns: 4_096,
            refresh_locks: false,
            order: order::Options::default(),
            bugs: Bugs::default(),
        }
    }
}

/// What a decoded commit was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// It came for the first time, and its database is followed.
    pub fresh: bool,
    /// A doubt covered it.
    pub explained: bool,
    /// The commit, if it was not explained and from here on writers are taken to be anywhere: say so to the operator.
    pub switched: Option<Arc<Commit>>,
}

/// Where statements run, and whether their answers are right.
///
/// Invariants:
/// - Every commit that the order was given, this was given: nothing is settled that the freshness index lacks.
/// - An item that is not in the index, or was dropped from it, counts as written at a floor that is not older than the
///   dropped one's commit.
/// - A standby's mark, and a ticket's `low`, count only in the incarnation in which they were heard; a proof counts only
///   in the life of the primary in which it began.
/// - A fed replica's mark counts only in its incarnation and in the run of the order in which the boundary lies.
/// - A read is proven only if, for all that it reads, the standby's snapshot equals the primary's at an instant between
///   its arrival and its end. The module `judge` has the argument.
///
/// Bounds: those of [`Options`].
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) options: Options,
    pub(crate) order: Order,
    pub(crate) writers: Writers,
    pub(crate) databases: BTreeMap<DatabaseId, Followed>,
    pub(crate) rows: Rows<Lsn>,
    /// When each row was last written, by version.
    pub(crate) versions: Rows<Version>,
    pub(crate) standbys: Standbys,
    pub(crate) ages: Ages,
    patience: Patience,
    pub(crate) waiters: Waiters,
    turns: Turns,
    /// The life of the primary that `databases`, `rows` and `ages` are about.
    life: u64,
    /// So often a slot was forgotten.
    forgotten: u64,
    /// So many changes are under way for whose sake no read may leave, and how many began so far.
    pub(crate) closed: usize,
    pub(crate) closings: u64,
    newest_commit: Lsn,
    /// The `low` of each ticket that is not finished.
    low: BTreeMap<Lsn, usize>,
}

/// How far the changes of a database's catalog had come out of its decoder. What was understood under one mark is void
/// under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogMark {
    life: u64,
    changes: u64,
}

/// What is known of the commits of one database.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) freshness: Freshness<Lsn>,
    pub(crate) recent: Recent,
    /// Commits that wrote everything, and so may have changed the catalog.
    pub(crate) barriers: u64,
    /// For replicas that are fed, as long as there are versions.
    pub(crate) fed: Option<Fed>,
    /// Where the newest of them end, ascending; at most [`BARRIER_ENDS`].
    pub(crate) barrier_ends: VecDeque<Lsn>,
}

/// So many ends of changes of a catalog are kept. Who is older than the oldest of them counts as older than all.
const BARRIER_ENDS: usize = 16;

impl Scheduler {
    /// Nothing is known.
    pub fn new(options: Options) -> Scheduler {
        Scheduler {
            order: Order::new(options.order),
            writers: options.writers,
            databases: BTreeMap::new(),
            rows: Rows::new(options.max_rows, options.bugs),
            versions: Rows::new(options.max_rows, options.bugs),
            standbys: Standbys::default(),
            ages: Ages::default(),
            patience: Patience::default(),
            waiters: Waiters::default(),
            turns: Turns::default(),
            life: 0,
            forgotten: 0,
            closed: 0,
            closings: 0,
            newest_commit: Lsn::ZERO,
            low: BTreeMap::new(),
            options,
        }
    }

    /// The order of the primary.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The order of the primary, for doubts, wishes for gauges, losses and lives. What the scheduler must know too goes
    /// through its own functions: `decoded`, `ddl`, `slot_opened`, `slot_created`, `forget_slot`, `database_dropped`,
    /// `gauge_to_send`, `gauge_answered`, `take_boundaries`, and `fed_takes` and `fed_leaves` for whose commits are placed.
    pub fn order_mut(&mut self) -> &mut Order {
        &mut self.order
    }

    /// Who writes, as far as is known.
    pub fn writers(&self) -> Writers {
        self.writers
    }

    /// The operator says who writes. Back to [`Writers::ThroughConsort`] everything is in doubt first: say
    /// [`Order::orphans_gone`] when no foreign backend is left.
    pub fn set_writers(&mut self, writers: Writers) {
        if writers == Writers::ThroughConsort && self.writers == Writers::Anywhere {
            self.order.distrust();
        }
        self.writers = writers;
    }

    /// Somebody who is not Consort has logged in at the primary. Whether this switched to [`Writers::Anywhere`].
    pub fn foreign_login(&mut self) -> bool {
        let switched = self.writers == Writers::ThroughConsort;
        self.writers = Writers::Anywhere;
        switched
    }

    /// The database's slot goes on at `from`. See [`Order::slot_opened`].
    pub fn slot_opened(&mut self, database: DatabaseId, from: Lsn) {
        self.begin(database, from);
        self.order.slot_opened(database, from);
    }

    /// The database's slot was made, and begins at `from`. See [`Order::slot_created`].
    pub fn slot_created(&mut self, database: DatabaseId, from: Lsn) {
        self.begin(database, from);
        self.order.slot_created(database, from);
    }

    /// What came out of the database's slot is forgotten; it is opened again where it was confirmed. See
    /// [`Order::forget_slot`].
    pub fn forget_slot(&mut self, database: DatabaseId) {
        self.databases.remove(&database);
        // What was understood before stays void: the count of its changes goes on elsewhere.
        self.forgotten += 1;
        self.order.forget_slot(database);
    }

    /// The database is gone.
    pub fn database_dropped(&mut self, database: DatabaseId) {
        self.databases.remove(&database);
        self.standbys.all.values_mut().for_each(|replica| replica.leaves(database));
        self.order.database_dropped(database);
    }

    /// The gauge that must be sent now, `now` since the caller's start. See [`Order::gauge_to_send`]; ask after
    /// everything that may want one: a route, a judgement, the end of a doubt, a decoded commit.
    pub fn gauge_to_send(&mut self, now: Duration) -> Option<GaugeNumber> {
        let number = self.order.gauge_to_send()?;
        self.ages.sent(number, now);
        Some(number)
    }

    /// The primary answered a gauge. See [`Order::gauge_answered`].
    ///
    /// # Errors
    /// The gauge is void.
    pub fn gauge_answered(&mut self, number: GaugeNumber, gauge: Gauge) -> Result<(), Void> {
        self.renew();
        let insert_lsn = gauge.insert_lsn;
        self.order.gauge_answered(number, gauge)?;
        self.ages.answered(number, insert_lsn);
        Ok(())
    }

    /// A commit came out of its database's slot. If commits are placed, a gauge is wanted that may see it: see
    /// [`Order::waiting`] for one that none has seen.
    pub fn decoded(&mut self, commit: Commit) -> Decoded {
        let database = commit.database;
        self.look(database);
        let before = self.order.position(database);
        let followed = self.databases.get_mut(&database);
        let (Some(followed), Some(_)) = (followed, before.filter(|decoded| *decoded < commit.end)) else {
            return Decoded { fresh: false, explained: true, switched: None };
        };
        let commit = Arc::new(commit);
        let explained = self.order.explained(&commit);
        if commit.wrote == Footprint::Everything && !self.options.bugs.has(Bug::DdlLeavesDoubtsNarrow) {
            self.order.catalog_changed(database);
        }
        followed.freshness.note(&commit.wrote, commit.end, &mut self.rows, self.options.max_tables);
        if commit.wrote == Footprint::Everything {
            followed.barriers += 1;
            followed.barrier_ends.push_back(commit.end);
            if followed.barrier_ends.len() > BARRIER_ENDS {
                followed.barrier_ends.pop_front();
            }
        }
        let limits = Limits { recent: self.options.max_recent, unseen: self.options.max_unseen };
        followed.recent.push(&commit, self.order.settled(database).map(|(_, gauge)| gauge), limits);
        if let Some(fed) = &mut followed.fed {
            fed.came_out(&commit);
        }
        let horizon = self.low.keys().next().copied().unwrap_or(Lsn::MAX).min(self.standbys.horizon());
        followed.recent.prune(horizon);
        let many_unseen = followed.recent.unseen() >= self.options.max_unseen / 2;
        self.newest_commit = self.newest_commit.max(commit.end);
        assert!(self.order.decoded(&commit), "what is new to the scheduler is new to the order");
        let placed = self.order.run(database).is_some();
        if many_unseen || placed {
            self.order.want_gauge();
        }
        let switches = !explained && !self.options.bugs.has(Bug::BypassUnnoticed) && self.foreign_login();
        Decoded { fresh: true, explained, switched: switches.then_some(commit) }
    }

    /// A commit came out that changed the catalog: it counts as having written everything.
    pub fn ddl(&mut self, commit: Commit) -> Decoded {
        self.decoded(Commit { wrote: Footprint::Everything, ..commit })
    }

    /// The catalog as it is understood now.
    pub fn catalog(&self, database: DatabaseId) -> CatalogMark {
        CatalogMark { life: self.order.life(), changes: self.barriers(database) }
    }

    /// What a standby that has replayed to `replayed` shows of the database's catalog is what it shows from here on: the
    /// end of the newest change that came out and is replayed there. What a connection has kept of an earlier catalog (who
    /// and where it is, what its statements' names mean) is void; PostgreSQL itself looks again at neither. If there were
    /// many changes above `replayed`, all of them count.
    pub fn catalog_at(&self, database: DatabaseId, replayed: Lsn) -> Lsn {
        let Some(followed) = self.databases.get(&database) else { return Lsn::MAX };
        let ends = &followed.barrier_ends;
        match ends.partition_point(|end| *end <= replayed) {
            0 if ends.len() < BARRIER_ENDS => Lsn::ZERO,
            0 => Lsn::MAX,
            below => ends[below - 1],
        }
    }

    /// How far a connection at this replica was opened that is opened now: what is at or below is shown there already.
    pub fn surely_shown(&self, id: StandbyId, database: DatabaseId) -> Option<Lsn> {
        self.standbys.all.get(&id)?.surely(database)
    }

    /// Something changes that no decoder will tell of: roles, memberships, databases, the configuration. From here on no read leaves, but
    /// those that may be however old, and none that has left is proven, until as many [`open`](Scheduler::open).
    ///
    /// Contract: whoever opens has written a mark behind the change into every database whose reads may leave, which
    /// comes out as DDL does, under a doubt about everything that began before and ends by a gauge sent after it.
    pub fn close(&mut self) {
        self.closed += 1;
        self.closings += 1;
    }

    /// How often something of that kind has begun so far; `None` while it goes on. Who finds the same number twice has seen nothing
    /// change between.
    pub fn closings(&self) -> Option<u64> {
        (self.closed == 0).then_some(self.closings)
    }

    /// The change is marked. See [`close`](Scheduler::close).
    ///
    /// # Panics
    /// If nobody has closed.
    pub fn open(&mut self) {
        self.closed = self.closed.checked_sub(1).expect("opened once for each closing");
    }

    /// Every commit record of the database that starts below `to` was given.
    pub fn decoded_to(&mut self, database: DatabaseId, to: Lsn) {
        self.order.decoded_to(database, to);
    }

    /// How far the database's slot may be told that we have come: below every commit that no settled gauge has seen, and
    /// no further than what every replica keeps that is fed with it. After a restart the rest comes again, so that none is
    /// shown that we do not know, and none is left out. `None`: nothing may be told yet.
    pub fn confirmable(&mut self, database: DatabaseId) -> Option<Lsn> {
        self.look(database);
        let decoded = self.order.position(database)?;
        let unseen = self.databases.get(&database)?.recent.first_unseen();
        Some(unseen.unwrap_or(decoded).min(decoded).min(self.kept_by_all(database)?))
    }

    /// A standby is in the cluster. It takes no reads before it is [serving](Scheduler::standby_serving) and its mark
    /// is heard.
    pub fn standby_joined(&mut self, id: StandbyId, weight: u32) {
        self.standbys.all.insert(id, Standby::new(Kind::Standby, weight));
    }

    /// A standby's share of reads, relative to the others.
    pub fn standby_weight(&mut self, id: StandbyId, weight: u32) {
        if let Some(standby) = self.standbys.all.get_mut(&id) {
            standby.weight = weight;
        }
    }

    /// This life of a standby has replayed the log to `replayed`.
    pub fn standby_marked(&mut self, id: StandbyId, incarnation: Incarnation, replayed: Lsn) {
        if let Some(standby) = self.standbys.all.get_mut(&id) {
            standby.marked(incarnation, replayed, self.options.bugs);
        }
    }

    /// The connection was lost over which the standby's position is heard, or over which a replica is fed: its mark is
    /// unknown.
    pub fn standby_lost(&mut self, id: StandbyId) {
        let bugs = self.options.bugs;
        let Some(standby) = self.standbys.all.get_mut(&id) else { return };
        let for_ever = match standby.kind {
            Kind::Standby => bugs.has(Bug::BackendCrashKeepsLow),
            Kind::Fed => bugs.has(Bug::ReplicaForgetsCommits),
        };
        if !for_ever {
            standby.lost();
        }
    }

    /// Whether a standby takes reads.
    pub fn standby_serving(&mut self, id: StandbyId, serving: Serving) {
        if let Some(standby) = self.standbys.all.get_mut(&id) {
            standby.serving = serving;
        }
    }

    /// A standby is not known any more to be on the primary's history, and serves nothing until it is
    /// [serving](Scheduler::standby_serving) again: words for the console say why. What it has said of its position counts no
    /// more.
    pub fn standby_unproven(&mut self, id: StandbyId, why: &'static str) {
        if let Some(standby) = self.standbys.all.get_mut(&id) {
            standby.lost();
            standby.serving = Serving::No(why.into());
        }
    }

    /// A standby may have replayed something else than the primary's WAL: no answer counts that is under way.
    pub fn standby_left_history(&mut self, id: StandbyId) {
        if let Some(standby) = self.standbys.all.get_mut(&id) {
            standby.given_up += 1;
        }
    }

    /// All standbys, by number.
    pub fn standbys(&self) -> impl Iterator<Item = StandbyView<'_>> {
        self.standbys.all.iter().map(|(id, standby)| standby.view(*id))
    }

    /// Whether a decoded commit lies above the standby's mark, or the mark is unknown: its position should be asked
    /// for again at once, else only now and then.
    pub fn mark_wanted(&self, id: StandbyId) -> bool {
        let standby = self.standbys.all.get(&id).filter(|standby| standby.kind == Kind::Standby);
        standby.is_some_and(|standby| standby.mark().is_none_or(|mark| mark < self.newest_commit))
    }

    /// The ticket's read has not been sent yet, and its answer is to be proven for an instant behind this call. What is
    /// proven plainly holds at every instant; else a new gauge is wanted.
    pub fn prove_anew(&mut self, ticket: &mut Ticket) {
        if let Proof::Positioned(wanted) | Proof::Before(Some(wanted)) = &mut ticket.proof {
            *wanted = self.order.want_gauge();
        }
    }

    /// All standbys are behind what a read must see: whether one is likely to come so far soon that the read should wait.
    /// If so, say whether it [was in vain](Scheduler::waited).
    pub fn worth_waiting(&mut self) -> bool {
        self.patience.try_now()
    }

    /// The wait of a read for a standby ended, for no other reason than that one came so far, or in vain.
    pub fn waited(&mut self, in_vain: bool) {
        self.patience.waited(in_vain);
    }

    /// The ticket has come to its end. Exactly once for each.
    pub fn finish(&mut self, ticket: Ticket, end: End) {
        self.leaves_gate(&ticket);
        let pinned = self.low.get_mut(&ticket.low).expect("a ticket pins its low until it is finished");
        *pinned -= 1;
        if *pinned == 0 {
            self.low.remove(&ticket.low);
        }
        let Some(standby) = self.standbys.all.get_mut(&ticket.standby) else { return };
        standby.pending = standby.pending.saturating_sub(1);
        match end {
            End::Delivered => standby.served += 1,
            End::Refused(reason) => *standby.refused.entry(reason).or_default() += 1,
        }
    }

    /// A replica has answered a read of a transaction that was ordered before it ran, without a ticket.
    pub fn answered(&mut self, replica: StandbyId) {
        if let Some(standby) = self.standbys.all.get_mut(&replica) {
            standby.served += 1;
        }
    }

    /// A commit in this database asks for the turn.
    ///
    /// Errors: [`Reason::TimedOut`]: as many wait as may ([`max_turns`](crate::Options::max_turns)).
    pub fn turn_asked(&mut self, database: DatabaseId) -> Result<TurnId, Reason> {
        self.turns.ask(database, self.options.max_turns, &self.order)
    }

    /// Whether this one has the turn. If not, ask again when something has moved.
    pub fn has_turn(&mut self, id: TurnId) -> bool {
        self.turns.has(id, &self.order)
    }

    /// Its commit was answered, or it commits nothing, or it waits no more.
    pub fn turn_ended(&mut self, id: TurnId) {
        self.turns.end(id, &self.order);
    }

    /// Its connection was lost with the commit unanswered: say it when the doubt is said to be lost. The turn goes on until
    /// the backend is gone.
    pub fn turn_lost(&mut self, id: TurnId) {
        if self.options.bugs.has(Bug::TurnEndsWithConnection) {
            return self.turn_ended(id);
        }
        self.turns.lose(id, &self.order);
    }

    /// How many wait for the turn.
    pub fn turns_waiting(&self) -> usize {
        self.turns.waiting()
    }

    /// How much is kept: rows, tables, recent commits, unseen commits. For metrics and tests of the bounds.
    pub fn kept(&self) -> (usize, usize, usize, usize) {
        let sum = |of: fn(&Followed) -> usize| self.databases.values().map(of).sum();
        let tables = sum(|followed| followed.freshness.tables());
        (
            self.rows.len(),
            tables,
            sum(|followed| followed.recent.len()),
            sum(|followed| followed.recent.unseen()),
        )
    }

    /// Keeps commits above the ticket's low until it is finished.
    pub(crate) fn pin(&mut self, low: Lsn) {
        *self.low.entry(low).or_default() += 1;
    }

    /// Takes notice of a new life of the primary, and of what has settled for the database.
    pub(crate) fn look(&mut self, database: DatabaseId) {
        self.renew();
        let Some(followed) = self.databases.get_mut(&database) else { return };
        assert_eq!(followed.recent.given, self.order.commits(database), "commits come through the scheduler");
        if let Some((number, gauge)) = self.order.settled(database) {
            followed.recent.look(number, gauge);
        }
        self.look_at_versions(database);
    }

    /// What was known of an earlier life of the primary is void.
    pub(crate) fn renew(&mut self) {
        if self.life == self.order.life() {
            return;
        }
        self.life = self.order.life();
        self.databases.clear();
        self.rows.clear();
        self.versions.clear();
        self.ages.clear();
        self.newest_commit = Lsn::ZERO;
    }

    /// Commits that start below `from` and were not decoded in this life are not known one by one.
    fn begin(&mut self, database: DatabaseId, from: Lsn) {
        self.renew();
        let gap = self.order.position(database).is_none_or(|decoded| decoded < from);
        let followed = self.databases.entry(database).or_insert_with(|| Followed {
            freshness: Freshness::new(database),
            recent: Recent::default(),
            barriers: self.forgotten << 32,
            fed: None,
            barrier_ends: VecDeque::new(),
        });
        if gap && !self.options.bugs.has(Bug::RestartWithoutFloor) {
            followed.freshness.raise_floor(from);
            followed.recent.raise_floor(from);
        }
    }
}
