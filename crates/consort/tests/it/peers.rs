//! Designs whose nodes all take writes: a client writes at any of three nodes, one of two conflicting transactions commits, and
//! every node has the same rows.

mod anomalies;
mod captures;
mod commit_order;
mod dumps;
mod faults;
mod histories;
mod hostile;
mod membership;
mod review;
mod snapshots;
mod untrusted_roles;
mod workloads;
mod write_sets;

use std::path::PathBuf;
use std::sync::Arc;

use local_cluster::{Cluster, Options};
use testkit::Scratch;

use crate::cut_network::{self, Network};
use crate::fixture::{Serving, configuration, eventually, free_port, psql, temporary, up_folder};
use crate::load::{Client, Trouble};

/// Three nodes, and Consort in front of them.
pub(crate) struct Peers {
    pub(crate) serving: Serving,
    ledger_dir: PathBuf,
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.serving.signal("KILL");
        let _ = std::fs::remove_dir_all(&self.ledger_dir);
    }
}

/// The design in which the ledger alone makes commits durable.
pub(crate) fn in_memory() -> &'static str {
    let found = design::CERTIFIED.iter().find(|design| design.durability == design::Durability::Ledger);
    found.expect("there is one").name
}

/// The design in which several COMMITs of a node are under way at once.
pub(crate) fn in_groups() -> &'static str {
    let in_groups = design::Durability::LedgerAndEnginesInGroups;
    design::CERTIFIED.iter().find(|design| design.durability == in_groups).expect("there is one").name
}

/// Captures of write sets. Tests that concern them run for each; `make test` installs the extension.
pub(crate) const CAPTURES: [&str; 2] = ["sql", "extension"];

/// Runs a test for each capture.
pub(crate) fn with_each_capture(test: impl Fn(&Peers)) {
    for capture in CAPTURES {
        println!("capture = {capture}");
        test(&Peers::capturing(in_memory(), capture));
    }
}

impl Peers {
    pub(crate) fn start(design: &str) -> Peers {
        Peers::capturing(design, "sql")
    }

    /// Nodes that commit in the order of the versions by themselves.
    pub(crate) fn ordered() -> Peers {
        let mut settings = Scratch::options().settings;
        settings.push(("shared_preload_libraries".to_owned(), "consort".to_owned()));
        Peers::of_servers(in_groups(), "extension", settings)
    }

    /// Nodes whose COMMITs wait for each other by locks.
    pub(crate) fn chained() -> Peers {
        Peers::start(in_groups())
    }

    /// Nodes that capture write sets so; each of them does.
    pub(crate) fn capturing(design: &str, capture: &str) -> Peers {
        Peers::of_servers(design, capture, Scratch::options().settings)
    }

    fn of_servers(design: &str, capture: &str, settings: Vec<(String, String)>) -> Peers {
        let servers = Scratch::with(Options { standbys: 0, peers: 3, settings, ..Scratch::options() });
        let peers = Peers::over(servers, design, capture);
        for (node, its_capture, why) in peers.captures() {
            assert_eq!(its_capture, capture, "{node}: {why} (make -C extension install)");
        }
        peers
    }

    /// Consort in front of these servers.
    pub(crate) fn over(servers: Scratch, design: &str, capture: &str) -> Peers {
        Peers::over_with(servers, design, capture, "")
    }

    /// The same, with more lines in the configuration.
    pub(crate) fn over_with(servers: Scratch, design: &str, capture: &str, more: &str) -> Peers {
        let ledger_dir = temporary("ledger");
        let folder = ledger_dir.display();
        let lines =
            format!("design = \"{design}\"\nledger_dir = \"{folder}\"\ncapture = \"{capture}\"\n{more}");
        Peers { serving: Serving::over(servers, &lines), ledger_dir }
    }

    /// Consort in front of these servers, each behind a network that may be cut.
    pub(crate) fn over_networks(servers: Scratch, design: &str) -> (Vec<Network>, Peers) {
        let ledger_dir = temporary("ledger");
        let folder = ledger_dir.display();
        let lines = format!(
            "auth_type = \"trust\"\ndesign = \"{design}\"\nledger_dir = \"{folder}\"\ncapture = \"sql\""
        );
        let servers = Arc::new(servers);
        let (port, metrics_port) = (free_port(), free_port());
        let text = configuration(&servers, port, &lines);
        let (networks, text) = cut_network::over_networks(text, servers.cluster().nodes().iter());
        let serving = Serving::configured(servers, port, metrics_port, &text);
        (networks, Peers { serving, ledger_dir })
    }

    /// Each node with its capture, and the reason why it takes no sessions.
    pub(crate) fn captures(&self) -> Vec<(String, String, String)> {
        let mut console = Client::connect(&self.serving.url("postgres", "consort")).expect("the console");
        let text =
            |row: &tokio_postgres::SimpleQueryRow, column| row.get(column).unwrap_or_default().to_owned();
        let rows = console.rows("SHOW NODES").expect("nodes");
        rows.iter().map(|row| (text(row, "node"), text(row, "capture"), text(row, "why"))).collect()
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.serving.servers.cluster()
    }

    pub(crate) fn url(&self) -> String {
        self.serving.url("postgres", "postgres")
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.url()).expect("a client comes in")
    }

    /// Clients at as many different nodes.
    pub(crate) fn clients<const N: usize>(&self) -> [Client; N] {
        let mut clients: Vec<Client> = (0..N).map(|_| self.client()).collect();
        let mut places: Vec<String> = clients
            .iter_mut()
            .map(|client| client.one("SELECT number FROM consort.place").expect("a place"))
            .collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), N, "each at a node of its own");
        clients.try_into().unwrap_or_else(|_| unreachable!("as many as were made"))
    }

    /// Kills Consort and all nodes at once, and starts them again.
    pub(crate) fn lose_all(&mut self) {
        self.serving.signal("KILL");
        self.cluster().nodes().iter().for_each(local_cluster::Node::kill);
        self.serving.ended();
        for node in self.cluster().nodes() {
            node.start().expect("the node starts");
        }
        self.serving.start_again();
    }

    /// Waits until all nodes show one version, and answers what this query gives at each, which is the same.
    pub(crate) fn equal(&self, query: &str) -> String {
        let version = "SELECT coalesce(max(version), 0) FROM consort.version";
        let at_each = |sql: &str| -> Result<Vec<String>, postgres::Error> {
            let nodes = self.cluster().nodes().iter();
            nodes.map(|node| node.query("postgres", sql).map(|rows| format!("{rows:?}"))).collect()
        };
        eventually("one version at all nodes", || {
            at_each(version).is_ok_and(|versions| versions.iter().all(|one| one == &versions[0]))
        });
        let answers = at_each(query).expect("an answer of each");
        for (node, answer) in self.cluster().nodes().iter().zip(&answers) {
            assert_eq!(answer, &answers[0], "{} at {}", query, node.name());
        }
        answers[0].clone()
    }
}

/// Where a node takes connections that Consort knows nothing of.
pub(crate) fn url_of(node: &local_cluster::Node) -> String {
    format!("host={} port={} user=postgres dbname=postgres", node.socket_folder().display(), node.port())
}

/// A transaction was refused for another one.
pub(crate) fn is_conflict<T: std::fmt::Debug>(done: &Result<T, Trouble>) -> bool {
    done.as_ref().is_err_and(|trouble| matches!(trouble.sqlstate.as_deref(), Some("40001" | "40P01")))
}

/// `up` makes three nodes; a write at each is at all of them, and `status` and `down` know the kind of cluster.
#[test]
fn up_with_nodes_replicates_writes_of_each_node() {
    for design in design::CERTIFIED {
        let folder = up_folder();
        let listen = format!("127.0.0.1:{}", folder.port);
        folder.run("up", &["--listen", &listen, "--design", design.name, "--nodes", "3"]).worked();
        let url = folder.url();
        psql(&url, "CREATE TABLE t (id serial PRIMARY KEY, v text)").worked();
        let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&url).expect("a client")).collect();
        for client in &mut clients {
            client.rows("INSERT INTO t (v) VALUES ('x') RETURNING id").expect("an insert");
        }
        for client in &mut clients {
            client.rows("SET consort.consistency = strong").expect("a setting");
            assert_eq!(client.number("SELECT count(*) FROM t").unwrap(), 3, "{}", design.name);
        }
        drop(clients);
        let status = folder.run("status", &[]).worked();
        assert!(status.contains("node3") && status.contains("postgres"), "{status}");
        assert!(status.contains("extension"), "{status} (make -C extension install)");
        folder.run("verify", &[]).worked();
        let refused = folder.run("attach", &["--database", "postgres"]).failed(1);
        assert!(refused.contains("one primary"), "{refused}");
        let refused = folder.run("up", &["--standbys", "1"]).failed(1);
        assert!(refused.contains("--nodes"), "{refused}");
        folder.run("down", &[]).worked();
    }
}

/// A pool opens its connections at once: none is logged in when the last one is placed.
#[test]
fn clients_that_come_at_once_are_spread() {
    let peers = Peers::start(in_memory());
    let url = &peers.url();
    let connects = || Client::connect(url).expect("a client");
    let mut clients: Vec<Client> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|_| scope.spawn(connects)).collect();
        all.into_iter().map(|one| one.join().expect("a client")).collect()
    });
    let mut at_each = std::collections::BTreeMap::new();
    for client in &mut clients {
        *at_each.entry(client.one("SHOW port").unwrap()).or_insert(0) += 1;
    }
    assert_eq!(at_each.into_values().collect::<Vec<_>>(), [4, 4, 4]);
}

/// One primary has standbys, peers have none: each kind refuses the other's option.
#[test]
fn up_with_options_of_the_other_kind_is_refused() {
    let folder = up_folder();
    assert!(folder.run("up", &["--nodes", "3"]).failed(1).contains("--standbys"));
    let refused = folder.run("up", &["--design", in_memory(), "--standbys", "1"]).failed(1);
    assert!(refused.contains("--nodes"), "{refused}");
}

/// Isolation below snapshots is raised and said once, above it is refused; a consistency is one of three.
#[test]
fn session_settings_have_their_notices_and_errors() {
    let peers = Peers::start(in_memory());
    let url = peers.url();
    psql(&url, "CREATE TABLE t (id int PRIMARY KEY)").worked();
    let said = psql(&url, "BEGIN; COMMIT; BEGIN; COMMIT").err;
    assert_eq!(said.matches("raised to REPEATABLE READ").count(), 1, "{said}");
    let mut client = peers.client();
    client.rows("BEGIN").unwrap();
    assert_eq!(client.one("SHOW transaction_isolation").unwrap(), "repeatable read");
    client.rows("ROLLBACK").unwrap();
    for (sql, sqlstate) in [
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "0A000"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", "0A000"),
        ("SET consort.consistency = 'much'", "22023"),
        ("SET consort.certifies = 'on'", "42501"),
        ("SET session_replication_role = replica", "0A000"),
        ("PREPARE TRANSACTION 'x'", "0A000"),
        ("CREATE DATABASE other", "0A000"),
        ("DO $$ BEGIN EXECUTE 'CREATE TABLE hidden (a int)'; END $$", "0A000"),
    ] {
        let trouble = client.rows(sql).expect_err(sql);
        assert_eq!(trouble.sqlstate.as_deref(), Some(sqlstate), "{sql}: {}", trouble.text);
    }
    client.rows("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    client.rows("PREPARE TRANSACTION 'x'").expect_err("refused");
    assert_eq!(client.rows("SELECT 1").expect_err("failed").sqlstate.as_deref(), Some("25P02"));
    client.rows("ROLLBACK").unwrap();
    assert_eq!(client.number("SELECT count(*) FROM t").unwrap(), 0);
}

/// A prepared statement of the extended protocol writes and reads, in a block and outside.
#[test]
fn extended_protocol_commits_and_reads() {
    let peers = Peers::start(in_memory());
    let mut client = peers.client();
    client.rows("CREATE TABLE t (id int PRIMARY KEY, v int)").unwrap();
    let insert = client.prepare("INSERT INTO t SELECT count(*), 1 FROM t");
    let begin = client.prepare("BEGIN");
    let commit = client.prepare("COMMIT");
    client.run(&insert);
    client.run(&begin);
    client.run(&insert);
    client.run(&insert);
    client.run(&commit);
    let count = client.prepare("SELECT count(*)::text FROM t");
    assert_eq!(client.execute(&count), "3");
    assert_eq!(peers.equal("SELECT count(*) FROM t"), "[[Some(\"3\")]]");
}

#[test]
fn limits_and_rights_are_read_again() {
    let peers = Peers::start(in_memory());
    let console = peers.serving.url("postgres", "consort");
    crate::fixture::limits_are_read_again(peers.serving.config_file(), &peers.url(), &console);
}

/// The console tells of nodes, and of its commands.
#[test]
fn console_shows_nodes_and_help() {
    let peers = Peers::start(in_memory());
    let mut console = Client::connect(&peers.serving.url("postgres", "consort")).expect("the console");
    assert_eq!(console.rows("SHOW NODES").unwrap().len(), 3);
    assert_eq!(console.rows("SHOW VERSION").unwrap().len(), 1);
    assert!(console.rows("SHOW HELP").unwrap().len() > 3);
    assert_eq!(console.rows("SHOW POOLS").expect_err("unknown").sqlstate.as_deref(), Some("42601"));
    let (_, page) = crate::serving::page(&peers.serving, "/metrics");
    assert!(page.contains("consort_node_up{node=\"node1\",database=\"postgres\"} 1"), "{page}");
}
