//! The gauge: one look at the primary, its snapshot and then its position in the log.
//!
//! The position is evaluated after the snapshot was taken, so it lies behind everything that the snapshot sees. A gauge
//! counts only within its incarnation; the connection dies with it, so it is read once per connection. It also tells of
//! reloads of the configuration: when its own process has read the files last.

use crate::Error;
use crate::address::Address;
use crate::incarnation::Sighting;
use crate::link::{Link, run_prepared};
use crate::roles::digest_of_roles;
use bytes::{Buf, Bytes, BytesMut};
use fallible_iterator::FallibleIterator;
use history::{Epoch, Incarnation, LoadTime, Lsn, Snapshot, Xid};
use postgres_protocol::message::backend::{DataRowBody, Message};

/// The name under which the gauge is prepared.
const STATEMENT: &str = "gauge";
/// The name under which the gauge with a digest of the roles is prepared.
const STATEMENT_WITH_ROLES: &str = "gauge_with_roles";

/// The gauge itself. A standby's answer never becomes one: its snapshot omits running transactions.
macro_rules! look {
    () => {
        "SELECT pg_current_snapshot(), pg_current_wal_insert_lsn(), pg_is_in_recovery(), pg_conf_load_time()"
    };
}
const LOOK: &str = look!();
/// What a process that begins now inherits: when the first process of the server has read the files last.
const LOADED_FIRST: &str =
    "SELECT (extract(epoch FROM pg_conf_load_time()) * 1000000)::bigint - 946684800000000";
/// The same snapshot sees the roles.
const LOOK_WITH_ROLES: &str = concat!(look!(), ", ", digest_of_roles!());
/// Bytes of a page of the log.
const PAGE_BYTES: u64 = 8192;
/// The header of a page (`SizeOfXLogShortPHD`).
const PAGE_HEADER_BYTES: u64 = 24;
/// The header of a segment's first page (`SizeOfXLogLongPHD`).
const SEGMENT_HEADER_BYTES: u64 = 40;

/// One look at the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// The life of the primary that answered.
    pub incarnation: Incarnation,
    /// What had finished.
    pub snapshot: Snapshot,
    /// The end of the last record written to the log, at or behind everything that the snapshot sees.
    pub insert_lsn: Lsn,
    /// When the process that answered has last read the configuration.
    pub loaded: LoadTime,
}

/// A connection at the primary that does nothing but gauges.
pub struct Gauger {
    link: Link,
    sighting: Sighting,
    request: BytesMut,
    request_with_roles: BytesMut,
}

/// When the first process of the server has read the configuration last: what a connection that begins now inherits.
///
/// # Errors
/// As every connection.
pub async fn loaded_first(address: &Address) -> Result<LoadTime, Error> {
    let rows = Link::connect(address, "").await?.query(LOADED_FIRST).await?;
    let said = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
    said.map(LoadTime::new)
        .ok_or_else(|| Error::Protocol("the server does not say when it was configured".to_owned()))
}

impl Gauger {
    /// Connects, reads the incarnation and prepares the gauge.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the server is in recovery; otherwise as every connection.
    pub async fn connect(address: &Address, epoch: Epoch) -> Result<Gauger, Error> {
        // Its only commit is the one of `flush`, which waits for no standby.
        let mut link = Link::connect(address, "-c synchronous_commit=local -c jit=off").await?;
        let sighting = Sighting::read(&mut link, epoch).await?;
        if sighting.in_recovery {
            return Err(Error::Protocol(format!("{address} is a standby, not the primary")));
        }
        link.prepare(STATEMENT, LOOK).await?;
        link.prepare(STATEMENT_WITH_ROLES, LOOK_WITH_ROLES).await?;
        let (request, request_with_roles) = (run_prepared(STATEMENT), run_prepared(STATEMENT_WITH_ROLES));
        Ok(Gauger { link, sighting, request, request_with_roles })
    }

    /// The life of the primary that this connection belongs to.
    pub fn sighting(&self) -> &Sighting {
        &self.sighting
    }

    /// One gauge, in one round trip.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the server is in recovery after all; [`Error::Unreachable`] if it went away: connect anew.
    pub async fn gauge(&mut self) -> Result<Gauge, Error> {
        self.look(false).await.map(|(gauge, _)| gauge)
    }

    /// One gauge, and the digest of what is the whole server's (see [`crate::roles`]), in the same snapshot.
    ///
    /// # Errors
    /// As [`Gauger::gauge`]; [`Error::Refused`] with 42501 if the role may not read `pg_authid`.
    pub async fn gauge_with_roles(&mut self) -> Result<(Gauge, u64), Error> {
        let (gauge, roles) = self.look(true).await?;
        let none = || Error::Protocol("the gauge has no digest of the roles".to_owned());
        Ok((gauge, roles.ok_or_else(none)?))
    }

    async fn look(&mut self, with_roles: bool) -> Result<(Gauge, Option<u64>), Error> {
        let request = if with_roles { &self.request_with_roles } else { &self.request };
        let mut look = None;
        self.link
            .ask(request, |message| {
                if let Message::DataRow(row) = message {
                    look = Some(read(&row)?);
                }
                Ok(())
            })
            .await?;
        let Some(Look { snapshot, insert_lsn, in_recovery: false, loaded, roles }) = look else {
            return Err(Error::Protocol("the primary's answer is no gauge".to_owned()));
        };
        let insert_lsn = end_of_last_record(insert_lsn, self.sighting.segment_bytes);
        Ok((Gauge { incarnation: self.sighting.incarnation, snapshot, insert_lsn, loaded }, roles))
    }

    /// Makes the log durable up to now by one small commit. An unfinished transaction's records are flushed by nobody
    /// else for seconds: a gauge that waits for the decoder to come to its position waits no longer than this takes.
    ///
    /// # Errors
    /// The server's own.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.link.query("SELECT pg_logical_emit_message(true, 'consort', '')").await.map(drop)
    }
}

struct Look {
    snapshot: Snapshot,
    insert_lsn: Lsn,
    in_recovery: bool,
    loaded: LoadTime,
    roles: Option<u64>,
}

/// The columns in their binary forms.
fn read(row: &DataRowBody) -> Result<Look, Error> {
    let wrong = || Error::Protocol("the gauge's row is malformed".to_owned());
    let mut ranges = row.ranges();
    let mut column = || -> Result<Bytes, Error> {
        Ok(row.buffer_bytes().slice(ranges.next()?.flatten().ok_or_else(wrong)?))
    };
    let (snapshot, mut lsn, mut in_recovery, mut loaded) = (column()?, column()?, column()?, column()?);
    let roles = match column() {
        Ok(mut roles) => Some(roles.try_get_u64().map_err(|_| wrong())?),
        Err(_) => None,
    };
    Ok(Look {
        roles,
        snapshot: read_snapshot(snapshot).ok_or_else(wrong)?,
        insert_lsn: Lsn::new(lsn.try_get_u64().map_err(|_| wrong())?),
        in_recovery: in_recovery.try_get_u8().map_err(|_| wrong())? != 0,
        loaded: LoadTime::new(loaded.try_get_i64().map_err(|_| wrong())?),
    })
}

/// `pg_snapshot` as its send function writes it: the number of running transactions, xmin, xmax, the running ones.
fn read_snapshot(mut bytes: Bytes) -> Option<Snapshot> {
    let count = usize::try_from(bytes.try_get_u32().ok()?).ok()?;
    let xmin = bytes.try_get_u64().ok()?;
    let xmax = bytes.try_get_u64().ok()?;
    if bytes.len() != count * 8 {
        return None;
    }
    let running: Vec<Xid> = (0..count).map(|_| Xid::new(bytes.get_u64())).collect();
    running
        .iter()
        .all(|xid| (xmin..xmax).contains(&xid.get()))
        .then(|| Snapshot::new(Xid::new(xmax), running))
}

/// At the start of a page the server names the place behind the page's header, where the next record will start; the
/// last record ended before the header. Nothing lies between, and on a quiet server nobody would ever come to decode
/// "up to behind the header".
fn end_of_last_record(insert: Lsn, segment_bytes: u64) -> Lsn {
    let header = match insert.get() % segment_bytes {
        offset if offset < PAGE_BYTES => SEGMENT_HEADER_BYTES,
        _ => PAGE_HEADER_BYTES,
    };
    let offset = insert.get() % PAGE_BYTES;
    Lsn::new(if offset == header { insert.get() - header } else { insert.get() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;

    #[test]
    fn a_position_behind_a_page_header_is_the_end_of_the_page_before() {
        const SEGMENT: u64 = 16 << 20;
        for (insert, end) in [
            (SEGMENT + 40, SEGMENT),
            (SEGMENT + 24, SEGMENT + 24),
            (SEGMENT + 8192 + 24, SEGMENT + 8192),
            (SEGMENT + 8192 + 40, SEGMENT + 8192 + 40),
            (SEGMENT + 100, SEGMENT + 100),
        ] {
            assert_eq!(end_of_last_record(Lsn::new(insert), SEGMENT), Lsn::new(end), "{insert:x}");
        }
    }

    #[test]
    fn binary_snapshots() {
        let mut bytes = BytesMut::new();
        bytes.put_u32(2);
        for xid in [10, 20, 10, 14] {
            bytes.put_u64(xid);
        }
        assert_eq!(read_snapshot(bytes.clone().freeze()).unwrap().to_string(), "10:20:10,14");
        assert_eq!(read_snapshot(bytes.split_to(20).freeze()), None);
    }
}
