//! Authentication: secrets and encryption towards clients and towards servers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use local_cluster::{LogIns, Options};
use testkit::Scratch;

use crate::fixture::{
    CONSORT, Done, LIMIT, Serving, configuration, consort, eventually, free_port, psql, run, temporary,
};
use crate::load::{Client, Console, READ, READ_QUIET, TABLES, THROUGH, past, served as served_by, serving};
use crate::serving::figure;

/// Secrets as an administrator types them.
pub(crate) const OWN: &str = "boss";
pub(crate) const CLEAR: &str = "a \"quoted\" word";
pub(crate) const TYPED: &str = "by hand";
pub(crate) const KEYED: &str = "sesame";
pub(crate) const OLD: &str = "olden";

/// A server that is reached by TCP and trusts no client there.
pub(crate) fn guarded(standbys: usize) -> Arc<Scratch> {
    guarded_with(Options { standbys, ..Scratch::options() })
}

/// The same with these nodes.
pub(crate) fn guarded_with(options: Options) -> Arc<Scratch> {
    let servers = Scratch::with(Options { log_ins: LogIns::Loopback, ..options });
    for sql in [
        "CREATE TABLE goods (id int PRIMARY KEY, v text)",
        "INSERT INTO goods VALUES (1, 'lamp')",
        "GRANT SELECT ON goods TO PUBLIC",
        &format!("ALTER ROLE postgres PASSWORD '{OWN}'"),
        &format!("CREATE ROLE clear LOGIN PASSWORD '{CLEAR}'"),
        &format!("CREATE ROLE typed LOGIN PASSWORD '{TYPED}'"),
        &format!("CREATE ROLE keyed LOGIN PASSWORD '{KEYED}'"),
        &format!("SET password_encryption = 'md5'; CREATE ROLE old LOGIN PASSWORD '{OLD}'"),
    ] {
        servers.query(sql);
    }
    Arc::new(servers)
}

/// Sets the rules for logins by TCP, at every node.
pub(crate) fn demand(servers: &Scratch, lines: &str) {
    for node in servers.cluster().nodes() {
        let text = format!("local all all trust\nlocal replication all trust\n{lines}");
        fs::write(node.data_folder().join("pg_hba.conf"), text).expect("a temporary file can be written");
        node.query("postgres", "SELECT pg_reload_conf()").expect("the server answers");
    }
}

/// The `auth_file`: clear words, a SCRAM key, an MD5 hash, and a word that is wrong at the server.
pub(crate) fn secrets(servers: &Scratch) -> PathBuf {
    let stored = |role: &str| {
        let sql = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{role}'");
        servers.query(&sql)[0][0].clone().expect("the server answers")
    };
    servers.query("CREATE ROLE stale LOGIN PASSWORD 'new'");
    let lines = [
        ("postgres", OWN.to_owned()),
        ("clear", CLEAR.replace('"', "\"\"")),
        ("typed", TYPED.to_owned()),
        ("keyed", stored("keyed")),
        ("old", stored("old")),
        ("stale", "former".to_owned()),
    ];
    let file = temporary("users").with_extension("txt");
    let text: String = lines.iter().map(|(role, secret)| format!("\"{role}\" \"{secret}\"\n")).collect();
    fs::write(&file, format!("; roles\n{text}")).expect("a temporary file can be written");
    file
}

/// A configuration that reaches the servers by TCP at this host.
pub(crate) fn by_tcp(servers: &Scratch, host: &str, port: u16, lines: &str) -> String {
    let text = configuration(servers, port, lines);
    let socket = format!("host = \"{}\"", servers.primary().socket_folder().display());
    assert!(text.contains(&socket));
    text.replace(&socket, &format!("host = \"{host}\""))
}

pub(crate) fn serve(servers: &Arc<Scratch>, host: &str, lines: &str) -> Serving {
    let (port, metrics_port) = (free_port(), free_port());
    Serving::configured(servers.clone(), port, metrics_port, &by_tcp(servers, host, port, lines))
}

/// psql as this role with this password; `more` are settings of libpq.
pub(crate) fn ask(serving: &Serving, role: &str, password: &str, more: &[(&str, &str)], sql: &str) -> Done {
    let mut psql = testkit::program("psql");
    psql.args(["-XAtq", "-v", "VERBOSITY=verbose", "-c", sql]).env("PGPASSWORD", password);
    psql.env("PGHOST", "localhost").env("PGPORT", serving.port.to_string());
    psql.env("PGUSER", role).env("PGDATABASE", "postgres").envs(more.iter().copied());
    run(&mut psql)
}

/// Number of reads that the standby has answered.
pub(crate) fn served(serving: &Serving) -> u64 {
    let url = format!("postgres://postgres:{OWN}@127.0.0.1:{}/consort", serving.port);
    Console::connect(&url).node("standby1").served
}

#[test]
fn servers_and_clients_that_demand_proofs() {
    let servers = guarded(1);
    let users = secrets(&servers);
    let lines = format!("auth_file = \"{}\"\nattach_on_first_use = true", users.display());
    demand(&servers, "host all old all md5\nhost all typed all password\nhost all all all scram-sha-256\n");

    let serving = serve(&servers, "localhost", &lines);
    // Consort's own password is for its own role: a login as another role has its own.
    let mut as_another = Command::new(CONSORT);
    as_another.args(["psql", "--config"]).arg(&serving.config_file).env("PGPASSWORD", KEYED);
    as_another.args(["-U", "keyed", "-d", "postgres", "-XAtc", "SELECT current_user"]);
    assert_eq!(run(&mut as_another).worked(), "keyed\n");
    assert_eq!(serving.run("psql", &["-XAtc", "SELECT current_user"]).worked(), "postgres\n");
    let read = "SELECT v, current_user FROM goods WHERE id = 1";
    for (role, word) in [("clear", CLEAR), ("keyed", KEYED), ("typed", TYPED)] {
        // At the primary, and with the same secret at the standby.
        let before = served(&serving);
        eventually("a read at the standby", || {
            assert_eq!(ask(&serving, role, word, &[], read).worked(), format!("lamp|{role}\n"));
            served(&serving) > before
        });
        let refused = ask(&serving, role, "wrong", &[], read).failed(2);
        assert!(
            refused.contains(&format!("password authentication failed for user \"{role}\"")),
            "{refused}"
        );
    }
    let nobody = ask(&serving, "nobody", "wrong", &[], read).failed(2);
    assert!(nobody.contains("password authentication failed for user \"nobody\""), "{nobody}");
    // Right here and wrong at the server: the server's own words.
    let stale = ask(&serving, "stale", "former", &[], read).failed(2);
    assert!(stale.contains("password authentication failed for user \"stale\""), "{stale}");
    assert!(serving.run("status", &[]).worked().contains("reads are offloaded"));
    // A key is no password: a console client gets this error.
    let keys = temporary("keys").with_extension("txt");
    let key = &servers.query("SELECT rolpassword FROM pg_authid WHERE rolname = 'postgres'")[0][0];
    fs::write(&keys, format!("\"postgres\" \"{}\"\n", key.as_deref().unwrap())).unwrap();
    let file = temporary("keyed").with_extension("toml");
    let keyed = format!("auth_file = \"{}\"", keys.display());
    fs::write(&file, configuration(&servers, serving.port, &keyed)).unwrap();
    let wanted = format!("the line of postgres in {} must contain the plain password", keys.display());
    let config = ["--config", file.to_str().unwrap()];
    let told = consort(&[&["status"], &config[..]].concat()).failed(1);
    assert!(told.contains(&wanted), "{told}");
    let checked = consort(&[&["check"], &config[..]].concat()).worked();
    assert!(checked.contains("console: advice: ") && checked.contains(&wanted), "{checked}");
    fs::remove_file(keys).unwrap();
    fs::remove_file(file).unwrap();
    drop(serving);

    let serving = serve(&servers, "localhost", &format!("auth_type = \"md5\"\n{lines}"));
    let before = served(&serving);
    eventually("a read at the standby", || {
        assert_eq!(ask(&serving, "old", OLD, &[], read).worked(), "lamp|old\n");
        served(&serving) > before
    });
    assert!(ask(&serving, "old", "wrong", &[], read).failed(2).contains("password authentication failed"));
    // An MD5 hash opens no server that demands SCRAM.
    demand(&servers, "host all all all scram-sha-256\n");
    // A server applies its new rules a moment later.
    eventually("a server that demands SCRAM", || {
        ask(&serving, "old", OLD, &[], read).status.code() == Some(2)
    });
    let told = ask(&serving, "old", OLD, &[], read).failed(2);
    assert!(told.contains("the primary requires authentication by SCRAM-SHA-256 for this role"), "{told}");
    assert!(told.contains("HINT") && told.contains("auth_file"), "{told}");
    fs::remove_file(users).unwrap();
}

/// Two authorities, and a certificate by the first one for `localhost` alone.
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    pub(crate) fn make() -> Self {
        let folder = temporary("certificates");
        fs::DirBuilder::new().mode(0o755).create(&folder).expect("a temporary file can be written");
        let made = Self(folder);
        let openssl = |words: &str| made.openssl(words);
        for name in ["ca", "other"] {
            openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {name}.key -out {name}.pem -subj /CN={name}"
            ));
        }
        openssl("req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=localhost");
        fs::write(made.0.join("names"), "subjectAltName=DNS:localhost\n")
            .expect("a temporary file can be written");
        made.sign("ca", "sha256");
        made
    }

    pub(crate) fn openssl(&self, words: &str) {
        run(Command::new("openssl").args(words.split(' ')).current_dir(&self.0)).worked();
    }

    /// The certificate is by this authority from now on, whose signature is of this kind.
    fn sign(&self, by: &str, hash: &str) {
        self.openssl(&format!(
            "x509 -req -{hash} -in request.pem -CA {by}.pem -CAkey {by}.key -CAcreateserial -days 2 -out certificate.pem -extfile names"
        ));
    }

    /// Makes `NAME.pem` and `NAME.key` for a client of this name.
    pub(crate) fn for_client(&self, name: &str, by: &str) {
        fs::write(self.0.join("client"), "extendedKeyUsage=clientAuth\n")
            .expect("a temporary file can be written");
        self.openssl(&format!(
            "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.request -subj /O=shop/CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.request -CA {by}.pem -CAkey {by}.key -CAcreateserial -days 2 -out {name}.pem -extfile client"
        ));
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Puts certificate and key into the data folders, which PostgreSQL's own user must be able to read.
    pub(crate) fn give_to(&self, servers: &Scratch) {
        for node in servers.cluster().nodes() {
            let data = node.data_folder();
            for (from, to) in
                [("certificate.pem", "server.crt"), ("key.pem", "server.key"), ("ca.pem", "root.crt")]
            {
                fs::copy(self.0.join(from), data.join(to)).expect("a temporary file can be written");
                let file = data.join(to).display().to_string();
                let owner = format!("--reference={}", data.display());
                run(Command::new("chown").args([&owner, &file])).worked();
                run(Command::new("chmod").args(["600", &file])).worked();
            }
            node.set("ssl", "on").expect("the server answers");
        }
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Findings of `consort check` for servers at this host, encrypted like this.
pub(crate) fn checked(servers: &Scratch, host: &str, lines: &str) -> Done {
    let file = temporary("check").with_extension("toml");
    fs::write(&file, by_tcp(servers, host, free_port(), lines)).expect("a temporary file can be written");
    let done = consort(&["check", "--config", file.to_str().expect("a name of ours")]);
    fs::remove_file(file).expect("a temporary file can be written");
    done
}

#[test]
fn tls_towards_clients_and_servers() {
    let servers = guarded(1);
    let users = secrets(&servers);
    let made = Certificates::make();
    let auth = format!("auth_file = \"{}\"\n", users.display());
    let verified =
        |mode: &str, ca: &str| format!("{auth}server_tls = \"{mode}\"\nserver_tls_ca = \"{ca}\"\n");
    let (ca, other) = (made.file("ca.pem"), made.file("other.pem"));

    let plain = checked(&servers, "localhost", &format!("{auth}server_tls = \"require\"")).failed_saying(1);
    assert!(plain.contains("does not support TLS"), "{plain}");
    made.give_to(&servers);
    // No client gets in without TLS.
    demand(&servers, "hostssl all all all scram-sha-256\n");
    eventually("a server that speaks TLS", || {
        checked(&servers, "localhost", &verified("verify-full", &ca)).status.success()
    });
    let unencrypted = checked(&servers, "localhost", &auth).failed_saying(1);
    assert!(unencrypted.contains("no encryption"), "{unencrypted}");
    for (host, lines, refused) in [
        ("127.0.0.1", format!("{auth}server_tls = \"require\""), None),
        ("127.0.0.1", verified("verify-ca", &ca), None),
        ("127.0.0.1", verified("verify-full", &ca), Some("not valid for name \"127.0.0.1\"")),
        ("localhost", verified("verify-full", &other), Some("UnknownIssuer")),
        ("localhost", verified("verify-ca", &other), Some("UnknownIssuer")),
    ] {
        let done = checked(&servers, host, &lines);
        let said = format!("{}{}", done.out, done.err);
        assert_eq!(done.status.success(), refused.is_none(), "{host} {lines}{said}");
        assert!(refused.is_none_or(|refused| said.contains(refused)), "{said}");
    }

    let lines = format!(
        "{}tls_certificate = \"{}\"\ntls_key = \"{}\"\ntls_required = true\nattach_on_first_use = true",
        verified("verify-full", &ca),
        made.file("certificate.pem"),
        made.file("key.pem")
    );
    let serving = serve(&servers, "localhost", &lines);
    let full = [("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", ca.as_str())];
    let unknown = [("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", other.as_str())];
    let read = "SELECT v FROM goods WHERE id = 1";
    let reads = || {
        let out =
            consort(&["status", "--json", "--config", serving.config_file().to_str().unwrap()]).worked();
        let status: serde_json::Value = serde_json::from_str(&out).unwrap();
        status["nodes"][1]["reads_served"].as_i64().unwrap()
    };
    eventually("a read at the standby", || {
        assert_eq!(ask(&serving, "keyed", KEYED, &full, read).worked(), "lamp\n");
        reads() > 0
    });
    let ours = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(ask(&serving, "keyed", KEYED, &full, ours).worked(), "t\n", "the client's own connection");
    for node in servers.cluster().nodes() {
        let others = "SELECT count(*) > 0, bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                      WHERE client_addr IS NOT NULL";
        let found = node.query("postgres", others).unwrap();
        assert_eq!(found, [[Some("t".to_owned()), Some("t".to_owned())]], "{}", node.name());
    }
    let plain = ask(&serving, "keyed", KEYED, &[("PGSSLMODE", "disable")], read).failed(2);
    assert!(plain.contains("connection is not encrypted (tls_required)"), "{plain}");
    let distrusted = ask(&serving, "keyed", KEYED, &unknown, read).failed(2);
    assert!(distrusted.contains("certificate verify failed"), "{distrusted}");
    assert!(serving.run("psql", &["--node", "standby1", "-XAtqc", ours]).worked().contains('t'));
    is_cancelled(&serving, &full);
    is_not_talked_into(&serving);
    assert_eq!(ask(&serving, "keyed", KEYED, &full, read).worked(), "lamp\n", "nobody else is harmed");
    begins_with_tls(&serving);
    is_bound_to_the_certificate(&serving, &made, &full, &unknown);
    fs::remove_file(users).unwrap();
}

/// A proof is bound to the presented certificate, with any hash in its signature, also a renewed one. The
/// keys that it yields open the servers as ever.
fn is_bound_to_the_certificate(
    serving: &Serving,
    made: &Certificates,
    by_one: &[(&str, &str)],
    by_other: &[(&str, &str)],
) {
    let read = "SELECT v FROM goods WHERE id = 1";
    let bound = |more: &[(&str, &str)]| {
        let more = [more, &[("PGCHANNELBINDING", "require")]].concat();
        ask(serving, "keyed", KEYED, &more, read).worked()
    };
    assert_eq!(bound(by_one), "lamp\n");
    made.sign("other", "sha384");
    serving.signal("HUP");
    eventually("the renewed certificate", || ask(serving, "keyed", KEYED, by_other, read).out == "lamp\n");
    assert_eq!(bound(by_other), "lamp\n");
}

/// Plain bytes after the request for TLS are refused, and an invalid handshake ends the connection.
fn is_not_talked_into(serving: &Serving) {
    let wish = [0, 0, 0, 8, 4, 210, 22, 47];
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", serving.port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        stream
    };
    let answered = |mut stream: TcpStream| {
        let mut bytes = Vec::new();
        // The other side may reset what it has not read.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let mut hasty = connect();
    hasty.write_all(&[&wish[..], b"\0\0\0\x14\0\x03\0\0user\0keyed\0\0"].concat()).expect("a socket");
    let told = answered(hasty);
    assert!(told.contains("C08P01") && told.contains("unencrypted data after SSL request"), "{told}");
    let mut wild = connect();
    wild.write_all(&wish).expect("a socket");
    let mut yes = [0];
    wild.read_exact(&mut yes).expect("an answer");
    assert_eq!(yes, *b"S");
    wild.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("a socket");
    assert!(!answered(wild).contains("lamp"));
}

/// A client that names the protocol may begin with TLS at once, as PostgreSQL 17 has it. A client that names
/// another one, or none, gets no answer.
fn begins_with_tls(serving: &Serving) {
    let knocks = |named: &[&str]| {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{}", serving.port)]).args(named);
        openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut openssl = openssl.spawn().expect("openssl runs");
        // The query comes where a proof is wanted, so that there is an end.
        let hello = [&b"\0\0\0\x14\0\x03\0\0user\0keyed\0\0"[..], b"Q\0\0\0\x05\0"].concat();
        // A client without an answer may be gone before it has sent everything.
        let _ = openssl.stdin.take().expect("it is a pipe").write_all(&hello);
        let said = openssl.wait_with_output().expect("openssl runs");
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    let heard = knocks(&["-alpn", "postgresql"]);
    assert!(heard.contains("SCRAM-SHA-256-PLUS") && heard.contains("C08P01"), "{heard}");
    assert_eq!(knocks(&["-alpn", "h2"]), "");
    assert_eq!(knocks(&[]), "");
}

/// A statement that is interrupted as a person does it, through two encryptions if the client has one.
pub(crate) fn is_cancelled(serving: &Serving, more: &[(&str, &str)]) {
    let mut psql = testkit::program("psql");
    psql.args(["-XAtq", "-v", "VERBOSITY=verbose", "-c", "SELECT pg_sleep(600)"]).env("PGPASSWORD", KEYED);
    psql.env("PGHOST", "localhost").env("PGPORT", serving.port.to_string());
    psql.env("PGUSER", "keyed").env("PGDATABASE", "postgres").envs(more.iter().copied());
    let waiting =
        psql.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("psql runs");
    let sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    eventually("a statement that sleeps", || !serving.servers.query(sleeps).is_empty());
    run(Command::new("kill").args(["-INT", &waiting.id().to_string()])).worked();
    let said = waiting.wait_with_output().expect("psql runs");
    assert!(String::from_utf8_lossy(&said.stderr).contains("57014"), "{said:?}");
}

#[test]
fn files_of_certificates_that_are_none_are_named() {
    let file = temporary("nonsense").with_extension("pem");
    fs::write(&file, "nonsense").unwrap();
    let name = file.display();
    for (lines, said) in [
        (format!("server_tls = \"verify-full\"\nserver_tls_ca = \"{name}\""), format!("{name}: ")),
        ("server_tls = \"verify-ca\"".to_owned(), "server_tls_ca: is missing".to_owned()),
        (format!("tls_certificate = \"{name}\"\ntls_key = \"{name}\""), format!("{name}: ")),
        ("tls_required = true".to_owned(), "tls_required: needs tls_certificate and tls_key".to_owned()),
        (
            "server_tls = \"allow\"".to_owned(),
            ":2: server_tls: expected \"disable\" or \"prefer\" or \"require\"".to_owned(),
        ),
    ] {
        let config = temporary("certificates").with_extension("toml");
        let text = format!(
            "auth_type = \"trust\"\n{lines}\nlisten = [\"127.0.0.1:{}\"]\n[primary]\nhost = \"localhost\"\n",
            free_port()
        );
        fs::write(&config, text).unwrap();
        let refused = consort(&["serve", "--config", config.to_str().unwrap()]).failed(1);
        assert!(refused.contains(&said), "{lines}: {refused}");
        fs::remove_file(config).unwrap();
    }
    fs::remove_file(Path::new(&file)).unwrap();
}

#[test]
fn who_is_logged_in_past_consort_at_its_start_is_reckoned_with() {
    let servers = Scratch::start(1);
    servers.query(TABLES);
    let node = servers.primary();
    let direct = past(node);
    let mut stranger = Client::connect(&direct).unwrap();
    let serving = Serving::over(servers, THROUGH);
    let url = serving.url("postgres", "postgres");
    let mut client = Client::connect(&url).unwrap();
    let mut console = Console::connect(&serving.url("postgres", "consort"));
    eventually("a read at the standby", || {
        client.number(READ).unwrap();
        served_by(&mut console, "standby1") > 0
    });
    for n in 1..=50 {
        stranger.rows(&format!("UPDATE counter SET n = {n}")).unwrap();
        assert_eq!(client.number(READ).unwrap(), n);
    }
}

#[test]
fn a_log_in_and_a_commit_past_consort_are_noticed_and_reload_switches_back() {
    let (serving, _, url) = serving(1, THROUGH);
    let node = serving.servers.primary();
    let direct = past(node);
    let mut client = Client::connect(&url).unwrap();
    // Proofs by the standby's position and a look at the primary are those for writers anywhere.
    let mut proofs = || {
        client.number(READ_QUIET).unwrap();
        ["plain", "positioned"]
            .map(|proof| figure(&serving, &format!("consort_reads_at_standbys_total{{proof=\"{proof}\"}}")))
    };
    let mut reads_are_proven = |how: usize| {
        eventually("reads with the other kind of proof", || {
            let before = proofs();
            for _ in 0..20 {
                proofs();
            }
            let after = proofs();
            after[how] > before[how] + 15 && after[1 - how] == before[1 - how]
        });
        assert_eq!(figure(&serving, "consort_writers_anywhere"), how as u64);
    };
    reads_are_proven(0);
    let mut stranger = Client::connect(&direct).unwrap();
    reads_are_proven(1);
    // As long as the stranger is there, its writes count as possible.
    stranger.rows("UPDATE counter SET n = n + 1").unwrap();
    drop(stranger);
    let console = serving.url("postgres", "consort");
    psql(&console, "RELOAD").worked();
    reads_are_proven(0);
    // The stranger comes and goes before the log-ins are looked at twice, but its commit stays.
    Client::connect(&direct).unwrap().rows("UPDATE counter SET n = n + 1").unwrap();
    reads_are_proven(1);
    psql(&console, "RELOAD").worked();
    reads_are_proven(0);
}

/// Connections that are kept ready are opened with the secret of whoever came last.
#[test]
fn what_is_kept_ready_knows_the_newest_secret() {
    let servers = guarded(0);
    demand(&servers, "host all all all scram-sha-256\n");
    let users = temporary("users").with_extension("txt");
    let file = |word: &str| fs::write(&users, format!("\"postgres\" \"{OWN}\"\n\"typed\" \"{word}\"\n"));
    file(TYPED).expect("a temporary file can be written");
    let lines = "pool_mode = \"transaction\"\nmin_pool_size = 2\nauth_type = \"trust\"";
    let serving = serve(&servers, "localhost", &format!("auth_file = \"{}\"\n{lines}", users.display()));
    let url = serving.url("typed", "postgres");
    let mut all = vec![Client::connect(&url).unwrap()];
    let two = |than: Option<String>| {
        let mut found = Vec::new();
        eventually("two connections", || {
            found = servers.query("SELECT pid FROM pg_stat_activity WHERE usename = 'typed' ORDER BY pid");
            found.len() == 2 && !found.iter().any(|row| row[0] == than)
        });
        found[0][0].clone()
    };
    let first = two(None);
    servers.query("ALTER ROLE typed PASSWORD 'another'");
    file("another").expect("a temporary file can be written");
    all[0].rows("SELECT 'it goes on'").unwrap();
    crate::fixture::psql(&serving.url("postgres", "consort"), "RELOAD").worked();
    all.push(Client::connect(&url).unwrap());
    servers.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'typed'");
    two(first);
    let _ = fs::remove_file(users);
}
