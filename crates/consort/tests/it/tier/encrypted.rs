//! A tier whose nodes are on other machines: everything between its processes is encrypted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::access::Certificates;
use crate::fixture::{CONSORT, eventually, free_port, psql, run, serve, temporary};
use crate::load::Client;

const NODES: usize = 3;

/// A process that ends with the test.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Process {
        Process(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program runs"))
    }

    /// Waits for its first line.
    fn is_ready(&mut self) {
        let output = self.0.stdout.take().expect("it is a pipe");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nodes, and Consort in front of them, with the files of all in one folder.
struct Encrypted {
    folder: PathBuf,
    certificates: Certificates,
    ports: Vec<u16>,
    nodes: Vec<Option<Process>>,
    port: u16,
    consort: Option<Process>,
}

impl Encrypted {
    /// The nodes alone.
    fn nodes() -> Encrypted {
        let folder = temporary("encrypted-tier");
        std::fs::create_dir(&folder).expect("a folder");
        let secret = folder.join("secret");
        std::fs::write(&secret, [7; 32]).expect("a file");
        run(Command::new("chmod").arg("600").arg(&secret)).worked();
        let mut tier = Encrypted {
            folder,
            certificates: Certificates::make(),
            ports: (0..NODES).map(|_| free_port()).collect(),
            nodes: (0..NODES).map(|_| None).collect(),
            port: free_port(),
            consort: None,
        };
        (0..NODES).for_each(|node| tier.start_node(node));
        tier
    }

    fn start_node(&mut self, node: usize) {
        let mut command = self.node(node, self.ports[node]);
        for (option, file) in [
            ("--tls-cert-file", "certificate.pem"),
            ("--tls-key-file", "key.pem"),
            ("--tls-ca-file", "ca.pem"),
        ] {
            command.args([option, &self.certificates.file(file)]);
        }
        let node = self.nodes[node].insert(Process::start(&mut command));
        node.is_ready();
    }

    /// The command of a node, without encryption.
    fn node(&self, node: usize, port: u16) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", CONSORT, "tier-node", "--dir"]);
        command.arg(self.folder.join(format!("node{node}")));
        command.arg("--secret-file").arg(self.folder.join("secret"));
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command.stderr(std::fs::File::create(self.folder.join(format!("log{node}"))).expect("a file"));
        command
    }

    /// Consort, which knows this authority. It is ready when it has reached the nodes. Returns its log's file.
    fn serve(&mut self, authority: &str) -> PathBuf {
        self.consort = None;
        let folder = self.folder.display();
        let authority = self.certificates.file(authority);
        let mut text = format!(
            "design = \"{}\"\nlisten = [\"127.0.0.1:{}\"]\nauth_type = \"trust\"\nledger_dir = \"{folder}/ledger\"\n\
             tier_secret_file = \"{folder}/secret\"\ntier_tls_ca_file = \"{authority}\"\n",
            super::design(),
            self.port,
        );
        for port in &self.ports {
            text.push_str(&format!("[[node]]\nhost = \"localhost\"\nport = {port}\n"));
        }
        let (file, log) = (self.folder.join("consort.toml"), self.folder.join("consort.log"));
        std::fs::write(&file, text).expect("a file");
        let mut command = serve(&file);
        let stderr = std::fs::File::create(&log).expect("a file");
        self.consort = Some(Process::start(command.stderr(stderr)));
        log
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Name and role of the nodes that serve.
    fn serving(&self) -> Vec<(String, String)> {
        let console = format!("postgres://postgres@127.0.0.1:{}/consort", self.port);
        let asked = Client::connect(&console).and_then(|mut console| console.rows("SHOW NODES"));
        let rows = asked.unwrap_or_default();
        let of =
            |row: &tokio_postgres::SimpleQueryRow, column| row.get(column).unwrap_or_default().to_owned();
        let up = rows.iter().filter(|row| row.get("state") == Some("up"));
        up.map(|row| (of(row, "node"), of(row, "role"))).collect()
    }

    fn until_whole(&mut self) {
        if let Some(consort) = self.consort.as_mut().filter(|consort| consort.0.stdout.is_some()) {
            consort.is_ready();
        }
        eventually("a tier that is whole", || {
            let serving = self.serving();
            serving.len() == NODES && serving.iter().any(|(_, role)| role == "master")
        });
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.consort = None;
        self.nodes.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Writes at the master are read at every slave, a master that dies has a successor, and a node that comes back copies the pages:
/// sessions, subscriptions, orders and copies are all encrypted.
#[test]
fn nodes_with_certificates_are_one_tier() {
    let mut tier = Encrypted::nodes();
    tier.serve("ca.pem");
    tier.until_whole();
    psql(&tier.url(), "CREATE TABLE t (id int PRIMARY KEY, v text)").worked();
    let mut client = Client::connect(&tier.url()).expect("a client comes in");
    for number in 0..20 {
        client.rows(&format!("INSERT INTO t VALUES ({number}, repeat('x', 20000))")).expect("an insert");
        // Each slave in turn shows it at once.
        for _ in 0..NODES {
            assert_eq!(client.number("SELECT count(*) FROM t").unwrap(), number + 1);
        }
    }
    let serving = tier.serving();
    let master = serving.iter().position(|(_, role)| role == "master").expect("a master");
    tier.nodes[master] = None;
    eventually("another master", || tier.serving().iter().any(|(_, role)| role == "master"));
    psql(&tier.url(), "INSERT INTO t VALUES (20, 'y')").worked();
    tier.start_node(master);
    tier.until_whole();
    let mut client = Client::connect(&tier.url()).expect("a client comes in");
    for _ in 0..2 * NODES {
        assert_eq!(client.number("SELECT count(*) FROM t").unwrap(), 21);
    }
    // A cancel request is an order to the node.
    client.rows("SET statement_timeout = 300").expect("a setting");
    let slow = "SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h WHERE a.id + h.id = -1";
    let trouble = client.rows(slow).expect_err("it would take for ever");
    assert_eq!(trouble.sqlstate.as_deref(), Some("57014"), "{}", trouble.text);
}

/// Frames in clear text get no answer, and a node whose certificate is of another authority is not believed.
#[test]
fn clear_text_and_unknown_authorities_are_refused() {
    let mut tier = Encrypted::nodes();
    let mut clear = TcpStream::connect(("127.0.0.1", tier.ports[0])).expect("a connection");
    clear.write_all(&[0; 64]).expect("bytes are taken");
    let mut said = Vec::new();
    // A fatal alert of TLS at most: no frame. An end with bytes unread may come as a reset.
    let _ = clear.read_to_end(&mut said);
    assert!(said.len() < 16, "{said:?}");
    let log = tier.serve("other.pem");
    eventually("a certificate that is refused", || {
        std::fs::read_to_string(&log).expect("a log").contains("UnknownIssuer")
    });
    tier.serve("ca.pem");
    tier.until_whole();
    // Without a certificate a node serves its own machine alone.
    let mut command = Command::new(CONSORT);
    command.args(["tier-node", "--listen", "0.0.0.0:0", "--dir"]).arg(tier.folder.join("far"));
    command.arg("--secret-file").arg(tier.folder.join("secret"));
    let refused = run(&mut command).failed(1);
    assert!(refused.contains("--tls-cert-file"), "{refused}");
}
