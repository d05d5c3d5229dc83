//! A look at one standby, again and again: how far it has replayed.
//!
//! What has been heard here is the *low* of a proof at this standby: a commit whose record ends at or below it is surely
//! in every snapshot taken later in the same incarnation.

use crate::Error;
use crate::address::Address;
use crate::incarnation::{NEWEST_HISTORY, Sighting};
use crate::link::{Link, run_prepared};
use bytes::{Buf, BytesMut};
use fallible_iterator::FallibleIterator;
use history::{Epoch, Lsn, Timeline};
use postgres_protocol::message::backend::Message;

const STATEMENT: &str = "replayed";
/// The position, and null instead of one as soon as the server is no standby of this timeline any more. A receiver says which
/// one it is about to receive before anything of it comes; one that has none takes it from an archive, its history file first.
fn position(timeline: Timeline) -> String {
    let timeline = timeline.get();
    format!(
        "SELECT CASE WHEN pg_is_in_recovery() \
           AND coalesce((SELECT r.received_tli FROM pg_stat_get_wal_receiver() r), {NEWEST_HISTORY}, 0) <= {timeline} \
           THEN coalesce(pg_last_wal_replay_lsn(), '0/0') END"
    )
}

/// A connection at a standby.
pub struct Watcher {
    link: Link,
    sighting: Sighting,
    request: BytesMut,
}

impl Watcher {
    /// Connects, reads the incarnation and prepares the question.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the server is no standby; otherwise as every connection.
    pub async fn connect(address: &Address, epoch: Epoch) -> Result<Watcher, Error> {
        let mut link = Link::connect(address, "-c jit=off").await?;
        let sighting = Sighting::read(&mut link, epoch).await?;
        if !sighting.in_recovery {
            return Err(Error::Protocol(format!("{address} is no standby")));
        }
        link.prepare(STATEMENT, &position(sighting.incarnation.timeline)).await?;
        Ok(Watcher { link, sighting, request: run_prepared(STATEMENT) })
    }

    /// The life of the standby that this connection belongs to.
    pub fn sighting(&self) -> &Sighting {
        &self.sighting
    }

    /// How far it has replayed, in one round trip. Within one connection the answers never go back.
    ///
    /// # Errors
    /// [`Error::Protocol`] if it was promoted, or what it follows; [`Error::Unreachable`] if it went away. In both cases connect
    /// anew.
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
            Error::Protocol("the server is no standby any more, or follows another timeline".to_owned())
        })
    }

    /// How far it has received; a standby that receives nothing says what it last had.
    ///
    /// # Errors
    /// As [`Watcher::replayed`].
    pub async fn received(&mut self) -> Result<Lsn, Error> {
        let rows = self.link.query("SELECT pg_catalog.pg_last_wal_receive_lsn()").await?;
        let value = rows.first().and_then(|row| row.first()?.as_deref());
        Ok(value.and_then(|text| text.parse().ok()).unwrap_or_default())
    }
}
