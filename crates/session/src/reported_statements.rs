//! Reports of statements to the cluster, for designs that replicate statements: the statements that a
//! transaction ran.
//!
//! The rows of a commit come out of the slot under its transaction number. So the session queries that number
//! after the statement and before the COMMIT, all in one round trip:
//!
//! ```text
//! BEGIN, snapshot?, the statement, number?, COMMIT      one trip, for a statement outside a block
//! BEGIN of the client, .., snapshot?, the first statement that writes, .., number?, COMMIT of the client
//! ```
//!
//! The statement sees at least the snapshot before it: no other transaction may commit in the tables that it
//! touches between the two. The number comes before the COMMIT is carried out, so that the cluster knows the
//! transaction's statements before its commit is visible. If the report comes too late, the rows are
//! replicated.

use super::Session;
use super::consort_settings::cancelled;
use super::mode::Commits;
use super::primary::{Ended, Seen};
use super::relay::SEEN;
use crate::commit_turns::Way;
use backend::batch;
use backend::request::{Kind, Request};
use backend::standby::may_be_bound;
use cluster::plan::{Again, Writing};
use cluster::{Cluster, Told};
use history::{DatabaseId, Footprint, LoadTime, Snapshot, Version, Xid};
use order::RunNumber;
use replica_apply::apply::{Rerun, Under};
use scheduler::Reason;
use session_state::Settings;
use session_state::utility::Utility;
use statement_analysis::cache::SettingsId;
use std::sync::Arc;
use transaction::AtPrimary;

/// Maximum number of statements of a reported block; a block with more is replicated as rows.
const MAX_STATEMENTS: usize = 64;
/// Maximum length of the reported statements, in bytes; a longer transaction is replicated as rows.
const MAX_BYTES: u64 = 64 * 1024;

/// The statements of a transaction so far that may have written, as long as all of them may be executed
/// again.
#[derive(Debug)]
pub(super) struct Telling {
    started: Version,
    run: RunNumber,
    /// Snapshot from before its first statement.
    saw: Option<Snapshot>,
    touched: Footprint,
    reruns: Vec<Rerun>,
    bytes: u64,
}

/// Settings as SQL, made once.
pub(super) type Before = Option<(SettingsId, Option<Arc<Under>>)>;

impl Telling {
    /// Begins a report; `None`: the cluster needs none.
    fn begin(cluster: &Cluster, of: DatabaseId) -> Option<Telling> {
        let (run, started) = cluster.started(of)?;
        Some(Telling { started, run, saw: None, touched: Footprint::NOTHING, reruns: Vec::new(), bytes: 0 })
    }

    /// Adds a statement that has run, and has written so many rows.
    ///
    /// # Errors
    /// The reason why the transaction cannot be reported any more.
    fn add(&mut self, touched: &Footprint, rerun: Rerun, rows: u64) -> Result<(), &'static str> {
        self.touched.union(touched);
        self.bytes += rerun.bytes();
        if rows > 0 {
            self.reruns.push(Rerun { rows, ..rerun });
        }
        // With several statements, the triggers' effects cannot be assigned to one of them.
        if self.reruns.len() > 1 && self.reruns.iter().any(|rerun| rerun.fires.is_some()) {
            return Err("fires_beside_others");
        }
        let fits = self.reruns.len() <= MAX_STATEMENTS && self.bytes <= MAX_BYTES;
        if fits { Ok(()) } else { Err("too_long") }
    }

    fn rows(&self) -> u64 {
        self.reruns.iter().map(|rerun| rerun.rows).sum()
    }

    fn told(self) -> Option<Told> {
        let Telling { started, run, saw, touched, reruns, .. } = self;
        Some(Told { started, run, saw: saw?, touched, reruns: reruns.into() })
    }
}

/// The primary's answer to the query for a snapshot.
fn snapshot(text: &str) -> Option<Snapshot> {
    text.parse().ok()
}

/// The settings and the user under which a session writes, as SQL; `None`: other servers cannot have them.
fn under(settings: &Settings, application: Option<&str>) -> Option<Arc<Under>> {
    let author = settings.get("session_authorization")?;
    let role = settings.get("role").filter(|role| *role != "none");
    let name = application.map(|name| ("application_name", name));
    Some(Arc::new(Under::new(settings.written_under()?.into_iter().chain(name), author, role)))
}

/// The transaction's number, and the time when its backend had read the configuration.
fn which(said: &str) -> Option<(Xid, LoadTime)> {
    let (xid, loaded) = said.split_once(' ')?;
    let loaded = u64::from_str_radix(loaded, 16).ok()?.cast_signed();
    Some((Xid::new(xid.parse().ok()?), LoadTime::new(loaded)))
}

impl Session {
    /// Begins the report of a block.
    pub(super) fn block_is_told(&mut self) {
        let Commits::ReportStatements(_) = self.mode.commits else { return };
        let database = self.database.id();
        let telling = database.and_then(|of| Telling::begin(&self.service.cluster, of));
        self.txn.begins().telling = telling;
    }

    /// Ends the report of a block with a statement that cannot be reported.
    pub(super) fn told_no_more(&mut self, why: &'static str) {
        if self.txn.takes_telling().is_some() {
            self.service.cluster.metrics().statements_not_told.one(why);
        }
    }

    /// Reports a statement outside a block: it runs in Consort's own block.
    pub(super) fn tells(&mut self, writing: &Writing) {
        let Commits::ReportStatements(_) = self.mode.commits else { return };
        let cluster = self.service.cluster.clone();
        let Some(telling) = self.database.id().and_then(|of| Telling::begin(&cluster, of)) else { return };
        let few = |again: &&Again| again.most_rows.is_some_and(|most| most < cluster.setup().statement_rows);
        let rerun = match &writing.again {
            Ok(again) if few(&again) => Err("few_rows"),
            _ => self.rerun_of(writing),
        };
        match rerun {
            Ok(rerun) => {
                self.txn.begins().telling = Some(telling);
                self.current.commits.rerun = Some(rerun);
                self.current.commits.way = Way::Told;
            }
            Err(why) => cluster.metrics().statements_not_told.one(why),
        }
    }

    /// The current statement, to be executed again, and the tables that it touches; or the reason why not.
    pub(super) fn rerun_of(&mut self, writing: &Writing) -> Result<(Footprint, Rerun), &'static str> {
        let again = writing.again.as_ref().map_err(|why| *why)?;
        if writing.catalog != self.database.version() {
            return Err("catalog_changed");
        }
        if !self.state.knows_names() || !self.state.text_is_plain("\u{e9}".as_bytes()) {
            return Err("session");
        }
        let beside = self.line.lent.as_ref().is_some_and(|lent| lent.application_settings);
        if again.fires.is_some() && (beside || self.state.may_have_application_settings()) {
            return Err("application_settings");
        }
        // A trigger may read it.
        if again.fires.is_some() && !self.state.isolation().is_read_committed() {
            return Err("isolation");
        }
        let touches: Arc<[_]> =
            again.touched.tables().ok_or("touches_all")?.map(|(table, _)| table).collect();
        let under = if again.fires.is_some() { self.under_with_name() } else { self.under() };
        let under = under.ok_or("session")?;
        let request = self.current.request.ok_or("no_request")?;
        let mut rerun = Rerun {
            text: self.words.text.as_str().into(),
            types: Arc::default(),
            formats: Vec::new(),
            parameters: Vec::new(),
            under,
            writes: again.writes,
            touches,
            fires: again.fires.clone(),
            rows: 0,
        };
        if request.kind == Kind::Batch {
            self.bind(request, again, &mut rerun)?;
        }
        if rerun.bytes() > MAX_BYTES {
            return Err("too_long");
        }
        Ok((again.touched.clone(), rerun))
    }

    /// Adds the parameters of a batch.
    fn bind(&self, request: Request, again: &Again, rerun: &mut Rerun) -> Result<(), &'static str> {
        let statement = self.current.statement.as_ref().ok_or("no_statement")?;
        let batch = batch::read(self.line.bytes(request), self.line.client.splitter);
        let Ok(Some(batch)) = batch else { return Err("no_statement") };
        if !may_be_bound(&again.template, &statement.types, &batch.bind) {
            return Err("parameter_types");
        }
        let oid = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        rerun.types = statement.types.chunks_exact(4).map(oid).collect();
        for (binary, value) in batch.bind.parameters() {
            rerun.formats.push(i16::from(binary));
            rerun.parameters.push(value.map(<[u8]>::to_vec));
        }
        Ok(())
    }

    fn under(&mut self) -> Option<Arc<Under>> {
        let settings = self.state.settings();
        let Commits::ReportStatements(before) = &mut self.mode.commits else { return None };
        match before {
            Some((id, under)) if *id == settings.id() => under.clone(),
            before => {
                let under = under(settings, None);
                *before = Some((settings.id(), under.clone()));
                under
            }
        }
    }

    /// The settings and the user with the application name, which triggers often read.
    fn under_with_name(&self) -> Option<Arc<Under>> {
        let name = self.line.reported().get("application_name")?;
        under(self.state.settings(), Some(std::str::from_utf8(name).ok()?))
    }

    /// Handles a statement without a query tree. After a statement whose triggers may be deferred to the
    /// COMMIT, it could change the settings under which they run.
    pub(super) fn told_beside(&mut self, utility: &Utility) {
        let fires = |telling: &Telling| telling.reruns.iter().any(|rerun| rerun.fires.is_some());
        let ends = matches!(utility, Utility::Commit { .. } | Utility::Rollback { .. } | Utility::Show(_));
        if matches!(utility, Utility::Savepoint(_) | Utility::RollbackTo(_)) {
            self.told_no_more("savepoint");
        } else if matches!(utility, Utility::SetTransaction(modes) if modes.snapshot) {
            // The guard counts the state shown at the begin of the block as seen: this snapshot may be an
            // older one.
            self.told_no_more("imported_snapshot");
        } else if !ends && self.txn.telling().is_some_and(|telling| fires(telling)) {
            self.told_no_more("fires_beside_others");
        }
    }

    /// Queries the snapshot, in a block, before the first statement of the report.
    pub(super) fn ask_what_is_seen(&mut self) {
        if self.txn.telling().is_some_and(|telling| telling.saw.is_none()) {
            self.line.primary.answers();
            self.line.primary.ask(SEEN);
        }
    }

    /// Records, in a block, a statement that has run. `rerun` is its form from before.
    pub(super) fn ran_in_block(&mut self, rerun: Result<(Footprint, Rerun), &'static str>) {
        if self.current.said.failed {
            return self.told_no_more("failed");
        }
        match (rerun, self.current.said.rows) {
            (Ok((touched, rerun)), Some(rows)) => {
                let Some(telling) = self.txn.telling() else { return };
                telling.saw = telling.saw.take().or(self.current.said.answer.as_deref().and_then(snapshot));
                if let Err(why) = telling.add(&touched, rerun, rows) {
                    self.told_no_more(why);
                }
            }
            (Ok(_), None) => self.told_no_more("no_rows_said"),
            (Err(why), _) => self.told_no_more(why),
        }
    }

    /// Prepares the COMMIT of a block that can be reported as a whole.
    pub(super) fn commit_is_told(&mut self) {
        let Some(telling) = self.txn.telling() else { return };
        if telling.reruns.is_empty() {
            self.txn.takes_telling();
        } else if telling.rows() < self.service.cluster.setup().statement_rows {
            self.told_no_more("few_rows");
        } else {
            self.current.commits.way = Way::ToldCommit;
        }
    }

    /// Sends the client's COMMIT, with the query for the transaction's number before it.
    pub(super) async fn commit_told(&mut self, reason: Reason) -> AtPrimary {
        let Some(request) = self.current.request.take() else { return AtPrimary::Answered };
        let ran = self.line.commit_told(request).await;
        let xid = self.line.primary.answers().into_iter().next().flatten();
        let ended = self.tell_and_settle(ran, xid).await;
        self.ran_in_ours(reason, ended)
    }

    /// Runs the current statement, which is outside a block, in Consort's own block, with a report.
    pub(super) async fn run_told(&mut self) -> AtPrimary {
        let Some(request) = self.current.request.take() else { return AtPrimary::Answered };
        if self.line.seat.running.is_cancelled() {
            self.refuse(request, &cancelled());
            return AtPrimary::Answered;
        }
        let ran = self.line.run_told(request).await;
        let mut answers = self.line.primary.answers().into_iter();
        let (saw, xid) = (answers.next().flatten(), answers.next().flatten());
        if let (Some((touched, rerun)), Some(rows)) =
            (self.current.commits.rerun.take(), self.line.primary.rows())
            && let Some(telling) = self.txn.telling()
        {
            telling.saw = saw.as_deref().and_then(snapshot);
            let many = rows >= self.service.cluster.setup().statement_rows;
            let added = if many { telling.add(&touched, rerun, rows) } else { Err("few_rows") };
            if let Err(why) = added {
                self.told_no_more(why);
            }
        }
        let ended = self.tell_and_settle(ran, xid).await.map(|mut seen| {
            // If the statement failed, its client has received that error.
            let error = seen.error.take().filter(|_| !seen.failed);
            seen.failed |= error.is_some();
            self.current.commits.withheld = Some(error.unwrap_or(std::mem::take(&mut seen.withheld)));
            seen
        });
        self.ran_in_ours(self.current.reason, ended)
    }

    /// Reports to the cluster once the primary has returned the transaction's number, or all its answers, and
    /// waits for the end.
    async fn tell_and_settle(&mut self, ran: Result<(), Ended>, said: Option<String>) -> Result<Seen, Ended> {
        let (xid, loaded) = said.as_deref().and_then(which).unzip();
        // The statement may have run under other settings than the known ones.
        if loaded.is_some_and(|loaded| loaded != self.state.loaded()) {
            self.told_no_more("configuration");
        }
        let telling = self.txn.takes_telling().filter(|telling| !telling.reruns.is_empty());
        let told = match (xid, telling.and_then(Telling::told), self.database.id()) {
            (Some(xid), Some(told), Some(of)) => {
                self.service.cluster.tell(of, xid, told);
                Some((of, xid))
            }
            _ => None,
        };
        ran?;
        self.line.settled().await?;
        let seen = self.line.primary.seen();
        if let Some((of, xid)) = told.filter(|_| seen.failed || seen.error.is_some()) {
            self.service.cluster.take_back(of, xid);
        }
        Ok(seen)
    }
}
