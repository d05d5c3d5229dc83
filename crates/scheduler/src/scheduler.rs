//! The scheduler's state, and its updates. Decisions before a read are in `route`, those after it in `judge`.

use crate::Reason;
use crate::bugs::{Bug, Bugs};
use crate::freshness::Freshness;
use crate::lock_marks::LockMarks;
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

/// Writers at the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Only sessions of this Consort: no other session can log in. Every commit is first in an in-flight
    /// write set.
    ThroughConsort,
    /// Any session. Only a snapshot probe sent after a read's arrival says what it must see.
    Anywhere,
}

/// Bounds and behaviour of a [`Scheduler`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Initial mode of writers.
    pub writers: Writers,
    /// Rows of all databases whose last commit is remembered; older ones fold into a floor. The default fills two
    /// tables of 2^19 slots: 18 MB at most.
    pub max_rows: usize,
    /// Tables of one database whose last commit is remembered; when there are more, all fold into a floor.
    pub max_tables: usize,
    /// Commits of one database that are kept for comparing; older ones fold into a floor.
    pub max_recent: usize,
    /// Maximum number of commits of one database that no settled snapshot probe has seen. Beyond it,
    /// everything counts as unseen until a probe sees them all. At half of it a probe is wanted.
    pub max_unseen: usize,
    /// Whole reads that wait for a replica.
    pub max_whole_reads: usize,
    /// Commits that wait for their turn at the primary.
    pub max_turns: usize,
    /// True if a refresh locks its replica: whole-state reads there wait, and the refresh waits for them.
    pub refresh_locks: bool,
    /// True if no commits are decoded: reads are placed by WAL positions alone, and none is proven to be the latest.
    pub by_position: bool,
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
            by_position: false,
            order: order::Options::default(),
            bugs: Bugs::default(),
        }
    }
}

/// Classification of a decoded commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// True if it came for the first time, and its database is followed.
    pub fresh: bool,
    /// True if an in-flight write set covered it.
    pub explained: bool,
    /// The commit, if it was not explained and from here on writers are taken to be anywhere: say so to the operator.
    pub switched: Option<Arc<Commit>>,
}

/// Places statements, and proves their answers.
///
/// Invariants:
/// - Every commit that the order was given, this was given: nothing is settled that the freshness index
///   lacks.
/// - An item that is not in the index, or was dropped from it, counts as written at a floor that is not
///   older than the dropped one's commit.
/// - A standby's mark, and a ticket's `low`, count only in the incarnation in which they were heard. A
///   proof counts only in the incarnation of the primary in which it began.
/// - A logical replica's mark counts only in its incarnation and in the run of the order in which the
///   boundary lies.
/// - A read is proven only if, for all that it reads, the standby's snapshot equals the primary's at an
///   instant between its arrival and its end. The module `judge` has the argument.
///
/// Bounds: those of [`Options`].
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) options: Options,
    pub(crate) order: Order,
    pub(crate) writers: Writers,
    pub(crate) databases: BTreeMap<DatabaseId, Followed>,
    pub(crate) rows: Rows<Lsn>,
    /// Last write of each row, by version.
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
    pub(crate) closed: Closings,
    newest_commit: Lsn,
    /// The `low` of each ticket that is not finished.
    low: BTreeMap<Lsn, usize>,
    /// Transactions that have locked readers out.
    pub lock_marks: LockMarks,
}

/// Changes for whose sake no read may be offloaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closings {
    /// Number of changes under way.
    pub(crate) now: usize,
    /// Number of changes begun so far.
    pub(crate) begun: u64,
}

/// Mark of the catalog changes that had come out of a database's decoder. An analysis under one mark is void
/// under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogMark {
    life: u64,
    changes: u64,
}

/// State of the commits of one database.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) freshness: Freshness<Lsn>,
    pub(crate) recent: Recent,
    /// Commits that wrote everything, and so may have changed the catalog.
    pub(crate) barriers: u64,
    /// For replicas that are fed, as long as there are versions.
    pub(crate) fed: Option<Fed>,
    /// Ends of the newest of them, ascending; at most [`BARRIER_ENDS`].
    pub(crate) barrier_ends: VecDeque<Lsn>,
}

/// Maximum number of kept ends of catalog changes. A standby older than the oldest of them counts as older
/// than all.
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
            closed: Closings::default(),
            newest_commit: Lsn::ZERO,
            low: BTreeMap::new(),
            lock_marks: LockMarks::default(),
            options,
        }
    }

    /// The order of the primary.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The order of the primary, for in-flight write sets, wishes for snapshot probes, losses and
    /// incarnations. Calls that the scheduler must know of go through its own functions: `decoded`, `ddl`,
    /// `slot_opened`, `slot_created`, `forget_slot`, `database_dropped`, `gauge_to_send`, `gauge_answered`,
    /// `take_boundaries`, and `fed_takes` and `fed_leaves` for databases whose commits are placed.
    pub fn order_mut(&mut self) -> &mut Order {
        &mut self.order
    }

    /// Writers at the primary, as far as is known.
    pub fn writers(&self) -> Writers {
        self.writers
    }

    /// Sets the mode of writers, as the operator says. On the way back to [`Writers::ThroughConsort`]
    /// everything is in flight first: say [`Order::orphans_gone`] when no foreign backend is left.
    pub fn set_writers(&mut self, writers: Writers) {
        if writers == Writers::ThroughConsort && self.writers == Writers::Anywhere {
            self.order.distrust();
        }
        self.writers = writers;
    }

    /// A session that is not Consort's has logged in at the primary. Returns true if this switched to
    /// [`Writers::Anywhere`].
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

    /// Forgets the commits of the database's slot; it is opened again where it was confirmed. See
    /// [`Order::forget_slot`].
    pub fn forget_slot(&mut self, database: DatabaseId) {
        self.databases.remove(&database);
        self.lock_marks.mark(database, &Footprint::Everything);
        // Earlier analyses stay void: the count of its changes goes on elsewhere.
        self.forgotten += 1;
        self.order.forget_slot(database);
    }

    /// The database is gone.
    pub fn database_dropped(&mut self, database: DatabaseId) {
        self.databases.remove(&database);
        self.standbys.all.values_mut().for_each(|replica| replica.leaves(database));
        self.order.database_dropped(database);
    }

    /// The snapshot probe that must be sent now, `now` since the caller's start. See
    /// [`Order::gauge_to_send`]; ask after everything that may want one: a route, a judgement, the end of an
    /// in-flight write set, a decoded commit.
    pub fn gauge_to_send(&mut self, now: Duration) -> Option<GaugeNumber> {
        let number = self.order.gauge_to_send()?;
        self.ages.sent(number, now);
        Some(number)
    }

    /// The primary answered a snapshot probe. See [`Order::gauge_answered`].
    ///
    /// # Errors
    /// The probe is void.
    pub fn gauge_answered(&mut self, number: GaugeNumber, gauge: Gauge) -> Result<(), Void> {
        self.renew();
        let insert_lsn = gauge.insert_lsn;
        self.order.gauge_answered(number, gauge)?;
        self.ages.answered(number, insert_lsn);
        Ok(())
    }

    /// A commit came out of its database's slot. If commits are placed, a snapshot probe is wanted that may
    /// see it: see [`Order::waiting`] for one that none has seen.
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
        assert!(self.order.decoded(&commit), "a commit new to the scheduler is new to the order");
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

    /// End of the newest catalog change that came out and is replayed at a standby that has replayed to
    /// `replayed`: the standby's catalog of the database stays the same from here on. State that a connection
    /// has kept of an earlier catalog (its role and database, the meaning of its statements' names) is void;
    /// PostgreSQL itself looks again at neither. If there were many changes above `replayed`, all of them
    /// count.
    pub fn catalog_at(&self, database: DatabaseId, replayed: Lsn) -> Lsn {
        let Some(followed) = self.databases.get(&database) else { return Lsn::MAX };
        let ends = &followed.barrier_ends;
        match ends.partition_point(|end| *end <= replayed) {
            0 if ends.len() < BARRIER_ENDS => Lsn::ZERO,
            0 => Lsn::MAX,
            below => ends[below - 1],
        }
    }

    /// Position of a connection that is opened at this replica now: everything at or below is shown there
    /// already.
    pub fn surely_shown(&self, id: StandbyId, database: DatabaseId) -> Option<Lsn> {
        self.standbys.all.get(&id)?.surely(database)
    }

    /// Begins a change that no decoder reports: roles, memberships, databases, the configuration. From here
    /// on no read is offloaded except reads of any age, and none that was offloaded is proven, until as many
    /// [`open`](Scheduler::open).
    ///
    /// Contract: the caller of `open` has written a mark after the change into every database whose reads may
    /// be offloaded. The mark comes out as DDL does, under an in-flight write set about everything that began
    /// before and ends by a snapshot probe sent after it.
    pub fn close(&mut self) {
        self.closed.now += 1;
        self.closed.begun += 1;
    }

    /// Number of such changes that began so far; `None` while one goes on. Equal numbers at two instants mean
    /// that nothing changed between.
    pub fn closings(&self) -> Option<u64> {
        (self.closed.now == 0).then_some(self.closed.begun)
    }

    /// The change is marked. See [`close`](Scheduler::close).
    ///
    /// # Panics
    /// If no change has begun.
    pub fn open(&mut self) {
        self.closed.now = self.closed.now.checked_sub(1).expect("opened once for each closing");
    }

    /// Every commit record of the database that starts below `to` was given.
    pub fn decoded_to(&mut self, database: DatabaseId, to: Lsn) {
        self.order.decoded_to(database, to);
    }

    /// Position up to which the database's slot may be confirmed: below every commit that no settled snapshot
    /// probe has seen, and no further than the positions that its logical replicas keep. After a restart the
    /// rest comes again, so that no unknown commit is shown, and none is left out. `None`: nothing may be
    /// confirmed yet.
    pub fn confirmable(&mut self, database: DatabaseId) -> Option<Lsn> {
        self.look(database);
        let decoded = self.order.position(database)?;
        let unseen = self.databases.get(&database)?.recent.first_unseen();
        Some(unseen.unwrap_or(decoded).min(decoded).min(self.kept_by_all(database)?))
    }

    /// Adds a standby to the cluster. The standby takes no reads before it is
    /// [serving](Scheduler::standby_serving) and its mark is heard.
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

    /// Sets if a standby takes reads.
    pub fn standby_serving(&mut self, id: StandbyId, serving: Serving) {
        if let Some(standby) = self.standbys.all.get_mut(&id) {
            standby.serving = serving;
        }
    }

    /// A standby is not known any more to be on the primary's history, and serves nothing until it is
    /// [serving](Scheduler::standby_serving) again: words for the console say why. Its reported position no
    /// longer counts.
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

    /// True if a decoded commit lies above the standby's mark, or the mark is unknown: its position should be
    /// asked for again at once, else only now and then.
    pub fn mark_wanted(&self, id: StandbyId) -> bool {
        let standby = self.standbys.all.get(&id).filter(|standby| standby.kind == Kind::Standby);
        standby.is_some_and(|standby| standby.mark().is_none_or(|mark| mark < self.newest_commit))
    }

    /// The ticket's read has not been sent yet, and its answer is to be proven for an instant after this
    /// call. A plain proof holds at every instant; else a new snapshot probe is wanted.
    pub fn prove_anew(&mut self, ticket: &mut Ticket) {
        if let Proof::Positioned(wanted) | Proof::Before(Some(wanted)) = &mut ticket.proof {
            *wanted = self.order.want_gauge();
        }
    }

    /// Called if all standbys lag for a read: true if one is likely to come so far soon that the read should
    /// wait. Then report whether the wait [was in vain](Scheduler::waited).
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

    /// True if this one has the turn. If not, ask again when something has moved.
    pub fn has_turn(&mut self, id: TurnId) -> bool {
        self.turns.has(id, &self.order)
    }

    /// Its commit was answered, or it commits nothing, or it waits no more.
    pub fn turn_ended(&mut self, id: TurnId) {
        self.turns.end(id, &self.order);
    }

    /// Its connection was lost with the commit unanswered: say it when the in-flight write set is said to be
    /// lost. The turn goes on until the backend is gone.
    pub fn turn_lost(&mut self, id: TurnId) {
        if self.options.bugs.has(Bug::TurnEndsWithConnection) {
            return self.turn_ended(id);
        }
        self.turns.lose(id, &self.order);
    }

    /// Number of commits that wait for the turn.
    pub fn turns_waiting(&self) -> usize {
        self.turns.waiting()
    }

    /// Numbers of kept items: rows, tables, recent commits, unseen commits. For metrics and tests of the
    /// bounds.
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

    /// Voids state of an earlier incarnation of the primary.
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
        if gap {
            self.lock_marks.mark(database, &Footprint::Everything);
        }
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
