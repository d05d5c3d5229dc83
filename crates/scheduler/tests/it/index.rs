//! The freshness index against a naive one that keeps every commit.
//!
//! The index is asked through routes: a read goes to the standby whose mark is at or above the newest commit
//! that overlaps it. With one standby at each position the answer shows what the index knows.

use crate::chance::Chance;
use history::{
    Access, ColumnSet, Commit, Consistency, DatabaseId, Epoch, Footprint, Incarnation, Key, Lsn, RelationId,
    Rows, Timeline, Xid,
};
use scheduler::{End, Options, Question, Reason, Route, Scheduler, Serving, SessionMarks, StandbyId};
use std::sync::Arc;
use std::time::Duration;

const DATABASE: DatabaseId = DatabaseId::new(5);
const STANDBY: StandbyId = StandbyId::new(1);

fn incarnation(life: i64) -> Incarnation {
    Incarnation { epoch: Epoch::new(1), timeline: Timeline::new(1), started_us: life }
}

fn access(chance: &mut Chance, write: bool) -> Access {
    let columns = match chance.below(4) {
        0 => ColumnSet::All,
        1 if !write => ColumnSet::NONE,
        _ => ColumnSet::of((0..=chance.below(2)).map(|_| 1 + chance.below(4) as i16)),
    };
    let rows = match chance.below(3) {
        0 => Rows::All,
        _ => Rows::keys((0..=chance.below(2)).map(|_| Key::new(chance.below(12) as u64))),
    };
    if write && chance.one_in(3) {
        Access::existence(rows)
    } else {
        Access { columns, rows, existence: false }
    }
}

fn footprint(chance: &mut Chance, write: bool) -> Footprint {
    if chance.one_in(25) {
        return Footprint::Everything;
    }
    let mut footprint = Footprint::NOTHING;
    for _ in 0..chance.below(3) {
        footprint.add(RelationId::new(chance.below(5) as u32), access(chance, write));
    }
    footprint
}

/// The lowest mark with which a read is offloaded from the primary: the index takes it for the newest commit.
fn newest(scheduler: &mut Scheduler, read: &Arc<Footprint>, ends: &[u64], life: &mut i64) -> u64 {
    let mut leaves = |at: u64| {
        *life += 1;
        scheduler.standby_marked(STANDBY, incarnation(*life), Lsn::new(at));
        let question = Question {
            database: DATABASE,
            footprint: read.clone(),
            consistency: Consistency::Strong,
            session: SessionMarks::default(),
            prefer: None,
            now: Duration::ZERO,
            at_copies: true,
        };
        match scheduler.route(&question) {
            Route::Standby(ticket) => {
                scheduler.finish(ticket, End::Delivered);
                true
            }
            Route::Primary(reason) => {
                assert_eq!(reason, Reason::StandbysBehind);
                false
            }
        }
    };
    let first = ends.partition_point(|end| !leaves(*end));
    ends[first]
}

fn compare(options: Options, seed: u64, exact: bool) -> (u64, u64) {
    let mut chance = Chance::new(seed);
    let mut scheduler = Scheduler::new(options);
    scheduler.order_mut().incarnate(incarnation(0));
    scheduler.slot_opened(DATABASE, Lsn::new(100));
    scheduler.standby_joined(STANDBY, 1);
    scheduler.standby_serving(STANDBY, Serving::Yes);
    let (mut commits, mut ends, mut life) = (Vec::new(), vec![100], 0);
    let (mut asked, mut sharp) = (0, 0);
    for n in 1..=120 {
        let wrote = footprint(&mut chance, true);
        let (start, end) = (Lsn::new(n * 100 + 1), Lsn::new(n * 100 + 50));
        scheduler.decoded(Commit { database: DATABASE, xid: Xid::new(n), start, end, wrote: wrote.clone() });
        commits.push((wrote, end.get()));
        ends.push(end.get());
        let read = Arc::new(footprint(&mut chance, false));
        let overlapping = commits.iter().rev().find(|(wrote, _)| wrote.overlaps(&read));
        let truth = overlapping.map_or(100, |(_, end)| *end);
        let said = newest(&mut scheduler, &read, &ends, &mut life);
        assert!(said >= truth, "seed {seed}: {read} is said to be of {said} and is of {truth}");
        asked += 1;
        sharp += u64::from(said == truth);
        if exact && read.tables().is_some_and(|tables| tables.count() <= 1) {
            // By columns or by rows alone the answer is the newest; both together can only be later, never older.
            let by_columns = |wrote: &&(Footprint, u64)| wrote.0.overlaps(&without_rows(&read));
            let upper = commits.iter().rev().find(by_columns).map_or(100, |(_, end)| *end);
            assert!(said <= upper, "seed {seed}: {read} is said to be of {said}, its columns are of {upper}");
        }
    }
    (asked, sharp)
}

fn without_rows(read: &Footprint) -> Footprint {
    let Some(tables) = read.tables() else { return Footprint::Everything };
    let mut all = Footprint::NOTHING;
    tables.for_each(|(table, access)| all.add(table, Access { rows: Rows::All, ..access.clone() }));
    all
}

#[test]
fn the_index_is_never_older_than_the_truth_and_mostly_exact() {
    let (mut asked, mut sharp) = (0, 0);
    for seed in 1..=200 {
        let (more, exact) = compare(Options::default(), seed, true);
        (asked, sharp) = (asked + more, sharp + exact);
    }
    assert!(sharp * 100 >= asked * 85, "{sharp} of {asked} are exact");
}

#[test]
fn folding_never_makes_it_older() {
    for seed in 1..=200 {
        compare(Options { max_rows: 4, max_tables: 2, ..Options::default() }, seed, false);
    }
}
