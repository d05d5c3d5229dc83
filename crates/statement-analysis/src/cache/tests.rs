//! The cache: exact, bounded, and forgetful in time.

use super::*;
use crate::shape::Strings;

fn key<'a>(shape: &'a Shape, text: &'a str) -> CacheKey<'a> {
    CacheKey {
        shape,
        text,
        types: &[],
        settings: SettingsId::new(1),
        database: DatabaseId::new(5),
        catalog: 1,
    }
}

fn shape(text: &str) -> Shape {
    Shape::of(text, Strings::Standard)
}

/// Analyses `text` as `value`, if it is absent.
fn learn(cache: &mut Cache<u32>, text: &str, value: u32) {
    let shape = shape(text);
    if let Some(ticket) = cache.begin(&key(&shape, text)) {
        cache.finish(ticket, Outcome::Ready { value, bytes: 500 });
    }
}

fn known(cache: &mut Cache<u32>, text: &str) -> Option<u32> {
    match cache.get(&key(&shape(text), text)) {
        Found::Ready(value) => Some(*value),
        Found::Pending | Found::Absent => None,
    }
}

#[test]
fn a_miss_is_analysed_once() {
    let mut cache = Cache::new(1 << 20);
    let (text, shape) = ("SELECT 1", shape("SELECT 1"));
    assert_eq!(cache.get(&key(&shape, text)), Found::Absent);
    let ticket = cache.begin(&key(&shape, text)).unwrap();
    assert_eq!(cache.get(&key(&shape, text)), Found::Pending);
    assert!(cache.begin(&key(&shape, text)).is_none());
    cache.finish(ticket, Outcome::Ready { value: 7, bytes: 10 });
    assert_eq!(known(&mut cache, "SELECT  2"), Some(7));
    assert!(cache.begin(&key(&shape, text)).is_none());
    assert_eq!((cache.counters().hits, cache.counters().misses), (1, 2));
}

#[test]
fn every_part_of_the_key_counts() {
    let mut cache = Cache::new(1 << 20);
    let text = "SELECT a FROM t WHERE b = $1";
    learn(&mut cache, text, 1);
    let shape = shape(text);
    let same = key(&shape, text);
    assert_eq!(cache.get(&same), Found::Ready(&1));
    assert_eq!(cache.get(&CacheKey { types: &[23], ..same }), Found::Absent);
    assert_eq!(cache.get(&CacheKey { settings: SettingsId::new(2), ..same }), Found::Absent);
    assert_eq!(cache.get(&CacheKey { database: DatabaseId::new(6), ..same }), Found::Absent);
    assert_eq!(cache.get(&CacheKey { catalog: 2, ..same }), Found::Absent);
    let ticket = cache.begin(&CacheKey { types: &[23, 25], ..same }).unwrap();
    cache.finish(ticket, Outcome::Ready { value: 2, bytes: 10 });
    assert_eq!(cache.get(&CacheKey { types: &[23, 25], ..same }), Found::Ready(&2));
    assert_eq!(cache.get(&CacheKey { types: &[25, 23], ..same }), Found::Absent);
}

#[test]
fn literals_that_mean_something_are_looked_up_by_the_text() {
    let mut cache = Cache::new(1 << 20);
    let (one, two) = ("SELECT nextval('a')", "SELECT nextval('b')");
    let (of_one, of_two) = (shape(one), shape(two));
    let ticket = cache.begin(&key(&of_one, one)).unwrap();
    cache.finish(ticket, Outcome::Exact { value: 1, bytes: 10 });
    assert_eq!(known(&mut cache, one), Some(1));
    assert_eq!(known(&mut cache, two), None);
    let ticket = cache.begin(&key(&of_two, two)).unwrap();
    assert_eq!(cache.get(&key(&of_two, two)), Found::Pending);
    assert_eq!(known(&mut cache, one), Some(1), "the other text is not touched");
    cache.finish(ticket, Outcome::Exact { value: 2, bytes: 10 });
    assert_eq!((known(&mut cache, one), known(&mut cache, two)), (Some(1), Some(2)));
}

#[test]
fn errors_are_never_kept() {
    let mut cache: Cache<u32> = Cache::new(1 << 20);
    let (text, shape) = ("SELECT 1", shape("SELECT 1"));
    let ticket = cache.begin(&key(&shape, text)).unwrap();
    cache.finish(ticket, Outcome::Failed);
    assert_eq!(cache.get(&key(&shape, text)), Found::Absent);
    assert!(cache.begin(&key(&shape, text)).is_some());
}

/// A view is redefined while a statement that reads it is being analysed: the answer is from before, and must not be kept.
#[test]
fn what_began_before_an_invalidation_is_forgotten() {
    let mut cache = Cache::new(1 << 20);
    let (text, shape) = ("SELECT * FROM v", shape("SELECT * FROM v"));
    for forget in [
        (|cache| cache.forget_database(DatabaseId::new(5))) as fn(&mut Cache<u32>),
        |cache| cache.forget(DatabaseId::new(5), |_| false),
        Cache::clear,
    ] {
        let ticket = cache.begin(&key(&shape, text)).unwrap();
        forget(&mut cache);
        // Another takes its place before the first ends.
        let second = cache.begin(&key(&shape, text)).unwrap();
        cache.finish(ticket, Outcome::Ready { value: 1, bytes: 10 });
        assert_eq!(cache.get(&key(&shape, text)), Found::Pending);
        cache.finish(second, Outcome::Failed);
    }
}

#[test]
fn only_what_is_concerned_is_forgotten() {
    let mut cache = Cache::new(1 << 20);
    (1..=9).for_each(|n| learn(&mut cache, &format!("SELECT a{n}"), n));
    cache.forget(DatabaseId::new(6), |_| true);
    assert_eq!(cache.counters().entries, 9);
    cache.forget(DatabaseId::new(5), |value| value % 2 == 0);
    assert_eq!((known(&mut cache, "SELECT a1"), known(&mut cache, "SELECT a2")), (Some(1), None));
    assert_eq!(cache.counters().entries, 5);
    cache.forget_database(DatabaseId::new(5));
    assert_eq!((cache.counters().entries, cache.counters().bytes), (0, 0));
}

#[test]
fn what_has_no_shape_is_not_kept() {
    let mut cache: Cache<u32> = Cache::new(1 << 20);
    let (text, shape) = ("SELECT N'a'", shape("SELECT N'a'"));
    assert_eq!(cache.get(&key(&shape, text)), Found::Absent);
    assert!(cache.begin(&key(&shape, text)).is_none());
}

#[test]
fn a_million_distinct_statements_stay_below_the_bound() {
    const BOUND: usize = 1 << 20;
    let mut cache = Cache::new(BOUND);
    learn(&mut cache, "SELECT often", 0);
    let mut shape = Shape::new();
    for n in 0..1_000_000u32 {
        let text = format!("SELECT a{n} FROM t WHERE b = $1");
        shape.read(&text, Strings::Standard);
        let ticket = cache.begin(&key(&shape, &text)).unwrap();
        cache.finish(ticket, Outcome::Ready { value: n, bytes: 200 + n as usize % 400 });
        if n % 100 == 0 {
            assert_eq!(known(&mut cache, "SELECT often"), Some(0), "what is asked for stays");
            assert!(cache.counters().bytes <= BOUND, "{:?}", cache.counters());
        }
    }
    let counters = cache.counters();
    assert!(counters.bytes > BOUND / 2 && counters.entries > 1000, "{counters:?}");
    assert!(counters.evictions > 990_000, "{counters:?}");
    cache.clear();
    assert_eq!((cache.counters().bytes, cache.counters().entries), (0, 0));
}

#[test]
fn what_is_too_large_is_not_kept() {
    let mut cache = Cache::new(1 << 16);
    let (text, shape) = ("SELECT 1", shape("SELECT 1"));
    let ticket = cache.begin(&key(&shape, text)).unwrap();
    cache.finish(ticket, Outcome::Ready { value: 1, bytes: 1 << 15 });
    assert_eq!(cache.get(&key(&shape, text)), Found::Absent);
    assert_eq!(cache.counters().bytes, 0);
    let long = format!("SELECT '{}', a", "x".repeat(9000));
    learn(&mut cache, &long, 2);
    assert_eq!(known(&mut cache, &long), Some(2), "the literal is not part of the key");
}
