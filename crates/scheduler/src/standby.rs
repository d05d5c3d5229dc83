//! State of each replica, and the choice among them: standbys, which PostgreSQL feeds with WAL, and logical
//! replicas, which Consort feeds with commits.

use crate::Reason;
use crate::bugs::{Bug, Bugs};
use history::{DatabaseId, Epoch, Footprint, Incarnation, Lsn, RelationId, Version};
use order::{Boundary, RunNumber};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One replica of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StandbyId(u32);

impl StandbyId {
    /// The standby with this number.
    pub const fn new(number: u32) -> StandbyId {
        StandbyId(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for StandbyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// Feed of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL's own replay: its snapshot is of a place in the log.
    Standby,
    /// Consort: it shows boundaries of the order and nothing between.
    Fed,
}

/// Visible state of one database at a logical replica: a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The run of the order in which the boundary lies; in another it says nothing.
    pub run: RunNumber,
    /// Every commit of the run with this version or a lower one is shown.
    pub version: Version,
    /// Every commit whose record starts below is shown.
    pub resume: Lsn,
}

impl Mark {
    fn of(boundary: &Boundary) -> Mark {
        Mark { run: boundary.run, version: boundary.reached, resume: boundary.resume }
    }
}

/// Readiness of a standby for reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// The standby takes reads.
    Yes,
    /// The standby takes no reads, and why: words for the console.
    No(Cow<'static, str>),
}

/// A standby as the console shows it.
#[derive(Clone, Copy, Debug)]
pub struct StandbyView<'a> {
    /// The replica.
    pub id: StandbyId,
    /// Feed of the replica.
    pub kind: Kind,
    /// The life that the mark belongs to; `None` while the mark is unknown.
    pub incarnation: Option<Incarnation>,
    /// The replay position last heard; `None` if it is unknown, or the replica is fed.
    pub mark: Option<Lsn>,
    /// Visible state of each of a logical replica's databases, as far as that is known.
    pub shows: &'a BTreeMap<DatabaseId, Mark>,
    /// Readiness for reads.
    pub serving: &'a Serving,
    /// Its share of reads, relative to the others; with 0 it gets none.
    pub weight: u32,
    /// Tickets that are not finished.
    pub pending: u32,
    /// Answers that were delivered.
    pub served: u64,
    /// Answers that were not, by reason.
    pub refused: &'a BTreeMap<Reason, u64>,
}

/// One replica.
///
/// Invariant: within one incarnation a mark does not go back; with another incarnation, or a lost connection, the marks
/// before count no more. A replica that applies commits without waiting for its disk comes back without the last ones.
#[derive(Debug)]
pub(crate) struct Standby {
    pub(crate) kind: Kind,
    life: Option<Incarnation>,
    /// Replay position of a standby.
    replayed: Lsn,
    /// Visible state of a logical replica.
    shows: BTreeMap<DatabaseId, Mark>,
    /// Databases in which it was found to differ, and which are not read there. The value is its visible
    /// state, as far as known.
    distrusted: BTreeMap<DatabaseId, Option<Mark>>,
    /// For each database of a logical replica: the position from which its feed goes on after its worst
    /// crash, once known.
    pub(crate) keeps: BTreeMap<DatabaseId, Option<Lsn>>,
    /// The tables whose rows a logical replica has, of a database of which it does not have all.
    pub(crate) holds: BTreeMap<DatabaseId, BTreeSet<RelationId>>,
    /// Number of times its feed of a database was ended, it was found to differ, or it left the primary's
    /// history.
    pub(crate) given_up: u64,
    pub(crate) serving: Serving,
    pub(crate) weight: u32,
    pub(crate) pending: u32,
    pub(crate) served: u64,
    pub(crate) refused: BTreeMap<Reason, u64>,
    /// Number of the choice at which it was chosen last.
    chosen: u64,
}

impl Standby {
    pub(crate) fn new(kind: Kind, weight: u32) -> Standby {
        Standby {
            kind,
            life: None,
            replayed: Lsn::ZERO,
            shows: BTreeMap::new(),
            distrusted: BTreeMap::new(),
            keeps: BTreeMap::new(),
            holds: BTreeMap::new(),
            given_up: 0,
            serving: Serving::No("joining".into()),
            weight,
            pending: 0,
            served: 0,
            refused: BTreeMap::new(),
            chosen: 0,
        }
    }

    /// Records that this incarnation of it has replayed to here.
    pub(crate) fn marked(&mut self, incarnation: Incarnation, replayed: Lsn, bugs: Bugs) {
        let keep_low = bugs.has(Bug::BackendCrashKeepsLow);
        let goes_on = self.life == Some(incarnation) || (keep_low && self.life.is_some());
        self.life = Some(incarnation);
        self.replayed = if goes_on { self.replayed.max(replayed) } else { replayed };
    }

    /// Records that this incarnation of it shows this boundary.
    pub(crate) fn shown(&mut self, incarnation: Incarnation, boundary: &Boundary, bugs: Bugs) {
        let for_ever = bugs.has(Bug::ReplicaForgetsCommits);
        if self.life.replace(incarnation) != Some(incarnation) && !for_ever {
            self.forget_all();
        }
        let mark = Mark::of(boundary);
        if let Some(withheld) = self.distrusted.get_mut(&boundary.database) {
            *withheld = Some(mark);
            return;
        }
        let known = self.shows.entry(boundary.database).or_insert(mark);
        if known.run != mark.run || known.version <= mark.version {
            *known = Mark { resume: mark.resume.max(known.resume), ..mark };
        }
    }

    pub(crate) fn lost(&mut self) {
        self.life = None;
        self.forget_all();
    }

    fn forget_all(&mut self) {
        self.shows.clear();
        self.distrusted.values_mut().for_each(|withheld| *withheld = None);
    }

    /// Its visible state of the database is unknown.
    pub(crate) fn forget(&mut self, database: DatabaseId) {
        self.shows.remove(&database);
        if let Some(withheld) = self.distrusted.get_mut(&database) {
            *withheld = None;
        }
    }

    /// Records that it differs: the database is not read there, and no answer counts that is under way.
    pub(crate) fn distrust(&mut self, database: DatabaseId) {
        self.given_up += 1;
        let withheld = self.shows.remove(&database);
        self.distrusted.entry(database).or_insert(withheld);
    }

    /// Records that it does not differ any more.
    pub(crate) fn trust(&mut self, database: DatabaseId) {
        if let Some(Some(mark)) = self.distrusted.remove(&database) {
            self.shows.insert(database, mark);
        }
    }

    /// Ends its feed of the database.
    pub(crate) fn leaves(&mut self, database: DatabaseId) {
        self.given_up += 1;
        self.keeps.remove(&database);
        self.holds.remove(&database);
        self.forget(database);
        self.distrusted.remove(&database);
    }

    /// True if it has the rows of all that is read.
    pub(crate) fn holds(&self, database: DatabaseId, reads: &Footprint) -> bool {
        match (self.holds.get(&database), reads) {
            (None, _) => true,
            (Some(_), Footprint::Everything) => false,
            (Some(held), Footprint::Tables(tables)) => tables.keys().all(|table| held.contains(table)),
        }
    }

    /// Its life, if it may be chosen in this epoch (in any, as long as no primary is known).
    pub(crate) fn eligible(&self, epoch: Option<Epoch>) -> Option<Incarnation> {
        let said = self.life.filter(|incarnation| epoch.is_none_or(|epoch| incarnation.epoch == epoch));
        said.filter(|_| self.serving == Serving::Yes && self.weight > 0)
    }

    /// Its life, as far as its marks are known.
    pub(crate) fn life(&self) -> Option<Incarnation> {
        self.life
    }

    /// The replay position last heard in this life; `None` if it is unknown, or the replica is fed.
    pub(crate) fn mark(&self) -> Option<Lsn> {
        self.life.filter(|_| self.kind == Kind::Standby).map(|_| self.replayed)
    }

    /// Every commit of the database that ends at or below is shown.
    pub(crate) fn surely(&self, database: DatabaseId) -> Option<Lsn> {
        match self.kind {
            Kind::Standby => self.mark(),
            Kind::Fed => self.shows.get(&database).map(|mark| mark.resume),
        }
    }

    /// Version of the database that a logical replica shows in this run of the order.
    pub(crate) fn version(&self, database: DatabaseId, run: RunNumber) -> Option<Version> {
        self.shows.get(&database).filter(|mark| mark.run == run).map(|mark| mark.version)
    }

    pub(crate) fn view(&self, id: StandbyId) -> StandbyView<'_> {
        StandbyView {
            id,
            kind: self.kind,
            incarnation: self.life,
            mark: self.mark(),
            shows: &self.shows,
            serving: &self.serving,
            weight: self.weight,
            pending: self.pending,
            served: self.served,
            refused: &self.refused,
        }
    }
}

/// Destination of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) id: StandbyId,
    pub(crate) incarnation: Incarnation,
    /// The replay position last heard from a standby.
    pub(crate) low: Lsn,
    pub(crate) kind: Kind,
    pub(crate) given_up: u64,
}

/// All standbys, and the turn among equals.
#[derive(Debug, Default)]
pub(crate) struct Standbys {
    pub(crate) all: BTreeMap<StandbyId, Standby>,
    choices: u64,
}

impl Standbys {
    /// Checks that any replica may be chosen at all, of those whose answer would be the primary's; else why
    /// not.
    pub(crate) fn any(&self, epoch: Option<Epoch>, equal: impl Fn(&Standby) -> bool) -> Result<(), Reason> {
        if self.all.is_empty() {
            return Err(Reason::NoStandby);
        }
        let mut eligible = self.all.values().filter(|standby| standby.eligible(epoch).is_some()).peekable();
        if eligible.peek().is_none() {
            return Err(Reason::NoneServing);
        }
        if eligible.any(equal) { Ok(()) } else { Err(Reason::NotAtCopies) }
    }

    /// The one that shall run a read, of those that `fits` says can prove it: the preferred one, else the one with the
    /// least pending for its weight, and among equals the one that was not chosen for the longest time.
    pub(crate) fn choose(
        &mut self,
        epoch: Option<Epoch>,
        prefer: Option<StandbyId>,
        fits: impl Fn(StandbyId, Incarnation, &Standby) -> bool,
    ) -> Option<Place> {
        let mut best: Option<(u64, u64, u64, StandbyId, Incarnation)> = None;
        for (id, standby) in &self.all {
            let Some(incarnation) = standby.eligible(epoch) else { continue };
            if !fits(*id, incarnation, standby) {
                continue;
            }
            let (pending, weight) = (u64::from(standby.pending) + 1, u64::from(standby.weight));
            let mine = (pending, weight, standby.chosen, *id, incarnation);
            if prefer == Some(*id) {
                best = Some(mine);
                break;
            }
            let better = best.is_none_or(|(other_pending, other_weight, other_chosen, ..)| {
                let (mine, other) = (pending * other_weight, other_pending * weight);
                mine < other || (mine == other && standby.chosen < other_chosen)
            });
            if better {
                best = Some(mine);
            }
        }
        let (.., id, incarnation) = best?;
        self.choices += 1;
        let standby = self.all.get_mut(&id)?;
        standby.chosen = self.choices;
        standby.pending += 1;
        // A logical replica's reads need no commits to be kept for comparing.
        let low = standby.mark().unwrap_or(Lsn::MAX);
        Some(Place { id, incarnation, low, kind: standby.kind, given_up: standby.given_up })
    }

    /// Below this, every standby that takes reads shows every commit.
    pub(crate) fn horizon(&self) -> Lsn {
        self.all
            .values()
            .filter(|standby| standby.eligible(None).is_some())
            .filter_map(Standby::mark)
            .min()
            .unwrap_or(Lsn::MAX)
    }
}
