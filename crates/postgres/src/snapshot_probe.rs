//! The snapshot probe of the primary: its snapshot and then its position in the WAL.
//!
//! The position is evaluated after the snapshot was taken, so it lies after everything that the snapshot
//! sees. A probe counts only within its incarnation; the connection dies with it, so the incarnation is read
//! once per connection. The probe also reports reloads of the configuration: the time at which its own
//! backend last read the files.

use crate::Error;
use crate::address::Address;
use crate::incarnation::Sighting;
use crate::link::{Link, run_prepared};
use crate::roles::{IS_SUPERUSER, digest_of_roles};
use bytes::{Buf, Bytes, BytesMut};
use fallible_iterator::FallibleIterator;
use history::{Epoch, Incarnation, LoadTime, Lsn, Snapshot, Xid};
use postgres_protocol::message::backend::{DataRowBody, Message};

/// Name of the probe's prepared statement.
const STATEMENT: &str = "gauge";
/// Name of the prepared statement of the probe with a digest of the roles.
const STATEMENT_WITH_ROLES: &str = "gauge_with_roles";

/// SQL of the probe. A standby's answer never becomes a probe: its snapshot omits running transactions.
const LOOK: &str =
    "SELECT pg_current_snapshot(), pg_current_wal_insert_lsn(), pg_is_in_recovery(), pg_conf_load_time()";
/// SQL of the load time that a new backend inherits: the time at which the server's first process last read
/// the files.
const LOADED_FIRST: &str =
    "SELECT (extract(epoch FROM pg_conf_load_time()) * 1000000)::bigint - 946684800000000";
/// Bytes of a WAL page.
const PAGE_BYTES: u64 = 8192;
/// Bytes of the header of a page (`SizeOfXLogShortPHD`).
const PAGE_HEADER_BYTES: u64 = 24;
/// Bytes of the header of a segment's first page (`SizeOfXLogLongPHD`).
const SEGMENT_HEADER_BYTES: u64 = 40;

/// Result of one snapshot probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// The incarnation of the primary that answered.
    pub incarnation: Incarnation,
    /// Transactions that had finished.
    pub snapshot: Snapshot,
    /// The end of the last record written to the WAL, at or after everything that the snapshot sees.
    pub insert_lsn: Lsn,
    /// Time at which the answering backend last read the configuration.
    pub loaded: LoadTime,
}

/// A connection at the primary for snapshot probes alone.
pub struct Gauger {
    link: Link,
    sighting: Sighting,
    request: BytesMut,
    request_with_roles: BytesMut,
}

/// Returns the time at which the first process of the server last read the configuration, which a new
/// connection inherits.
///
/// # Errors
/// As every connection.
pub async fn loaded_first(address: &Address) -> Result<LoadTime, Error> {
    let rows = Link::connect(address, "").await?.query(LOADED_FIRST).await?;
    let said = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
    said.map(LoadTime::new).ok_or_else(|| {
        Error::Protocol("the server does not report when it loaded its configuration".to_owned())
    })
}

impl Gauger {
    /// Connects, reads the incarnation and prepares the probe.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the server is in recovery; otherwise as every connection.
    pub async fn connect(address: &Address, epoch: Epoch) -> Result<Gauger, Error> {
        // The only commit of this connection is that of `flush`, which waits for no standby.
        let mut link = Link::connect(address, "-c synchronous_commit=local -c jit=off").await?;
        let sighting = Sighting::read(&mut link, epoch).await?;
        if sighting.in_recovery {
            return Err(Error::Protocol(format!("{address} is a standby, not the primary")));
        }
        link.prepare(STATEMENT, LOOK).await?;
        let is_superuser = link.query(IS_SUPERUSER).await?;
        let is_superuser = is_superuser.into_iter().flatten().flatten().next().as_deref() == Some("t");
        // Probe and digest share one snapshot.
        let with_roles = format!("{LOOK}, {}", digest_of_roles(is_superuser));
        link.prepare(STATEMENT_WITH_ROLES, &with_roles).await?;
        let (request, request_with_roles) = (run_prepared(STATEMENT), run_prepared(STATEMENT_WITH_ROLES));
        Ok(Gauger { link, sighting, request, request_with_roles })
    }

    /// The incarnation of the primary that this connection belongs to.
    pub fn sighting(&self) -> &Sighting {
        &self.sighting
    }

    /// Completes when the primary has closed the connection, between two probes.
    pub async fn lost(&mut self) -> Error {
        self.link.lost().await
    }

    /// Runs one probe, in one round trip.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the server is in recovery after all; [`Error::Unreachable`] if it went away:
    /// connect again.
    pub async fn gauge(&mut self) -> Result<Gauge, Error> {
        self.look(false).await.map(|(gauge, _)| gauge)
    }

    /// Runs one probe, together with the digest of the server-wide catalogs (see [`crate::roles`]), in the
    /// same snapshot.
    ///
    /// # Errors
    /// As [`Gauger::gauge`].
    pub async fn gauge_with_roles(&mut self) -> Result<(Gauge, u64), Error> {
        let (gauge, roles) = self.look(true).await?;
        let none = || Error::Protocol("the snapshot probe lacks the digest of the roles".to_owned());
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
            return Err(Error::Protocol("unexpected answer to the snapshot probe".to_owned()));
        };
        let insert_lsn = end_of_last_record(insert_lsn, self.sighting.segment_bytes);
        Ok((Gauge { incarnation: self.sighting.incarnation, snapshot, insert_lsn, loaded }, roles))
    }

    /// Makes the WAL durable up to now by one small commit. No other process flushes an unfinished
    /// transaction's records for seconds. A probe that waits for the decoder to reach its position waits no
    /// longer than this takes.
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

/// Reads the columns in their binary forms.
fn read(row: &DataRowBody) -> Result<Look, Error> {
    let wrong = || Error::Protocol("malformed row of the snapshot probe".to_owned());
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

/// Reads `pg_snapshot` as its send function writes it: the number of running transactions, xmin, xmax, the
/// running ones.
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

/// Returns the end of the last record. At the start of a page the server names the position after the page's
/// header, where the next record will start; the last record ended before the header. Nothing lies between,
/// and on a quiet server the decoder would never reach "the position after the header".
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
