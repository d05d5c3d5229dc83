//! The configuration: one TOML file, one table of keys ([`keys::KEYS`]) from which the file is read, checked,
//! shown and documented.
//!
//! A file is read whole or not at all: every mistake in it is named with file, line, key and remedy. Keys
//! that the file leaves out have the table's defaults, which are read by the same code as the file.

pub mod auth_file;
mod former_names;
pub mod hba;
mod key;
pub mod keys;
pub mod manual;
pub mod origin;
mod peers;
pub mod pooling;
pub mod refusal;
mod reload;
pub mod statement_log;
mod transaction_offload;
mod validation;
mod value;

pub use former_names::{FormerName, former_names};
pub use peers::{Capture, CassandraPlace, Peers, StoreConsistency, StorePlace, StoreTransactions};
pub use transaction_offload::OffloadInTransactions;

use crate::hba::{Method, Rules};
use crate::pooling::{Pooling, Pools, Said};
use crate::refusal::Refusal;
use crate::statement_log::StatementLog;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use design::{Design, Reads};
use history::{Consistency, Grain};
use ipnet::IpNet;
use postgres::Tls;
use postgres::address::{Address, Host};
use postgres::attach::UnreplicableDdl;
use postgres::tls::Checks;
use replica_apply::clone::Chosen;
use scheduler::Writers;
use session_state::Own;
use statement_analysis::catalog::Procedure;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use key::{Set, Trust};
use keys::{Key, Place};

/// All settings.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Addresses on which clients are awaited, `host:port`.
    pub listen: Vec<String>,
    /// Folder of the Unix socket for clients, with the first listening port in its name as PostgreSQL has it.
    pub unix_socket_dir: Option<PathBuf>,
    /// Authentication method of clients.
    pub auth_type: AuthType,
    /// Client authentication rules in the format of `pg_hba.conf`.
    pub auth_hba_file: Option<PathBuf>,
    /// Maps that the rules name, in the format of `pg_ident.conf`.
    pub auth_ident_file: Option<PathBuf>,
    /// Roles and their secrets, in PgBouncer's format.
    pub auth_file: Option<PathBuf>,
    /// The role that queries the secrets of other roles; empty: no queries.
    pub auth_user: String,
    /// Query for the secret in that case.
    pub auth_query: String,
    /// Database of these queries.
    pub auth_dbname: String,
    /// PEM file with the certificate chain for clients.
    pub tls_certificate: Option<PathBuf>,
    /// PEM file with the certificate's key.
    pub tls_key: Option<PathBuf>,
    /// PEM file with the authorities that sign client certificates.
    pub client_tls_ca: Option<PathBuf>,
    /// True if clients without TLS are refused.
    pub tls_required: bool,
    /// Requirements for the servers' certificates. `None`: connections to servers are not encrypted.
    pub server_tls: Option<Checks>,
    /// PEM file with the authorities that sign server certificates.
    pub server_tls_ca: Option<PathBuf>,
    /// PEM file with the certificate chain for servers.
    pub server_tls_certificate: Option<PathBuf>,
    /// PEM file with the key of the certificate for servers.
    pub server_tls_key: Option<PathBuf>,
    /// The role with which Consort itself watches the nodes.
    pub control_user: String,
    /// The primary.
    pub primary: Server,
    /// The standbys.
    pub standbys: Vec<Server>,
    /// The logical replicas.
    pub replicas: Vec<Server>,
    /// The nodes of a design whose nodes all take writes.
    pub peers: Peers,
    design: Option<Design>,
    writers: Option<Writers>,
    /// Databases that are followed, so that their reads may be offloaded; `*` is all.
    pub databases: Vec<String>,
    /// True if a database is attached automatically at its first use.
    pub attach_on_first_use: bool,
    /// Consistency of a session that requests none, and has none by database or user.
    pub consistency: Choice,
    /// Consistency choices by database.
    pub database_choices: BTreeMap<String, Choice>,
    /// Consistency choices by user; a user's choice wins.
    pub user_choices: BTreeMap<String, Choice>,
    /// Time for which it leads after the primary's last answer, among several Consorts. Zero: until another
    /// Consort leads.
    pub leader_lease_timeout: Duration,
    /// Procedures and functions with the tables that they touch.
    pub procedures: Vec<Procedure>,
    /// Maximum time for which an answer is held until it is proven.
    pub proof_timeout: Duration,
    /// Maximum wait of a read for a replica, and of a commit for its turn, where the design has them wait.
    pub replica_wait_timeout: Duration,
    /// Number of replicas that show a commit before its client receives the answer, where the design has
    /// commits take turns.
    pub commit_replica_quorum: usize,
    /// Maximum number of clients.
    pub max_clients: usize,
    /// Maximum number of clients of one address. 0: no separate limit.
    pub max_clients_per_address: usize,
    /// Maximum duration of a client's log-in.
    pub login_time: Duration,
    /// Maximum number of clients of one address that are logging in. 0: no limit.
    pub max_half_open_per_address: usize,
    /// Networks of balancers that send the addresses of their clients by the PROXY protocol.
    pub proxy_protocol_from: Vec<IpNet>,
    /// Pooling of connections at the primary, unless set for a database or user.
    pub pool: Pooling,
    /// Maximum connections to one standby.
    pub standby_connections: usize,
    /// Bytes of the analysis cache.
    pub analysis_cache_bytes: usize,
    /// Rows that the freshness index remembers.
    pub freshness_index_rows: usize,
    /// Maximum bytes of an answer that are held until it is proven.
    pub held_answer_bytes: usize,
    /// Maximum bytes of rows that are kept in memory for replicas.
    pub fed_buffer_bytes: usize,
    /// Maximum bytes of rows that are kept in files for replicas.
    pub fed_archive_bytes: usize,
    /// Handling of DDL that replicas cannot run with the same effect.
    pub unreplicable_ddl: UnreplicableDdl,
    /// Connections on which a replica that lags applies concurrently.
    pub apply_connections: usize,
    /// Minimum rows of a transaction that travels as statements, where the design replicates statements: a
    /// smaller one travels as rows.
    pub statement_rows: u64,
    /// Finest grain of footprints.
    pub footprint_grain: Grain,
    /// Offload of statements of blocks that may write.
    pub offload_in_transactions: OffloadInTransactions,
    /// Functions and extensions that are declared safe at replicas.
    pub replica_safe_functions: Vec<String>,
    /// Report file of shadow mode, for tests.
    pub shadow: Option<PathBuf>,
    /// Name of the console's database.
    pub console_database: String,
    /// Users that may run commands in the console.
    pub admin_users: Vec<String>,
    /// Users that may read the console.
    pub stats_users: Vec<String>,
    /// Address of `/metrics`, `/healthz` and `/readyz`.
    pub metrics_listen: Option<String>,
    /// Minimum level that is logged.
    pub log_level: String,
    /// Format of log lines: text or JSON.
    pub log_format: LogFormat,
    /// Statements that are logged.
    pub statement_log: StatementLog,
    /// Time after which a client that does not read its answer is named in the log. Zero: never.
    pub log_client_stalls: Duration,
    /// Maximum time for which open transactions may go on at shut-down.
    pub shutdown_drain_timeout: Duration,
    /// The file's own words.
    source: Source,
}

/// The words of a file, and its place.
#[derive(Clone, Debug, Default)]
struct Source {
    /// Every global key's value as the file (or the default) has it.
    written: BTreeMap<&'static str, Written>,
    /// Extensions with `trust = "immutable"`.
    trusted_extensions: Vec<String>,
    /// Folder of the file: relative paths in it start there.
    folder: PathBuf,
}

/// A value of a global key.
#[derive(Clone, Debug)]
struct Written {
    /// Value as a file has it.
    source: String,
    /// Value as `SHOW CONFIG` has it.
    shown: String,
}

impl Written {
    fn new(source: &str, value: &DeValue<'_>) -> Written {
        Written { source: source.to_owned(), shown: value::shown(value) }
    }
}

/// Authentication method of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthType {
    /// SCRAM-SHA-256, with secrets or keys from the `auth_file`.
    #[default]
    Scram,
    /// The salted MD5 hash of former versions.
    Md5,
    /// The password in clear text; sensible under TLS only.
    Password,
    /// Clients from this machine need no proof.
    Trust,
    /// The method of the first matching rule in the `auth_hba_file`.
    Hba,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The parser's message for a key that stands twice in the file.
const DUPLICATE: &str = "duplicate key";

/// Keys that belong to `auth_type`.
const WITH_AUTH_TYPE: [&str; 6] =
    ["auth_hba_file", "auth_ident_file", "auth_file", "auth_user", "auth_query", "auth_dbname"];

/// One PostgreSQL server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Name of the server in Consort.
    pub name: String,
    /// Host name, address, or folder of its socket.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Share of the reads, relative to the other nodes.
    pub weight: u32,
    /// Tables that the replica receives.
    pub tables: Chosen,
}

/// Initial settings and pooling of the sessions of a database or of a user, as far as they are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// `consort.consistency`.
    pub consistency: Option<Consistency>,
    /// `consort.read_only_snapshots`.
    pub read_only_snapshots: Option<bool>,
    /// Pooling of the connections at the primary.
    pub pool: Said,
}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// The key with its table, empty if none is meant.
    pub key: String,
    /// Cause of the mistake, and the remedy.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Mistake {}

/// Mistakes in one sentence.
pub fn in_one(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(Mistake::to_string).collect::<Vec<_>>().join("; ")
}

/// The folder of a file, from the root on: programs that are given a path of the configuration run in another
/// folder.
fn folder_of(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.parent().unwrap_or(Path::new("/")).to_owned()
}

impl Config {
    /// Reads a file. All mistakes are named, not only the first.
    pub fn read(path: &Path) -> Result<Self, Vec<Mistake>> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| {
            vec![Mistake { file: file.clone(), line: 0, key: String::new(), message: error.to_string() }]
        })?;
        Self::parse(&text, path)
    }

    /// Reads a text; `path` is the file's name for messages, its folder the start of relative paths.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Vec<Mistake>> {
        let mut reader = Reader::new(text, path);
        let mut config = Self::with_defaults();
        config.source.folder = folder_of(path);
        match DeTable::parse(text) {
            Ok(table) => reader.file(&mut config, table.get_ref()),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                let name =
                    text.get(error.span().unwrap_or_default()).filter(|_| error.message() == DUPLICATE);
                reader.mistake_at(at, name.unwrap_or_default(), error.message().to_owned());
            }
        }
        name_all(&mut config.standbys, Place::Standby);
        name_all(&mut config.replicas, Place::Replica);
        name_all(&mut config.peers.nodes, Place::Node);
        if reader.mistakes.is_empty() {
            reader.whole(&config);
        }
        reader.mistakes.sort_by_key(|mistake| mistake.line);
        if reader.mistakes.is_empty() { Ok(config) } else { Err(reader.mistakes) }
    }

    /// Initial settings of a session in this database and of this user. The user's choice wins over the
    /// database's, as PostgreSQL's ALTER ROLE wins over ALTER DATABASE.
    pub fn defaults(&self, database: &str, user: &str) -> Own {
        let by_database = self.database_choices.get(database).copied().unwrap_or_default();
        let by_user = self.user_choices.get(user).copied().unwrap_or_default();
        let reads_wait = self.design().reads == Reads::LatestWaiting;
        let mut global = self.consistency;
        if reads_wait {
            global.read_only_snapshots = Some(true);
        }
        let chosen = [by_user, by_database, global];
        let by_design = match self.design().reads {
            Reads::AnyAge => Consistency::Weak,
            Reads::OwnSnapshot | Reads::ByPosition => Consistency::Session,
            _ => Consistency::Strong,
        };
        Own {
            consistency: chosen.iter().find_map(|choice| choice.consistency).unwrap_or(by_design),
            read_only_snapshots: chosen
                .iter()
                .find_map(|choice| choice.read_only_snapshots)
                .unwrap_or_default(),
            read_only_is_repeatable: reads_wait,
            ..Own::default()
        }
    }

    /// Client authentication rules. The error is a sentence for a person.
    pub fn rules(&self) -> Result<Rules, String> {
        let method = match self.auth_type {
            AuthType::Scram | AuthType::Trust | AuthType::Hba => Method::ScramSha256,
            AuthType::Md5 => Method::Md5,
            AuthType::Password => Method::Password,
        };
        let loopback = if self.auth_type == AuthType::Trust { Method::Trust } else { method };
        let Some(file) = self.auth_hba_file.as_ref().filter(|_| self.auth_type == AuthType::Hba) else {
            return Ok(Rules::by_origin(loopback, method));
        };
        let rules =
            Rules::read(file, self.auth_ident_file.as_deref()).map_err(|mistakes| in_one(&mistakes))?;
        if let Some(at) = rules.wants_memberships().filter(|_| self.design().has_nodes()) {
            return Err(format!("{at}: this design does not look up memberships of roles; name each role"));
        }
        match rules.wants_certificates().filter(|_| self.client_tls_ca.is_none()) {
            Some(at) => Err(format!("{at}: client certificate authentication needs client_tls_ca")),
            None => Ok(rules),
        }
    }

    /// Certificate chain and key for clients, if they may use TLS, and the authorities of their own
    /// certificates.
    pub fn tls(&self) -> Option<(&Path, &Path, Option<&Path>)> {
        let (chain, key) = self.tls_certificate.as_deref().zip(self.tls_key.as_deref())?;
        Some((chain, key, self.client_tls_ca.as_deref()))
    }

    /// Encryption of connections to servers. The error is a sentence for the operator.
    pub fn tls_to_servers(&self) -> Result<Option<Tls>, String> {
        let Some(checks) = self.server_tls else { return Ok(None) };
        let certificate = self.server_tls_certificate.as_deref().zip(self.server_tls_key.as_deref());
        Tls::new(checks, self.server_tls_ca.as_deref(), certificate).map(Some)
    }

    /// Pooling of connections at the primary. If statements are ordered before they are executed, each client
    /// has a connection of its own.
    pub fn pools(&self) -> Pools {
        let said = |choices: &BTreeMap<String, Choice>| {
            choices.iter().map(|(name, choice)| (name.clone(), choice.pool)).collect()
        };
        Pools {
            all: self.pool,
            databases: said(&self.database_choices),
            users: said(&self.user_choices),
            alone: self.design().orders_first(),
        }
    }

    /// The design, the default one if the file names none.
    pub fn design(&self) -> Design {
        self.design.unwrap_or(design::CONSORT)
    }

    /// Allowed writers at the primary.
    pub fn writers(&self) -> Writers {
        self.writers.unwrap_or(Writers::Anywhere)
    }

    /// Returns true if all writers go through Consort, according to the configuration.
    pub fn writers_go_through(&self) -> bool {
        self.writers() == Writers::ThroughConsort
    }

    /// Every server: the primary, or the nodes that all take writes, and the read nodes.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        let primary = std::iter::once(&self.primary).filter(|server| !server.host.is_empty());
        primary.chain(&self.peers.nodes).chain(self.read_nodes())
    }

    /// The nodes that reads may be offloaded to: the standbys, followed by the replicas.
    pub fn read_nodes(&self) -> impl Iterator<Item = &Server> {
        self.standbys.iter().chain(&self.replicas)
    }

    /// Functions and extensions that the operator declares safe at replicas, trusted extensions included.
    pub fn declared_safe(&self) -> Vec<String> {
        self.replica_safe_functions.iter().chain(&self.source.trusted_extensions).cloned().collect()
    }

    /// Returns true if this database is followed, so that its reads may be offloaded.
    pub fn follows(&self, database: &str) -> bool {
        self.databases.iter().any(|name| name == "*" || name == database)
    }

    /// The databases that are named to be followed and are not among these.
    pub fn absent<'a>(&'a self, there: &'a [String]) -> impl Iterator<Item = &'a str> {
        let named = self.databases.iter().filter(|name| *name != "*");
        named.filter(|name| !there.contains(name)).map(String::as_str)
    }

    /// Every global key with its value and default as text, in the table's order: `SHOW CONFIG`. A value that
    /// takes effect at the next start is not shown before ([`Config::until_start`]).
    pub fn shown(&self) -> impl Iterator<Item = (&'static Key, &str)> {
        let global =
            keys::KEYS.iter().filter(|key| matches!(key.place, Place::Global | Place::Store | Place::Debug));
        global.map(|key| (key, self.source.written[key.name].shown.as_str()))
    }

    /// Returns true if a key at the top of the file or in `[store]` has its default, as far as a file can show.
    pub fn is_default(&self, place: Place, name: &str) -> bool {
        let default = keys::KEYS.iter().find(|key| key.place == place && key.name == name);
        default.is_some_and(|key| self.source.written[key.name].source == key.default)
    }

    /// Lowers the limit of clients to `most`, even if `max_clients` is higher: `SHOW CONFIG` has the lower
    /// number.
    pub fn bound_clients(&mut self, most: usize) {
        if self.max_clients > most {
            self.max_clients = most;
            let written = Written { source: most.to_string(), shown: most.to_string() };
            self.source.written.insert("max_clients", written);
        }
    }

    /// Returns a path in the file, `None` if it is empty; from the file's folder if it is relative.
    fn path(&self, value: &DeValue<'_>) -> Result<Option<PathBuf>, String> {
        let text = value::text(value)?;
        Ok((!text.is_empty()).then(|| self.source.folder.join(text)))
    }

    /// Returns the configuration in which every key has its default.
    fn with_defaults() -> Self {
        let mut config = Self { primary: Server::with_defaults(Place::Primary), ..Self::default() };
        for key in keys::KEYS {
            if let Set::Global(set) = key.set {
                let default = value::default(key.default);
                set(&mut config, &default).expect("defaults are sound");
                config.source.written.insert(key.name, Written::new(key.default, &default));
            }
        }
        config
    }
}

impl Server {
    /// The server's address for this role and database.
    pub fn address(&self, user: &str, password: Option<&str>, database: &str) -> Address {
        let host = match self.host.starts_with('/') {
            true => Host::Socket(PathBuf::from(&self.host)),
            false => Host::Name(self.host.clone()),
        };
        let password = password.map(str::to_owned);
        let (user, database) = (user.to_owned(), database.to_owned());
        Address { host, port: self.port, user, password, password_file: None, database, tls: None }
    }

    fn with_defaults(place: Place) -> Self {
        let mut server = Self::default();
        for key in keys::KEYS.iter().filter(|key| key.place == place) {
            if let Set::Server(set) = key.set
                && !key.default.is_empty()
            {
                set(&mut server, &value::default(key.default)).expect("defaults are sound");
            }
        }
        server
    }
}

/// Returns the manual's text for output without links: `[text](target)` becomes `text`.
fn without_links(doc: &str) -> String {
    let mut parts = doc.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(open) = text.rfind('[') {
            text.remove(open);
        }
        text.push_str(part.split_once(')').map_or("", |(_, behind)| behind));
    }
    text
}

/// Names the servers that have no name, by number.
fn name_all(servers: &mut [Server], place: Place) {
    for (at, server) in servers.iter_mut().enumerate().filter(|(_, server)| server.name.is_empty()) {
        server.name = format!("{}{}", place.table(), at + 1);
    }
}

/// Reads one file and gathers its mistakes.
struct Reader<'a> {
    text: &'a str,
    file: String,
    mistakes: Vec<Mistake>,
    /// The given names of servers, with table and position.
    names: Vec<(String, Place, usize)>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, path: &Path) -> Self {
        Self { text, file: path.display().to_string(), mistakes: Vec::new(), names: Vec::new() }
    }

    /// Reads the file's top: global keys, and the tables of servers, databases and users.
    fn file(&mut self, config: &mut Config, table: &DeTable<'_>) {
        let mut trusted = Vec::new();
        for (name, value) in table {
            let at = name.span().start;
            match (name.get_ref().as_ref(), value.get_ref()) {
                ("primary", DeValue::Table(keys)) => config.primary = self.server(Place::Primary, at, keys),
                ("standby", servers @ (DeValue::Array(_) | DeValue::Table(_))) => {
                    config.standbys = self.servers(Place::Standby, at, servers);
                }
                ("replica", servers @ (DeValue::Array(_) | DeValue::Table(_))) => {
                    config.replicas = self.servers(Place::Replica, at, servers);
                }
                ("node", servers @ (DeValue::Array(_) | DeValue::Table(_))) => {
                    config.peers.nodes = self.servers(Place::Node, at, servers);
                }
                ("database", DeValue::Table(tables)) => {
                    config.database_choices = self.choices(Place::Database, tables);
                }
                ("user", DeValue::Table(tables)) => config.user_choices = self.choices(Place::User, tables),
                ("procedure", DeValue::Table(tables)) => config.procedures = self.procedures(tables),
                ("extension", DeValue::Table(tables)) => trusted = self.trusted_extensions(tables),
                ("store", DeValue::Table(keys)) => self.keys_of(config, Place::Store, keys),
                ("debug", DeValue::Table(keys)) => self.keys_of(config, Place::Debug, keys),
                (
                    "primary" | "standby" | "replica" | "node" | "database" | "user" | "procedure"
                    | "extension" | "store" | "debug",
                    _,
                ) => {
                    let message = "must be a table; see docs/configuration.md".to_owned();
                    self.mistake_at(at, name.get_ref(), message);
                }
                (name, DeValue::Table(_)) => self.unknown(at, "", name, Place::Global),
                (name, _) => {
                    if let Some(new) = former_names::given_twice(table, name) {
                        self.mistake_at(at, name, format!("is the former name of {new}, which is there too"));
                    }
                    self.global(config, (Place::Global, at), name, value);
                }
            }
        }
        config.source.trusted_extensions = trusted;
    }

    /// Reads a table whose keys each stand in it once.
    fn keys_of(&mut self, config: &mut Config, place: Place, keys: &DeTable<'_>) {
        for (name, value) in keys {
            self.global(config, (place, name.span().start), name.get_ref(), value);
        }
    }

    fn global(
        &mut self,
        config: &mut Config,
        (place, at): (Place, usize),
        name: &str,
        value: &Spanned<DeValue<'_>>,
    ) {
        let Some(key) = keys::find(place, name) else {
            return self.unknown(at, place.table(), name, place);
        };
        let Set::Global(set) = key.set else { return };
        match set(config, value.get_ref()) {
            Ok(()) => {
                let source = former_names::source(key, &self.text[value.span()]);
                let value = DeValue::parse(&source).expect("the same value was read");
                config.source.written.insert(key.name, Written::new(&source, value.get_ref()));
            }
            Err(message) => self.mistake_at(value.span().start, name, message),
        }
    }

    /// Reads a list of tables, or one.
    fn servers(&mut self, place: Place, at: usize, servers: &DeValue<'_>) -> Vec<Server> {
        let mut read = Vec::new();
        let DeValue::Array(tables) = servers else {
            read.extend(servers.as_table().map(|keys| self.server(place, at, keys)));
            return read;
        };
        for table in tables {
            match table.get_ref() {
                DeValue::Table(keys) => read.push(self.server(place, table.span().start, keys)),
                _ => {
                    let name = place.table();
                    self.mistake_at(at, name, format!("must be an array of tables; write [[{name}]]"));
                }
            }
        }
        read
    }

    fn server(&mut self, place: Place, at: usize, table: &DeTable<'_>) -> Server {
        let mut server = Server::with_defaults(place);
        for (name, value) in table {
            let Some(Key { set: Set::Server(set), .. }) = keys::find(place, name.get_ref()) else {
                self.unknown(name.span().start, place.table(), name.get_ref(), place);
                continue;
            };
            if let Err(message) = set(&mut server, value.get_ref()) {
                self.mistake_at(
                    value.span().start,
                    &format!("{}.{}", place.table(), name.get_ref()),
                    message,
                );
            }
            if name.get_ref() == "name" {
                self.names.push((server.name.clone(), place, value.span().start));
            }
        }
        if server.host.is_empty() {
            let message = "host is missing; set a host name, an address or a socket directory".to_owned();
            self.mistake_at(at, place.table(), message);
        }
        server
    }

    fn choices(&mut self, place: Place, tables: &DeTable<'_>) -> BTreeMap<String, Choice> {
        let set = |set: &Set, choice: &mut Choice, value: &DeValue<'_>| match set {
            Set::Choice(set) => set(choice, value),
            _ => Ok(()),
        };
        self.named(place.table(), place, tables, set)
            .into_iter()
            .map(|(name, _, choice)| (name, choice))
            .collect()
    }

    /// Extensions of whose functions IMMUTABLE is believed.
    fn trusted_extensions(&mut self, tables: &DeTable<'_>) -> Vec<String> {
        let set = |set: &Set, trust: &mut Trust, value: &DeValue<'_>| match set {
            Set::Extension(set) => set(trust, value),
            _ => Ok(()),
        };
        let named = self.named("extension", Place::Extension, tables, set).into_iter();
        named.filter(|(.., trust)| *trust == Trust::Immutable).map(|(name, ..)| name).collect()
    }

    fn procedures(&mut self, tables: &DeTable<'_>) -> Vec<Procedure> {
        let set = |set: &Set, procedure: &mut Procedure, value: &DeValue<'_>| match set {
            Set::Procedure(set) => set(procedure, value),
            _ => Ok(()),
        };
        let mut procedures = Vec::new();
        for (full, at, procedure) in self.named("procedure", Place::Procedure, tables, set) {
            match full.split_once('.').filter(|(schema, name)| !schema.is_empty() && !name.is_empty()) {
                Some((schema, name)) => {
                    let (schema, name) = (schema.to_owned(), name.to_owned());
                    procedures.push(Procedure { schema, name, ..procedure });
                }
                None => {
                    let message = "must be qualified with its schema: [procedure.\"schema.name\"]".to_owned();
                    self.mistake_at(at, &format!("procedure.{full}"), message);
                }
            }
        }
        procedures
    }

    /// Reads tables with a name of their own. Returns the name, its position in the file, and the content.
    fn named<T: Default>(
        &mut self,
        of: &str,
        place: Place,
        tables: &DeTable<'_>,
        set: impl Fn(&Set, &mut T, &DeValue<'_>) -> Result<(), String>,
    ) -> Vec<(String, usize, T)> {
        let mut found = Vec::new();
        for (name, table) in tables {
            let (path, at) = (format!("{of}.{}", name.get_ref()), name.span().start);
            let DeValue::Table(table) = table.get_ref() else {
                self.mistake_at(at, &path, format!("must be a table; write [{path}]"));
                continue;
            };
            let mut read = T::default();
            for (key, value) in table {
                let Some(known) = keys::find(place, key.get_ref()) else {
                    self.unknown(key.span().start, &path, key.get_ref(), place);
                    continue;
                };
                if let Err(message) = set(&known.set, &mut read, value.get_ref()) {
                    self.mistake_at(value.span().start, &format!("{path}.{}", key.get_ref()), message);
                }
            }
            found.push((name.get_ref().to_string(), at, read));
        }
        found
    }

    /// Adds the mistakes that only the whole file can show.
    fn whole(&mut self, config: &Config) {
        for (key, message) in config.senseless() {
            self.mistakes.push(Mistake { file: self.file.clone(), line: 0, key: key.to_owned(), message });
        }
        self.names_apart(config);
    }

    /// Reports a name that two servers have. At least one of the two was given in the file.
    fn names_apart(&mut self, config: &Config) {
        let all: Vec<&str> = config
            .read_nodes()
            .chain([&config.primary])
            .chain(&config.peers.nodes)
            .map(|server| server.name.as_str())
            .collect();
        let is_twice = |name: &str| all.iter().filter(|other| **other == name).count() > 1;
        let twice = self.names.iter().filter(|(name, ..)| !name.is_empty() && is_twice(name));
        if let Some((name, place, at)) = twice.max_by_key(|(.., at)| *at).cloned() {
            let key = format!("{}.name", place.table());
            self.mistake_at(at, &key, format!("duplicate server name {name}"));
        }
    }

    fn unknown(&mut self, at: usize, table: &str, name: &str, place: Place) {
        let key = if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
        let message = match keys::nearest(place, name) {
            Some(nearest) => format!("unknown key; did you mean {nearest}?"),
            None => "unknown key; see docs/configuration.md for all keys".to_owned(),
        };
        self.mistake_at(at, &key, message);
    }

    fn mistake_at(&mut self, offset: usize, key: &str, message: String) {
        let line =
            self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
                + 1;
        self.mistakes.push(Mistake { file: self.file.clone(), line, key: key.to_owned(), message });
    }
}

#[cfg(test)]
mod tests;
