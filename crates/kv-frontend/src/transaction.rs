//! One transaction of a session: reads and writes of keys, and the ways in which it ends.

use crate::problem::Problem;
use bytes::Bytes;
use cells::{Begin, Consistency, Error, Transaction};
use std::collections::BTreeSet;
use stores::KeyRange;

/// Commits that a transaction sees at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The own ones, and those of others that it has seen.
    Session,
    /// All that any client was told of.
    Strong,
    /// No certain ones: some state, without a wait.
    Snapshot,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Session => "session",
            Level::Strong => "strong",
            Level::Snapshot => "snapshot",
        }
    }

    pub(crate) fn named(name: &[u8]) -> Option<Level> {
        let levels = [Level::Session, Level::Strong, Level::Snapshot];
        levels.into_iter().find(|level| name.eq_ignore_ascii_case(level.name().as_bytes()))
    }

    /// Parameters of a transaction. `token`: the newest commit that the session knows of.
    pub(crate) fn begin(self, read_only: bool, token: u64) -> Begin {
        let consistency = match self {
            Level::Session => Consistency::Session(token),
            Level::Strong => Consistency::Strong,
            Level::Snapshot => Consistency::Snapshot,
        };
        Begin { read_only, consistency }
    }
}

/// Why a command has no reply of its own.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The command is wrong. The transaction goes on.
    Command(Problem),
    /// Another transaction was first, with this commit timestamp or a smaller one. This one has left nothing.
    Conflict(u64),
    /// The transaction is over.
    Ended(Error),
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        Fault::Command(problem)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Conflict { with, .. } => Fault::Conflict(with),
            error if is_of_command(&error) => Fault::Command(in_words(&error)),
            error => Fault::Ended(error),
        }
    }
}

/// True if the error concerns one command, and the transaction goes on.
fn is_of_command(error: &Error) -> bool {
    matches!(error, Error::ReadOnly | Error::Invalid { .. } | Error::Store(_))
}

impl Fault {
    /// The commit that the snapshot of a repetition must show, if the transaction has left nothing and may run again.
    pub(crate) fn repeat_after(&self) -> Option<u64> {
        match self {
            Fault::Conflict(with) => Some(*with),
            Fault::Ended(Error::SnapshotTooOld { start, .. }) => Some(*start),
            Fault::Command(_) | Fault::Ended(_) => None,
        }
    }

    /// The error for the client.
    pub(crate) fn problem(self) -> Problem {
        match self {
            Fault::Command(problem) => problem,
            Fault::Conflict(_) => Problem::coded(
                "CONFLICT",
                "another transaction has written a key of this one, which was rolled back; run it again from its BEGIN",
            ),
            Fault::Ended(error) => in_words(&error),
        }
    }
}

/// An error with its code, the reason and the remedy. The codes are those of the manual.
pub(crate) fn in_words(error: &Error) -> Problem {
    let code = match error {
        Error::Conflict { .. } => "CONFLICT",
        Error::SnapshotTooOld { .. } => "TOOOLD",
        Error::ReadOnly => "READONLY",
        Error::Invalid { .. } => "ERR",
        Error::Busy { .. } => "BUSY",
        Error::NotVisible { .. } => "NOTVISIBLE",
        Error::Ledger(_) | Error::StoreTaken { .. } | Error::Folder { .. } | Error::Closed => "UNKNOWN",
        Error::Store(_) => "UNAVAILABLE",
    };
    Problem::coded(code, format!("{error}; {}", error.hint()))
}

/// An open transaction.
pub(crate) struct Keys {
    transaction: Transaction,
    /// Keys that were read, if they are to be unchanged at the commit.
    reads: Option<BTreeSet<Bytes>>,
}

impl Keys {
    pub(crate) fn new(transaction: Transaction) -> Keys {
        Keys { transaction, reads: None }
    }

    pub(crate) fn start(&self) -> u64 {
        self.transaction.start()
    }

    /// From now on the commit requires that no key that is read has changed. Keys of scans do not count.
    pub(crate) fn guard_reads(&mut self) {
        self.reads = Some(BTreeSet::new());
    }

    /// The commit requires that no other transaction has written this key after `since`.
    pub(crate) fn guard(&mut self, key: &Bytes, since: u64) -> Result<(), Fault> {
        Ok(self.transaction.require_unchanged(key.clone(), since)?)
    }

    pub(crate) async fn get(&mut self, key: &Bytes) -> Result<Option<Bytes>, Fault> {
        if let Some(reads) = &mut self.reads {
            reads.insert(key.clone());
        }
        Ok(self.transaction.get(key).await?)
    }

    pub(crate) fn put(&mut self, key: &Bytes, value: &Bytes) -> Result<(), Fault> {
        Ok(self.transaction.put(key.clone(), value.clone())?)
    }

    /// Sets pairs of key and value: all of them, or none if one is invalid.
    pub(crate) fn put_all(&mut self, pairs: &[Bytes]) -> Result<(), Fault> {
        let pairs = pairs.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        Ok(self.transaction.put_all(pairs)?)
    }

    pub(crate) fn delete(&mut self, key: &Bytes) -> Result<(), Fault> {
        Ok(self.transaction.delete(key.clone())?)
    }

    pub(crate) async fn scan(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        Ok(self.transaction.scan(range.clone(), limit).await?)
    }

    /// Commits; the timestamp from which on others see it.
    pub(crate) async fn commit(mut self) -> Result<u64, Fault> {
        let start = self.start();
        for key in self.reads.take().unwrap_or_default() {
            self.guard(&key, start)?;
        }
        match self.transaction.commit().await {
            Ok(committed) => Ok(committed.timestamp),
            Err(Error::Conflict { with, .. }) => Err(Fault::Conflict(with)),
            Err(error) => Err(Fault::Ended(error)),
        }
    }

    /// Ends the transaction without a trace; the state that it has seen.
    pub(crate) fn roll_back(self) -> u64 {
        let start = self.start();
        self.transaction.rollback();
        start
    }
}
