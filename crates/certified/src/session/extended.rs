//! Requests of the extended protocol: messages up to a Sync or a Flush.

use super::relay::Before;
use super::simple::{READ_ONLY, is_control, may_repeat_here};
use super::{Block, Done, Gone, Message, Names, REPEATS, Run, Session, sqlstate};
use crate::engine::{ANSWERS, BEGIN, BEGIN_READ, Command};
use crate::statement::{Class, Statement, single};
use std::rc::Rc;
use wire::tag::front;
use wire::{Asks, Bind, Close, Execute, Frame, Parse, Status, Target};

/// How a batch goes on after a message.
enum Step {
    GoesOn,
    Failed(Vec<u8>),
}

impl Session {
    /// Runs what has come since the last Sync or Flush.
    pub(super) async fn run_batch(&mut self, flush: bool) -> Run<()> {
        let batch = std::mem::take(&mut self.batch);
        if self.skips {
            self.skips = flush;
            return Ok(());
        }
        let batch = self.rewritten(batch)?;
        let failed = match self.only_statement(&batch, flush) {
            Some(statement) => self.repeated(&batch, &statement).await?,
            None => self.through(&batch, flush).await?,
        };
        if let Err(error) = failed {
            self.complain(&error).await?;
            if self.node.transaction.block == Block::Implicit {
                self.node.roll_back().await?;
            }
            self.skips = flush;
        }
        self.release().await
    }

    /// The messages with the texts that the server gets.
    fn rewritten(&mut self, batch: Vec<Message>) -> Run<Vec<Message>> {
        let mut messages = Vec::with_capacity(batch.len());
        for message in batch {
            if message.tag != front::PARSE {
                messages.push(message);
                continue;
            }
            let frame = framed(&message)?;
            let parse = Parse::read(&frame).map_err(|why| Gone::Broken(why.to_string()))?;
            let statement = single(&String::from_utf8_lossy(parse.text));
            let mut bytes = Vec::new();
            if statement.text.as_bytes() == parse.text {
                bytes.extend_from_slice(&message.bytes);
            } else {
                bytes.parse(parse.name, statement.text.as_bytes(), parse.signature().1);
            }
            messages.push(Message { tag: front::PARSE, bytes, parsed: Some(Rc::new(statement)) });
        }
        Ok(messages)
    }

    /// The statement of a batch that is one outside of a transaction, and may be repeated as a whole.
    fn only_statement(&self, batch: &[Message], flush: bool) -> Option<Rc<Statement>> {
        if flush || self.node.transaction.block != Block::None || self.node.status() != Status::Idle {
            return None;
        }
        let places = |tag| {
            let of_tag = batch.iter().enumerate().filter(move |(_, message)| message.tag == tag);
            of_tag.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let parses = places(front::PARSE);
        let (&[bind], &[execute]) = (&*places(front::BIND), &*places(front::EXECUTE)) else { return None };
        if parses.len() > 1 || parses.first().is_some_and(|&parse| parse > bind) || bind > execute {
            return None;
        }
        let has_name = batch.iter().any(|message| {
            let Ok(frame) = Frame::new(&message.bytes) else { return true };
            match message.tag {
                front::PARSE => Parse::read(&frame).map_or(true, |parse| !parse.name.is_empty()),
                front::CLOSE => true,
                _ => false,
            }
        });
        let frame = Frame::new(&batch[bind].bytes).ok()?;
        let name = Bind::read(&frame).ok()?.statement;
        let parsed =
            parses.first().filter(|_| name.is_empty()).and_then(|&parse| batch[parse].parsed.clone());
        let statement = parsed.or_else(|| self.names.statements.get(name).cloned())?;
        let is_plain = matches!(statement.class, Class::Read | Class::Write | Class::Catalog { .. });
        (!has_name && is_plain).then_some(statement)
    }

    /// Runs such a batch, again if another transaction was first.
    async fn repeated(&mut self, batch: &[Message], statement: &Statement) -> Run<Done> {
        self.held.begin(true);
        if statement.class == Class::Read {
            match self.read_batch(batch).await? {
                Err(error) if sqlstate(&error) == READ_ONLY && self.held.is_whole() => self.held.begin(true),
                done => return Ok(done),
            }
        }
        for attempt in 1.. {
            self.is_whole_transaction = true;
            let done = self.through(batch, false).await;
            self.is_whole_transaction = false;
            match done? {
                Err(error) if may_repeat_here(&error, self) && attempt < REPEATS && self.held.is_whole() => {
                    self.node.roll_back().await?;
                    self.held.begin(true);
                }
                done => return Ok(done),
            }
        }
        Ok(Ok(()))
    }

    /// Reads in one round trip, in a transaction that cannot write.
    async fn read_batch(&mut self, batch: &[Message]) -> Run<Done> {
        if let Err(error) = self.node.starts().await? {
            return Ok(Err(error));
        }
        for message in batch {
            self.note_names(message)?;
        }
        self.node.transaction.block = Block::Implicit;
        self.node.engine.precede(BEGIN_READ);
        batch.iter().for_each(|message| self.node.engine.peer.out().extend_from_slice(&message.bytes));
        self.node.engine.peer.out().sync();
        self.node.engine.write(&[Command::commit()]);
        let outcome = self.relay(Before::Messages(ANSWERS), true).await?;
        let error = outcome.error.map(|error| self.node.said(error));
        self.node.engine.answers(1).await?;
        self.node.forget_transaction();
        Ok(error.map_or(Ok(()), Err))
    }

    /// Goes through a batch: messages gather up to one that executes something.
    async fn through(&mut self, batch: &[Message], flush: bool) -> Run<Done> {
        let mut group = Vec::new();
        let (mut has_bind, mut looks) = (false, false);
        for message in batch {
            self.note_names(message)?;
            has_bind |= message.tag == front::BIND;
            looks |= self.names.takes_a_snapshot(message);
            if message.tag != front::EXECUTE {
                group.extend_from_slice(&message.bytes);
                continue;
            }
            let frame = framed(message)?;
            let portal = Execute::read(&frame).map_err(|why| Gone::Broken(why.to_string()))?.portal.to_vec();
            let unknown = || Rc::new(Statement { text: String::new(), class: Class::Write, raised: false });
            let statement = self.names.portals.get(&portal).cloned().unwrap_or_else(unknown);
            if std::mem::take(&mut looks)
                && let Err(error) = self.start_fresh().await?
            {
                return Ok(Err(error));
            }
            if let Step::Failed(error) =
                self.execute(std::mem::take(&mut group), &message.bytes, &statement).await?
            {
                return Ok(Err(error));
            }
            has_bind = false;
        }
        if flush
            && has_bind
            && self.node.transaction.block == Block::None
            && self.node.status() == Status::Idle
        {
            // A portal lives as long as its transaction.
            self.node.open().await?;
        }
        if looks && let Err(error) = self.start_fresh().await? {
            return Ok(Err(error));
        }
        if !group.is_empty()
            && let Err(error) = self.send(&[&group]).await?
        {
            return Ok(Err(error));
        }
        if !flush && self.node.transaction.block == Block::Implicit {
            let done = self.node.commit_certified().await?;
            if done.is_err() {
                self.held.is_undone();
            }
            return Ok(done);
        }
        Ok(Ok(()))
    }

    /// The label of a transaction is read before anything in it may take its snapshot.
    async fn start_fresh(&mut self) -> Run<Done> {
        if !self.node.transaction.is_fresh || self.node.status() != Status::InBlock {
            return Ok(Ok(()));
        }
        let started = self.node.starts().await?;
        if started.is_err() {
            self.node.engine.ask(&[Command::fail()]).await?;
        }
        Ok(started)
    }

    fn note_names(&mut self, message: &Message) -> Run<()> {
        let frame = framed(message)?;
        let broken = |why: wire::Malformed| Gone::Broken(why.to_string());
        match (message.tag, &message.parsed) {
            (front::PARSE, Some(parsed)) => {
                let name = Parse::read(&frame).map_err(broken)?.name;
                let known = self.names.statements.get(name).filter(|_| !name.is_empty());
                if known.is_some_and(|known| known.text != parsed.text) {
                    // Which of the two the server has is not known: it counts as one that writes.
                    self.names.statements.remove(name);
                } else {
                    self.names.statements.insert(name.to_vec(), parsed.clone());
                }
            }
            (front::BIND, _) => {
                let bind = Bind::read(&frame).map_err(broken)?;
                match self.names.statements.get(bind.statement).cloned() {
                    Some(statement) => self.names.portals.insert(bind.portal.to_vec(), statement),
                    None => self.names.portals.remove(bind.portal),
                };
            }
            (front::CLOSE, _) => {
                let close = Close::read(&frame).map_err(broken)?;
                match close.target {
                    Target::Statement => self.names.statements.remove(close.name),
                    Target::Portal => self.names.portals.remove(close.name),
                };
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends messages as one request.
    async fn send(&mut self, parts: &[&[u8]]) -> Run<Done> {
        self.send_followed(parts, None, false).await
    }

    /// The same, behind a text of Consort's own which gives no rows, and with the capture right behind it if the statement
    /// is all of its transaction.
    async fn send_followed(&mut self, parts: &[&[u8]], before: Option<&str>, is_followed: bool) -> Run<Done> {
        before.into_iter().for_each(|text| self.node.engine.precede(text));
        parts.iter().for_each(|part| self.node.engine.peer.out().extend_from_slice(part));
        self.node.engine.peer.out().sync();
        if is_followed {
            self.node.captures_ahead();
        }
        let skipped = before.map_or(0, |_| ANSWERS);
        let outcome = self.relay(Before::Messages(skipped), true).await?;
        if is_followed {
            self.node.captured_ahead().await?;
        }
        Ok(outcome.error.map_or(Ok(()), Err))
    }

    /// Executes a statement, behind the messages that make its portal.
    async fn execute(&mut self, group: Vec<u8>, execute: &[u8], statement: &Statement) -> Run<Step> {
        if let Some(error) = self.node.told_of_loss(&statement.class).await? {
            return Ok(Step::Failed(error));
        }
        let failed = match (&statement.class, self.node.transaction.block) {
            (Class::Refused(refusal), _) => Err(self.node.refuse(*refusal).await?),
            (Class::Commit(chain), Block::Implicit | Block::Explicit)
                if self.node.status() == Status::InBlock =>
            {
                match self.send(&[&group]).await? {
                    Ok(()) => self.commit_by_client(*chain).await?,
                    error => error,
                }
            }
            (Class::Begin { .. }, Block::Implicit) => {
                let sent = self.send(&[&group]).await?;
                self.node.transaction.block = Block::Explicit;
                self.notes(statement);
                match sent {
                    Ok(()) => self.complete("BEGIN").await?,
                    error => error,
                }
            }
            (
                Class::Begin { .. }
                | Class::Local
                | Class::Forgets
                | Class::Sets(_)
                | Class::Empty
                | Class::Commit(_)
                | Class::Rollback(_),
                _,
            ) => self.noted(&[&group, execute], None, statement).await?,
            (_, Block::None) if self.node.status() == Status::Idle => {
                let is_plain = matches!(statement.class, Class::Read | Class::Write);
                let before = is_plain.then_some(BEGIN);
                if !is_plain {
                    self.node.open().await?;
                }
                self.node.transaction.block = Block::Implicit;
                self.run_inside(&[&group, execute], before, statement).await?
            }
            _ => self.run_inside(&[&group, execute], None, statement).await?,
        };
        Ok(failed.map_or_else(Step::Failed, |()| Step::GoesOn))
    }

    async fn noted(&mut self, parts: &[&[u8]], before: Option<&str>, statement: &Statement) -> Run<Done> {
        let is_followed = self.is_whole_transaction && before.is_some() && statement.may_be_followed();
        let done = self.send_followed(parts, before, is_followed).await?;
        if done.is_ok() {
            self.notes(statement);
        }
        Ok(done)
    }

    /// A statement inside a transaction, which `before` may open.
    async fn run_inside(
        &mut self,
        parts: &[&[u8]],
        before: Option<&str>,
        statement: &Statement,
    ) -> Run<Done> {
        let opens = before.is_some();
        if (opens || self.node.transaction.is_fresh && self.node.status() == Status::InBlock)
            && let Err(error) = self.node.starts().await?
        {
            if self.node.status() == Status::InBlock {
                self.node.engine.ask(&[Command::fail()]).await?;
            }
            return Ok(Err(error));
        }
        self.node.prepare_for(&statement.class).await?;
        let done = self.noted(parts, before, statement).await?;
        self.node.conclude(statement, done).await
    }
}

fn framed(message: &Message) -> Run<Frame<'_>> {
    Frame::new(&message.bytes).map_err(|why| Gone::Broken(why.to_string()))
}

impl Names {
    /// Whether the server may take the transaction's snapshot when it gets this Parse or Bind.
    fn takes_a_snapshot(&self, message: &Message) -> bool {
        match message.tag {
            front::PARSE => message.parsed.as_ref().is_none_or(|parsed| !is_control(parsed)),
            front::BIND => {
                let Ok(frame) = Frame::new(&message.bytes) else { return true };
                let portal = Bind::read(&frame).ok().and_then(|bind| self.portals.get(bind.portal));
                portal.is_none_or(|bound| !is_control(bound))
            }
            _ => false,
        }
    }
}
