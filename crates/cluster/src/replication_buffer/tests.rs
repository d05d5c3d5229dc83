//! Boundaries are sent in order, repeated where they need not have been kept, and forgotten when all replicas
//! keep them.

use super::*;
use history::{DatabaseId, Incarnation, Snapshot, Version, Xid};
use order::{Gauge, GaugeNumber, Placed};
use std::sync::Arc;

const ONE: StandbyId = StandbyId::new(1);
const TWO: StandbyId = StandbyId::new(2);

fn rows(bytes: u64) -> Rows<&'static str> {
    Rows { part: "rows", ddl: false, bytes }
}

/// A boundary with commits that end at these positions.
fn boundary(ends: &[u64]) -> Boundary {
    let incarnation = Incarnation { epoch: Default::default(), timeline: Default::default(), started_us: 0 };
    let commits = ends.iter().map(|end| Placed {
        version: Version::new(*end),
        xid: Xid::new(*end),
        start: Lsn::new(end - 1),
        end: Lsn::new(*end),
    });
    let decoded = Lsn::new(ends.last().copied().unwrap_or_default());
    Boundary {
        database: DatabaseId::new(5),
        run: RunNumber::default(),
        number: GaugeNumber::default(),
        gauge: Arc::new(Gauge {
            incarnation,
            snapshot: Snapshot::new(Xid::new(decoded.get() + 1), Vec::new()),
            insert_lsn: decoded,
        }),
        decoded,
        resume: decoded,
        since: Lsn::ZERO,
        reached: Version::new(decoded.get()),
        commits: commits.collect(),
    }
}

/// A feed that both replicas take, with this many boundaries of one commit of ten bytes each.
fn feed(boundaries: u64) -> Feed<&'static str> {
    let mut feed = Feed::default();
    feed.joins(ONE);
    feed.joins(TWO);
    feed.follow(Some(RunNumber::default()));
    more(&mut feed, 1..=boundaries);
    feed
}

fn more(feed: &mut Feed<&'static str>, commits: impl Iterator<Item = u64>) {
    for end in commits {
        feed.came_out(Lsn::new(10 * end), rows(10));
        feed.extend(boundary(&[10 * end]), Duration::from_secs(end));
    }
}

fn given(feed: &mut Feed<&'static str>, replica: StandbyId, most: u64) -> Vec<u64> {
    let stretch = feed.next(replica, most).unwrap();
    stretch.iter().flat_map(|stretch| &stretch.boundaries).map(|one| one.decoded.get()).collect()
}

#[test]
fn each_replica_is_given_whole_boundaries_in_their_order() {
    let mut feed = feed(4);
    assert_eq!(given(&mut feed, ONE, 0), [10], "one, however large");
    assert_eq!(given(&mut feed, ONE, 20), [20, 30]);
    assert_eq!(given(&mut feed, ONE, 20), [40]);
    assert_eq!(given(&mut feed, ONE, 20), [0; 0]);
    assert_eq!(given(&mut feed, TWO, 100), [10, 20, 30, 40]);
}

#[test]
fn what_follows_ddl_is_not_given_together_with_it() {
    let mut feed = feed(1);
    feed.came_out(Lsn::new(20), Rows { ddl: true, ..rows(10) });
    feed.extend(boundary(&[20]), Duration::from_secs(2));
    more(&mut feed, 3..=4);
    assert_eq!(given(&mut feed, ONE, 100), [10, 20]);
    assert_eq!(given(&mut feed, ONE, 100), [30, 40]);
}

#[test]
fn what_all_keep_is_forgotten_and_what_one_has_not_kept_is_given_again() {
    let mut feed = feed(3);
    let end = feed.next(ONE, 20).unwrap().unwrap().end;
    feed.kept(ONE, end);
    assert!(feed.rows(Lsn::new(10)).is_some(), "the other one lacks it");
    assert_eq!(
        feed.pending(end),
        Pending { commits: 1, bytes: 10, filed: 0, since: Some(Duration::from_secs(3)) }
    );
    given(&mut feed, TWO, 10);
    feed.kept(TWO, end);
    assert!(feed.rows(Lsn::new(10)).is_none());
    assert!(feed.rows(Lsn::new(20)).is_some(), "it has kept no more than it was given");
    given(&mut feed, ONE, 100);
    feed.connected(ONE).unwrap();
    assert_eq!(given(&mut feed, ONE, 100), [30], "it was shown that one, and may come back without it");
}

#[test]
fn who_connects_is_told_by_the_newest_boundary_where_it_stands() {
    let mut feed = feed(2);
    for replica in [ONE, TWO] {
        let end = feed.next(replica, 100).unwrap().unwrap().end;
        feed.kept(replica, end);
    }
    feed.connected(ONE).unwrap();
    assert_eq!(given(&mut feed, ONE, 100), [20]);
}

#[test]
fn writers_who_have_ended_are_soon_not_counted_any_more() {
    let feed = feed(20);
    let at = |seconds| feed.arrivals(Duration::from_secs(seconds));
    assert!((at(20) - 10.0).abs() < 1e-6, "ten bytes in each second: {}", at(20));
    assert!(at(24) < 1.0, "{}", at(24));
}

#[test]
fn boundaries_without_commits_do_not_pile_up() {
    let mut feed = feed(1);
    for decoded in [20, 30] {
        feed.extend(Boundary { decoded: Lsn::new(decoded), ..boundary(&[]) }, Duration::ZERO);
    }
    assert_eq!(given(&mut feed, ONE, 10), [10, 30]);
    feed.extend(Boundary { decoded: Lsn::new(40), ..boundary(&[]) }, Duration::ZERO);
    assert_eq!(given(&mut feed, ONE, 0), [40]);
    assert_eq!(given(&mut feed, TWO, 10), [10, 40]);
    assert_eq!(feed.taken.len(), 2);
}

#[test]
fn a_boundary_in_the_place_of_one_that_all_keep_is_given() {
    let mut feed = feed(0);
    for _ in 0..2 {
        feed.extend(boundary(&[]), Duration::ZERO);
        for replica in [ONE, TWO] {
            let end = feed.next(replica, 100).unwrap().unwrap().end;
            feed.kept(replica, end);
        }
    }
    feed.extend(boundary(&[]), Duration::ZERO);
    more(&mut feed, 1..=1);
    for replica in [ONE, TWO] {
        assert_eq!(given(&mut feed, replica, 100), [0, 10]);
    }
}

#[test]
fn who_joins_is_given_what_is_taken_later() {
    let mut feed = feed(2);
    feed.leaves(ONE);
    assert_eq!(feed.next(ONE, 1).unwrap_err(), NotFed);
    feed.joins(ONE);
    more(&mut feed, 3..=3);
    assert_eq!(given(&mut feed, ONE, 100), [30]);
    feed.joins(ONE);
    assert_eq!(given(&mut feed, ONE, 100), [0; 0], "it is fed already");
}

#[test]
fn who_joins_beside_another_is_given_what_that_one_need_not_have_kept() {
    let (mut feed, three) = (feed(3), StandbyId::new(3));
    let end = feed.next(ONE, 20).unwrap().unwrap().end;
    feed.kept(ONE, end);
    assert!(feed.joins_beside(three, ONE));
    more(&mut feed, 4..=4);
    for replica in [ONE, TWO] {
        let end = feed.next(replica, 100).unwrap().unwrap().end;
        feed.kept(replica, end);
    }
    assert!(feed.rows(Lsn::new(20)).is_none() && feed.rows(Lsn::new(30)).is_some());
    feed.connected(three).unwrap();
    assert_eq!(given(&mut feed, three, 100), [30, 40]);
    feed.leaves(ONE);
    assert!(!feed.joins_beside(StandbyId::new(4), ONE), "nothing is kept for one that has left");
}

#[test]
fn another_run_begins_with_nothing() {
    let mut feed = feed(2);
    feed.follow(None);
    assert!(feed.rows(Lsn::new(20)).is_none());
    feed.follow(Some(RunNumber::default()));
    more(&mut feed, 2..=2);
    feed.connected(ONE).unwrap();
    assert_eq!(given(&mut feed, ONE, 100), [20]);
}

#[test]
fn nothing_is_kept_for_nobody() {
    let mut feed = feed(2);
    feed.leaves(ONE);
    feed.leaves(TWO);
    more(&mut feed, 3..=3);
    assert!(feed.rows.is_empty() && feed.taken.is_empty());
    assert_eq!((feed.unplaced, feed.placed), ((0, 0), 0));
}

#[test]
fn who_is_furthest_behind_is_given_up_first() {
    let mut feed = feed(3);
    let end = feed.next(ONE, 20).unwrap().unwrap().end;
    feed.kept(ONE, end);
    assert_eq!(feed.too_far_behind(30, 0), []);
    assert_eq!(feed.too_far_behind(29, 0), [TWO]);
    feed.leaves(TWO);
    assert_eq!(feed.too_far_behind(9, 0), [], "the newest boundary alone is nobody's fault");
    feed.came_out(Lsn::new(40), rows(500));
    assert_eq!(feed.too_far_behind(9, 0), [], "nor is one commit");
    feed.came_out(Lsn::new(50), rows(500));
    assert_eq!(feed.too_far_behind(9, 0), [ONE]);
}

#[test]
fn the_oldest_rows_are_put_into_files_when_memory_has_no_room() {
    let mut feed = feed(4);
    let mut put = Vec::new();
    let mut file = |parts: &mut [&'static str]| {
        parts.iter_mut().for_each(|part| *part = "filed");
        put.push(parts.len());
        Ok(9)
    };
    feed.put_away(40, &mut file).unwrap();
    feed.put_away(25, &mut file).unwrap();
    assert_eq!(put, [1, 1], "two of four are enough");
    let part = |feed: &Feed<&'static str>, end| feed.rows(Lsn::new(end)).unwrap().part;
    assert_eq!([10, 20, 30].map(|end| part(&feed, end)), ["filed", "filed", "rows"]);
    assert_eq!(feed.pending(feed.first).filed, 18);
    assert_eq!((feed.too_far_behind(22, 18), feed.too_far_behind(22, 17)), (vec![], vec![ONE, TWO]));
    assert_eq!(feed.too_far_behind(21, 18), [ONE, TWO], "what commits cost beside their rows is in memory");
    // Files end with the boundaries that all replicas keep.
    for replica in [ONE, TWO] {
        let end = feed.next(replica, 30).unwrap().unwrap().end;
        feed.kept(replica, end);
    }
    assert_eq!((feed.placed, feed.filed), (10, 0));
    more(&mut feed, 5..=6);
    feed.put_away(15, &mut |_: &mut [&'static str]| Ok(10)).unwrap();
    assert_eq!((feed.placed, feed.filed), (30, 20));
    let full = |_: &mut [&'static str]| Err(io::ErrorKind::StorageFull.into());
    more(&mut feed, 7..=7);
    feed.put_away(5, full).unwrap_err();
    assert_eq!((part(&feed, 70), feed.filed), ("rows", 20));
    feed.follow(None);
    assert_eq!((feed.placed, feed.filed), (0, 0));
}
