//! TLS towards servers that may have none, and towards servers that want a certificate of Consort.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use local_cluster::{Node, Options};
use testkit::Scratch;

use crate::access::{
    Certificates, KEYED, OWN, ask, checked, demand, guarded, guarded_with, is_cancelled, secrets, serve,
    served,
};
use crate::fixture::{Serving, consort, eventually, psql, run, temporary};

const READ: &str = "SELECT v FROM goods WHERE id = 1";
/// Whose certificate a connection has shown.
const MINE: &str = "SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

const STREAM: &str = "backend_type = 'walsender'";
const GATE: &str = "coalesce(client_dn, '') LIKE '%CN=gate'";
const SPARE: &str = "coalesce(client_dn, '') LIKE '%CN=spare'";

/// True if there are such connections, which have come to a node by TCP, and this is so of all of them.
fn is_so(node: &Node, which: &str, so: &str) -> bool {
    let sql = format!(
        "SELECT count(*) > 0 AND bool_and({so}) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE client_addr IS NOT NULL AND {which}"
    );
    node.query("postgres", &sql).expect("the server answers")[0][0].as_deref() == Some("t")
}

/// A client reads at the standby and is interrupted, and this is so of all of Consort's connections.
fn is_served(serving: &Serving, so: &str) {
    let before = served(serving);
    eventually("a read at the standby", || {
        ask(serving, "keyed", KEYED, &[], READ).out == "lamp\n" && served(serving) > before
    });
    is_cancelled(serving, &[]);
    eventually("the slot's stream", || is_so(serving.servers.primary(), STREAM, so));
    for node in serving.servers.cluster().nodes() {
        assert!(is_so(node, "true", so), "{}: {so}", node.name());
    }
}

#[test]
fn tls_is_taken_where_a_server_has_it() {
    let servers = guarded(1);
    let users = secrets(&servers);
    demand(&servers, "host all all all scram-sha-256\n");
    let lines =
        format!("auth_file = \"{}\"\nserver_tls = \"prefer\"\nattach_on_first_use = true\n", users.display());
    is_served(&serve(&servers, "localhost", &lines), "NOT ssl");

    // Nothing is asked of the certificate, neither who signed it nor for whom it is.
    Certificates::make().give_to(&servers);
    demand(&servers, "hostssl all all all scram-sha-256\n");
    eventually("servers that speak TLS", || {
        let required = lines.replace("prefer", "require");
        checked(&servers, "127.0.0.1", &required).status.success()
    });
    is_served(&serve(&servers, "127.0.0.1", &lines), "ssl");
    fs::remove_file(users).unwrap();
}

/// Servers that accept TCP clients only with a certificate of a known name.
struct Certifying {
    servers: Arc<Scratch>,
    made: Certificates,
    users: PathBuf,
}

impl Certifying {
    fn start(options: Options) -> Self {
        let servers = guarded_with(options);
        let users = secrets(&servers);
        let made = Certificates::make();
        for (name, by) in [("gate", "ca"), ("spare", "ca"), ("forged", "other")] {
            made.for_client(name, by);
        }
        made.give_to(&servers);
        for node in servers.cluster().nodes() {
            node.set("ssl_ca_file", "root.crt").expect("the server answers");
        }
        let this = Self { servers, made, users };
        this.shows("gate");
        this.knows("gate");
        demand(&this.servers, "hostssl all all all cert clientcert=verify-full map=c\n");
        for node in this.servers.cluster().nodes() {
            eventually("a server that wants a certificate", || wants_a_certificate(node));
        }
        this
    }

    /// The servers take this common name for the roles that log in.
    fn knows(&self, name: &str) {
        for node in self.servers.cluster().nodes() {
            let maps = format!("c {name} postgres\nc {name} keyed\n");
            let file = node.data_folder().join("pg_ident.conf");
            fs::write(file, maps).expect("a temporary file can be written");
            node.query("postgres", "SELECT pg_reload_conf()").expect("the server answers");
        }
    }

    /// Gives Consort the files with the certificate and the key of this name. Only the user that runs
    /// PostgreSQL's programs for it may read them.
    fn shows(&self, name: &str) {
        let owner = format!("--reference={}", self.servers.primary().data_folder().display());
        for end in ["pem", "key"] {
            let (from, to) =
                (self.made.file(&format!("{name}.{end}")), self.made.file(&format!("shown.{end}")));
            fs::copy(from, &to).expect("a temporary file can be written");
            run(Command::new("chown").args([&owner, &to])).worked();
            run(Command::new("chmod").args(["600", &to])).worked();
        }
    }

    /// A configuration's lines, with no certificate,
    fn without(&self) -> String {
        format!(
            "auth_file = \"{}\"\nserver_tls = \"verify-full\"\nserver_tls_ca = \"{}\"\nattach_on_first_use = true\n",
            self.users.display(),
            self.made.file("ca.pem")
        )
    }

    /// and with the one that is shown.
    fn with(&self) -> String {
        let (file, key) = (self.made.file("shown.pem"), self.made.file("shown.key"));
        format!("{}server_tls_certificate = \"{file}\"\nserver_tls_key = \"{key}\"\n", self.without())
    }
}

impl Drop for Certifying {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.users);
    }
}

/// True if a client without a certificate gets that error from this server.
fn wants_a_certificate(node: &Node) -> bool {
    let mut psql = testkit::program("psql");
    psql.args(["-XAtqc", "SELECT 1"]).env("PGHOST", "localhost").env("PGPORT", node.port().to_string());
    psql.env("PGUSER", "postgres").env("PGDATABASE", "postgres").env("PGSSLMODE", "require");
    run(&mut psql).err.contains("connection requires a valid client certificate")
}

#[test]
fn servers_that_want_a_certificate_see_the_one_that_is_configured() {
    let certifying = Certifying::start(Options { standbys: 1, ..Scratch::options() });
    let servers = &certifying.servers;
    let refused = |lines: &str| checked(servers, "localhost", lines).failed_saying(1);
    let none = refused(&certifying.without());
    assert!(none.contains("connection requires a valid client certificate"), "{none}");
    certifying.shows("spare");
    let another = refused(&certifying.with());
    assert!(another.contains("certificate authentication failed for user \"postgres\""), "{another}");
    certifying.shows("forged");
    refused(&certifying.with());
    certifying.shows("gate");
    checked(servers, "localhost", &certifying.with()).worked();

    let serving = serve(servers, "localhost", &certifying.with());
    is_served(&serving, GATE);
    assert_eq!(ask(&serving, "keyed", KEYED, &[], MINE).worked(), "/O=shop/CN=gate\n");
    let by_psql = serving.run("psql", &["--node", "standby1", "-XAtqc", MINE]).worked();
    assert_eq!(by_psql, "/O=shop/CN=gate\n");
    is_renewed(&certifying, &serving);
}

/// A certificate that is renewed under its name is presented on all new connections from the next RELOAD on.
/// Open connections stay.
fn is_renewed(certifying: &Certifying, serving: &Serving) {
    let servers = &certifying.servers;
    let (primary, standby) = (servers.primary(), &servers.cluster().standbys()[0]);
    let console = format!("postgres://postgres:{OWN}@127.0.0.1:{}/consort", serving.port);
    let key = certifying.made.file("shown.key");
    certifying.knows("spare");
    eventually("servers that know the new one alone", || {
        ask(serving, "keyed", KEYED, &[], READ).err.contains("certificate authentication failed")
    });
    fs::remove_file(&key).expect("it is there");
    let refused = psql(&console, "RELOAD").failed(1);
    assert!(refused.contains(&format!("server_tls_key: {key}: ")), "{refused}");
    certifying.shows("spare");
    psql(&console, "RELOAD").worked();
    assert_eq!(ask(serving, "keyed", KEYED, &[], MINE).worked(), "/O=shop/CN=spare\n");

    primary
        .query(
            "postgres",
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_type = 'logical'",
        )
        .expect("the server answers");
    let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_addr IS NOT NULL";
    standby.query("postgres", all).expect("the server answers");
    eventually("the slot's stream", || is_so(primary, STREAM, SPARE));
    eventually("the standby's connections", || is_so(standby, "true", SPARE));
    let before = served(serving);
    eventually("a read at the standby", || {
        ask(serving, "keyed", KEYED, &[], READ).out == "lamp\n" && served(serving) > before
    });
}

#[test]
fn a_replica_is_copied_and_fed_with_the_certificate() {
    let certifying = Certifying::start(Options { standbys: 0, replicas: 1, ..Scratch::options() });
    let servers = &certifying.servers;
    let serving = serve(servers, "localhost", &certifying.with());
    // The database is followed from its first use on.
    eventually("a client", || ask(&serving, "keyed", KEYED, &[], READ).out == "lamp\n");
    let shows = |word: &str| {
        let rows = servers.replica(0).query("postgres", "SELECT v FROM goods");
        rows.is_ok_and(|rows| rows == [[Some(word.to_owned())]])
    };
    eventually("the copy", || shows("lamp"));
    servers.query("UPDATE goods SET v = 'torch'");
    eventually("what is fed", || shows("torch"));
    assert!(is_so(servers.replica(0), "true", GATE));
}

#[test]
fn a_certificate_for_servers_that_cannot_be_shown_is_named() {
    let made = Certificates::make();
    made.for_client("gate", "ca");
    made.for_client("spare", "ca");
    let nonsense = made.file("client");
    let absent = made.file("absent");
    let (gate, key, other) = (made.file("gate.pem"), made.file("gate.key"), made.file("spare.key"));
    let both =
        |file: &str, key: &str| format!("server_tls_certificate = \"{file}\"\nserver_tls_key = \"{key}\"\n");
    for (lines, said) in [
        (both(&absent, &key), format!("server_tls_certificate: {absent}: ")),
        (both(&nonsense, &key), format!("server_tls_certificate: {nonsense}: ")),
        (both(&gate, &absent), format!("server_tls_key: {absent}: ")),
        (both(&gate, &nonsense), format!("server_tls_key: {nonsense}: ")),
        (
            both(&gate, &other),
            format!("server_tls_key: {other}: is not the key of the certificate in {gate}"),
        ),
        (both(&gate, ""), "server_tls_certificate: needs server_tls_key".to_owned()),
        (both("", &key), "server_tls_key: needs server_tls_certificate".to_owned()),
    ] {
        let refused = refused(&format!("server_tls = \"require\"\n{lines}"));
        assert!(refused.contains(&said), "{lines}: {refused}");
    }
    let idle = refused(&both(&gate, &key));
    assert!(
        idle.contains("server_tls_certificate: has no effect without server_tls; set server_tls"),
        "{idle}"
    );
}

/// The error for a configuration with these lines.
fn refused(lines: &str) -> String {
    let file = temporary("certificates").with_extension("toml");
    let text = format!("auth_type = \"trust\"\n{lines}[primary]\nhost = \"localhost\"\n");
    fs::write(&file, text).expect("a temporary file can be written");
    let done = consort(&["check", "--config", file.to_str().expect("a name of ours")]);
    fs::remove_file(file).expect("a temporary file can be written");
    done.failed_saying(1)
}
