//! Several COMMITs of one node under way at once, without the extension: each waits for the lock of the one before.

use super::{Peers, url_of};
use crate::fixture::eventually;
use crate::load::Client;
use local_cluster::Node;

/// Processes of sessions that cannot write their version.
const WAITING: &str = "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) \
     WHERE relation = 'consort.version'::regclass AND NOT granted AND state = 'fastpath function call'";

/// Two clients of one node, each with a row that it has written and not committed.
fn writers(peers: &Peers) -> (&Node, [Client; 2]) {
    peers.client().rows("CREATE TABLE t (id int PRIMARY KEY)").expect("a table");
    peers.equal("SELECT count(*) FROM t");
    let mut clients: Vec<(i64, Client)> = (0..4)
        .map(|_| peers.client())
        .map(|mut client| (client.number("SELECT number FROM consort.place").expect("a place"), client))
        .collect();
    clients.sort_by_key(|(number, _)| *number);
    let at = clients.windows(2).position(|pair| pair[0].0 == pair[1].0).expect("four clients at three nodes");
    let mut writers = clients.drain(at..at + 2);
    let mut writer = |id: i64| {
        let (number, mut client) = writers.next().expect("two clients");
        client.rows(&format!("BEGIN; INSERT INTO t VALUES ({id})")).expect("a row");
        (number, client)
    };
    let ((number, one), (_, other)) = (writer(1), writer(2));
    (&peers.cluster().nodes()[usize::try_from(number).expect("a node")], [one, other])
}

/// COMMITs that have come to the node, and cannot write their version.
fn waiting(looks: &mut Client) -> Vec<String> {
    let rows = looks.rows(WAITING).expect("locks");
    rows.iter().filter_map(|row| Some(row.get(0)?.to_owned())).collect()
}

/// Commits at both clients, one after the other, while no version can be written at the node; then does something there
/// that concerns the process of the first one.
fn commit_while_held(node: &Node, clients: &mut [Client; 2], act: impl FnOnce(&mut Client, &str)) {
    let connect = || Client::connect(&url_of(node)).expect("the node");
    let (mut holds, mut looks) = (connect(), connect());
    holds.rows("BEGIN; LOCK TABLE consort.version IN SHARE MODE").expect("a lock");
    let [one, other] = clients;
    std::thread::scope(|scope| {
        let first = scope.spawn(move || one.rows("COMMIT").map(drop));
        eventually("the first one is at the node", || waiting(&mut looks).len() == 1);
        let process = waiting(&mut looks).remove(0);
        let second = scope.spawn(move || other.rows("COMMIT").map(drop));
        eventually("both are at the node", || waiting(&mut looks).len() == 2);
        act(&mut looks, &process);
        holds.rows("ROLLBACK").expect("the lock is released");
        first.join().expect("a client").expect("a commit");
        second.join().expect("a client").expect("a commit");
    });
}

/// The second COMMIT is sent before the first one is shown, and both commit.
#[test]
fn chain_sends_several_commits_at_once() {
    let peers = Peers::chained();
    let (node, mut clients) = writers(&peers);
    commit_while_held(node, &mut clients, |_, _| {});
    assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"2\")]]");
}

/// A COMMIT whose predecessor has failed commits nothing before the applier has brought that one.
#[test]
fn chain_stops_after_a_commit_that_failed() {
    let peers = Peers::chained();
    let (node, mut clients) = writers(&peers);
    commit_while_held(node, &mut clients, |looks, first| {
        looks.rows(&format!("SELECT pg_terminate_backend({first}, 5000)")).expect("it ends");
    });
    assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"2\")]]");
    let versions = "SELECT max(version) - min(version) + 1 = count(*) FROM consort.version";
    assert_eq!(peers.equal(versions), "[[Some(\"t\")]]");
}
