//! The replicas that Consort feeds, as the cluster knows them: what each is given of each database, how far it has come,
//! and what it keeps.

use super::arrival_rate::time_for;
use super::replication_buffer::{Feed, NotFed, Pending, Place, Rows, Stretch};
use super::resting_replicas::Rest;
use super::{Cluster, Database};
use history::{DatabaseId, Incarnation, Lsn};
use order::Boundary;
use postgres::decoder::Archive;
use replica_apply::apply::{self, Part};
use replica_apply::clone::Progress;
use scheduler::{Kind, StandbyId};
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// Why a replica waits that somebody wants anew.
pub(crate) const TO_BE_COPIED: &str = "it is to be copied anew";

/// What the feeding of one replica with one database does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for the server, or for the database to be followed: why.
    Waiting(String),
    /// An operator wants nothing to be done.
    Paused,
    /// The database is copied: how far that is, as soon as it is known.
    Copying(Option<Progress>),
    /// It is given what commits.
    Feeding,
    /// It executes what the primary executes, and is given nothing.
    Executing,
    /// The replica is not what the primary is: it serves no reads of the database until it is made anew.
    Failed(String),
}

/// Copies that came to nothing, since one was fed for a good while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InVain {
    /// How many.
    pub copies: u32,
    /// Why there must be another one; empty if nobody has said.
    pub why: String,
}

/// What refreshes that lock have waited for, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// How long they waited for those who read.
    pub for_readers: Duration,
    /// So many of those were let go.
    pub let_go: u64,
}

/// One replica and one database.
#[derive(Debug)]
struct Course {
    stage: Stage,
    in_vain: InVain,
    /// It must be copied before it is fed again.
    out: bool,
    /// It comes of a base backup, and all that ends behind this place of the log is kept for it.
    kept_behind: Option<Lsn>,
    /// How it differs, as whoever compared it with the primary has found, and nobody has heeded yet.
    wrong: Option<String>,
    /// What belongs to whom was found to differ, and has not been found equal since.
    owners_differ: bool,
    /// Everything below is visible there.
    shown: Place,
    /// What was shown and may not be flushed there, newest alone.
    unkept: Option<Shown>,
    waited: Waited,
    /// What was done since this process began.
    steps: apply::Counts,
    /// So many copies of the database were begun.
    copies: u64,
    /// How many bytes of rows a second it takes in when it is behind, if it ever was since it was connected.
    takes_in: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    life: Incarnation,
    resume: Lsn,
    place: Place,
}

/// A replica's feeding as the console shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CourseView {
    /// Which replica.
    pub replica: StandbyId,
    /// Of which database.
    pub database: DatabaseId,
    /// What is done.
    pub stage: Stage,
    /// Copies that came to nothing.
    pub in_vain: InVain,
    /// What it does not show yet.
    pub pending: Pending,
    /// What its refreshes have waited for.
    pub waited: Waited,
    /// In how many steps it was brought on, since this process began.
    pub steps: apply::Counts,
    /// How many copies of the database were begun, since this process began.
    pub copies: u64,
    /// How long it is going to take to show all, as far as its own pace and that of the writers tell; `None` if nothing is known
    /// of its pace, or if it is not quicker than they are.
    pub catches_up_in: Option<Duration>,
}

/// All of them.
#[derive(Default)]
pub struct Feeds {
    feeds: RefCell<BTreeMap<DatabaseId, Feed>>,
    courses: RefCell<BTreeMap<(DatabaseId, StandbyId), Course>>,
    pub(super) rests: RefCell<BTreeMap<DatabaseId, Rest>>,
    archive: RefCell<Archive>,
    more: Notify,
}

impl Feeds {
    fn feed(&self, of: DatabaseId) -> RefMut<'_, Feed> {
        RefMut::map(self.feeds.borrow_mut(), |feeds| feeds.entry(of).or_default())
    }

    fn course(&self, of: DatabaseId, replica: StandbyId) -> RefMut<'_, Course> {
        let new = || Course {
            stage: Stage::Waiting("the database is not followed yet".to_owned()),
            in_vain: InVain::default(),
            out: false,
            kept_behind: None,
            wrong: None,
            owners_differ: false,
            shown: Place::default(),
            unkept: None,
            waited: Waited::default(),
            steps: apply::Counts::default(),
            copies: 0,
            takes_in: None,
        };
        RefMut::map(self.courses.borrow_mut(), |courses| courses.entry((of, replica)).or_insert_with(new))
    }

    /// Completes when something may be given, or taken away, that was not before. Registered as soon as it is made.
    pub fn more(&self) -> tokio::sync::futures::Notified<'_> {
        self.more.notified()
    }

    /// What is done for a replica now.
    pub(crate) fn set_stage(&self, of: DatabaseId, replica: StandbyId, stage: Stage) {
        let mut course = self.course(of, replica);
        course.stage = stage;
        // How quick it was before says nothing of how quick it is going to be.
        course.takes_in = None;
    }

    /// A copy begins.
    pub(crate) fn copy_begins(&self, of: DatabaseId, replica: StandbyId) {
        self.course(of, replica).copies += 1;
        self.set_stage(of, replica, Stage::Copying(None));
    }

    /// A copy has come to nothing. How many have.
    pub(crate) fn copied_in_vain(&self, of: DatabaseId, replica: StandbyId, why: String) -> u32 {
        let mut course = self.course(of, replica);
        course.in_vain = InVain { copies: course.in_vain.copies + 1, why };
        course.in_vain.copies
    }

    /// No copy has come to nothing since one did well; why there must be another one.
    pub(crate) fn copied_well(&self, of: DatabaseId, replica: StandbyId, why: String) {
        self.course(of, replica).in_vain = InVain { copies: 0, why };
    }

    /// A refresh has waited so long for those who read, and has let so many of them go.
    pub(crate) fn waited_for_readers(&self, of: DatabaseId, replica: StandbyId, time: Duration, let_go: u64) {
        let waited = &mut self.course(of, replica).waited;
        waited.for_readers += time;
        waited.let_go += let_go;
    }

    /// It was given up, and why.
    fn given_up(&self, of: DatabaseId, replica: StandbyId, why: String) {
        self.course(of, replica).in_vain.why = why;
    }

    /// Why there must be another copy, if anybody has said.
    pub(crate) fn why_anew(&self, of: DatabaseId, replica: StandbyId) -> Option<String> {
        let why = self.course(of, replica).in_vain.why.clone();
        (!why.is_empty()).then_some(why)
    }

    /// Whether it must be copied before it is fed.
    pub fn is_out(&self, of: DatabaseId, replica: StandbyId) -> bool {
        self.course(of, replica).out
    }

    /// Whether the replica is not what the primary is, and nobody has said yet that it is to be made anew.
    pub(crate) fn has_failed(&self, of: DatabaseId, replica: StandbyId) -> bool {
        matches!(self.course(of, replica).stage, Stage::Failed(_))
    }

    /// Whether the replica executes by itself.
    pub(crate) fn executes(&self, of: DatabaseId, replica: StandbyId) -> bool {
        self.course(of, replica).stage == Stage::Executing
    }

    /// The database must be copied to a replica before it is fed: the replica has only joined.
    pub(crate) fn begin_anew(&self, of: DatabaseId, replica: StandbyId) {
        self.course(of, replica).out = true;
    }

    /// For a replica that comes of a base backup all is kept that ends behind this place of the log.
    pub(crate) fn keeps_behind(&self, of: DatabaseId, replica: StandbyId, place: Lsn) {
        self.course(of, replica).kept_behind = Some(place);
    }

    /// Behind which place all is kept for a replica that comes of a base backup and is not fed yet.
    pub(crate) fn kept_behind(&self, of: DatabaseId, replica: StandbyId) -> Option<Lsn> {
        self.course(of, replica).kept_behind
    }

    /// The databases of a replica.
    pub(crate) fn of_replica(&self, replica: StandbyId) -> Vec<DatabaseId> {
        self.courses.borrow().keys().filter(|(_, other)| *other == replica).map(|(of, _)| *of).collect()
    }

    /// The replica is in the cluster no more.
    pub(crate) fn forget_replica(&self, replica: StandbyId) {
        self.courses.borrow_mut().retain(|(_, other), _| *other != replica);
    }

    /// The databases of a replica that are not being copied.
    pub(crate) fn not_copied_now(&self, replica: StandbyId) -> Vec<DatabaseId> {
        let courses = self.courses.borrow();
        let is_copied = |course: &Course| matches!(course.stage, Stage::Copying(_));
        let mine = courses.iter().filter(|((_, other), course)| *other == replica && !is_copied(course));
        mine.map(|((of, _), _)| *of).collect()
    }

    /// A commit came out for the first time.
    pub(crate) fn came_out(&self, of: DatabaseId, end: Lsn, rows: Rows<Part>) {
        self.feed(of).came_out(end, rows);
    }

    /// Changes how a commit travels. See [`Feed::change`].
    pub(super) fn change(&self, of: DatabaseId, end: Lsn, change: impl FnOnce(&mut Rows<Part>)) {
        self.feed(of).change(end, change);
    }

    /// What the replica is given next. See [`Feed::next`].
    pub(crate) fn next(
        &self,
        of: DatabaseId,
        replica: StandbyId,
        most: u64,
    ) -> Result<Option<Stretch>, NotFed> {
        self.feed(of).next(replica, most)
    }

    /// The place behind all that was taken. See [`Feed::end`].
    pub(crate) fn end(&self, of: DatabaseId) -> Place {
        self.feed(of).end()
    }

    /// The place behind all that the replica was given. See [`Feed::given`].
    pub(crate) fn given(&self, of: DatabaseId, replica: StandbyId) -> Option<Place> {
        self.feed(of).given(replica)
    }

    /// How the replica was found to differ, once.
    pub(crate) fn take_wrong(&self, of: DatabaseId, replica: StandbyId) -> Option<String> {
        self.course(of, replica).wrong.take()
    }

    /// Whether what belongs to whom there was found to differ when it was compared last.
    pub(crate) fn owners_differ(&self, of: DatabaseId, replica: StandbyId) -> bool {
        self.course(of, replica).owners_differ
    }

    /// What belongs to whom there was compared.
    pub(crate) fn set_owners_differ(&self, of: DatabaseId, replica: StandbyId, differ: bool) {
        self.course(of, replica).owners_differ = differ;
    }

    /// Whether what commits is kept for the replica.
    pub(crate) fn takes(&self, of: DatabaseId, replica: StandbyId) -> bool {
        self.feed(of).is_taken_by(replica)
    }

    /// A connection to the replica begins. See [`Feed::connected`].
    pub(crate) fn connected(&self, of: DatabaseId, replica: StandbyId) -> Result<(), NotFed> {
        self.feed(of).connected(replica)
    }

    /// The rows of a commit that a boundary has; `None` if nobody has them any more.
    pub(crate) fn rows(&self, of: DatabaseId, end: Lsn) -> Option<Rows<Part>> {
        self.feed(of).rows(end)
    }

    /// This life of the replica shows all boundaries below a place, if one is said; feeding goes on at `resume` then.
    pub(crate) fn shown(
        &self,
        (of, replica): (DatabaseId, StandbyId),
        (life, resume): (Incarnation, Lsn),
        place: Option<Place>,
    ) {
        let mut course = self.course(of, replica);
        course.shown = place.unwrap_or(course.shown);
        let place = place.unwrap_or_default();
        course.unkept = Some(Shown { life, resume, place });
    }

    /// The replica was brought on by so many steps more.
    pub(crate) fn stepped(&self, (of, replica): (DatabaseId, StandbyId), more: apply::Counts) {
        let mut course = self.course(of, replica);
        course.steps = course.steps + more;
    }

    /// The replica, which is behind, takes in so many bytes of rows a second, as far as that is known.
    pub(crate) fn takes_in(&self, (of, replica): (DatabaseId, StandbyId), bytes_per_second: Option<f64>) {
        self.course(of, replica).takes_in = bytes_per_second;
    }

    /// What this life of the replica has shown, of all databases, and may not have flushed.
    pub(crate) fn take_unkept(&self, replica: StandbyId, life: Incarnation) -> Vec<(DatabaseId, Lsn, Place)> {
        let mut courses = self.courses.borrow_mut();
        let mine = courses.iter_mut().filter(|((_, other), _)| *other == replica);
        let unkept = mine.filter_map(|((of, _), course)| {
            let shown = course.unkept.take_if(|shown| shown.life == life)?;
            Some((*of, shown.resume, shown.place))
        });
        unkept.collect()
    }

    /// The database is no more.
    pub(crate) fn forget(&self, of: DatabaseId) {
        self.feeds.borrow_mut().remove(&of);
        self.courses.borrow_mut().retain(|(other, _), _| *other != of);
        self.more.notify_waiters();
    }

    /// Wakes whoever waits for more.
    pub(crate) fn changed(&self) {
        self.more.notify_waiters();
    }

    fn views(&self, now: Duration) -> Vec<CourseView> {
        let courses = self.courses.borrow();
        let view = |((database, replica), course): (&(DatabaseId, StandbyId), &Course)| {
            let feed = self.feed(*database);
            let pending = feed.pending(course.shown);
            CourseView {
                replica: *replica,
                database: *database,
                stage: course.stage.clone(),
                in_vain: course.in_vain.clone(),
                pending,
                waited: course.waited,
                steps: course.steps,
                copies: course.copies,
                catches_up_in: time_for(pending.bytes, course.takes_in, feed.arrivals(now)),
            }
        };
        courses.iter().map(view).collect()
    }
}

impl Cluster {
    /// The replicas that Consort feeds.
    pub fn fed_ids(&self) -> impl Iterator<Item = StandbyId> + use<> {
        let fed: Vec<_> = self.standby_ids().filter(|id| self.standby(*id).kind == Kind::Fed).collect();
        fed.into_iter()
    }

    /// What is kept for the replicas that Consort feeds.
    pub fn feeds(&self) -> &Feeds {
        &self.0.feeds
    }

    /// Each replica that Consort feeds, or keeps rows for until it comes, database by database.
    pub fn courses(&self) -> Vec<CourseView> {
        let here = |course: &CourseView| self.is_here(course.replica) || self.is_coming(course.replica);
        self.0.feeds.views(self.now()).into_iter().filter(here).collect()
    }

    /// Whether what came out of the database's slot is kept for a replica. If it is, and the order has no
    /// [run](order::Order::run), the slot must be forgotten and opened again.
    pub(crate) fn is_fed(&self, of: DatabaseId) -> bool {
        self.feeds().feed(of).is_taken()
    }

    /// The database's slot is about to be opened: all replicas are fed that need not be copied first, so that it is
    /// confirmed no further than what they keep. Whether there is any replica at all, whose rows are to be kept.
    pub(crate) fn feed_all(&self, of: DatabaseId) -> bool {
        for replica in self.fed_ids() {
            if !self.feeds().is_out(of, replica) {
                self.scheduler().fed_takes(replica, of);
                self.feeds().feed(of).joins(replica);
            }
        }
        self.fed_ids().next().is_some()
    }

    /// The database's slot was opened, or its commits are placed from now on: what is kept is of this run.
    pub(crate) fn follow_run(&self, of: DatabaseId) {
        let run = self.scheduler().order().run(of);
        self.feeds().feed(of).follow(run);
        self.reruns_follow(of, run);
        self.feeds().changed();
    }

    /// A replica is about to be copied: what commits from here on is kept for it. What may be there still is no copy that
    /// could be fed, until the new one is [made](Cluster::copied).
    pub(crate) fn fed_takes(&self, replica: StandbyId, of: DatabaseId) {
        self.fed_leaves(replica, of);
        self.scheduler().fed_takes(replica, of);
        self.feeds().feed(of).joins(replica);
        self.follow_run(of);
    }

    /// All that another replica may have to be given once more is kept for this one too: its server is a copy of that one's,
    /// or is going to be. Whether anything is kept for that one.
    pub(super) fn joins_beside(&self, replica: StandbyId, other: StandbyId, of: DatabaseId) -> bool {
        let joins = self.feeds().feed(of).joins_beside(replica, other);
        if joins {
            self.scheduler().fed_takes(replica, of);
            let why =
                "its server is a copy of another replica's, or is going to be; all that it lacks is kept";
            self.feeds().set_stage(of, replica, Stage::Waiting(why.to_owned()));
        }
        joins
    }

    /// The copy is made.
    pub(crate) fn copied(&self, replica: StandbyId, of: DatabaseId) {
        let mut course = self.feeds().course(of, replica);
        (course.out, course.kept_behind) = (false, None);
        course.in_vain.why.clear();
    }

    /// A replica is fed no more: it must be copied anew, and so must those whose servers are being copied from it. Nothing is
    /// read there.
    pub(crate) fn fed_leaves(&self, replica: StandbyId, of: DatabaseId) {
        self.scheduler().fed_leaves(replica, of);
        self.feeds().feed(of).leaves(replica);
        let mut course = self.feeds().course(of, replica);
        (course.out, course.unkept, course.kept_behind) = (true, None, None);
        drop(course);
        self.copies_are_void(replica, of);
        self.feeds().changed();
        self.moved();
    }

    /// The replica was compared with the primary, and differs: nothing is read there until the database was copied anew.
    pub fn fed_wrong(&self, replica: StandbyId, of: DatabaseId, why: String) {
        self.fed_leaves(replica, of);
        self.feeds().course(of, replica).wrong = Some(why);
        self.feeds().changed();
    }

    /// Somebody who read at the replica has met what is broken there: nothing is read there until the database was copied anew.
    pub fn fed_broken(&self, replica: StandbyId, of: DatabaseId, why: &str) {
        // One is enough: others who read there may find it later, when what was copied anew is read by then.
        if !self.feeds().is_out(of, replica) || self.feeds().executes(of, replica) {
            self.fed_wrong(replica, of, format!("what it keeps is broken, a read has found: {why}"));
        }
    }

    /// The replica's rows were found to differ, and are to be repaired while it is fed: nothing is read there.
    pub fn fed_distrusted(&self, replica: StandbyId, of: DatabaseId) {
        self.scheduler().fed_distrusted(replica, of);
        self.copies_are_void(replica, of);
        self.moved();
    }

    /// They were repaired, and compared again.
    pub fn fed_trusted(&self, replica: StandbyId, of: DatabaseId) {
        self.scheduler().fed_trusted(replica, of);
        self.moved();
    }

    /// The database is copied to the replica anew, failed or not.
    pub fn fed_anew(&self, replica: StandbyId, of: DatabaseId) {
        self.fed_leaves(replica, of);
        self.feeds().copied_well(of, replica, String::new());
        self.feeds().set_stage(of, replica, Stage::Waiting(TO_BE_COPIED.to_owned()));
        self.told(replica);
    }

    /// The replica has flushed what shows all boundaries below this place, and is fed from `resume` on whatever becomes of
    /// it.
    pub(crate) fn fed_keeps(&self, replica: StandbyId, of: DatabaseId, resume: Lsn, below: Place) {
        self.scheduler().fed_keeps(replica, of, resume);
        self.feeds().feed(of).kept(replica, below);
    }

    /// Takes the boundaries that the order has made, for all replicas. Who is too far behind is given up.
    pub(crate) fn take_boundaries(&self) {
        let boundaries = self.scheduler().take_boundaries();
        if boundaries.is_empty() {
            return;
        }
        let now = self.now();
        let mut grown: Vec<DatabaseId> = Vec::new();
        for boundary in boundaries {
            let Boundary { database, .. } = boundary;
            self.stand(&boundary);
            self.feeds().feed(database).extend(boundary, now);
            grown.push(database);
        }
        self.feeds().changed();
        grown.sort_unstable();
        grown.dedup();
        grown.into_iter().for_each(|of| self.bound_feed(of));
    }

    /// Keeps what is kept for the replicas within its bounds.
    fn bound_feed(&self, of: DatabaseId) {
        let (memory, files) = (self.setup().fed_buffer_bytes as u64, self.setup().fed_archive_bytes as u64);
        let put = |parts: &mut [Part]| Part::put_away(parts, &mut self.feeds().archive.borrow_mut());
        let mut why = "it is further behind than fed_buffer and fed_archive hold".to_owned();
        if files > 0
            && let Err(error) = self.feeds().feed(of).put_away(memory, put)
        {
            tracing::warn!(%error, "what replicas lack cannot be put into a file");
            why = format!("what it lacks cannot be put into a file: {error}");
        }
        loop {
            let behind = self.feeds().feed(of).too_far_behind(memory, files);
            if behind.is_empty() {
                return;
            }
            for replica in behind {
                tracing::warn!(
                    replica = self.standby(replica).name,
                    database = self.name_of(of),
                    why,
                    "the replica is given up: the database is copied anew"
                );
                self.fed_leaves(replica, of);
                self.feeds().given_up(of, replica, why.clone());
            }
        }
    }

    /// The name of a database, for people.
    pub fn name_of(&self, of: DatabaseId) -> String {
        let databases = self.databases();
        let named = databases.iter().find(|database| database.id() == Some(of));
        named.map_or_else(|| of.to_string(), |database| database.name().to_owned())
    }

    /// Whether a database of this name is followed.
    pub fn knows(&self, name: &str) -> bool {
        self.0.databases.borrow().contains_key(name)
    }

    /// Whether this is still the database of its name.
    pub(crate) fn has(&self, database: &Database) -> bool {
        let databases = self.0.databases.borrow();
        databases.get(database.name()).is_some_and(|known| std::ptr::eq(Rc::as_ptr(known), database))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_of_how_quick_one_is_that_has_been_away() {
        let (feeds, of, replica) = (Feeds::default(), DatabaseId::new(5), StandbyId::new(1));
        let takes_in = |feeds: &Feeds| feeds.course(of, replica).takes_in;
        feeds.set_stage(of, replica, Stage::Feeding);
        feeds.takes_in((of, replica), Some(1000.0));
        assert!(takes_in(&feeds).is_some());
        feeds.set_stage(of, replica, Stage::Waiting("the server is away".to_owned()));
        assert!(takes_in(&feeds).is_none());
        feeds.takes_in((of, replica), Some(1000.0));
        feeds.set_stage(of, replica, Stage::Feeding);
        assert!(takes_in(&feeds).is_none());
    }
}
