//! Feeds one database to one replica: boundary after boundary. Each boundary, or several whole ones, is one
//! transaction with the position that it leads to. A replica that lags by several such transactions executes
//! them concurrently, and they commit in order.
//!
//! ```text
//!   nothing there, or it lacks what is kept nowhere --> copied ------\
//!   it came with a base backup, and all since is kept --> taken over --+
//!   a copy of this database ------------------------------------------+--> fed, for as long as it goes well
//!
//!   connection lost                              --> connected again
//!   DDL that cannot be run there, too far behind --> copied again; less often each time if that recurs soon
//!   it differs from the primary                  --> failed, until it is dropped there, or to be rebuilt
//!   a comparison with the primary runs           --> it rests at one state for a moment, then goes on
//!   transactions are ordered before they run     --> once it has all, it executes them, unfed (`executes`)
//!   paused by an operator                        --> nothing, until it is resumed
//! ```

mod backup;
mod execution_mode;
mod owners;
mod rests;
mod sequences;

use super::{FIRST_EPOCH, extensions};
use crate::barrier::Upkeep;
use crate::scheduled::TakesPart;
use crate::trouble::{LONGEST_PAUSE, RECONNECT_AFTER, Trouble};
use crate::{
    Cluster, Database, NotFed, Place, Stage, StandbySetup, Standing, Stands, Stretch, TO_BE_COPIED, Wanted,
    Work,
};
use history::{DatabaseId, Incarnation, Shown, Snapshot};
use order::Boundary;
use owners::Unequal;
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::attach::{self, CommandLog, Patience};
use postgres::facts;
use postgres::programs::Programs;
use postgres::version;
use replica_apply::apply::{self, Batch, Feeder, Part, Unrun};
use replica_apply::clone::{self, Chosen, Found};
use rests::{WELL_FED, rest_behind};
use scheduler::StandbyId;
use sequences::Told;
use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;
use transaction::Refresh;

/// Time for which a copy's target server may be away before the copy is given up.
const COPY_PATIENCE: Duration = Duration::from_secs(10);

/// Maximum bytes of boundaries in one transaction at a replica that lags.
const STRETCH_BYTES: u64 = 4 << 20;

/// Minimum bytes of a step whose time measures the pace of a replica that lags. Smaller steps wait for each
/// other's answers. If boundaries are applied one by one, all steps are measured.
const BULK_BYTES: u64 = 64 * 1024;

/// Reason why feeding ended.
enum Stop {
    /// The replica, or the primary, is unreachable or refused: the feed is retried.
    Again(Error),
    /// The existing copy cannot be fed any more: the database is copied again. The text is the reason.
    Anew(String),
    /// DDL names a missing object: a role, perhaps.
    Lacks(Unrun),
    /// The copy was given up, with a reason noted elsewhere: the database is copied again.
    GivenUp,
    /// The replica differs from the primary, since an unknown time.
    Failed(String),
    /// Paused by an operator.
    Paused,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Again(error)
    }
}

impl From<NotFed> for Stop {
    fn from(_: NotFed) -> Stop {
        Stop::GivenUp
    }
}

impl From<apply::Error> for Stop {
    fn from(error: apply::Error) -> Stop {
        let said = error.to_string();
        match error {
            apply::Error::Server(error) => Stop::Again(error),
            apply::Error::Moved => Stop::Again(Error::NotReady(said)),
            apply::Error::Ddl(unrun) if unrun.roles_may_lag => Stop::Lacks(unrun),
            apply::Error::Ddl(_) | apply::Error::Kept(_) => Stop::Anew(said),
            apply::Error::Diverged { .. } | apply::Error::Unfit { .. } => Stop::Failed(said),
        }
    }
}

/// Hands out the visible boundaries of the primary, for ever.
pub(crate) async fn hand_out(cluster: Cluster) {
    while !cluster.stopping() {
        let moved = cluster.next_move();
        cluster.take_boundaries();
        moved.await;
    }
}

/// Feeds the replica until it leaves, or the database is dropped. Then its copy is dropped too.
pub(crate) async fn run(cluster: Cluster, database: Rc<Database>, id: StandbyId) {
    let name = cluster.standby(id).name.clone();
    let (mut trouble, mut stepped_for) = (Trouble::default(), None);
    while let Some(of) = both_there(&cluster, &database, id).await {
        let began = Instant::now();
        let feeding = Feeding::new(&cluster, &database, id, of);
        let Err(stop) = feeding.run().await;
        if !cluster.has(&database) || !cluster.is_here(id) {
            break;
        }
        cluster.scheduler().fed_lost(id, of);
        cluster.moved();
        let pause = match stop {
            Stop::Again(error) => {
                let why = error.to_string();
                let (is_new, pause) = trouble.met(&why, &error, began.elapsed());
                if is_new {
                    tracing::warn!(
                        replica = name,
                        database = database.name(),
                        error = why,
                        "cannot replicate to the replica; retrying"
                    );
                }
                give_up_for_the_log(&cluster, &database, (of, id));
                if feeding.was_copying() {
                    let rest = feeding.in_vain(why);
                    if matches!(error, Error::Setup(_)) { rest } else { pause }
                } else {
                    cluster.feeds().set_stage(of, id, Stage::Waiting(why));
                    pause
                }
            }
            Stop::Lacks(unrun) => feeding.lacks(&unrun, &mut stepped_for).await,
            Stop::Anew(why) => feeding.anew(why),
            Stop::GivenUp => {
                let why = match cluster.feeds().why_anew(of, id) {
                    Some(said) => format!("the copy was given up: {said}"),
                    None => TO_BE_COPIED.to_owned(),
                };
                tracing::warn!(replica = name, database = database.name(), why, "copying the database again");
                cluster.fed_leaves(id, of);
                if feeding.was_copying() {
                    feeding.in_vain(why)
                } else {
                    cluster.feeds().set_stage(of, id, Stage::Waiting(why));
                    RECONNECT_AFTER
                }
            }
            Stop::Failed(why) => {
                tracing::error!(replica = name, database = database.name(), why, "the replica has failed");
                cluster.fed_leaves(id, of);
                clone::note_failed(&feeding.replica, &why).await;
                cluster.feeds().set_stage(of, id, Stage::Failed(why));
                feeding.until_wanted_anew().await;
                RECONNECT_AFTER
            }
            Stop::Paused => {
                cluster.feeds().set_stage(of, id, Stage::Paused);
                Duration::ZERO
            }
        };
        feeding.rest(pause).await;
    }
    cluster.feeding_ends(&database);
    if cluster.is_here(id) {
        remove(&cluster, &database, id).await;
    }
}

/// Waits until the database is followed and the replica's server is reachable. Returns `None` if the database
/// was dropped, or the replica leaves. In the meantime the primary keeps WAL for the replica, up to a bound.
async fn both_there(cluster: &Cluster, database: &Rc<Database>, id: StandbyId) -> Option<DatabaseId> {
    while !cluster.stopping() && cluster.has(database) && cluster.is_here(id) {
        let more = cluster.feeds().more();
        if let Some(of) = database.id() {
            let followed = cluster.scheduler().order().followed(of);
            let stage = match (followed, cluster.is_watched(id)) {
                _ if cluster.is_paused(id) => Stage::Paused,
                (true, true) => return Some(of),
                // The joining task reports the progress here.
                (true, false) if cluster.feeds().kept_behind(of, id).is_some() => {
                    more.await;
                    continue;
                }
                (true, false) => Stage::Waiting("the server is unreachable".to_owned()),
                (false, _) => Stage::Waiting(not_followed(cluster)),
            };
            cluster.feeds().set_stage(of, id, stage);
            if followed {
                give_up_for_the_log(cluster, database, (of, id));
            }
        }
        more.await;
    }
    None
}

fn not_followed(cluster: &Cluster) -> String {
    match cluster.lead().standing() {
        Standing::Waits(holder) => format!("another Consort replicates to it: {holder}"),
        Standing::Unknown | Standing::Leads => "the database is not followed".to_owned(),
    }
}

/// Gives up a replica that is not fed before the primary keeps too much WAL for it.
fn give_up_for_the_log(cluster: &Cluster, database: &Database, (of, id): (DatabaseId, StandbyId)) {
    let slots = cluster.slots();
    let slot = slots.iter().find(|(slot, _)| slot.database.as_deref() == Some(database.name()));
    let kept_bytes = slot.map_or(0, |(slot, _)| slot.kept_bytes);
    let bound = cluster.setup().fed_buffer_bytes as u64 + cluster.setup().fed_archive_bytes as u64;
    if kept_bytes > bound && !cluster.feeds().is_out(of, id) {
        let replica = cluster.standby(id);
        tracing::warn!(
            replica = replica.name,
            database = database.name(),
            kept_bytes,
            "WAL kept for the replica exceeds replication_buffer_size and replication_spill_size; \
             copying the database again"
        );
        cluster.fed_leaves(id, of);
    }
}

/// Drops the copy of a dropped database, unless another database has its name by now.
async fn remove(cluster: &Cluster, database: &Database, id: StandbyId) {
    let address = cluster.standby(id).address.with_database(database.name());
    let mut trouble = Trouble::default();
    while !cluster.stopping() && cluster.is_here(id) && !cluster.knows(database.name()) {
        let Err(error) = clone::remove(&address).await else { return };
        let (is_new, pause) = trouble.met(&error.to_string(), &error, Duration::ZERO);
        if is_new {
            tracing::warn!(database = database.name(), %error, "cannot drop the copy of a dropped database");
        }
        tokio::time::sleep(pause).await;
    }
}

/// Makes the primary log DDL as replicas need it, before a copy is made, if Consort attaches databases.
pub(super) async fn log_commands(cluster: &Cluster, database: &Rc<Database>) -> Result<(), Error> {
    if !cluster.setup().attach {
        return Ok(());
    }
    let control = Control::connect(&cluster.setup().primary.with_database(database.name())).await?;
    if attach::logs_commands(&control).await? {
        return Ok(());
    }
    let upkeep = Upkeep::begin(cluster, database);
    let log = CommandLog::make(&control, cluster.setup().unreplicable_ddl).await?;
    drop(upkeep);
    // Reads go on in the meantime.
    let report =
        |waits: &str| tracing::warn!(database = database.name(), "cannot begin the copy yet: {waits}");
    log.wait(&control, &Patience { limit: None, report: &report }).await?;
    let _upkeep = Upkeep::begin(cluster, database);
    log.finish(&control).await
}

/// One attempt to feed a replica.
struct Feeding<'a> {
    cluster: &'a Cluster,
    database: &'a Rc<Database>,
    id: StandbyId,
    of: DatabaseId,
    primary: Address,
    replica: Address,
    setup: Rc<StandbySetup>,
    /// Start of the copy, if one was begun.
    copies_since: Cell<Option<Instant>>,
    /// Start of the current feed.
    fed_since: Cell<Option<Instant>>,
}

impl<'a> Feeding<'a> {
    fn new(cluster: &'a Cluster, database: &'a Rc<Database>, id: StandbyId, of: DatabaseId) -> Feeding<'a> {
        let primary = cluster.setup().primary.with_database(database.name());
        let setup = cluster.standby(id);
        let replica = setup.address.with_database(database.name());
        Feeding {
            cluster,
            database,
            id,
            of,
            primary,
            replica,
            setup,
            copies_since: Cell::default(),
            fed_since: Cell::default(),
        }
    }

    /// Tables that the replica receives.
    fn chosen(&self) -> &Chosen {
        &self.setup.tables
    }

    /// Returns true if a copy was begun and not completed.
    fn was_copying(&self) -> bool {
        self.copies_since.get().is_some() && self.fed_since.get().is_none()
    }

    /// Notes that the existing copy cannot be fed any more. Returns the pause before the next copy.
    fn anew(&self, why: String) -> Duration {
        let replica = &self.setup.name;
        tracing::warn!(replica, database = self.database.name(), why, "copying the database again");
        self.cluster.fed_leaves(self.id, self.of);
        self.in_vain(why)
    }

    /// Notes that a copy failed, or became useless. Returns the pause before the next copy.
    fn in_vain(&self, why: String) -> Duration {
        let (feeds, of, id) = (self.cluster.feeds(), self.of, self.id);
        if self.fed_since.get().is_some_and(|since| since.elapsed() > WELL_FED) {
            feeds.copied_well(of, id, why.clone());
            feeds.set_stage(of, id, Stage::Waiting(why));
            return RECONNECT_AFTER;
        }
        let copies = feeds.copied_in_vain(of, id, why.clone());
        let began = self.copies_since.get();
        let took = self.fed_since.get().zip(began).map(|(fed_since, began)| fed_since - began);
        let rest = rest_behind(copies, took);
        let said = match copies {
            1 => why,
            _ => format!("{why}; {copies} copies failed, the next one begins in {rest:?}"),
        };
        feeds.set_stage(of, id, Stage::Waiting(said));
        rest
    }

    /// Pauses, unless an operator gives a command, or there is nothing more to be done.
    async fn rest(&self, pause: Duration) {
        let (cluster, until) = (self.cluster, Instant::now() + pause);
        while !cluster.stopping() && cluster.has(self.database) && cluster.is_here(self.id) {
            let left = until.saturating_duration_since(Instant::now());
            let told = tokio::time::timeout(left.min(LONGEST_PAUSE), cluster.replica_told(self.id)).await;
            if told.is_ok() || left <= LONGEST_PAUSE {
                return;
            }
        }
    }

    /// Runs until the feed cannot go on, or an operator pauses it.
    async fn run(&self) -> Result<Infallible, Stop> {
        tokio::select! {
            ended = self.go() => ended,
            () = self.cluster.lead().until_waits() => Err(Error::NotReady("another Consort leads".to_owned()).into()),
            () = self.cluster.replica_stopped(self.id) => Err(Stop::Paused),
        }
    }

    async fn go(&self) -> Result<Infallible, Stop> {
        self.heed()?;
        if !self.cluster.lead().is_sure(self.cluster.now()) {
            return Err(Error::NotReady("another Consort may have taken over".to_owned()).into());
        }
        let is_there =
            !self.cluster.feeds().is_out(self.of, self.id) && self.unless_lost(self.is_there()).await?;
        if !is_there {
            match self.backup().await? {
                Some(left) => self.take_over(left).await?,
                None => self.copy().await?,
            }
        }
        let takes_part = tokio::select! {
            ended = self.unless_lost(self.feed()) => ended?,
            // The feed may end while the replica is still busy with earlier boundaries.
            () = self.given_up() => return self.heed().and(Err(NotFed.into())),
        };
        self.unless_lost(self.executes(takes_part)).await
    }

    /// Returns an error if a comparison found that the replica differs from the primary.
    fn heed(&self) -> Result<(), Stop> {
        self.cluster.feeds().take_wrong(self.of, self.id).map_or(Ok(()), |why| Err(Stop::Failed(why)))
    }

    /// Runs `doing`, and returns an error when the replica's server is found dead or hanging.
    async fn unless_lost<T>(&self, doing: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
        tokio::select! {
            done = doing => done,
            () = self.cluster.standby_lost(self.id) => {
                Err(Error::Unreachable("the server is unreachable".to_owned()).into())
            }
        }
    }

    /// Returns true if there is a copy of this very database.
    async fn is_there(&self) -> Result<bool, Stop> {
        match clone::found(&self.replica).await? {
            Found::Nothing => Ok(false),
            Found::Copy(_) if let Some(why) = clone::failure(&self.replica).await? => Err(Stop::Failed(why)),
            Found::Copy(_) => Ok(clone::is_of(&self.primary, &self.replica, self.chosen()).await?),
        }
    }

    /// Copies the database. Commits from before the snapshot on are kept for it in the meantime.
    async fn copy(&self) -> Result<(), Stop> {
        let (cluster, name) = (self.cluster, self.cluster.standby(self.id).name.clone());
        cluster.feeds().copy_begins(self.of, self.id);
        self.copies_since.set(Some(Instant::now()));
        log_commands(cluster, self.database).await?;
        let kept = Kept::begin(self);
        // pg_dump refuses a server that is newer, and its dump of an older one may say less.
        let major = version::of_server(&Control::connect(&self.primary).await?).await?.number;
        let found = move || Programs::find_clients(major);
        let programs = tokio::task::spawn_blocking(found).await;
        let programs = programs.map_err(|error| Error::Setup(error.to_string()))??;
        tracing::info!(replica = name, database = self.database.name(), "copying the database");
        let copying = async {
            let resume = self.resume().await;
            let tell = |far| cluster.feeds().set_stage(self.of, self.id, Stage::Copying(Some(far)));
            let to = (&self.replica, self.chosen());
            clone::clone(&programs, &self.primary, to, resume, &tell).await
        };
        tokio::select! {
            copied = copying => copied.map(drop)?,
            () = self.database.wanted_alone() => {
                return Err(Error::NotReady("a command needs exclusive access to the database".to_owned()).into());
            }
            () = self.away_for_long() => {
                return Err(Error::Unreachable("lost the server during the copy".to_owned()).into());
            }
            () = self.given_up() => return Err(NotFed.into()),
        }
        kept.copied();
        tracing::info!(replica = name, database = self.database.name(), "the database is copied");
        Ok(())
    }

    /// Completes when the replica's server has been away long enough to give up a copy to it: the primary's
    /// tables are locked for the copy. A very busy server may not answer for a while.
    async fn away_for_long(&self) {
        loop {
            self.cluster.standby_lost(self.id).await;
            let back = async {
                let mut more = self.cluster.feeds().more();
                while !self.cluster.is_watched(self.id) {
                    more.await;
                    more = self.cluster.feeds().more();
                }
            };
            if tokio::time::timeout(COPY_PATIENCE, back).await.is_err() {
                return;
            }
        }
    }

    /// Completes when commits are not kept for the replica any more. A copy would be useless then, and might
    /// even wait for an order that no replica takes boundaries from.
    async fn given_up(&self) {
        loop {
            let more = self.cluster.feeds().more();
            if !self.cluster.feeds().takes(self.of, self.id) {
                return;
            }
            more.await;
        }
    }

    /// Position from which a copy that begins now can be fed.
    async fn resume(&self) -> history::Lsn {
        loop {
            let moved = self.cluster.next_move();
            let resume = self.cluster.scheduler().order().resume(self.of);
            if let Some(resume) = resume {
                return resume;
            }
            moved.await;
        }
    }

    /// Feeds the replica for as long as it goes well, and until it executes transactions on its own.
    async fn feed(&self) -> Result<TakesPart, Stop> {
        self.demand_equal().await?;
        extensions::joins_database(self.cluster, self.database, self.id).await?;
        clone::guard(&self.replica).await?;
        let intake = self.cluster.setup().design.intake;
        let connections = if intake.is_one_by_one() { 1 } else { self.cluster.setup().apply_connections };
        let mut feeder = Feeder::open(&self.replica, FIRST_EPOCH).await?.on_connections(connections);
        feeder.end_others().await?;
        let (key, life) = ((self.of, self.id), feeder.sighting().incarnation);
        let feeds = self.cluster.feeds();
        feeds.connected(self.of, self.id)?;
        if let Some(tables) = clone::held(&self.replica).await? {
            self.cluster.scheduler().fed_holds(self.id, self.of, tables);
        }
        feeds.shown(key, (life, feeder.shown().resume()), None);
        feeds.set_stage(self.of, self.id, Stage::Feeding);
        self.fed_since.set(Some(Instant::now()));
        let (at, counted) = (feeder.shown().clone(), apply::Counts::default());
        let (sent, work) = (VecDeque::new(), Work::default());
        let told = Told::nothing(self.database.sequences());
        let mut line = Line { at, by: self, feeder, life, counted, sent, work, told, unequal: None };
        if feeds.owners_differ(self.of, self.id) {
            line.step().await?;
        }
        line.reach().await?;
        let together = !intake.is_one_by_one();
        let most = if together { STRETCH_BYTES } else { 0 };
        let (mut joins_at, mut tries) = (Instant::now(), 0);
        loop {
            let (more, moved) = (feeds.more(), self.cluster.next_move());
            self.heed()?;
            if feeds.wanted(self.of, self.id) != Wanted::Nothing {
                line.rest().await?;
                continue;
            }
            line.step_again().await?;
            line.tell_sequences().await?;
            match feeds.next(self.of, self.id, most)? {
                Some(stretch) => line.give(&stretch).await?,
                None if line.sent.is_empty() && line.unequal.is_some() => tokio::select! {
                    () = more => {}
                    () = moved => {}
                },
                None if line.sent.is_empty() && self.cluster.orders_first() => {
                    if Instant::now() >= joins_at {
                        if let Some(takes_part) = line.joins(tries).await? {
                            return Ok(takes_part);
                        }
                        joins_at = Instant::now()
                            + execution_mode::rest_behind(tries, self.cluster.setup().replica_wait_timeout);
                        tries += 1;
                    }
                    line.work.pause();
                    let _ = tokio::time::timeout_at(joins_at, more).await;
                }
                None if line.sent.is_empty() => {
                    line.work.pause();
                    more.await;
                }
                None => line.finish().await?,
            }
        }
    }

    /// Returns an error unless the copy answers as the primary's database would.
    async fn demand_equal(&self) -> Result<(), Error> {
        let primary = facts::facts(&Control::connect(&self.primary).await?).await?;
        let replica = facts::facts(&Control::connect(&self.replica).await?).await?;
        let differences = facts::differences_of_copy(&primary, &replica, self.database.name());
        if differences.is_empty() { Ok(()) } else { Err(Error::Setup(differences.join("; "))) }
    }

    /// Waits until an operator requests a rebuild of the failed database, or has dropped it there.
    async fn until_wanted_anew(&self) {
        let (cluster, id) = (self.cluster, self.id);
        let failed =
            || cluster.is_here(id) && cluster.has(self.database) && cluster.feeds().has_failed(self.of, id);
        while !cluster.stopping() && failed() {
            let told = cluster.replica_told(id);
            let was_told = tokio::time::timeout(LONGEST_PAUSE, told).await.is_ok();
            if !was_told && let Ok(Found::Nothing) = clone::found(&self.replica).await {
                return;
            }
        }
    }
}

/// Maximum wait of a locking refresh for readers: the waiters for its boundaries have the same time again.
fn refresh_limit(cluster: &Cluster) -> Duration {
    cluster.setup().replica_wait_timeout / 2
}

/// Commits kept for a copy in progress. An interrupted copy leaves neither rows here nor WAL at the primary.
struct Kept<'a> {
    by: &'a Feeding<'a>,
    is_whole: bool,
}

impl Kept<'_> {
    fn begin<'a>(by: &'a Feeding<'a>) -> Kept<'a> {
        by.cluster.fed_takes(by.id, by.of);
        Kept { by, is_whole: false }
    }

    /// Notes that the copy is made.
    fn copied(mut self) {
        self.is_whole = true;
        self.by.cluster.copied(self.by.id, self.by.of);
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let Feeding { cluster, database, id, of, .. } = *self.by;
        if !self.is_whole && cluster.has(database) && cluster.is_here(id) {
            cluster.fed_leaves(id, of);
        }
    }
}

/// A connection to the replica, and the transactions in progress on it.
struct Line<'a> {
    by: &'a Feeding<'a>,
    feeder: Feeder,
    life: Incarnation,
    /// Counts of its work that were already reported.
    counted: apply::Counts,
    /// State that the replica shows when all sent transactions are visible.
    at: Shown,
    sent: VecDeque<Sent>,
    /// Pace of large steps.
    work: Work,
    /// Positions of its sequences.
    told: Told,
    unequal: Option<Unequal>,
}

/// Boundaries that were sent in one transaction.
struct Sent {
    to: Shown,
    last: Rc<Boundary>,
    end: Place,
    /// Bytes of their rows.
    bytes: u64,
}

impl Line<'_> {
    /// Sends several whole boundaries in one transaction. If a refresh locks, they are visible then.
    async fn give(&mut self, stretch: &Stretch) -> Result<(), Stop> {
        let parts = self.lacked(stretch).await?;
        let locked = self.lock(&parts).await;
        self.send(stretch, parts).await?;
        if locked.is_some() {
            self.finish().await?;
        }
        Ok(())
    }

    /// For a refresh that locks: waits for readers, and holds up new ones. An empty one needs no lock.
    async fn lock(&self, parts: &[Part]) -> Option<Refresh<Cluster>> {
        let Feeding { cluster, id, of, .. } = *self.by;
        if parts.is_empty() || !cluster.setup().design.intake.locks() {
            return None;
        }
        let began = Instant::now();
        let (locked, let_go) = transaction::refresh(cluster, (id, of), refresh_limit(cluster)).await;
        cluster.metrics().refresh_wait.took(began.elapsed());
        cluster.feeds().waited_for_readers(of, id, began.elapsed(), let_go as u64);
        if let_go > 0 {
            let replica = cluster.standby(id);
            tracing::info!(
                replica = replica.name,
                database = self.by.database.name(),
                readers = let_go,
                "released readers that delayed the replica for too long"
            );
        }
        Some(locked)
    }

    async fn send(&mut self, stretch: &Stretch, parts: Vec<Part>) -> Result<(), Stop> {
        let to = stretch.boundaries.iter().fold(self.at.clone(), |at, boundary| boundary.after(&at));
        self.feeder.send(Batch { parts, to: to.clone() }).await?;
        self.at = to.clone();
        let bytes = stretch.bytes;
        self.sent.push_back(Sent { to, last: stretch.last().clone(), end: stretch.end, bytes });
        let shown = self.feeder.shown();
        let visible = self.sent.iter().rposition(|sent| sent.to == *shown);
        self.visible(visible.map_or(0, |place| place + 1));
        Ok(())
    }

    /// Returns the parts of these boundaries that the replica lacks, once it may receive them.
    async fn lacked(&mut self, stretch: &Stretch) -> Result<Vec<Part>, Stop> {
        if !stretch.last().feeds(&self.at) {
            return Err(Stop::Anew("the replica lacks commits that its slot no longer provides".to_owned()));
        }
        let (parts, marked) = self.parts(stretch)?;
        if marked {
            // A read that sees the mark runs under the primary's roles.
            self.finish().await?;
            self.step().await?;
        }
        Ok(parts)
    }

    /// Comes to rest, moves to the state that a comparison wants, and stays until the comparison is done.
    async fn rest(&mut self) -> Result<(), Stop> {
        self.finish().await?;
        let Feeding { cluster, id, of, .. } = *self.by;
        let feeds = cluster.feeds();
        loop {
            let more = feeds.more();
            match feeds.wanted(of, id) {
                Wanted::Nothing => return Ok(()),
                Wanted::Rest => feeds.stands(of, id, Stands::Still),
                Wanted::At(state) => match feeds.next(of, id, 0)? {
                    None => {}
                    Some(stretch) if stretch.last().gauge.snapshot.covers(&state) => {
                        return self.rest_at(&stretch, state).await;
                    }
                    Some(stretch) => {
                        self.give(&stretch).await?;
                        self.finish().await?;
                        continue;
                    }
                },
            }
            self.work.pause();
            more.await;
        }
    }

    /// Applies the part of these boundaries that the state sees, where the state sees all earlier boundaries.
    /// Applies the rest when the comparison is done.
    async fn rest_at(&mut self, stretch: &Stretch, state: Snapshot) -> Result<(), Stop> {
        let mut parts = self.lacked(stretch).await?;
        let decoded = stretch.last().decoded;
        let to = Shown::new(state, decoded, self.at.resume().min(decoded));
        parts.retain(|part| part.is_in(&to));
        let parts: Vec<Part> = parts.into_iter().map(Part::into_rows).collect();
        let locked = self.lock(&parts).await;
        self.feeder.apply(Batch { parts, to }).await?;
        self.at = self.feeder.shown().clone();
        drop(locked);
        let Feeding { cluster, id, of, .. } = *self.by;
        cluster.feeds().stands(of, id, Stands::There);
        loop {
            let more = cluster.feeds().more();
            if cluster.feeds().wanted(of, id) == Wanted::Nothing {
                self.work.pause();
                return self.give(stretch).await;
            }
            more.await;
        }
    }

    /// Returns the parts of these boundaries that the replica lacks, and true if they mark a change without
    /// an event trigger. A statement may be executed only on a state that shows every lower version, and no
    /// higher one.
    fn parts(&mut self, stretch: &Stretch) -> Result<(Vec<Part>, bool), Stop> {
        let (mut parts, mut marked) = (Vec::new(), false);
        let in_order = stretch.boundaries.iter().all(|boundary| boundary.is_missing_whole(&self.at));
        for commit in stretch.boundaries.iter().flat_map(|boundary| boundary.missing(&self.at)) {
            let Some(rows) = self.by.cluster.feeds().rows(self.by.of, commit.end) else {
                return Err(Stop::Anew(
                    "the replica lacks a commit whose rows are no longer kept".to_owned(),
                ));
            };
            let ran_ddl = rows.ddl && rows.part.ran_ddl()?;
            marked |= rows.ddl && !ran_ddl;
            if ran_ddl || rows.part.restarts_sequences() {
                self.told.forget(stretch.end);
            }
            parts.push(if in_order { rows.part } else { rows.part.into_rows() });
        }
        Ok((parts, marked))
    }

    /// Waits until all sent transactions are visible.
    async fn finish(&mut self) -> Result<(), Stop> {
        self.feeder.finish().await?;
        self.visible(self.sent.len());
        Ok(())
    }

    /// Notes that the first `count` of the sent transactions are visible.
    fn visible(&mut self, count: usize) {
        let visible: u64 = self.sent.iter().take(count).map(|sent| sent.bytes).sum();
        let Some(Sent { to, last, end, .. }) = self.sent.drain(..count).next_back() else { return };
        let Feeding { cluster, id, of, .. } = *self.by;
        if visible >= BULK_BYTES || cluster.setup().design.intake.is_one_by_one() {
            self.work.done(visible, cluster.now());
            cluster.feeds().takes_in((of, id), self.work.per_second());
        } else {
            self.work.pause();
        }
        self.shows(last);
        cluster.feeds().shown((of, id), (self.life, to.resume()), Some(end));
        let counts = self.feeder.counts();
        cluster.feeds().stepped((of, id), counts - self.counted);
        self.counted = counts;
        cluster.moved();
    }
}
