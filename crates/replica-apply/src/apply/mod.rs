//! Writes rows that committed at the primary to a logical replica of Consort.
//!
//! ```text
//! commits of some boundaries --net effect per row--> deletes, updates, inserts of each table --one transaction--> replica
//!                             net.rs, build.rs        statement.rs, encode.rs, script.rs      (with its new position)
//! ```
//!
//! **One transaction** carries everything between two positions and the new position itself. So a replica's
//! visible state is always that of its position, also after it was killed. The first statement moves the
//! position from where this feed left it. If the position is elsewhere, another process feeds the replica, or
//! a transaction of an earlier connection of ours has committed after all: nothing is applied then.
//!
//! **One pipeline.** All statements go out without a wait; the COMMIT goes out when their answers have been
//! checked, with the next batch right after it. While the server works on one batch the next one is prepared
//! here. Large batches of a replica that lags are executed several at once, on connections of their own, and
//! become visible in order (`lanes.rs`).
//!
//! **Checked.** Each statement must touch as many rows as the stream says. If one does not, or a unique value
//! is there twice, the transaction is rolled back and made again with that table's changes one by one, in
//! their original order. Two rows that swapped a unique value pass so. A failure even then is a difference
//! between replica and primary, with a name and a key.
//!
//! **Statements** may stand for the rows of a commit (`rerun.rs`), if the source of the batch has found that
//! they may.
//!
//! **Values** travel as the texts that the primary gives under settings of its own, and are read under the
//! same. Triggers, rules and foreign keys do not fire (`session_replication_role`): their effects come in the
//! stream. Triggers that were declared ENABLE ALWAYS or ENABLE REPLICA are not declared so here
//! (`consort.tame` in `ddl.sql`).
//!
//! **DDL** runs here too, if the primary logs what that needs (`ddl.rs`, [`postgres::attach::log_commands`]).

mod answer;
mod build;
mod ddl;
mod ddl_log;
mod encode;
mod error;
mod lanes;
mod net_effect;
mod position;
mod replica_catalog;
mod rerun;
mod script;
mod sequences;
mod statement;
mod table;

pub(crate) use ddl::{install, may_pass};
pub use error::{Error, Unrun};
pub(crate) use position::prepare;
pub use position::settle;
pub use rerun::{Rerun, Under};

use answer::{Wrong, answers, may_be_tried_again};
use build::{Build, Stop, Tables, With, is_own, ran_ddl};
use history::{Commit, Epoch, Lsn, Shown, Xid};
use lanes::Lanes;
use postgres::address::Address;
use postgres::decoder::{Archive, Changes, SETTINGS};
use postgres::incarnation::Sighting;
use postgres::link::Link;
use postgres_protocol::message::backend::Message;
use script::{About, Check, Prepared, Script};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

/// A statement of the feeder waits no longer for a lock that a reader of the replica holds.
pub const LOCK_LIMIT_MS: u32 = 10_000;

/// The session of the feeder. Rows are always looked for by an index, if there is one: the planner does not know how many
/// rows an array has.
const SESSION: &str = "-c session_replication_role=replica -c synchronous_commit=off -c client_min_messages=error \
     -c track_counts=on -c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0 -c array_nulls=on \
     -c xmloption=content -c jit=off -c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
     -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c max_parallel_workers_per_gather=0";

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Statements that each connection has prepared for the borders of its transactions, by name.
const STATEMENTS: [(&str, &str); 3] = [("begin", BEGIN), ("commit", "COMMIT"), ("position", position::MOVE)];

/// One commit with its rows.
#[derive(Clone, Debug)]
pub struct Part {
    xid: Xid,
    end: Lsn,
    changes: Changes,
    /// Statements executed in place of the rows. Empty if the rows stand for themselves.
    reruns: Arc<[Rerun]>,
}

impl Part {
    /// The rows of this commit.
    pub fn new(commit: &Commit, changes: Changes) -> Part {
        Part { xid: commit.xid, end: commit.end, changes, reruns: Arc::default() }
    }

    /// True if it ran DDL. A transaction that only [marks](postgres::attach::mark) a change of roles did not.
    ///
    /// # Errors
    /// [`Error::Kept`]; [`Error::Server`] if the rows are malformed.
    pub fn ran_ddl(&self) -> Result<bool, Error> {
        ran_ddl(&self.changes)
    }

    /// True if a replica with this visible state has it.
    pub fn is_in(&self, shown: &Shown) -> bool {
        shown.shows(self.xid, self.end)
    }

    /// True if it restarts sequences: it truncates tables with RESTART IDENTITY.
    pub fn restarts_sequences(&self) -> bool {
        self.changes.restarts()
    }

    /// Its rows.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Puts the rows of these into the archive. Returns the number of bytes of them that lie in files now.
    ///
    /// # Errors
    /// As [`Archive::put`].
    pub fn put_away(parts: &mut [Part], archive: &mut Archive) -> io::Result<u64> {
        archive.put(parts.iter_mut().map(|part| &mut part.changes))
    }
}

/// A set of commits that becomes visible at the replica in one step.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The commits, in the order in which they are to be applied. Commits that the replica shows already are
    /// skipped.
    pub parts: Vec<Part>,
    /// The replica's visible state afterwards.
    pub to: Shown,
}

/// A connection that feeds one database of one replica.
///
/// Its methods must not be given up half-way, and after an error it is of no use: open another one. The batch
/// in flight has then been applied or not; the position that is read on opening decides.
///
/// Invariants: at most one batch is `in_flight`, at most one is `committing`; the transaction of the former
/// is open. While any is under way on `lanes`, none is here.
pub struct Feeder {
    link: Link,
    sighting: Sighting,
    /// The replica's visible state, as far as known.
    shown: Shown,
    /// Its COMMIT was sent and not answered.
    committing: Option<Shown>,
    /// Its statements were sent, and their answers were not looked at.
    in_flight: Option<InFlight>,
    tables: Tables,
    prepared: Prepared,
    /// Connections for batches that are executed concurrently.
    lanes: Lanes,
    /// The functions are there that DDL needs.
    knows_ddl: bool,
    /// A call began and has not ended well.
    unusable: bool,
    counts: Counts,
}

struct InFlight {
    batch: Batch,
    checks: VecDeque<Check>,
    one_by_one: BTreeSet<u32>,
}

/// Counters of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches that are visible.
    pub batches: u64,
    /// Batches that were rolled back and applied again: with the changes of a table one by one, or with no
    /// other batch alongside.
    pub again: u64,
    /// Batches whose execution began before the one in front of them was visible, on another connection.
    pub beside: u64,
    /// Statements that were executed in the place of the rows that they wrote.
    pub reruns: u64,
    /// Batches that were rolled back because a statement did something else than at the primary, and made of rows.
    pub undone: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, more: Counts) -> Counts {
        Counts {
            batches: self.batches + more.batches,
            again: self.again + more.again,
            beside: self.beside + more.beside,
            reruns: self.reruns + more.reruns,
            undone: self.undone + more.undone,
        }
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            batches: self.batches - before.batches,
            again: self.again - before.again,
            beside: self.beside - before.beside,
            reruns: self.reruns - before.reruns,
            undone: self.undone - before.undone,
        }
    }
}

impl Feeder {
    /// Connects to a replica and reads its position.
    ///
    /// # Errors
    /// [`postgres::Error::Setup`] if it has none: it was not made to be fed ([`settle`]). [`postgres::Error::Protocol`] if the
    /// server is a standby. Otherwise as every connection.
    pub async fn open(address: &Address, epoch: Epoch) -> Result<Feeder, Error> {
        let options = format!("{SETTINGS} {SESSION} {}", may_wait());
        let mut link = Link::connect_as(position::FEEDER, address, &options).await?;
        let sighting = Sighting::read(&mut link, epoch).await?;
        if sighting.in_recovery {
            return Err(Error::stream(format!("{address} is a standby, not a logical replica")));
        }
        let shown = position::read(&mut link, address).await?;
        for (name, sql) in STATEMENTS {
            link.prepare(name, sql).await?;
        }
        Ok(Feeder {
            link,
            sighting,
            shown,
            committing: None,
            in_flight: None,
            tables: Tables::default(),
            prepared: Prepared::default(),
            lanes: Lanes::new(address, epoch),
            knows_ddl: false,
            unusable: false,
            counts: Counts::default(),
        })
    }

    /// Ends other processes' feeds of this database. To be called before anything is applied.
    ///
    /// # Errors
    /// As every query.
    pub async fn end_others(&mut self) -> Result<(), Error> {
        Ok(self.link.query(position::END_OTHERS).await.map(drop)?)
    }

    /// The life of the replica that this connection belongs to.
    pub fn sighting(&self) -> &Sighting {
        &self.sighting
    }

    /// The replica's visible state, as far as it has answered.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Counters of this feed.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Applies a batch and waits until it is visible.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn apply(&mut self, batch: Batch) -> Result<(), Error> {
        self.send(batch).await?;
        self.finish().await
    }

    /// Sends a batch to the replica, and the COMMIT of the one before. Returns when it is on its way: [`Feeder::shown`]
    /// says what is visible.
    ///
    /// # Errors
    /// See [`Error`]; of this batch or of one before.
    pub async fn send(&mut self, batch: Batch) -> Result<(), Error> {
        self.begin_call()?;
        let done = self.send_batch(batch).await;
        self.end_call(done)
    }

    /// Waits until everything that was sent is visible.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn finish(&mut self) -> Result<(), Error> {
        self.begin_call()?;
        let done = self.finish_all().await;
        self.end_call(done)
    }

    /// Forgets what it knows of the replica's tables: they were changed.
    ///
    /// # Errors
    /// See [`Error`]; of a batch that was under way.
    pub async fn forget(&mut self) -> Result<(), Error> {
        self.begin_call()?;
        let done = self.forget_all().await;
        self.end_call(done)
    }

    async fn forget_all(&mut self) -> Result<(), Error> {
        self.finish_all().await?;
        self.tables.forget();
        self.forget_statements().await
    }

    fn begin_call(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.unusable, true) {
            return Err(postgres::Error::Unreachable("an earlier batch failed: reconnect".to_owned()).into());
        }
        Ok(())
    }

    fn end_call(&mut self, done: Result<(), Error>) -> Result<(), Error> {
        self.unusable = done.is_err();
        if done.is_err() {
            // The transaction that is open there holds locks.
            self.link.close();
            self.lanes.close();
        }
        done
    }

    async fn send_batch(&mut self, mut batch: Batch) -> Result<(), Error> {
        let last = self.in_flight.as_ref().map(|sent| &sent.batch.to).or(self.committing.as_ref());
        let last = last.or(self.lanes.last()).unwrap_or(&self.shown).clone();
        batch.parts.retain(|part| !last.shows(part.xid, part.end));
        if batch.parts.is_empty() && last.covers(&batch.to) {
            batch.to = last.resumed(batch.to.resume());
            if batch.to == last {
                return Ok(());
            }
        }
        // The snapshot alone does not tell: a primary that crashed may see less, of what it never flushed.
        if batch.to.resume() < last.resume() {
            return Err(Error::stream("a batch ends before the replica's position".to_owned()));
        }
        if let Some(steps) = ddl::steps(&batch)? {
            return self.apply_with_ddl(batch, steps).await;
        }
        self.learn(&batch.parts).await?;
        if self.lanes.takes(&batch) {
            let Some(alone) = self.send_beside(batch, &last).await? else { return Ok(()) };
            batch = alone;
        }
        self.finish_beside().await?;
        if self.prepared.too_many() {
            self.finish_all().await?;
            self.forget_statements().await?;
        }
        self.start(batch, &last, BTreeSet::new()).await
    }

    /// Prepares a batch, completes the one before and sends this one.
    async fn start(
        &mut self,
        batch: Batch,
        from: &Shown,
        mut one_by_one: BTreeSet<u32>,
    ) -> Result<(), Error> {
        loop {
            let (again, mark) = (self.counts.again, self.prepared.mark());
            let mut build = Build::new(&batch.parts);
            let mut script = opening(from, &batch.to)?;
            let mut next = build.next(&mut With {
                tables: &self.tables,
                one_by_one: &one_by_one,
                script: &mut script,
                prepared: &mut self.prepared,
                apart: None,
            });
            // The batch before is looked at only now: the server was at work on it.
            if self.in_flight.is_some() {
                drop(build);
                let made = matches!(next, Ok(false));
                Box::pin(self.commit_previous()).await?;
                if !made || self.counts.again != again {
                    // The statements that it names are forgotten, or it is too large to lie here whole.
                    self.prepared.unsend(mark);
                    continue;
                }
                self.link.push(&synced(&mut script), 1).await?;
                self.in_flight = Some(InFlight { batch, checks: script.checks, one_by_one });
                return Ok(());
            }
            let mut checks = VecDeque::new();
            loop {
                match next {
                    Err(Stop::Error(error)) => return Err(error),
                    Err(Stop::Unknown(_) | Stop::Command(_) | Stop::Barrier) => {
                        return Err(Error::stream("the replication stream is malformed".to_owned()));
                    }
                    Err(Stop::OneByOne(table)) => {
                        drop(build);
                        // The COMMIT in front of it is answered first.
                        self.committed().await?;
                        // Nothing of this batch may stay: what was sent of it is rolled back.
                        self.link.push(&synced(&mut script), 1).await?;
                        self.link.answer(|_| Ok(())).await?;
                        self.roll_back().await?;
                        if !one_by_one.insert(table) {
                            let why = format!("rows of the table {table} have no value in their key");
                            return Err(Error::stream(why));
                        }
                        break;
                    }
                    Ok(false) => {
                        self.link.push(&synced(&mut script), 1).await?;
                        checks.append(&mut script.checks);
                        self.in_flight = Some(InFlight { batch, checks, one_by_one });
                        return Ok(());
                    }
                    Ok(true) => {
                        self.link.push(&script.bytes, 0).await?;
                        script.bytes.clear();
                        checks.append(&mut script.checks);
                        next = build.next(&mut With {
                            tables: &self.tables,
                            one_by_one: &one_by_one,
                            script: &mut script,
                            prepared: &mut self.prepared,
                            apart: None,
                        });
                    }
                }
            }
        }
    }

    /// Looks at the answers of the batch in flight and sends its COMMIT.
    async fn commit_previous(&mut self) -> Result<(), Error> {
        self.committed().await?;
        while let Some(InFlight { batch, mut checks, mut one_by_one }) = self.in_flight.take() {
            match answers(&mut self.link, &mut checks).await? {
                None => {
                    let mut script = Script::default();
                    script.run_texts("commit", &[], transaction())?;
                    self.link.hold(&synced(&mut script), 1);
                    self.counts.reruns += batch.reruns();
                    self.committing = Some(batch.to);
                }
                Some(Wrong { about: About::Rerun, said }) => {
                    let why = said.map_or("another row count".to_owned(), |said| said.error.to_string());
                    tracing::debug!(
                        why,
                        "statement had another effect than at the primary; applying its rows instead"
                    );
                    self.counts.undone += 1;
                    self.roll_back().await?;
                    let from = self.shown.clone();
                    self.start(batch.into_rows(), &from, one_by_one).await?;
                }
                Some(Wrong { about, said }) => {
                    let table = may_be_tried_again(about, said.as_ref(), &one_by_one)?;
                    one_by_one.insert(table);
                    self.roll_back().await?;
                    let from = self.shown.clone();
                    self.start(batch, &from, one_by_one).await?;
                }
            }
        }
        Ok(())
    }

    /// Reads the answer to a COMMIT that was sent.
    async fn committed(&mut self) -> Result<(), Error> {
        let Some(to) = self.committing.take() else { return Ok(()) };
        let mut committed = false;
        let take = |message| {
            if let Message::CommandComplete(body) = message {
                committed = body.tag()? == "COMMIT";
            }
            Ok(())
        };
        match self.link.answer(take).await? {
            Some(said) => Err(said.error.into()),
            None if !committed => Err(Error::stream("the replica did not commit".to_owned())),
            None => {
                self.counts.batches += 1;
                self.shown = to;
                Ok(())
            }
        }
    }

    async fn finish_all(&mut self) -> Result<(), Error> {
        self.finish_beside().await?;
        self.finish_alone().await
    }

    /// Waits until what was sent on this connection is visible.
    async fn finish_alone(&mut self) -> Result<(), Error> {
        self.commit_previous().await?;
        self.committed().await
    }

    /// Ends a transaction that failed. The set of its prepared statements is unknown then.
    async fn roll_back(&mut self) -> Result<(), Error> {
        self.counts.again += 1;
        let mut script = Script::default();
        script.run("ROLLBACK", About::Transaction)?;
        self.prepared.forget(&mut script)?;
        self.link.push(&synced(&mut script), 1).await?;
        self.link.answer(|_| Ok(())).await?.map_or(Ok(()), |said| Err(said.error.into()))
    }

    async fn forget_statements(&mut self) -> Result<(), Error> {
        let mut script = Script::default();
        self.prepared.forget(&mut script)?;
        self.link.push(&synced(&mut script), 1).await?;
        self.link.answer(|_| Ok(())).await?.map_or(Ok(()), |said| Err(said.error.into()))
    }

    /// Gets to know the tables that are new.
    async fn learn(&mut self, parts: &[Part]) -> Result<(), Error> {
        for part in parts {
            for relation in part.changes.relations() {
                if is_own(relation) || self.tables.find(relation).is_some() {
                    continue;
                }
                // Questions have their answers only when nothing else is under way.
                self.finish_all().await?;
                let number = self.tables.next_number();
                let table = replica_catalog::learn(&mut self.link, relation, number).await;
                let table = table.map_err(|error| ddl::made_unseen(part.xid, error))?;
                self.tables.add(Arc::clone(relation), table);
            }
        }
        Ok(())
    }
}

/// Lock timeout of statements.
fn may_wait() -> String {
    format!("-c lock_timeout={LOCK_LIMIT_MS}")
}

/// The beginning of every batch.
fn opening(from: &Shown, to: &Shown) -> Result<Script, Error> {
    let mut script = Script::default();
    script.run_texts("begin", &[], transaction())?;
    let texts = [to.to_string(), from.to_string()];
    let check = Check { rows: Some(1), about: About::Position };
    script.run_texts("position", &texts.each_ref().map(String::as_str), check)?;
    Ok(script)
}

fn transaction() -> Check {
    Check { rows: None, about: About::Transaction }
}

/// The content of the script, followed by a `Sync`.
fn synced(script: &mut Script) -> bytes::BytesMut {
    script.sync();
    script.bytes.split()
}
