//! Snapshots at several versions, and definitions that change between them.

use crate::setup::{commit, dump, publish, receive, rows, rows_at, store};
use pages::{Error, Reader, Writer};

#[test]
fn empty_store_is_an_empty_database() {
    let store = store();
    let mut reader = Reader::open(&store).unwrap();
    assert_eq!(rows_at(&mut reader, 0, "select * from sqlite_schema").unwrap(), Vec::<String>::new());
    reader.begin(0).unwrap();
    reader.connection().execute_batch("create table own (v)").unwrap();
    assert_eq!(rows(reader.connection(), "select count(*) from own").unwrap().len(), 1);
    reader.end();
    assert_eq!(rows_at(&mut reader, 0, "select * from sqlite_schema").unwrap(), Vec::<String>::new());
    assert_eq!(store.hash(0).unwrap(), store.hash(0).unwrap());
    assert!(matches!(reader.begin(1), Err(Error::Unreceived { at: 1, received: 0 })));
    assert!(matches!(store.hash(1), Err(Error::Unreceived { .. })));
}

#[test]
fn slave_reads_each_version_of_the_master() {
    let (master, slave) = (store(), store());
    let mut writer = Writer::open(&master).unwrap();
    let mut readers = [Reader::open(&slave).unwrap(), Reader::open(&slave).unwrap()];
    publish(&mut writer, &[&master, &slave], "create table t (id integer primary key, v text)");
    let second = publish(&mut writer, &[&master, &slave], "insert into t values (1, 'a'), (2, 'b')");
    let [old, new] = &mut readers;
    old.begin(1).unwrap();
    new.begin(second).unwrap();
    assert_eq!((slave.readers(), slave.oldest_reader()), (2, Some(1)));
    slave.examine();
    assert_eq!(rows(old.connection(), "select * from t").unwrap().len(), 0);
    assert_eq!(rows(new.connection(), "select * from t").unwrap().len(), 2);
    for version in 1..=2 {
        assert_eq!(master.hash(version).unwrap(), slave.hash(version).unwrap());
    }
    assert_ne!(master.hash(1).unwrap(), master.hash(2).unwrap());
    old.end();
    new.end();
    assert_eq!((slave.readers(), slave.oldest_reader()), (0, None));
    assert_eq!(old.begin(1).unwrap(), second, "version 1 has gone: the oldest that is held");
}

#[test]
fn prepared_statement_follows_definitions_both_ways() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let mut readers: Vec<Reader> = (0..2).map(|_| Reader::open(&store).unwrap()).collect();
    let mut guard = Reader::open(&store).unwrap();
    let old = publish(&mut writer, &[&store], "create table t (v); insert into t values (1)");
    guard.begin(old).unwrap();
    publish(&mut writer, &[&store], "alter table t add column w default 5");
    let new = publish(&mut writer, &[&store], "create index i on t (w); insert into t values (2, 6)");
    readers[0].begin(old).unwrap();
    readers[1].begin(new).unwrap();
    for reader in &readers {
        let at_old = std::ptr::eq(reader, &raw const readers[0]);
        let all = rows(reader.connection(), "select * from t order by v").unwrap();
        assert_eq!(all.len(), if at_old { 1 } else { 2 });
    }
    for round in 0..10 {
        let at = if round % 2 == 0 { old } else { new };
        let found = rows_at(&mut readers[round % 3 % 2], at, "select * from t order by v").unwrap();
        let expected: &[&str] = if at == old {
            &["[Integer(1)]"]
        } else {
            &["[Integer(1), Integer(5)]", "[Integer(2), Integer(6)]"]
        };
        assert_eq!(found, expected);
        let by_index = rows_at(&mut readers[round % 2], at, "select v from t where w = 6");
        assert_eq!(by_index.is_err(), at == old, "the column is not there yet");
    }
}

#[test]
fn reader_keeps_its_cache_while_the_version_stays() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let at = publish(&mut writer, &[&store], "create table t (v); insert into t values (1)");
    let mut reader = Reader::open(&store).unwrap();
    let data_version = "pragma data_version";
    let first = rows_at(&mut reader, at, data_version).unwrap();
    assert_eq!(rows_at(&mut reader, at, data_version).unwrap(), first, "no page is read again");
    let next = publish(&mut writer, &[&store], "insert into t values (2)");
    assert_ne!(rows_at(&mut reader, next, data_version).unwrap(), first);
}

#[test]
fn writer_works_ahead_of_what_is_published() {
    let (master, slave) = (store(), store());
    let mut writer = Writer::open(&master).unwrap();
    let mut reader = Reader::open(&slave).unwrap();
    let mut sets = vec![commit(&mut writer, "create table t (id integer primary key, v)")];
    for id in 1..200 {
        sets.push(commit(&mut writer, &format!("insert into t values ({id}, hex(randomblob(200)))")));
        if id % 3 == 0 {
            receive(&[&master, &slave], &sets.remove(0));
        }
        if id % 7 == 0 {
            writer.begin().unwrap();
            let set = sets.remove(0);
            writer.connection().execute_batch("delete from t where id % 2 = 0").unwrap();
            receive(&[&master, &slave], &set);
            assert_eq!(
                rows(writer.connection(), "select count(*) from t where id % 2 = 0").unwrap(),
                ["[Integer(0)]"]
            );
            writer.rollback();
        }
    }
    writer.begin().unwrap();
    let expected = dump(writer.connection()).unwrap();
    writer.rollback();
    sets.iter().for_each(|set| receive(&[&master, &slave], set));
    for store in [&master, &slave] {
        assert_eq!(store.received(), 200);
        let mut reader = Reader::open(store).unwrap();
        reader.begin(200).unwrap();
        assert_eq!(dump(reader.connection()).unwrap(), expected);
    }
    assert_eq!(master.hash(200).unwrap(), slave.hash(200).unwrap());
    reader.end();
}

#[test]
fn transaction_without_a_change_makes_no_version() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let at = publish(&mut writer, &[&store], "create table t (v); insert into t values (1)");
    for sql in [
        "",
        "select * from t",
        "update t set v = 1",
        "delete from t where v = 2",
        "savepoint s; delete from t; rollback to s",
    ] {
        writer.begin().unwrap();
        writer.connection().execute_batch(sql).unwrap();
        assert_eq!(writer.commit().unwrap(), None, "{sql}");
    }
    assert_eq!(writer.version(), at);
    let set = commit(&mut writer, "update t set v = 2");
    assert_eq!((set.version, set.pages()), (at + 1, 1), "page 1 has nothing to tell");
    assert!(set.bytes() < 48, "{} bytes", set.bytes());
}
