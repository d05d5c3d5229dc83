//! Requests of the simple protocol.

use super::relay::Before;
use super::{Block, Done, Gone, REPEATS, Run, Session, may_repeat, sqlstate};
use crate::engine::Command;
use crate::statement::{Class, Statement, statements};
use wire::{Answers, Asks, Status};

/// A transaction that reads only was to write.
pub(super) const READ_ONLY: &str = "25006";

impl Session {
    /// Runs one text.
    pub(super) async fn simple(&mut self, text: &str) -> Run<()> {
        self.skips = false;
        self.batch.clear();
        self.names.statements.remove(b"".as_slice());
        let mut all = statements(text);
        if all.is_empty() {
            self.client.out().empty_query();
            return Ok(());
        }
        if all.len() > 1 && all.iter().all(|one| matches!(one.class, Class::Read | Class::Write)) {
            all = vec![Statement { text: text.to_owned(), class: Class::Write, raised: false }];
        }
        let several = all.len() > 1;
        if !several
            && all[0].text.len() < text.len()
            && !all[0].raised
            && !matches!(all[0].class, Class::Begin { .. })
        {
            // Places in errors are those of the client's text.
            text.clone_into(&mut all[0].text);
        }
        for statement in &all {
            if let Err(error) = self.one(statement, several).await? {
                self.complain(&error).await?;
                if self.node.transaction.block == Block::Implicit {
                    self.node.roll_back().await?;
                }
                return self.release().await;
            }
        }
        if self.node.transaction.block == Block::Implicit
            && let Err(error) = self.node.commit_certified().await?
        {
            self.held.begin(false);
            return self.complain(&error).await;
        }
        self.release().await
    }

    /// Runs one statement of a text.
    async fn one(&mut self, statement: &Statement, several: bool) -> Run<Done> {
        if let Some(error) = self.node.told_of_loss(&statement.class).await? {
            return Ok(Err(error));
        }
        match (&statement.class, self.node.transaction.block) {
            (Class::Refused(refusal), _) => Ok(Err(self.node.refuse(*refusal).await?)),
            (Class::Begin { .. }, Block::Implicit) => {
                self.node.transaction.block = Block::Explicit;
                self.notes(statement);
                self.complete("BEGIN").await
            }
            (Class::Commit(chain), Block::Implicit | Block::Explicit)
                if self.node.status() == Status::InBlock =>
            {
                self.commit_by_client(*chain).await
            }
            (
                Class::Read
                | Class::Write
                | Class::Locks { .. }
                | Class::Catalog { .. }
                | Class::Notify
                | Class::Sequences
                | Class::Constraints,
                Block::None,
            ) => {
                if several {
                    self.node.open().await?;
                    return self.inside(statement).await;
                }
                self.alone(statement).await
            }
            (_, Block::None) => self.pass(statement).await,
            (_, Block::Implicit | Block::Explicit) => self.inside(statement).await,
        }
    }

    pub(super) async fn complete(&mut self, tag: &str) -> Run<Done> {
        let mut bytes = Vec::new();
        bytes.complete(tag);
        self.emit(&bytes).await?;
        Ok(Ok(()))
    }

    /// COMMIT of the client's own transaction.
    pub(super) async fn commit_by_client(&mut self, chain: bool) -> Run<Done> {
        if let Err(error) = self.node.commit_certified().await? {
            return Ok(Err(error));
        }
        if chain && self.node.node_lost.is_none() {
            self.node.engine.ask(&[Command::begin()]).await?;
            self.node.transaction.block = Block::Explicit;
            self.node.transaction.is_fresh = true;
        }
        self.complete("COMMIT").await
    }

    /// Sends the statement as it is.
    async fn pass(&mut self, statement: &Statement) -> Run<Done> {
        self.node.engine.peer.out().query(statement.text.as_bytes());
        let outcome = self.relay(Before::Nothing, false).await?;
        match outcome.error {
            Some(error) => Ok(Err(error)),
            None => {
                self.notes(statement);
                Ok(Ok(()))
            }
        }
    }

    /// Runs a statement inside a transaction.
    async fn inside(&mut self, statement: &Statement) -> Run<Done> {
        let is_control = is_control(statement);
        if self.node.transaction.is_fresh
            && !is_control
            && self.node.status() == Status::InBlock
            && let Err(error) = self.node.starts().await?
        {
            self.node.engine.ask(&[Command::fail()]).await?;
            return Ok(Err(error));
        }
        self.node.prepare_for(&statement.class).await?;
        let done = self.pass(statement).await?;
        self.node.conclude(statement, done).await
    }

    /// A statement outside of a transaction: its own one begins and ends with it, and is repeated if another one was first.
    async fn alone(&mut self, statement: &Statement) -> Run<Done> {
        self.held.begin(true);
        if statement.class == Class::Read {
            match self.read_alone(statement).await? {
                Err(error) if sqlstate(&error) == READ_ONLY && self.held.is_whole() => self.held.begin(true),
                done => return Ok(done),
            }
        }
        let mut attempt = 0;
        loop {
            let done = self.write_alone(statement, attempt).await?;
            attempt += 1;
            match done {
                Err(error) if may_repeat_here(&error, self) && attempt < REPEATS && self.held.is_whole() => {
                    self.node.roll_back().await?;
                    self.held.begin(true);
                }
                Err(error) => {
                    self.held.is_undone();
                    let error = self.node.said(error);
                    self.node.roll_back().await?;
                    return Ok(Err(error));
                }
                Ok(()) => return Ok(Ok(())),
            }
        }
    }

    /// Reads in one round trip, in a transaction that cannot write.
    async fn read_alone(&mut self, statement: &Statement) -> Run<Done> {
        if let Err(error) = self.node.starts().await? {
            return Ok(Err(error));
        }
        self.node.transaction.block = Block::Implicit;
        self.node.engine.write(&[Command::begin_read()]);
        self.node.engine.peer.out().query(statement.text.as_bytes());
        self.node.engine.write(&[Command::commit()]);
        let outcome = self.relay(Before::Answers(1), false).await?;
        let error = outcome.error.map(|error| self.node.said(error));
        // The second answer is that of the COMMIT.
        self.node.engine.answers(1).await?;
        self.node.forget_transaction();
        Ok(error.map_or(Ok(()), Err))
    }

    async fn write_alone(&mut self, statement: &Statement, attempt: usize) -> Run<Done> {
        let database = self.node.database.clone();
        let is_catalog = matches!(statement.class, Class::Catalog { .. });
        let _alone = if is_catalog && attempt > 0 {
            Some(self.node.alone_in_the_order(&database).await)
        } else {
            None
        };
        self.node.transaction.is_alone = _alone.is_some();
        let done = self.write_once(statement).await;
        self.node.transaction.is_alone = false;
        done
    }

    async fn write_once(&mut self, statement: &Statement) -> Run<Done> {
        if let Err(error) = self.node.starts().await? {
            return Ok(Err(error));
        }
        self.node.transaction.block = Block::Implicit;
        let mut before = vec![Command::begin()];
        if self.node.transaction.is_alone {
            // Everybody waits for it: it waits for nobody's lock for long.
            before.push(Command::bound_locks());
        }
        match statement.class {
            Class::Catalog { .. } => before.push(Command::permits_ddl()),
            Class::Constraints => before.push(Command::certifies()),
            _ => {}
        }
        self.node.engine.write(&before);
        self.node.engine.peer.out().query(statement.text.as_bytes());
        let is_followed = statement.may_be_followed();
        if is_followed {
            self.node.captures_ahead();
        }
        let outcome = self.relay(Before::Answers(before.len()), false).await?;
        if is_followed {
            self.node.captured_ahead().await?;
        }
        if let Some(error) = outcome.error {
            return Ok(Err(error));
        }
        self.notes(statement);
        if let Err(error) = self.node.conclude(statement, Ok(())).await? {
            return Ok(Err(error));
        }
        self.node.commit_certified().await
    }
}

/// Whether the statement takes no snapshot, and may have to come before one. What else is the session's own may take one:
/// PREPARE does.
pub(super) fn is_control(statement: &Statement) -> bool {
    match statement.class {
        Class::Empty | Class::Begin { .. } | Class::Commit(_) | Class::Rollback(_) | Class::Sets(_) => true,
        Class::Local => {
            let word = statement.text.split_whitespace().next().unwrap_or_default();
            word.eq_ignore_ascii_case("SET")
        }
        _ => false,
    }
}

/// Whether another attempt may succeed.
pub(super) fn may_repeat_here(error: &[u8], session: &Session) -> bool {
    may_repeat(error) || session.node.claim.has_caused(&sqlstate(error))
}

impl From<Vec<u8>> for Gone {
    fn from(error: Vec<u8>) -> Gone {
        Gone::Node(String::from_utf8_lossy(&error).into_owned())
    }
}
