//! Versions and boundaries: asked for database by database, because only replicas that are fed with commits need them.

use crate::bugs::Bug;
use crate::{Boundary, Order, RunNumber};
use history::{Commit, DatabaseId, Lsn, Version, Watermark};
use std::mem;

impl Order {
    /// The database's commits get versions from here on, and each snapshot probe that settles for it ends in
    /// a boundary.
    ///
    /// If called before the slot is opened, the [run](Order::run) has all that the slot gives. If called
    /// later, the run begins at the slot's current position: its first boundary waits for a probe that sees
    /// all that came out before. Does nothing if it was called before.
    pub fn place_commits(&mut self, database: DatabaseId) {
        let of = self.databases.entry(database).or_default();
        if mem::replace(&mut of.placing.on, true) {
            return;
        }
        let position = of.decoded.map(Watermark::get);
        if let Some(decoded) = position {
            self.begin_run(database, decoded);
            self.gauging.want();
        }
    }

    /// Ends versions of the database: commits that waited for one are forgotten, and so are boundaries that
    /// were not taken.
    pub fn place_no_commits(&mut self, database: DatabaseId) {
        let Some(of) = self.databases.get_mut(&database) else { return };
        of.placing.on = false;
        of.placing.run = None;
        of.placing.untaken = 0;
        self.boundaries.retain(|boundary| boundary.database != database);
    }

    /// The run of the order that the database's boundaries are in. `None`: there is no run, because no caller
    /// asked, or there is no slot in this incarnation, or too many commits waited
    /// ([`max_waiting_commits`](crate::Options)). In the last case nothing is lost, for the slot keeps what
    /// no replica shows: [`forget_slot`](Order::forget_slot), and open it again.
    pub fn run(&self, database: DatabaseId) -> Option<RunNumber> {
        Some(self.databases.get(&database)?.placing.run.as_ref()?.number)
    }

    /// The newest version that was given in the database.
    pub fn newest_version(&self, database: DatabaseId) -> Version {
        self.databases.get(&database).map_or(Version::ZERO, |database| database.placing.newest)
    }

    /// Commits of all databases that have come out and have no version, and runs without a boundary. As long
    /// as there are any, want a snapshot probe now and then: a commit that hangs, and is shown at last, is
    /// found only by a probe, and transactions that ran in the first probe of a run may end without a trace.
    pub fn waiting(&self) -> usize {
        let runs = self.databases.values().filter_map(|database| database.placing.run.as_ref());
        runs.map(|run| run.waiting.len() + usize::from(run.resume.is_none())).sum()
    }

    /// Position from which a copy of the primary may be fed, if its snapshot was taken after this call: every
    /// commit whose record starts below had been shown. `None` before the first boundary of the run: no copy
    /// can be fed yet.
    pub fn resume(&self, database: DatabaseId) -> Option<Lsn> {
        self.databases.get(&database)?.placing.run.as_ref()?.resume
    }

    /// The boundaries that were not taken, of all databases, the oldest first.
    pub fn boundaries(&self) -> &[Boundary] {
        &self.boundaries
    }

    /// Takes the boundaries. If several without commits follow each other in one database, the newest is
    /// given.
    pub fn take_boundaries(&mut self) -> Vec<Boundary> {
        self.databases.values_mut().for_each(|database| database.placing.untaken = 0);
        mem::take(&mut self.boundaries)
    }

    /// Forgets the commits of the database's slot, as if it had none in this incarnation: when it is opened
    /// again, where it was confirmed, all comes out again and gets new versions. For replicas that need
    /// commits which are no longer kept.
    pub fn forget_slot(&mut self, database: DatabaseId) {
        let next = self.gauging.want();
        let Some(of) = self.databases.get_mut(&database) else { return };
        of.void(next);
        let ending: Vec<_> = of.ending.drain(..).collect();
        self.boundaries.retain(|boundary| boundary.database != database);
        ending.into_iter().for_each(|(_, doubt)| self.fold(doubt));
        self.check();
    }

    /// A run begins at `since`, if commits are placed.
    pub(crate) fn begin_run(&mut self, database: DatabaseId, since: Lsn) {
        let number = self.last_run.next();
        let Some(of) = self.databases.get_mut(&database).filter(|database| database.placing.on) else {
            return;
        };
        of.placing.begin(number, since);
        self.last_run = number;
    }

    /// After a commit came out: the run ends if too many wait.
    pub(crate) fn bound_waiting(&mut self, commit: &Commit) {
        let Some(of) = self.databases.get_mut(&commit.database) else { return };
        if self.options.bugs.has(Bug::PublishAnyPrefix)
            && let Some((number, gauge)) = of.settled.clone()
            && let Some(boundary) = of.placing.at_once(commit, (number, &gauge))
        {
            self.boundaries.push(boundary);
        }
        if of.placing.kept() > self.options.max_waiting_commits && of.placing.run.take().is_some() {
            self.counts.runs_lost += 1;
            of.placing.untaken = 0;
            self.boundaries.retain(|boundary| boundary.database != commit.database);
        }
    }

    pub(crate) fn audit_versions(&self) {
        for (id, database) in &self.databases {
            let settled = database.settled.as_ref().map(|(_, gauge)| &**gauge);
            let decoded = database.decoded.map(Watermark::get);
            database.placing.audit(settled, decoded, &self.options.bugs);
            let mine = || self.boundaries.iter().filter(|boundary| boundary.database == *id);
            assert_eq!(
                database.placing.untaken,
                mine().map(|boundary| boundary.commits.len()).sum::<usize>()
            );
            assert!(database.placing.untaken <= self.options.max_waiting_commits, "bound of boundaries");
            let versions = || mine().flat_map(|boundary| &boundary.commits).map(|commit| commit.version);
            assert!(versions().zip(versions().skip(1)).all(|(one, next)| one.next() == next), "no gaps");
            assert!(mine().all(|boundary| boundary.reached <= database.placing.newest));
            for (one, next) in mine().zip(mine().skip(1)) {
                assert!(one.number <= next.number && one.decoded <= next.decoded && one.run <= next.run);
                assert!(one.resume <= next.resume || one.run < next.run);
                assert!(!one.commits.is_empty() || !next.commits.is_empty() || one.run < next.run, "folded");
            }
        }
    }
}
