//! Policy `Single`: one image of each page, waits and conflicts.

use std::time::Instant;

use pages::{CONFLICT_WAIT, Error, Options, Policy, Reader, Store, Version, Writer};

use crate::setup::{publish, rows, rows_at, store};

/// A slave at three versions: the table, a row, another row in the same page.
fn slave() -> (Store, [Version; 2]) {
    let slave = Store::new(Options { policy: Policy::Single, max_bytes: usize::MAX });
    let master = store();
    let mut writer = Writer::open(&master).unwrap();
    let stores = [&slave];
    let mut run = |sql: &str| {
        let set = crate::setup::commit(&mut writer, sql);
        crate::setup::receive(&stores, &set);
        set.version
    };
    run("create table t (v); create table u (v)");
    let versions = [run("insert into t values (1)"), run("insert into t values (2)")];
    (slave, versions)
}

#[test]
fn newer_reader_waits_for_the_older_one() {
    let (slave, [old, new]) = slave();
    let mut first = Reader::open(&slave).unwrap();
    first.begin(old).unwrap();
    assert_eq!(rows(first.connection(), "select count(*) from t").unwrap(), ["[Integer(1)]"]);
    let waiting = std::thread::spawn({
        let slave = slave.clone();
        move || {
            let start = Instant::now();
            (rows_at(&mut Reader::open(&slave).unwrap(), new, "select count(*) from t"), start.elapsed())
        }
    });
    while slave.waits() == 0 {
        assert!(!waiting.is_finished());
        std::thread::yield_now();
    }
    assert_eq!(rows(first.connection(), "select count(*) from t").unwrap(), ["[Integer(1)]"]);
    first.end();
    let (counted, waited) = waiting.join().unwrap();
    assert_eq!(counted.unwrap(), ["[Integer(2)]"]);
    assert!(waited < CONFLICT_WAIT, "the end of the older reader wakes the newer one: {waited:?}");
}

#[test]
fn newer_reader_gives_up_after_the_bound() {
    let (slave, [old, new]) = slave();
    let mut first = Reader::open(&slave).unwrap();
    first.begin(old).unwrap();
    assert_eq!(rows(first.connection(), "select count(*) from t").unwrap(), ["[Integer(1)]"]);
    let mut second = Reader::open(&slave).unwrap();
    let start = Instant::now();
    assert!(matches!(rows_at(&mut second, new, "select count(*) from t"), Err(Error::Conflict)));
    assert!(start.elapsed() >= CONFLICT_WAIT);
    first.end();
    assert_eq!(rows_at(&mut second, new, "select count(*) from t").unwrap(), ["[Integer(2)]"]);
}

#[test]
fn older_reader_conflicts_with_a_newer_image() {
    let (slave, [old, new]) = slave();
    let mut first = Reader::open(&slave).unwrap();
    let mut second = Reader::open(&slave).unwrap();
    first.begin(old).unwrap();
    assert_eq!(rows(first.connection(), "select count(*) from u").unwrap(), ["[Integer(0)]"]);
    assert_eq!(rows_at(&mut second, new, "select count(*) from t").unwrap(), ["[Integer(2)]"]);
    let error = rows(first.connection(), "select count(*) from t").unwrap_err();
    assert!(matches!(first.explain(error), Error::Conflict));
    first.end();
    assert_eq!(rows_at(&mut first, new, "select count(*) from t").unwrap(), ["[Integer(2)]"]);
}

#[test]
fn readers_of_one_version_share_pages() {
    let (slave, [_, new]) = slave();
    let mut readers = [(); 4].map(|()| Reader::open(&slave).unwrap());
    for reader in &mut readers {
        reader.begin(new).unwrap();
        assert_eq!(rows(reader.connection(), "select count(*) from t").unwrap(), ["[Integer(2)]"]);
    }
    let master = store();
    let mut writer = Writer::open(&master).unwrap();
    let at = publish(&mut writer, &[&master], "create table t (v)");
    assert_eq!(at, 1, "a master of another policy stays as it is");
}
