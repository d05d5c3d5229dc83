//! Every bound of the scheduler, reached.

use history::{
    Access, ColumnSet, Commit, DatabaseId, Epoch, Footprint, Incarnation, Key, Lsn, RelationId, Rows,
    Timeline, Xid,
};
use scheduler::{Options, Scheduler};

const DATABASE: DatabaseId = DatabaseId::new(5);

fn followed(options: Options) -> Scheduler {
    let mut scheduler = Scheduler::new(options);
    let (epoch, timeline) = (Epoch::new(1), Timeline::new(1));
    scheduler.order_mut().incarnate(Incarnation { epoch, timeline, started_us: 1 });
    scheduler.slot_opened(DATABASE, Lsn::new(1));
    scheduler
}

fn commit(n: u64, table: u64, keys: impl IntoIterator<Item = u64>) -> Commit {
    let rows = Rows::keys(keys.into_iter().map(Key::new));
    let wrote = Footprint::of(
        RelationId::new(u32::try_from(table).expect("a small number")),
        Access::update(ColumnSet::of([2]), rows),
    );
    Commit {
        database: DATABASE,
        xid: Xid::new(n),
        start: Lsn::new(n * 100),
        end: Lsn::new(n * 100 + 60),
        wrote,
    }
}

#[test]
fn many_commits_of_many_rows_and_tables_stay_within_every_bound() {
    let options =
        Options { max_rows: 1_000, max_tables: 50, max_recent: 100, max_unseen: 80, ..Options::default() };
    let mut scheduler = followed(options);
    for n in 1..=20_000 {
        assert!(scheduler.decoded(commit(n, n % 170, (0..4).map(|key| n * 4 + key))).fresh);
        let (rows, tables, recent, unseen) = scheduler.kept();
        assert!(rows <= 1_000 && tables <= 50 && recent <= 100 && unseen <= 80);
    }
    // No caller asked for a snapshot probe, but many commits are unseen: one is wanted, so that this ends.
    assert!(scheduler.order_mut().gauge_to_send().is_some());
}

#[test]
fn a_commit_of_more_rows_than_a_footprint_names_raises_its_table() {
    let mut scheduler = followed(Options::default());
    scheduler.decoded(commit(1, 1, 0..1_000));
    assert_eq!(scheduler.kept().0, 0, "no row is listed");
}
