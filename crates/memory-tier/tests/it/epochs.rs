//! Acknowledgements, versions that an epoch drops, and nodes that were away.

use super::{Member, eventually};
use memory_tier::message::{Part, Reply};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY)";

/// A master and two slaves in epoch 1, with a table at version 2.
fn tier() -> [Member; 3] {
    let nodes = ["a", "b", "c"].map(Member::start);
    let [master, one, other] = &nodes;
    master.leads(1, 0, &["log", "b", "c"]);
    one.follows(1, 0, master);
    other.follows(1, 0, master);
    let log = master.log(1, 0);
    log.take(1);
    eventually("the catalog", || master.received() == 1);
    let session = master.session();
    session.send(1, true, TABLE);
    log.take(2);
    assert_eq!(session.done().0, 2);
    // The subscription of the epoch ends with the test's own end of it.
    nodes
}

#[test]
fn a_commit_is_shown_when_the_log_and_all_members_have_it() {
    let [master, one, other] = tier();
    let log = master.log(1, 2);
    let session = master.session();
    session.send(2, true, "INSERT INTO t VALUES (1)");
    assert_eq!(log.next(), 3);
    eventually("the slaves", || one.received() == 3 && other.received() == 3);
    assert_eq!(master.received(), 2, "the log does not have it");
    assert_eq!(master.session().rows(2, "SELECT id FROM t"), 0);
    log.acknowledge(3);
    assert_eq!(session.done().0, 3);
    assert_eq!(master.received(), 3);
    for node in [&master, &one, &other] {
        assert_eq!(node.session().rows(3, "SELECT id FROM t"), 1);
        assert_eq!(node.hash(3), master.hash(3));
    }
    // A member that is not there holds a commit up, until it is none.
    let state = master.state(&members(&["log", "b", "c", "d"]));
    assert_eq!(state.received, 3);
    session.send(3, true, "INSERT INTO t VALUES (2)");
    log.take(4);
    eventually("the slaves", || one.received() == 4 && other.received() == 4);
    assert_eq!(master.received(), 3);
    master.state(&members(&["log", "b", "c"]));
    assert_eq!(session.done().0, 4);
}

fn members(names: &[&str]) -> memory_tier::message::Order {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    memory_tier::message::Order::Members { epoch: 1, names }
}

#[test]
fn an_epoch_drops_what_is_not_decided_and_its_own_versions_take_the_place() {
    let [old, new, other] = tier();
    let log = old.log(1, 2);
    let session = old.session();
    session.send(2, true, "INSERT INTO t VALUES (1)");
    assert_eq!(log.next(), 3);
    eventually("the slaves", || new.received() == 3 && other.received() == 3);
    let reader = other.session();
    assert_eq!(reader.rows(2, "SELECT id FROM t"), 0);
    // Neither a description nor a copy at an acknowledged version holds on to what is not.
    reader.describe(2, "SELECT id FROM t");
    assert_eq!(other.copy(2), 2);
    // The log has never said that it has version 3.
    assert_eq!(new.becomes(2, 2, Part::Idle).received, 2);
    new.leads(2, 2, &["log", "c"]);
    assert_eq!(other.follows(2, 2, &new).received, 2);
    let log = new.log(2, 2);
    let next = new.session();
    next.send(2, true, "ALTER TABLE t ADD COLUMN v text");
    log.take(3);
    assert_eq!(next.done().0, 3);
    eventually("the slave", || other.received() == 3);
    assert_eq!(new.hash(3), other.hash(3));
    assert_eq!(reader.rows(3, "SELECT v FROM t"), 0);
    // The client at the old master hears that it cannot know; the node comes back without the commit.
    let state = old.follows(2, 2, &new);
    assert_eq!(state.epoch, 2);
    match session.reply() {
        Reply::Failed(failure) => assert_eq!(failure.sqlstate, "08007", "{failure:?}"),
        other => panic!("{other:?}"),
    }
    eventually("the old master", || old.received() == 3);
    assert_eq!(old.hash(3), new.hash(3));
    assert_eq!(old.session().rows(3, "SELECT v FROM t"), 0);
}

#[test]
fn a_node_that_lacks_much_copies_pages_and_goes_on_with_write_sets() {
    let [master, one, other] = tier();
    drop(one);
    master.state(&members(&["log", "c"]));
    let log = master.log(1, 2);
    let session = master.session();
    for number in 0..20 {
        session.send(
            2,
            true,
            &format!("INSERT INTO t SELECT i FROM generate_series({0}, {0} + 99) i", number * 100),
        );
        log.take(3 + number);
        session.done();
    }
    // A new node asks for version 1, which the master still has; then for all pages, by a new epoch's support.
    let fresh = Member::start("e");
    let (name, address) = (fresh.name.clone(), other.address.to_string());
    fresh.becomes(1, 0, Part::Slave { name, master: master.address.to_string(), support: address });
    eventually("the fresh node", || fresh.received() == 22);
    assert_eq!(fresh.hash(22), master.hash(22));
    assert_eq!(fresh.session().rows(22, "SELECT id FROM t"), 2000);
}
