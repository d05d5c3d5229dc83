//! A cluster whose nodes all take writes gets another node, and a lost node is made again from a copy, while the others go on.

use super::faults::Transfers;
use super::{Peers, in_memory};
use crate::fixture::{eventually, psql, up_folder};
use crate::load::Client;
use testkit::UpFolder;

fn up(folder: &UpFolder, nodes: &str) {
    let listen = format!("127.0.0.1:{}", folder.port);
    folder.run("up", &["--listen", &listen, "--design", in_memory(), "--nodes", nodes]).worked();
}

/// Answer of this query at each node, once all show one version.
fn at_each(folder: &UpFolder, nodes: &[&str], sql: &str) -> Vec<String> {
    let ask = |node: &&str, sql: &str| folder.run("psql", &["--node", node, "-c", sql]).worked();
    let version = "SELECT coalesce(max(version), 0) FROM consort.version";
    eventually("one version at all nodes", || {
        let versions: Vec<String> = nodes.iter().map(|node| ask(node, version)).collect();
        versions.iter().all(|one| *one == versions[0])
    });
    nodes.iter().map(|node| ask(node, sql)).collect()
}

/// Each node inserts, and no value of a sequence comes twice.
fn insert_at_all(url: &str, nodes: usize) {
    let mut clients: Vec<Client> = (0..nodes).map(|_| Client::connect(url).expect("a client")).collect();
    for client in &mut clients {
        for _ in 0..5 {
            client
                .rows("INSERT INTO t (v) VALUES ('x')")
                .unwrap_or_else(|trouble| panic!("{}", trouble.text));
        }
    }
}

#[test]
fn cluster_gets_a_node_more_with_all_rows() {
    let folder = up_folder();
    up(&folder, "2");
    let url = folder.url();
    psql(&url, "CREATE TABLE t (id serial PRIMARY KEY, v text)").worked();
    insert_at_all(&url, 2);
    // Values of one node may be far ahead.
    psql(&url, "INSERT INTO t (v) SELECT 'y' FROM generate_series(1, 100)").worked();
    folder.run("down", &[]).worked();
    up(&folder, "3");
    insert_at_all(&url, 3);
    let rows = at_each(&folder, &["node1", "node2", "node3"], "SELECT count(*), sum(id) FROM t");
    assert!(rows.iter().all(|one| *one == rows[0] && one.contains("125")), "{rows:?}");
    folder.run("down", &[]).worked();
    let refused = folder.run("up", &["--nodes", "2"]).failed(1);
    assert!(refused.contains("removes none"), "{refused}");
}

#[test]
fn lost_node_is_made_again_while_the_others_write() {
    let folder = up_folder();
    up(&folder, "3");
    let url = folder.url();
    let mut client = Client::connect(&url).expect("a client");
    client.rows("CREATE TABLE t (id serial PRIMARY KEY, v text)").expect("a table");
    super::faults::accounts(&mut client);
    insert_at_all(&url, 3);
    let transfers = Transfers::start(&url);
    transfers.go_on();
    folder.run("repair", &["--node", "node2"]).worked();
    transfers.go_on();
    eventually("the node takes sessions", || !folder.run("status", &[]).out.contains("down"));
    insert_at_all(&url, 3);
    transfers.end();
    let rows = at_each(
        &folder,
        &["node1", "node2", "node3"],
        "SELECT (SELECT sum(v) FROM account), (SELECT count(*) FROM done), (SELECT count(*) FROM t)",
    );
    assert!(rows.iter().all(|one| *one == rows[0] && one.contains("1000") && one.contains("30")), "{rows:?}");
    let refused = folder.run("repair", &["--node", "node9"]).failed(1);
    assert!(refused.contains("existing nodes: node1, node2, node3"), "{refused}");
    folder.run("down", &[]).worked();
}
/// Nodes that are copies of one backup begin a new ledger; one whose ledger is lost is not let in before.
#[test]
fn restored_nodes_begin_a_new_ledger() {
    let mut peers = Peers::start(in_memory());
    let mut client = peers.client();
    client.rows("CREATE TABLE t (id serial PRIMARY KEY, v text)").expect("a table");
    insert_at_all(&peers.url(), 3);
    peers.equal("SELECT count(*) FROM t");
    drop(client);
    peers.serving.signal("TERM");
    peers.serving.ended();
    std::fs::remove_dir_all(&peers.ledger_dir).expect("a ledger");
    peers.serving.start_again();
    let mut console = Client::connect(&peers.serving.url("postgres", "consort")).expect("the console");
    let rows = console.rows("SHOW NODES").expect("nodes");
    let why = |row: &tokio_postgres::SimpleQueryRow| row.get("why").unwrap_or_default().to_owned();
    assert!(rows.iter().all(|row| why(row).contains("the ledger does not have")), "{rows:?}");
    peers.serving.signal("TERM");
    peers.serving.ended();
    for node in peers.cluster().nodes() {
        node.query("postgres", "DELETE FROM consort.version").expect("a node");
    }
    peers.serving.start_again();
    insert_at_all(&peers.url(), 3);
    assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"30\")]]");
}
