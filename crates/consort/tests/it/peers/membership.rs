//! A cluster whose nodes all take writes gets another node, and a lost node is made again from a copy, while the others go on.

use super::faults::Transfers;
use super::{Peers, in_memory};
use crate::fixture::{eventually, psql, up_folder};
use crate::load::Client;
use testkit::{Done, UpFolder, run};

/// A subcommand of `consort node`.
pub(super) fn node(folder: &UpFolder, arguments: &[&str]) -> Done {
    let mut command = std::process::Command::new(crate::fixture::CONSORT);
    run(command.arg("node").args(arguments).arg("--dir").arg(folder.path()))
}

pub(super) fn up(folder: &UpFolder, nodes: &str) {
    let listen = format!("127.0.0.1:{}", folder.port);
    folder.run("up", &["--listen", &listen, "--design", in_memory(), "--nodes", nodes]).worked();
}

/// Answer of this query at each node, once all show one version.
pub(super) fn at_each(folder: &UpFolder, nodes: &[&str], sql: &str) -> Vec<String> {
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
    assert!(rows.iter().all(|row| why(row).contains("another ledger")), "{rows:?}");
    peers.serving.signal("TERM");
    peers.serving.ended();
    for node in peers.cluster().nodes() {
        node.query("postgres", "DELETE FROM consort.version").expect("a node");
    }
    peers.serving.start_again();
    insert_at_all(&peers.url(), 3);
    assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"30\")]]");
}

/// A node that was left out when a new ledger began has versions of the old one, whose numbers the new one has given to other
/// transactions. It is not served.
#[test]
fn node_of_another_ledger_is_not_served() {
    let mut peers = Peers::start(in_memory());
    peers.client().rows("CREATE TABLE t (id serial PRIMARY KEY, v text)").expect("a table");
    insert_at_all(&peers.url(), 3);
    peers.equal("SELECT count(*) FROM t");
    peers.serving.signal("TERM");
    peers.serving.ended();
    std::fs::remove_dir_all(&peers.ledger_dir).expect("a ledger");
    let nodes = peers.cluster().nodes();
    for node in &nodes[..2] {
        node.query("postgres", "DELETE FROM consort.version").expect("a node");
    }
    let newest = |node: &local_cluster::Node| {
        let rows = node.query("postgres", "SELECT coalesce(max(version), 0) FROM consort.version");
        rows.expect("a node").remove(0).remove(0).expect("a version").parse::<u64>().expect("a number")
    };
    let old = newest(&nodes[2]);
    peers.serving.start_again();
    eventually("two nodes serve", || peers.captures()[..2].iter().all(|node| node.2.is_empty()));
    let nodes = peers.cluster().nodes();
    while newest(&nodes[0]) <= old + 1 {
        insert_at_all(&peers.url(), 2);
    }
    eventually("the third one is out", || peers.captures()[2].2.contains("another ledger"));
    assert_eq!(newest(&nodes[2]), old);
}

/// Clients see no more of it than that a session may end outside of its transactions.
#[test]
fn fourth_node_joins_while_three_write_and_one_leaves() {
    for design in design::CERTIFIED {
        let folder = up_folder();
        let listen = format!("127.0.0.1:{}", folder.port);
        folder.run("up", &["--listen", &listen, "--design", design.name, "--nodes", "3"]).worked();
        let url = folder.url();
        let mut client = Client::connect(&url).expect("a client");
        client.rows("CREATE TABLE t (id serial PRIMARY KEY, v text)").expect("a table");
        super::faults::accounts(&mut client);
        insert_at_all(&url, 3);
        let transfers = Transfers::start(&url);
        transfers.go_on();
        let said = node(&folder, &["add"]);
        assert!(said.err.contains("node4, database postgres: serves"), "{}", said.err);
        said.worked();
        transfers.go_on();
        insert_at_all(&url, 4);
        node(&folder, &["remove", "node2"]).worked();
        transfers.go_on();
        insert_at_all(&url, 3);
        folder.run("verify", &[]).worked();
        assert!(!folder.run("status", &[]).worked().contains("node2"));
        let acknowledged = transfers.end();
        let nodes = ["node1", "node3", "node4"];
        let rows = at_each(&folder, &nodes, "SELECT sum(v), (SELECT count(*) FROM t) FROM account");
        assert!(rows.iter().all(|one| *one == rows[0] && one.contains("1000 |    50")), "{rows:?}");
        let there = at_each(&folder, &nodes, "SELECT name FROM done");
        let has = |name: &String| there[0].lines().any(|line| line.trim() == name);
        assert!(acknowledged.iter().all(has), "{}: acknowledged and lost", design.name);
        // The cluster has three nodes, whose names stay.
        folder.run("down", &[]).worked();
        folder.run("up", &[]).worked();
        let status = folder.run("status", &[]).worked();
        assert!(nodes.iter().all(|node| status.contains(node)) && !status.contains("node2"), "{status}");
        insert_at_all(&url, 3);
        let refused = node(&folder, &["remove", "node2"]).failed(1);
        assert!(refused.contains("existing nodes: node1, node3, node4"), "{refused}");
        folder.run("down", &[]).worked();
    }
}

/// A transaction that is open at a node that leaves may end there.
#[test]
fn node_that_leaves_lets_its_transaction_end() {
    let folder = up_folder();
    up(&folder, "2");
    let url = folder.url();
    psql(&url, "CREATE TABLE t (id int PRIMARY KEY, v int)").worked();
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&url).expect("a client")).collect();
    let number = |client: &mut Client| client.number("SELECT number FROM consort.place").expect("a place");
    let at = clients.iter_mut().position(|client| number(client) == 1).expect("one is at the second node");
    let mut there = clients.swap_remove(at);
    there.rows("BEGIN; INSERT INTO t VALUES (1, 1)").expect("a row");
    std::thread::scope(|scope| {
        let leaves = scope.spawn(|| node(&folder, &["remove", "node2"]).worked());
        eventually("the node leaves", || folder.run("status", &[]).out.contains("leaves the cluster"));
        there.rows("INSERT INTO t VALUES (2, 1)").expect("the transaction goes on");
        there.rows("COMMIT").expect("and commits");
        leaves.join().expect("the node leaves");
    });
    assert!(there.rows("SELECT 1").expect_err("its node has left").says_away());
    let count = Client::connect(&url).expect("another node").number("SELECT count(*) FROM t");
    assert_eq!(count.expect("a count"), 2);
    let refused = node(&folder, &["remove", "node1"]).failed(1);
    assert!(refused.contains("last node"), "{refused}");
    folder.run("down", &[]).worked();
}

/// A node that does not follow is out of the way of the others within the bound, and comes back when it has caught up.
#[test]
fn node_that_falls_behind_leaves_and_comes_back() {
    let servers = testkit::Scratch::with(local_cluster::Options {
        standbys: 0,
        peers: 3,
        ..testkit::Scratch::options()
    });
    let peers = Peers::over_with(servers, in_memory(), "sql", "replica_wait_timeout = \"1s\"");
    super::faults::accounts(&mut peers.client());
    let node = &peers.cluster().nodes()[2];
    let pid = "SELECT pid FROM pg_stat_activity WHERE application_name = 'consort applier'";
    let pid = node.query("postgres", pid).expect("the node").remove(0).remove(0).expect("an applier");
    let mut clients = peers.clients::<3>();
    let number = |client: &mut Client| client.number("SELECT number FROM consort.place").expect("a place");
    let at = clients.iter_mut().position(|client| number(client) == 2).expect("one is there");
    let why = || peers.captures().remove(2).2;
    let signal = |name: &str| {
        let done = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(done.expect("a shell").success());
    };
    signal("STOP");
    let transfers = Transfers::start(&peers.url());
    eventually("the node is out of service", || why().contains("behind"));
    transfers.go_on();
    transfers.go_on();
    let away = clients[at].rows("SELECT 1").expect_err("its session has ended");
    assert!(away.says_away() && away.text.contains("behind"), "{away:?}");
    assert_ne!(number(&mut peers.client()), 2, "new sessions are elsewhere");
    signal("CONT");
    eventually("the node serves", || why().is_empty());
    transfers.go_on();
    transfers.end();
    assert_eq!(peers.equal("SELECT sum(v) FROM account"), "[[Some(\"1000\")]]");
}

/// A node whose rows differ is found by its hashes, is not served, also after a restart, and comes back as a copy.
#[test]
fn node_with_other_rows_is_found_and_leaves() {
    let folder = up_folder();
    up(&folder, "3");
    let url = folder.url();
    let mut client = Client::connect(&url).expect("a client");
    client.rows("CREATE TABLE quiet (id int PRIMARY KEY, v text)").expect("a table");
    client.rows("INSERT INTO quiet VALUES (1, 'a'), (2, 'b')").expect("rows");
    super::faults::accounts(&mut client);
    let transfers = Transfers::start(&url);
    transfers.go_on();
    let said = folder.run("verify", &[]).worked();
    assert!(said.contains("public.quiet") && said.contains("equal") && !said.contains("differs"), "{said}");
    let other = "SET session_replication_role = replica; UPDATE quiet SET v = 'x' WHERE id = 2";
    for name in ["node1", "node3"] {
        folder.run("psql", &["--node", name, "-c", other]).worked();
        let found = folder.run("verify", &[]);
        let line = found.out.lines().find(|line| line.contains("differs")).unwrap_or_default().to_owned();
        assert!(line.contains(name) && line.contains("public.quiet") && line.contains('2'), "{}", found.out);
        found.failed(1);
        transfers.go_on();
        let is_down = || {
            let status = folder.run("status", &[]).out;
            let line = status.lines().find(|line| line.contains(name)).unwrap_or_default();
            line.contains("down") && line.contains("other rows")
        };
        eventually("the node is out", is_down);
        if name == "node1" {
            folder.run("down", &[]).worked();
            folder.run("up", &[]).worked();
            eventually("it stays out", is_down);
        }
        folder.run("repair", &["--node", name]).worked();
        eventually("the node takes sessions", || !folder.run("status", &[]).out.contains("down"));
        transfers.go_on();
        folder.run("verify", &[]).worked();
    }
    transfers.end();
    let refused = folder.run("verify", &["--repair"]).failed(1);
    assert!(refused.contains("repair --node"), "{refused}");
    folder.run("down", &[]).worked();
}
