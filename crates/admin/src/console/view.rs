//! What the console and the metrics see of the node: plain rows, made when somebody asks.

pub use counters::Counts;
use std::collections::BTreeMap;
use std::time::Duration;

use history::Lsn;
use postgres::attach::SlotFault;
use replica_apply::apply;
use replica_apply::clone::Progress;
use scheduler::Kind;

use config::Config;

/// The node's state, as far as it is shown. Everything is made when it is asked for; nothing here is on a statement's
/// path.
pub trait View {
    /// The configuration that counts now.
    fn config(&self) -> &Config;
    /// Who is connected.
    fn clients(&self) -> Vec<Client>;
    /// Connections to the nodes that serve clients.
    fn servers(&self) -> Vec<Server>;
    /// Databases that are known: followed ones and those that a client uses.
    fn databases(&self) -> Vec<Database>;
    /// What went through, by database.
    fn traffic(&self) -> Vec<Traffic>;
    /// The primary, then the standbys, then the replicas that Consort feeds.
    fn nodes(&self) -> Vec<Node>;
    /// Statements by shape, the most frequent first.
    fn routes(&self) -> Vec<Route>;
    /// Commits that may or may not be visible.
    fn doubts(&self) -> Vec<Doubt>;
    /// Looks at the primary.
    fn gauges(&self) -> Gauges;
    /// The replicas that Consort feeds, database by database.
    fn feeds(&self) -> Vec<Feed>;
    /// Whether requests are let through.
    fn state(&self) -> State;
    /// What memory is kept for.
    fn memory(&self) -> Vec<Memory>;
    /// What VERIFY does, if one runs.
    fn verifying(&self) -> Option<Verifying>;
    /// What slots keep at the primary.
    fn slots(&self) -> Vec<Slot>;
    /// Who leads instead, if this Consort does not.
    fn led_by(&self) -> Option<String>;
    /// Whether clients are let in.
    fn serves(&self) -> bool;
    /// Roles of the `auth_file`, or those that were seen if nobody is asked.
    fn users(&self) -> Vec<String>;
    /// How many connections at the primary a role has, those that are being opened too.
    fn connections_of(&self, user: &str) -> usize;
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// A statement runs, or a transaction is open.
    Active,
    /// Nothing runs.
    Idle,
    /// It waits for PAUSE to end, or for a connection.
    Waiting,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// A number of its own.
    pub id: u64,
    /// It has logged in.
    pub entered: bool,
    /// Its role.
    pub user: String,
    /// Its database.
    pub database: String,
    /// What it does.
    pub state: ClientState,
    /// Its host and port; `unix` and 0 on a socket.
    pub from: (String, u16),
    /// Ours.
    pub to: (String, u16),
    /// When it came, seconds since 1970.
    pub connected_unix_s: u64,
    /// When its last request came, seconds since 1970.
    pub requested_unix_s: u64,
    /// How long it has been waiting.
    pub waited: Duration,
    /// The process of its backend at the primary.
    pub backend_pid: i32,
    /// The TLS version and cipher, if it uses TLS.
    pub tls: Option<String>,
    /// Its `application_name`.
    pub application_name: String,
    /// Named statements that it has prepared.
    pub prepared: usize,
    /// Why it keeps its connection at the primary, where clients share them.
    pub keeps: Option<&'static str>,
    /// The process number that it was told, with which it cancels; 0 as long as it logs in.
    pub process_number: i32,
}

/// A connection to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// A number of its own.
    pub id: u64,
    /// The node's name.
    pub node: String,
    /// The role that it is logged in as.
    pub user: String,
    /// The database.
    pub database: String,
    /// The client that uses it now, or owns it.
    pub client: Option<u64>,
    /// The node's host and port.
    pub to: (String, u16),
    /// When it was made, seconds since 1970.
    pub connected_unix_s: u64,
    /// When it was last used, seconds since 1970.
    pub requested_unix_s: u64,
    /// The process at the node.
    pub backend_pid: i32,
    /// It is closed when its client leaves it.
    pub close_needed: bool,
    /// Named statements that it knows, as far as they are counted: at the primary.
    pub prepared: usize,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// Connections of clients to it at the primary, with those that are being opened, and those that nobody has just now.
    pub connections: usize,
    /// PAUSE holds it.
    pub paused: bool,
    /// New clients are refused.
    pub disabled: bool,
    /// Why its reads stay at the primary; nothing: they may leave.
    pub not_serving: Option<String>,
}

/// What went through one database since the start, and a second in the last full period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The database.
    pub database: String,
    /// Since the start.
    pub total: Counts,
    /// A second, in the last full period.
    pub average: Counts,
}

/// Whether requests are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// They are, but for databases that are paused alone.
    Active,
    /// New transactions wait.
    Paused,
    /// Everything waits.
    Suspended,
}

/// Memory that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What for.
    pub name: &'static str,
    /// Bytes of one.
    pub size: usize,
    /// So many are used.
    pub used: usize,
    /// So many are not.
    pub free: usize,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Writes go there.
    Primary,
    /// Reads may go there; PostgreSQL feeds it.
    Standby,
    /// Reads may go there; Consort feeds it.
    Replica,
}

impl Role {
    /// Of a node that reads may leave for.
    pub fn of(kind: Kind) -> Role {
        match kind {
            Kind::Standby => Role::Standby,
            Kind::Fed => Role::Replica,
        }
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Host, or socket folder.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Its share against the others'.
    pub weight: u32,
    /// Why it does not serve; nothing: it does.
    pub not_serving: Option<String>,
    /// How far its log has been received (at the primary: written).
    pub received: Option<Lsn>,
    /// How far its log has been replayed (at the primary: written).
    pub replayed: Option<Lsn>,
    /// How long ago the primary's log ended where this node is; zero if nothing newer is known.
    pub lag: Option<Duration>,
    /// Statements that run there now.
    pub pending: u64,
    /// Reads that it answered; at the primary, of those that are proven to be reads.
    pub served: u64,
    /// Reads whose answer was thrown away, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// Where statements of one shape went, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The database.
    pub database: String,
    /// The statement without its literals.
    pub statement: String,
    /// The node's name.
    pub node: String,
    /// Why there: what proved it, or what kept it at the primary.
    pub reason: &'static str,
    /// How often.
    pub count: u64,
    /// Mean time from arrival to the last byte.
    pub mean: Duration,
}

/// A commit that may or may not be visible at the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Its number; none if it is about commits of which nothing is known.
    pub id: Option<u64>,
    /// The database.
    pub database: String,
    /// `open`, `lost` (its connection broke), `ending` (answered; waits for a gauge), or `unknown`: what others did
    /// before Consort began, or while it did not see them, waits for a gauge too.
    pub state: &'static str,
    /// What it may have written.
    pub footprint: String,
}

/// Looks at the primary, and how far its log has been decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Sent.
    pub sent: u64,
    /// Not answered.
    pub lost: u64,
    /// Answered by an earlier life of the primary.
    pub void: u64,
    /// Settled because all that finished has come out of a decoder.
    pub settled_quick: u64,
    /// Settled because the decoder has passed the gauge's position.
    pub settled_by_lsn: u64,
    /// Proofs hold against writers past Consort too.
    pub writers_anywhere: bool,
    /// By database.
    pub databases: Vec<GaugedDatabase>,
}

/// One database at a replica that Consort feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The replica's name.
    pub replica: String,
    /// Its host, or socket folder.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The database.
    pub database: String,
    /// `waiting`, `paused`, `copying`, `feeding`, `serving` or `failed`.
    pub state: &'static str,
    /// Why it does not serve, if that is more than the state says.
    pub why: Option<String>,
    /// The version that it shows; nothing while that is unknown.
    pub version: Option<u64>,
    /// The newest version that was given.
    pub newest_version: u64,
    /// How long it has not shown what the primary has; zero if nothing newer is known.
    pub lag: Duration,
    /// Commits that it does not show yet.
    pub pending_commits: u64,
    /// Bytes of their rows.
    pub pending_bytes: u64,
    /// So many of them lie in files.
    pub pending_file_bytes: u64,
    /// How long it is likely to take until it shows all; nothing if that is not known, or if writers are quicker.
    pub catches_up_in: Option<Duration>,
    /// How far its copy is, while it is made.
    pub copied: Option<Progress>,
    /// How long its refreshes have waited for those who read, where a refresh locks.
    pub waited_for_readers: Duration,
    /// So many of those were let go.
    pub readers_let_go: u64,
    /// In how many steps it was brought on.
    pub steps: apply::Counts,
    /// How many copies of the database were begun.
    pub copies: u64,
}

/// How far VERIFY has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verifying {
    /// Which database.
    pub database: String,
    /// `holding`, `comparing` or `repairing`.
    pub step: &'static str,
    /// Tables that were looked at.
    pub tables_done: u64,
    /// All of its tables; zero while they are not known.
    pub tables: u64,
    /// The one that is compared now.
    pub table: Option<String>,
}

/// A slot at the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// The database that is decoded by it; nothing for a standby's.
    pub database: Option<String>,
    /// Bytes of log that the primary keeps for it.
    pub kept_bytes: u64,
    /// Bytes that may still be written before it is lost; nothing without a limit.
    pub left_bytes: Option<u64>,
    /// Whether somebody reads it.
    pub active: bool,
    /// What is wrong with it.
    pub fault: Option<SlotFault>,
}

/// How far one database's log has been decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaugedDatabase {
    /// The database.
    pub database: String,
    /// The newest settled gauge.
    pub settled: Option<u64>,
    /// Its position in the log.
    pub settled_lsn: Option<Lsn>,
    /// How far the decoder has come.
    pub decoded: Option<Lsn>,
    /// Why its reads stay at the primary; nothing: they may leave.
    pub not_serving: Option<String>,
}
