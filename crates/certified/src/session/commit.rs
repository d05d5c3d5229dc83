//! The side of a session at PostgreSQL in the flow of a commit: see [`certified_flow::commit_certified`].

use super::node_session::NodeSession;
use super::{Done, Gone, Run, SERIALIZATION_FAILURE, framed};
use crate::capture_kind::Capture;
use crate::database::{Life, Site};
use crate::engine::Command;
use crate::notes::Notes;
use crate::options::Engines;
use crate::record::Record;
use crate::timer::Clock;
use certified_flow::{Claim, CommitOrder, Conflict, HANG_LIMIT, NotCommitted, Order, Session};
use history::Version;
use std::collections::BTreeSet;
use std::rc::Rc;
use tokio::time::timeout;
use wire::{Problem, Status};

impl NodeSession {
    /// Sends the capture behind a statement that is a transaction of its own, before that is answered.
    pub(super) fn captures_ahead(&mut self) {
        let commands = self.capture_commands();
        self.engine.write(&commands);
    }

    /// Commands of a capture: deferred constraints are checked, the transaction takes its lock in the chain of commits, and
    /// the notes are answered.
    fn capture_commands(&self) -> Vec<Command> {
        let mut commands = match self.site.of_life.borrow().capture {
            Some(Capture::Extension) => vec![Command::native_notes()],
            Some(Capture::Sql) | None => vec![Command::certifies(), Command::immediate(), Command::notes()],
        };
        if self.commit_order() == CommitOrder::Chain {
            commands.insert(commands.len() - 1, Command::link());
        }
        commands
    }

    /// Takes the answer of such a capture.
    pub(super) async fn captured_ahead(&mut self) -> Run<()> {
        let commands = self.capture_commands().len();
        self.transaction.captured = Some(self.engine.answers(commands).await?);
        Ok(())
    }

    /// The whole life of a commit. Afterwards no transaction is open.
    pub(super) async fn commit_certified(&mut self) -> Run<Done> {
        certified_flow::commit_certified(self).await
    }

    /// The write set as the notes have it; `None`: the rows must be read.
    async fn noted(&mut self, text: &str) -> Run<Option<Record>> {
        let Some(notes) = Notes::of(text) else { return Ok(None) };
        let unknown: BTreeSet<i64> = {
            let known = self.site.of_life.borrow();
            notes.shapes().filter(|shape| !known.shapes.contains_key(shape)).collect()
        };
        for shape in unknown {
            let answer = self.engine.ask(&[Command::shape(shape)]).await?;
            let text = answer.values.into_iter().next_back().flatten();
            if let Some(known) = text.and_then(|text| serde_json::from_str(&text).ok()) {
                self.site.of_life.borrow_mut().shapes.insert(shape, Rc::new(known));
            }
        }
        Ok(notes.record(&self.site.of_life.borrow().shapes).filter(|record| !record.effects.is_empty()))
    }
}

impl Session for NodeSession {
    type WriteSet = Record;
    type Life = Life;
    type Refusal = Vec<u8>;
    type Gone = Gone;
    type Timer = Clock;

    fn timer(&self) -> Clock {
        Clock
    }

    fn order(&self) -> &Order<Record, Life> {
        &self.database.order
    }

    fn site(&self) -> &Rc<Site> {
        &self.site
    }

    fn claim(&self) -> &Rc<Claim> {
        &self.claim
    }

    async fn capture(&mut self) -> Run<Result<Option<Record>, Vec<u8>>> {
        let mut commands: Vec<Command> = self
            .transaction
            .locks
            .iter()
            .map(|(tables, shared)| Command::note_locks(tables, *shared))
            .collect();
        commands.extend(self.capture_commands());
        let answer = match self.transaction.captured.take() {
            Some(answer) => answer,
            None => self.engine.ask(&commands).await?,
        };
        if let Some(error) = answer.error {
            return Ok(Err(self.said(error)));
        }
        let mut values = answer.values.into_iter();
        let notes = values.next_back().flatten();
        if self.commit_order() == CommitOrder::Chain {
            self.claim.link.set(values.next_back().flatten().and_then(|link| link.parse().ok()));
        }
        let Some(text) = notes else { return Ok(Ok(None)) };
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

    /// A command that changes the catalog is alone in the order, and may wait for this transaction's locks. What began before
    /// it is refused anyway.
    fn gives_way(&self) {
        if !self.transaction.is_alone && self.database.catalog.try_read().is_err() {
            self.claim.doom();
        }
    }

    async fn commit(&mut self) -> Run<Done> {
        let answer = self.engine.ask(&[Command::commit()]).await?;
        Ok(answer.error.map_or(Ok(()), Err))
    }

    fn commit_order(&self) -> CommitOrder {
        self.site.of_life.borrow().commit_order
    }

    async fn commit_at(&mut self, version: Version, follows: Option<u64>) -> Result<(), NotCommitted> {
        let shows = match self.site.of_life.borrow().capture {
            Some(Capture::Extension) => Command::native_commit_at(version.get()),
            Some(Capture::Sql) | None => Command::commit_at(version.get()),
        };
        let mut commands = vec![shows, Command::commit()];
        self.flushes = self.commit_order() == CommitOrder::Gate;
        if self.flushes {
            commands.insert(1, Command::native_take_turn(version.get()));
            self.engine.write(&[&commands[..], &[Command::native_flush()]].concat());
        } else {
            follows.into_iter().for_each(|link| commands.insert(1, Command::follow_link(link)));
            self.engine.write(&commands);
        }
        match timeout(HANG_LIMIT, self.engine.answers(commands.len())).await {
            Err(_) => Err(NotCommitted::Lost(format!("no answer within {HANG_LIMIT:?}"))),
            Ok(Err(error)) => Err(NotCommitted::Lost(error.to_string())),
            Ok(Ok(answer)) => match answer.error {
                None if self.status() == Status::Idle => Ok(()),
                None => Err(NotCommitted::Refused("the server has not committed".to_owned())),
                Some(error) => Err(NotCommitted::Refused(super::sqlstate(&error))),
            },
        }
    }

    /// Sessions whose commits are in memory bring them to the disk together.
    async fn flush(&mut self) {
        if self.database.options.engines != Engines::FlushedTogether {
            return;
        }
        if !std::mem::take(&mut self.flushes) {
            self.engine.write(&[Command::flush()]);
        }
        match timeout(HANG_LIMIT, self.engine.answers(1)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => self.node_lost = Some(error.to_string()),
            Err(_) => self.node_lost = Some(format!("no answer within {HANG_LIMIT:?}")),
        }
    }

    async fn undo(&mut self) -> Run<()> {
        if std::mem::take(&mut self.flushes) {
            self.engine.answers(1).await?;
        }
        self.roll_back_open().await
    }

    fn ended(&mut self) {
        self.forget_transaction();
    }

    fn promises(&mut self, version: Version) {
        self.promise.last = self.promise.last.max(version);
    }

    fn loses_node(&mut self, why: String) {
        self.node_lost = Some(why);
    }

    fn given_up(&self, version: Version, why: &str) {
        tracing::info!(%version, why, "the applier commits what its session could not");
    }

    fn doomed(&self) -> Vec<u8> {
        framed(&super::lost())
    }

    fn refused(&self, conflict: Conflict) -> Vec<u8> {
        framed(&refused(conflict))
    }

    fn ledger_failed(&self, error: &ledger::Error) -> Gone {
        Gone::Node(format!("the ledger has failed: {error}"))
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
            let limit = certified_flow::RECORD_LIMIT_BYTES >> 20;
            Problem::error("54000", format!("the transaction changes more than {limit} MB"))
                .hint("Change the rows in several transactions.")
        }
    }
}
