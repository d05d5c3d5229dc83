//! The boundaries that replicas are fed with, and their commits.

use crate::model::primary::Committed;
use history::{DatabaseId, Lsn, Shown};
use order::{Boundary, RunNumber};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Decoded commits, and the replicas that need them.
#[derive(Default)]
pub struct Buffer {
    /// Changes of each commit, by the end of its record.
    commits: BTreeMap<(DatabaseId, Lsn), Rc<Committed>>,
    /// In their order.
    boundaries: Vec<Rc<Boundary>>,
}

impl Buffer {
    /// A commit came out.
    pub fn came_out(&mut self, end: Lsn, commit: &Rc<Committed>) {
        self.commits.insert((commit.database, end), commit.clone());
    }

    /// Boundaries were taken.
    pub fn extend(&mut self, boundaries: Vec<Boundary>) {
        self.boundaries.extend(boundaries.into_iter().map(Rc::new));
    }

    /// The boundaries of a run, from a place on.
    pub(crate) fn next(&self, of: DatabaseId, run: RunNumber, from: usize) -> Vec<(usize, Rc<Boundary>)> {
        let all = self.boundaries.iter().enumerate().skip(from);
        let mine = all.filter(|(_, boundary)| boundary.database == of && boundary.run == run);
        mine.map(|(place, boundary)| (place, boundary.clone())).collect()
    }

    /// Commits of these boundaries that a replica at this position lacks.
    pub(crate) fn lacks(&self, these: &[(usize, Rc<Boundary>)], at: &Shown) -> Vec<Rc<Committed>> {
        let missing = |(_, boundary): &(usize, Rc<Boundary>)| -> Vec<Rc<Committed>> {
            let ends = boundary.missing(at).map(|commit| commit.end);
            ends.map(|end| self.commits[&(boundary.database, end)].clone()).collect()
        };
        these.iter().flat_map(missing).collect()
    }
}
