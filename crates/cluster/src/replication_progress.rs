//! The logical replicas, as the cluster knows them: the feed of each database, its progress, and the flushed
//! positions.

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

/// Reason shown while a replica waits for a requested rebuild.
pub(crate) const TO_BE_COPIED: &str = "waiting for a new copy";

/// Stage of one replica's feed of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for the server, or for the database to be followed. The text is the reason.
    Waiting(String),
    /// Paused by an operator.
    Paused,
    /// Copying the database, with the progress as soon as it is known.
    Copying(Option<Progress>),
    /// Receiving commits.
    Feeding,
    /// Executing the primary's transactions, and receiving none.
    Executing,
    /// The replica differs from the primary, and serves no reads of the database until it is rebuilt.
    Failed(String),
}

/// Copies that failed since the replica was last fed for a good while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InVain {
    /// Number of failed copies.
    pub copies: u32,
    /// Reason for the next copy. Empty if no reason was given.
    pub why: String,
}

/// Waits of refreshes that lock, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Total wait for readers.
    pub for_readers: Duration,
    /// Number of readers that were released from their wait.
    pub let_go: u64,
}

/// One replica and one database.
#[derive(Debug)]
struct Course {
    stage: Stage,
    in_vain: InVain,
    /// True if it must be copied before it is fed again.
    out: bool,
    /// WAL position of a replica from a base backup: all commits that end after it are kept for the replica.
    kept_behind: Option<Lsn>,
    /// Difference that a comparison with the primary has found, until the feed handles it.
    wrong: Option<String>,
    /// True if owners or privileges were found to differ, and have not been found equal since.
    owners_differ: bool,
    /// Position below which everything is visible there.
    shown: Place,
    /// Newest state that was shown and may not be flushed there.
    unkept: Option<Shown>,
    waited: Waited,
    /// Work done since this process began.
    steps: apply::Counts,
    /// Number of copies of the database that were begun.
    copies: u64,
    /// Bytes of rows per second that the replica applies while it lags. `None` unless it has lagged since it
    /// was connected.
    takes_in: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    life: Incarnation,
    resume: Lsn,
    place: Place,
}

/// State of a replica's feed as the console shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CourseView {
    /// Number of the replica.
    pub replica: StandbyId,
    /// Database of this feed.
    pub database: DatabaseId,
    /// Current stage.
    pub stage: Stage,
    /// Copies that failed.
    pub in_vain: InVain,
    /// Boundaries that the replica does not show yet.
    pub pending: Pending,
    /// Waits of its refreshes.
    pub waited: Waited,
    /// Number of apply steps since this process began.
    pub steps: apply::Counts,
    /// Number of copies of the database that were begun, since this process began.
    pub copies: u64,
    /// Estimated time until the replica shows everything, at its own pace and that of the writers. `None` if
    /// its pace is unknown, or no quicker than theirs.
    pub catches_up_in: Option<Duration>,
}

/// Feeds of all databases and replicas.
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

    /// Completes when a boundary may be sent, or a replica dropped, that was not before. Registered at once.
    pub fn more(&self) -> tokio::sync::futures::Notified<'_> {
        self.more.notified()
    }

    /// Sets the current stage of a replica.
    pub(crate) fn set_stage(&self, of: DatabaseId, replica: StandbyId, stage: Stage) {
        let mut course = self.course(of, replica);
        course.stage = stage;
        // The earlier pace does not predict the next one.
        course.takes_in = None;
    }

    /// Notes that a copy begins.
    pub(crate) fn copy_begins(&self, of: DatabaseId, replica: StandbyId) {
        self.course(of, replica).copies += 1;
        self.set_stage(of, replica, Stage::Copying(None));
    }

    /// Notes a failed copy. Returns the number of failed ones.
    pub(crate) fn copied_in_vain(&self, of: DatabaseId, replica: StandbyId, why: String) -> u32 {
        let mut course = self.course(of, replica);
        course.in_vain = InVain { copies: course.in_vain.copies + 1, why };
        course.in_vain.copies
    }

    /// Notes a successful copy, which resets the failed ones, with the reason for the next one.
    pub(crate) fn copied_well(&self, of: DatabaseId, replica: StandbyId, why: String) {
        self.course(of, replica).in_vain = InVain { copies: 0, why };
    }

    /// Notes a refresh that has waited for readers for this time, and has released this many of them.
    pub(crate) fn waited_for_readers(&self, of: DatabaseId, replica: StandbyId, time: Duration, let_go: u64) {
        let waited = &mut self.course(of, replica).waited;
        waited.for_readers += time;
        waited.let_go += let_go;
    }

    /// Notes that the replica was given up, with the reason.
    fn given_up(&self, of: DatabaseId, replica: StandbyId, why: String) {
        self.course(of, replica).in_vain.why = why;
    }

    /// Reason for another copy, if one was given.
    pub(crate) fn why_anew(&self, of: DatabaseId, replica: StandbyId) -> Option<String> {
        let why = self.course(of, replica).in_vain.why.clone();
        (!why.is_empty()).then_some(why)
    }

    /// Returns true if the replica must be copied before it is fed.
    pub fn is_out(&self, of: DatabaseId, replica: StandbyId) -> bool {
        self.course(of, replica).out
    }

    /// Returns true if the replica differs from the primary, and no rebuild was requested yet.
    pub(crate) fn has_failed(&self, of: DatabaseId, replica: StandbyId) -> bool {
        matches!(self.course(of, replica).stage, Stage::Failed(_))
    }

    /// Returns true if the replica executes transactions on its own.
    pub(crate) fn executes(&self, of: DatabaseId, replica: StandbyId) -> bool {
        self.course(of, replica).stage == Stage::Executing
    }

    /// Notes that the database must be copied to a replica before it is fed: the replica has only joined.
    pub(crate) fn begin_anew(&self, of: DatabaseId, replica: StandbyId) {
        self.course(of, replica).out = true;
    }

    /// Keeps, for a replica from a base backup, all commits that end after this WAL position.
    pub(crate) fn keeps_behind(&self, of: DatabaseId, replica: StandbyId, place: Lsn) {
        self.course(of, replica).kept_behind = Some(place);
    }

    /// WAL position after which all commits are kept for a replica from a base backup that is not fed yet.
    pub(crate) fn kept_behind(&self, of: DatabaseId, replica: StandbyId) -> Option<Lsn> {
        self.course(of, replica).kept_behind
    }

    /// The databases of a replica.
    pub(crate) fn of_replica(&self, replica: StandbyId) -> Vec<DatabaseId> {
        self.courses.borrow().keys().filter(|(_, other)| *other == replica).map(|(of, _)| *of).collect()
    }

    /// Forgets a replica that has left the cluster.
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

    /// Adds a commit that came out for the first time.
    pub(crate) fn came_out(&self, of: DatabaseId, end: Lsn, rows: Rows<Part>) {
        self.feed(of).came_out(end, rows);
    }

    /// Changes the form in which a commit travels. See [`Feed::change`].
    pub(super) fn change(&self, of: DatabaseId, end: Lsn, change: impl FnOnce(&mut Rows<Part>)) {
        self.feed(of).change(end, change);
    }

    /// Boundaries that the replica receives next. See [`Feed::next`].
    pub(crate) fn next(
        &self,
        of: DatabaseId,
        replica: StandbyId,
        most: u64,
    ) -> Result<Option<Stretch>, NotFed> {
        self.feed(of).next(replica, most)
    }

    /// Position after everything that was taken. See [`Feed::end`].
    pub(crate) fn end(&self, of: DatabaseId) -> Place {
        self.feed(of).end()
    }

    /// Position after everything that was sent to the replica. See [`Feed::given`].
    pub(crate) fn given(&self, of: DatabaseId, replica: StandbyId) -> Option<Place> {
        self.feed(of).given(replica)
    }

    /// Takes the difference that was found at the replica, once.
    pub(crate) fn take_wrong(&self, of: DatabaseId, replica: StandbyId) -> Option<String> {
        self.course(of, replica).wrong.take()
    }

    /// Returns true if owners or privileges there differed at the last comparison.
    pub(crate) fn owners_differ(&self, of: DatabaseId, replica: StandbyId) -> bool {
        self.course(of, replica).owners_differ
    }

    /// Notes the result of a comparison of owners and privileges there.
    pub(crate) fn set_owners_differ(&self, of: DatabaseId, replica: StandbyId, differ: bool) {
        self.course(of, replica).owners_differ = differ;
    }

    /// Returns true if commits are kept for the replica.
    pub(crate) fn takes(&self, of: DatabaseId, replica: StandbyId) -> bool {
        self.feed(of).is_taken_by(replica)
    }

    /// Notes that a connection to the replica begins. See [`Feed::connected`].
    pub(crate) fn connected(&self, of: DatabaseId, replica: StandbyId) -> Result<(), NotFed> {
        self.feed(of).connected(replica)
    }

    /// Rows of a commit that a boundary has. `None` if they are kept nowhere any more.
    pub(crate) fn rows(&self, of: DatabaseId, end: Lsn) -> Option<Rows<Part>> {
        self.feed(of).rows(end)
    }

    /// Notes that this incarnation of the replica shows all boundaries below a position, if one is given;
    /// feeding goes on at `resume` then.
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

    /// Counts the further steps of the replica.
    pub(crate) fn stepped(&self, (of, replica): (DatabaseId, StandbyId), more: apply::Counts) {
        let mut course = self.course(of, replica);
        course.steps = course.steps + more;
    }

    /// Notes how many bytes of rows per second a replica that lags applies, if known.
    pub(crate) fn takes_in(&self, (of, replica): (DatabaseId, StandbyId), bytes_per_second: Option<f64>) {
        self.course(of, replica).takes_in = bytes_per_second;
    }

    /// Takes the positions of all databases that this incarnation of the replica has shown, and may not have
    /// flushed.
    pub(crate) fn take_unkept(&self, replica: StandbyId, life: Incarnation) -> Vec<(DatabaseId, Lsn, Place)> {
        let mut courses = self.courses.borrow_mut();
        let mine = courses.iter_mut().filter(|((_, other), _)| *other == replica);
        let unkept = mine.filter_map(|((of, _), course)| {
            let shown = course.unkept.take_if(|shown| shown.life == life)?;
            Some((*of, shown.resume, shown.place))
        });
        unkept.collect()
    }

    /// Forgets a database that was dropped.
    pub(crate) fn forget(&self, of: DatabaseId) {
        self.feeds.borrow_mut().remove(&of);
        self.courses.borrow_mut().retain(|(other, _), _| *other != of);
        self.more.notify_waiters();
    }

    /// Wakes all waiters for more boundaries.
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
    /// The logical replicas.
    pub fn fed_ids(&self) -> impl Iterator<Item = StandbyId> + use<> {
        let fed: Vec<_> = self.standby_ids().filter(|id| self.standby(*id).kind == Kind::Fed).collect();
        fed.into_iter()
    }

    /// Buffers and states of all replication feeds.
    pub fn feeds(&self) -> &Feeds {
        &self.0.feeds
    }

    /// State of each logical replica, or replica to come, database by database.
    pub fn courses(&self) -> Vec<CourseView> {
        let here = |course: &CourseView| self.is_here(course.replica) || self.is_coming(course.replica);
        self.0.feeds.views(self.now()).into_iter().filter(here).collect()
    }

    /// Returns true if the output of the database's slot is kept for a replica. If so, and the order has no
    /// [run](order::Order::run), the slot must be forgotten and opened again.
    pub(crate) fn is_fed(&self, of: DatabaseId) -> bool {
        self.feeds().feed(of).is_taken()
    }

    /// Begins to feed all replicas that need not be copied first, because the database's slot is about to be
    /// opened: it is confirmed no further than these replicas keep. Returns true if there is any replica
    /// whose rows must be kept.
    pub(crate) fn feed_all(&self, of: DatabaseId) -> bool {
        for replica in self.fed_ids() {
            if !self.feeds().is_out(of, replica) {
                self.scheduler().fed_takes(replica, of);
                self.feeds().feed(of).joins(replica);
            }
        }
        self.fed_ids().next().is_some()
    }

    /// Notes that the database's slot was opened, or its commits are placed from now on: the kept commits are
    /// of this run.
    pub(crate) fn follow_run(&self, of: DatabaseId) {
        let run = self.scheduler().order().run(of);
        self.feeds().feed(of).follow(run);
        self.reruns_follow(of, run);
        self.feeds().changed();
    }

    /// Keeps commits from here on for a replica that is about to be copied. A database that exists there
    /// still is no copy that could be fed, until the new one is [made](Cluster::copied).
    pub(crate) fn fed_takes(&self, replica: StandbyId, of: DatabaseId) {
        self.fed_leaves(replica, of);
        self.scheduler().fed_takes(replica, of);
        self.feeds().feed(of).joins(replica);
        self.follow_run(of);
    }

    /// Keeps for this replica too everything that another one may have to receive again: its server is a copy
    /// of that one's, or is going to be. Returns true if anything is kept for the other one.
    pub(super) fn joins_beside(&self, replica: StandbyId, other: StandbyId, of: DatabaseId) -> bool {
        let joins = self.feeds().feed(of).joins_beside(replica, other);
        if joins {
            self.scheduler().fed_takes(replica, of);
            let why = "the server is, or will be, a copy of another replica's; missing commits are kept";
            self.feeds().set_stage(of, replica, Stage::Waiting(why.to_owned()));
        }
        joins
    }

    /// Notes that the copy is made.
    pub(crate) fn copied(&self, replica: StandbyId, of: DatabaseId) {
        let mut course = self.feeds().course(of, replica);
        (course.out, course.kept_behind) = (false, None);
        course.in_vain.why.clear();
    }

    /// Stops feeding a replica: it must be copied again, and so must those whose servers are being copied
    /// from it. No read runs there.
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

    /// Notes that a comparison found the replica to differ from the primary: no read runs there until the
    /// database was copied again.
    pub fn fed_wrong(&self, replica: StandbyId, of: DatabaseId, why: String) {
        self.fed_leaves(replica, of);
        self.feeds().course(of, replica).wrong = Some(why);
        self.feeds().changed();
    }

    /// Notes that a read at the replica has met broken data: no read runs there until the database was copied
    /// again.
    pub fn fed_broken(&self, replica: StandbyId, of: DatabaseId, why: &str) {
        // One report is enough: later ones may concern a copy that was replaced in the meantime.
        if !self.feeds().is_out(of, replica) || self.feeds().executes(of, replica) {
            self.fed_wrong(replica, of, format!("a read found corrupted data: {why}"));
        }
    }

    /// Notes that the replica's rows were found to differ, and are to be repaired while it is fed: no read
    /// runs there.
    pub fn fed_distrusted(&self, replica: StandbyId, of: DatabaseId) {
        self.scheduler().fed_distrusted(replica, of);
        self.copies_are_void(replica, of);
        self.moved();
    }

    /// Notes that the replica's rows were repaired, and compared again.
    pub fn fed_trusted(&self, replica: StandbyId, of: DatabaseId) {
        self.scheduler().fed_trusted(replica, of);
        self.moved();
    }

    /// Copies the database to the replica again, failed or not.
    pub fn fed_anew(&self, replica: StandbyId, of: DatabaseId) {
        self.fed_leaves(replica, of);
        self.feeds().copied_well(of, replica, String::new());
        self.feeds().set_stage(of, replica, Stage::Waiting(TO_BE_COPIED.to_owned()));
        self.told(replica);
    }

    /// Notes that the replica has flushed a state that shows all boundaries below this position. After a
    /// crash it is fed from `resume` on.
    pub(crate) fn fed_keeps(&self, replica: StandbyId, of: DatabaseId, resume: Lsn, below: Place) {
        self.scheduler().fed_keeps(replica, of, resume);
        self.feeds().feed(of).kept(replica, below);
    }

    /// Takes the boundaries that the order has made, for all replicas. Gives up replicas that lag too far.
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

    /// Keeps the commits for the replicas within their bounds.
    fn bound_feed(&self, of: DatabaseId) {
        let (memory, files) = (self.setup().fed_buffer_bytes as u64, self.setup().fed_archive_bytes as u64);
        let put = |parts: &mut [Part]| Part::put_away(parts, &mut self.feeds().archive.borrow_mut());
        let mut why =
            "the replication backlog exceeds replication_buffer_size and replication_spill_size".to_owned();
        if files > 0
            && let Err(error) = self.feeds().feed(of).put_away(memory, put)
        {
            tracing::warn!(%error, "cannot spill the replication backlog to a file");
            why = format!("cannot spill the replication backlog to a file: {error}");
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
                    "replica given up; copying the database again"
                );
                self.fed_leaves(replica, of);
                self.feeds().given_up(of, replica, why.clone());
            }
        }
    }

    /// Name of a database, for messages.
    pub fn name_of(&self, of: DatabaseId) -> String {
        let databases = self.databases();
        let named = databases.iter().find(|database| database.id() == Some(of));
        named.map_or_else(|| of.to_string(), |database| database.name().to_owned())
    }

    /// Returns true if a database of this name is followed.
    pub fn knows(&self, name: &str) -> bool {
        self.0.databases.borrow().contains_key(name)
    }

    /// Returns true if this is still the database of its name.
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
        feeds.set_stage(of, replica, Stage::Waiting("the server is unreachable".to_owned()));
        assert!(takes_in(&feeds).is_none());
        feeds.takes_in((of, replica), Some(1000.0));
        feeds.set_stage(of, replica, Stage::Feeding);
        assert!(takes_in(&feeds).is_none());
    }
}
