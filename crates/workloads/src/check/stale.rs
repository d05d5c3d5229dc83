//! Number of stale reads: the cycles of `check` show one example of each kind of break of the real-time
//! order, and no more.

use super::history::{History, Key, Operation, Outcome, Value};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of reads of committed transactions that began in this time and miss an append. The append's
/// transaction had committed, with its last answer, before they began.
#[must_use]
pub fn stale_reads(history: &History, began_in: Range<u64>) -> usize {
    let committed = || history.transactions.iter().filter(|one| one.outcome == Outcome::Committed);
    let mut appended = BTreeMap::<Key, Vec<(Value, u64)>>::new();
    for transaction in committed() {
        for operation in &transaction.operations {
            if let Operation::Append(key, value) = operation {
                appended.entry(*key).or_default().push((*value, transaction.ended));
            }
        }
    }
    let is_stale = |began: u64, operation: &Operation| match operation {
        Operation::Append(..) => false,
        Operation::Read(key, list) => {
            let of_key = appended.get(key).map_or(&[][..], Vec::as_slice);
            of_key.iter().any(|(value, ended)| *ended < began && !list.contains(value))
        }
    };
    committed()
        .filter(|reader| began_in.contains(&reader.began))
        .map(|reader| reader.operations.iter().filter(|operation| is_stale(reader.began, operation)).count())
        .sum()
}
