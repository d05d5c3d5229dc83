//! The node's state as the console and the metrics see it: plain rows, made on request.

pub use counters::Counts;
use std::collections::BTreeMap;
use std::time::Duration;

use history::Lsn;
use postgres::attach::SlotFault;
use replica_apply::apply;
use replica_apply::clone::Progress;
use scheduler::Kind;

use config::Config;

/// The node's state, as far as it is shown. Every part is made on request; nothing here is on a statement's
/// path.
pub trait View {
    /// Current configuration.
    fn config(&self) -> &Config;
    /// Connected clients.
    fn clients(&self) -> Vec<Client>;
    /// Connections to the nodes that serve clients.
    fn servers(&self) -> Vec<Server>;
    /// Known databases: followed ones and those that a client uses.
    fn databases(&self) -> Vec<Database>;
    /// Traffic by database.
    fn traffic(&self) -> Vec<Traffic>;
    /// The primary, then the standbys, then the logical replicas.
    fn nodes(&self) -> Vec<Node>;
    /// Statements by shape, the most frequent first.
    fn routes(&self) -> Vec<Route>;
    /// Commits that may or may not be visible.
    fn doubts(&self) -> Vec<Doubt>;
    /// Snapshot probes of the primary.
    fn gauges(&self) -> Gauges;
    /// The logical replicas, database by database.
    fn feeds(&self) -> Vec<Feed>;
    /// State of request processing: running, paused, or suspended.
    fn state(&self) -> State;
    /// Memory by purpose.
    fn memory(&self) -> Vec<Memory>;
    /// Progress of VERIFY, if one runs.
    fn verifying(&self) -> Option<Verifying>;
    /// Replication slots at the primary.
    fn slots(&self) -> Vec<Slot>;
    /// Address of the leader, if this Consort does not lead.
    fn led_by(&self) -> Option<String>;
    /// Returns true if clients are admitted.
    fn serves(&self) -> bool;
    /// Roles of the `auth_file`, or the roles seen so far if there is none.
    fn users(&self) -> Vec<String>;
    /// Number of connections at the primary that a role has, including those that are being opened.
    fn connections_of(&self, user: &str) -> usize;
}

/// State of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// A statement runs, or a transaction is open.
    Active,
    /// Nothing runs.
    Idle,
    /// Waiting for PAUSE to end, or for a connection.
    Waiting,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Number of the client.
    pub id: u64,
    /// True once the client has logged in.
    pub entered: bool,
    /// Role of the client.
    pub user: String,
    /// Database of the client.
    pub database: String,
    /// Current state.
    pub state: ClientState,
    /// Host and port of the client; `unix` and 0 on a socket.
    pub from: (String, u16),
    /// Host and port of Consort on this connection.
    pub to: (String, u16),
    /// Time of its connection, seconds since 1970.
    pub connected_unix_s: u64,
    /// Time of its last request, seconds since 1970.
    pub requested_unix_s: u64,
    /// Time that it has been waiting.
    pub waited: Duration,
    /// The process of its backend at the primary.
    pub backend_pid: i32,
    /// TLS version and cipher, if the client uses TLS.
    pub tls: Option<String>,
    /// `application_name` of the client.
    pub application_name: String,
    /// Named statements that it has prepared.
    pub prepared: usize,
    /// Pin reason of its server connection, where clients share connections.
    pub keeps: Option<&'static str>,
    /// Process number that was reported to the client, with which it cancels; 0 during log-in.
    pub process_number: i32,
}

/// A connection to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Number of the connection.
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
    /// Time of its creation, seconds since 1970.
    pub connected_unix_s: u64,
    /// Time of its last use, seconds since 1970.
    pub requested_unix_s: u64,
    /// The process at the node.
    pub backend_pid: i32,
    /// True if the connection is closed when its client leaves it.
    pub close_needed: bool,
    /// Number of prepared named statements, as far as they are counted: at the primary.
    pub prepared: usize,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Name of the database.
    pub name: String,
    /// Connections of clients to it at the primary, including those that are being opened and idle ones.
    pub connections: usize,
    /// True during PAUSE of this database.
    pub paused: bool,
    /// True if new clients are refused.
    pub disabled: bool,
    /// Reason why its reads stay at the primary. `None`: they may be offloaded.
    pub not_serving: Option<String>,
}

/// Traffic of one database since the start, and per second in the last full period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The database.
    pub database: String,
    /// Counts since the start.
    pub total: Counts,
    /// Counts per second, in the last full period.
    pub average: Counts,
}

/// State of request processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Requests are processed, except in databases that are paused alone.
    Active,
    /// New transactions wait.
    Paused,
    /// All requests wait.
    Suspended,
}

/// Memory that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Purpose of the memory.
    pub name: &'static str,
    /// Bytes of one entry.
    pub size: usize,
    /// Number of used entries.
    pub used: usize,
    /// Number of free entries.
    pub free: usize,
}

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The node of all writes.
    Primary,
    /// A read node that replicates from the primary by PostgreSQL's streaming replication.
    Standby,
    /// A logical replica: a read node that Consort feeds.
    Replica,
}

impl Role {
    /// Role of a node that reads are offloaded to.
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
    /// Name of the node.
    pub name: String,
    /// Role of the node.
    pub role: Role,
    /// Host, or socket folder.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Share of the reads, relative to the other nodes.
    pub weight: u32,
    /// Reason why it does not serve. `None`: it serves.
    pub not_serving: Option<String>,
    /// WAL position that it has received (at the primary: written).
    pub received: Option<Lsn>,
    /// WAL position that it has replayed (at the primary: written).
    pub replayed: Option<Lsn>,
    /// Lag: the time since the primary's WAL ended where this node is. Zero if nothing newer is known.
    pub lag: Option<Duration>,
    /// Number of statements that run there now.
    pub pending: u64,
    /// Number of reads that it answered; at the primary, of statements proven to be reads.
    pub served: u64,
    /// Number of reads whose answer was discarded, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// Routes of the statements of one shape, with reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The database.
    pub database: String,
    /// The statement without its literals.
    pub statement: String,
    /// The node's name.
    pub node: String,
    /// Reason of the route: the proof, or the obstacle that kept it at the primary.
    pub reason: &'static str,
    /// Number of executions.
    pub count: u64,
    /// Mean time from arrival to the last byte.
    pub mean: Duration,
}

/// A commit that may or may not be visible at the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Number of the write set. `None` if it covers unknown commits.
    pub id: Option<u64>,
    /// The database.
    pub database: String,
    /// `open`, `lost` (its connection broke), `ending` (answered; waits for a snapshot probe), or `unknown`:
    /// changes of other sessions before Consort began, or while it did not see them, wait for a probe too.
    pub state: &'static str,
    /// Footprint of its possible writes.
    pub footprint: String,
}

/// Snapshot probes of the primary, and the decoded WAL positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Number of probes that were sent.
    pub sent: u64,
    /// Number of probes without an answer.
    pub lost: u64,
    /// Answered by an earlier incarnation of the primary.
    pub void: u64,
    /// Settled because all finished transactions have come out of a decoder.
    pub settled_quick: u64,
    /// Settled because the decoder has passed the probe's position.
    pub settled_by_lsn: u64,
    /// True if proofs hold against writers that bypass Consort too.
    pub writers_anywhere: bool,
    /// Decoded positions by database.
    pub databases: Vec<GaugedDatabase>,
}

/// One database at a logical replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The replica's name.
    pub replica: String,
    /// Host of the replica, or socket folder.
    pub host: String,
    /// Port of the replica.
    pub port: u16,
    /// The database.
    pub database: String,
    /// `waiting`, `paused`, `copying`, `feeding`, `serving` or `failed`.
    pub state: &'static str,
    /// Reason why it does not serve, if the state does not show it.
    pub why: Option<String>,
    /// Version that the replica shows. `None` while unknown.
    pub version: Option<u64>,
    /// The newest version that was sent to it.
    pub newest_version: u64,
    /// Lag: the time for which it has not shown the primary's state. Zero if nothing newer is known.
    pub lag: Duration,
    /// Number of commits that it does not show yet.
    pub pending_commits: u64,
    /// Bytes of the pending commits' rows.
    pub pending_bytes: u64,
    /// Number of these bytes that lie in files.
    pub pending_file_bytes: u64,
    /// Estimated time until it shows everything. `None` if that is unknown, or if writers are quicker.
    pub catches_up_in: Option<Duration>,
    /// Progress of its copy, while it is made.
    pub copied: Option<Progress>,
    /// Time for which its refreshes have waited for readers, where a refresh locks.
    pub waited_for_readers: Duration,
    /// Number of readers that were released from their wait.
    pub readers_let_go: u64,
    /// Number of apply steps.
    pub steps: apply::Counts,
    /// Number of copies of the database that were begun.
    pub copies: u64,
}

/// Progress of VERIFY.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verifying {
    /// Name of the database.
    pub database: String,
    /// `holding`, `comparing` or `repairing`.
    pub step: &'static str,
    /// Number of compared tables.
    pub tables_done: u64,
    /// Number of all tables; zero while unknown.
    pub tables: u64,
    /// Table that is compared now.
    pub table: Option<String>,
}

/// A slot at the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Name of the slot.
    pub name: String,
    /// Database that the slot decodes. `None` for a standby's slot.
    pub database: Option<String>,
    /// Bytes of WAL that the primary keeps for it.
    pub kept_bytes: u64,
    /// Bytes that may still be written before the slot is lost. `None`: no limit.
    pub left_bytes: Option<u64>,
    /// True if a connection reads the slot.
    pub active: bool,
    /// Fault of the slot.
    pub fault: Option<SlotFault>,
}

/// Decoded WAL position of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaugedDatabase {
    /// The database.
    pub database: String,
    /// Number of the newest settled probe.
    pub settled: Option<u64>,
    /// WAL position of that probe.
    pub settled_lsn: Option<Lsn>,
    /// WAL position that the decoder has reached.
    pub decoded: Option<Lsn>,
    /// Reason why its reads stay at the primary. `None`: they may be offloaded.
    pub not_serving: Option<String>,
    /// Differences between nodes that keep reads with an extension at the primary.
    pub extension_differences: Option<String>,
}
