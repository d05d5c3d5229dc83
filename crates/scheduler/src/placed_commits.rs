//! Commits of one database by version: the writes of each, for reads at logical replicas.

use crate::freshness::Freshness;
use history::{Commit, DatabaseId, Lsn, Version};
use order::RunNumber;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The commits of one database by version, in one run of the order.
///
/// Invariants: `freshness` has every commit up to `placed`; commits of this run above it are in `unplaced`.
/// `unplaced` is bounded by the order's limit of waiting commits.
#[derive(Debug)]
pub(crate) struct Fed {
    pub(crate) run: RunNumber,
    pub(crate) placed: Version,
    pub(crate) freshness: Freshness<Version>,
    /// By the ends of their records.
    pub(crate) unplaced: BTreeMap<Lsn, Arc<Commit>>,
}

impl Fed {
    /// Commits placed before the run began may have been written as late as `placed`.
    pub(crate) fn new(database: DatabaseId, run: RunNumber, placed: Version) -> Fed {
        let mut freshness = Freshness::new(database);
        freshness.raise_floor(placed);
        Fed { run, placed, freshness, unplaced: BTreeMap::new() }
    }

    pub(crate) fn came_out(&mut self, commit: &Arc<Commit>) {
        self.unplaced.insert(commit.end, commit.clone());
    }
}
