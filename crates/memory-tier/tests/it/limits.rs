//! Limits of a node: connections that say nothing, commits that change too much, versions of a page.

use super::{LIMIT, Member, eventually};
use memory_tier::message::{Order, Part, Reply};
use memory_tier::node::{Limits, Policy};
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn connections_that_say_nothing_are_closed() {
    let limits = Limits { hello: Duration::from_millis(200), ..Limits::default() };
    let node = Member::start_with("a", Policy::Keep, limits);
    // As many as a node lets wait, and more: the node takes no notice of those.
    let silent: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(node.address).expect("the node listens")).collect();
    for mut stream in silent {
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "the node says nothing");
    }
    node.session();
}

#[test]
fn commit_that_changes_too_much_is_refused() {
    let limits = Limits { write_set_bytes: 40_000, ..Limits::default() };
    let master = Member::start_with("a", Policy::Keep, limits);
    master.leads(1, 0, &[]);
    let session = master.session();
    session.send(1, true, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    assert_eq!(session.done().0, 2);
    session.send(2, true, "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 20) i");
    assert_eq!(session.done().0, 3);
    session.send(3, true, "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(101, 200) i");
    assert_eq!(session.failed(), "54000");
    // The writer has what no other node has: the node is no master until the next epoch.
    let state = master.state(&Order::Report);
    assert_eq!((state.part, state.received), (Part::Idle, 3));
    master.leads(2, 3, &[]);
    session.send(3, true, "INSERT INTO t VALUES (1000, 'y')");
    assert_eq!(session.done().0, 4);
    assert_eq!(session.rows(4, "SELECT id FROM t"), 21);
}

/// With one version of each page a read that meets a newer page is aborted, and counts. With all versions it goes on.
#[test]
fn single_versions_abort_readers_of_older_ones() {
    for (policy, aborted) in [(Policy::Single, 1), (Policy::Keep, 0)] {
        let [master, slave] = ["a", "b"].map(|name| Member::start_with(name, policy, Limits::default()));
        master.leads(1, 0, &["b"]);
        slave.follows(1, 0, &master);
        let session = master.session();
        session.send(1, true, "CREATE TABLE t (id int PRIMARY KEY, v text)");
        session.done();
        session.send(2, true, "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 100) i");
        assert_eq!(session.done().0, 3);
        let (old, new) = (slave.session(), slave.session());
        old.ask(&memory_tier::message::Request::Begin(super::begin(3, false)));
        assert!(matches!(old.reply(), Reply::Begun { at: 3 }));
        session.send(3, true, "UPDATE t SET v = repeat('y', 1000)");
        assert_eq!(session.done().0, 4);
        assert_eq!(new.rows(4, "SELECT v FROM t"), 100);
        old.ask(&memory_tier::message::Request::Run(super::run("SELECT count(v) FROM t")));
        let fails = loop {
            match old.reply() {
                Reply::Rows { .. } => {}
                Reply::Done { .. } => break false,
                Reply::Failed(failure) => break failure.sqlstate == memory_tier::message::ELSEWHERE,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(fails, aborted == 1, "{policy:?}");
        eventually("a count", || slave.state(&Order::Report).aborted == aborted);
    }
}
