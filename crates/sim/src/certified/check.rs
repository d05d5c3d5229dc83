//! The record of clients at writing nodes, and whether all is right: generalized snapshot isolation, sessions, the first
//! committer, and nodes that come to the same. The oracle is stupid: it compares each commit with all of them.

use super::engine::{Engine, Row, State, Writes};
use crate::checks::{Checker, Violation};
use history::{Consistency, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The end of a transaction, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client has no answer, and has not asked for a commit.
    Open,
    /// The client has asked for a commit, and has no answer.
    Unknown,
    /// The commit was acknowledged at this moment.
    Committed(u64),
    /// The transaction was refused or rolled back.
    Refused,
}

/// One transaction.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) session: u64,
    pub(crate) consistency: Consistency,
    /// The moment before the session has entered its node.
    pub(crate) entered: u64,
    /// The moment before it has begun.
    pub(crate) begun: u64,
    /// The newest version in its snapshot, as the model of its node knows it.
    pub(crate) snapshot: Option<Version>,
    /// The moment after the snapshot was taken.
    pub(crate) taken: Option<u64>,
    /// Rows that it has not written before, with what it has read.
    pub(crate) reads: Vec<(Row, u32)>,
    pub(crate) writes: Writes,
    pub(crate) locks: BTreeSet<Row>,
    pub(crate) end: End,
}

/// Everything of one run.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) transactions: Vec<Transaction>,
    /// Clients that have not ended.
    pub(crate) clients: usize,
    /// Why something could not go on, or what the model has seen itself.
    pub(crate) breaches: Vec<String>,
    moment: u64,
}

impl Record {
    /// The next moment: all moments have one order.
    pub(crate) fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// The model has seen a version out of its order.
    pub(crate) fn breach(&mut self, what: String) {
        self.breaches.push(what);
    }
}

/// The commits in the order of the versions, as the nodes came to them.
struct Order {
    versions: Vec<Writes>,
    /// The rows at each version, zero first.
    states: Vec<State>,
    /// The version that has written a value.
    written: BTreeMap<u32, usize>,
}

impl Order {
    fn new(log: Vec<(Version, Writes)>) -> Order {
        let (mut states, mut written, mut versions) = (vec![State::default()], BTreeMap::new(), Vec::new());
        for (at, (_, writes)) in log.into_iter().enumerate() {
            let mut state = states[at];
            for (row, value) in &writes {
                state[usize::from(*row)] = *value;
                written.insert(*value, at + 1);
            }
            states.push(state);
            versions.push(writes);
        }
        Order { versions, states, written }
    }

    /// The version of a transaction, if it is there.
    fn version(&self, transaction: &Transaction) -> Option<usize> {
        transaction.writes.values().next().and_then(|value| self.written.get(value)).copied()
    }
}

/// Everything that is wrong. `newest` is the newest version that Consort knows.
pub(crate) fn check(record: &Record, engines: &[Rc<Engine>], newest: Version) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |checker, what: String| found.push(Violation { checker, what });
    record.breaches.iter().for_each(|what| say(Checker::Versions, what.clone()));
    if record.clients > 0 {
        say(Checker::K7, format!("{} clients have not ended", record.clients));
    }
    let log = engines.iter().map(|engine| engine.log()).max_by_key(Vec::len).unwrap_or_default();
    for engine in engines {
        let (node, shown) = (engine.number, engine.shown());
        if shown != newest {
            say(Checker::K7, format!("node {node} shows {shown} and not {newest}"));
        }
        if engine.log() != log || engine.state() != engines[0].state() {
            say(Checker::Nodes, format!("node {node} has other rows than the others"));
        }
    }
    let order = Order::new(log);
    found.extend(order_of_transactions(record, &order));
    found
}

fn order_of_transactions(record: &Record, order: &Order) -> Vec<Violation> {
    let mut found = Vec::new();
    let places: Vec<Option<usize>> =
        record.transactions.iter().map(|transaction| order.version(transaction)).collect();
    let promises = Promises::new(record, &places);
    for (at, transaction) in record.transactions.iter().enumerate() {
        let mut say = |checker, what: String| {
            found.push(Violation { checker, what: format!("{what}: {transaction:?}") });
        };
        match (places[at], transaction.end) {
            (None, End::Committed(_)) if !transaction.writes.is_empty() => {
                say(Checker::Lost, "an acknowledged commit is lost".to_owned());
            }
            (Some(version), End::Open | End::Refused) => {
                say(Checker::Lost, format!("v{version} was refused, or no commit was asked for"));
            }
            (Some(version), _) if order.versions[version - 1] != transaction.writes => {
                say(Checker::Lost, format!("v{version} has a part of the transaction"));
            }
            _ => {}
        }
        let Some(snapshot) = transaction.snapshot else { continue };
        let shown = usize::try_from(snapshot.get()).expect("few versions");
        let Some(state) = order.states.get(shown) else {
            say(Checker::Snapshots, "the snapshot shows what no node has".to_owned());
            continue;
        };
        if let Some((row, _)) =
            transaction.reads.iter().find(|(row, value)| state[usize::from(*row)] != *value)
        {
            say(Checker::Snapshots, format!("row {row} is not that of {snapshot}"));
        }
        let owed = promises.owed(transaction);
        if shown < owed {
            say(Checker::Sessions, format!("the snapshot {snapshot} does not show v{owed}"));
        }
        if let Some(version) = places[at]
            && let Some(other) = overwritten(record, order, &places, transaction, shown..version)
        {
            say(Checker::FirstCommitter, format!("v{version} overwrites v{other}, which {snapshot} lacks"));
        }
    }
    found
}

/// The commit after the snapshot and before the version that touches what the transaction touches.
fn overwritten(
    record: &Record,
    order: &Order,
    places: &[Option<usize>],
    transaction: &Transaction,
    between: std::ops::Range<usize>,
) -> Option<usize> {
    let touches = |writes: &Writes, locks: &BTreeSet<Row>| {
        writes.keys().any(|row| transaction.writes.contains_key(row) || transaction.locks.contains(row))
            || locks.iter().any(|row| transaction.writes.contains_key(row) || transaction.locks.contains(row))
    };
    let none = BTreeSet::new();
    between.map(|before| before + 1).take_while(|version| Some(*version) != order.version(transaction)).find(
        |version| {
            let other = places.iter().position(|place| *place == Some(*version));
            let locks = other.map_or(&none, |at| &record.transactions[at].locks);
            touches(&order.versions[version - 1], locks)
        },
    )
}

/// Acknowledged commits and snapshots, each with its moment and its session.
struct Promises {
    /// Moment, version, session.
    acknowledged: Vec<(u64, usize, u64)>,
    /// Moment after the snapshot was taken, its version, session.
    snapshots: Vec<(u64, usize, u64)>,
}

impl Promises {
    fn new(record: &Record, places: &[Option<usize>]) -> Promises {
        let all = || record.transactions.iter().zip(places);
        let acknowledged = all().filter_map(|(transaction, place)| match transaction.end {
            End::Committed(moment) => Some((moment, (*place)?, transaction.session)),
            End::Open | End::Unknown | End::Refused => None,
        });
        let snapshots = all().filter_map(|(transaction, _)| {
            let version = usize::try_from(transaction.snapshot?.get()).expect("few versions");
            Some((transaction.taken?, version, transaction.session))
        });
        Promises { acknowledged: acknowledged.collect(), snapshots: snapshots.collect() }
    }

    /// The version that the snapshot of a transaction must show.
    fn owed(&self, transaction: &Transaction) -> usize {
        let Transaction { session, consistency, entered, begun, .. } = transaction;
        let own = self.acknowledged.iter().filter(|(moment, _, by)| by == session && moment < begun);
        let before = self.acknowledged.iter().filter(|(moment, ..)| match consistency {
            Consistency::Strong => moment < begun,
            _ => moment < entered,
        });
        // What a session has seen it sees again: it stays at its node. A strong one sees what anybody has seen.
        let is_strong = *consistency == Consistency::Strong;
        let seen =
            self.snapshots.iter().filter(|(moment, _, by)| (is_strong || by == session) && moment < begun);
        let promised = own.chain(before).map(|one| one.1);
        let promised = if *consistency == Consistency::Weak { 0 } else { promised.max().unwrap_or(0) };
        promised.max(seen.map(|one| one.1).max().unwrap_or(0))
    }
}
