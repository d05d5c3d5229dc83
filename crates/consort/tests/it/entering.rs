//! Access rules in the format of `pg_hba.conf`: a PostgreSQL server and Consort get the same rules, and the
//! same clients connect to both.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use local_cluster::LogIns;
use testkit::Scratch;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

use crate::access::{Certificates, KEYED, OWN, ask, demand, guarded, serve};
use crate::fixture::{Serving, configuration, eventually, free_port, psql, run, temporary};
use crate::load::{Client, Console};

const RULES: &str = r#"
# whoever
local all peered,stranger peer map=m
local sameuser all scram-sha-256
local all postgres trust
hostssl all ann 127.0.0.1/32 scram-sha-256
hostnossl all ann 127.0.0.1 255.255.255.255 reject
host "all" all all trust
host @bases ann,\
     bob 127.0.0.2/32 trust
host all "all" 127.0.0.3/32 trust
host all old 127.0.0.4/31 md5
host all ann 127.0.0.4/31 md5
host all bob 127.0.0.5/31 password
host all nobody 127.0.0.6/32 trust
hostssl all bob 127.0.0.1/32 password
host replication all all trust
host all old samehost scram-sha-256
host postgres,ann +staff 127.0.0.8/32 trust
host samerole all 127.0.0.8/32 trust
host all +"all",old 127.0.0.8/32 trust
host postgres postgres 127.0.0.0/8 trust
"#;

/// Roles and databases, with the secrets that the rules ask for.
const ROLES: &str = "CREATE ROLE ann LOGIN PASSWORD 'of ann'; CREATE ROLE bob LOGIN PASSWORD 'of bob'; \
     CREATE ROLE peered LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE staff; CREATE ROLE shop IN ROLE staff; \
     GRANT shop TO bob; ALTER ROLE peered NOINHERIT; GRANT staff TO peered; SET password_encryption = 'md5'; \
     CREATE ROLE old LOGIN PASSWORD 'of old'";

/// Origin of a connection.
#[derive(Clone, Copy, Debug)]
enum From<'a> {
    /// A Unix socket.
    Local,
    /// 127.0.0.n, in clear.
    Plain(u8),
    /// 127.0.0.1, by TLS.
    Tls,
    /// The same with the certificate in a file of this name.
    Certified(&'a Path),
}

/// A place that clients knock at.
struct At {
    sockets: PathBuf,
    port: u16,
}

impl At {
    /// Result of a client's login: its role, or the refusal.
    fn knock(&self, from: From<'_>, database: &str, role: &str, password: &str) -> Result<String, String> {
        let Self { sockets, port } = self;
        let (host, mode) = match from {
            From::Local => (sockets.display().to_string(), "disable"),
            From::Tls => ("127.0.0.1".to_owned(), "require"),
            From::Certified(_) => ("127.0.0.1".to_owned(), "require"),
            From::Plain(n) => return knock_from(n, *port, &[], database, role, password),
        };
        let mut psql = testkit::program("psql");
        psql.args(["-XAtc", "SELECT current_user"]).env("PGHOST", host).env("PGPORT", port.to_string());
        psql.env("PGSSLMODE", mode)
            .env("PGUSER", role)
            .env("PGDATABASE", database)
            .env("PGPASSWORD", password);
        if let From::Certified(file) = from {
            psql.env("PGSSLCERT", file).env("PGSSLKEY", file.with_extension("key"));
        }
        let done = run(&mut psql);
        if done.status.success() {
            return Ok(done.out.trim().to_owned());
        }
        // A client that was refused before the protocol began is a matter between the libraries.
        if done.err.contains("SSL") && !done.err.contains("FATAL:") {
            return Err("no TLS".to_owned());
        }
        Err(done.err.split_once("FATAL:").map(|(_, said)| said.trim().to_owned()).unwrap_or(done.err))
    }
}

/// A connection from this address of the loop, on which this was sent.
async fn stream_from(n: u8, port: u16, front: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, n], 0))).expect("the whole loop is this machine's");
    let mut stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.expect("it listens");
    stream.write_all(front).await.expect("a socket");
    stream
}

/// From this address of the loop, with this in front: with the SQLSTATE.
fn knock_from(
    n: u8,
    port: u16,
    front: &[u8],
    database: &str,
    role: &str,
    password: &str,
) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = stream_from(n, port, front).await;
        let mut config = Config::new();
        config.user(role).dbname(database).password(password);
        let said = |error: tokio_postgres::Error| match error.as_db_error() {
            Some(error) => format!("{} {}", error.code().code(), error.message()),
            None => error.to_string(),
        };
        let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(said)?;
        tokio::spawn(connection);
        let rows = client.simple_query("SELECT current_user").await.map_err(said)?;
        let first = rows.iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(first.expect("a row").to_owned())
    })
}

/// The console's answer to this client, with bars between the columns.
fn console_from(n: u8, port: u16, front: &[u8], sql: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = stream_from(n, port, front).await;
        let mut config = Config::new();
        config.user("postgres").dbname("consort");
        let (client, connection) = config.connect_raw(stream, NoTls).await.expect("it is let in");
        tokio::spawn(connection);
        let mut shown = String::new();
        for message in client.simple_query(sql).await.expect("an answer") {
            if let SimpleQueryMessage::Row(row) = message {
                let cells = (0..row.len()).map(|at| row.get(at).unwrap_or_default());
                shown += &cells.collect::<Vec<_>>().join("|");
                shown.push('\n');
            }
        }
        shown
    })
}

fn me() -> String {
    run(Command::new("id").arg("-un")).worked().trim().to_owned()
}

/// Writes the rules and what they name into a folder.
fn write(folder: &Path, rules: &str) {
    let map = format!("m {} peered\nm /^(.*)$ x\\1\nc carol bob\nc /^a(.*)$ p\\1\nc ann ann\n", me());
    for (name, text) in
        [("pg_hba.conf", rules), ("pg_ident.conf", &map), ("bases", "postgres\n\"shop\" # two\n")]
    {
        fs::write(folder.join(name), text).expect("a temporary file can be written");
    }
}

/// Consort by rules: its servers, its folder of rules, sockets and secrets, and where it listens.
struct Ruled {
    serving: Serving,
    folder: PathBuf,
}

impl Ruled {
    fn start(rules: &str, lines: &str) -> Self {
        let servers = Arc::new(Scratch::start(0));
        prepare(&servers);
        let folder = temporary("ruled");
        fs::create_dir(&folder).expect("a temporary folder can be made");
        write(&folder, rules);
        let stored = "SELECT rolname, rolpassword FROM pg_authid WHERE rolpassword IS NOT NULL";
        let line = |row: &Vec<Option<String>>| match row.as_slice() {
            [Some(role), Some(secret)] => format!("\"{role}\" \"{secret}\"\n"),
            _ => panic!("the columns that were asked for"),
        };
        let secrets: String = servers.query(stored).iter().map(line).collect();
        fs::write(folder.join("users.txt"), secrets).expect("a temporary file can be written");
        let named = |name: &str| format!("{:?}", folder.join(name).display().to_string());
        let (port, metrics_port) = (free_port(), free_port());
        let lines = format!(
            "auth_type = \"hba\"\nauth_hba_file = {}\nauth_ident_file = {}\nauth_file = {}\nunix_socket_dir = {}\n{lines}",
            named("pg_hba.conf"),
            named("pg_ident.conf"),
            named("users.txt"),
            named(""),
        );
        let text = configuration(&servers, port, &lines);
        Self { serving: Serving::configured(servers, port, metrics_port, &text), folder }
    }

    fn at(&self) -> At {
        At { sockets: self.folder.clone(), port: self.serving.port }
    }
}

impl Drop for Ruled {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn prepare(servers: &Scratch) {
    servers.query(ROLES);
    for database in ["shop", "ann", "all"] {
        servers.query(&format!("CREATE DATABASE \"{database}\""));
    }
}

#[test]
fn the_same_rules_let_the_same_clients_in() {
    let made = Certificates::make();
    let oracle = Scratch::with(local_cluster::Options { log_ins: LogIns::Loopback, ..Scratch::options() });
    prepare(&oracle);
    made.give_to(&oracle);
    write(&oracle.primary().data_folder(), RULES);
    oracle.query("SELECT pg_reload_conf()");
    let oracle_at =
        At { sockets: oracle.primary().socket_folder().to_owned(), port: oracle.primary().port() };
    let refused =
        "28000 no pg_hba.conf entry for host \"127.0.0.9\", user \"ann\", database \"shop\", no encryption";
    eventually("the rules at the server", || {
        oracle_at.knock(From::Plain(9), "shop", "ann", "") == Err(refused.to_owned())
            && oracle_at.knock(From::Tls, "shop", "ann", "of ann").is_ok()
    });

    let tls = format!(
        "tls_certificate = \"{}\"\ntls_key = \"{}\"",
        made.file("certificate.pem"),
        made.file("key.pem")
    );
    let ruled = Ruled::start(RULES, &tls);
    let mut let_in = 0;
    let froms = [From::Local, From::Tls].into_iter().chain((1..=8).map(From::Plain));
    for from in froms {
        for database in ["postgres", "shop", "ann", "all", "nowhere"] {
            for role in ["postgres", "ann", "bob", "old", "peered", "stranger", "nobody", "all"] {
                let passwords = [format!("of {role}"), "wrong".to_owned()];
                for password in &passwords[..if database == "shop" { 2 } else { 1 }] {
                    let knock = |at: &At| at.knock(from, database, role, password);
                    let (wanted, found) = (knock(&oracle_at), knock(&ruled.at()));
                    assert_eq!(found, wanted, "{from:?} {database} {role} {password}");
                    let_in += usize::from(found.is_ok());
                }
            }
        }
    }
    assert!(let_in > 60, "the rules let in {let_in}");
}

#[test]
fn rules_are_read_again_and_bad_ones_leave_the_old() {
    let ruled = Ruled::start("host all postgres all trust\n", "");
    let (url, file) = (ruled.serving.url("postgres", "postgres"), ruled.folder.join("pg_hba.conf"));
    let console = ruled.serving.url("postgres", "consort");
    assert_eq!(psql(&url, "SELECT 1").worked(), "1\n");
    fs::write(&file, "host all postgres all trust\nhost all all db.example.com trust\n").unwrap();
    let said = psql(&console, "RELOAD").failed(1);
    assert!(
        said.contains(&format!("{}:2: \"db.example.com\" is not an IP address", file.display())),
        "{said}"
    );
    assert_eq!(psql(&url, "SELECT 1").worked(), "1\n");
    fs::write(&file, "host consort postgres all trust\nhost all postgres all reject\n").unwrap();
    psql(&console, "RELOAD").worked();
    let said = psql(&url, "SELECT 1").failed(2);
    let wanted = "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"postgres\", database \"postgres\", no encryption";
    assert!(said.contains(wanted), "{said}");
    let said = psql(&console, "SET auth_hba_file = ''").failed(1);
    assert!(said.contains("auth_type = \"hba\" must be set together"), "{said}");
    assert!(psql(&url, "SELECT 1").failed(2).contains("pg_hba.conf rejects"), "the rules stay");
    fs::write(&file, "host all postgres 10.0.0.0/8 trust\n").unwrap();
    psql(&console, "RELOAD").worked();
    let said = psql(&console, "SHOW CONFIG").failed(2);
    assert!(said.contains("no pg_hba.conf entry for host \"127.0.0.1\""), "{said}");
    let said = ruled.serving.run("status", &[]).failed(1);
    assert!(said.contains("Consort rejected the log-in of postgres: no pg_hba.conf entry"), "{said}");
    fs::write(&file, "host all postgres all\n").unwrap();
    let config = ruled.serving.config_file().to_str().unwrap();
    let refused = crate::fixture::consort(&["serve", "--config", config]).failed(1);
    assert!(
        refused.contains("pg_hba.conf:1: end-of-line before authentication method specification"),
        "{refused}"
    );
    let checked = crate::fixture::consort(&["check", "--config", config]).failed(1);
    assert!(checked.contains("pg_hba.conf:1: end-of-line"), "{checked}");
}

#[test]
fn longer_names_are_those_that_a_server_has() {
    let (name, longer) = ("n".repeat(63), "n".repeat(70));
    let ruled = Ruled::start(&format!("host {name} {name} all trust\n"), "");
    ruled.serving.servers.query(&format!("CREATE ROLE {name} LOGIN"));
    ruled.serving.servers.query(&format!("CREATE DATABASE {name}"));
    let knock = |database: &str, role: &str| ruled.at().knock(From::Plain(1), database, role, "");
    assert_eq!(knock(&name, &name), Ok(name.clone()));
    assert_eq!(knock(&longer, &longer), Ok(name.clone()));
    assert!(knock(&longer[..62], &longer).is_err_and(|said| said.contains("no pg_hba.conf entry")));
}

#[test]
fn nothing_is_encrypted_through_a_unix_socket() {
    let made = Certificates::make();
    let (chain, key) = (made.file("certificate.pem"), made.file("key.pem"));
    let tls = format!("tls_certificate = \"{chain}\"\ntls_key = \"{key}\"");
    let ruled = Ruled::start("local all all trust\n", &tls);
    let request = [0, 0, 0, 8, 4, 210, 22, 47];
    let at = ruled.at();
    let mut answers = [0; 2];
    let mut local = UnixStream::connect(at.sockets.join(format!(".s.PGSQL.{}", at.port))).unwrap();
    local.write_all(&request).unwrap();
    local.read_exact(&mut answers[..1]).unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", at.port)).unwrap();
    stream.write_all(&request).unwrap();
    stream.read_exact(&mut answers[1..]).unwrap();
    assert_eq!(answers, *b"NS");
}

/// To prove a password by a SCRAM key may take a tenth of a second: others are served meanwhile.
#[test]
fn passwords_that_take_long_to_prove_keep_nobody_waiting() {
    let ruled = Ruled::start("host all ann all password\nhost all postgres all trust\n", "");
    let zeros = format!("{}=", "A".repeat(43));
    let key = format!("\"ann\" \"SCRAM-SHA-256$100000:c2FsdA==${zeros}:{zeros}\"\n");
    fs::write(ruled.folder.join("users.txt"), key).unwrap();
    psql(&ruled.serving.url("postgres", "consort"), "RELOAD").worked();
    let mut other = Client::connect(&ruled.serving.url("postgres", "postgres")).unwrap();
    other.rows("SELECT 1").unwrap();
    let packet = [&[0, 0, 0, 32, 0, 3, 0, 0][..], b"user\0ann\0database\0shop\0\0"].concat();
    let mut proving = [(); 16].map(|()| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", ruled.serving.port)).unwrap();
        stream.write_all(&packet).unwrap();
        let mut asked = [0; 9];
        stream.read_exact(&mut asked).unwrap();
        assert_eq!(asked, [b'R', 0, 0, 0, 8, 0, 0, 0, 3], "a password in clear");
        stream
    });
    for stream in &mut proving {
        stream.write_all(b"p\0\0\0\x0awrong\0").unwrap();
    }
    for _ in 0..5 {
        other.rows("SELECT 1").unwrap();
    }
    let still = proving.iter().any(|stream| {
        stream.set_nonblocking(true).unwrap();
        let answered = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        answered.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    });
    assert!(still, "all are proven before anybody else is served");
    for mut stream in proving {
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.contains("password authentication failed for user \"ann\""), "{said}");
    }
}

/// Logs in as the role with this password; the error if it is refused.
fn comes_in(serving: &Serving, role: &str, password: &str) -> Result<(), String> {
    let done = ask(serving, role, password, &[], "SELECT v FROM goods WHERE id = 1");
    if done.status.success() {
        assert_eq!(done.out, "lamp\n");
        return Ok(());
    }
    Err(done.err.split_once("FATAL:").map(|(_, said)| said.trim().to_owned()).unwrap_or(done.err))
}

fn wrong(role: &str) -> Result<(), String> {
    Err(format!("password authentication failed for user \"{role}\""))
}

#[test]
fn roles_without_a_line_are_asked_for_at_the_primary() {
    let servers = guarded(1);
    for sql in [
        "CREATE ROLE asker LOGIN PASSWORD 'of asker'",
        "CREATE FUNCTION secret_of(name) RETURNS TABLE (r name, s text) LANGUAGE sql SECURITY DEFINER AS \
         'SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1'",
        "CREATE ROLE late LOGIN PASSWORD 'late' VALID UNTIL '2020-01-01'; CREATE ROLE bare LOGIN",
    ] {
        servers.query(sql);
    }
    demand(&servers, "host all all all scram-sha-256\n");
    let users = temporary("users").with_extension("txt");
    fs::write(&users, format!("\"postgres\" \"{OWN}\"\n\"asker\" \"of asker\"\n")).unwrap();
    let lines = format!(
        "auth_file = \"{}\"\nauth_user = \"asker\"\nauth_query = \"SELECT * FROM secret_of($1)\"\nattach_on_first_use = true",
        users.display()
    );
    let serving = serve(&servers, "localhost", &lines);
    assert_eq!(comes_in(&serving, "keyed", "wrong"), wrong("keyed"));
    assert_eq!(comes_in(&serving, "nobody", "wrong"), wrong("nobody"));
    assert_eq!(comes_in(&serving, "bare", "wrong"), wrong("bare"));
    let url = format!("postgres://postgres:{OWN}@127.0.0.1:{}/consort", serving.port);
    let mut console = Console::connect(&url);
    eventually("a read at the standby, by the keys of the log-in", || {
        let before = console.node("standby1").served;
        assert_eq!(comes_in(&serving, "keyed", KEYED), Ok(()));
        console.node("standby1").served > before
    });
    // A change at the primary holds at once.
    servers.query("ALTER ROLE keyed PASSWORD 'another'");
    assert_eq!(comes_in(&serving, "keyed", KEYED), wrong("keyed"));
    assert_eq!(comes_in(&serving, "keyed", "another"), Ok(()));
    servers.query("ALTER ROLE bare PASSWORD 'no more'; GRANT SELECT ON goods TO bare");
    assert_eq!(comes_in(&serving, "bare", "no more"), Ok(()));
    // A lost connection is opened again.
    servers.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'asker'");
    eventually("the next connection", || comes_in(&serving, "bare", "no more") == Ok(()));

    // A role for PgBouncer's own query must be a superuser, and an expired role cannot log in.
    let text = fs::read_to_string(serving.config_file()).unwrap();
    let by_default: String =
        text.lines().filter(|l| !l.starts_with("auth_query")).map(|l| format!("{l}\n")).collect();
    fs::write(serving.config_file(), &by_default).unwrap();
    serving.signal("HUP");
    let unknown = "cannot look up the secret of role \"bare\" at the primary";
    eventually("the other query", || {
        comes_in(&serving, "bare", "no more").is_err_and(|said| said.starts_with(unknown))
    });
    let config = serving.config_file().to_str().unwrap();
    let checked = crate::fixture::consort(&["check", "--config", config]).failed_saying(1);
    assert!(checked.contains("auth_user: missing: auth_query by asker@"), "{checked}");
    servers.query("ALTER ROLE asker SUPERUSER");
    let checked = crate::fixture::consort(&["check", "--config", config]);
    assert!(checked.out.contains("auth_user: ok"), "{checked:?}");
    assert_eq!(comes_in(&serving, "bare", "no more"), Ok(()));
    assert_eq!(comes_in(&serving, "late", "late"), wrong("late"));
    fs::remove_file(users).unwrap();
}

#[test]
fn certificates_of_clients_count_as_at_a_server() {
    const CERTIFIED: &str = "local all postgres trust\n\
         hostssl postgres all 127.0.0.1/32 cert\n\
         hostssl shop all 127.0.0.1/32 cert map=c\n\
         hostssl ann all 127.0.0.1/32 scram-sha-256 clientcert=verify-full\n\
         hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n\
         hostnossl all all 127.0.0.1/32 trust\n";
    let made = Certificates::make();
    for (name, by) in [("ann", "ca"), ("carol", "ca"), ("bob", "other")] {
        made.for_client(name, by);
    }
    let oracle = Scratch::with(local_cluster::Options { log_ins: LogIns::Loopback, ..Scratch::options() });
    prepare(&oracle);
    made.give_to(&oracle);
    oracle.primary().set("ssl_ca_file", "root.crt").unwrap();
    write(&oracle.primary().data_folder(), CERTIFIED);
    oracle.query("SELECT pg_reload_conf()");
    let oracle_at =
        At { sockets: oracle.primary().socket_folder().to_owned(), port: oracle.primary().port() };
    let files = ["ann.pem", "carol.pem", "bob.pem"].map(|name| PathBuf::from(made.file(name)));
    eventually("the rules at the server", || {
        oracle_at.knock(From::Certified(&files[0]), "postgres", "ann", "") == Ok("ann".to_owned())
    });
    let lines = format!(
        "tls_certificate = \"{}\"\ntls_key = \"{}\"\nclient_tls_ca = \"{}\"",
        made.file("certificate.pem"),
        made.file("key.pem"),
        made.file("ca.pem")
    );
    let ruled = Ruled::start(CERTIFIED, &lines);
    let mut let_in = 0;
    let froms = files.iter().map(|file| From::Certified(file)).chain([From::Tls, From::Plain(1)]);
    for from in froms {
        for database in ["postgres", "shop", "ann", "all"] {
            for role in ["ann", "bob"] {
                let knock = |at: &At| at.knock(from, database, role, &format!("of {role}"));
                let (wanted, found) = (knock(&oracle_at), knock(&ruled.at()));
                assert_eq!(found, wanted, "{from:?} {database} {role}");
                let_in += usize::from(found.is_ok() && !matches!(from, From::Plain(_)));
            }
        }
    }
    assert_eq!(let_in, 8, "by certificates");
    // The authority of clients' certificates may change, too.
    fs::copy(made.file("other.pem"), made.file("ca.pem")).unwrap();
    ruled.serving.signal("HUP");
    eventually("the other signer", || {
        ruled.at().knock(From::Certified(&files[2]), "postgres", "bob", "").is_ok()
    });
    assert_eq!(ruled.at().knock(From::Certified(&files[0]), "postgres", "ann", ""), Err("no TLS".to_owned()));
    // Rules that want certificates are nothing without it.
    let config = ruled.serving.config_file();
    let text = fs::read_to_string(config).unwrap();
    fs::write(
        config,
        text.lines()
            .filter(|line| !line.starts_with("client_tls_ca"))
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
    let refused = crate::fixture::consort(&["serve", "--config", config.to_str().unwrap()]).failed(1);
    assert!(
        refused.contains("pg_hba.conf:2: client certificate authentication needs client_tls_ca"),
        "{refused}"
    );
}

/// A header of the PROXY protocol, version 2: the command (0: for itself), the family and the addresses.
fn header(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x20 | command, family]);
    // And an extension that no part here uses: PP2_TYPE_NOOP.
    let rest = [addresses, &[4, 0, 1, 0]].concat();
    header.extend(u16::try_from(rest.len()).expect("it is short").to_be_bytes());
    [header, rest].concat()
}

#[test]
fn a_balancer_says_who_its_clients_are() {
    let rules = "host all postgres 203.0.113.7/32 trust\n\
                 host all postgres 2001:db8::/32 trust\n\
                 host all postgres 127.0.0.1/32 trust\n";
    let ruled = Ruled::start(rules, "proxy_protocol_from = [\"127.0.0.5\", \"127.0.1.0/24\"]");
    let port = ruled.serving.port;
    let knock = |n: u8, front: &[u8]| knock_from(n, port, front, "postgres", "postgres", "");
    let (client, stranger) =
        (b"\xcb\0\x71\x07\x7f\0\0\x01\x12\x34\x15\x38", b"\xcb\0\x71\x08\x7f\0\0\x01\x12\x34\x15\x38");
    let mut six = [0; 36];
    six[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    let in_ = || Ok("postgres".to_owned());
    let no_rule = |host: &str| {
        Err(format!(
            "28000 no pg_hba.conf entry for host \"{host}\", user \"postgres\", database \"postgres\", no encryption"
        ))
    };
    assert_eq!(knock(5, b"PROXY TCP4 203.0.113.7 127.0.0.1 4660 5432\r\n"), in_());
    assert_eq!(knock(5, b"PROXY TCP6 2001:db8::1 ::1 4660 5432\r\n"), in_());
    assert_eq!(knock(5, &header(1, 0x11, client)), in_());
    assert_eq!(knock(5, &header(1, 0x21, &six)), in_());
    assert_eq!(knock(5, b"PROXY TCP4 203.0.113.8 127.0.0.1 4660 5432\r\n"), no_rule("203.0.113.8"));
    assert_eq!(knock(5, &header(1, 0x11, stranger)), no_rule("203.0.113.8"));
    // A connection of its own is the balancer's.
    assert_eq!(knock(5, b"PROXY UNKNOWN\r\n"), no_rule("127.0.0.5"));
    assert_eq!(knock(5, &header(0, 0x11, client)), no_rule("127.0.0.5"));
    // So is a client without an address that counts: further claims of the header are ignored.
    assert_eq!(knock(5, b"PROXY UNKNOWN 203.0.113.7 127.0.0.1 4660 5432\r\n"), no_rule("127.0.0.5"));
    assert_eq!(knock(5, &header(1, 0x00, client)), no_rule("127.0.0.5"));
    assert_eq!(knock(5, &header(1, 0x31, &[0; 216])), no_rule("127.0.0.5"));
    // From it a header must come, whole and right; from others none is taken.
    let expected =
        Err("08P01 missing PROXY protocol header from a proxy address (proxy_protocol_from)".to_owned());
    for front in ["", "PROXY TCP4 203.0.113.7 x 1 2\r\n", &format!("PROXY {}", "x".repeat(200))] {
        assert_eq!(knock(5, front.as_bytes()), expected, "{front}");
    }
    assert_eq!(knock(5, &[&b"\r\n\r\n\0\r\nQUIT\n\x21\x11"[..], &[0xff; 64]].concat()), expected);
    assert_eq!(knock(1, b""), in_());
    assert!(
        knock(1, b"PROXY TCP4 203.0.113.7 127.0.0.1 4660 5432\r\n")
            .is_err_and(|said| said.starts_with("08P01"))
    );
    // The client is known by its own address and port.
    let url = ruled.serving.url("postgres", "consort");
    let clients = "PROXY TCP4 203.0.113.7 127.0.0.1 4660 5432\r\n";
    let shown = console_from(5, port, clients.as_bytes(), "SHOW CLIENTS");
    assert!(shown.contains("203.0.113.7|4660"), "{shown}");
    let config = ruled.serving.config_file();
    let text = fs::read_to_string(config).unwrap().replace("\"127.0.0.5\", ", "");
    fs::write(config, text).unwrap();
    psql(&url, "RELOAD").worked();
    assert_eq!(knock(5, b""), no_rule("127.0.0.5"));
}

#[test]
fn one_address_that_logs_in_nowhere_keeps_nobody_else_out() {
    let ruled = Ruled::start("host all postgres all trust\n", "max_half_open_per_address = 2");
    let port = ruled.serving.port;
    let knock = |n: u8| knock_from(n, port, &[], "postgres", "postgres", "");
    let silent = [(); 2].map(|()| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    assert!(knock(1).is_err());
    assert!(knock(2).is_ok());
    drop(silent);
    eventually("room", || knock(1).is_ok());
    // A client that has logged in does not count.
    let url = ruled.serving.url("postgres", "postgres");
    let clients = [(); 4].map(|()| Client::connect(&url).unwrap());
    assert!(knock(1).is_ok());
    drop(clients);
}

#[test]
fn so_many_clients_of_one_address_are_let_in() {
    let rules = "local all postgres trust\nhost all postgres all trust\n";
    let ruled = Ruled::start(rules, "max_clients_per_address = 2\nproxy_protocol_from = [\"127.0.0.5\"]");
    let port = ruled.serving.port;
    let knock = |n: u8, front: &[u8]| knock_from(n, port, front, "postgres", "postgres", "");
    let url = ruled.serving.url("postgres", "postgres");
    let [stays, leaves] = [(); 2].map(|()| Client::connect(&url).unwrap());
    let refused = Err("53300 client connections exceeded (max_clients_per_address)".to_owned());
    assert_eq!(knock(1, b""), refused);
    let said = psql(&url, "SELECT 1").failed(2);
    assert!(said.contains("The limit is 2. Increase max_clients_per_address"), "{said}");
    assert!(knock(2, b"").is_ok(), "another address");
    // Behind a balancer the client's own counts.
    assert_eq!(knock(5, b"PROXY TCP4 127.0.0.1 127.0.0.1 4660 5432\r\n"), refused);
    assert!(knock(5, b"PROXY TCP4 203.0.113.7 127.0.0.1 4660 5432\r\n").is_ok());
    let local = format!("host={} port={port} user=postgres dbname=postgres", ruled.folder.display());
    let locals = [(); 3].map(|()| Client::connect(&local).unwrap());
    // The console does not count, and lets in who comes from there.
    let mut console = Console::connect(&ruled.serving.url("postgres", "consort"));
    console.rows("SET max_clients_per_address = 3");
    assert!(knock(1, b"").is_ok());
    console.rows("SET max_clients_per_address = 2");
    drop(leaves);
    eventually("room", || knock(1, b"").is_ok());
    drop((stays, locals));
}
