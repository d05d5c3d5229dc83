//! The master's line of versions: made by one writer, received by every member, shown in their order.
//!
//! ```text
//!    kept      811 812 813 814 815      encoded, for subscribers that connect again
//!    pending               814 815      not received by every member yet
//!    shown             ^                made  ^
//! ```

use crate::Version;
use crate::bugs::{Bug, Bugs};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The name under which the query log subscribes.
const LOG: &str = "log";

/// The line. Write sets are of type `S`, encoded ones of type `E`. Invariant: `shown <= made`, and `pending` are the versions between.
#[derive(Debug)]
pub struct Line<S, E> {
    /// The master's epoch; `None`: the node is no master.
    epoch: Option<u64>,
    members: BTreeSet<String>,
    /// The newest version of each subscriber, and the number of its subscription.
    has: BTreeMap<String, (u64, Version)>,
    subscriptions: u64,
    pending: VecDeque<(Version, S)>,
    /// Version, encoded write set, its bytes.
    kept: VecDeque<(Version, Arc<E>, usize)>,
    kept_bytes: usize,
    /// Bytes of shown write sets that are kept, at most.
    limit: usize,
    made: Version,
    shown: Version,
    bugs: Bugs,
}

/// The next step of a subscription.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<E> {
    /// These write sets; none: there is nothing new.
    Sets(Vec<(Version, Arc<E>)>),
    /// The master has none so old.
    TooOld,
    /// The epoch is over.
    Over,
}

impl<S, E> Line<S, E> {
    /// The line of a node that is no master. Shown write sets are kept up to `limit` bytes.
    pub fn new(limit: usize, bugs: Bugs) -> Line<S, E> {
        Line {
            epoch: None,
            members: BTreeSet::new(),
            has: BTreeMap::new(),
            subscriptions: 0,
            pending: VecDeque::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            limit,
            made: 0,
            shown: 0,
            bugs,
        }
    }

    /// The node is the master from this version on.
    pub fn begin(&mut self, epoch: u64, members: &[String], from: Version) {
        *self = Line {
            epoch: Some(epoch),
            members: members.iter().cloned().collect(),
            subscriptions: self.subscriptions,
            made: from,
            shown: from,
            ..Line::new(self.limit, self.bugs)
        };
    }

    /// The node is no master any more. Returns whether it was one.
    pub fn end(&mut self) -> bool {
        self.epoch.take().is_some()
    }

    /// The master's epoch; `None`: the node is no master.
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// The newest version that was made.
    pub fn made(&self) -> Version {
        self.made
    }

    /// The newest version of each subscriber, by name.
    pub fn acknowledged(&self) -> Vec<(String, Version)> {
        self.has.iter().map(|(name, (_, version))| (name.clone(), *version)).collect()
    }

    /// The newest version that is shown.
    pub fn shown(&self) -> Version {
        self.shown
    }

    /// Whether a version of this epoch is shown; `None`: the epoch is over, and another one may have given the number again.
    pub fn has_shown(&self, epoch: u64, version: Version) -> Option<bool> {
        (self.epoch == Some(epoch)).then_some(self.shown >= version)
    }

    /// Sets the members, which must receive a write set. Other subscribers delay no commit. False: the epoch is over.
    pub fn set_members(&mut self, epoch: u64, names: Vec<String>) -> bool {
        if self.epoch == Some(epoch) {
            self.members = names.into_iter().collect();
        }
        self.epoch == Some(epoch)
    }

    /// Adds the version after the newest one, with its encoding of so many bytes. False: the epoch is over.
    pub fn push(&mut self, epoch: u64, version: Version, set: S, (encoded, bytes): (E, usize)) -> bool {
        if self.epoch != Some(epoch) {
            return false;
        }
        assert_eq!(version, self.made + 1, "the writer makes versions in their order");
        self.made = version;
        self.kept_bytes += bytes;
        self.kept.push_back((version, Arc::new(encoded), bytes));
        self.pending.push_back((version, set));
        while self.kept_bytes > self.limit
            && self.kept.front().is_some_and(|(version, ..)| *version <= self.shown)
        {
            self.kept_bytes -= self.kept.pop_front().map_or(0, |(.., bytes)| bytes);
        }
        true
    }

    /// The number of a new subscription.
    pub fn subscribe(&mut self) -> u64 {
        self.subscriptions += 1;
        self.subscriptions
    }

    /// A subscriber has all versions up to this one. An older subscription of the same name does not count.
    pub fn received(&mut self, epoch: u64, (name, number): (&str, u64), version: Version) {
        let is_newest = self.has.get(name).is_none_or(|(known, _)| *known <= number);
        if self.epoch == Some(epoch) && is_newest {
            self.has.insert(name.to_owned(), (number, version));
        }
    }

    /// A subscriber has gone. It holds up commits for as long as it is a member.
    pub fn leave(&mut self, epoch: u64, (name, number): (&str, u64)) {
        if self.epoch == Some(epoch) && self.has.get(name).is_some_and(|(known, _)| *known == number) {
            self.has.remove(name);
        }
    }

    /// Write sets above a version, for a subscriber.
    pub fn next(&self, epoch: u64, above: Version) -> Next<E> {
        if self.epoch != Some(epoch) {
            return Next::Over;
        }
        if self.made <= above {
            return Next::Sets(Vec::new());
        }
        let oldest = self.kept.front().map_or(Version::MAX, |(version, ..)| *version);
        if oldest > above + 1 {
            return Next::TooOld;
        }
        let from = usize::try_from(above + 1 - oldest).expect("a position in memory");
        let sets = self.kept.iter().skip(from);
        Next::Sets(sets.map(|(version, encoded, _)| (*version, encoded.clone())).collect())
    }

    /// Whether write sets above this version are still kept.
    pub fn keeps_above(&self, version: Version) -> bool {
        version <= self.made
            && (version == self.made || self.kept.front().is_some_and(|(oldest, ..)| *oldest <= version + 1))
    }

    /// Shows what every member has received. `show` returns whether the version could be shown; else the node is no master any
    /// more. Returns whether a version was shown.
    pub fn advance(&mut self, mut show: impl FnMut(Version, S) -> bool) -> bool {
        let asked = self.members.iter().filter(|name| *name != LOG || !self.bugs.has(Bug::LogNotAsked));
        let least = asked.map(|name| self.has.get(name).map_or(0, |(_, version)| *version)).min();
        let (until, before) = (least.unwrap_or(Version::MAX), self.shown);
        while self.pending.front().is_some_and(|(version, _)| *version <= until) {
            let (version, set) = self.pending.pop_front().expect("looked at");
            if !show(version, set) {
                self.epoch = None;
                break;
            }
            self.shown = version;
        }
        self.shown > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(members: &[&str]) -> Line<(), ()> {
        let mut line = Line::new(25, Bugs::default());
        line.begin(1, &members.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), 7);
        line
    }

    fn shown(line: &mut Line<(), ()>) -> Vec<Version> {
        let mut shown = Vec::new();
        line.advance(|version, ()| {
            shown.push(version);
            true
        });
        shown
    }

    #[test]
    fn versions_are_shown_when_every_member_has_them() {
        let mut line = line(&["log", "b"]);
        assert!(line.push(1, 8, (), ((), 10)) && line.push(1, 9, (), ((), 10)));
        assert!(!line.push(2, 10, (), ((), 0)), "another epoch's writer");
        line.received(1, ("log", 1), 9);
        assert_eq!(shown(&mut line), []);
        line.received(1, ("b", 2), 8);
        assert_eq!(shown(&mut line), [8]);
        // An answer of the subscription before says nothing of this one.
        line.received(1, ("b", 3), 7);
        line.received(1, ("b", 2), 9);
        assert_eq!(shown(&mut line), []);
        assert!(line.set_members(1, vec!["log".to_owned()]));
        assert_eq!(shown(&mut line), [9]);
        assert!(!line.set_members(2, Vec::new()));
    }

    #[test]
    fn subscribers_get_what_is_kept_or_hear_that_it_is_too_old() {
        let mut line = line(&[]);
        for version in 8..=12 {
            assert!(line.push(1, version, (), ((), 10)));
            shown(&mut line);
        }
        assert_eq!(line.next(1, 8), Next::TooOld);
        let Next::Sets(sets) = line.next(1, 10) else { panic!("they are kept") };
        assert_eq!(sets.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [11, 12]);
        assert_eq!(line.next(1, 12), Next::Sets(Vec::new()));
        assert_eq!(line.next(2, 12), Next::Over);
        assert_eq!(
            [8, 9, 10, 12, 13].map(|version| line.keeps_above(version)),
            [false, false, true, true, false]
        );
        assert_eq!(
            (line.has_shown(1, 12), line.has_shown(1, 13), line.has_shown(2, 12)),
            (Some(true), Some(false), None)
        );
        assert!(line.end() && !line.end());
        assert_eq!(line.has_shown(1, 12), None);
    }
}
