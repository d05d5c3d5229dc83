//! The transaction block of a session: how it begins, runs statements at one node, and ends.

use super::answers::failure;
use super::executor::{
    Answer, Executor, READ_ONLY, Rows, SERIALIZATION_FAILURE, Wait, gone_before, node_is_gone, now_us, seed,
};
use super::scheduler::{Parsed, Placed, Work};
use super::settings::Settings;
use super::{Outcome, Step};
use crate::message::{ELSEWHERE, Failure, Reply, Request, Run};
use wire::Status;

/// Savepoints that a block may have.
const MAX_SAVEPOINTS: usize = 1_000;

/// Beginning of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By a request of several statements; its end commits.
    Implicit,
    /// By the client.
    Explicit,
}

/// A transaction block.
pub(super) struct Block {
    pub(super) kind: Kind,
    pub(super) read_only: bool,
    pub(super) failed: bool,
    /// The node has gone: nothing but the block's end is possible.
    lost: bool,
    /// A statement has written, or may have.
    wrote: bool,
    /// Time of its beginning, microseconds since 1970.
    time_us: i64,
    seed: u64,
    /// Savepoints, with the settings of that moment.
    savepoints: Vec<(String, Settings)>,
    /// Settings before it.
    before: Settings,
    /// The node where it runs, once a statement has run.
    pub(super) placed: Option<Placed>,
}

impl Block {
    /// A block in which nothing has run.
    pub(super) fn new(kind: Kind, read_only: bool, settings: &Settings) -> Block {
        Block {
            kind,
            read_only,
            failed: false,
            lost: false,
            wrote: false,
            time_us: now_us(),
            seed: seed(),
            savepoints: Vec::new(),
            before: settings.clone(),
            placed: None,
        }
    }

    /// Whether a statement has run at a node.
    pub(super) fn has_run(&self) -> bool {
        self.placed.is_some() || self.failed
    }
}

impl Executor {
    /// Status for ReadyForQuery.
    pub(super) fn status(&self) -> Status {
        match &self.block {
            None => Status::Idle,
            Some(block) if block.failed => Status::Failed,
            Some(_) => Status::InBlock,
        }
    }

    /// Begins a block.
    pub(super) fn begin(&mut self, kind: Kind, read_only: Option<bool>) {
        let read_only = read_only.unwrap_or_else(|| self.settings.is_on("default_transaction_read_only"));
        self.block = Some(Block::new(kind, read_only, &self.settings));
    }

    /// Runs a statement in the block.
    pub(super) async fn inside(&mut self, parsed: &Parsed, run: &Run, rows: &mut Rows) -> Outcome<String> {
        let (by, mut avoided) = (self.place_by(), Vec::new());
        loop {
            let Some(block) = &mut self.block else { return Ok(Err(no_block("the statement"))) };
            let work = if block.read_only { parsed.reads() } else { Work::Writes };
            block.wrote |= !block.read_only && !parsed.is_read();
            let mut placed = match block.placed.take() {
                Some(placed) => placed,
                None => match self.open(work, &avoided, by).await? {
                    Ok(placed) => placed,
                    Err(failure) => return Ok(Err(failure)),
                },
            };
            placed.connection.is_for(&self.identity());
            placed.connection.ask(&Request::Run(run.clone()));
            let node = placed.connection.node;
            if placed.is_opening
                && let Some(refused) = self.begun(&mut placed).await?
            {
                match refused {
                    // Nothing has run: another node is as good.
                    Answer::Failed(failure) if failure.sqlstate == ELSEWHERE => {
                        avoided.push(node);
                        if let Err(failure) = self.elsewhere(work, &failure, by).await? {
                            return Ok(Err(failure));
                        }
                    }
                    Answer::Lost(why) => {
                        self.scheduler.lost(node, &why);
                        avoided.push(node);
                        if let Err(failure) = self.elsewhere(work, &gone_before(), by).await? {
                            return Ok(Err(failure));
                        }
                    }
                    Answer::Failed(failure) => return Ok(Err(failure)),
                    Answer::Done(..) => unreachable!("a beginning has no tag"),
                }
                continue;
            }
            return match self.answer(&mut placed, run, rows, Wait::of_statement()).await? {
                Answer::Done(tag, _) => {
                    self.keep(placed);
                    Ok(Ok(tag))
                }
                Answer::Failed(failure) => {
                    self.keep(placed);
                    Ok(Err(for_client(failure)))
                }
                Answer::Lost(why) => {
                    drop(placed);
                    self.scheduler.lost(node, &why);
                    self.lose_block();
                    Ok(Err(node_is_gone()))
                }
            };
        }
    }

    /// A connection with the beginning of the block's transaction, not yet sent.
    async fn open(&mut self, work: Work, avoided: &[usize], by: tokio::time::Instant) -> Outcome<Placed> {
        let Some(block) = &self.block else { return Ok(Err(no_block("the statement"))) };
        let (writes, time_us, seed) = (!block.read_only, block.time_us, block.seed);
        let placed = self.place(work, avoided, by).await?;
        let begin = self.begin_at(writes, time_us, seed);
        let identity = self.identity();
        Ok(placed.map(|mut placed| {
            placed.connection.is_for(&identity);
            placed.connection.ask(&Request::Begin(begin));
            placed.is_opening = true;
            placed
        }))
    }

    /// Takes the answer to the beginning; `None`: it has begun.
    async fn begun(&mut self, placed: &mut Placed) -> Step<Option<Answer>> {
        placed.is_opening = false;
        Ok(match self.reply(placed, &mut Wait::default()).await? {
            Ok(Reply::Begun { at }) => {
                // What the master shows is decided: a later read elsewhere sees it, too.
                self.scheduler.tier.acknowledged(at);
                placed.connection.is_answered();
                None
            }
            Ok(Reply::Failed(failure)) => Some(Answer::Failed(failure)),
            Ok(_) => Some(Answer::Lost("an answer out of order".to_owned())),
            Err(why) => Some(Answer::Lost(why)),
        })
    }

    fn keep(&mut self, placed: Placed) {
        if let Some(block) = &mut self.block {
            block.placed = Some(placed);
        }
    }

    /// The block has failed. Without a savepoint to return to, its transaction ends at the node.
    pub(super) async fn fail_block(&mut self) -> Step<()> {
        if let Some(block) = &mut self.block {
            block.failed = true;
            if block.savepoints.is_empty()
                && let Some(placed) = block.placed.take()
            {
                self.end_at_node(placed).await?;
            }
        }
        Ok(())
    }

    /// The node of the block has gone.
    pub(super) fn lose_block(&mut self) {
        if let Some(block) = &mut self.block {
            block.failed = true;
            block.lost = true;
            block.placed = None;
        }
    }

    async fn end_at_node(&mut self, mut placed: Placed) -> Step<()> {
        placed.connection.ask(&Request::Rollback);
        match self.reply(&mut placed, &mut Wait::default()).await? {
            Ok(Reply::Committed { .. }) => {
                placed.connection.is_answered();
                self.scheduler.give_back(placed);
            }
            Ok(_) => {}
            Err(why) => self.scheduler.lost(placed.connection.node, &why),
        }
        Ok(())
    }

    /// Rolls the block back, and its settings.
    pub(super) async fn roll_back(&mut self) -> Step<()> {
        if let Some(block) = self.block.take() {
            self.settings = block.before;
            if let Some(placed) = block.placed {
                self.end_at_node(placed).await?;
            }
        }
        Ok(())
    }

    /// Commits the block. A failed one is rolled back. Returns the tag.
    pub(super) async fn commit(&mut self) -> Outcome<&'static str> {
        if self.block.as_ref().is_some_and(|block| block.failed) {
            self.roll_back().await?;
            return Ok(Ok("ROLLBACK"));
        }
        let Some(block) = self.block.take() else { return Ok(Ok("COMMIT")) };
        let Some(mut placed) = block.placed else {
            self.settings.end_transaction();
            return Ok(Ok("COMMIT"));
        };
        // Settings of the transaction may have changed since its last statement.
        placed.connection.is_for(&self.identity());
        placed.connection.ask(&Request::Commit);
        let node = placed.connection.node;
        let mut wait = if block.wrote { Wait::of_commit() } else { Wait::default() };
        let failed = match self.reply(&mut placed, &mut wait).await? {
            Ok(Reply::Committed { version }) => {
                placed.connection.is_answered();
                // Before the client hears of it: its next read, wherever it runs, sees the commit.
                self.scheduler.tier.acknowledged(version);
                self.scheduler.give_back(placed);
                None
            }
            Ok(Reply::Failed(failure)) => {
                placed.connection.is_answered();
                self.scheduler.give_back(placed);
                Some(for_client(wait.explain(failure)))
            }
            lost => {
                let why = lost.err().unwrap_or_else(|| "an answer out of order".to_owned());
                drop(placed);
                self.scheduler.lost(node, &why);
                if block.wrote { Some(self.unknown_outcome().await) } else { None }
            }
        };
        Ok(match failed {
            None => {
                self.settings.end_transaction();
                Ok("COMMIT")
            }
            Some(failure) => {
                self.settings = block.before;
                Err(failure)
            }
        })
    }

    /// SAVEPOINT.
    pub(super) async fn savepoint(&mut self, parsed: &Parsed, name: &str, run: &Run) -> Outcome<String> {
        match &self.block {
            Some(block) if block.savepoints.len() >= MAX_SAVEPOINTS => {
                let hint = "RELEASE those that are not needed.";
                return Ok(Err(failure("54000", "too many savepoints", hint)));
            }
            Some(block) if block.kind == Kind::Explicit => {}
            Some(_) | None => return Ok(Err(no_block("SAVEPOINT"))),
        }
        let done = self.inside(parsed, run, &mut Rows::default()).await?;
        if let (Ok(_), Some(block)) = (&done, &mut self.block) {
            block.savepoints.push((name.to_owned(), self.settings.clone()));
        }
        Ok(done)
    }

    /// ROLLBACK TO: the block goes on from there.
    pub(super) async fn roll_back_to(&mut self, parsed: &Parsed, name: &str, run: &Run) -> Outcome<String> {
        let Some(block) = &mut self.block else { return Ok(Err(no_block("ROLLBACK TO SAVEPOINT"))) };
        if block.lost {
            return Ok(Err(node_is_gone()));
        }
        let Some(at) = block.savepoints.iter().rposition(|(known, _)| known == name) else {
            return Ok(Err(no_savepoint(name)));
        };
        let done = self.inside(parsed, run, &mut Rows::default()).await?;
        if let (Ok(_), Some(block)) = (&done, &mut self.block) {
            block.failed = false;
            block.savepoints.truncate(at + 1);
            self.settings = block.savepoints[at].1.clone();
        }
        Ok(done)
    }

    /// RELEASE.
    pub(super) async fn release_savepoint(
        &mut self,
        parsed: &Parsed,
        name: &str,
        run: &Run,
    ) -> Outcome<String> {
        let Some(block) = &mut self.block else { return Ok(Err(no_block("RELEASE SAVEPOINT"))) };
        let Some(at) = block.savepoints.iter().rposition(|(known, _)| known == name) else {
            return Ok(Err(no_savepoint(name)));
        };
        let done = self.inside(parsed, run, &mut Rows::default()).await?;
        if let (Ok(_), Some(block)) = (&done, &mut self.block) {
            block.savepoints.truncate(at);
        }
        Ok(done)
    }
}

fn no_block(command: &str) -> Failure {
    failure("25P01", format!("{command} can only be used in transaction blocks"), "BEGIN opens one.")
}

fn no_savepoint(name: &str) -> Failure {
    failure("3B001", format!("savepoint \"{name}\" does not exist"), "")
}

/// A failure that only another node could avoid ends the client's transaction.
pub(super) fn for_client(refused: Failure) -> Failure {
    if refused.sqlstate != ELSEWHERE {
        return refused;
    }
    let hint = match refused.hint.as_str() {
        "" => "Nothing of the transaction was committed. Run it again.",
        hint => hint,
    };
    failure(SERIALIZATION_FAILURE, refused.message, hint)
}

/// A write in a transaction that reads only.
pub(super) fn read_only(text: &str) -> Failure {
    let command = text.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    let hint = "SET TRANSACTION READ WRITE, or BEGIN without READ ONLY.";
    failure(READ_ONLY, format!("cannot execute {command} in a read-only transaction"), hint)
}

/// A statement in a block that has failed.
pub(super) fn in_failed_block() -> Failure {
    failure("25P02", "current transaction is aborted, commands ignored until end of transaction block", "")
}
