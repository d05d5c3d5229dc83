//! Whether all is right: the query log, applied to an empty store, is the one order that explains every answer. The oracle knows
//! nothing of epochs, members and tags.

use super::World;
use super::writer::{LISTS, Lists, list};
use crate::checks::{Checker, Violation};
use pages::{Options, Policy, Store, View, WriteSet};

/// The end of an operation, as its client knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// No answer, or one that leaves the outcome open.
    #[default]
    Unknown,
    /// Acknowledged.
    Done {
        /// The version that it has made or read.
        version: u64,
        /// The moment after the answer.
        moment: u64,
    },
    /// Nothing was changed.
    Refused,
}

/// An operation of a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// The moment before it has begun.
    pub(crate) begun: u64,
    /// List and item that it appends, if it writes; true: also to the first list.
    pub(crate) append: Option<(u32, u32, bool)>,
    /// The lists that it has read: those of its version, or before its own append.
    pub(crate) lists: Option<Lists>,
    pub(crate) end: End,
}

/// A finding about waits.
pub(crate) fn waits(what: String) -> Violation {
    Violation { checker: Checker::K7, what }
}

/// All findings.
pub(crate) fn check(world: &World) -> Vec<Violation> {
    let breaches = world.nodes.iter().filter_map(|node| node.breach.borrow().clone());
    let mut found: Vec<Violation> =
        breaches.map(|what| Violation { checker: Checker::Versions, what }).collect();
    let (store, states) = match replayed(&world.disk.log.borrow()) {
        Ok(replayed) => replayed,
        Err(what) => return vec![Violation { checker: Checker::Versions, what }],
    };
    found.extend(nodes(world, &store));
    let record = world.record.borrow();
    let acknowledged = acknowledged(&record);
    for operation in record.iter() {
        found.extend(one(operation, &states));
        found.extend(order(operation, &acknowledged));
    }
    found
}

/// The lists at each version of the log.
fn replayed(log: &[Vec<u8>]) -> Result<(Store, Vec<Lists>), String> {
    let store = Store::new(Options { policy: Policy::Keep, max_bytes: usize::MAX });
    let mut states = vec![vec![Vec::new(); LISTS as usize]];
    for bytes in log {
        let set = WriteSet::decode(bytes).map_err(|error| error.to_string())?;
        store.receive(set).map_err(|gap| format!("the log has a gap: {gap}"))?;
        let view = View::begin(&store, store.received()).map_err(|error| error.to_string())?;
        states.push((0..LISTS).map(|place| list(&view, place).expect("one reader")).collect());
    }
    Ok((store, states))
}

/// At rest all nodes have what the log has.
fn nodes(world: &World, store: &Store) -> Option<Violation> {
    let newest = store.received();
    let hash = store.hash(newest).expect("the newest version is held");
    world.nodes.iter().filter(|node| node.is_up() && !node.stalls.get()).find_map(|node| {
        let has = node.store().received();
        let same = has == newest && node.store().hash(newest).is_ok_and(|other| other == hash);
        let what = format!("{} has other pages at version {has} than the log at {newest}", node.name());
        (!same).then_some(Violation { checker: Checker::Nodes, what })
    })
}

/// The answer of one operation is that of its version.
fn one(operation: &Operation, states: &[Lists]) -> Option<Violation> {
    let lost = |what: String| Some(Violation { checker: Checker::Lost, what });
    let (has, item) = match operation.append {
        None => (false, 0),
        Some((place, item, _)) => {
            let newest = states.last().expect("version 0");
            let times = newest[place as usize].iter().filter(|one| **one == item).count();
            if times > 1 {
                return lost(format!("item {item} is there {times} times"));
            }
            (times == 1, item)
        }
    };
    match operation.end {
        End::Refused if has => return lost(format!("item {item} was refused and is there")),
        End::Done { .. } if operation.append.is_some() && !has => {
            return lost(format!("item {item} was acknowledged and is not there"));
        }
        _ => {}
    }
    let End::Done { version, .. } = operation.end else { return None };
    let before = version.checked_sub(u64::from(operation.append.is_some()))?;
    let state = states.get(usize::try_from(before).expect("few versions"));
    let lists = operation.lists.as_ref()?;
    let what = || format!("version {before} was read as {lists:?} and is {state:?}");
    (state != Some(lists)).then(|| Violation { checker: Checker::Snapshots, what: what() })
}

/// The newest acknowledged version after each answer: the answers' moments ascend.
fn acknowledged(record: &[Operation]) -> Vec<(u64, u64)> {
    let mut answers: Vec<(u64, u64)> = record
        .iter()
        .filter_map(|operation| match operation.end {
            End::Done { version, moment } => Some((moment, version)),
            End::Unknown | End::Refused => None,
        })
        .collect();
    answers.sort_unstable();
    let mut newest = 0;
    for (_, version) in &mut answers {
        newest = newest.max(*version);
        *version = newest;
    }
    answers
}

/// An operation is not older than what was acknowledged before it has begun.
fn order(operation: &Operation, acknowledged: &[(u64, u64)]) -> Option<Violation> {
    let End::Done { version, .. } = operation.end else { return None };
    let before = acknowledged.partition_point(|(moment, _)| *moment < operation.begun);
    let (_, newest) = *acknowledged[..before].last()?;
    let what = format!("version {version} after {newest} was acknowledged");
    (version < newest).then_some(Violation { checker: Checker::K1, what })
}
