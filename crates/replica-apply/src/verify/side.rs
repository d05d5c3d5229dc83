//! One server's snapshot, held open by a connection.

use super::table::Table;
use super::{Sum, table};
use crate::clone::lockable;
use history::Snapshot;
use postgres::Error;
use postgres::address::{Address, Control};
use postgres::decoder::SETTINGS;
use postgres::link::{Link, Rows};

/// No timeout ends the session, and a statement whose client is gone ends soon. Sessions that wait for our
/// locks must not wait for long.
const SESSION: &str = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0 \
     -c client_connection_check_interval=1s -c client_min_messages=error -c lock_timeout=2s \
     -c jit=off";

/// One server's state, in a transaction that reads.
pub struct Side {
    link: Link,
}

impl Side {
    /// Connects and begins the transaction. Its snapshot is not taken yet.
    ///
    /// # Errors
    /// As every connection.
    pub async fn open(address: &Address) -> Result<Side, Error> {
        let mut link = Link::connect(address, &format!("{SETTINGS} {SESSION}")).await?;
        link.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        Ok(Side { link })
    }

    /// Takes the snapshot, if none is taken: from now on the server's state is the one of this moment.
    ///
    /// # Errors
    /// As every query.
    pub async fn look(&mut self) -> Result<Snapshot, Error> {
        let rows = self.ask("SELECT pg_current_snapshot()").await?;
        let snapshot = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        snapshot.ok_or_else(|| Error::Protocol("cannot parse the server's snapshot".to_owned()))
    }

    /// Asks in the transaction, which goes on if the server refuses.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<Rows, Error> {
        let asked = self.link.query(&format!("SAVEPOINT asked; {sql}; RELEASE asked")).await;
        if matches!(asked, Err(Error::Refused { .. })) {
            self.link.query("ROLLBACK TO asked").await?;
        }
        asked
    }

    /// Sum of the rows of a table that match a condition (`WHERE ..`).
    pub(super) async fn sum(&mut self, table: &Table, condition: &str) -> Result<Sum, Error> {
        let (hash, name) = (table.hash(), table.name());
        let sql = format!("SELECT count(*), coalesce(sum({hash}), 0) FROM ONLY {name} {condition}");
        let rows = self.ask(&sql).await?;
        let values = rows.first().and_then(|row| Some((row.first()?.as_ref()?, row.get(1)?.clone()?)));
        let sum = values.and_then(|(rows, hashes)| Some(Sum { rows: rows.parse().ok()?, hashes }));
        sum.ok_or_else(super::not_understood)
    }
}

/// The primary before its snapshot is taken, with locks on all of its tables: TRUNCATE and ALTER TABLE do away with rows that
/// an older snapshot sees, so they wait meanwhile.
pub struct Source {
    side: Side,
    locked: Vec<String>,
}

impl Source {
    /// Connects and locks.
    ///
    /// # Errors
    /// [`Error::Refused`] with 55P03 if a table could not be locked in time: try again. Otherwise as every connection.
    pub async fn lock(primary: &Address) -> Result<Source, Error> {
        let mut side = Side::open(primary).await?;
        // LOCK TABLE takes no snapshot; the first query does, so another connection lists the tables.
        let locked = lockable(&Control::connect(primary).await?).await?;
        if !locked.is_empty() {
            side.link.query(&format!("LOCK TABLE {} IN ACCESS SHARE MODE", locked.join(", "))).await?;
        }
        Ok(Source { side, locked })
    }

    /// Takes the snapshot.
    ///
    /// # Errors
    /// [`Error::NotReady`] if a table was made meanwhile; otherwise as every query.
    pub async fn look(self) -> Result<(Side, Snapshot), Error> {
        let Source { mut side, locked } = self;
        let snapshot = side.look().await?;
        if table::with_rows(&mut side).await?.iter().any(|name| !locked.contains(name)) {
            return Err(Error::NotReady("a table was created while the comparison began".to_owned()));
        }
        Ok((side, snapshot))
    }
}
