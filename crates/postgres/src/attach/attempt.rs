//! One attempt to attach a database. A failed or interrupted attempt leaves no objects.

use super::{detach, find_slot, slot_here};
use crate::Error;
use crate::address::Control;
use crate::objects::PUBLICATION;
use std::time::Duration;

/// Maximum wait for the end of an interrupted attempt's backend.
const END_LIMIT: Duration = Duration::from_secs(5);

/// An attempt to attach the database of a connection.
#[derive(Debug)]
pub struct Attempt {
    /// Backend of the connection, by process number and start.
    backend: (i32, String),
    /// True if neither slot nor publication existed before: the database was of no use to Consort.
    found_nothing: bool,
}

/// Outcome of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// All objects of the attempt are removed.
    Removed,
    /// The database had been attached before, if not wholly, or was attached concurrently: its objects stay.
    Kept,
}

impl Attempt {
    /// Begins an attempt on this connection.
    ///
    /// # Errors
    /// As every query.
    pub async fn begin(control: &Control) -> Result<Attempt, Error> {
        let (_, slot) = slot_here(control).await?;
        let backend = "SELECT pid, backend_start::text, EXISTS (SELECT FROM pg_publication WHERE pubname = $1) \
             FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let row = control.query_one(backend, &[&PUBLICATION]).await?;
        let found_nothing = !row.get::<_, bool>(2) && find_slot(control, &slot).await?.is_none();
        Ok(Attempt { backend: (row.get(0), row.get(1)), found_nothing })
    }

    /// Ends the attempt's connection, and removes the objects of the attempt. `made_slot`: the slot is one of
    /// them.
    ///
    /// # Errors
    /// As [`detach`].
    pub async fn undo(self, other: &Control, made_slot: bool) -> Result<Undone, Error> {
        let (pid, since) = &self.backend;
        let end = "SELECT pg_terminate_backend(pid, $3) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2";
        let limit = i64::try_from(END_LIMIT.as_millis()).unwrap_or(i64::MAX);
        other.query(end, &[pid, since, &limit]).await?;
        let (_, slot) = slot_here(other).await?;
        if !self.found_nothing || !made_slot && find_slot(other, &slot).await?.is_some() {
            return Ok(Undone::Kept);
        }
        detach(other).await?;
        Ok(Undone::Removed)
    }
}
