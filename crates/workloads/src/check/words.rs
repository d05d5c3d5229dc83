//! Cycles in words, so that a person can follow each step back to the log.

use super::graph::{Edge, Reason};
use super::history::{History, Operation, Outcome};
use super::observed::shown;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The transactions of a cycle, each once, and then each step with its reason.
pub(crate) fn tell(history: &History, cycle: &[Edge]) -> String {
    let mut words = String::from("Let\n");
    let mut named = BTreeSet::new();
    for edge in cycle {
        if named.insert(edge.from) {
            describe(history, edge.from as usize, &mut words);
        }
    }
    words.push_str("Then\n");
    for (number, edge) in cycle.iter().enumerate() {
        let last = if number + 1 == cycle.len() { ": a contradiction!" } else { "," };
        writeln!(words, "  T{} comes before T{}, for {}{last}", edge.from, edge.to, reason(edge))
            .expect("a String takes all");
    }
    words.truncate(words.trim_end().len());
    words
}

fn describe(history: &History, index: usize, words: &mut String) {
    let transaction = &history.transactions[index];
    let operations: Vec<String> = transaction
        .operations
        .iter()
        .map(|operation| match operation {
            Operation::Append(key, value) => format!("append {value} to key {key}"),
            Operation::Read(key, list) => format!("read key {key} as {}", shown(list)),
        })
        .collect();
    let end = match transaction.outcome {
        Outcome::Committed => "committed",
        Outcome::Failed => "failed",
        Outcome::Unknown => "unknown outcome, but it was read",
    };
    writeln!(
        words,
        "  T{index} = session {}, {} to {} ms, {end}: {}",
        transaction.process,
        milliseconds(transaction.began),
        milliseconds(transaction.ended),
        operations.join("; ")
    )
    .expect("a String takes all");
}

fn reason(edge: &Edge) -> String {
    let Edge { from, to, reason } = edge;
    match reason {
        Reason::WriteWrite { key, before, after } => {
            format!("T{to} appended {after} to key {key} after T{from} appended {before} (ww)")
        }
        Reason::WriteRead { key, value } => {
            format!("T{to} read {value}, which T{from} appended to key {key} (wr)")
        }
        Reason::ReadWrite { key, length: 0, next } => {
            format!("T{from} found key {key} empty and did not see {next}, which T{to} appended (rw)")
        }
        Reason::ReadWrite { key, length, next } => {
            format!(
                "T{from} read {length} elements of key {key} and did not see {next}, which T{to} appended (rw)"
            )
        }
        Reason::Session => format!("session order: the session ran T{from} first"),
        Reason::RealTime => format!("T{from} had ended when T{to} began (real time)"),
    }
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1_000_000, nanoseconds / 1_000 % 1_000)
}
