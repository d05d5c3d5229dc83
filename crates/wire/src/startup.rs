//! The first packet of a connection, which has no tag: a start-up message, a wish for encryption, or the request to
//! cancel what another connection runs. Limits hold before anybody is known.

use crate::Malformed;
use crate::scan::Scan;

/// The longest first packet (PostgreSQL's `MAX_STARTUP_PACKET_LENGTH`).
pub const MAX_STARTUP_BYTES: usize = 10_000;

/// The newest minor version of protocol 3 that is spoken: in 3.2 the secrets of cancel requests may be longer, and nothing else is
/// other than in 3.0.
const NEWEST_MINOR: u16 = 2;

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// First packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstPacket {
    /// A session is wanted.
    Startup(Startup),
    /// TLS is wanted; answered by one byte.
    Ssl,
    /// GSSAPI encryption is wanted; answered by one byte.
    Gss,
    /// Cancels the statement that this backend runs.
    Cancel(CancelRequest),
    /// A protocol that is not spoken here: major and minor number.
    Unsupported(u16, u16),
}

/// Backend to cancel, and the secret that allows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CancelRequest {
    /// The backend's process, as BackendKeyData said.
    pub pid: i32,
    /// Its secret: four bytes in protocol 3.0, up to 256 in 3.2.
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for CancelRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CancelRequest of {}", self.pid)
    }
}

/// A server's names are no longer (`NAMEDATALEN - 1`).
const NAME_BYTES: usize = 63;

/// A session is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// Minor number of the protocol that the client would like.
    pub minor: u16,
    /// The role, cut to 63 bytes as a server cuts it.
    pub user: String,
    /// The database, cut likewise; the role's name if the client named none.
    pub database: String,
    /// All other parameters, in the client's order: settings such as `application_name`, and `options`.
    pub parameters: Vec<(String, String)>,
    /// Protocol options (`_pq_.*`) that the client named: none is known here.
    pub unknown: Vec<String>,
}

impl Startup {
    /// Minor number of the protocol that is spoken with it: the requested one, as far as it is known here.
    pub fn spoken(&self) -> u16 {
        self.minor.min(NEWEST_MINOR)
    }

    /// True if the client needs a NegotiateProtocolVersion: it requests something newer, or something that is
    /// not known (`ProcessStartupPacket` in `backend_startup.c` of PostgreSQL 18).
    pub fn needs_negotiation(&self) -> bool {
        self.minor > NEWEST_MINOR || !self.unknown.is_empty()
    }

    /// Kind of replication connection, if one is wanted, as a server reads it (`ProcessStartupPacket` in
    /// `postmaster.c`): `database`, or a boolean. If it occurs several times, the last one decides whether;
    /// and once `database` was given it stays.
    ///
    /// Errors: the value, if it is neither.
    pub fn replication(&self) -> Result<Option<Replication>, &str> {
        let values = self.parameters.iter().filter(|(name, _)| name == "replication");
        let (mut wanted, mut of_database) = (false, false);
        for (_, value) in values {
            if value == "database" {
                (wanted, of_database) = (true, true);
            } else {
                wanted = boolean(value).ok_or(value.as_str())?;
            }
        }
        Ok(wanted.then_some(if of_database { Replication::Logical } else { Replication::Physical }))
    }
}

/// Purpose of a replication connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// `replication=true`: the server's WAL, and base backups. Runs no SQL.
    Physical,
    /// `replication=database`: the decoded changes of one database, and SQL there.
    Logical,
}

/// A boolean as a server reads it: in any case, and cut short as long as it is clear (`parse_bool`).
fn boolean(value: &str) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let short_for = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "1" || short_for("true", 1) || short_for("yes", 1) || short_for("on", 2) {
        Some(true)
    } else {
        (value == "0" || short_for("false", 1) || short_for("no", 1) || short_for("off", 2)).then_some(false)
    }
}

/// Reads the first packet from the beginning of `unread`: `None` if it is not whole yet, else the packet and the bytes
/// that it took.
pub fn first_packet(unread: &[u8]) -> Result<Option<(FirstPacket, usize)>, Malformed> {
    let Some(length) = unread.get(..4) else { return Ok(None) };
    let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
    if !(8..=MAX_STARTUP_BYTES).contains(&length) {
        return Err(Malformed::StartupLength);
    }
    let Some(packet) = unread.get(4..length) else { return Ok(None) };
    let (code, body) = packet.split_at(4);
    let code = u32::from_be_bytes(code.try_into().expect("four bytes"));
    let packet = match code {
        SSL => FirstPacket::Ssl,
        GSS => FirstPacket::Gss,
        CANCEL => cancel_request(body)?,
        _ => match ((code >> 16) as u16, code as u16) {
            (3, minor) => FirstPacket::Startup(startup(minor, body)?),
            (major, minor) => FirstPacket::Unsupported(major, minor),
        },
    };
    Ok(Some((packet, length)))
}

fn cancel_request(body: &[u8]) -> Result<FirstPacket, Malformed> {
    let mut scan = Scan::new(body);
    let pid = scan.i32().map_err(|_| Malformed::StartupLength)?;
    match scan.rest().len() {
        4..=256 => Ok(FirstPacket::Cancel(CancelRequest { pid, secret: scan.rest().to_vec() })),
        _ => Err(Malformed::StartupLength),
    }
}

fn startup(minor: u16, body: &[u8]) -> Result<Startup, Malformed> {
    let mut startup = Startup { minor, ..Startup::default() };
    let mut scan = Scan::new(body);
    loop {
        let name = text(&mut scan)?;
        if name.is_empty() {
            break;
        }
        let value = text(&mut scan)?;
        match name.as_str() {
            "user" => startup.user = cut(value),
            "database" => startup.database = cut(value),
            name if name.starts_with("_pq_.") => startup.unknown.push(name.to_owned()),
            _ => startup.parameters.push((name, value)),
        }
    }
    scan.end().map_err(|_| Malformed::StartupLayout)?;
    if startup.database.is_empty() {
        startup.database.clone_from(&startup.user);
    }
    Ok(startup)
}

/// The name of a role or database as a server takes it (`ProcessStartupPacket` in `postmaster.c`): a name
/// that is longer than the server's names is cut to their length in bytes. Half a character at the end makes
/// it a name that no role or database has.
fn cut(name: String) -> String {
    match name.as_bytes().get(..NAME_BYTES) {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => name,
    }
}

fn text(scan: &mut Scan<'_>) -> Result<String, Malformed> {
    let bytes = scan.string().map_err(|_| Malformed::StartupLayout)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed::StartupLayout)
}
