//! A Consort's feed of a replica: boundary after boundary, each, or several whole ones, in one transaction
//! with the position that it leads to.

use crate::bugs::{Bug, Bugs};
use crate::consort::{Consort, Handle};
use crate::executor::either;
use crate::model::primary::Committed;
use crate::model::schema::{CELLS, Cell, Table, number};
use crate::model::standby::Standby;
use crate::random::Random;
use crate::record::Breach;
use history::{DatabaseId, Footprint, Incarnation, Shown, Version};
use order::Boundary;
use scheduler::Serving;
use scheduler::parallel::{self, Class, Executor, Place, Sets};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A refresh that locks waits no longer for those who read.
const REFRESH_LIMIT: Duration = Duration::from_millis(10);

/// Changes of a commit at a replica: as far as the stream has them.
fn published(commit: &Committed) -> Vec<(Cell, u32)> {
    commit.effects.iter().filter(|(cell, _)| !cell.is_of(Table::Outside)).copied().collect()
}

/// A row as the stream sends it: what the commit did not change is not there.
type Image = Vec<history::Cell<u32>>;

/// The rows that a commit changed, by their numbers.
fn images(effects: &[(Cell, u32)]) -> BTreeMap<usize, Image> {
    let mut images: BTreeMap<usize, Image> = BTreeMap::new();
    for (cell, value) in effects {
        let image = images.entry(cell.row()).or_insert_with(|| vec![history::Cell::Unchanged; CELLS]);
        image[cell.place()] = history::Cell::New(Some(*value));
    }
    images
}

/// Net changes of these commits, one after the other: one image of each row, made by the rule of a replica's
/// feed. The planted bug `toast_last_writer` leaves that rule out.
fn net(commits: &[Vec<(Cell, u32)>], bugs: Bugs) -> Vec<(Cell, u32)> {
    let mut rows: BTreeMap<usize, Image> = BTreeMap::new();
    for (row, later) in commits.iter().flat_map(|commit| images(commit)) {
        let merged = match rows.remove(&row) {
            Some(earlier) if !bugs.has(Bug::ToastLastWriter) => {
                later.into_iter().zip(earlier).map(|(later, earlier)| later.after(earlier)).collect()
            }
            _ => later,
        };
        rows.insert(row, merged);
    }
    let sent = |(row, image): (usize, Image)| {
        let cells = image.into_iter().enumerate();
        cells.filter_map(move |(place, cell)| Some((Cell::of(row, place), *cell.value().flatten()?)))
    };
    rows.into_iter().flat_map(sent).collect()
}

/// The order in which these commits end under parallel execution: the scheduler says which may run at the
/// same time, and random numbers choose the next end.
fn executed(commits: &[Rc<Committed>], random: &mut Random, bugs: parallel::Bugs) -> Vec<Rc<Committed>> {
    let options = parallel::Options { bugs, ..parallel::Options::default() };
    let mut executor = Executor::new(options, Version::ZERO);
    let (mut version, mut running) = (Version::ZERO, Vec::new());
    for commit in commits {
        version = version.next();
        let wrote = commit.wrote.as_ref().expect("decoded commits have their changes");
        let sets = Arc::new(Sets::of(&Footprint::NOTHING, wrote, |_| Class::Row));
        if executor.offer(version, sets) == Ok(Place::Running) {
            running.push(version);
        }
    }
    let mut ended = Vec::new();
    while !running.is_empty() {
        let one = running.swap_remove(random.below(running.len() as u64) as usize);
        ended.push(commits[one.get() as usize - 1].clone());
        running.extend(executor.completed(one).expect("it runs").started);
    }
    ended
}

/// A connection to a replica, and how far it has been fed over it.
struct Link {
    incarnation: Incarnation,
    life: u64,
    at: Shown,
    /// The place of the next boundary.
    next: usize,
}

impl Link {
    /// True if it is still there.
    fn holds(&self, replica: &Standby) -> bool {
        replica.is_up() && replica.life() == self.life && !replica.hangs.get()
    }
}

impl Consort {
    /// Feeds one replica with one database, for ever.
    pub async fn feed(self: Rc<Consort>, replica: Rc<Standby>, of: DatabaseId) {
        let env = self.world.env.clone();
        while !replica.store().is_copied(number(of)) {
            env.executor.sleep(300).await;
            self.copy(&replica, of).await;
        }
        let mut link: Option<Link> = None;
        loop {
            let (more, kick) = (self.fed_on.wait(), self.world.decoders_on.wait());
            let Some(open) = link.as_mut().filter(|open| open.holds(&replica)) else {
                self.input(|s| s.fed_lost(replica.id, of));
                env.executor.sleep(200).await;
                link = self.connect(&replica, of).await;
                continue;
            };
            let kept = replica.store().kept(number(of)).resume();
            self.input(|s| s.fed_keeps(replica.id, of, kept));
            let run = self.input(|s| s.order().run(of));
            let next = run.map(|run| self.buffer.borrow().next(of, run, open.next)).unwrap_or_default();
            if next.is_empty() || replica.paused.get() {
                let pause = env.executor.sleep(1_000);
                either(either(more, kick), pause).await;
            } else {
                let several = if self.world.groups_boundaries.get() { next.len() } else { 1 };
                let these = &next[..several];
                let locks =
                    self.world.ways.get().locking && !self.buffer.borrow().lacks(these, &open.at).is_empty();
                let locked = if locks {
                    let handle = Handle(self.clone());
                    Some(transaction::refresh(&handle, (replica.id, of), REFRESH_LIMIT).await)
                } else {
                    None
                };
                self.give_boundaries(&replica, open, these).await;
                drop(locked);
            }
        }
    }

    /// Copies the database under one snapshot of the primary, if the order knows from where on the copy can be fed. It is
    /// a copy only when the primary has flushed all that it may show: a crash before takes that back.
    async fn copy(&self, replica: &Standby, of: DatabaseId) -> Option<()> {
        let (env, primary) = (&self.world.env, self.world.primary());
        let resume = self.input(|s| s.order().resume(of))?;
        let life = primary.incarnation()?;
        env.step(|d| d.network).await;
        let snapshot = primary.snapshot()?;
        let (_, state) = primary.states(of).pop()?;
        env.step(|d| d.position).await;
        let decoded = primary.insert_lsn();
        while primary.flush_lsn() < decoded && primary.incarnation() == Some(life) {
            env.executor.sleep(200).await;
        }
        if primary.incarnation() == Some(life) && replica.is_up() {
            replica.copy(of, Shown::new(snapshot, decoded, resume), &state);
        }
        Some(())
    }

    async fn connect(&self, replica: &Standby, of: DatabaseId) -> Option<Link> {
        let env = &self.world.env;
        env.step(|d| d.network).await;
        let incarnation = replica.incarnation().filter(|_| !replica.hangs.get())?;
        let (life, at) = (replica.life(), replica.store().position(number(of)));
        env.step(|d| d.network).await;
        self.input(|s| s.standby_serving(replica.id, Serving::Yes));
        Some(Link { incarnation, life, at, next: 0 })
    }

    /// Several whole boundaries in one transaction.
    async fn give_boundaries(&self, replica: &Standby, link: &mut Link, these: &[(usize, Rc<Boundary>)]) {
        let env = &self.world.env;
        let (place, last) = these.last().expect("not empty");
        if !last.feeds(&link.at) {
            let lacks = Breach::NotLive("a fed replica lacks what its slot does not give any more");
            self.world.record.borrow_mut().breaches.push(lacks);
        }
        let mut lacks = self.buffer.borrow().lacks(these, &link.at);
        if self.world.ways.get().parallel {
            lacks = executed(&lacks, &mut env.random.borrow_mut(), self.world.planted.parallel);
        }
        let effects: Vec<Vec<(Cell, u32)>> = lacks.iter().map(|commit| published(commit)).collect();
        let to = these.iter().fold(link.at.clone(), |at, (_, boundary)| boundary.after(&at));
        if !effects.is_empty() || to.resume() > link.at.resume() {
            env.step(|d| d.network).await;
            env.step(|d| d.apply).await;
            if !self.applied(replica, link, (last.database, to), &effects).await {
                link.life = u64::MAX;
                return;
            }
        }
        env.step(|d| d.network).await;
        if link.holds(replica) {
            link.next = place + 1;
            self.input(|s| s.fed_shows(replica.id, link.incarnation, last));
        }
    }

    /// True once the replica has applied it.
    async fn applied(
        &self,
        replica: &Standby,
        link: &mut Link,
        (of, to): (DatabaseId, Shown),
        effects: &[Vec<(Cell, u32)>],
    ) -> bool {
        let (bugs, ways) = (self.world.planted.model, self.world.ways.get());
        if bugs.has(Bug::TornBoundary) || (bugs.has(Bug::ShownAsDone) && ways.parallel) {
            for part in effects {
                if !link.holds(replica) || !replica.apply(of, part, &link.at, None) {
                    return false;
                }
                self.world.env.step(|d| d.network).await;
            }
        }
        let done = link.holds(replica) && replica.apply(of, &net(effects, bugs), &link.at, Some(to.clone()));
        link.at = to;
        done
    }
}
