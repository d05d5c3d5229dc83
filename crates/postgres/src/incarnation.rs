//! The incarnation of a server that a connection speaks to, read right after every log-in.

use crate::Error;
use crate::link::Link;
use history::{Epoch, Incarnation, Timeline};

/// A server's description of itself right after a log-in. The description holds as long as the connection: a
/// recovery under the same postmaster, a restart and a fail-over all close it. Only the timeline that a
/// standby replays may change silently: [`Watcher`](crate::watcher::Watcher) checks for that, and
/// [`timelines`](crate::timelines) report the replayed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Incarnation of the server.
    pub incarnation: Incarnation,
    /// True if it was a standby.
    pub in_recovery: bool,
    /// The cluster's system identifier, the same at a primary and its physical standbys.
    pub system: u64,
    /// Bytes of a segment of its WAL.
    pub segment_bytes: u64,
}

macro_rules! newest_history {
    () => {
        "(SELECT max(('x' || substr(name, 1, 8))::bit(32)::integer) FROM pg_ls_waldir() \
           WHERE name ~ '^[0-9A-F]{8}\\.history$')"
    };
}

/// SQL of the newest timeline whose history the server has; null if there was none but the first.
pub(crate) const NEWEST_HISTORY: &str = newest_history!();

/// Query of the start of the process that every recovery starts again. At a primary the timeline is the one
/// it writes, at a standby the highest that it knows. (The receiver's value goes with the receiver; that of
/// pg_control comes with the next restart point.)
const LOOK: &str = concat!(
    "SELECT pg_is_in_recovery(), \
    (SELECT system_identifier FROM pg_control_system()), \
    CASE WHEN pg_is_in_recovery() \
      THEN greatest((SELECT timeline_id FROM pg_control_checkpoint()), \
                    (SELECT received_tli FROM pg_stat_wal_receiver), ",
    newest_history!(),
    ")::text \
      ELSE 'x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END, \
    (SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity \
      WHERE backend_type = CASE WHEN pg_is_in_recovery() THEN 'startup' ELSE 'checkpointer' END), \
    (SELECT setting FROM pg_settings WHERE name = 'wal_segment_size')"
);

impl Sighting {
    /// The query, for any connection right after its log-in; one row of five texts answers it.
    pub const QUERY: &str = LOOK;

    /// Reads the sighting on a connection.
    ///
    /// # Errors
    /// As [`Sighting::from_row`].
    pub async fn read(link: &mut Link, epoch: Epoch) -> Result<Sighting, Error> {
        let rows = link.query(Sighting::QUERY).await?;
        Sighting::from_row(rows.first().map_or(&[], Vec::as_slice), epoch)
    }

    /// Parses the answer to [`Sighting::QUERY`], each column as text.
    ///
    /// # Errors
    /// [`Error::NotReady`] if the process is not there: the server is restarting, or the role may not see it.
    pub fn from_row(row: &[Option<String>], epoch: Epoch) -> Result<Sighting, Error> {
        let value = |column: usize| row.get(column)?.as_deref();
        let Some(started_us) = value(3).and_then(|text| text.parse().ok()) else {
            return Err(Error::NotReady(
                "the server does not show the start of its checkpointer or startup process: it is recovering, or the \
                 role lacks pg_read_all_stats"
                    .to_owned(),
            ));
        };
        let number = |column: usize| value(column).and_then(|text| text.parse::<u64>().ok());
        let timeline = value(2).and_then(|text| match text.strip_prefix('x') {
            Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok(),
            None => text.parse().ok(),
        });
        let wrong = || {
            Error::Protocol("cannot parse the server's start time, timeline and system identifier".to_owned())
        };
        Ok(Sighting {
            incarnation: Incarnation {
                epoch,
                timeline: Timeline::new(timeline.ok_or_else(wrong)?),
                started_us,
            },
            in_recovery: value(0) == Some("t"),
            system: number(1).ok_or_else(wrong)?,
            segment_bytes: number(4).ok_or_else(wrong)?,
        })
    }
}
