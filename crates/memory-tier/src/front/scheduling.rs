//! Version-aware choice of a slave (II-B of the paper): the one where the fewest versions are made at the same time; among
//! equals the one with the shortest estimated work.

use crate::message::Version;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The paper's limit of different versions at a slave.
pub const READ_VERSIONS: usize = 3;
/// Estimate of a statement that was not run yet, in microseconds.
const FIRST_ESTIMATE_US: u64 = 200;
/// Statements whose times are kept. When there are more all are forgotten.
const MAX_ESTIMATES: usize = 10_000;

/// Reads that run at one slave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Number of transactions at each version.
    versions: BTreeMap<Version, usize>,
    /// Estimated work of all of them, in microseconds.
    pending_us: u64,
}

impl Load {
    /// A transaction at this version begins.
    pub(super) fn begin(&mut self, version: Version, estimate_us: u64) {
        *self.versions.entry(version).or_default() += 1;
        self.pending_us += estimate_us;
    }

    /// A transaction at this version has ended.
    pub(super) fn end(&mut self, version: Version, estimate_us: u64) {
        self.pending_us = self.pending_us.saturating_sub(estimate_us);
        if let Some(count) = self.versions.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                self.versions.remove(&version);
            }
        }
    }

    /// Number of transactions.
    pub(super) fn transactions(&self) -> usize {
        self.versions.values().sum()
    }

    /// Number of different versions with one more transaction at this version.
    fn distinct_with(&self, version: Version) -> usize {
        self.versions.len() + usize::from(!self.versions.contains_key(&version))
    }

    fn has(&self, version: Version) -> bool {
        self.versions.contains_key(&version)
    }
}

/// The slave for a read at this version, among the candidates: one where the version is read already; else one that then makes
/// two versions at most, idle ones included; else three, and so on up to `most`; else any. With `most` 0 any at once. Among
/// equals the one with the shortest estimated work.
pub(super) fn choose(candidates: &[(usize, &Load)], version: Version, most: usize) -> Option<usize> {
    let shortest = |fits: &dyn Fn(&Load) -> bool| {
        let fitting = candidates.iter().filter(|(_, load)| fits(load));
        fitting.min_by_key(|(_, load)| (load.pending_us, load.transactions())).map(|(node, _)| *node)
    };
    let mut limits = (2..=most).map(|limit| shortest(&|load| load.distinct_with(version) <= limit));
    let same = if most > 0 { shortest(&|load| load.has(version)) } else { None };
    same.or_else(|| limits.find_map(|found| found)).or_else(|| shortest(&|_| true))
}

/// Times of statements, by a hash of their text: a moving average each.
#[derive(Debug, Default)]
pub(super) struct Estimates(HashMap<u64, u64>);

impl Estimates {
    /// Estimated time of a statement, in microseconds.
    pub(super) fn of(&self, statement: u64) -> u64 {
        self.0.get(&statement).copied().unwrap_or(FIRST_ESTIMATE_US)
    }

    /// Notes the time that a statement took.
    pub(super) fn note(&mut self, statement: u64, took: Duration) {
        if self.0.len() >= MAX_ESTIMATES {
            self.0.clear();
        }
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX / 8).max(1);
        let average = self.0.entry(statement).or_insert(took_us);
        *average = (*average * 7).saturating_add(took_us) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(versions: &[(Version, usize)], pending_us: u64) -> Load {
        Load { versions: versions.iter().copied().collect(), pending_us }
    }

    fn chosen(loads: &[Load], version: Version) -> Option<usize> {
        chosen_of(loads, version, READ_VERSIONS)
    }

    fn chosen_of(loads: &[Load], version: Version, most: usize) -> Option<usize> {
        choose(&loads.iter().enumerate().collect::<Vec<_>>(), version, most)
    }

    #[test]
    fn fewer_versions_are_looked_for_on_request() {
        let loads = [load(&[(7, 1)], 900), load(&[(5, 1)], 500), load(&[(5, 1), (6, 1)], 10)];
        let by_limit = [0, 1, 2, 3].map(|most| chosen_of(&loads, 7, most));
        assert_eq!(by_limit, [Some(2), Some(0), Some(0), Some(0)], "by work alone, or the same version");
        let by_limit = [0, 1, 2, 3].map(|most| chosen_of(&loads, 8, most));
        assert_eq!(by_limit, [Some(2), Some(2), Some(1), Some(1)], "two versions before less work");
    }

    #[test]
    fn a_slave_with_the_same_version_is_first() {
        let loads = [load(&[], 0), load(&[(7, 1), (8, 1), (9, 1)], 900), load(&[(6, 1)], 10)];
        assert_eq!(chosen(&loads, 7), Some(1));
        let loads = [load(&[(7, 3)], 900), load(&[(7, 1)], 300)];
        assert_eq!(chosen(&loads, 7), Some(1), "the shorter work of two");
    }

    #[test]
    fn a_slave_with_two_versions_is_before_three() {
        let three = load(&[(5, 1), (6, 1)], 10);
        let two = load(&[(6, 9)], 900);
        assert_eq!(chosen(&[three.clone(), two], 7), Some(1));
        let four = load(&[(4, 1), (5, 1), (6, 1)], 1);
        assert_eq!(chosen(&[four.clone(), three], 7), Some(1));
        assert_eq!(chosen(&[load(&[(3, 1), (4, 1), (5, 1), (6, 1)], 2), four], 7), Some(1), "by work alone");
    }

    #[test]
    fn no_candidate_is_no_choice() {
        assert_eq!(chosen(&[], 7), None);
    }

    #[test]
    fn a_load_ends_as_it_began() {
        let mut load = Load::default();
        load.begin(3, 100);
        load.begin(3, 50);
        load.begin(4, 10);
        assert_eq!((load.transactions(), load.distinct_with(4), load.distinct_with(5)), (3, 2, 3));
        load.end(3, 100);
        load.end(3, 50);
        load.end(4, 10);
        assert_eq!(load, Load::default());
    }

    #[test]
    fn an_estimate_follows_what_was_measured() {
        let mut estimates = Estimates::default();
        assert_eq!(estimates.of(1), FIRST_ESTIMATE_US);
        estimates.note(1, Duration::from_micros(800));
        assert_eq!(estimates.of(1), 800);
        estimates.note(1, Duration::from_micros(1600));
        assert_eq!(estimates.of(1), 900);
        for other in 0..MAX_ESTIMATES as u64 {
            estimates.note(other + 2, Duration::ZERO);
        }
        assert!(estimates.0.len() <= MAX_ESTIMATES);
    }
}
