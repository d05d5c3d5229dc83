//! Messages between front and nodes, in frames: length 4, CRC-32 of the body 4, body (postcard). Both numbers are big-endian.
//!
//! A connection has one purpose, which its first frame names. The front opens every connection but those by which a slave
//! subscribes at its master. Each request of a session has its answers in order; the next request may be sent before.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io;
use std::io::{Read, Write};
use std::time::Duration;

/// Version of the tier's database. Zero is empty.
pub type Version = u64;

/// A frame is at most this long, in bytes: a write set travels in one.
pub const FRAME_LIMIT: usize = (1 << 30) - (4 << 10);
/// The first frame is at most this long, in bytes: until then anybody may have sent it.
pub const HELLO_LIMIT: usize = 4 << 10;
/// Length of a frame's header, in bytes.
pub const HEADER: usize = 8;
/// A row is at most this long, in bytes, and the result of a statement that commits.
pub const RESULT_LIMIT: usize = 64 << 20;
/// Rows are sent when so many bytes are gathered.
pub const ROWS_AT: usize = 64 << 10;

/// A node that gives nothing for so long in a copy of its pages has gone.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// SQLSTATE of a failure that says that another node may do better: the version did not come in time, the node is not the master,
/// the version of a read is gone. Nothing was changed. The front tries again, and no client sees it.
pub const ELSEWHERE: &str = "CS001";

/// First frame of a connection to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The tier's secret.
    pub secret: Vec<u8>,
    /// Purpose of the connection.
    pub purpose: Purpose,
}

/// Purpose of a connection to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// Transactions of clients, one after the other: [`Request`] and [`Reply`]. The node begins with [`Reply::Welcome`].
    Session,
    /// The front's orders: [`Order`] and [`Report`], one answer for each.
    Control,
    /// At the master: write sets from this version on, as [`Ship`]; [`Received`] comes back for each.
    Subscription {
        /// Name of the subscriber: a node's, or `log`.
        name: String,
        /// The newest version that the subscriber has; `None`: it wants all from now on, and hears first how far that is.
        has: Option<Version>,
        /// The epoch for which the subscriber takes the node for the master.
        epoch: u64,
    },
    /// Pages newer than a version, as [`Ship`]; then the node closes.
    Pages {
        /// The newest version that the asker has.
        newer_than: Version,
        /// The version of the copy, an acknowledged one, or a newer acknowledged one. The node waits until it has it.
        at_least: Version,
    },
}

/// A statement with its values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The text of one statement in PostgreSQL's SQL.
    pub text: String,
    /// Types of parameters by OID; 0 or absent: unknown.
    pub types: Vec<u32>,
    /// Values of parameters: format (0 text, 1 binary) and bytes.
    pub parameters: Vec<(i16, Option<Vec<u8>>)>,
    /// Formats of result columns, as in Bind.
    pub result_formats: Vec<i16>,
    /// Time of the statement's beginning, microseconds since 1970.
    pub time_us: i64,
    /// The answer begins with `Described`: the client wants the columns before the rows.
    pub describes: bool,
    /// [`columns_hash`] of the columns that the client knows; 0: none. With other columns the statement fails before it runs:
    /// 0A000, `cached plan must not change result type`.
    pub expects: u64,
}

/// Beginning of a transaction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// The version to read: the node waits until it has it. At the master a write is at this version or a newer one.
    pub at: Version,
    /// Maximum wait for the version, in milliseconds; then the transaction fails with [`ELSEWHERE`].
    pub wait_ms: u32,
    /// Whether statements may write; then the node is the master.
    pub writes: bool,
    /// Time of the transaction's beginning, microseconds since 1970: `now()`.
    pub time_us: i64,
    /// Seed of `random()`.
    pub seed: u64,
}

/// A request of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// The role and database of the transactions to come. No answer. Inside a transaction: settings of its statements to come,
    /// which also hold when they run again at the commit.
    Client {
        /// Name of the role.
        user: String,
        /// Name of the database.
        database: String,
        /// Settings that statements depend on: `TimeZone`, `DateStyle`, and so on.
        settings: Vec<(String, String)>,
        /// Maximum wait for the writer, in milliseconds; 0: no limit.
        lock_timeout_ms: u64,
    },
    /// Types of a statement. Inside a transaction it sees that transaction. Answer: `Described` or `Failed`.
    Describe {
        /// The version to read outside of a transaction; an acknowledged one.
        at: Version,
        /// The text of one statement.
        text: String,
        /// Types of parameters by OID.
        types: Vec<u32>,
    },
    /// Begins a transaction. Answer: `Begun` or `Failed`.
    Begin(Begin),
    /// Runs a statement inside the transaction; also SAVEPOINT, ROLLBACK TO, RELEASE. Answer: `Described` if asked for, `Rows`
    /// any number of times, then `Done` or `Failed`. After a failure the transaction goes on as it stood before the statement.
    Run(Run),
    /// A transaction of one statement. Answer: as of `Run`; `Done` says the version of its commit.
    Once(Begin, Run),
    /// The definitions that the transaction sees. Answer: `Definitions` or `Failed`.
    Definitions,
    /// Ends the transaction. Answer: `Committed` or `Failed`.
    Commit,
    /// Ends the transaction and drops its changes. Answer: `Committed` with the version that it has read.
    Rollback,
}

/// A result column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// OID of its type.
    pub oid: u32,
    /// Length of its type, as in RowDescription.
    pub length: i16,
    /// Modifier of its type, as in RowDescription.
    pub modifier: i32,
}

/// A hash of columns, never 0. No columns and no result are different.
///
/// # Panics
/// Never: memory takes all bytes.
pub fn columns_hash(columns: Option<&[Column]>) -> u64 {
    let bytes = postcard::to_extend(&columns, Vec::new()).expect("a vector takes all bytes");
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold).max(1)
}

/// An error for the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// SQLSTATE.
    pub sqlstate: String,
    /// The primary message.
    pub message: String,
    /// Detail, or empty.
    pub detail: String,
    /// Hint, or empty.
    pub hint: String,
    /// Position in the statement, in characters from 1; 0: none.
    pub position: u32,
}

/// An answer in a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The connection's number, by which [`Order::Cancel`] names it.
    Welcome {
        /// The number.
        session: u64,
    },
    /// Types of a statement. Without columns it returns no rows.
    Described {
        /// OIDs of the parameters.
        parameters: Vec<u32>,
        /// Result columns, if it returns rows.
        columns: Option<Vec<Column>>,
    },
    /// Definitions as PostgreSQL's SQL, in their order.
    Definitions {
        /// Definitions to run before rows come.
        before_rows: Vec<String>,
        /// Definitions to run when all rows are there.
        after_rows: Vec<String>,
    },
    /// The transaction has begun at this version.
    Begun {
        /// The version that it reads.
        at: Version,
    },
    /// DataRow messages as the client gets them, one after the other.
    Rows {
        /// The bytes.
        messages: Vec<u8>,
        /// Number of messages.
        count: u32,
    },
    /// The statement is over.
    Done {
        /// The tag of CommandComplete.
        tag: String,
        /// Columns of what it returned, if it returns rows.
        columns: Option<Vec<Column>>,
        /// Hash of its rows and tag.
        hash: u64,
        /// Version of its commit, if it was a transaction of its own; that which it has read, if it changed nothing.
        version: Option<Version>,
    },
    /// The transaction has ended; reads from this version on show it.
    Committed {
        /// The version.
        version: Version,
    },
    /// The statement, or the transaction's end, has failed.
    Failed(Failure),
    /// Before `Failed`: the failure is of what this version shows. Later reads must show it, too.
    Seen(Version),
}

/// An order of the front.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// How the node is. Answer: `State`.
    Report,
    /// The node's part in this epoch; an older epoch is refused. Answer: `State`.
    Become {
        /// The node's epoch when the order was made; a node in another one refuses: what is decided depends on it.
        known: u64,
        /// Number of the configuration.
        epoch: u64,
        /// The newest version that is decided: newer ones that the node has are dropped.
        decided: Version,
        /// Its part.
        part: Part,
    },
    /// At the master: who must receive a write set before it is acknowledged. Answer: `State`.
    Members {
        /// The epoch.
        epoch: u64,
        /// Names of subscribers.
        names: Vec<String>,
    },
    /// Write sets that the node lacks, from the log. Answer: `State`.
    Take {
        /// The epoch.
        epoch: u64,
        /// Encoded write sets, without a gap.
        sets: Vec<Vec<u8>>,
    },
    /// Pages of a checkpoint, for a node that has nothing. Answer: `State`.
    Load {
        /// The epoch.
        epoch: u64,
        /// Number, version and bytes of each.
        pages: Vec<(u32, Version, Vec<u8>)>,
        /// With the last ones: the version of the whole.
        whole: Option<Version>,
    },
    /// Hash of all pages at a version. Answer: `Hash`.
    Hash {
        /// The version.
        at: Version,
    },
    /// Ends the statement that a session runs. Answer: `State`.
    Cancel {
        /// The session's number.
        session: u64,
    },
}

/// A node's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// None yet.
    Idle,
    /// Writes run here.
    Master {
        /// Names of the subscribers that must receive a write set.
        members: Vec<String>,
        /// Whether the query log gets the changed rows along with the write sets.
        rows: bool,
    },
    /// Reads run here; write sets come from the master.
    Slave {
        /// The node's own name.
        name: String,
        /// The master's address.
        master: String,
        /// Address of the node from which changed pages come, if the master has no write sets so old.
        support: String,
    },
}

/// Answer to an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// How the node is.
    State(State),
    /// Hash of all pages.
    Hash(u64),
    /// The order was refused: why.
    Refused(String),
}

/// How a node is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The epoch that it knows.
    pub epoch: u64,
    /// Its part.
    pub part: Part,
    /// The newest version that it has without a gap.
    pub received: Version,
    /// At the master: the newest version that its writer has made.
    pub made: Version,
    /// At the master: the newest version that each subscriber has acknowledged.
    pub acknowledged: Vec<(String, Version)>,
    /// Transactions that are open, or wait for the writer, or commit.
    pub transactions: u32,
    /// The oldest version that a transaction reads.
    pub oldest: Option<Version>,
    /// Bytes of pages and diffs.
    pub bytes: u64,
    /// Commits, conflicts at commit, and transactions that were aborted for memory, since its start.
    pub commits: u64,
    /// Transactions whose results were others at their commit.
    pub conflicts: u64,
    /// Reads that were aborted because memory was full.
    pub evicted: u64,
    /// Reads that were aborted because another version took the place of theirs (one version for each page).
    pub aborted: u64,
}

/// A message to a subscriber.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ship {
    /// One write set, encoded.
    Set {
        /// Its version.
        version: Version,
        /// The newest version that was acknowledged when it was shipped.
        decided: Version,
        /// The write set's bytes.
        bytes: Vec<u8>,
        /// For the log: the changed rows and definitions, encoded [`crate::changes::Change`]s; empty: they are not noted.
        changes: Vec<u8>,
    },
    /// The newest version that every member has received.
    Decided(Version),
    /// Pages of a copy: number, version, bytes.
    Pages(Vec<(u32, Version, Vec<u8>)>),
    /// The copy is whole, at this version.
    Whole(Version),
    /// Nothing is shipped, for this reason.
    Refused(String),
}

/// A subscriber has all write sets up to this version.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Received(pub Version);

/// A frame with this body.
///
/// # Panics
/// The body is longer than [`FRAME_LIMIT`]: senders cut it before.
pub fn frame<T: Serialize>(body: &T) -> Vec<u8> {
    let mut out = vec![0; HEADER];
    out = postcard::to_extend(body, out).expect("a vector takes all bytes");
    let length = out.len() - HEADER;
    assert!(length <= FRAME_LIMIT, "a frame of {length} bytes");
    let checksum = crc32fast::hash(&out[HEADER..]);
    out[..4].copy_from_slice(&u32::try_from(length).expect("checked").to_be_bytes());
    out[4..HEADER].copy_from_slice(&checksum.to_be_bytes());
    out
}

/// Length of the body that a header announces, in bytes.
///
/// # Errors
/// It is longer than a frame may be.
pub fn body_length(header: &[u8; HEADER]) -> io::Result<usize> {
    let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length > FRAME_LIMIT { Err(torn("a frame is too long")) } else { Ok(length) }
}

/// The body of a frame.
///
/// # Errors
/// The checksum is another, or the bytes are no such message.
pub fn parse<T: DeserializeOwned>(header: &[u8; HEADER], body: &[u8]) -> io::Result<T> {
    let checksum = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    if crc32fast::hash(body) != checksum {
        return Err(torn("the checksum of a frame is wrong"));
    }
    postcard::from_bytes(body).map_err(|_| torn("a frame holds no message of this kind"))
}

/// Reads one frame.
///
/// # Errors
/// The connection has ended, or the frame is damaged.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    read_within(FRAME_LIMIT, from)
}

/// Reads one frame whose body is at most so long, in bytes.
///
/// # Errors
/// The connection has ended, or the frame is damaged or too long.
pub fn read_within<T: DeserializeOwned>(limit: usize, from: &mut impl Read) -> io::Result<T> {
    let mut header = [0; HEADER];
    from.read_exact(&mut header)?;
    let length = body_length(&header)?;
    if length > limit {
        return Err(torn("a frame is too long"));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    parse(&header, &body)
}

/// Writes one frame.
///
/// # Errors
/// The connection has ended.
pub fn write<T: Serialize>(to: &mut impl Write, body: &T) -> io::Result<()> {
    to.write_all(&frame(body))
}

fn torn(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello { secret: vec![7; 32], purpose: Purpose::Pages { newer_than: 3, at_least: 4 } }
    }

    #[test]
    fn a_frame_comes_back_whole_or_not_at_all() {
        let whole = frame(&hello());
        let read_back: Hello = read(&mut whole.as_slice()).expect("a frame");
        assert_eq!(read_back.secret, hello().secret);
        for at in 0..whole.len() {
            let mut torn = whole.clone();
            torn[at] ^= 0x10;
            assert!(read::<Hello>(&mut torn.as_slice()).is_err(), "byte {at} is another");
            assert!(read::<Hello>(&mut &whole[..at]).is_err(), "only {at} bytes have come");
        }
    }

    #[test]
    fn a_length_that_is_too_great_is_refused_before_memory_is_taken() {
        let mut header = frame(&hello());
        header[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(read::<Hello>(&mut header.as_slice()).is_err());
        let long = Hello { secret: vec![0; HELLO_LIMIT + 1], ..hello() };
        assert!(read_within::<Hello>(HELLO_LIMIT, &mut frame(&long).as_slice()).is_err());
    }
}
