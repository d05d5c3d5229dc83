//! Transactions that wait for the master's writer: cancel requests, time limits, the end of the epoch.

use super::{Member, Session, eventually};
use memory_tier::message::{ELSEWHERE, Order, Part, Reply};

/// A statement that takes hours.
const LONG: &str = "INSERT INTO t SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b, \
     generate_series(1, 100000) c";
const INSERT: &str = "INSERT INTO t VALUES (1)";

/// A master alone, with a table at version 2, and a session whose long statement has the writer.
fn busy() -> (Member, Session) {
    let master = Member::start("a");
    master.leads(1, 0, &[]);
    let session = master.session();
    session.send(1, true, "CREATE TABLE t (id int PRIMARY KEY)");
    assert_eq!(session.done().0, 2);
    session.send(2, true, LONG);
    let probe = master.session();
    probe.lock_timeout(1);
    eventually("a long statement that runs", || {
        probe.send(2, true, "DELETE FROM t WHERE id = 0");
        match probe.reply() {
            Reply::Failed(failure) => {
                assert_eq!(failure.sqlstate, "55P03", "{failure:?}");
                true
            }
            _ => false,
        }
    });
    (master, session)
}

/// Sends cancel requests until the session's transaction has failed. Returns the SQLSTATE.
fn canceled(master: &Member, session: &Session) -> String {
    session.stream.set_nonblocking(true).expect("a mode of the socket");
    let mut byte = [0];
    eventually("an answer", || {
        master.state(&Order::Cancel { session: session.number });
        session.stream.peek(&mut byte).is_ok()
    });
    session.stream.set_nonblocking(false).expect("a mode of the socket");
    session.failed()
}

#[test]
fn cancel_requests_and_limits_end_a_wait_for_the_writer() {
    let (master, long) = busy();
    let (one, block) = (master.session(), master.session());
    assert_eq!(master.state(&Order::Report).transactions, 1, "the one that runs counts");
    one.send(2, true, INSERT);
    block.send_block(2, INSERT);
    eventually("transactions that wait", || master.state(&Order::Report).transactions == 3);
    assert_eq!(canceled(&master, &one), "57014");
    assert_eq!(canceled(&master, &block), "57014");
    for session in [&one, &block] {
        session.lock_timeout(20);
    }
    one.send(2, true, INSERT);
    assert_eq!(one.failed(), "55P03");
    block.send_block(2, INSERT);
    assert_eq!(block.failed(), "55P03");
    assert_eq!(canceled(&master, &long), "57014");
    // The writer is free, and nothing of all that has taken effect.
    one.send(2, true, INSERT);
    assert_eq!(one.done().0, 3);
    assert_eq!(block.rows(3, "SELECT id FROM t"), 1);
    eventually("no transaction", || master.state(&Order::Report).transactions == 0);
}

#[test]
fn end_of_an_epoch_waits_for_no_writer() {
    let (master, long) = busy();
    let waiting = master.session();
    waiting.send(2, true, INSERT);
    eventually("a transaction that waits", || master.state(&Order::Report).transactions == 2);
    master.becomes(2, 2, Part::Idle);
    assert_eq!(waiting.failed(), ELSEWHERE);
    assert_eq!(long.failed(), ELSEWHERE);
    assert_eq!(master.leads(2, 2, &[]).received, 2);
    waiting.send(2, true, INSERT);
    assert_eq!(waiting.done().0, 3);
}

/// A commit of the old epoch is not acknowledged by the same number of the next one.
#[test]
fn commit_of_an_epoch_that_is_over_has_an_unknown_outcome() {
    let master = Member::start("a");
    master.leads(1, 0, &[]);
    let session = master.session();
    session.send(1, true, "CREATE TABLE t (id int PRIMARY KEY)");
    assert_eq!(session.done().0, 2);
    let names = vec!["log".to_owned()];
    master.state(&Order::Members { epoch: 1, names });
    session.send(2, true, INSERT);
    eventually("a version that no log has", || master.state(&Order::Report).made == 3);
    master.becomes(2, 2, Part::Idle);
    master.leads(2, 2, &[]);
    let other = master.session();
    other.send(2, true, "INSERT INTO t VALUES (7)");
    assert_eq!(other.done().0, 3);
    assert_eq!(session.failed(), "08007");
    assert_eq!(other.rows(3, "SELECT id FROM t WHERE id = 1"), 0);
}

/// A failure that tells of a change is told when the change is shown, and later reads show it.
#[test]
fn failure_waits_for_the_version_that_it_has_seen() {
    let master = Member::start("a");
    master.leads(1, 0, &["log"]);
    let log = master.log(1, 0);
    log.take(1);
    let (one, other) = (master.session(), master.session());
    one.send(1, true, "CREATE TABLE t (id int PRIMARY KEY)");
    log.take(2);
    assert_eq!(one.done().0, 2);
    one.send(2, true, INSERT);
    assert_eq!(log.next(), 3);
    other.send(2, true, INSERT);
    eventually("the second insert", || master.state(&Order::Report).transactions == 2);
    log.acknowledge(3);
    assert_eq!(one.done().0, 3);
    match other.reply() {
        Reply::Seen(version) => assert_eq!(version, 3),
        reply => panic!("{reply:?}"),
    }
    assert_eq!(other.failed(), "23505");
}
