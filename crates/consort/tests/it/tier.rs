//! The tier in memory: writes at its master, reads at slaves at exactly the newest version, and nothing that was acknowledged is
//! lost with any of its processes.

mod back_ends;
mod encrypted;
mod faults;
mod histories;
mod sessions;

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use testkit::UpFolder;

use crate::cut_network::Network;
use crate::fixture::{eventually, psql, up_folder};
use crate::load::Client;

/// A tier of `consort up`.
pub(crate) struct Tier {
    pub(crate) folder: UpFolder,
}

/// A line of SHOW NODES.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) serves: bool,
    pub(crate) received: u64,
    pub(crate) transactions: u64,
}

/// The design whose data are in memory.
fn design() -> &'static str {
    design::all().find(design::Design::is_memory_tier).expect("there is one").name
}

impl Tier {
    /// A master and slaves, so many nodes in all, ready.
    pub(crate) fn start(nodes: usize) -> Tier {
        let tier = Tier { folder: up_folder() };
        tier.up(nodes);
        tier.until_whole(nodes);
        tier
    }

    /// The same with spares, all of which have caught up.
    pub(crate) fn start_with_spares(nodes: usize, spares: usize) -> Tier {
        let tier = Tier { folder: up_folder() };
        tier.up_with_spares(nodes, spares);
        eventually("a tier that is whole", || {
            let serving = tier.nodes().into_iter().filter(|node| node.serves).count();
            serving == nodes + spares
        });
        tier
    }

    /// `consort up` with spares.
    pub(crate) fn up_with_spares(&self, nodes: usize, spares: usize) {
        let (nodes, spares) = (nodes.to_string(), spares.to_string());
        let listen = format!("127.0.0.1:{}", self.folder.port);
        let options = ["--listen", &listen, "--design", design(), "--nodes", &nodes, "--spares", &spares];
        self.folder.run("up", &options).worked();
    }

    /// `consort up`, which starts what does not run.
    pub(crate) fn up(&self, nodes: usize) {
        let listen = format!("127.0.0.1:{}", self.folder.port);
        let nodes = nodes.to_string();
        self.folder.run("up", &["--listen", &listen, "--design", design(), "--nodes", &nodes]).worked();
    }

    /// A tier whose nodes are reached through networks: by Consort, and the master by the slaves. No node may end.
    pub(crate) fn behind_networks(nodes: usize) -> (Tier, Vec<Network>) {
        let tier = Tier::start(nodes);
        tier.kill_consort();
        let network = |number: usize| {
            let file = tier.folder.path().join(format!("tier/node{number}/address"));
            let address = std::fs::read_to_string(&file).expect("an address");
            let (_, port) = address.trim().rsplit_once(':').expect("a port");
            let network = Network::to_port(port.parse().expect("a number"));
            std::fs::write(&file, format!("127.0.0.1:{}\n", network.port)).expect("another address");
            network
        };
        let networks = (1..=nodes).map(network).collect();
        tier.up(nodes);
        tier.until_whole(nodes);
        (tier, networks)
    }

    pub(crate) fn url(&self) -> String {
        self.folder.url()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.url()).expect("a client comes in")
    }

    /// The nodes, as the console shows them.
    pub(crate) fn nodes(&self) -> Vec<Shown> {
        let console = format!("postgres://postgres@127.0.0.1:{}/consort", self.folder.port);
        let asked = Client::connect(&console).and_then(|mut console| console.rows("SHOW NODES"));
        let rows = asked.unwrap_or_default();
        let shown = |row: &tokio_postgres::SimpleQueryRow| {
            let of = |column: &str| row.get(column).unwrap_or_default().to_owned();
            Shown {
                name: of("node"),
                role: of("role"),
                serves: of("state") == "up",
                received: of("received").parse().unwrap_or(0),
                transactions: of("transactions").parse().unwrap_or(0),
            }
        };
        rows.iter().map(shown).collect()
    }

    /// Waits until one node is the master and all others serve as slaves.
    pub(crate) fn until_whole(&self, nodes: usize) {
        eventually("a tier that is whole", || {
            let shown = self.nodes();
            let of = |role: &str| shown.iter().filter(|node| node.role == role && node.serves).count();
            of("master") == 1 && of("slave") == nodes - 1
        });
    }

    /// The name of the master.
    pub(crate) fn master(&self) -> String {
        self.nodes().into_iter().find(|node| node.role == "master").expect("a master").name
    }

    /// The name of a slave.
    pub(crate) fn slave(&self) -> String {
        self.nodes().into_iter().find(|node| node.role == "slave").expect("a slave").name
    }

    fn pid_file(&self, node: &str) -> PathBuf {
        self.folder.path().join("tier").join(node).join("pid")
    }

    /// Sends a signal to a node's process. One that is killed has ended afterwards.
    pub(crate) fn signal(&self, node: &str, signal: Signal) {
        signal_holder(&self.pid_file(node), signal);
    }

    /// Ends Consort at once: the second signal ends the wait for open transactions.
    pub(crate) fn end_consort(&self) {
        let file = self.folder.path().join("consort.pid");
        signal_holder(&file, Signal::TERM);
        eventually("a door that is closed", || Client::connect(&self.url()).is_err());
        signal_holder(&file, Signal::TERM);
    }

    /// Waits for the end of Consort's process.
    pub(crate) fn until_consort_has_ended(&self) {
        let file = File::open(self.folder.path().join("consort.pid")).expect("the file stays");
        eventually("the end of Consort", || file.try_lock_shared().is_ok());
    }

    /// Kills Consort itself.
    pub(crate) fn kill_consort(&self) {
        signal_holder(&self.folder.path().join("consort.pid"), Signal::KILL);
    }
}

/// Sends a signal to the process that holds this file. After KILL it waits for its end: until then `consort up` takes the process
/// for one that runs, and starts none.
pub(crate) fn signal_holder(pid_file: &Path, signal: Signal) {
    let text = std::fs::read_to_string(pid_file).expect("a process number");
    let pid = Pid::from_raw(text.trim().parse().expect("a number")).expect("a process");
    kill_process(pid, signal).expect("the process is there");
    if signal == Signal::KILL {
        let file = File::open(pid_file).expect("the file stays");
        eventually("the end of a killed process", || file.try_lock_shared().is_ok());
    }
}

#[test]
fn up_makes_a_tier_that_reads_what_was_written_at_every_node() {
    let tier = Tier::start(3);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, v text)").worked();
    let mut client = tier.client();
    for number in 0..20 {
        client.rows(&format!("INSERT INTO t VALUES ({number}, 'x')")).expect("an insert");
        // Each slave in turn shows it at once.
        for _ in 0..3 {
            assert_eq!(client.number("SELECT count(*) FROM t").unwrap(), number + 1);
        }
    }
    for folder in ["tier", "tier/node1", "ledger", "ledger/log"] {
        let found = std::fs::metadata(tier.folder.path().join(folder)).expect("a folder");
        assert_eq!(found.permissions().mode() & 0o777, 0o700, "{folder}");
    }
    let status = tier.folder.run("status", &[]).worked();
    assert!(status.contains("master") && status.contains("slave") && status.contains("node3"), "{status}");
    let refused = tier.folder.run("up", &["--standbys", "1"]).failed(1);
    assert!(refused.contains("--nodes"), "{refused}");
    let refused = tier.folder.run("verify", &[]).failed(1);
    assert!(refused.contains("in the memory of its nodes"), "{refused}");
    // All processes end, and the log has everything.
    tier.folder.run("down", &[]).worked();
    tier.up(3);
    assert_eq!(tier.client().number("SELECT count(*) FROM t").unwrap(), 20);
}

#[test]
fn limits_and_rights_are_read_again() {
    let tier = Tier::start(1);
    let console = format!("postgres://postgres@127.0.0.1:{}/consort", tier.folder.port);
    crate::fixture::limits_are_read_again(&tier.folder.path().join("consort.toml"), &tier.url(), &console);
}

#[test]
fn a_transaction_that_would_do_something_else_now_is_refused() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)").worked();
    psql(&tier.url(), "INSERT INTO t VALUES (1, 0), (2, 0)").worked();
    let (mut one, mut other) = (tier.client(), tier.client());
    // Lost update.
    one.rows("BEGIN").unwrap();
    other.rows("BEGIN").unwrap();
    assert_eq!(one.number("SELECT n FROM t WHERE id = 1").unwrap(), 0);
    assert_eq!(other.number("SELECT n FROM t WHERE id = 1").unwrap(), 0);
    one.rows("UPDATE t SET n = 1 WHERE id = 1").unwrap();
    other.rows("UPDATE t SET n = 2 WHERE id = 1").unwrap();
    one.rows("COMMIT").unwrap();
    let refused = other.rows("COMMIT").unwrap_err();
    assert_eq!(refused.sqlstate.as_deref(), Some("40001"), "{refused:?}");
    assert_eq!(other.number("SELECT n FROM t WHERE id = 1").unwrap(), 1);
    // Write skew.
    for client in [&mut one, &mut other] {
        client.rows("BEGIN").unwrap();
        client.rows("SELECT sum(n) FROM t").unwrap();
    }
    one.rows("UPDATE t SET n = n + 1 WHERE id = 1").unwrap();
    other.rows("UPDATE t SET n = n + 1 WHERE id = 2").unwrap();
    one.rows("COMMIT").unwrap();
    assert_eq!(other.rows("COMMIT").unwrap_err().sqlstate.as_deref(), Some("40001"));
    // Blind writes do not conflict.
    for (client, id) in [(&mut one, 1), (&mut other, 2)] {
        client.rows("BEGIN").unwrap();
        client.rows(&format!("UPDATE t SET n = n + 10 WHERE id = {id}")).unwrap();
    }
    one.rows("COMMIT").unwrap();
    other.rows("COMMIT").unwrap();
    assert_eq!(one.number("SELECT sum(n) FROM t").unwrap(), 22);
}

#[test]
fn a_reader_keeps_its_version_while_others_write() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)").worked();
    psql(&tier.url(), "INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i").worked();
    let (mut reader, mut writer) = (tier.client(), tier.client());
    reader.rows("BEGIN READ ONLY").unwrap();
    assert_eq!(reader.number("SELECT sum(n) FROM t").unwrap(), 0);
    for _ in 0..50 {
        writer.rows("UPDATE t SET n = n + 1").unwrap();
    }
    writer.rows("ALTER TABLE t ADD COLUMN more text").unwrap();
    assert_eq!(reader.number("SELECT sum(n) FROM t").unwrap(), 0);
    reader.rows("SELECT more FROM t").unwrap_err();
    reader.rows("ROLLBACK").unwrap();
    assert_eq!(reader.number("SELECT sum(n) FROM t").unwrap(), 5000);
    let refused = reader.rows("BEGIN READ ONLY; UPDATE t SET n = 0").unwrap_err();
    assert_eq!(refused.sqlstate.as_deref(), Some("25006"));
}

#[test]
fn sequences_give_each_value_once_to_transactions_that_overlap() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id serial PRIMARY KEY, v int NOT NULL)").worked();
    let mut clients: Vec<Client> = (0..3).map(|_| tier.client()).collect();
    for client in &mut clients {
        client.rows("BEGIN").unwrap();
    }
    let mut given: Vec<i64> = Vec::new();
    for _ in 0..2 {
        for client in &mut clients {
            given.push(client.number("INSERT INTO t (v) VALUES (1) RETURNING id").unwrap());
        }
    }
    given.sort_unstable();
    assert_eq!(given, [1, 2, 3, 4, 5, 6]);
    // In another order than they have drawn; none is refused for a number.
    for client in clients.iter_mut().rev() {
        client.rows("COMMIT").unwrap();
    }
    let next = "INSERT INTO t (v) VALUES (1) RETURNING id";
    assert_eq!(clients[0].number(next).unwrap(), 7);
    tier.signal(&tier.master(), Signal::KILL);
    let mut client = tier.client();
    let mut given = 0;
    eventually("another master", || {
        let asked = client.number(next);
        given = *asked.as_ref().unwrap_or(&0);
        asked.is_ok()
    });
    assert!(given > 7, "{given}");
    client.rows("TRUNCATE t RESTART IDENTITY").unwrap();
    assert_eq!(client.number(next).unwrap(), 1);
}

/// A restarted sequence begins again inside of its transaction, for others after the commit, and not after a roll-back.
#[test]
fn a_sequence_that_restarts_begins_again_in_its_transaction() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id serial PRIMARY KEY, v int NOT NULL)").worked();
    let (mut one, mut other) = (tier.client(), tier.client());
    let next = "INSERT INTO t (v) VALUES (1) RETURNING id";
    let restart = "TRUNCATE t RESTART IDENTITY";
    (1..=3).for_each(|id| assert_eq!(one.number(next).unwrap(), id));
    // Taken back, by a savepoint and by the end: the old values go on, each once.
    one.rows(&format!("BEGIN; SAVEPOINT s; {restart}")).unwrap();
    assert_eq!(one.number(next).unwrap(), 1);
    one.rows("ROLLBACK TO s").unwrap();
    assert_eq!(other.number(next).unwrap(), 4);
    assert_eq!(one.number("SELECT nextval('t_id_seq')").unwrap(), 5);
    one.rows("ROLLBACK").unwrap();
    one.rows(&format!("BEGIN; {restart}; INSERT INTO t (v) VALUES (1); ROLLBACK")).unwrap();
    assert_eq!(one.number(next).unwrap(), 6);
    // Committed.
    one.rows(&format!("BEGIN; {restart}")).unwrap();
    assert_eq!((one.number(next).unwrap(), one.number(next).unwrap()), (1, 2));
    one.rows("COMMIT").unwrap();
    assert_eq!(other.number(next).unwrap(), 3);
    assert_eq!(other.number("SELECT count(*) FROM t").unwrap(), 3);
    // In one request, too.
    one.rows(&format!("{restart}; INSERT INTO t (v) VALUES (1)")).unwrap();
    assert_eq!(other.number("SELECT id FROM t").unwrap(), 1);
    assert_eq!(other.number(next).unwrap(), 2);
}

/// A block that has only read is one snapshot: it commits whatever others have written meanwhile.
#[test]
fn a_transaction_that_only_reads_is_never_refused() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY)").worked();
    let (mut reader, mut writer) = (tier.client(), tier.client());
    for number in 0..10 {
        reader.rows("BEGIN").unwrap();
        assert_eq!(reader.number("SELECT count(*) FROM t").unwrap(), number);
        writer.rows(&format!("INSERT INTO t VALUES ({number})")).unwrap();
        assert_eq!(reader.number("SELECT count(*) FROM t").unwrap(), number);
        reader.rows("COMMIT").unwrap();
    }
}

#[test]
fn a_statement_that_was_canceled_does_not_run_again_at_the_commit() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY)").worked();
    let mut client = tier.client();
    client
        .rows("BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; SET LOCAL statement_timeout = '300ms'")
        .unwrap();
    let endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT count(*) FROM r";
    assert_eq!(client.rows(endless).unwrap_err().sqlstate.as_deref(), Some("57014"));
    client.rows("ROLLBACK TO s").unwrap();
    assert_eq!(client.rows("COMMIT").unwrap_err().sqlstate.as_deref(), Some("40001"));
    assert_eq!(client.number("SELECT count(*) FROM t").unwrap(), 0);
    client.rows("INSERT INTO t VALUES (2)").unwrap();
}

#[test]
fn savepoints_differ_by_case_and_results_by_column_names_and_messages() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, v text)").worked();
    let (mut one, mut other) = (tier.client(), tier.client());
    one.rows("BEGIN; SAVEPOINT a; INSERT INTO t VALUES (1, 'x')").unwrap();
    one.rows("SAVEPOINT \"A\"; INSERT INTO t VALUES (2, 'x'); ROLLBACK TO a; COMMIT").unwrap();
    assert_eq!(one.number("SELECT count(*) FROM t").unwrap(), 0);
    let refused = |one: &mut Client| {
        assert_eq!(one.rows("COMMIT").unwrap_err().sqlstate.as_deref(), Some("40001"));
    };
    one.rows("BEGIN; SELECT * FROM t; INSERT INTO t VALUES (3, 'x')").unwrap();
    other.rows("ALTER TABLE t RENAME COLUMN v TO w").unwrap();
    refused(&mut one);
    other.rows("INSERT INTO t VALUES (1, 'alice')").unwrap();
    one.rows("BEGIN; SAVEPOINT s").unwrap();
    assert_eq!(one.rows("SELECT w::int FROM t").unwrap_err().sqlstate.as_deref(), Some("22P02"));
    one.rows("ROLLBACK TO s; INSERT INTO t VALUES (5, 'x')").unwrap();
    other.rows("UPDATE t SET w = 'bob' WHERE id = 1").unwrap();
    refused(&mut one);
}

#[test]
fn sequences_of_other_sessions_and_tables_are_left_alone() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id serial PRIMARY KEY, v int)").worked();
    psql(&tier.url(), "CREATE TABLE u (id serial PRIMARY KEY, v int)").worked();
    let (mut one, mut other) = (tier.client(), tier.client());
    one.rows("INSERT INTO t (v) VALUES (1)").unwrap();
    let foreign = other.rows("SELECT currval('t_id_seq')").unwrap_err();
    assert_eq!(foreign.sqlstate.as_deref(), Some("55000"));
    one.rows("BEGIN").unwrap();
    assert_eq!(one.number("INSERT INTO t (v) VALUES (2) RETURNING id").unwrap(), 2);
    other.rows("TRUNCATE u RESTART IDENTITY").unwrap();
    assert_eq!(other.number("INSERT INTO t (v) VALUES (3) RETURNING id").unwrap(), 3);
    one.rows("INSERT INTO u (v) VALUES (currval('t_id_seq'))").unwrap();
    one.rows("COMMIT").unwrap();
    assert_eq!(one.number("SELECT v FROM u").unwrap(), 2);
}

/// A result that is too large for a message, or a write set: an error, and the tier goes on.
#[test]
fn what_is_too_large_is_refused_and_changes_nothing() {
    let tier = Tier::start(2);
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, v text)").worked();
    let mut client = tier.client();
    client.rows("INSERT INTO t SELECT i, repeat('x', 3000000) FROM generate_series(1, 24) i").unwrap();
    let returned = client.rows("UPDATE t SET id = id + 100 RETURNING v").unwrap_err();
    assert_eq!(returned.sqlstate.as_deref(), Some("54000"), "{returned:?}");
    let wide = (0..24).map(|_| "repeat('x', 3000000)").collect::<Vec<_>>().join(", ");
    assert_eq!(client.rows(&format!("SELECT {wide}")).unwrap_err().sqlstate.as_deref(), Some("54000"));
    assert_eq!(client.number("SELECT min(id) FROM t").unwrap(), 1);
}
