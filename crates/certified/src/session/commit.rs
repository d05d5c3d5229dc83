//! The life of a commit: capture, decide, make durable, predecessors, commit (Elnikety, Dropsho and Pedone, "Tashkent",
//! sections 3 to 5).

use super::node_session::NodeSession;
use super::{Done, Run, SERIALIZATION_FAILURE, framed};
use crate::database::Conflict;
use crate::engine::Command;
use crate::notes::Notes;
use crate::options::Engines;
use crate::record::Record;
use history::Version;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::timeout;
use wire::{Asks, Problem, Status};

/// A node that shows nothing new for so long leaves the acknowledgement path: what is durable is committed.
const HANG_LIMIT: Duration = Duration::from_secs(5);

/// Commands of a capture.
const CAPTURE: [fn() -> Command; 3] = [Command::certifies, Command::immediate, Command::notes];

impl NodeSession {
    /// Sends the capture behind a statement that is a transaction of its own, before that is answered.
    pub(super) fn captures_ahead(&mut self) {
        self.engine.precede(&CAPTURE.map(|command| command()));
        self.engine.peer.out().sync();
    }

    /// The whole life of a commit. Afterwards no transaction is open.
    pub(super) async fn commit_certified(&mut self) -> Run<Done> {
        // Execute what was deferred, and capture the write set.
        let record = match self.capture().await? {
            Ok(Some(record)) => record,
            Ok(None) => return self.commit_unversioned().await,
            Err(error) => return self.abandon(error).await,
        };
        if record.effects.is_empty() {
            return self.commit_locks(&record).await;
        }
        // Decide. A transaction that must go has no version, one that has a version never goes.
        self.gives_way_to_the_catalog();
        if self.claim.is_doomed() {
            return self.abandon(framed(&super::lost())).await;
        }
        let certified = self.database.certify(self.claim.start.get(), record, &self.site);
        let (version, durable) = match certified {
            Ok(certified) => certified,
            Err(conflict) => return self.abandon_for(conflict).await,
        };
        self.claim.certified(version);
        // Make durable. A ledger that has failed ends the process, which finds out at its next start what is committed.
        if let Err(error) = durable.await {
            return Err(super::Gone::Node(format!("the ledger has failed: {error}")));
        }
        self.database.published();
        // Predecessors, then the commit with its version in it; else the applier does it.
        self.publish(version).await;
        self.database.acknowledges(version);
        self.promise.last = version;
        self.ended();
        Ok(Ok(()))
    }

    /// Returns the write set of the transaction; `None`: nothing. The error is the server's.
    async fn capture(&mut self) -> Run<Result<Option<Record>, Vec<u8>>> {
        let mut commands: Vec<Command> = self
            .transaction
            .locks
            .iter()
            .map(|(tables, shared)| Command::note_locks(tables, *shared))
            .collect();
        commands.extend(CAPTURE.map(|command| command()));
        let answer = match self.transaction.captured.take() {
            Some(answer) => answer,
            None => self.engine.ask(&commands).await?,
        };
        if let Some(error) = answer.error {
            return Ok(Err(self.said(error)));
        }
        let Some(text) = answer.values.into_iter().next_back().flatten() else { return Ok(Ok(None)) };
        if let Some(record) = self.noted(&text).await? {
            return Ok(Ok(Some(record)));
        }
        let answer = self.engine.ask(&[Command::capture()]).await?;
        if let Some(error) = answer.error {
            return Ok(Err(self.said(error)));
        }
        let Some(text) = answer.values.into_iter().next_back().flatten() else { return Ok(Ok(None)) };
        let record = Record::captured(&text);
        Ok(record.map(Some).map_err(|error| {
            framed(&Problem::error("XX000", format!("the write set cannot be read: {error}")))
        }))
    }

    /// The write set as the notes have it; `None`: the rows must be read.
    async fn noted(&mut self, text: &str) -> Run<Option<Record>> {
        let Some(notes) = Notes::of(text) else { return Ok(None) };
        let unknown: BTreeSet<i64> = {
            let known = self.site.shapes.borrow();
            notes.shapes().filter(|shape| !known.contains_key(shape)).collect()
        };
        for shape in unknown {
            let answer = self.engine.ask(&[Command::shape(shape)]).await?;
            let text = answer.values.into_iter().next_back().flatten();
            if let Some(known) = text.and_then(|text| serde_json::from_str(&text).ok()) {
                self.site.shapes.borrow_mut().insert(shape, Rc::new(known));
            }
        }
        Ok(notes.record(&self.site.shapes.borrow()).filter(|record| !record.effects.is_empty()))
    }

    /// Commits what has no place in the order: nothing was written that other nodes have.
    async fn commit_unversioned(&mut self) -> Run<Done> {
        let answer = self.engine.ask(&[Command::commit()]).await?;
        match answer.error {
            Some(error) => self.abandon(error).await,
            None => {
                self.ended();
                Ok(Ok(()))
            }
        }
    }

    /// Commits a transaction that has locked and written nothing: it must not have overlooked anything.
    async fn commit_locks(&mut self, record: &Record) -> Run<Done> {
        match self.database.conflict(self.claim.start.get(), record) {
            Some(conflict) => self.abandon_for(conflict).await,
            None => self.commit_unversioned().await,
        }
    }

    /// The next transaction waits for what this one has met: else it would meet that again.
    async fn abandon_for(&mut self, conflict: Conflict) -> Run<Done> {
        if let Conflict::With(version) = conflict {
            self.promise.last = self.promise.last.max(version);
        }
        self.abandon(framed(&refused(conflict))).await
    }

    async fn abandon(&mut self, error: Vec<u8>) -> Run<Done> {
        self.roll_back().await?;
        Ok(Err(error))
    }

    /// A command that changes the catalog is alone in the order, and may wait for this transaction's locks. What began before
    /// it is refused anyway.
    fn gives_way_to_the_catalog(&self) {
        if !self.transaction.is_alone && self.database.catalog.try_read().is_err() {
            self.claim.doom();
        }
    }

    /// Commits at this node, behind all earlier versions. Whatever goes wrong here, the transaction is committed: the
    /// applier brings its record.
    async fn publish(&mut self, version: Version) {
        let site = self.site.clone();
        let before = Version::new(version.get() - 1);
        let turn = timeout(HANG_LIMIT, site.until(|site| site.visible() >= before)).await;
        let committed = match turn {
            Err(_) => Ok(Err("the versions before it are not shown".to_owned())),
            Ok(()) => self.commit_here(version).await,
        };
        let why = match committed {
            Ok(Ok(())) => {
                site.shows(version);
                return self.flush_together().await;
            }
            Ok(Err(why)) => {
                if !matches!(timeout(HANG_LIMIT, self.undo()).await, Ok(Ok(()))) {
                    self.node_lost = Some("the node does not answer".to_owned());
                }
                why
            }
            Err(why) => {
                self.node_lost = Some(why.clone());
                why
            }
        };
        if self.node_lost.is_some() {
            // Its transaction may still be open, and its COMMIT on the way.
            site.suspects(self.claim.pid.get());
        }
        site.gives_up(version);
        tracing::info!(%version, why, "the applier commits what its session could not");
        let _ = timeout(HANG_LIMIT, site.until(|site| site.visible() >= version)).await;
    }

    /// The COMMIT itself. The inner error: the transaction is undone; the outer one: the connection is lost.
    async fn commit_here(&mut self, version: Version) -> Result<Result<(), String>, String> {
        let commands = [Command::commit_at(version.get()), Command::commit()];
        match timeout(HANG_LIMIT, self.engine.ask(&commands)).await {
            Err(_) => Err(format!("no answer within {HANG_LIMIT:?}")),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(answer)) => Ok(match answer.error {
                None if self.status() == Status::Idle => Ok(()),
                None => Err("the server has not committed".to_owned()),
                Some(error) => Err(super::sqlstate(&error)),
            }),
        }
    }

    /// Sessions whose commits are in memory bring them to the disk together.
    async fn flush_together(&mut self) {
        if self.database.options.engines != Engines::FlushedTogether {
            return;
        }
        match timeout(HANG_LIMIT, self.engine.ask(&[Command::flush()])).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => self.node_lost = Some(error.to_string()),
            Err(_) => self.node_lost = Some(format!("no answer within {HANG_LIMIT:?}")),
        }
    }
}

/// Error for the client of a refused transaction.
fn refused(conflict: Conflict) -> Problem {
    match conflict {
        Conflict::With(version) => Problem::error(
            SERIALIZATION_FAILURE,
            format!("could not serialize access: {version} has changed what this transaction changes"),
        )
        .hint("Another transaction was first. Run this one again."),
        Conflict::TooOld => Problem::error(
            SERIALIZATION_FAILURE,
            "could not serialize access: the snapshot is older than what is remembered of commits",
        )
        .hint("The transaction took too long. Run it again."),
        Conflict::TooLarge => {
            let limit = crate::database::RECORD_LIMIT_BYTES >> 20;
            Problem::error("54000", format!("the transaction changes more than {limit} MB"))
                .hint("Change the rows in several transactions.")
        }
    }
}
