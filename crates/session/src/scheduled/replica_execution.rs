//! Execution at replicas: a session borrows connections as its client's role, has them execute the primary's
//! requests, and compares the results. A replica that fails, or returns another result, is taken out; the
//! client does not notice.

use super::execution_log::Part;
use super::statement_tables::Use;
use super::{Open, Session};
use crate::primary::{Ended, Seen};
use backend::service::{Lends, Service};
use backend::standby::pool;
use backend::standby::{Failed, Form};
use cluster::routes::Went;
use cluster::scheduled::{Copy, Did, PRIMARY, Scheduled, Work};
use cluster::{Cluster, Database};
use conn::log_in::Wish;
use conn::peer::Rooms;
use conn::socket::Place;
use history::{ColumnSet, Incarnation, Lsn, RelationId};
use scheduler::{Kind, Proof, StandbyId};
use session_state::instant::Instant;
use session_state::{Interner, Settings};
use statement_analysis::Catalog;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use transaction::{Delivered, Session as _};

/// Command that begins a transaction at a replica. No transaction waits there for another, long statements
/// must be executed all the same, and writing is intended (`replica_apply::clone::guard`).
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = 0; \
    SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
/// Time limit for opening a connection.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// Proof of a read at a locked replica, as metrics and logs name it.
const LOCKED: &str = "locked";

/// Columns that replicas hold differently, or not at all, by table.
pub(super) type LeftOut = BTreeMap<RelationId, ColumnSet>;

pub(super) fn left_out(catalog: &Catalog) -> LeftOut {
    let otherwise = catalog.relations.iter().filter(|(_, relation)| relation.unlike != ColumnSet::NONE);
    otherwise.map(|(id, relation)| (*id, relation.unlike)).collect()
}

/// Results of the work given to replicas.
pub(super) type Done = Vec<(StandbyId, Result<Did, String>)>;

/// Waits until all replicas have done their work, in the order of `copies`.
pub(super) async fn finish(cluster: &Cluster, copies: &mut [Copy], works: &[Work]) -> Done {
    let mut done = Vec::new();
    for (copy, work) in copies.iter_mut().zip(works) {
        let replica = copy.replica;
        let did = tokio::select! {
            did = copy.finish(work) => did,
            () = cluster.standby_lost(replica) => Err("its server is unreachable".to_owned()),
        };
        done.push((replica, did));
    }
    done
}

/// A command that ends the transaction, as work for a replica.
pub(super) fn command(text: &str) -> Work {
    let mut work = Work::default();
    work.query(text.as_bytes());
    work
}

/// Runs a command at all replicas.
async fn all(cluster: &Cluster, copies: &mut [Copy], text: &str) -> Done {
    let works = vec![command(text); copies.len()];
    for copy in copies.iter_mut() {
        copy.begin(&works[0]);
    }
    finish(cluster, copies, &works).await
}

/// Checks that a replica has committed.
///
/// # Errors
/// The reason why it has not.
pub(super) fn committed(did: Did) -> Result<(), String> {
    match did.error {
        None if did.tags.iter().any(|tag| **tag == *b"COMMIT") => Ok(()),
        None => Err("rolled back a transaction that the primary committed".to_owned()),
        Some((sqlstate, why)) => Err(format!("its COMMIT failed: {sqlstate} {why}")),
    }
}

/// The surroundings in which a session has replicas execute requests.
pub(super) struct Ground {
    pub(super) service: Rc<Service>,
    pub(super) scheduled: Rc<Scheduled>,
    database: Rc<Database>,
    /// Connection parameters of the client at the replicas.
    pub(super) wish: Wish,
    rooms: Rooms,
}

impl Ground {
    /// Borrows a connection at a replica, as the client's role.
    pub(super) async fn borrow(&self, replica: StandbyId, life: Incarnation) -> Result<Copy, String> {
        if let Some(copy) = self.scheduled.lend(replica, &self.wish.user) {
            return Ok(copy);
        }
        let cluster = &self.service.cluster;
        let place = Place::from(&cluster.standby(replica).address);
        let wish = Wish { place, parameters: Vec::new(), limit: OPEN_LIMIT, ..self.wish.clone() };
        tokio::select! {
            opened = Copy::open(&wish, &self.rooms, (replica, life), &self.service.interner) => opened,
            () = cluster.standby_lost(replica) => Err("its server is unreachable".to_owned()),
        }
    }

    /// Takes the replica out.
    pub(super) fn lose(&self, replica: StandbyId, why: String) {
        let node = self.service.cluster.standby(replica);
        tracing::warn!(
            replica = node.name,
            database = self.database.name(),
            why,
            "replica taken out of execution"
        );
        self.service.cluster.metrics().replicas_taken_out.one();
        self.scheduled.take_out(replica, why);
    }
}

/// The work of a replica: the session's settings, BEGIN, and the statements.
pub(super) async fn work_for(
    copy: &mut Copy,
    (wanted, uses, instant): (&Settings, &[Use], Option<&Instant>),
    begins: bool,
    interner: &RefCell<Interner>,
) -> Result<Work, String> {
    if copy.settings.is_none() {
        copy.ask_settings(interner).await?;
    }
    let mut work = Work::default();
    if let Some(becomes) = copy.settings.as_ref().and_then(|settings| settings.to_become(wanted)) {
        work.command(&becomes);
        copy.has_set |= !begins;
    }
    copy.settings = Some(wanted.clone());
    if begins {
        work.command(BEGIN);
    }
    for used in uses.iter().filter(|used| used.is_everywhere()) {
        used.give(&mut work, instant).ok_or("unsupported expression of the current time")?;
    }
    Ok(work)
}

impl Session {
    pub(super) fn ground(&self) -> Ground {
        Ground {
            service: self.service.clone(),
            scheduled: self.scheduled(),
            database: self.database.clone(),
            wish: self.who.wish.clone(),
            rooms: self.line.registry.rooms.clone(),
        }
    }

    /// Gives the statements to all replicas that take part, and begins the transaction where it has not
    /// begun. Returns the work of each.
    pub(super) async fn begin_at_copies(&mut self, uses: &[Use], open: &mut Open) -> Vec<Work> {
        if open.writes.is_some() || open.only_reads || !uses.iter().any(Use::is_everywhere) {
            // Replicas follow on their own, or the statements do not concern them.
            return Vec::new();
        }
        let (scheduled, ground) = (self.scheduled(), self.ground());
        let taking_part: Vec<(StandbyId, Incarnation)> = scheduled.members();
        let mut begins = Vec::new();
        for (replica, life) in taking_part {
            if open.copies.iter().any(|copy| copy.replica == replica) {
                continue;
            }
            match ground.borrow(replica, life).await {
                Ok(copy) => {
                    begins.push(replica);
                    open.copies.push(copy);
                }
                Err(why) => scheduled.take_out(replica, why),
            }
        }
        // While connections were opened, a replica may have left.
        open.copies.retain(|copy| scheduled.life(copy.replica) == Some(copy.life));
        let mut works = Vec::new();
        let mut odd = Vec::new();
        for copy in &mut open.copies {
            let begins = begins.contains(&copy.replica);
            let given = (self.state.settings(), uses, open.instant.as_ref());
            match work_for(copy, given, begins, &self.service.interner).await {
                Ok(work) => {
                    copy.begin(&work);
                    works.push(work);
                }
                Err(why) => odd.push((copy.replica, why)),
            }
        }
        for (replica, why) in odd {
            open.copies.retain(|copy| copy.replica != replica);
            scheduled.take_out(replica, why);
        }
        works
    }

    /// Takes out the replicas whose result differs from the primary's.
    pub(super) fn compare_copies(&self, uses: &[Use], seen: &Seen, done: Done, open: &mut Open) {
        if let Some(writes) = open.writes.as_mut().filter(|_| uses.iter().any(Use::is_everywhere)) {
            writes.next = Some(Part {
                uses: uses.to_vec(),
                settings: self.state.settings().clone(),
                instant: open.instant.clone(),
                tags: seen.tags.clone(),
                failed: seen.failed,
                complaint: seen.complaint.clone(),
            });
        }
        for (replica, did) in done {
            let answered = (&seen.tags[..], seen.failed, seen.complaint.as_ref());
            if let Err(why) = did.and_then(|did| same(uses, answered, &did)) {
                self.lose_copy(open, replica, why);
            }
        }
    }

    fn lose_copy(&self, open: &mut Open, replica: StandbyId, why: String) {
        open.copies.retain(|copy| copy.replica != replica);
        self.ground().lose(replica, why);
    }

    /// Takes out all replicas that have executed a transaction whose outcome is unknown.
    pub(super) fn take_out_all(&self, mut open: Open, why: &str) {
        self.lose_all(&mut open, why);
    }

    /// Takes out all replicas of a transaction that goes on, or is dropped.
    pub(super) fn lose_all(&self, open: &mut Open, why: &str) {
        if open.writes.is_some() {
            return self.take_out_all_members(why);
        }
        for replica in open.copies.iter().map(|copy| copy.replica).collect::<Vec<_>>() {
            self.lose_copy(open, replica, why.to_owned());
        }
    }

    /// Commits at the replicas, after the primary. After DDL the session waits for the new catalog before the
    /// locks are released.
    pub(super) async fn commit_copies(&mut self, mut open: Open) {
        if open.transaction.end(true).is_err() {
            return self.take_out_all(open, "the scheduler does not know the commit");
        }
        let done = all(&self.service.cluster, &mut open.copies, "COMMIT").await;
        for (replica, did) in done {
            if let Err(why) = did.and_then(committed) {
                self.lose_copy(&mut open, replica, why);
            }
        }
        if open.makes {
            if !self.catalog_comes().await {
                self.take_out_all_members("the catalog was not read in time after DDL");
            } else if !self.still_left_out(open.left_out.as_ref()) {
                self.take_out_all_members("tables that replicas hold differently can be read from now on");
            }
        }
        self.end_at_copies(open);
    }

    /// True if replicas still hold differently only what they held differently before the DDL.
    fn still_left_out(&self, before: Option<&LeftOut>) -> bool {
        let (Some(before), Some(loaded)) = (before, self.database.loaded()) else { return false };
        let is_so = |(id, columns): (&RelationId, &ColumnSet)| {
            let now = loaded.catalog.relations.get(id);
            now.is_none_or(|relation| relation.unlike == ColumnSet::All || relation.unlike == *columns)
        };
        before.iter().all(is_so)
    }

    fn take_out_all_members(&self, why: &str) {
        let ground = self.ground();
        for (replica, _) in ground.scheduled.members() {
            ground.lose(replica, why.to_owned());
        }
    }

    /// Rolls back at the replicas, after the primary.
    pub(super) async fn roll_back_copies(&mut self, mut open: Open) {
        if open.transaction.end(false).is_err() {
            // The connections are closed: no part of it is committed there.
            return;
        }
        let done = all(&self.service.cluster, &mut open.copies, "ROLLBACK").await;
        for (replica, did) in done {
            if let Err(why) = did {
                self.lose_copy(&mut open, replica, why);
            }
        }
        for copy in &mut open.copies {
            copy.settings = copy.settings.take().filter(|_| !copy.has_set);
        }
        self.end_at_copies(open);
    }

    /// Ends the transaction at all replicas.
    fn end_at_copies(&self, Open { transaction, copies, .. }: Open) {
        transaction.done(copies.iter().map(|copy| copy.replica).chain([PRIMARY]));
        for mut copy in copies {
            copy.has_set = false;
            self.scheduled().give_back(copy, &self.who.wish.user);
        }
    }

    /// Runs a read outside a block at a replica. `false`: the client has received no part of an answer, and
    /// the read is to be run elsewhere.
    pub(super) async fn read_at_copy(&mut self, replica: StandbyId) -> Result<bool, Ended> {
        let Some(life) = self.scheduled().life(replica) else { return Ok(false) };
        let (service, rooms) = (self.service.clone(), self.line.registry.rooms.clone());
        let shelf = self.shelf(replica);
        let from = Lends { standby: replica, kind: Kind::Fed, life, catalog: Lsn::ZERO, replayed: Lsn::ZERO };
        let Ok(mut lent) = service.lend_from(from, &shelf, &self.who.wish, &rooms).await else {
            return Ok(false);
        };
        if self.line.seat.running.is_cancelled() {
            pool::give_back(lent);
            return Ok(false);
        }
        lent.for_block(false);
        self.current.there.ran_at = Some((replica, life, Proof::Session));
        self.current.is_read = true;
        if !self.ask(&mut lent, Form::Plain) {
            return Ok(false);
        }
        let Some(answered) = self.answered((replica, life), lent).await else {
            // No client waits for the answer, if it has disconnected: the read runs nowhere else.
            return self.ended.take().map_or(Ok(false), Err);
        };
        let answer = match answered {
            Ok(answer) => answer,
            Err(Failed::Refused(standby, _)) => {
                self.give_back(standby);
                return Ok(false);
            }
            Err(_) => return Ok(false),
        };
        if let Delivered::Whole = self.deliver(answer).await {
            self.service.cluster.scheduler().answered(replica);
            self.went(Went::Standby(replica, LOCKED));
        }
        Ok(true)
    }
}

/// The primary's result: tags of the completed commands, failure, and the error's SQLSTATE and message.
pub(super) type Answered<'a> = (&'a [Box<[u8]>], bool, Option<&'a (String, String)>);

/// Checks that a replica's result is the primary's.
///
/// # Errors
/// The difference.
pub(super) fn same(uses: &[Use], (tags, failed, complaint): Answered<'_>, did: &Did) -> Result<(), String> {
    let moves_sequences = uses.iter().any(|used| used.moves_sequences);
    match (&did.error, failed) {
        // The statement is rolled back at both. Sequences are not.
        (None, true) if moves_sequences => {
            Err("a statement that advances a sequence failed at the primary only".to_owned())
        }
        // The replica lacks some checks, and fails for another reason, if at all, at another row: with its
        // sequences elsewhere.
        (Some(error), true) if moves_sequences && complaint != Some(error) => {
            let (sqlstate, why) = error;
            Err(format!(
                "a statement that advances a sequence failed with another error than at the primary: \
                 {sqlstate} {why}"
            ))
        }
        (_, true) => Ok(()),
        (Some((sqlstate, why)), false) => {
            Err(format!("a statement failed at the replica, but not at the primary: {sqlstate} {why}"))
        }
        (None, false) => {
            let mine = uses.iter().zip(tags).filter(|(used, _)| used.is_everywhere());
            let mine = mine.map(|(_, tag)| tag);
            if tags.len() != uses.len() || mine.eq(&did.tags) {
                return Ok(());
            }
            let text = |tags: &[Box<[u8]>]| {
                let texts = tags.iter().map(|tag| String::from_utf8_lossy(tag).into_owned());
                texts.collect::<Vec<_>>().join(", ")
            };
            Err(format!("the replica answered {} where the primary answered {}", text(&did.tags), text(tags)))
        }
    }
}
