//! Draws the graph: the dependencies that the data shows, the order within sessions, the order of real time.

use super::graph::{Graph, Reason};
use super::history::{History, Key, Operation, Outcome, Transaction, Value};
use super::observed::Observed;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn draw(history: &History, observed: &Observed) -> Graph {
    let mut graph = Graph::new(history.transactions.len());
    let unread = unread(history, observed);
    draw_writes(observed, &unread, &mut graph);
    for (index, transaction) in history.transactions.iter().enumerate() {
        if observed.lives[index] {
            draw_reads(observed, &unread, index, transaction, &mut graph);
        }
    }
    draw_sessions(history, observed, &mut graph);
    draw_real_time(history, observed, &mut graph);
    graph
}

/// Values of committed transactions that no read shows. They come after the longest list, in an unknown
/// order. A transaction of unknown outcome is left out: its other values may have been read, but then so
/// lives this one.
fn unread(history: &History, observed: &Observed) -> BTreeMap<Key, Vec<(Value, usize)>> {
    let read: BTreeSet<(Key, Value)> =
        observed.lists.iter().flat_map(|(key, list)| list.iter().map(|value| (*key, *value))).collect();
    let mut unread = BTreeMap::<Key, Vec<(Value, usize)>>::new();
    for (index, transaction) in history.transactions.iter().enumerate() {
        for operation in &transaction.operations {
            if let Operation::Append(key, value) = operation
                && observed.lives[index]
                && !read.contains(&(*key, *value))
            {
                unread.entry(*key).or_default().push((*value, index));
            }
        }
    }
    unread
}

fn draw_writes(observed: &Observed, unread: &BTreeMap<Key, Vec<(Value, usize)>>, graph: &mut Graph) {
    let writer =
        |key: Key, value: Value| observed.writers.get(&(key, value)).map(|writer| writer.transaction);
    for (key, list) in &observed.lists {
        for pair in list.windows(2) {
            if let (Some(from), Some(to)) = (writer(*key, pair[0]), writer(*key, pair[1])) {
                graph.add(from, to, Reason::WriteWrite { key: *key, before: pair[0], after: pair[1] });
            }
        }
        let Some(last) = list.last() else { continue };
        let Some(from) = writer(*key, *last) else { continue };
        for (value, to) in unread.get(key).into_iter().flatten() {
            graph.add(from, *to, Reason::WriteWrite { key: *key, before: *last, after: *value });
        }
    }
}

/// The edges of one transaction's reads. A read after own appends says nothing that the order of writes does not say.
fn draw_reads(
    observed: &Observed,
    unread: &BTreeMap<Key, Vec<(Value, usize)>>,
    reader: usize,
    transaction: &Transaction,
    graph: &mut Graph,
) {
    let mut appended = BTreeSet::new();
    for operation in &transaction.operations {
        let (key, read) = match operation {
            Operation::Append(key, _) => {
                appended.insert(*key);
                continue;
            }
            Operation::Read(key, _) if appended.contains(key) => continue,
            Operation::Read(key, read) => (*key, read),
        };
        let writer = |value: Value| observed.writers.get(&(key, value)).map(|writer| writer.transaction);
        if let Some(value) = read.last()
            && let Some(from) = writer(*value)
        {
            graph.add(from, reader, Reason::WriteRead { key, value: *value });
        }
        let length = read.len();
        if let Some(next) = observed.lists[&key].get(length) {
            if let Some(to) = writer(*next) {
                graph.add(reader, to, Reason::ReadWrite { key, length: count(length), next: *next });
            }
            continue;
        }
        for (next, to) in unread.get(&key).into_iter().flatten() {
            graph.add(reader, *to, Reason::ReadWrite { key, length: count(length), next: *next });
        }
    }
}

fn draw_sessions(history: &History, observed: &Observed, graph: &mut Graph) {
    let mut newest = BTreeMap::<u32, usize>::new();
    for index in in_order_of(history, observed, |transaction| transaction.began) {
        let transaction = &history.transactions[index];
        if let Some(before) = newest.insert(transaction.process, index)
            && history.transactions[before].outcome == Outcome::Committed
        {
            graph.add(before, index, Reason::Session);
        }
    }
}

/// The transitive reduction of "ended before the other began": a sweep over time that keeps a frontier, the ended
/// transactions that nothing ended yet comes after. A transaction that begins comes after the frontier; when it ends it
/// takes the place of those.
fn draw_real_time(history: &History, observed: &Observed, graph: &mut Graph) {
    let begins = in_order_of(history, observed, |transaction| transaction.began);
    let ends = in_order_of(history, observed, |transaction| transaction.ended);
    let mut ends = ends
        .into_iter()
        .filter(|&index| history.transactions[index].outcome == Outcome::Committed)
        .peekable();
    let mut frontier = BTreeSet::<usize>::new();
    let mut before = BTreeMap::<usize, Vec<usize>>::new();
    for beginning in begins {
        let now = history.transactions[beginning].began;
        while let Some(ended) = ends.next_if(|&index| history.transactions[index].ended < now) {
            for covered in before.remove(&ended).into_iter().flatten() {
                frontier.remove(&covered);
            }
            frontier.insert(ended);
        }
        for &ended in &frontier {
            graph.add(ended, beginning, Reason::RealTime);
        }
        if history.transactions[beginning].outcome == Outcome::Committed {
            before.insert(beginning, frontier.iter().copied().collect());
        }
    }
}

fn in_order_of(history: &History, observed: &Observed, time: impl Fn(&Transaction) -> u64) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..history.transactions.len()).filter(|&index| observed.lives[index]).collect();
    order.sort_by_key(|&index| time(&history.transactions[index]));
    order
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("values are unique numbers of 32 bits, so no list has more")
}
