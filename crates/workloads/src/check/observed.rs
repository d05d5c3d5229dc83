//! Facts that the reads show: the order of each key's elements, the writer of each, transactions of unknown
//! outcome that were committed after all, and every fault of a single read.

use super::anomaly::{Anomaly, Class, Order};
use super::history::{History, Key, Operation, Outcome, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The transaction that appended a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) transaction: usize,
    /// True if the transaction appended to the same key again afterwards.
    pub(crate) intermediate: bool,
}

/// The facts that need no graph.
pub(crate) struct Observed {
    /// The longest list read of each key.
    pub(crate) lists: BTreeMap<Key, Vec<Value>>,
    pub(crate) writers: BTreeMap<(Key, Value), Writer>,
    /// True for each transaction that counts as committed.
    pub(crate) lives: Vec<bool>,
    pub(crate) faults: Vec<Anomaly>,
}

impl Observed {
    pub(crate) fn of(history: &History) -> Observed {
        let writers = writers(history);
        let lives = living(history, &writers);
        let mut observed = Observed { lists: BTreeMap::new(), writers, lives, faults: Vec::new() };
        observed.take_longest(history);
        for (index, transaction) in history.transactions.iter().enumerate() {
            if observed.lives[index] {
                observed.look_at_reads(history, index, transaction);
                observed.look_at_own_appends(index, transaction);
            }
        }
        observed
    }

    fn take_longest(&mut self, history: &History) {
        for (index, transaction) in history.transactions.iter().enumerate() {
            for operation in &transaction.operations {
                let Operation::Read(key, list) = operation else { continue };
                let longest = self.lists.entry(*key).or_default();
                if self.lives[index] && list.len() > longest.len() {
                    longest.clone_from(list);
                }
            }
        }
    }

    fn look_at_reads(&mut self, history: &History, index: usize, transaction: &Transaction) {
        for operation in &transaction.operations {
            let Operation::Read(key, list) = operation else { continue };
            self.look_at_elements(history, index, *key, list);
            let longest = &self.lists[key];
            if !longest.starts_with(list) {
                let words = format!(
                    "T{index} read key {key} as {}, but another read says {}: neither is a prefix of the other",
                    shown(list),
                    shown(longest)
                );
                self.fault(Class::IncompatibleOrder, vec![index], words);
            }
        }
    }

    fn look_at_elements(&mut self, history: &History, index: usize, key: Key, list: &[Value]) {
        let mut seen = BTreeSet::new();
        for value in list {
            if !seen.insert(*value) {
                let words = format!("T{index} read key {key} as {}: {value} occurs twice", shown(list));
                self.fault(Class::Duplicate, vec![index], words);
            }
            match self.writers.get(&(key, *value)) {
                None => {
                    let words = format!("T{index} read {value} in key {key}, which no transaction appended");
                    self.fault(Class::NeverAppended, vec![index], words);
                }
                Some(writer) if history.transactions[writer.transaction].outcome == Outcome::Failed => {
                    let words = format!(
                        "T{index} read {value} in key {key}, and its writer T{} failed",
                        writer.transaction
                    );
                    let pair = vec![index, writer.transaction];
                    self.fault(Class::G1a, pair, words);
                }
                Some(_) => {}
            }
        }
        let Some(last) = list.last() else { return };
        let Some(writer) = self.writers.get(&(key, *last)).copied() else { return };
        if writer.intermediate && writer.transaction != index {
            let words = format!(
                "T{index} read key {key} as {}, and T{} appended more to it after {last}",
                shown(list),
                writer.transaction
            );
            self.fault(Class::G1b, vec![index, writer.transaction], words);
        }
    }

    /// A read after own appends must end with them: the row is locked from the first append on.
    fn look_at_own_appends(&mut self, index: usize, transaction: &Transaction) {
        let mut own = BTreeMap::<Key, Vec<Value>>::new();
        for operation in &transaction.operations {
            match operation {
                Operation::Append(key, value) => own.entry(*key).or_default().push(*value),
                Operation::Read(key, list) => {
                    let expected = own.get(key).map_or(&[][..], Vec::as_slice);
                    if !list.ends_with(expected) {
                        let words = format!(
                            "T{index} appended {} to key {key} and then read {}",
                            shown(expected),
                            shown(list)
                        );
                        self.fault(Class::Internal, vec![index], words);
                    }
                }
            }
        }
    }

    fn fault(&mut self, class: Class, transactions: Vec<usize>, words: String) {
        self.faults.push(Anomaly { class, order: Order::Data, transactions, words });
    }
}

fn writers(history: &History) -> BTreeMap<(Key, Value), Writer> {
    let mut writers = BTreeMap::new();
    for (transaction, record) in history.transactions.iter().enumerate() {
        let mut last = BTreeMap::<Key, Value>::new();
        for operation in &record.operations {
            let Operation::Append(key, value) = operation else { continue };
            writers.insert((*key, *value), Writer { transaction, intermediate: false });
            if let Some(before) = last.insert(*key, *value)
                && let Some(writer) = writers.get_mut(&(*key, before))
            {
                writer.intermediate = true;
            }
        }
    }
    writers
}

/// Committed transactions, and those of unknown outcome of which a living transaction read a value.
fn living(history: &History, writers: &BTreeMap<(Key, Value), Writer>) -> Vec<bool> {
    let transactions = &history.transactions;
    let mut lives: Vec<bool> = transactions.iter().map(|t| t.outcome == Outcome::Committed).collect();
    let mut to_look_at: Vec<usize> = (0..transactions.len()).filter(|&index| lives[index]).collect();
    while let Some(index) = to_look_at.pop() {
        for operation in &transactions[index].operations {
            let Operation::Read(key, list) = operation else { continue };
            for value in list {
                let Some(writer) = writers.get(&(*key, *value)) else { continue };
                if !lives[writer.transaction] && transactions[writer.transaction].outcome == Outcome::Unknown
                {
                    lives[writer.transaction] = true;
                    to_look_at.push(writer.transaction);
                }
            }
        }
    }
    lives
}

/// A list for people: `[1 2 3]`, shortened in the middle.
pub(crate) fn shown(list: &[Value]) -> String {
    let text = |part: &[Value]| part.iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    if list.len() <= 12 {
        return format!("[{}]", text(list));
    }
    format!("[{} .. {}] ({} elements)", text(&list[..3]), text(&list[list.len() - 5..]), list.len())
}
