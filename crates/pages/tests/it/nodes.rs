//! Nodes that join, and a slave that becomes the master.

use pages::{Reader, Store, Version, WriteSet, Writer};

use crate::setup::{commit, dump, publish, receive, store};

/// Sends images from one store to another one, as bytes would travel.
fn join(from: &Store, to: &Store, newer_than: Version) -> usize {
    let at = from.received();
    let images = from.images(newer_than, at).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let pages = images.len();
    assert!(images.is_sorted_by_key(|(number, ..)| *number));
    assert!(images.iter().all(|(_, version, _)| newer_than < *version && *version <= at));
    to.load(at, images.into_iter().map(|(number, version, page)| (number, version, Box::new(*page))))
        .unwrap();
    pages
}

#[test]
fn joined_node_follows_the_master() {
    let (master, joined) = (store(), store());
    let mut writer = Writer::open(&master).unwrap();
    publish(&mut writer, &[&master], "create table t (id integer primary key, v text); create table u (v)");
    for id in 0..300 {
        publish(&mut writer, &[&master], &format!("insert into t values ({id}, hex(randomblob(100)))"));
    }
    let all = join(&master, &joined, 0);
    assert_eq!(joined.hash(301).unwrap(), master.hash(301).unwrap());
    let mut reader = Reader::open(&joined).unwrap();
    reader.begin(301).unwrap();
    let before = dump(reader.connection()).unwrap();
    let mut missed: Vec<WriteSet> = (0..5).map(|_| commit(&mut writer, "insert into u values (1)")).collect();
    let last = missed.pop().unwrap();
    missed.iter().for_each(|set| receive(&[&master], set));
    let some = join(&master, &joined, 301);
    assert!(some < 3 && some < all, "{some} of {all} pages");
    assert_eq!(dump(reader.connection()).unwrap(), before, "a reader from before goes on");
    receive(&[&master, &joined], &last);
    reader.begin(306).unwrap();
    writer.begin().unwrap();
    assert_eq!(dump(reader.connection()).unwrap(), dump(writer.connection()).unwrap());
    assert_eq!(joined.hash(306).unwrap(), master.hash(306).unwrap());
    assert!(master.images(0, 307).is_err());
}

#[test]
fn shortened_database_joins() {
    let (master, slave, joined) = (store(), store(), store());
    let mut writer = Writer::open(&master).unwrap();
    let fill = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 300)
        insert into t select i, hex(randomblob(300)) from n";
    publish(
        &mut writer,
        &[&master, &slave, &joined],
        "pragma auto_vacuum = full; create table t (id integer primary key, v)",
    );
    publish(&mut writer, &[&master, &slave, &joined], fill);
    // A node that was away meanwhile has pages above the end.
    publish(&mut writer, &[&master, &slave], "delete from t");
    join(&master, &joined, 2);
    publish(&mut writer, &[&master, &slave, &joined], fill);
    let hashes = [&master, &slave, &joined].map(|store| store.hash(4).unwrap());
    assert_eq!([hashes[0]; 3], hashes);
}

#[test]
fn slave_becomes_the_master() {
    let stores = [store(), store(), store()];
    let [first, second, third] = &stores;
    let mut writer = Writer::open(first).unwrap();
    publish(&mut writer, &[first, second, third], "create table t (v)");
    publish(&mut writer, &[first, second, third], "insert into t values (1)");
    second.acknowledge(2);
    second.examine();
    // The third node has not received the last version, which was never acknowledged.
    publish(&mut writer, &[first, second], "insert into t values (2)");
    second.examine();
    second.discard_above(2).unwrap();
    let mut successor = Writer::open(second).unwrap();
    let at = publish(&mut successor, &[second, third], "insert into t values (3)");
    let [found, expected] = [third, second].map(|store| {
        let mut reader = Reader::open(store).unwrap();
        reader.begin(at).unwrap();
        dump(reader.connection()).unwrap()
    });
    assert_eq!(found, expected);
    assert_eq!(found.iter().filter(|row| row.contains("Integer(3)")).count(), 1);
    assert!(!found.iter().any(|row| row.ends_with("Integer(2)]")), "{found:?}");
}
