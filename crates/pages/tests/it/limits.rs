//! The byte bound, and what a connection may not do.

use pages::{Error, Options, Policy, Reader, Store, Writer};

use crate::setup::{publish, rows, rows_at, store};

const MANY: &str = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 200)
    insert into t select i, hex(randomblob(400)) from n";

#[test]
fn oldest_reader_is_evicted_above_the_bound() {
    let store = Store::new(Options { policy: Policy::Keep, max_bytes: 1 << 20 });
    let mut writer = Writer::open(&store).unwrap();
    publish(&mut writer, &[&store], "create table t (id integer primary key, v text)");
    let old = publish(&mut writer, &[&store], MANY);
    let [mut oldest, mut writing, mut newer] = [(); 3].map(|()| Reader::open(&store).unwrap());
    oldest.begin(old).unwrap();
    assert_eq!(rows(oldest.connection(), "select v from t where id = 1").unwrap().len(), 1);
    writing.begin(old).unwrap();
    writing.connection().execute_batch("update t set v = 'x' where id = 1").unwrap();
    let mut at = old;
    while store.readers() == 2 {
        at = publish(&mut writer, &[&store], "update t set v = hex(randomblob(400))");
        assert!(at < old + 100);
    }
    newer.begin(at).unwrap();
    let failed = rows(oldest.connection(), "select sum(length(v)) from t").unwrap_err();
    assert!(matches!(oldest.explain(failed), Error::Evicted));
    oldest.end();
    while store.oldest_reader().is_some_and(|version| version < at) {
        assert!(at < old + 200);
        at = publish(&mut writer, &[&store], "update t set v = hex(randomblob(400))");
    }
    let failed = writing.connection().execute_batch("update t set v = 'x'").unwrap_err();
    assert!(matches!(writing.explain(failed), Error::Evicted));
    writing.end();
    let expected = rows_at(&mut newer, at, "select sum(length(v)) from t").unwrap();
    assert_eq!(expected, ["[Integer(160000)]"]);
    for reader in [&mut oldest, &mut writing] {
        assert_eq!(
            rows_at(reader, at, "select sum(length(v)) from t").unwrap(),
            expected,
            "a new transaction"
        );
    }
    assert!(store.bytes() <= 1 << 20, "{} bytes", store.bytes());
}

#[test]
fn long_reader_costs_no_more_than_its_pages() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    publish(&mut writer, &[&store], "create table t (id integer primary key, v text)");
    let old = publish(&mut writer, &[&store], MANY);
    let mut reader = Reader::open(&store).unwrap();
    let mut recent = Reader::open(&store).unwrap();
    reader.begin(old).unwrap();
    let expected = rows(reader.connection(), "select * from t").unwrap();
    let before = store.bytes();
    for _ in 0..200 {
        let at = publish(&mut writer, &[&store], "update t set v = hex(randomblob(400)) where id = 100");
        assert_eq!(rows_at(&mut recent, at, "select count(*) from t").unwrap(), ["[Integer(200)]"]);
    }
    assert_eq!(rows(reader.connection(), "select * from t").unwrap(), expected);
    let growth = store.bytes() - before;
    assert!(growth > 200 * 800, "diffs above the horizon stay: {growth} bytes");
    reader.end();
    recent.end();
    store.examine();
    assert!(store.bytes() <= before, "{} bytes, {before} before", store.bytes());
}

#[test]
fn statements_outside_of_a_transaction_fail() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let at = publish(&mut writer, &[&store], "create table t (v)");
    let mut reader = Reader::open(&store).unwrap();
    assert_eq!(rows_at(&mut reader, at, "select * from t").unwrap().len(), 0);
    let error = rows(reader.connection(), "select * from t").unwrap_err();
    assert!(matches!(reader.explain(error), Error::Closed));
    let error = writer.connection().execute_batch("insert into t values (1)").unwrap_err();
    assert!(matches!(writer.explain(error), Error::Closed));
    assert_eq!(rows_at(&mut reader, at, "select * from t").unwrap().len(), 0);
    let error = reader.connection().execute_batch("nonsense").unwrap_err();
    assert!(matches!(reader.explain(error), Error::Sqlite(_)));
}

#[test]
fn no_other_file_is_opened() {
    let store = store();
    let mut writer = Writer::open(&store).unwrap();
    let folder = std::env::temp_dir().join(format!("pages-{}", std::process::id()));
    let path = folder.display();
    for sql in [
        &format!("attach '{path}' as other"),
        &format!("vacuum into '{path}'"),
        "pragma journal_mode = delete; create table t (v)",
        "pragma locking_mode = exclusive; pragma journal_mode = wal; create table t (v)",
    ] {
        let mut reader = Reader::open(&store).unwrap();
        reader.begin(0).unwrap();
        // The caller's COMMIT: what is not allowed in a transaction is tried after it.
        let error =
            reader.connection().execute_batch(&format!("create table s (v); commit; {sql}")).unwrap_err();
        assert!(error.to_string().contains("unable to open"), "{sql}: {error}");
    }
    writer.begin().unwrap();
    writer.connection().execute_batch("create table t (v); create temp table x (v)").unwrap();
    let many = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 30000)
        insert into temp.x select hex(randomblob(100)) from n;
        insert into t select v from x order by v desc; create index i on t (v)";
    writer.connection().execute_batch(many).unwrap();
    writer.commit().unwrap().expect("a large transaction");
    assert!(!folder.exists());
    let descriptors =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fd.unwrap().path().read_link().ok());
    let files: Vec<_> = descriptors.filter(|path| path.to_string_lossy().contains("etilqs")).collect();
    assert!(files.is_empty(), "{files:?}");
}
