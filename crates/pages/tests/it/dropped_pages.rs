//! Pages that were written and dropped: by a reader's end, by the writer, by a fail-over. A cache must not take them for
//! a later version.

use pages::{Error, Reader, Writer};

use crate::setup::{commit, dump, publish, receive, rows, rows_at, store};

const COUNT: &str = "select count(*), coalesce(sum(v), 0) from t";

#[test]
fn private_pages_are_dropped_at_the_end() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let mut at = publish(&mut writer, &[&store], "create table t (v); insert into t values (1)");
    let mut reader = Reader::open(&store).unwrap();
    for round in 0..20 {
        reader.begin(at).unwrap();
        reader.connection().execute_batch("insert into t values (1000)").unwrap();
        if round % 2 == 0 {
            // The caller's own COMMIT writes pages, and the counter that the next version would have in a file.
            reader.connection().execute_batch("commit").unwrap();
        }
        let own = rows(reader.connection(), COUNT).unwrap();
        assert_eq!(own, [format!("[Integer({}), Integer({})]", round + 2, round + 1001)]);
        reader.end();
        if round % 3 == 0 {
            assert_eq!(
                rows_at(&mut reader, at, COUNT).unwrap(),
                [format!("[Integer({0}), Integer({0})]", round + 1)]
            );
        }
        at = publish(&mut writer, &[&store], "insert into t values (1)");
        assert_eq!(
            rows_at(&mut reader, at, COUNT).unwrap(),
            [format!("[Integer({0}), Integer({0})]", round + 2)]
        );
    }
}

#[test]
fn private_definitions_are_dropped_at_the_end() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let at = publish(&mut writer, &[&store], "create table t (v)");
    for end in ["", "commit"] {
        let mut reader = Reader::open(&store).unwrap();
        reader.begin(at).unwrap();
        reader.connection().execute_batch("create table x (mine); insert into x values (1)").unwrap();
        reader.connection().execute_batch(end).unwrap();
        reader.end();
        // The other definition gets the schema cookie that the dropped one had.
        let mut other = Writer::open(&store).unwrap();
        let set = commit(&mut other, "create table x (theirs, more)");
        other.drop_unpublished();
        let fresh = crate::setup::store();
        let images = store.images(0, at).unwrap();
        fresh
            .load(at, images.map(|image| image.map(|(n, v, page)| (n, v, Box::new(*page))).unwrap()))
            .unwrap();
        receive(&[&fresh], &set);
        let mut theirs = Reader::open(&fresh).unwrap();
        assert!(rows_at(&mut theirs, at + 1, "select theirs, more from x").is_ok());
        assert!(rows_at(&mut reader, at, "select mine from x").is_err());
    }
    let mut reader = Reader::open(&store).unwrap();
    reader.begin(at).unwrap();
    reader.connection().execute_batch("create table x (mine); commit").unwrap();
    reader.end();
    let next = publish(&mut writer, &[&store], "create table x (theirs, more)");
    assert!(rows_at(&mut reader, next, "select theirs, more from x").is_ok());
}

#[test]
fn writer_forgets_what_was_not_published() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let at = publish(&mut writer, &[&store], "create table t (v); insert into t values (1)");
    let mut lost = Vec::new();
    for _ in 0..3 {
        lost.push(commit(&mut writer, "insert into t values (1000); create table lost (v); drop table lost"));
    }
    commit(&mut writer, "create table lost (v)");
    writer.drop_unpublished();
    assert_eq!(writer.version(), at);
    assert_eq!(
        publish(&mut writer, &[&store], "insert into t values (2); create table found (v, w)"),
        at + 1
    );
    let mut reader = Reader::open(&store).unwrap();
    assert_eq!(rows_at(&mut reader, at + 1, COUNT).unwrap(), ["[Integer(2), Integer(3)]"]);
    assert_eq!(rows_at(&mut reader, at + 1, "select v, w from found").unwrap().len(), 0);
    assert_eq!(
        store.receive(lost.remove(0)).unwrap_err().expected,
        at + 2,
        "the dropped write set comes late"
    );
    writer.begin().unwrap();
    assert_eq!(rows(writer.connection(), COUNT).unwrap(), ["[Integer(2), Integer(3)]"]);
}

#[test]
fn discarded_versions_leave_no_trace() {
    let (master, slave) = (store(), store());
    let mut writer = Writer::open(&master).unwrap();
    let mut reader = Reader::open(&slave).unwrap();
    let at = publish(&mut writer, &[&master, &slave], "create table t (v); insert into t values (1)");
    rows_at(&mut reader, at, COUNT).unwrap();
    // Two versions reach this slave alone, and the master fails.
    let lost = commit(&mut writer, "insert into t values (1000); create table x (lost)");
    receive(&[&slave], &lost);
    receive(&[&slave], &commit(&mut writer, "insert into t values (1000)"));
    let mut caught = Reader::open(&slave).unwrap();
    slave.examine();
    assert!(matches!(slave.discard_above(at - 1), Err(Error::Gone { .. })), "an acknowledged version");
    slave.discard_above(at).unwrap();
    assert_eq!(slave.received(), at);
    assert!(matches!(caught.begin(at + 1), Err(Error::Unreceived { .. })));
    // The slave becomes the master.
    let mut successor = Writer::open(&slave).unwrap();
    assert_eq!(
        publish(&mut successor, &[&slave], "insert into t values (2); create table x (a, found)"),
        at + 1
    );
    for reader in [&mut reader, &mut caught] {
        assert_eq!(rows_at(reader, at + 1, COUNT).unwrap(), ["[Integer(2), Integer(3)]"]);
        assert_eq!(rows_at(reader, at + 1, "select found from x").unwrap().len(), 0);
    }
}

#[test]
fn reader_of_a_discarded_version_fails_by_name() {
    let (master, slave) = (store(), store());
    let mut writer = Writer::open(&master).unwrap();
    publish(
        &mut writer,
        &[&slave, &master],
        "create table t (v); create table u (v); insert into u values (4)",
    );
    publish(&mut writer, &[&slave, &master], "insert into t values (1)");
    let mut reader = Reader::open(&slave).unwrap();
    let mut older = Reader::open(&slave).unwrap();
    older.begin(1).unwrap();
    reader.begin(2).unwrap();
    assert_eq!(rows(reader.connection(), COUNT).unwrap(), ["[Integer(1), Integer(1)]"]);
    slave.discard_above(1).unwrap();
    let error = rows(reader.connection(), "select * from u").unwrap_err();
    assert!(matches!(reader.explain(error), Error::Discarded));
    reader.end();
    assert_eq!(rows(older.connection(), "select * from u").unwrap(), ["[Integer(4)]"]);
    older.end();
    // The same number, another content: the cache of version 2 is not used.
    let mut successor = Writer::open(&slave).unwrap();
    assert_eq!(publish(&mut successor, &[&slave], "insert into t values (50)"), 2);
    assert_eq!(rows_at(&mut reader, 2, COUNT).unwrap(), ["[Integer(1), Integer(50)]"]);
}

#[test]
fn writer_of_a_discarded_version_cannot_commit() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    publish(&mut writer, &[&store], "create table t (v)");
    publish(&mut writer, &[&store], "insert into t values (1)");
    writer.begin().unwrap();
    writer.connection().execute_batch("insert into t values (2)").unwrap();
    store.discard_above(1).unwrap();
    assert!(matches!(writer.commit(), Err(Error::Discarded)));
    assert_eq!(publish(&mut writer, &[&store], "insert into t values (3)"), 2);
    let mut reader = Reader::open(&store).unwrap();
    assert_eq!(rows_at(&mut reader, 2, COUNT).unwrap(), ["[Integer(1), Integer(3)]"]);
}

/// T1 empties a leaf, which SQLite frees without writing it; T2 fills it again.
#[test]
fn freed_leaf_is_used_again() {
    let (master, slave) = (store(), store());
    let plain = rusqlite::Connection::open_in_memory().unwrap();
    let mut writer = Writer::open(&master).unwrap();
    let mut reader = Reader::open(&slave).unwrap();
    let fill = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 400)
        insert into t select i, printf('%0200d', i) from n";
    let mut run = |sql: &str| {
        plain.execute_batch(sql).unwrap();
        let at = publish(&mut writer, &[&master, &slave], sql);
        reader.begin(at).unwrap();
        assert_eq!(dump(reader.connection()).unwrap(), dump(&plain).unwrap());
        assert_eq!(master.hash(at).unwrap(), slave.hash(at).unwrap());
    };
    run("create table t (id integer primary key, v text)");
    run(fill);
    for start in (0..380).step_by(20) {
        run(&format!("delete from t where id between {start} and {}", start + 19));
        run(&format!("insert into t values ({}, hex(zeroblob(90)))", start + 5));
        run(&format!("create table u{start} as select * from t where id % 50 = {}", start % 50));
    }
    run("delete from t");
    run(fill);
}

#[test]
fn refused_commit_leaves_nothing() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let sql = "create table p (id integer primary key); create table c (p references p deferrable initially deferred)";
    publish(&mut writer, &[&store], sql);
    writer.begin().unwrap();
    writer.connection().execute_batch("insert into c values (7)").unwrap();
    assert!(matches!(writer.commit(), Err(Error::Sqlite(_))));
    let at = publish(&mut writer, &[&store], "insert into p values (7); insert into c values (7)");
    let mut reader = Reader::open(&store).unwrap();
    assert_eq!(rows_at(&mut reader, at, "select * from c").unwrap().len(), 1);
}
