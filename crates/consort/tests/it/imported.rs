//! `consort import`: files of PgBouncer, PgCat and PgDog become configurations that serve, and settings
//! without an equivalent are reported.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use testkit::Scratch;

use crate::fixture::{Done, Serving, consort, eventually, free_port, psql, run, temporary};

/// PgBouncer as Debian has it.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

/// A folder for files of other products, which goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = temporary("imported");
        fs::create_dir(&folder).expect("a temporary folder can be made");
        Self(folder)
    }

    /// Writes a file that all users may read: PgBouncer runs as another user where the test is root.
    fn file(&self, name: &str, text: &str) -> String {
        let file = self.0.join(name);
        fs::write(&file, text).expect("a temporary file can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
        file.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("the file is there")
    }

    /// Writes a file and imports it, to standard output.
    fn import(&self, name: &str, text: &str) -> Done {
        consort(&["import", &self.file(name, text)])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// PgBouncer, running with this file.
struct PgBouncer(Child);

impl PgBouncer {
    /// PgBouncer refuses to run as root: then it runs as `postgres`, the user of Debian's packages.
    fn start(ini: &str) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if run(Command::new("id").arg("-u")).worked() == "0\n" {
            command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
        }
        command.args(["--", PGBOUNCER, "-q", ini]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("setpriv runs"))
    }

    fn end(mut self) {
        run(Command::new("kill").arg(self.0.id().to_string())).worked();
        self.0.wait().expect("it is our child");
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each line `key = value` of a file is reported: in the configuration, after the value that it became, or on
/// standard error. The keys in `otherwise` make servers and roles, which do not show line by line.
fn all_is_told(name: &str, text: &str, done: &Done, otherwise: &[&str]) {
    assert!(done.status.success(), "{done:?}");
    assert!(!done.err.contains("unknown to `consort import`"), "{}", done.err);
    let told = format!("{}\n{}", done.out, done.err);
    for (at, line) in text.lines().enumerate() {
        let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';', '['])) else {
            continue;
        };
        let key = key.trim();
        let is_told = told.contains(&format!("{name}:{}: ", at + 1));
        assert!(is_told || otherwise.contains(&key), "{}: {line}: nothing is said of it in\n{told}", at + 1);
    }
}

/// A server with a database and a role with a password, and an ini in front of it.
fn bouncing(folder: &Folder, servers: &Scratch, port: u16) -> String {
    for sql in ["CREATE ROLE app LOGIN PASSWORD 'it''s \"so\"'", "CREATE DATABASE shop OWNER app"] {
        servers.query(sql);
    }
    let primary = servers.primary();
    primary
        .query("shop", "CREATE TABLE goods AS SELECT 'lamp'::text AS v; GRANT SELECT ON goods TO app")
        .expect("it works");
    let users = folder.file("userlist.txt", "\"app\" \"it's \"\"so\"\"\"\n");
    let more = format!(
        "listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = scram-sha-256\nauth_file = {users}\n\
         unix_socket_dir =\nadmin_users = app\npool_mode = transaction\nmax_client_conn = 50\n\
         query_wait_timeout = 1.5\nserver_idle_timeout = 0\n"
    );
    let more = folder.file("more.ini", &more);
    let (host, at) = (primary.socket_folder().display().to_string(), primary.port());
    let text = format!(
        ";; with a connection string, and the rest in another file\n[databases]\nshop = host='{host}' port = {at} pool_size=5\n\
         [pgbouncer]\n%include {more}\n"
    );
    folder.file("pgbouncer.ini", &text)
}

#[test]
fn what_pgbouncer_served_is_served_by_what_its_file_became() {
    let (folder, port) = (Folder::new(), free_port());
    let servers = Arc::new(Scratch::start(0));
    let ini = bouncing(&folder, &servers, port);
    let url = |database: &str| format!("postgres://app:it%27s%20%22so%22@127.0.0.1:{port}/{database}");
    let bouncer = PgBouncer::start(&ini);
    eventually("a client of PgBouncer", || psql(&url("shop"), "SELECT v FROM goods").out == "lamp\n");
    let settings = psql(&url("pgbouncer"), "SHOW CONFIG").worked();
    bouncer.end();

    let toml = folder.path("consort.toml");
    let done = consort(&["import", &ini, "--output", &toml]);
    assert!(done.status.success() && done.out.is_empty(), "{done:?}");
    let text = folder.read("consort.toml");
    let told = [
        text.contains("pgbouncer.ini:3: pool_size"),
        done.err.contains("pgbouncer.ini:3: databases.shop.pool_size"),
    ];
    assert_eq!(told.iter().filter(|told| **told).count(), 1, "it is carried or it is not: {}", done.err);
    for line in [
        &format!("listen = [\"127.0.0.1:{port}\"]  # "),
        "max_clients = 50  # ",
        "query_wait_timeout = \"1500ms\"  # ",
        "server_idle_timeout = \"0s\"  # ",
        "databases = [\"shop\"]\n",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }

    // The same client, at the same address, and the same console.
    let _serving = Serving::configured(servers, port, 0, &text);
    assert_eq!(psql(&url("shop"), "SELECT v FROM goods").worked(), "lamp\n");
    assert!(psql(&url("pgbouncer"), "SHOW POOLS").worked().contains("shop|app|"));
    assert!(
        psql(&format!("postgres://app:wrong@127.0.0.1:{port}/shop"), "SELECT 1")
            .failed(2)
            .contains("password")
    );

    // Every setting of this PgBouncer has a result.
    let keys: Vec<&str> = settings.lines().filter_map(|line| line.split('|').next()).collect();
    assert!(keys.len() > 70, "{keys:?}");
    let lines = settings.lines().filter_map(|line| {
        let mut fields = line.split('|');
        Some(format!("{} = {}\n", fields.next()?, fields.next()?))
    });
    let whole = format!("[databases]\nshop = host=localhost\n[pgbouncer]\n{}", lines.collect::<String>());
    all_is_told("whole.ini", &whole, &folder.import("whole.ini", &whole), &[]);
}

/// The keys of PgCat's own example, with values of ours.
const PGCAT: &str = r#"[general]
host = "127.0.0.1"
port = 6543
enable_prometheus_exporter = true
prometheus_exporter_port = 9931
connect_timeout = 4000
idle_timeout = 20000
idle_client_in_transaction_timeout = 0
healthcheck_timeout = 900
healthcheck_delay = 10000
shutdown_timeout = 45500
ban_time = 30
log_client_connections = false
log_client_disconnections = false
autoreload = 15000
worker_threads = 3
tcp_keepalives_idle = 4
tcp_keepalives_count = 4
tcp_keepalives_interval = 4
tls_certificate = "/etc/proxy/chain.pem"
tls_private_key = "/etc/proxy/key.pem"
admin_username = "boss"
admin_password = "wh\"istle"

[pools.shop]
pool_mode = "session"
load_balancing_mode = "loc"
default_role = "any"
query_parser_enabled = true
primary_reads_enabled = true
sharding_key_regex = '/\* key: (\d+) \*/'
shard_id_regex = '/\* shard: (\d+) \*/'
regex_search_limit = 1000
sharding_function = "sha1"
automatic_sharding_key = "goods.id"
idle_timeout = 30000
connect_timeout = 2000

[pools.shop.users.0]
username = "app"
password = "secret"
pool_size = 7
statement_timeout = 15000

[pools.shop.shards.0]
servers = [["10.0.0.1", 5432, "primary"], ["10.0.0.2", 5433, "replica"]]
mirrors = [["10.0.9.9", 5432, 0]]
database = "goods"

[pools.shop.shards.1]
servers = [["10.0.1.1", 5432, "primary"]]
database = "goods1"
"#;

#[test]
fn pgcats_file_becomes_ours_and_each_of_its_settings_is_told_of() {
    let folder = Folder::new();
    let done = folder.import("pgcat.toml", PGCAT);
    // Servers show by their table, roles in users.txt.
    all_is_told(
        "pgcat.toml",
        PGCAT,
        &done,
        &["servers", "database", "username", "password", "admin_password"],
    );
    for line in [
        "listen = [\"127.0.0.1:6543\"]  # ",
        "metrics_listen = \"127.0.0.1:9931\"  # ",
        "shutdown_drain_timeout = \"45500ms\"  # ",
        "pool_mode = \"session\"  # ",
        "pool_size = 7  # ",
        "tls_key = \"/etc/proxy/key.pem\"  # ",
        "admin_users = [\"boss\"]  # ",
        "databases = [\"goods\"]\n",
        "host = \"10.0.0.1\"\nport = 5432\n",
        "host = \"10.0.0.2\"\nport = 5433\n",
    ] {
        assert!(done.out.contains(line), "{line} is missing in\n{}", done.out);
    }
    for line in [
        "pgcat.toml:43: users.app.statement_timeout = 15000: not carried: ALTER ROLE",
        "pgcat.toml:46: not carried: shop is an alias of goods there",
        "pgcat.toml:47: shards.shop.mirrors = 10.0.9.9,5432,0: not carried: ",
        "pgcat.toml:51: not carried: goods1 at 10.0.1.1:5432 is another shard of shop",
    ] {
        assert!(done.err.contains(line), "{line} is missing in\n{}", done.err);
    }
    assert!(!(done.out + &done.err).contains("istle"), "no password is shown");

    // Roles and their secrets are in a file of their own, which no other user may read.
    let toml = folder.path("consort.toml");
    consort(&["import", &folder.path("pgcat.toml"), "--output", &toml]).worked();
    let users = folder.read("users.txt");
    assert!(
        users.contains("\"app\" \"secret\"\n") && users.contains("\"boss\" \"wh\"\"istle\"\n"),
        "{users}"
    );
    let mode = fs::metadata(folder.0.join("users.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let checked = consort(&["status", "--config", &toml]).failed(3);
    assert!(checked.contains("127.0.0.1:6543"), "the configuration is read: {checked}");

    // An existing file is not replaced.
    fs::remove_file(&toml).unwrap();
    let again = consort(&["import", &folder.path("pgcat.toml"), "--output", &toml]).failed(1);
    assert!(again.contains("users.txt already exists"), "{again}");
    assert!(!Path::new(&toml).exists());
}

/// The keys of PgDog's own example, with values of ours.
const PGDOG: &str = r#"[general]
host = "0.0.0.0"
port = 6433
workers = 4
default_pool_size = 12
min_pool_size = 2
pooler_mode = "transaction"
healthcheck_interval = 10_000
idle_healthcheck_interval = 10_000
idle_healthcheck_delay = 1_000
healthcheck_timeout = 2_000
ban_timeout = 60_000
rollback_timeout = 1_000
load_balancing_strategy = "round_robin"
read_write_strategy = "aggressive"
tls_certificate = "/etc/proxy/chain.pem"
tls_private_key = "/etc/proxy/key.pem"
tls_client_required = true
tls_verify = "verify_full"
tls_server_ca_certificate = "/etc/proxy/roots.pem"
shutdown_timeout = 30_000
shutdown_termination_timeout = 40_000
openmetrics_port = 9091
openmetrics_namespace = "dog_"
prepared_statements = "extended"
query_parser_enabled = true
prepared_statements_limit = 500
query_cache_limit = 500
passthrough_auth = "enabled"
connect_timeout = 3_000
connect_attempts = 2
connect_attempt_delay = 100
query_timeout = 30_000
checkout_timeout = 2_500
dry_run = false
idle_timeout = 90_000
client_idle_timeout = 600_000
mirror_queue = 64
auth_type = "scram"
auth_rate_limit = 10
cross_shard_disabled = false
dns_ttl = 1_000

[admin]
name = "kennel"
user = "boss"
password = "whistle"

[[databases]]
name = "shop"
host = "10.0.0.1"
port = 5433
role = "primary"

[[databases]]
name = "shop"
host = "10.0.0.2"
role = "replica"
read_only = true
pool_size = 100

[[databases]]
name = "shop"
host = "10.0.1.1"
role = "primary"
shard = 1
database_name = "shop_1"

[rewrite]
enabled = false
shard_key = "ignore"
split_inserts = "rewrite"

[tcp]
retries = 5
time = 2000
interval = 2000
user_timeout = 2000
connect_retries = 2
congestion_control = "cubic"

[[sharded_tables]]
database = "shop"
name = "goods"
column = "id"
data_type = "bigint"
primary = true

[[sharded_mappings]]
database = "shop"
table = "goods"
column = "id"
kind = "list"
values = [1, 2]
shard = 0

[[manual_queries]]
fingerprint = "0123456789abcdef"

[multi_tenant]
column = "tenant"

[[mirroring]]
source_db = "shop"
destination_db = "trial"
queue_length = 64
exposure = 0.5
"#;

#[test]
fn pgdogs_files_become_ours_and_each_of_their_settings_is_told_of() {
    let folder = Folder::new();
    let users = "[[users]]\nname = \"app\"\ndatabase = \"shop\"\npassword = \"bone\"\nserver_auth = \"rds_iam\"\n\
                 client_idle_timeout = 0\n\n[[users]]\nname = \"app\"\ndatabase = \"other\"\npassword = \"stick\"\n";
    folder.file("users.toml", users);
    let done = folder.import("pgdog.toml", PGDOG);
    let places = ["name", "host", "port", "role", "shard", "database_name", "password"];
    all_is_told("pgdog.toml", PGDOG, &done, &places);
    all_is_told("users.toml", users, &done, &places);
    for line in [
        "listen = [\"0.0.0.0:6433\"]  # ",
        "default_pool_size = 12  # ",
        "pool_mode = \"transaction\"  # ",
        "query_wait_timeout = \"2500ms\"  # ",
        "server_tls = \"verify-full\"  # ",
        "tls_required = true  # ",
        "auth_type = \"scram-sha-256\"  # ",
        "console_database = \"kennel\"  # ",
        "max_clients = 1000  # ",
        "host = \"10.0.0.1\"\nport = 5433\n",
        "host = \"10.0.0.2\"\nport = 5432\n",
    ] {
        assert!(done.out.contains(line), "{line} is missing in\n{}", done.out);
    }
    for line in [
        "pgdog.toml:60: databases.shop.pool_size = 100: not carried: is of a replica",
        "pgdog.toml:62: not carried: shop_1 at 10.0.1.1:5432 is another shard of shop",
        "pgdog.toml:29: general.passthrough_auth = enabled: not carried: add the roles to auth_file",
        "users.toml:5: users.app.server_auth = rds_iam: not carried: ",
        "note: app has a different password elsewhere",
    ] {
        assert!(done.err.contains(line), "{line} is missing in\n{}", done.err);
    }
    let said = done.out + &done.err;
    assert!(
        !["bone", "stick", "whistle"].iter().any(|password| said.contains(password)),
        "no password is shown"
    );
}

#[test]
fn what_pgbouncer_can_and_consort_cannot_is_said_and_what_to_do() {
    let folder = Folder::new();
    let key = "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy";
    let users = format!("\"app\" \"{key}\"\n\"old\" \"md5{}\"\n", "0".repeat(32));
    let users = folder.file("userlist.txt", &users);
    let text = format!(
        "[databases]\nshop = host=10.0.0.1,10.0.0.2 user=one password='hush hush' connect_query='SELECT 1'\nstore = host=10.0.0.1,10.0.0.2 dbname=shop pool_size=4\n\
         reports = host=10.0.0.3 dbname=shop pool_size=3\n[users]\nguest = pool_mode=statement\n[pgbouncer]\nlisten_addr = *\nauth_file = {users}\n\
         pool_mode = statement\nmax_client_conn = 200000\nserver_tls_sslmode = sometimes\nclient_tls_sslmode = require\nclient_tls_cert_file = /c\nno_such = 1\n\
         max_client_conn = 40\nserver_lifetime = soon\n"
    );
    let done = folder.import("p.ini", &text);
    assert!(done.status.success(), "{done:?}");
    for line in [
        "p.ini:2: note: 10.0.0.1 becomes the primary; add a [[standby]] each for 10.0.0.2",
        "p.ini:2: databases.shop.user = one: not carried: Consort logs in at the servers as the client's role",
        "p.ini:2: databases.shop.password: not carried: ",
        "p.ini:2: databases.shop.connect_query = SELECT 1: not carried: ",
        "p.ini:3: not carried: store is an alias of shop there",
        "p.ini:3: databases.store.pool_size = 4: not carried: shop has its own entry",
        "p.ini:4: not carried: reports is at another server, 10.0.0.3:5432",
        "p.ini:8: note: * becomes 0.0.0.0; add \"[::]:6432\"",
        "p.ini:11: note: pgbouncer.max_client_conn is set again in ",
        "p.ini:12: pgbouncer.server_tls_sslmode = sometimes: not carried: server_tls: expected \"disable\" or \"prefer\"",
        "p.ini:15: pgbouncer.no_such = 1: not carried: unknown to `consort import`",
        "p.ini:17: pgbouncer.server_lifetime = soon: not carried: soon is not a number of seconds",
        // Without its key the certificate is of no use, and without that no client can be asked for TLS.
        "tls_certificate and tls_key must be set together",
        "tls_required needs tls_certificate and tls_key",
    ] {
        assert!(done.err.contains(line), "{line} is missing in\n{}", done.err);
    }
    assert!(
        ["max_clients = 40  # ", "auth_type = \"md5\"  # ", "pool_mode = \"statement\"  # "]
            .iter()
            .all(|line| done.out.contains(line)),
        "{}",
        done.out
    );
    assert!(!done.err.contains("hush"), "no password is shown");
}

#[test]
fn another_name_of_a_database_is_told_of_wherever_it_stands() {
    let folder = Folder::new();
    let lines = ["* = host=h", "shop = host=h pool_size=5", "store = host=h dbname=shop pool_size=7"];
    for order in [[0, 1, 2], [0, 2, 1], [1, 2, 0], [2, 1, 0]] {
        let text = format!("[databases]\n{}\n[pgbouncer]\n", order.map(|line| lines[line]).join("\n"));
        let done = folder.import("p.ini", &text);
        assert!(done.err.contains("not carried: store is an alias of shop there"), "{order:?}: {}", done.err);
        assert!(
            done.out.contains("pool_size = 5  # ") && !done.out.contains("pool_size = 7"),
            "{order:?}: {}",
            done.out
        );
    }
}

#[test]
fn tls_towards_servers_is_as_it_was() {
    let folder = Folder::new();
    let pgbouncer = |lines: &str| {
        let text = format!("[databases]\nshop = host=h\n[pgbouncer]\n{lines}");
        folder.import("p.ini", &text)
    };
    let files = "server_tls_ca_file = /r\nserver_tls_cert_file = /c\nserver_tls_key_file = /k\n";
    for mode in ["allow", "prefer", "require", "verify-ca", "verify-full"] {
        let done = pgbouncer(&format!("server_tls_sslmode = {mode}\n{files}"));
        let carried = if mode == "allow" { "prefer" } else { mode };
        for line in [
            &format!("server_tls = \"{carried}\"  # "),
            "server_tls_ca = \"/r\"  # ",
            "server_tls_certificate = \"/c\"  # ",
            "server_tls_key = \"/k\"  # ",
        ] {
            assert!(done.out.contains(line), "{mode}: {line} is missing in\n{}", done.out);
        }
        assert!(!["not carried: ", "not needed: "].iter().any(|of| done.err.contains(of)), "{}", done.err);
    }
    let off = pgbouncer(&format!("server_tls_sslmode = disable\n{files}"));
    assert!(off.out.contains("server_tls = \"disable\"  # "), "{}", off.out);
    for (at, key) in [(6, "server_tls_cert_file"), (7, "server_tls_key_file")] {
        let said = format!("p.ini:{at}: pgbouncer.{key}: not needed: has no effect there");
        assert!(off.err.contains(&said), "{said} is missing in\n{}", off.err);
    }
    // One is of no use without the other.
    for (line, said) in [
        ("server_tls_cert_file = /c\n", "server_tls_certificate needs server_tls_key"),
        ("server_tls_key_file = /k\n", "server_tls_key needs server_tls_certificate"),
    ] {
        let done = pgbouncer(line);
        assert!(done.err.contains(&format!("not carried: {said}")), "{}", done.err);
        assert!(done.out.contains("server_tls = \"prefer\"  # default of PgBouncer"), "{}", done.out);
        assert!(!["certificate =", "key ="].iter().any(|key| done.out.contains(key)), "{}", done.out);
    }
    let pgcat = |tls: &str| {
        let text = format!(
            "[general]\n{tls}[pools.shop.shards.0]\nservers = [[\"h\", 5432, \"primary\"]]\ndatabase = \"shop\"\n"
        );
        folder.import("pgcat.toml", &text).out
    };
    assert!(pgcat("server_tls = true\n").contains("server_tls = \"prefer\"  # "));
    assert!(pgcat("server_tls = false\n").contains("server_tls = \"disable\"  # "));
    assert!(!pgcat("").contains("server_tls"));
    let pgdog = folder.import("pgdog.toml", "[[databases]]\nname = \"shop\"\nhost = \"h\"\n");
    assert!(pgdog.out.contains("server_tls = \"prefer\"  # default of PgDog"), "{}", pgdog.out);
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_line() {
    let folder = Folder::new();
    let users = folder.file("bad.txt", "\"app\" \"x\"\nnonsense\n");
    let head = "[databases]\na = host=h\n[pgbouncer]\n";
    for (text, words) in [
        ("[databases\n".to_owned(), "x.ini:1: expected [section]"),
        ("a = b\n".to_owned(), "x.ini:1: setting outside of any section"),
        ("[databases]\n\na = host=h port='1\n".to_owned(), "x.ini:3: a: port: unterminated quote"),
        ("[pgbouncer]\nlisten_port\n".to_owned(), "x.ini:2: expected key = value"),
        ("[pgbouncer]\n%include nowhere.ini\n".to_owned(), "x.ini:2: %include: "),
        (format!("{head}%include {}\n", folder.path("x.ini")), "included files are nested too deeply"),
        (format!("{head}auth_file = {users}\n"), "bad.txt:2: expected \"role\" \"secret\""),
        ("[pgbouncer]\nlisten_port = 1\n".to_owned(), "names no server"),
    ] {
        let said = folder.import("x.ini", &text).failed(1);
        assert!(said.contains(words), "{words} is missing in\n{said}");
    }
    let said = folder.import("x.toml", "[general]\nport = 1\n").failed(1);
    assert!(said.contains("use --from pgbouncer or pgcat or pgdog"), "{said}");
    let file = folder.file("y.toml", "[general]\nport = = 1\n");
    assert!(consort(&["import", "--from", "pgcat", &file]).failed(1).contains("y.toml:2: "));
    assert!(consort(&["import", &folder.path("absent.ini")]).failed(1).contains("absent.ini: No such file"));
    assert!(consort(&["import", "--from", "odyssey", &file]).failed(2).contains("pgbouncer"));
}

#[test]
fn where_roles_have_no_file_one_is_made_to_be_filled() {
    let folder = Folder::new();
    let ini = folder.file(
        "p.ini",
        "[databases]\n* = host=h pool_size=3\n[pgbouncer]\nlisten_addr = ::1\nauth_type = pam\n",
    );
    let toml = folder.path("consort.toml");
    let done = consort(&["import", &ini, "--output", &toml]);
    assert!(done.err.contains("p.ini:5: pgbouncer.auth_type = pam: not carried: "), "{done:?}");
    assert!(done.err.contains("users.txt needs a line for each role"), "{done:?}");
    let text = folder.read("consort.toml");
    for line in [
        "listen = [\"[::1]:6432\"]",
        "auth_file = \"users.txt\"",
        "default_pool_size = 3",
        "databases = [\"*\"]",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("auth_type"), "who cannot be asked in that way is asked in ours: {text}");
    assert!(folder.read("users.txt").starts_with("; Roles"), "a file that says what is to be written");
}

/// A bit of everything that PgBouncer's files may say.
const PGBOUNCER_INI: &str = r#";; a comment
[databases]
shop = host='/tmp/a b' port=5432 dbname=goods pool_size=5 connect_query='SELECT ''x'''
"st""ore" = host=10.0.0.1,10.0.0.2
* = host=10.0.0.1
[users]
app = pool_mode=session max_user_connections=3
[peers]
1 = host=10.0.0.9
[pgbouncer] listen_addr = 127.0.0.1, ::1
listen_port = 6432
auth_type = scram-sha-256
auth_file = /nowhere/userlist.txt
unix_socket_dir = /tmp
query_wait_timeout = 1.5
server_tls_sslmode = verify-full
%include /nowhere/more.ini
"#;

/// As the target `imports` of `make fuzz`, through the program itself.
#[test]
fn a_file_that_breaks_off_anywhere_is_read_or_refused_with_words() {
    let folder = Folder::new();
    for (product, text) in [("pgbouncer", PGBOUNCER_INI), ("pgcat", PGCAT), ("pgdog", PGDOG)] {
        let mut begin = 0;
        for line in text.lines() {
            let cut = &text[..begin + line.len() / 2];
            begin += line.len() + 1;
            for behind in ["", "'[{\0"] {
                let file = folder.file("broken", &format!("{cut}{behind}"));
                let done = consort(&["import", "--from", product, &file]);
                let has_words = !done.out.is_empty() || !done.err.is_empty();
                assert!(
                    matches!(done.status.code(), Some(0 | 1)) && has_words,
                    "{product}: {done:?} of\n{cut}{behind}"
                );
            }
        }
    }
}
