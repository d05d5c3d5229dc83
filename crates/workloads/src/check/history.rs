//! Log of the clients of a list-append run: the checker's only input. One transaction is one line of JSON in
//! a file, so that a log can be cut, repaired and compared by ordinary tools.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead, Write};

/// A list in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub u32);

/// An appended element; no two appends of a run append the same value to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(pub u32);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// The value was put at the end of the key's list.
    #[serde(rename = "a")]
    Append(Key, Value),
    /// The whole list was read, oldest element first.
    #[serde(rename = "r")]
    Read(Key, Vec<Value>),
}

/// The client's knowledge of a transaction's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The server said that it is committed.
    #[serde(rename = "ok")]
    Committed,
    /// The server said that it is not, or COMMIT was never sent.
    #[serde(rename = "fail")]
    Failed,
    /// The answer to COMMIT was lost. It counts as committed if one of its values was read.
    #[serde(rename = "info")]
    Unknown,
}

/// One transaction as its client saw it. Times are nanoseconds since the start of the run, of one clock for all clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// The session: it runs one transaction at a time, and ends with a transaction of unknown outcome.
    #[serde(rename = "p")]
    pub process: u32,
    /// Time at which the first byte was sent.
    #[serde(rename = "b")]
    pub began: u64,
    /// Time of the last answer (for an unknown outcome: the time when the client gave up; the transaction may
    /// end later).
    #[serde(rename = "e")]
    pub ended: u64,
    /// Outcome of the transaction.
    #[serde(rename = "o")]
    pub outcome: Outcome,
    /// Its steps in the order in which they ran.
    #[serde(rename = "ops")]
    pub operations: Vec<Operation>,
}

/// All transactions of a run, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The transactions; an anomaly names them by their index here.
    pub transactions: Vec<Transaction>,
}

/// A line of a log that is not a transaction.
#[derive(Debug, thiserror::Error)]
pub enum ParseHistoryError {
    /// The file cannot be read.
    #[error("cannot read the history: {0}")]
    Unreadable(#[from] std::io::Error),
    /// A line does not follow the format.
    #[error("line {line} of the history: {problem}")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// The JSON reader's error.
        problem: serde_json::Error,
    },
}

impl History {
    /// Reads a log: one JSON object per line, empty lines skipped.
    ///
    /// # Errors
    /// The source fails or a line is not a transaction.
    pub fn read(source: impl BufRead) -> Result<History, ParseHistoryError> {
        let mut transactions = Vec::new();
        for (index, line) in source.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let transaction = serde_json::from_str(&line)
                .map_err(|problem| ParseHistoryError::Malformed { line: index + 1, problem })?;
            transactions.push(transaction);
        }
        Ok(History { transactions })
    }

    /// Writes the log in the format that `read` takes.
    ///
    /// # Errors
    /// The target fails.
    pub fn write(&self, mut target: impl Write) -> std::io::Result<()> {
        for transaction in &self.transactions {
            serde_json::to_writer(&mut target, transaction)?;
            target.write_all(b"\n")?;
        }
        target.flush()
    }

    /// Number of transactions with this outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.transactions.iter().filter(|transaction| transaction.outcome == outcome).count()
    }

    /// The part of the history that touches one key only, for every key: each transaction keeps its
    /// operations on that key. Properties of single keys (linearizability) may be judged per key.
    #[must_use]
    pub fn by_key(&self) -> std::collections::BTreeMap<Key, History> {
        let mut parts = std::collections::BTreeMap::<Key, History>::new();
        for transaction in &self.transactions {
            let mut of_key = std::collections::BTreeMap::<Key, Vec<Operation>>::new();
            for operation in &transaction.operations {
                of_key.entry(operation.key()).or_default().push(operation.clone());
            }
            for (key, operations) in of_key {
                let part = Transaction { operations, ..transaction.clone() };
                parts.entry(key).or_default().transactions.push(part);
            }
        }
        parts
    }
}

impl Operation {
    /// The key that it touches.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Operation::Append(key, _) | Operation::Read(key, _) => *key,
        }
    }
}
