//! The watcher of one standby: queries its replay position repeatedly.
//!
//! The reported position is the *low* of a proof at this standby: a commit whose record ends at or below it
//! is surely in every snapshot taken later in the same incarnation.

use crate::Error;
use crate::address::Address;
use crate::incarnation::{NEWEST_HISTORY, Sighting};
use crate::link::{Link, run_prepared};
use crate::timelines::Proof;
use bytes::{Buf, BytesMut};
use fallible_iterator::FallibleIterator;
use history::{Epoch, Lsn};
use postgres_protocol::message::backend::Message;

/// Name of the prepared query of the replay position, null at a primary.
const STATEMENT: &str = "replayed";
const POSITION: &str =
    "SELECT CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn(), '0/0') END";
/// Name of the prepared query that also requires the proof of the standby's history.
const PROVEN: &str = "replayed_as_proven";

/// Query of the position, with null instead as soon as the proof does not hold any more. The receiver is read
/// after the position: everything replayed by then came from it, or from before. A receiver reports the
/// timeline that it is about to receive before any of its WAL comes; a standby without one takes it from an
/// archive, its history file first.
fn position(proof: &Proof) -> String {
    let Proof { reach, follows, receiver, .. } = proof;
    format!(
        "SELECT CASE WHEN pg_is_in_recovery() AND p <= '{reach}' AND ( \
           SELECT CASE WHEN r.pid IS NULL THEN coalesce({NEWEST_HISTORY}, 0) <= {follows} \
                       ELSE r.pid = {receiver} AND r.received_tli <= {follows} END \
             FROM pg_stat_get_wal_receiver() r) THEN p END \
         FROM (SELECT coalesce(pg_last_wal_replay_lsn(), '0/0') AS p OFFSET 0) AS at",
        follows = follows.get(),
        receiver = receiver.unwrap_or_default()
    )
}

/// A connection at a standby.
pub struct Watcher {
    link: Link,
    sighting: Sighting,
    request: BytesMut,
    proofs: u32,
}

impl Watcher {
    /// Connects, reads the incarnation and prepares the query.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the server is no standby; otherwise as every connection.
    pub async fn connect(address: &Address, epoch: Epoch) -> Result<Watcher, Error> {
        let mut link = Link::connect(address, "-c jit=off").await?;
        let sighting = Sighting::read(&mut link, epoch).await?;
        if !sighting.in_recovery {
            return Err(Error::Protocol(format!("{address} is not a standby")));
        }
        link.prepare(STATEMENT, POSITION).await?;
        Ok(Watcher { link, sighting, request: run_prepared(STATEMENT), proofs: 0 })
    }

    /// Reports a position from now on only while this proof holds. This incarnation of the standby is on the
    /// timeline of the proof.
    ///
    /// # Errors
    /// As every query.
    pub async fn hold_to(&mut self, proof: &Proof) -> Result<(), Error> {
        self.proofs += 1;
        let name = format!("{PROVEN}_{}", self.proofs);
        self.link.prepare(&name, &position(proof)).await?;
        self.request = run_prepared(&name);
        self.sighting.incarnation.timeline = proof.timeline;
        Ok(())
    }

    /// The incarnation of the standby that this connection belongs to.
    pub fn sighting(&self) -> &Sighting {
        &self.sighting
    }

    /// Returns the standby's replay position, in one round trip. Within one connection the answers never go
    /// back.
    ///
    /// # Errors
    /// [`Error::Protocol`] if it was promoted, or the proof of its history does not hold any more;
    /// [`Error::Unreachable`] if it went away. In both cases connect again.
    pub async fn replayed(&mut self) -> Result<Lsn, Error> {
        let mut position = None;
        self.link
            .ask(&self.request, |message| {
                if let Message::DataRow(row) = message {
                    let range = row.ranges().next()?.flatten();
                    position = range.and_then(|range| (&row.buffer()[range]).try_get_u64().ok());
                }
                Ok(())
            })
            .await?;
        position.map(Lsn::new).ok_or_else(|| {
            Error::Protocol(
                "the server is not a standby any more, or replays WAL of another server".to_owned(),
            )
        })
    }

    /// Returns the standby's received position; a standby that receives nothing reports its last one.
    ///
    /// # Errors
    /// As [`Watcher::replayed`].
    pub async fn received(&mut self) -> Result<Lsn, Error> {
        let rows = self.link.query("SELECT pg_catalog.pg_last_wal_receive_lsn()").await?;
        let value = rows.first().and_then(|row| row.first()?.as_deref());
        Ok(value.and_then(|text| text.parse().ok()).unwrap_or_default())
    }
}
